"""In which order the heads of the queues are let in."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.model.entry import Entry
    from mooring.policy.kueue.cycle import Nominee
    from mooring.policy.kueue.scene import Scene
    from mooring.policy.kueue.tally import Tally
    from mooring.policy.queues.share import DominantShare


class HasTally(Protocol):
    """A cycle: its use changes as heads are let in."""

    def standing(self) -> Tally:
        """Return use with those who are on their way out."""


def in_order(scene: Scene, cycle: HasTally, nominees: Sequence[Nominee]) -> Iterator[Nominee]:
    """Yield the heads, each when the one before has been dealt with."""
    if not scene.strategies:
        yield from sorted(nominees, key=lambda n: (n.answer.found.distance, *_age(scene, n.entry)))
        return
    left = list(nominees)
    roots = dict.fromkeys(scene.cohorts.root[nominee.queue] for nominee in left)
    for root in roots:
        while any(scene.cohorts.root[nominee.queue] == root for nominee in left):
            winner = _Tournament(scene, cycle.standing(), left).run(root)
            left.remove(winner)
            yield winner


def _age(scene: Scene, entry: Entry) -> tuple[int, float, int]:
    return -scene.desk.priority(entry), entry.workload.submitted_at, entry.sequence


class _Tournament:
    """Every cohort sends the one of its heads whose side would have the smallest share."""

    def __init__(self, scene: Scene, tally: Tally, nominees: Sequence[Nominee]) -> None:
        self.scene = scene
        self.cohorts = scene.cohorts
        self.by_queue = {nominee.queue: nominee for nominee in nominees}
        self.shares: dict[tuple[int, Nominee], DominantShare] = {}
        """Of the child of a cohort that a head is in, with the head let in."""
        for nominee in nominees:
            tally.add(nominee.queue, nominee.request)
            path = self.cohorts.tree.path[nominee.queue]
            for child, cohort in pairwise(path):
                self.shares[cohort, nominee] = tally.share(child)
            tally.add(nominee.queue, nominee.request, -1)

    def run(self, root: int) -> Nominee:
        winner = self._winner(root)
        assert winner is not None
        return winner

    def _winner(self, node: int) -> Nominee | None:
        if not self.cohorts.is_cohort(node):
            return self.by_queue.get(node)
        found = [self._winner(child) for child in self.cohorts.children[node]]
        some = [nominee for nominee in found if nominee is not None]
        return min(some, key=lambda nominee: self._key(node, nominee), default=None)

    def _key(self, cohort: int, nominee: Nominee) -> tuple[bool, DominantShare, int, float, int]:
        share = self.shares[cohort, nominee]
        borrows = any(nominee.request.get(pair) for pair in share.borrows)
        return borrows, share, *_age(self.scene, nominee.entry)

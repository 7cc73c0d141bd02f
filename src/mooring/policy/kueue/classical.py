"""Who must leave where shares are not compared: by place in the tree, and by priority.

Three pools: *hierarchy* (the quota that a candidate uses is nearer to the one who asks), *priority*
(it is not: then only within limits while borrowing), and its *own* queue. Candidates leave in
order until the one who asks fits; then, in reverse, whoever is not needed after all comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from mooring.policy.kueue.scene import NEVER, Need, Runner, Scene, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.policy.kueue.tally import Tally

PREEMPT = "preempt"
QUOTA = "quota"
WHILE_BORROWING = "while-borrowing"


class _Right(Enum):
    OWN = auto()
    HIERARCHY = auto()
    NOT_BORROWING = auto()
    """Only if the one who asks does not borrow in the end."""
    BORROWING = auto()


_CAUSES = {
    _Right.OWN: PREEMPT,
    _Right.HIERARCHY: QUOTA,
    _Right.NOT_BORROWING: QUOTA,
    _Right.BORROWING: WHILE_BORROWING,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    runner: Runner
    right: _Right
    meets: int
    """The first cohort around both."""


def classical_targets(scene: Scene, need: Need) -> list[Target]:
    """Return who must leave for a need; nobody: it cannot be met."""
    return _Classical(scene, need).run()


def fill_back(need: Need, tally: Tally, taken: list[Target], *, borrowing: bool) -> list[Target]:
    """Let come back, last first, whoever is not needed; the very last one is."""
    left = list(taken)
    for target in reversed(taken[:-1]):
        tally.add(target.runner.queue, target.runner.size)
        without = [other for other in left if other is not target]
        if need.is_met(tally, [other.runner for other in without], borrowing=borrowing):
            left = without
        else:
            tally.add(target.runner.queue, target.runner.size, -1)
    return left


class _Classical:
    def __init__(self, scene: Scene, need: Need) -> None:
        self.scene = scene
        self.need = need
        self.own = need.cluster_queue
        self.cohorts = scene.cohorts
        self.may_borrow, self.threshold = scene.borrowing_threshold(self.own)

    def run(self) -> list[Target]:
        hierarchy, priority = self._others()
        pools = [self._sorted(pool) for pool in (hierarchy, priority, self._own())]
        order = [candidate for pool in pools for candidate in pool]
        for borrowing in self._attempts(hierarchy, priority):
            found = self._attempt(order, borrowing=borrowing)
            if found:
                return found
        return []

    def _sorted(self, pool: list[_Candidate]) -> list[_Candidate]:
        by_runner = {candidate.runner: candidate for candidate in pool}
        return [by_runner[runner] for runner in self.scene.in_order(by_runner, self.own)]

    # -- pools ------------------------------------------------------------------------------

    def _own(self) -> list[_Candidate]:
        if self.scene.within_queue(self.own) == NEVER:
            return []
        return list(self._candidates(self.own, self.own, has_advantage=False))

    def _others(self) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return the candidates of other queues: over whom it has an advantage, and the rest."""
        hierarchy: list[_Candidate] = []
        priority: list[_Candidate] = []
        if self.scene.reclaim(self.own) == NEVER:
            return hierarchy, priority
        tally = self.scene.tally
        before = self.own
        has_advantage, rest = tally.holds(self.own, self.need.request)
        for cohort in self.cohorts.above(self.own):
            pool = hierarchy if has_advantage else priority
            for queue in self._borrowers(cohort, before):
                pool += self._candidates(queue, cohort, has_advantage=has_advantage)
            takes, rest = tally.holds(cohort, rest)
            has_advantage = has_advantage or takes
            before = cohort
        return hierarchy, priority

    def _borrowers(self, cohort: int, before: int) -> Iterator[int]:
        """Yield the cluster queues below a cohort that borrow, as all between do; not `before`."""
        for child in self.cohorts.children[cohort]:
            if child == before or self.scene.tally.is_within(child, self.need.contested):
                continue
            if self.cohorts.is_cohort(child):
                yield from self._borrowers(child, before)
            else:
                yield child

    def _candidates(self, queue: int, meets: int, *, has_advantage: bool) -> Iterator[_Candidate]:
        scene, entry = self.scene, self.need.entry
        is_own = queue == self.own
        policy = scene.within_queue(queue) if is_own else scene.reclaim(self.own)
        for runner in scene.runners(queue):
            if runner.uses(self.need.contested) and scene.may_ask(entry, runner, policy):
                right = _Right.OWN if is_own else self._right(runner, has_advantage)
                yield _Candidate(runner, right, meets)

    def _right(self, runner: Runner, has_advantage: bool) -> _Right:
        if has_advantage:
            return _Right.HIERARCHY
        if not self.may_borrow:
            return _Right.NOT_BORROWING
        is_high = runner.priority >= self.scene.desk.priority(self.need.entry)
        if is_high or (self.threshold is not None and runner.priority > self.threshold):
            return _Right.NOT_BORROWING
        return _Right.BORROWING

    # -- attempts ---------------------------------------------------------------------------

    def _attempts(self, hierarchy: list[_Candidate], priority: list[_Candidate]) -> list[bool]:
        """Return whether it may borrow in the end, attempt by attempt."""
        nobody_else = not hierarchy and not priority
        if nobody_else or (not self.may_borrow and not self._is_under_quota()):
            return [True]
        if not self.may_borrow and not hierarchy:
            return [False, True]
        return [True, False]

    def _is_under_quota(self) -> bool:
        tally = self.scene.tally
        return all(
            tally.used(self.own, pair) < tally.nominal(self.own, pair)
            for pair in self.need.contested
        )

    def _attempt(self, order: list[_Candidate], *, borrowing: bool) -> list[Target]:
        tally = self.scene.tally.copy()
        taken: list[Target] = []
        for candidate in order:
            if not self._is_valid(candidate, tally, borrowing=borrowing):
                continue
            runner = candidate.runner
            tally.add(runner.queue, runner.size, -1)
            taken.append(Target(runner, _CAUSES[candidate.right]))
            if self.need.is_met(tally, [each.runner for each in taken], borrowing=borrowing):
                return fill_back(self.need, tally, taken, borrowing=borrowing)
        return []

    def _is_valid(self, candidate: _Candidate, tally: Tally, *, borrowing: bool) -> bool:
        """Return whether a candidate still has what it should not, now that others are gone."""
        if candidate.right is _Right.OWN:
            return True
        if borrowing and candidate.right is _Right.NOT_BORROWING:
            return False
        contested = self.need.contested
        for node in self.cohorts.tree.path[candidate.runner.cluster_queue]:
            if node == candidate.meets:
                return True
            if tally.is_within(node, contested):
                return False
        return True

"""One moment as profile `kueue` sees it: use, and the running work that could be asked to leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING

from mooring.model.entry import Entry
from mooring.policy.queues.lines import Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.queues import Queue
    from mooring.policy.desk import Desk
    from mooring.policy.kueue.tally import Cohorts, Tally

NEVER = "never"
LOWER = "lower-priority"
LOWER_OR_NEWER = "lower-or-newer"
ANY = "any"


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """A running workload."""

    entry: Entry
    queue: int
    cluster_queue: int
    size: Request
    """What it is charged."""
    priority: int
    since: float
    """When it was let in."""
    usage: float | None = None
    """What its local queue has used, where queues stand in line by that."""

    def uses(self, pairs: Iterable[int]) -> bool:
        """Return whether it is charged for any of some pairs."""
        return any(self.size.get(pair) for pair in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A running workload that is to leave, and why."""

    runner: Runner
    cause: str


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a workload needs others to make room for."""

    entry: Entry
    cluster_queue: int
    contested: frozenset[int]
    """Pairs of which there is too little."""
    request: Request
    proof: Callable[[Sequence[Runner]], bool] | None = None
    """Whether it has a place once these are gone; None: only quota counts."""

    def is_met(self, tally: Tally, gone: Sequence[Runner], *, borrowing: bool = True) -> bool:
        """Return whether it fits now that some are gone, in quota and in place."""
        if not tally.fits(self.cluster_queue, self.request, borrowing=borrowing):
            return False
        return self.proof is None or self.proof(gone)


class Scene:
    """Use and running work; nothing here changes them."""

    def __init__(self, desk: Desk, cohorts: Cohorts, tally: Tally, runners: list[Runner]) -> None:
        self.desk = desk
        self.cohorts = cohorts
        self.tally = tally
        self.strategies = desk.policy.fairness.strategies
        self._runners: dict[int, list[Runner]] = {}
        for runner in runners:
            self._runners.setdefault(runner.cluster_queue, []).append(runner)

    def over(self, tally: Tally) -> Scene:
        """Return the same running work over another use."""
        twin = object.__new__(Scene)
        twin.__dict__.update(self.__dict__)
        twin.tally = tally
        return twin

    def queue(self, cluster_queue: int) -> Queue:
        """Return a queue's rules."""
        return self.desk.tree.queues[cluster_queue]

    def runners(self, cluster_queue: int) -> list[Runner]:
        """Return the work of a cluster queue that could be asked to leave."""
        return self._runners.get(cluster_queue, [])

    def within_queue(self, cluster_queue: int) -> str:
        """Return whom work of a queue may ask to leave in the queue itself."""
        return self.queue(cluster_queue).eviction.within_queue or NEVER

    def reclaim(self, cluster_queue: int) -> str:
        """Return from whom a queue may take back what others borrowed."""
        return self.queue(cluster_queue).eviction.reclaim or NEVER

    def borrowing_threshold(self, cluster_queue: int) -> tuple[bool, int | None]:
        """Return whether a queue may displace others while it borrows, and up to which priority."""
        rules = self.queue(cluster_queue).eviction
        return (rules.while_borrowing or NEVER) != NEVER, rules.borrowing_threshold

    def may_ask(self, entry: Entry, runner: Runner, policy: str) -> bool:
        """Return whether a policy lets a workload ask another to leave."""
        mine = self.desk.priority(entry)
        if policy == LOWER:
            return mine > runner.priority
        if policy == LOWER_OR_NEWER:
            newer = entry.workload.submitted_at < runner.entry.workload.submitted_at
            return mine > runner.priority or (mine == runner.priority and newer)
        return policy == ANY

    def in_order(self, some: Iterable[Runner], cluster_queue: int) -> list[Runner]:
        """Return candidates for a queue's work in the order in which they are asked to leave."""

        def compare(one: Runner, other: Runner) -> int:
            is_own = one.cluster_queue == cluster_queue, other.cluster_queue == cluster_queue
            if is_own[0] != is_own[1]:
                return 1 if is_own[0] else -1
            heavier = _heavier(one, other)
            if heavier:
                return -heavier
            return -1 if _rank(one) < _rank(other) else 1

        return sorted(some, key=cmp_to_key(compare))


def _heavier(one: Runner, other: Runner) -> int:
    """Return 1 if the local queue of one has used more than that of the other, -1 if less."""
    if one.cluster_queue != other.cluster_queue or one.queue == other.queue:
        return 0
    if one.usage is None or other.usage is None:
        return 0
    return (one.usage > other.usage) - (one.usage < other.usage)


def _rank(runner: Runner) -> tuple[int, float, str]:
    return runner.priority, -runner.since, runner.entry.workload.name

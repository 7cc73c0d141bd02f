"""Fairness: what queues use, against what they have a right to by quota, weight and demand."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from mooring.metrics.cluster import asked_milli
from mooring.metrics.summary import Fairness, QueueUse
from mooring.model.cluster import WHOLE
from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import default_shares
from mooring.policy.queues.tree import QueueTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.workload import Workload

GPU = "gpu"
DIVIDE_S = 60.0
"""Least time between two divisions."""
_HOUR = 3600.0


class Queues:
    """Use, demand and right of every queue that has work of its own."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        self.used: dict[str, int] = {}
        """Per queue, thousandths of GPUs that its work has."""
        self._asked: dict[str, int] = {}
        self._milli_s: dict[str, float] = {}
        self._right_s: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self._tree = _tree(queues, ())
        self._queues = tuple(queues)
        self._changed, self._capacity, self._due = True, 0, -inf

    def set_queues(self, queues: Sequence[Queue]) -> None:
        """Take edited queues."""
        self._queues = tuple(queues)
        self._tree = _tree(queues, self._asked)
        self._changed = True

    def hold(self, queue: str, milli: int) -> None:
        """Count so much more (or less) in use by a queue."""
        self.used[queue] = self.used.get(queue, 0) + milli

    def ask(self, workload: Workload, sign: int) -> None:
        """Count what a workload asks for at most, or count it no more."""
        queue = workload.queue
        if queue not in self._asked:
            self._asked[queue] = 0
            self._tree = _tree(self._queues, self._asked)
        milli = sum(leaf.most * asked_milli(leaf.shape) for leaf in workload.leaves())
        self._asked[queue] += sign * milli
        self._changed = True

    def pass_time(self, begin: float, end: float, capacity: int) -> None:
        """Let time pass in which nothing changes."""
        seconds = end - begin
        for queue, milli in self.used.items():
            self._milli_s[queue] = self._milli_s.get(queue, 0.0) + milli * seconds
        for queue, share in self._rights(begin, capacity).items():
            self._right_s[queue] = self._right_s.get(queue, 0.0) + share * seconds

    def _rights(self, now: float, capacity: int) -> dict[str, float]:
        """Return what queues have a right to; it is divided again once a minute at most."""
        is_changed = self._changed or capacity != self._capacity
        if is_changed and now >= self._due:
            self._changed, self._capacity, self._due = False, capacity, now + DIVIDE_S
            tree = self._tree
            asked = [[0] for _ in tree.names]
            for queue, milli in self._asked.items():
                for above in tree.path[tree.index_of[queue]]:
                    asked[above][0] += milli
            shares = default_shares(tree, [capacity], asked)
            self._shares = {
                queue: min(shares[tree.index_of[queue]][0], milli)
                for queue, milli in self._asked.items()
            }
        return self._shares

    def summary(self) -> Fairness:
        """Return use over right."""
        names = sorted({*self._milli_s, *self._right_s})
        per_hour = WHOLE * _HOUR
        every = tuple(
            QueueUse(
                name,
                self._milli_s.get(name, 0.0) / per_hour,
                self._right_s.get(name, 0.0) / per_hour,
            )
            for name in names
        )
        ratios = [use.ratio for use in every if use.ratio is not None]
        squares = sum(ratio * ratio for ratio in ratios)
        jain = sum(ratios) ** 2 / (len(ratios) * squares) if squares else 1.0
        return Fairness(jain, min(ratios, default=1.0), every)


def _tree(queues: Sequence[Queue], others: Sequence[str] | dict[str, int]) -> QueueTree:
    """Return the queues with GPUs of all flavors as one resource, and those that only have work."""
    plain = [
        Queue(
            queue.name,
            queue.parent,
            (_together(queue),),
            weight=queue.weight,
            priority=queue.priority,
        )
        for queue in queues
    ]
    known = {queue.name for queue in plain}
    plain += [Queue(name) for name in others if name not in known]
    return QueueTree([queue.name for queue in plain], plain, [("", GPU)])


def _together(queue: Queue) -> Quota:
    quotas = [quota for quota in queue.quotas if quota.resource == GPU]
    amounts = [quota.quota for quota in quotas]
    limits = [quota.limit for quota in quotas]
    return Quota(
        GPU,
        quota=None if None in amounts else sum(amount or 0 for amount in amounts),
        limit=None if None in limits or not limits else sum(limit or 0 for limit in limits),
    )

"""Fairness: what queues use, against what they have a right to by quota, weight and demand.

While there is enough for all, everybody has a right to what it asks for. While there is not, the
right has to be divided, which is done once a minute at most. In between the right of a queue goes
with what it asks for: up to its share if that was less, else up to what it would have if all asked
for everything.
"""

from __future__ import annotations

from math import inf
from operator import le
from typing import TYPE_CHECKING

from mooring.metrics.summary import Fairness, QueueUse
from mooring.model.cluster import WHOLE
from mooring.model.queues import Queue, Quota
from mooring.policy.queues.share import default_shares, effective_quota
from mooring.policy.queues.tree import QueueTree

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU = "gpu"
DIVIDE_S = 60.0
"""Least time between two divisions, but for those that queues that come or change make due."""
_HOUR = 3600.0


class Queues:
    """Use, demand and right of every queue that has work of its own."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        self.used: dict[str, int] = {}
        """Per queue, thousandths of GPUs that its work has."""
        self._asked: dict[str, int] = {}
        self._total = 0
        """Of what all ask for."""
        self._most: dict[str, int] = {}
        """Up to what rights go with what is asked for until they are divided again."""
        self._rights: dict[str, int] = {}
        """While there is not enough for all."""
        self._milli_s: dict[str, float] = {}
        self._right_s: dict[str, float] = {}
        self._capacity = 0
        self.set_queues(queues)

    def set_queues(self, queues: Sequence[Queue]) -> None:
        """Take edited queues."""
        self._queues = tuple(queues)
        self._plant()

    def _plant(self) -> None:
        """Make the tree anew, and what is counted along it."""
        self._tree = tree = _tree(self._queues, self._asked)
        self._below = self._along(self._asked)
        """Per queue of the tree, what it and those below ask for."""
        columns = zip(tree.limit, tree.weight, effective_quota(tree), strict=True)
        self._bounds = [
            limit if weight > 0 else min(limit, quota) for (limit,), (weight,), (quota,) in columns
        ]
        """Per queue of the tree, what it gets at most where there is enough."""
        self._due, self._changed = -inf, True
        self._floor: tuple[int, dict[str, int]] = -1, {}
        """Of how much, what each has a right to if all ask for everything."""

    def _along(self, asked: dict[str, int]) -> list[int]:
        """Return what queues ask for as amounts with all queues below."""
        tree = self._tree
        below = [0] * tree.count
        for queue, milli in asked.items():
            for above in tree.path[tree.index_of[queue]]:
                below[above] += milli
        return below

    def hold(self, queue: str, milli: int) -> None:
        """Count so much more (or less) in use by a queue."""
        self.used[queue] = self.used.get(queue, 0) + milli

    def ask(self, queue: str, milli: int) -> None:
        """Count so much more (or less) that the work of a queue asks for at most."""
        if queue not in self._asked:
            self._asked[queue] = 0
            self._plant()
        asked = self._asked[queue] = self._asked[queue] + milli
        self._total += milli
        tree = self._tree
        for above in tree.path[tree.index_of[queue]]:
            self._below[above] += milli
        most = self._most.get(queue, 0)
        self._rights[queue] = asked if asked < most else most
        self._changed = True

    def pass_time(self, begin: float, end: float, capacity: int) -> None:
        """Let time pass in which nothing changes."""
        if capacity != self._capacity:
            self._changed, self._capacity = True, capacity
        _count(self._milli_s, self.used, end - begin)
        if self._is_enough():
            _count(self._right_s, self._asked, end - begin)
            return
        if self._changed and self._due < end:
            at = max(begin, self._due)
            _count(self._right_s, self._rights, at - begin)
            self._divide()
            self._due, begin = at + DIVIDE_S, at
        _count(self._right_s, self._rights, end - begin)

    def _is_enough(self) -> bool:
        """Return whether everybody gets what it asks for."""
        return self._total <= self._capacity and all(map(le, self._below, self._bounds))

    def _divide(self) -> None:
        """Divide what there is."""
        capacity = self._capacity
        if self._floor[0] != capacity:
            greedy = self._along(dict.fromkeys(self._asked, capacity))
            self._floor = capacity, self._shares(greedy)
        floor = self._floor[1]
        for queue, share in self._shares(self._below).items():
            asked = self._asked[queue]
            self._most[queue] = max(asked, floor[queue]) if asked <= share else share
            self._rights[queue] = min(asked, share)
        self._changed = False

    def _shares(self, below: list[int]) -> dict[str, int]:
        """Return the share of every queue that has had work, if so much is asked for."""
        tree = self._tree
        shares = default_shares(tree, [self._capacity], [[milli] for milli in below])
        return {queue: shares[tree.index_of[queue]][0] for queue in self._asked}

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
        if not ratios:
            return Fairness(None, None, every)
        jain = sum(ratios) ** 2 / (len(ratios) * squares) if squares else 1.0
        return Fairness(jain, min(ratios), every)


def _count(sums: dict[str, float], milli: dict[str, int], seconds: float) -> None:
    """Add what queues have had for so long."""
    for queue, amount in milli.items():
        sums[queue] = sums.get(queue, 0.0) + amount * seconds


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

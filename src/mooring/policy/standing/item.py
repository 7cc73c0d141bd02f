"""What stands in the line of those who run: items, ranks, keys, and what an item is at a queue.

An *item* is the minimum of a gang, or one elastic unit above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from mooring.policy.queues.share import BEYOND, COVERED, IN_SHARE, LAST
from mooring.policy.queues.tree import NO_BOUND, NOBODY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.policy.queues.tree import QueueTree

Name = tuple[str, int]
"""Workload and number of the unit; 0 is its minimum."""
Size = tuple[tuple[int, int], ...]
"""(pair, amount) by pair; no amount is 0."""
Rank = tuple[int, int, int, float, str, int]
Class = tuple[int, float]
"""Class at one queue and the level inside it: as in `policy.share`, and so are its values."""
Key = tuple[int, tuple[Class, ...], Rank]
"""Whether it is a guest, the classes from the top queue down to its own, the rank."""
Start = tuple[float, Rank]

NOT_YET = inf


def rank_of(
    name: Name, submitted: float, priority: int = 0, *, is_preemptible: bool = True
) -> Rank:
    """Return the fixed rank of an item in its queue; the least is first."""
    workload, unit = name
    return int(is_preemptible), -priority, int(unit > 0), submitted, workload, unit


def size_of(amounts: Mapping[int, int]) -> Size:
    """Return amounts by pair as a size."""
    return tuple((pair, amounts[pair]) for pair in sorted(amounts) if amounts[pair] > 0)


@dataclass(slots=True, unsafe_hash=True)
class Item:
    """The minimum of a workload, or one unit above it.

    Nobody changes one; it is not frozen because there are very many to make.
    """

    workload: str
    unit: int
    """0: the minimum; else the number of a unit."""
    queue: int
    size: Size
    rank: Rank
    priority: int = 0
    preemptible: bool = True
    started: float = NOT_YET
    """Order of starts; of equal ones, the senior counts as earlier."""
    since: float | None = None
    """Since when all of it has been running; None: not yet."""
    overtaker: bool = False
    """Started before its shadow start, which has not come yet."""
    lender: int = NOBODY
    """The queue on whose lent room it is."""

    @property
    def name(self) -> Name:
        """Return what it is known by."""
        return self.workload, self.unit

    @property
    def is_guest(self) -> bool:
        """Return whether it stands behind everybody who is no guest."""
        return self.overtaker or self.lender != NOBODY


class Measure:
    """Quota, share, weight and norm by queue and pair: what an item is at a queue.

    Quota and share of a queue are at least the sum of those of the queues below.
    """

    def __init__(
        self,
        tree: QueueTree,
        quota: Sequence[Sequence[int]],
        share: Sequence[Sequence[int]],
        norm: Sequence[float],
    ):
        self.quota = _effective(tree, quota)
        rows = zip(self.quota, _effective(tree, share), strict=True)
        self.share = [[max(both) for both in zip(*row, strict=True)] for row in rows]
        """Never less than the quota."""
        self.norm = list(norm)
        self.weight = [
            list(row) if exists else [0.0] * len(row)
            for row, exists in zip(tree.weight, tree.exists, strict=True)
        ]
        self._has_weight = [all(each > 0 for each in row) for row in self.weight]

    def class_of(self, queue: int, size: Size, used: Sequence[int]) -> Class:
        """Return the class of an item where so much is used, in the order of its pairs."""
        quota, share = self.quota[queue], self.share[queue]
        found = COVERED
        for (pair, amount), before in zip(size, used, strict=True):
            if before + amount > quota[pair]:
                if before + amount > share[pair]:
                    return self._beyond(queue, size, used)
                found = IN_SHARE
        return found

    def _beyond(self, queue: int, size: Size, used: Sequence[int]) -> Class:
        level = self.level(queue, size, used)
        if self._has_weight[queue]:
            return level
        share, weight = self.share[queue], self.weight[queue]
        for (pair, amount), before in zip(size, used, strict=True):
            if weight[pair] <= 0 and before + amount > share[pair]:
                return max(level, (LAST, 0.0))
        return level

    def level(self, queue: int, size: Size, used: Sequence[int]) -> Class:
        """Return how far beyond quota a queue is by its weight, in the worst pair of an item."""
        quota, weight = self.quota[queue], self.weight[queue]
        worst: Class = (BEYOND, 0.0)
        for (pair, _amount), before in zip(size, used, strict=True):
            excess = before - quota[pair]
            if excess > 0:
                bare = excess / self.norm[pair] if self.norm[pair] > 0 else inf
                each = (BEYOND, bare / weight[pair]) if weight[pair] > 0 else (LAST, bare)
                if each > worst:
                    worst = each
        return worst

    @staticmethod
    def is_within(bounds: Sequence[int], size: Size, used: Sequence[int]) -> bool:
        """Return whether what is used, with an item in it, is within bounds in its pairs."""
        return all(amount <= bounds[pair] for (pair, _), amount in zip(size, used, strict=True))


def _effective(tree: QueueTree, rows: Sequence[Sequence[int]]) -> list[list[int]]:
    found = [list(row) for row in rows]
    for queue in tree.above():
        for pair, amount in enumerate(found[queue]):
            below = sum(found[child][pair] for child in tree.children[queue])
            found[queue][pair] = min(NO_BOUND, max(amount, below))
    return found

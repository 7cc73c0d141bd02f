"""The sets of nodes that a group with a topology request tries, in order.

From the preferred level (or else the required one) up to the required one (or else the cluster):
tightest level first, and inside a level the domain first that the group would fill the most.
Whether a domain is worth a try is counted roughly: how many copies of the biggest task its nodes
take, or, where tasks are of different kinds, whether its free amounts together are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.cluster import WHOLE
from mooring.model.columns import Bools
from mooring.model.demand import DeviceKind
from mooring.model.resources import CPU_ROW, GPU_ROW, MEMORY_ROW, PODS_ROW
from mooring.policy.placing.ask import NO_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.model.books import Books
    from mooring.model.columns import Floats
    from mooring.model.demand import Demand
    from mooring.policy.kai.crew import Knot

Counted = list[tuple["Demand", int]]
"""Demands, and how many tasks of each."""
NOTHING_THERE = 1000.0
"""What a request is of nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """A domain, perhaps without some of its nodes."""

    level: int = 0
    domain: int = 0
    only: Bools | None = None
    """By row; None: all of them."""


class Domains:
    """The domains of one set of books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._epoch = -1
        self._complete = np.zeros(0, np.bool_)

    def areas(
        self, knot: Knot, tasks: Counted, around: Area, homes: Iterable[int]
    ) -> tuple[Iterator[Area], Floats | None]:
        """Return the areas that a group tries, in order, and how the nodes in them are liked.

        `homes` are the rows on which tasks of the group are already: it stays in their domains.
        """
        if (knot.required == NO_LEVEL and knot.preferred == NO_LEVEL) or not tasks:
            return iter((around,)), None
        count = _Count(self._books, tasks, around, self._rows())
        liked = count.likings(knot.preferred) if knot.preferred > around.level else None
        return count.candidates(knot, homes), liked

    def _rows(self) -> Bools:
        """Return the rows whose nodes stand in a domain of every level."""
        books = self._books
        if self._epoch != books.epoch:
            self._epoch = books.epoch
            depth = books.tree.leaf_level - 1
            paths = [node.path for node in books.nodes]
            complete = [len(path) >= depth and all(path[:depth]) for path in paths]
            self._complete = np.array(complete, np.bool_) & books.present
        return self._complete


class _Count:
    """What the domains inside an area have for some tasks."""

    def __init__(self, books: Books, tasks: Counted, around: Area, complete: Bools) -> None:
        self.books = books
        self.tree = books.tree
        self.around = around
        self.complete = complete
        self.inside = complete if around.only is None else complete & around.only
        self.number = sum(n for _, n in tasks)
        self.wants = _sums(tasks)
        self.units = self._units(tasks) if _is_alike(tasks) else None
        self._ratios: dict[int, Floats] = {}
        self._orders: dict[int, list[int]] = {around.level: [around.domain]}

    def _free(self, row: int) -> Floats:
        """Return the free amount of a resource on every row of a complete path."""
        free: Floats = np.maximum(self.books.open[row], 0).astype(np.float64) * self.complete
        return free

    def _units(self, tasks: Counted) -> Floats:
        """Return how many copies of the biggest task every row takes, as far as sums tell."""
        biggest: dict[int, float] = {PODS_ROW: 1.0}
        for demand, _ in tasks:
            for r, amount in _amounts(demand):
                biggest[r] = max(biggest.get(r, 0.0), amount)
        if len(biggest) == 1:
            plenty: Floats = np.full(self.tree.count, float(self.number)) * self.complete
            return plenty
        fewest = np.full(self.tree.count, np.inf)
        for r, amount in biggest.items():
            free = self._free(r)
            if r == GPU_ROW and amount < 1:
                share = self.books.share
                parts = np.where((share > 0) & (share < WHOLE), share, 0).sum(axis=0)
                free = free + parts / WHOLE * self.complete
            fewest = np.minimum(fewest, np.floor(free / amount + 1e-9))
        return fewest

    def _ratio(self, level: int) -> Floats:
        """Return what part of every domain's free amounts is asked for, where that is the most."""
        known = self._ratios.get(level)
        if known is not None:
            return known
        ratio = np.zeros(len(self.tree.first[level]) - 1)
        for r, amount in self.wants.items():
            free = self.tree.sums(level, self._free(r))
            part = np.where(free > 0, amount / np.maximum(free, 1e-9), NOTHING_THERE)
            ratio = np.maximum(ratio, part)
        self._ratios[level] = ratio
        return ratio

    def order(self, level: int) -> list[int]:
        """Return the domains of a level inside the area, those first that would be fuller.

        Domains around them come first: the order is that of a tree whose branches are sorted.
        """
        known = self._orders.get(level)
        if known is None:
            ratio = self._ratio(level)
            known = []
            for above in self.order(level - 1):
                low, high = self.tree.inside(level - 1, above, level)
                known += sorted(range(low, high), key=lambda d: (-ratio[d], d))
            known = [d for d in known if self.inside[self.tree.rows(level, d)].any()]
            self._orders[level] = known
        return known

    def likings(self, level: int) -> Floats:
        """Return by row how well its domain of the preferred level is liked: freer ones more."""
        liked = np.zeros(self.tree.count)
        order = self.order(level)
        for rank, domain in enumerate(order, 1):
            liked[self.tree.rows(level, domain)] = 10 * rank // len(order)
        return liked

    def candidates(self, knot: Knot, homes: Iterable[int]) -> Iterator[Area]:
        """Yield the domains that a group tries."""
        around, required = self.around, knot.required
        start = max(knot.preferred, required)
        stop = max(required, around.level)
        # Even if the area is no wider: a group around that only prefers such may try any.
        rows = homes if required != NO_LEVEL else ()
        kept = {self.books.up[required][row] for row in rows}
        for level in range(max(start, stop), stop - 1, -1):
            enough = self._enough(level)
            for domain in self.order(level):
                if not enough[domain]:
                    continue
                first = int(self.tree.first[level][domain])
                if not kept or self.books.up[required][first] in kept:
                    yield Area(level, domain, self.inside)

    def _enough(self, level: int) -> Bools:
        if self.units is None:
            enough: Bools = self._ratio(level) <= 1.0
        else:
            enough = self.tree.sums(level, self.units) >= self.number
        return enough


def _amounts(demand: Demand) -> Iterator[tuple[int, float]]:
    """Yield what a task asks for, devices as far as they can be added up."""
    yield from demand.pairs
    if demand.kind is DeviceKind.WHOLE:
        yield GPU_ROW, float(demand.shape.gpus)
    elif demand.kind is DeviceKind.SHARED:
        yield GPU_ROW, demand.shape.gpus * demand.shape.milli / WHOLE


def _sums(tasks: Counted) -> dict[int, float]:
    wants: dict[int, float] = {}
    for demand, number in tasks:
        for r, amount in _amounts(demand):
            if r != PODS_ROW:
                wants[r] = wants.get(r, 0.0) + number * amount
    return wants


def _is_alike(tasks: Counted) -> bool:
    """Return whether all tasks ask for the same kinds of things, CPU and memory aside."""
    kinds = [
        frozenset(r for r, _ in _amounts(demand) if r not in (CPU_ROW, MEMORY_ROW))
        for demand, _ in tasks
    ]
    return len(set(kinds)) == 1

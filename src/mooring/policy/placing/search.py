"""Placing whole workloads: one group by counting, several by search.

One group of equal tasks is placed by counting: the first choice is right, and "no" is exact.
Several groups, or tasks with terms about each other, are searched: the counted choice first, then
every other, with backtracking, under a bound of counted steps.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.policy.placing.constraints import means
from mooring.policy.placing.devices import device_choices
from mooring.policy.placing.fit import ANY_FLAVOR
from mooring.policy.placing.place import ANYWHERE, Placer, Seats, Within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.demand import Demand
    from mooring.model.workload import SpreadTerm, TaskTerm
    from mooring.policy.placing.ask import Ask, Part

DEEPEST = 100
"""Groups of more tasks than this are not searched task by task."""
MEMO_UP_TO = 64
"""Clusters up to so many nodes remember failed states of a search."""


class CutShortError(Exception):
    """The search reached its bound."""


def place(placer: Placer, ask: Ask, account: int) -> list[Seats] | None:
    """Place the minimum of a workload, booked; None, and nothing booked, if it cannot be."""
    placer.steps = 0
    root = ask.root
    if root.demand is not None:
        seats = placer.place_leaf(root, ANYWHERE, account, service=ask.service)
        if seats is not None:
            return [seats]
        if root.count == 1 or placer.fit(root).company is None:
            return None  # counting is exact: the tasks have no terms about each other
    elif _too_much(placer, ask) or not _each_alone(placer, ask, account):
        return None
    return _Search(placer, account, ask.service).run(root)


def _too_much(placer: Placer, ask: Ask) -> bool:
    """Return whether counting tells that all leaves together ask for more than there is."""
    books = placer.books
    wanted: Counter[Demand] = Counter()
    alike: Counter[tuple[Demand, int]] = Counter()
    for leaf in ask.leaves:
        assert leaf.demand is not None
        wanted[leaf.demand] += leaf.count
        alike[leaf.demand, leaf.code] += leaf.count
    for leaf in ask.leaves:
        assert leaf.demand is not None
        count = alike[leaf.demand, leaf.code]
        fit = placer.fit(leaf)
        slots = fit.slots if fit.company is None else fit.anywhere
        if slots[0][0] < count:
            return True
    amounts: Counter[int] = Counter()
    for demand, count in wanted.items():
        for r, amount in demand.asks:
            amounts[r] += amount * count
    kinds = (DeviceKind.WHOLE, DeviceKind.SHARED)
    milli = sum((demand.weight - 1) * n for demand, n in wanted.items() if demand.kind in kinds)
    free = np.maximum(books.open, 0).sum(axis=1)
    return milli > np.maximum(books.share, 0).sum() or any(
        amount > free[r] for r, amount in amounts.items()
    )


def _each_alone(placer: Placer, ask: Ask, account: int) -> bool:
    """Return whether every leaf with terms that no other leaf could meet has a place on its own."""
    for leaf in ask.leaves:
        assert leaf.demand is not None
        if placer.fit(leaf).company is None or _could_be_helped(leaf, ask):
            continue
        mark = placer.books.checkpoint()
        found = _Search(placer, account, ask.service).run(leaf)
        placer.books.rollback(mark)
        if found is None:
            return False
    return True


def _could_be_helped(leaf: Part, ask: Ask) -> bool:
    """Return whether another leaf is company that a leaf asks for."""
    assert leaf.demand is not None
    shape = leaf.demand.shape
    terms: tuple[TaskTerm | SpreadTerm, ...] = (*shape.near, *shape.spread)
    others = [other.demand.shape for other in ask.leaves if other is not leaf and other.demand]
    return any(means(term, other) for other in others for term in terms)


class _Search:
    """Several groups, or tasks with terms: depth first, with backtracking, counted steps."""

    def __init__(self, placer: Placer, account: int, service: bool) -> None:
        self.placer = placer
        self.books = placer.books
        self.account = account
        self.service = service
        self.seats: list[Seats] = []
        self.failed: set[tuple[object, ...]] = set()
        self.has_terms = False
        self.numbers: list[int] = []
        """The demands in it: who is where matters to terms about other tasks."""

    def run(self, root: Part) -> list[Seats] | None:
        mark = self.books.checkpoint()
        leaves = [leaf for leaf in root.leaves() if leaf.demand]
        self.numbers = sorted({leaf.demand.index for leaf in leaves if leaf.demand})
        self.has_terms = any(self.placer.fit(leaf).company for leaf in leaves)
        if self._solve([(root, ANYWHERE)]):
            order = {leaf.name: i for i, leaf in enumerate(root.leaves())}
            return _merge(sorted(self.seats, key=lambda seats: order[seats.part.name]))
        self.books.rollback(mark)
        return None

    def _solve(self, todo: list[tuple[Part, Within]]) -> bool:
        if not todo:
            return not self.has_terms or terms_hold(self.placer, self.seats)
        (part, within), rest = todo[0], todo[1:]
        state = self._state(todo)
        if state in self.failed:
            return False
        found = self._inner(part, within, rest) if part.parts else self._leaf(part, within, rest)
        if not found and state is not None:
            self.failed.add(state)
        return found

    def _state(self, todo: list[tuple[Part, Within]]) -> tuple[object, ...] | None:
        """Return what is to do and what the books say, where it is small enough to remember."""
        books = self.books
        if books.count > MEMO_UP_TO:
            return None
        rows = books.open.tobytes() + books.share.tobytes() + books.mig_used.tobytes()
        who = b"".join(books.tally[number].tobytes() for number in self.numbers)
        return (*((id(part), within) for part, within in todo), rows, who)

    def _step(self) -> None:
        self.placer.steps += 1
        if self.placer.steps > self.placer.profile.search_steps:
            raise CutShortError

    def _inner(self, part: Part, within: Within, rest: list[tuple[Part, Within]]) -> bool:
        """Choose the domain of an inner group, then go on with its parts, hardest first."""
        tree = self.books.tree
        top = max(part.required, within.level)
        start = max(part.preferred, top)
        tried = set()
        for level in range(start, top - 1, -1):
            low, high = tree.inside(within.level, within.domain, level)
            for domain in self._promising(part, level, low, high):
                rows = tree.rows(level, domain)
                if (rows.start, rows.stop) in tried:
                    continue
                tried.add((rows.start, rows.stop))
                self._step()
                todo = [(child, Within(level, domain)) for child in _hardest_first(part.parts)]
                if self._solve([*todo, *rest]):
                    return True
        return False

    def _promising(self, part: Part, level: int, low: int, high: int) -> list[int]:
        """Return domains that hold every leaf of a part on its own, the tightest first."""
        good = np.ones(high - low, np.bool_)
        slack = np.zeros(high - low, INT)
        for leaf in part.leaves():
            assert leaf.demand is not None
            fit = self.placer.fit(leaf)
            if fit.company is None:
                good &= fit.slots[level][low:high] >= leaf.count
                slack += fit.slots[level][low:high] - leaf.count
        domains = np.flatnonzero(good)
        return [low + int(i) for i in domains[np.lexsort((domains, slack[domains]))]]

    def _leaf(self, leaf: Part, within: Within, rest: list[tuple[Part, Within]]) -> bool:
        demand = leaf.demand
        assert demand is not None
        for seats in self.placer.choices(leaf, within, service=self.service):
            self._step()
            if self._with(seats, lambda: self._solve(rest)):
                return True
        if not rest and not self.has_terms:
            return False  # counting was exact, and nothing comes after
        for flavor in self.placer.flavors(leaf, None):
            if self._every_way(leaf, within, flavor, rest):
                return True
        return False

    def _with(self, seats: Seats, then: Callable[[], bool]) -> bool:
        """Book seats and go on; take them back if that leads nowhere."""
        demand = seats.part.demand
        assert demand is not None
        mark = self.books.checkpoint()
        self.books.take(demand, seats.rows, seats.devices, self.account, seats.part.code)
        self.seats.append(seats)
        if then():
            return True
        self.seats.pop()
        self.books.rollback(mark)
        return False

    def _every_way(
        self, leaf: Part, within: Within, flavor: int, rest: list[tuple[Part, Within]]
    ) -> bool:
        """Try all distributions: over domains if one is required, slice by slice, task by task."""
        if leaf.count > DEEPEST:
            raise CutShortError
        tree = self.books.tree
        level = max(leaf.required, within.level)
        leaf = leaf.inside(level)
        low, high = tree.inside(within.level, within.domain, level)
        for domain in range(low, high):
            if self._runs(leaf, Within(level, domain), leaf.count, flavor, rest):
                return True
        return False

    # wide: the state of a recursion
    def _runs(
        self, leaf: Part, within: Within, left: int, flavor: int, rest: list[tuple[Part, Within]]
    ) -> bool:
        """Place `left` tasks, slice by slice, inside a domain."""
        if not left:
            return self._solve(rest)
        if not leaf.slices:
            rows = self.books.tree.rows(within.level, within.domain)
            return self._tasks(leaf, rows, left, flavor, lambda: self._solve(rest))
        (level, size), inner = leaf.slices[0], leaf.slices[1:]
        run = leaf.run_of(size, inner)
        low, high = self.books.tree.inside(within.level, within.domain, level)
        for domain in range(low, high):
            here = Within(level, domain)
            if self._run(
                run, here, flavor, lambda: self._runs(leaf, within, left - size, flavor, rest)
            ):
                return True
        return False

    def _run(self, run: Part, within: Within, flavor: int, then: Callable[[], bool]) -> bool:
        if not run.slices:
            rows = self.books.tree.rows(within.level, within.domain)
            return self._tasks(run, rows, run.count, flavor, then)
        (level, size), inner = run.slices[0], run.slices[1:]
        part = run.run_of(size, inner)

        def inner_runs(left: int) -> bool:
            if not left:
                return then()
            low, high = self.books.tree.inside(within.level, within.domain, level)
            return any(
                self._run(part, Within(level, d), flavor, lambda: inner_runs(left - size))
                for d in range(low, high)
            )

        return inner_runs(run.count)

    # wide: the state of a recursion
    def _tasks(
        self, leaf: Part, rows: slice, left: int, flavor: int, then: Callable[[], bool]
    ) -> bool:
        """Place tasks one by one on rows of ascending index, on every choice of devices."""
        if not left:
            return then()
        demand = leaf.demand
        assert demand is not None
        fit = self.placer.fit(leaf, flavor)
        slots = fit.before_company()
        if fit.company is None and slots[rows].sum() < left:
            return False
        for row in (np.flatnonzero(slots[rows] > 0) + rows.start).tolist():
            for mask in device_choices(self.books, demand, row, self.placer.profile.devices):
                self._step()
                here = slice(row, rows.stop)
                more = partial(self._tasks, leaf, here, left - 1, flavor, then)
                if self._with(Seats(leaf, [row], [mask]), more):
                    return True
        return False


def terms_hold(placer: Placer, found: Sequence[Seats]) -> bool:
    """Return whether everyone at seats that are all booked has the company that it asks for."""
    for seats in _merge(found):
        demand = seats.part.demand
        assert demand is not None
        keeps = len(seats.rows) > 1 and demand.shape.gpus
        flavor = placer.books.kind_of[seats.rows[0]] if keeps else ANY_FLAVOR
        company = placer.fit(seats.part, flavor).company
        if company is not None and not company.holds(seats.rows):
            return False
    return True


def _hardest_first(parts: tuple[Part, ...]) -> list[Part]:
    """Order parts: those bound to a domain first, then those with the biggest tasks.

    Those that look for company come after all who could be it.
    """

    def ease(part: Part) -> tuple[bool, int, int]:
        demands = [leaf.demand for leaf in part.leaves() if leaf.demand]
        weight = max((demand.weight for demand in demands), default=0)
        drawn = any(demand.shape.near or demand.shape.spread for demand in demands)
        return drawn, -part.required, -weight

    return sorted(parts, key=ease)


def _merge(found: Sequence[Seats]) -> list[Seats]:
    """Join the seats of one leaf that were found task by task."""
    merged: dict[str, Seats] = {}
    for seats in found:
        into = merged.setdefault(seats.part.name, Seats(seats.part, [], []))
        into.rows.extend(seats.rows)
        into.devices.extend(seats.devices)
    return list(merged.values())

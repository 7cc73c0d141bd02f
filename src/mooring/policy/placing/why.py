"""Why an ask cannot be placed now: counted, typed, and true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.books import BY_NODE
from mooring.model.cluster import WHOLE
from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.model.plan import Excluded, Impossible, NoRoom, NotTogether
from mooring.model.resources import GPU, GPU_ROW
from mooring.policy.placing.fit import ANY_FLAVOR
from mooring.policy.placing.place import ANYWHERE
from mooring.policy.placing.room import room_for

if TYPE_CHECKING:
    from mooring.model.books import Books
    from mooring.model.columns import Bools
    from mooring.model.demand import Demand
    from mooring.model.plan import Reason
    from mooring.policy.placing.ask import Ask, Part
    from mooring.policy.placing.place import Placer, Within


def why(placer: Placer, ask: Ask, within: Within = ANYWHERE) -> tuple[Reason, ...]:
    """Return the reasons of an ask that cannot be placed inside a domain."""
    if ask.problems:
        return ask.problems
    reasons: list[Reason] = []
    for leaf in ask.leaves:
        reasons += _leaf(placer, leaf, within)
    if not reasons:
        reasons = [NotTogether(tuple(leaf.name for leaf in ask.leaves))]
    return tuple(reasons)


def _leaf(placer: Placer, leaf: Part, within: Within) -> list[Reason]:
    level = max(leaf.required, within.level)
    leaf = leaf.inside(level)
    best = _best(placer, leaf, within)
    if best >= leaf.count:
        return []
    excluded = _excluded(placer, leaf)
    name = placer.books.tree.topology.names[level]
    alone = _terms_alone(placer, leaf, within)
    if alone and excluded:
        return excluded
    most, ever = _most(placer, leaf)
    if most < leaf.count <= ever:
        return excluded  # only nodes that are not ready, have refused or keep failing, would do
    if ever < leaf.count:
        return [Impossible(leaf.name, name, leaf.count, ever), *excluded]
    assert leaf.demand is not None
    if alone and not leaf.demand.shape.near:  # its own tasks are in each other's way
        return [Impossible(leaf.name, name, leaf.count, best)]
    return [NoRoom(leaf.name, name, leaf.count, best), *excluded]


def _terms_alone(placer: Placer, leaf: Part, within: Within) -> bool:
    """Return whether there is room, and only terms about other tasks are in the way."""
    assert leaf.demand is not None
    if placer.fit(leaf).company is None:
        return False
    level = max(leaf.required, within.level)
    low, high = placer.books.tree.inside(within.level, within.domain, level)
    return any(
        placer.fit(leaf, flavor).anywhere[level][low:high].max(initial=0) >= leaf.count
        for flavor in _flavors(placer, leaf)
    )


def _best(placer: Placer, leaf: Part, within: Within) -> int:
    """Return the most tasks of a leaf that one domain takes now."""
    assert leaf.demand is not None
    if placer.fit(leaf).company is not None:
        return _placed_one_by_one(placer, leaf, within)
    level = max(leaf.required, within.level)
    low, high = placer.books.tree.inside(within.level, within.domain, level)
    best = 0
    for flavor in _flavors(placer, leaf):
        room = room_for(placer.fit(leaf, flavor), leaf.slices)
        units = int(room.units[level][low:high].max(initial=0))
        best = max(best, units * (leaf.slices[0][1] if leaf.slices else 1))
    return best


def _placed_one_by_one(placer: Placer, leaf: Part, within: Within) -> int:
    """Return how many tasks with terms about each other could be placed."""
    unit = leaf.slices[0][1] if leaf.slices else 1
    low, high = 0, leaf.count // unit
    while low < high:
        middle = (low + high + 1) // 2
        found = next(placer.choices(leaf.of(middle * unit), within), None)
        low, high = (middle, high) if found else (low, middle - 1)
    return low * unit


def _most(placer: Placer, leaf: Part) -> tuple[int, int]:
    """Return the most tasks that one domain would take if nothing ran, now and in the best case."""
    assert leaf.demand is not None
    most = ever = 0
    level, unit = max(leaf.required, 0), leaf.slices[0][1] if leaf.slices else 1
    for flavor in _flavors(placer, leaf):
        fit = placer.fit(leaf, flavor)
        now, some_day = (room_for(fit, leaf.slices, slots) for slots in (fit.most, fit.ever))
        most = max(most, unit * int(now.units[level].max(initial=0)))
        ever = max(ever, unit * int(some_day.units[level].max(initial=0)))
    return most, ever


def kinds_for(placer: Placer, leaf: Part) -> list[int]:
    """Return the kinds of nodes that could take a leaf if nothing ran.

    Where no node could that is ready, it is those that could if all were.
    """
    books, level = placer.books, max(leaf.required, 0)
    unit = leaf.slices[0][1] if leaf.slices else 1
    for is_later in (False, True):
        found: dict[int, None] = {}
        for flavor in _flavors(placer, leaf):
            fit = placer.fit(leaf, flavor)
            slots = fit.ever if is_later else fit.most
            units = room_for(fit, leaf.slices, slots).units[level]
            if unit * int(units.max(initial=0)) >= leaf.count:
                found.update(dict.fromkeys(np.unique(books.kind[slots[-1] > 0]).tolist()))
        if found:
            return list(found)
    return []


def _flavors(placer: Placer, leaf: Part) -> list[int]:
    assert leaf.demand is not None
    is_free = leaf.code != BY_NODE or leaf.count == 1 or not leaf.demand.shape.gpus
    if is_free or len(placer.books.kinds) <= 1:
        return [ANY_FLAVOR]
    return list(range(len(placer.books.kinds)))


def _rows_of(placer: Placer, names: tuple[str, ...]) -> Bools:
    """Return which rows are nodes with these names."""
    books = placer.books
    found = np.zeros(books.count, np.bool_)
    found[[books.row_of[name] for name in names if name in books.row_of]] = True
    return found


def _excluded(placer: Placer, leaf: Part) -> list[Reason]:
    """Count the nodes that take no task, by the first thing in the way."""
    demand, books = leaf.demand, placer.books
    assert demand is not None
    fit = placer.fit(leaf)
    left: Bools = books.present & (fit.slots[-1] == 0)
    counts: dict[str, int] = {}

    def blame(by: str, nodes: Bools) -> None:
        nonlocal left
        number = int((left & nodes).sum())
        if number:
            counts[by] = counts.get(by, 0) + number
        left = left & ~nodes

    for by, nodes in placer.fits.exclusions(demand.shape):
        blame(by, nodes)
    blame("failing", ~fit.allowed & _rows_of(placer, placer.failing))
    blame("quota", np.isin(books.kind, placer.barred))
    blame("refused", ~fit.allowed)
    if fit.company is not None:
        blame("tasks", ~fit.company.welcome())
    blame(GPU, _bare(books, demand))
    for r, amount in sorted(demand.asks, key=lambda ask: ask[0] != GPU_ROW):
        blame(books.order.names[r], books.open[r] < amount)
    if demand.kind > DeviceKind.WHOLE:
        blame(GPU, np.ones(books.count, np.bool_))
    return [Excluded(leaf.name, by, number) for by, number in counts.items()]


def _bare(books: Books, demand: Demand) -> Bools:
    """Return the nodes with too few devices of which so much is free as a task needs.

    Whole devices are counted like other resources, room for MIG instances only row by row.
    """
    if demand.kind not in (DeviceKind.SHARED, DeviceKind.MEMORY):
        return np.zeros(books.count, np.bool_)
    shape, milli = demand.shape, np.array(demand.shape.milli, INT)
    if demand.kind is DeviceKind.MEMORY:
        milli = -(-shape.gpu_memory * WHOLE // np.maximum(books.device_memory, 1))
    fits = (books.share >= milli) & (milli <= WHOLE)
    few: Bools = fits.sum(axis=0) < shape.gpus
    return few

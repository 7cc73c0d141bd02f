"""Nodes for one whose turn has come and who has no room even without overtakers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.entry import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.model.columns import Bools, Floats
    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask


def nodes_for(
    desk: Desk, ask: Ask, residual: Callable[[Entry], float], taken: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the nodes that will be empty of firm work first and hold an ask then.

    Overtakers on them do not count: they leave when they are asked. Nodes in `taken` are kept for
    others. Empty: no set of nodes could ever hold it.
    """
    if not ask.leaves:
        return ()  # it asks for nothing
    books, tree = desk.books, desk.books.tree
    drain = _drain(desk, residual)
    desk.placer.aim((*ask.avoid, *taken))
    leaf = max(ask.leaves, key=lambda leaf: (leaf.count, leaf.name))
    wanted = sum(other.count for other in ask.leaves if other.demand is leaf.demand)
    most = desk.placer.fit(leaf).most[-1]
    level = max(leaf.required, ask.root.required, 0)
    best: tuple[float, int, tuple[int, ...]] | None = None
    for domain in range(len(tree.first[level]) - 1):
        rows = tree.rows(level, domain)
        order = np.lexsort((np.arange(rows.start, rows.stop), -most[rows], drain[rows]))
        some = [rows.start + int(i) for i in order if most[rows.start + int(i)]]
        held = np.cumsum([int(most[row]) for row in some])
        if not some or held[-1] < wanted:
            continue
        chosen = tuple(some[: int(np.searchsorted(held, wanted)) + 1])
        key = (float(drain[list(chosen)].max()), len(chosen), chosen)
        best = key if best is None else min(best, key)
    return () if best is None else tuple(books.nodes[row].name for row in best[2])


def swapped(
    desk: Desk, ask: Ask, nodes: tuple[str, ...], taken: tuple[str, ...]
) -> tuple[str, ...]:
    """Return a set of reserved nodes with those exchanged for which there are free ones by now.

    A node with firm work goes for one without any that takes as much, in the same domain if one is
    required; all others stay.
    """
    books, tree = desk.books, desk.books.tree
    firm = _firm_rows(desk)
    rows = [books.row_of[node] for node in nodes]
    if not firm[rows].any():
        return nodes
    desk.placer.aim((*ask.avoid, *taken))
    leaf = max(ask.leaves, key=lambda leaf: (leaf.count, leaf.name))
    most = desk.placer.fit(leaf).most[-1]
    level = max(leaf.required, ask.root.required, 0)
    domain = int(np.searchsorted(tree.first[level], rows[0], side="right")) - 1
    within = tree.rows(level, domain)
    good = np.zeros(books.count, np.bool_)
    good[within] = (most[within] > 0) & ~firm[within]
    good[rows] = False
    free = np.flatnonzero(good).tolist()
    for at, row in enumerate(rows):
        other = next((r for r in free if most[r] >= most[row]), None) if firm[row] else None
        if other is not None:
            free.remove(other)
            rows[at] = other
    return tuple(books.nodes[row].name for row in rows)


def _drain(desk: Desk, residual: Callable[[Entry], float]) -> Floats:
    """Return per row how long firm work is expected to be there."""
    drain, rows, left = np.zeros(desk.books.count), list[int](), list[float]()
    for entry, some in _firm(desk):
        rows += some
        left += [residual(entry)] * len(some)
    np.maximum.at(drain, rows, left)
    return drain


def _firm_rows(desk: Desk) -> Bools:
    """Return which rows have firm work."""
    found = np.zeros(desk.books.count, np.bool_)
    found[[row for _, some in _firm(desk) for row in some]] = True
    return found


def _firm(desk: Desk) -> Iterator[tuple[Entry, list[int]]]:
    """Yield all firm work, and the rows that it is on."""
    overtakers = desk.overtakers
    for name, entry in desk.entries.items():
        if name not in overtakers and entry.is_placed:
            yield entry, [r for m in entry.members.values() for r in m.rows if r != NOWHERE]

"""One score, remembered for every shape and node until the node changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import INT, Floats, Ints
from mooring.model.demand import DeviceKind
from mooring.policy.own import NodeStates, Task
from mooring.policy.placing.constraints import Facts
from mooring.policy.placing.devices import choose_devices
from mooring.policy.placing.score import Plain, first_fit

if TYPE_CHECKING:
    from mooring.model.books import Books
    from mooring.model.demand import Demand
    from mooring.policy import own
    from mooring.policy.placing.fit import Fit
    from mooring.policy.placing.mix import Mix
    from mooring.policy.placing.score import Score


MOST_RANKED = 256
"""So many fits are ranked at a time, then it begins anew."""


@dataclass(slots=True)
class _Column:
    """Values over all nodes, and how far in the log and with which versions they are true."""

    values: Floats
    cursor: int
    version: tuple[int, ...]


class Board:
    """Picks the node with the best score."""

    def __init__(self, score: Score) -> None:
        self.score = score
        self._columns: dict[int, _Column] = {}
        """By shape: raw scores."""
        self._ranked: dict[Fit, _Column] = {}
        """By fit: raw scores less prices where there is room, and nothing is lower elsewhere."""
        self._touched: tuple[tuple[int, int], Ints] = (0, 0), np.zeros(0, INT)
        """The rows that were touched between two points of the log."""

    def copy(self, mix: Mix) -> Board:
        """Return a board for a fork; it fills its columns anew."""
        return Board(self.score.copy(mix))

    def pick(self, fit: Fit, rows: slice) -> int:
        """Return the best of these rows for one task; at least one must have room."""
        books = fit.books
        self.score.before(books, fit.demand.shape)
        values = self._ranks(fit)[rows]
        best = int(values.argmax())
        if books.tree.leaf_level == 1:
            return int(rows.start) + best
        return _most_used(books, np.flatnonzero(values == values[best]) + rows.start)

    def _ranks(self, fit: Fit) -> Floats:
        """Return what all rows are worth for one task; what has changed since is ranked anew."""
        books, score = fit.books, self.score
        raw, version = self._values(books, fit.demand), (score.version, score.price_version)
        ranked, end = self._ranked.get(fit), books.log_end
        if ranked is None or ranked.version != version or ranked.cursor < books.trimmed:
            if len(self._ranked) >= MOST_RANKED:
                self._ranked.clear()
            values = self._rank(fit, raw, slice(None))
            ranked = self._ranked[fit] = _Column(values, 0, version)
        elif ranked.cursor != end:
            rows = self._changed(books, ranked.cursor)
            ranked.values[rows] = self._rank(fit, raw, rows)
        ranked.cursor = end
        return ranked.values

    def _rank(self, fit: Fit, raw: Floats, rows: Ints | slice) -> Floats:
        prices = self.score.prices(fit.books, fit.demand.shape, rows)
        values = raw[rows] if prices is None else raw[rows] - prices
        return np.where(fit.slots[-1][rows] > 0, values, -np.inf)

    def devices(self, fit: Fit, row: int, rule: str) -> int:
        """Return the devices for the task: whole ones by the device rule, shares by the score."""
        if fit.demand.kind is DeviceKind.WHOLE:
            return choose_devices(fit.books, fit.demand, row, rule)
        return self.score.devices(fit.books, fit.demand.shape, row)

    def _values(self, books: Books, demand: Demand) -> Floats:
        column, score = self._columns.get(demand.index), self.score
        version, end = (score.version,), books.log_end
        if column is None or column.version != version or column.cursor < books.trimmed:
            every = np.arange(books.count, dtype=INT)
            values = score.raw(books, demand.shape, every)
            column = self._columns[demand.index] = _Column(values, 0, version)
        elif column.cursor != end:
            rows = self._changed(books, column.cursor)
            column.values[rows] = score.raw(books, demand.shape, rows)
        column.cursor = end
        return column.values

    def _changed(self, books: Books, cursor: int) -> Ints:
        """Return the rows that were touched since the log was so long."""
        key = cursor, books.log_end
        if self._touched[0] != key:
            rows = sorted(set(books.touched[cursor - books.trimmed :]))
            self._touched = key, np.array(rows, INT)
        return self._touched[1]


class OwnBoard(Board):
    """Picks the node with the best score of an own function, which sees all nodes that fit.

    Nothing is remembered: such a score may depend on everything that the function sees.
    """

    def __init__(self, function: own.Score) -> None:
        super().__init__(Plain(first_fit))  # chooses devices
        self._function = function
        self._facts: Facts | None = None

    def copy(self, mix: Mix) -> OwnBoard:
        """Return a board for a fork."""
        return OwnBoard(self._function)

    def pick(self, fit: Fit, rows: slice) -> int:
        """Return the best of these rows for one task; at least one must have room."""
        books = fit.books
        free = np.flatnonzero(fit.slots[-1][rows]) + rows.start
        if len(free) == 1:
            return int(free[0])
        if self._facts is None or self._facts.epoch != books.epoch:
            self._facts = Facts(books)
        values = self._function(NodeStates(books, self._facts, free), Task.of(fit.demand.shape))
        return _most_used(books, free[values == values.max()])


def _most_used(books: Books, rows: Ints) -> int:
    """Break a tie by the order of domains: the most used at each level, then the first row."""
    for level in range(1, books.tree.leaf_level):
        if len(rows) == 1:
            break
        used = books.used[level][books.tree.domain[level][rows]]
        rows = rows[used == used.max()]
    return int(rows[0])

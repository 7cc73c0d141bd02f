"""Victims as they lie on nodes: who is where, what it has there, and what it would cost.

What they have together is kept as columns, like the books, so that counting does not look at
anybody. Rows where somebody came or left are noted, so that others can catch up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import INT, views
from mooring.model.demand import DeviceKind
from mooring.policy.standing.roll import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.demand import Demand
    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.standing.item import Name
    from mooring.policy.victims.evict import Tasks, Victim

Where = tuple[tuple[int, "Demand"], ...]
"""The row of each task, and what that has there."""


class Herd:
    """All who may be chosen."""

    def __init__(self, desk: Desk, victims: Iterable[Victim] = ()) -> None:
        self.desk = desk
        self.names: dict[Name, None] = {}
        self.units: dict[str, dict[Name, None]] = {}
        """Of each workload, its units above the minimum."""
        self.on: dict[int, dict[Name, None]] = {}
        """Who is on which row."""
        self.freed = np.zeros_like(desk.books.open)
        """By resource and row, what all of them have there; of devices only whole ones."""
        self.freed_of = views(self.freed)
        self.odd: dict[int, int] = {}
        """Rows with parts of devices, which cannot be added up, and how many tasks have them."""
        self.touched: list[int] = []
        """Rows where somebody came or left."""
        self._row: dict[Name, int] = {}
        self._demand: dict[Name, Demand] = {}
        """Where single tasks were when they were taken in, and what they have there."""
        self._where: dict[Name, Where] = {}
        """The same of all others."""
        self._victims = {victim.name: victim for victim in victims}
        self.take(self._victims)

    def __len__(self) -> int:
        return len(self.names)

    def victim(self, name: Name) -> Victim:
        """Return one who may be chosen."""
        return self._victims[name]

    def entry(self, name: Name) -> Entry:
        """Return the workload of one who may be chosen."""
        return self.desk.entries[name[0]]

    def tasks(self, name: Name) -> Tasks:
        """Return what would leave with one who may be chosen."""
        return self._victims[name].tasks

    def take(self, names: Iterable[Name]) -> None:
        """Take some in."""
        on = self.on
        rows: dict[Demand, list[int]] = {}
        for name in names:
            self.names[name] = None
            if name[1]:
                self.units.setdefault(name[0], {})[name] = None
            members = self.entry(name).members
            parts = [(members[group], task) for group, task in self.tasks(name)]
            where = [(part.rows[task], part.demand) for part, task in parts]
            if len(where) == 1:
                self._row[name], self._demand[name] = where[0]
            else:
                self._where[name] = tuple(where)
            for row, demand in where:
                if row in on:
                    on[row][name] = None
                else:
                    on[row] = {name: None}
                if demand in rows:
                    rows[demand].append(row)
                else:
                    rows[demand] = [row]
        for demand, many in rows.items():
            self._count(demand, many, 1)

    def drop(self, name: Name) -> None:
        """Let one go, if it is there."""
        if name not in self.names:
            return
        if name[1]:
            del self.units[name[0]][name]
        for row, demand in self.where(name):
            self.on[row].pop(name, None)
            self._count(demand, [row], -1)
        for known in (self._row, self._demand, self._where):
            known.pop(name, None)
        del self.names[name]

    def _count(self, demand: Demand, rows: list[int], sign: int) -> None:
        """Add what tasks have, or take it away."""
        self.touched += rows
        if len(rows) > 1:
            at = np.array(rows, INT)
            for r, amount in demand.asks:
                np.add.at(self.freed[r], at, sign * amount)
        else:
            for r, amount in demand.asks:
                self.freed_of[r][rows[0]] += sign * amount
        for row in rows if demand.kind > DeviceKind.WHOLE else ():
            self.odd[row] = self.odd.get(row, 0) + sign

    def where(self, name: Name) -> Where:
        """Return where one is, and what it has there."""
        row = self._row.get(name)
        return self._where[name] if row is None else ((row, self._demand[name]),)

    def single(self, name: Name) -> Demand | None:
        """Return what one has who is a single task; None: it is several."""
        return self._demand.get(name)

    def price(self, name: Name) -> float:
        """Return what it costs to make one leave, and its units with it."""
        tasks = self.tasks(name)
        if self.units and not name[1] and name[0] in self.units:
            tasks = (*tasks, *(task for unit in self.units[name[0]] for task in self.tasks(unit)))
        return cost_of(self.desk, self.entry(name), tasks)

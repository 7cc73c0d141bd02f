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
    from collections.abc import Iterable, Sequence

    from mooring.model.demand import Demand
    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk
    from mooring.policy.standing.item import Name
    from mooring.policy.victims.evict import Tasks, Victim

Where = tuple[tuple[int, "Demand"], ...]
"""The row of each task, and what that has there."""
Bid = tuple[float, float, int]
"""Price and age; of equal prices the youngest is the least."""


class Herd:
    """All who may be chosen."""

    def __init__(self, desk: Desk, victims: Iterable[Victim] = ()) -> None:
        self.desk = desk
        self.names: dict[Name, Where] = {}
        """Where everybody was when taken in, and what it has there."""
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
        self._known: dict[tuple[int, Demand], Where] = {}
        """Single tasks of one shape on one row are at the same place."""
        self._bids: dict[Name, Bid] = {}
        self._bids_at = desk.now
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

    def tasks_of(self, names: Iterable[Name]) -> list[Tasks]:
        """Return what would leave with each of some who may be chosen."""
        return [self._victims[name].tasks for name in names]

    def take(self, names: Iterable[Name]) -> None:
        """Take some in."""
        names = list(names)
        tasks = self.tasks_of(names)
        rows: dict[Demand, list[int]] = {}
        if set(map(len, tasks)) <= {1}:
            wheres = self._singles(names, tasks)
        else:
            wheres = [self._find(name, some) for name, some in zip(names, tasks, strict=True)]
        self.names.update(zip(names, wheres, strict=True))
        on = self.on
        for name, where in zip(names, wheres, strict=True):
            if name[1]:
                self.units.setdefault(name[0], {})[name] = None
                self._bids.pop((name[0], 0), None)
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

    def _singles(self, names: list[Name], tasks: list[Tasks]) -> list[Where]:
        """Return where single tasks are, and what they have there."""
        entries, known = self.desk.entries, self._known
        parts = [
            entries[name[0]].members[some[0][0]] for name, some in zip(names, tasks, strict=True)
        ]
        places = [
            (part.rows[some[0][1]], part.demand) for part, some in zip(parts, tasks, strict=True)
        ]
        return [known.get(place) or known.setdefault(place, (place,)) for place in places]

    def _find(self, name: Name, tasks: Tasks) -> Where:
        """Return where tasks are, and what they have there."""
        members = self.desk.entries[name[0]].members
        parts = [(members[group], task) for group, task in tasks]
        return tuple([(part.rows[task], part.demand) for part, task in parts])

    def drop(self, name: Name) -> None:
        """Let one go, if it is there."""
        where = self.names.pop(name, None)
        if where is None:
            return
        self._bids.pop(name, None)
        if name[1]:
            del self.units[name[0]][name]
            self._bids.pop((name[0], 0), None)
        for row, demand in where:
            self.on[row].pop(name, None)
            self._count(demand, [row], -1)

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

    def bid(self, name: Name) -> Bid:
        """Return what it costs to make one leave, and its age: in this order they are asked."""
        self._mind_time()
        known = self._bids.get(name)
        if known is None:
            entry = self.entry(name)
            age = (-(entry.started_at or 0.0), -entry.start_number)
            known = self._bids[name] = (self.price(name), *age)
        return known

    def bids(self, names: Sequence[Name]) -> list[Bid]:
        """Return the bids of many."""
        if self.units:
            return [self.bid(name) for name in names]
        self._mind_time()
        desk, known, tasks = self.desk, self.desk.entries, self.tasks_of(names)
        entries = [known[name[0]] for name in names]
        pairs = zip(entries, tasks, strict=True)
        prices = [cost_of(desk, entry, some) for entry, some in pairs]
        started = [-(entry.started_at or 0.0) for entry in entries]
        found = list(zip(prices, started, [-entry.start_number for entry in entries], strict=True))
        self._bids.update(zip(names, found, strict=True))
        return found

    def _mind_time(self) -> None:
        """Forget prices of another time."""
        if self._bids_at != self.desk.now:
            self._bids_at = self.desk.now
            self._bids.clear()

    def price(self, name: Name) -> float:
        """Return what it costs to make one leave, and its units with it."""
        tasks = self.tasks(name)
        if self.units and not name[1] and name[0] in self.units:
            tasks = (*tasks, *(task for unit in self.units[name[0]] for task in self.tasks(unit)))
        return cost_of(self.desk, self.entry(name), tasks)

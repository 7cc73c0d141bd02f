"""Victims as they lie on nodes: who is where, what it has there, and what it would cost.

What they have together is kept as columns, like the books, so that counting does not look at
anybody. Rows where somebody came or left are noted, so that others can catch up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import INT, views
from mooring.model.demand import DeviceKind
from mooring.policy.roll import price

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.model.demand import Demand
    from mooring.policy.desk import Desk
    from mooring.policy.evict import Victim
    from mooring.policy.item import Name

Where = tuple[tuple[int, "Demand"], ...]
"""The row of each task, and what that has there."""


class Herd:
    """All who may be chosen."""

    def __init__(self, desk: Desk, victims: Iterable[Victim] = ()) -> None:
        self.desk = desk
        self.victims: dict[Name, Victim] = {}
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
        self._where: dict[Name, Where] = {}
        self._prices: dict[Name, float] = {}
        self._priced_at = desk.now
        self.take(victims)

    def __len__(self) -> int:
        return len(self.victims)

    def take(self, victims: Iterable[Victim]) -> None:
        """Take some in."""
        on, known = self.on, self._where
        rows: dict[Demand, list[int]] = {}
        for victim in victims:
            members, name = victim.entry.members, victim.name
            self.victims[name] = victim
            if victim.unit:
                self.units.setdefault(name[0], {})[name] = None
                self._prices.pop((name[0], 0), None)
            where = []
            for group, task in victim.tasks:
                part = members[group]
                row, demand = part.rows[task], part.demand
                where.append((row, demand))
                if row in on:
                    on[row][name] = None
                else:
                    on[row] = {name: None}
                if demand in rows:
                    rows[demand].append(row)
                else:
                    rows[demand] = [row]
            known[name] = tuple(where)
        for demand, some in rows.items():
            self._count(demand, some, 1)

    def drop(self, name: Name) -> None:
        """Let one go, if it is there."""
        victim = self.victims.pop(name, None)
        if victim is None:
            return
        if victim.unit:
            del self.units[name[0]][name]
            self._prices.pop((name[0], 0), None)
        self._prices.pop(name, None)
        for row, demand in self._where.pop(name):
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

    def has(self, name: Name) -> Where:
        """Return where one is, and what it has there."""
        return self._where[name]

    def price(self, name: Name) -> float:
        """Return what it costs to make one leave, and its units with it."""
        if self._priced_at != self.desk.now:
            self._priced_at = self.desk.now
            self._prices.clear()
        known = self._prices.get(name)
        if known is None:
            known = price(self.desk, self.victims[name])
            if not name[1] and name[0] in self.units:
                some = [self.victims[unit] for unit in self.units[name[0]]]
                known += sum(price(self.desk, unit) for unit in some)
            self._prices[name] = known
        return known

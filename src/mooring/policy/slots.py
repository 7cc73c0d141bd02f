"""Slots that victims would free on nodes, counted: for tasks of one shape on whole devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.columns import INT
from mooring.model.demand import DeviceKind
from mooring.policy.roll import price

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.columns import Ints
    from mooring.policy.desk import Desk
    from mooring.policy.evict import Victim
    from mooring.policy.offers import Offer


@dataclass(frozen=True, slots=True)
class Gain:
    """Slots on one node, and who must leave for them beyond those of the gains before it."""

    cost: float
    """Of each slot."""
    row: int
    number: int
    """Of the gain on its node; it needs all before it."""
    slots: int
    victims: tuple[int, ...]


class Slots:
    """What one ask could get from a pool, node by node."""

    @staticmethod
    def can_count(desk: Desk, offer: Offer, pool: Sequence[Victim]) -> bool:
        """Return whether counting tells exactly what the pool frees for an ask."""
        leaf = offer.ask.root
        if leaf.demand is None or leaf.slices or leaf.demand.kind > DeviceKind.WHOLE:
            return False
        desk.placer.aim(offer.ask.avoid, offer.barred)
        if desk.placer.fit(leaf).company is not None:
            return False
        return all(
            victim.entry.members[group].demand.kind <= DeviceKind.WHOLE
            for victim in pool
            for group, _ in victim.tasks
        )

    def __init__(self, desk: Desk, offer: Offer, pool: Sequence[Victim]) -> None:
        self.desk = desk
        self.leaf = offer.ask.root
        self.pool = pool
        assert self.leaf.demand is not None
        self.asks = self.leaf.demand.asks
        desk.placer.aim(offer.ask.avoid, offer.barred)
        self.fit = desk.placer.fit(self.leaf)
        self.level = max(self.leaf.required, 0)
        self._prices: dict[int, float] = {}
        self._of: dict[str, list[Victim]] = {}
        for victim in pool:
            self._of.setdefault(victim.entry.workload.name, []).append(victim)
        self._add_up()

    def _add_up(self) -> None:
        """Note who is on which row, and what all of them together free there."""
        books = self.desk.books
        column = {r: i for i, (r, _) in enumerate(self.asks)}
        freed = [[0] * len(self.asks) for _ in range(books.count)]
        self.on: dict[int, dict[int, list[int]]] = {}
        """By row and victim, what it frees of each resource that is asked for."""
        for number, victim in enumerate(self.pool):
            for group, task in victim.tasks:
                members = victim.entry.members[group]
                row = members.rows[task]
                here = self.on.setdefault(row, {}).setdefault(number, [0] * len(self.asks))
                for r, amount in members.demand.asks:
                    at = column.get(r)
                    if at is not None:
                        here[at] += amount
                        freed[row][at] += amount
        most = np.full(books.count, 1 << 30, INT)
        table = np.array(freed, INT).reshape(books.count, len(self.asks))
        for i, (r, amount) in enumerate(self.asks):
            np.minimum(most, (books.open[r] + table[:, i]) // amount, out=most)
        self.most: Ints = np.maximum(most, 0) * self.fit.allowed

    @property
    def suffice(self) -> bool:
        """Return whether a domain would hold all, if the whole pool left."""
        per_domain = self.desk.books.tree.sums(self.level, self.most)
        return int(per_domain.max(initial=0)) >= self.leaf.count

    def cheapest(self) -> list[Victim]:
        """Return victims whose slots, with the free ones, are enough in the cheapest domain."""
        tree, books = self.desk.books.tree, self.desk.books
        domain = books.up[self.level]
        have = dict(enumerate(self.fit.slots[self.level].tolist()))
        total = tree.sums(self.level, self.most)
        cost = dict.fromkeys(have, 0.0)
        taken: dict[int, dict[Gain, None]] = {at: {} for at in have}
        by_row = {row: self._gains(row) for row in self.on if self.most[row]}
        gains = sorted(
            (gain for some in by_row.values() for gain in some),
            key=lambda gain: (gain.cost, gain.row, gain.number),
        )
        for gain in gains:
            at = domain[gain.row]
            if total[at] < self.leaf.count or gain in taken[at]:
                continue
            for one in by_row[gain.row][: gain.number + 1]:
                if have[at] < self.leaf.count and one not in taken[at]:
                    taken[at][one] = None
                    have[at] += one.slots
                    cost[at] += one.cost * one.slots
        enough = [at for at, slots in have.items() if slots >= self.leaf.count]
        best = min(enough, key=lambda at: (cost[at], at))
        chosen = dict.fromkeys(number for gain in taken[best] for number in gain.victims)
        return [self.pool[number] for number in chosen]

    def _gains(self, row: int) -> list[Gain]:
        """Return what can be had on a row, cheapest victims first."""
        books = self.desk.books
        left = [books.open_of[r][row] for r, _ in self.asks]
        copies = self._copies(left)
        some = sorted((self._price(number), number) for number in self.on[row])
        gains: list[Gain] = []
        pending: list[int] = []
        for _, number in some:
            pending.append(number)
            left = [a + b for a, b in zip(left, self.on[row][number], strict=True)]
            now = self._copies(left)
            if now > copies:
                left = self._spare(row, left, now, pending)
                slots = now - copies
                cost = sum(self._price(victim) for victim in pending) / slots
                gains.append(Gain(cost, row, len(gains), slots, tuple(pending)))
                copies, pending = now, []
        return gains

    def _spare(self, row: int, left: list[int], copies: int, pending: list[int]) -> list[int]:
        """Let those stay, dearest first, whom the last slot does not need."""
        for number in sorted(pending, key=self._price, reverse=True):
            without = [a - b for a, b in zip(left, self.on[row][number], strict=True)]
            if self._copies(without) >= copies:
                pending.remove(number)
                left = without
        return left

    def _copies(self, left: Sequence[int]) -> int:
        return max(
            0, min(have // amount for have, (_, amount) in zip(left, self.asks, strict=True))
        )

    def _price(self, number: int) -> float:
        """Return the part of a victim's price that one of its nodes bears."""
        known = self._prices.get(number)
        if known is None:
            victim = self.pool[number]
            rows = {victim.entry.members[group].rows[task] for group, task in victim.tasks}
            some = [victim]
            if not victim.unit:  # its units leave with it
                some = [v for v in self._of[victim.entry.workload.name] if v.unit or v is victim]
            whole = sum(price(self.desk, each) for each in some)
            known = self._prices[number] = whole / len(rows)
        return known

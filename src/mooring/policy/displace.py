"""The search for victims of profile `default`: the cheapest set without which one can start.

The rights (`rights`) say who may be asked to leave. From a pool of those a set is chosen: few by
trying all sets, cheapest first; many by counting slots on nodes, cheapest first, or by taking all
and putting back what is not needed, dearest first. A pool suffices or it does not: taking more away
never hurts, so where counting is exact a plan is found exactly if there is one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from mooring.policy.evict import Victim, attempt, remove, restore
from mooring.policy.offers import shortage_of, variants
from mooring.policy.rights import NEVER, Rights
from mooring.policy.roll import price
from mooring.policy.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.model.entry import Entry
    from mooring.policy.ask import Ask
    from mooring.policy.desk import Desk
    from mooring.policy.offers import Offer
    from mooring.policy.place import Seats
    from mooring.policy.rights import Legal, Pool
    from mooring.policy.roll import Roll
    from mooring.policy.share import Yardstick

EXACT_BELOW = 12
"""Pools of fewer victims are searched set by set."""

Found = tuple[list["Seats"], list[Victim]]
Cost = tuple[float, int]
"""Price, then how many."""


class CutShortSearchError(Exception):
    """The search for victims reached its bound."""


@dataclass(slots=True)
class Steps:
    """Counted steps of one search."""

    left: int

    def take(self) -> None:
        """Take one step, or stop."""
        self.left -= 1
        if self.left < 0:
            raise CutShortSearchError


class Choice:
    """Chooses victims for one workload out of a pool."""

    def __init__(self, desk: Desk, entry: Entry, offer: Offer, steps: Steps) -> None:
        self.desk = desk
        self.entry = entry
        self.offer = offer
        self.ask = offer.ask
        self.steps = steps
        desk.promises.settle()
        self.missing = desk.promises.missing()
        """What promises to queues are short of now; it must not become more."""

    def run(self, first: Sequence[Victim], pool: Sequence[Victim]) -> Found | None:
        """Return a cheap set of victims and the place that they make; None: not even all do.

        Those in `first` leave anyway.
        """
        books = self.desk.books
        mark = books.checkpoint()
        for victim in first:
            remove(self.desk, victim)
        found = self._run(pool)
        books.rollback(mark)
        return None if found is None else (found[0], [*first, *found[1]])

    def _run(self, pool: Sequence[Victim]) -> Found | None:
        if not pool or self._is_too_little(pool):
            return None
        if len(pool) < EXACT_BELOW:
            return self._exact(list(pool))
        if Slots.can_count(self.desk, self.offer, pool):
            slots = Slots(self.desk, self.offer, pool)
            if not slots.suffice:
                return None
            found = self._trimmed(slots.cheapest())
            if found is not None:
                return found
        return self._put_back(list(pool))

    def _is_too_little(self, pool: Sequence[Victim]) -> bool:
        """Return whether all victims together do not have what is asked for, by plain sums."""
        books = self.desk.books
        wanted: Counter[int] = Counter()
        for leaf in self.ask.leaves:
            assert leaf.demand is not None
            for r, amount in leaf.demand.pairs:
                wanted[r] += leaf.count * amount
        for victim in pool:
            members = victim.entry.members
            for group, _ in victim.tasks:
                for r, amount in members[group].demand.pairs:
                    wanted[r] -= amount
        free = np.maximum(books.open, 0).sum(axis=1)
        return any(amount > free[r] for r, amount in wanted.items())

    # -- one set ----------------------------------------------------------------------------

    def prove(self, victims: Sequence[Victim]) -> list[Seats] | None:
        """Return where it would start without these; nothing stays booked."""
        books = self.desk.books
        mark = books.checkpoint()
        for victim in victims:
            remove(self.desk, victim)
        seats = self._place()
        books.rollback(mark)
        return seats

    def _place(self) -> list[Seats] | None:
        """Book a place in the books as they are."""
        self.steps.take()
        if shortage_of(self.desk, self.entry, self.offer.request) is not None:
            return None
        seats = attempt(self.desk, self.entry, self.offer)
        if seats is None or not self.desk.promises.keeps(self.entry, seats, self.missing):
            return None
        return seats

    def _suffices(self) -> bool:
        """Return whether it could start in the books as they are."""
        mark = self.desk.books.checkpoint()
        seats = self._place()
        self.desk.books.rollback(mark)
        return seats is not None

    # -- few: set by set --------------------------------------------------------------------

    def _exact(self, pool: list[Victim]) -> Found | None:
        """Try sets in order of price; of equal ones the fewest victims, then the youngest."""
        best = self._put_back(pool)
        if best is None:
            return None
        pool = sorted(pool, key=self._key)
        prices = [price(self.desk, victim) for victim in pool]
        bound = _cost(prices, [pool.index(victim) for victim in best[1]])
        heap: list[tuple[Cost, tuple[int, ...]]] = []
        for first in range(len(pool)):
            heappush(heap, (_cost(prices, [first]), (first,)))
        while heap:
            cost, some = heappop(heap)
            if cost > bound:
                break
            victims = [pool[i] for i in some]
            seats = self.prove(victims)
            if seats is not None:
                return seats, victims
            for after in range(some[-1] + 1, len(pool)):
                more = (*some, after)
                heappush(heap, (_cost(prices, more), more))
        return best

    def _key(self, victim: Victim) -> tuple[float, float, int]:
        """Cheapest first; of equal ones the youngest."""
        entry = victim.entry
        return price(self.desk, victim), -(entry.started_at or 0.0), -entry.sequence

    # -- many: take all, put back what is not needed ----------------------------------------

    def _put_back(self, pool: list[Victim]) -> Found | None:
        """Take all away, then put back whoever is not needed, dearest first, by halves."""
        books = self.desk.books
        mark = books.checkpoint()
        pool = sorted(pool, key=self._key, reverse=True)
        for victim in pool:
            remove(self.desk, victim)
        if not self._suffices():
            books.rollback(mark)
            return None
        out = {id(victim): victim for victim in pool}
        try:
            self._halve(pool, out)
        except CutShortSearchError:
            self.steps.left = 1  # it costs more than it must, but it is a plan
        books.rollback(mark)
        victims = [victim for victim in pool if id(victim) in out]
        seats = self.prove(victims)
        assert seats is not None
        return seats, victims

    def _halve(self, some: list[Victim], out: dict[int, Victim]) -> None:
        """Put back all of these that are not needed; `out` is who stays away."""
        books = self.desk.books
        mark = books.checkpoint()
        for victim in some:
            restore(self.desk, victim)
        if self._suffices():
            for victim in some:
                del out[id(victim)]
            return
        books.rollback(mark)
        if len(some) == 1:
            return
        half = len(some) // 2
        self._halve(some[:half], out)
        self._halve(some[half:], out)

    def _trimmed(self, victims: list[Victim]) -> Found | None:
        """Put back whoever is not needed, one by one, where room is told by counting."""
        books, leaf = self.desk.books, self.ask.root
        seats = self.prove(victims)
        if seats is None:
            return None
        mark = books.checkpoint()
        for victim in victims:
            remove(self.desk, victim)
        self.desk.placer.aim(self.ask.avoid, self.offer.barred)
        out = dict.fromkeys(range(len(victims)))
        order = sorted(out, key=lambda i: self._key(victims[i]), reverse=True)
        level = max(leaf.required, 0)
        for i in order:
            fit = self.desk.placer.fit(leaf)
            spare = int(fit.slots[level].max(initial=0)) > leaf.count
            if not spare and len(victims[i].tasks) == 1:
                continue  # its node has a slot less without it
            inner = books.checkpoint()
            restore(self.desk, victims[i])
            if self._suffices():
                del out[i]
            else:
                books.rollback(inner)
        books.rollback(mark)
        if len(out) == len(victims):
            return seats, victims
        left = [victims[i] for i in out]
        seats = self.prove(left)
        return None if seats is None else (seats, left)


def _cost(prices: Sequence[float], some: Sequence[int]) -> Cost:
    return sum(prices[i] for i in some), len(some)


@dataclass(slots=True)
class Exchange:
    """What a search came to."""

    found: Found | None = None
    until: float = NEVER
    """When somebody may be asked to leave who may not be asked now."""
    is_cut: bool = False
    is_bold: bool = False


# wide: who asks for what, of whom, by which measure
def find_exchange(desk: Desk, roll: Roll, yardstick: Yardstick, entry: Entry, ask: Ask) -> Exchange:
    """Return whom a workload may displace to start, cheapest first, and where it would start."""
    exchange, steps = Exchange(), Steps(desk.policy.eviction.steps)
    line = roll.line(yardstick)
    is_due = entry.workload.name in desk.due
    try:
        for offer in variants(desk, entry, ask):
            owed_s = desk.promises.owed_to(entry, offer)
            rights = Rights(desk, line, roll.newcomer(entry, offer.request), is_due, owed_s)
            choice = Choice(desk, entry, offer, steps)
            pools = list(rights.pools())
            exchange.found = _first(choice, roll, pools)
            if exchange.found is None and not entry.past.is_bold:
                bold = rights.bold()
                exchange.found = _first(choice, roll, [bold]) if bold else None
                exchange.is_bold = exchange.found is not None
            exchange.until = min(exchange.until, rights.until)
            if exchange.found is not None:
                return exchange
    except CutShortSearchError:
        exchange.is_cut = True
    return exchange


def _first(choice: Choice, roll: Roll, pools: Iterable[Pool]) -> Found | None:
    """Return what the first pool gives that suffices."""
    for pool in pools:
        first = _victims(roll, pool.first)
        found = choice.run(first, _victims(roll, pool.rest, first))
        if found is not None:
            return found
    return None


def _victims(roll: Roll, legal: Sequence[Legal], first: Sequence[Victim] = ()) -> list[Victim]:
    """Return items as victims; units of a workload that leaves whole are no victims beside it."""
    whole = {item.workload for item, _ in legal if not item.unit}
    gone = {
        task for victim in first for task in ((victim.entry.workload.name, t) for t in victim.tasks)
    }
    found = []
    for item, cause in legal:
        if item.unit and item.workload in whole:
            continue
        victim = roll.victim(item, cause)
        if not any((item.workload, task) in gone for task in victim.tasks):
            found.append(victim)
    return found

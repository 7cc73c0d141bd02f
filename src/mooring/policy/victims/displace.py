"""The search for victims of profile `default`: the cheapest set without which one can start.

The rights (`rights`) say who may be asked to leave: items, that is minima (with all that is above
them) and single units. Of few, all sets are tried, cheapest first. Of many, a pool is taken away
by counting slots on nodes, cheapest first, or whole, and what is not needed is put back, dearest
first. A pool suffices or it does not: taking more away never hurts, so where counting is exact a
plan is found exactly if there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.demand import DeviceKind
from mooring.model.entry import Entry
from mooring.policy.placing.ask import Ask
from mooring.policy.placing.place import Seats
from mooring.policy.queues.offers import Offer, shortage_of
from mooring.policy.standing.line import Line, word
from mooring.policy.standing.rights import NEVER, Rights
from mooring.policy.standing.roll import price
from mooring.policy.victims.evict import Victim, attempt, remove_all, remove_each, restore
from mooring.policy.victims.herd import Herd
from mooring.policy.victims.hunt import EXACT_BELOW
from mooring.policy.victims.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.policy.desk import Desk
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.standing.line import Item, Name
    from mooring.policy.standing.rights import Legal, Seen
    from mooring.policy.standing.roll import Roll
    from mooring.policy.victims.hunt import Hunt

Found = tuple[list["Seats"], list[Victim]]
PlaceIt = Callable[["Offer"], "list[Seats] | None"]
"""Books a place as offered, in the books as they are; None: there is none."""
Cost = tuple[float, int]
"""Price, then how many."""


class CutShortSearchError(Exception):
    """The search for victims reached its bound."""


@dataclass(slots=True)
class Steps:
    """Counted steps of one search, and what those of earlier cycles came to.

    A search that was cut short is begun again with what is known: that costs no step, so that it
    goes on where it stopped.
    """

    left: int
    known: dict[object, list[Seats] | None] | None = None
    """Where one has a place, by who is gone; None: nothing is to be remembered."""
    has_recalled: bool = False

    def take(self) -> None:
        """Take one step, or stop."""
        self.left -= 1
        if self.left < 0:
            raise CutShortSearchError

    def of(self, key: object, book: Callable[[], list[Seats] | None]) -> list[Seats] | None:
        """Return what a step comes to; if that is not known, it is taken."""
        if self.known is None:
            self.take()
            return book()
        if key in self.known:
            self.has_recalled = True
            found = self.known[key]
            if found is None:
                return None
            return [replace(each, rows=each.rows[:], devices=each.devices[:]) for each in found]
        self.take()
        found = self.known[key] = book()
        return found


class Pool:
    """Those whom one chooses from; some may turn out not to do."""

    def __init__(self, victims: Sequence[Victim]) -> None:
        self.victims = victims
        self._slots: Slots | None = None

    def leave_out(self, victim: Victim) -> None:
        """Let one not be chosen any more."""
        self.victims = [other for other in self.victims if other is not victim]
        if self._slots is not None:
            self._slots.herds[0].drop(victim.name)

    def counted(self, desk: Desk, offer: Offer) -> Slots:
        """Return what they would free; where nobody was left out that is known already."""
        if self._slots is None:
            self._slots = Slots(desk, offer, [Herd(desk, self.victims)])
        else:
            self._slots.skip()
        self._slots.refresh(offer)
        return self._slots


class Choice:
    """Chooses victims for one workload among those whom it may ask to leave."""

    # wide: who asks for what, of whom, how long, and how it is placed
    def __init__(
        self,
        roll: Roll,
        entry: Entry,
        offer: Offer,
        steps: Steps,
        place_it: PlaceIt | None = None,
    ) -> None:
        self.desk = roll.desk
        self.roll = roll
        self.entry = entry
        self.offer = offer
        self.ask = offer.ask
        self.steps = steps
        self.is_start = place_it is None
        """It may be anywhere; then slots on nodes can be counted."""
        self._place_it = place_it or partial(attempt, roll.desk, entry)
        self.desk.promises.settle()
        self.missing = self.desk.promises.missing()
        """What promises to queues are short of now; it must not become more."""
        self._most: dict[int, int] = {}
        """What its queue may use at most, by pair."""
        self._gone: frozenset[Name] = frozenset()
        """Those who are out of the books whoever is tried."""

    def run(self, rights: Rights) -> Found | None:
        """Return a cheap set of victims and the place that they make; None: there is none."""
        self._most = rights.most()
        light = self._victims(rights.light())
        found = self._one_of(rights, light) if light else None
        if found is not None:
            return found
        every = self._victims(rights.everyone())
        return self._one_of(rights, every) if len(every) > len(light) else None

    def could(self, rights: Rights) -> bool:
        """Return whether it could start if all left whom it may ask: then some of them do."""
        self._most = rights.most()
        every = self._victims(rights.everyone())
        return bool(every) and not self._is_too_little(every) and self.prove(every) is not None

    def _one_of(self, rights: Rights, every: list[Victim]) -> Found | None:
        """Return a cheap set out of all these."""
        if self._is_too_little(every):
            return None
        if len(every) < EXACT_BELOW:
            return self._exact(rights, every)
        names = {(victim.entry.workload.name, victim.unit) for victim in every}
        best: Found | None = None
        most = 0
        for pool in rights.pools():
            first, rest = (
                self._victims(e for e in some if e[0].name in names)
                for some in (pool.first, pool.rest)
            )
            if best is not None and self._cost(first) >= self._cost(best[1]):
                break
            most = max(most, len(first) + len(rest))
            found = self._from(first, rest)
            if found is not None:
                found = self._without(rights, found, first)
                if best is None or self._cost(found[1]) < self._cost(best[1]):
                    best = found
        return self._all_but(rights, every) if best is None and len(every) > most else best

    def _all_but(self, rights: Rights, every: list[Victim]) -> Found | None:
        """Return a set of those who may be asked only because others of them leave too."""
        found = self._put_back(every, rights)
        while found is not None:
            fewer = self._put_back(found[1], rights)
            if fewer is None or len(fewer[1]) == len(found[1]):
                return self._if_legal(rights, found[1])
            found = fewer
        return None

    def _victims(self, legal: Iterable[Legal]) -> list[Victim]:
        return [self.roll.victim(item, cause) for item, cause in legal]

    def _item(self, victim: Victim) -> Item:
        return self.roll.item(victim.entry.workload.name, victim.unit)

    def _from(self, first: Sequence[Victim], pool: Sequence[Victim]) -> Found | None:
        """Return a cheap set out of a pool; those in `first` leave anyway."""
        books = self.desk.books
        mark = books.checkpoint()
        remove_each(self.desk, first)
        self._gone = frozenset(victim.name for victim in first)
        found = self.among(Pool(pool))
        self._gone = frozenset()
        books.rollback(mark)
        return None if found is None else (found[0], [*first, *found[1]])

    def among(self, pool: Pool) -> Found | None:
        """Return a cheap set out of a pool, whoever may ask whom; None: not even all suffice.

        If it is asked again for a pool, the books must be as they were.
        """
        if self._is_too_little(pool.victims):
            return None
        if pool.victims and self.is_start and Slots.can_count(self.desk, self.offer):
            slots = pool.counted(self.desk, self.offer)
            if not slots.suffice:
                return None
            found = self.trimmed(slots.cheapest())
            if found is not None:
                return found
        return self._put_back(list(pool.victims))

    def _without(self, rights: Rights, found: Found, first: Sequence[Victim]) -> Found:
        """Let those of `first` stay after all whom nobody needs, not even for a right."""
        for victim in sorted(first, key=self._key, reverse=True):
            names = {victim.entry.workload.name} if not victim.unit else set()
            some = [v for v in found[1] if v is not victim]
            if any(v.unit and v.entry.workload.name in names for v in some):
                continue  # its units would leave without it, which others may be asked for first
            if some and rights.causes([self._item(v) for v in some]) is not None:
                seats = self.prove(some)
                found = found if seats is None else (seats, some)
        return found

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

        def book() -> list[Seats] | None:
            remove_each(self.desk, victims)
            return self._place()

        mark = self.desk.books.checkpoint()
        seats = self.steps.of(self._key_of(victims), book)
        self.desk.books.rollback(mark)
        return seats

    def confirmed(self, found: Found) -> Found:
        """Return a set with the place that it makes, found anew: what is known may be old."""
        self.steps.known = None
        self.steps.left = max(1, self.steps.left)
        seats = self.prove(found[1])
        if seats is None:
            raise CutShortSearchError
        return seats, found[1]

    def _key_of(self, victims: Iterable[Victim]) -> object:
        """Return what a place depends on: how it is charged, and who is gone."""
        if self.steps.known is None:
            return None
        ways = (tuple(self.offer.request.items()), self.offer.barred, bool(self._most))
        codes = tuple([leaf.code for leaf in self.ask.leaves])
        return ways, codes, self._gone.union([victim.name for victim in victims])

    def _place(self) -> list[Seats] | None:
        """Book a place in the books as they are."""
        used, request = self.desk.books.usage_of[self.entry.queue], self.offer.request
        if any(used[pair] + request[pair] > most for pair, most in self._most.items()):
            return None
        if shortage_of(self.desk, self.entry, request) is not None:
            return None
        seats = self._place_it(self.offer)
        if seats is None or not self.desk.promises.keeps(self.entry, seats, self.missing):
            return None
        return seats

    def _suffices(self, gone: Iterable[Victim]) -> bool:
        """Return whether it could start in the books as they are, in which these are gone."""

        def book() -> list[Seats] | None:
            return None if self._place() is None else []

        mark = self.desk.books.checkpoint()
        found = self.steps.of(("enough", self._key_of(gone)), book)
        self.desk.books.rollback(mark)
        return found is not None

    def _booked(self, gone: Iterable[Victim]) -> list[Seats] | None:
        """Return where it would start in the books as they are, in which these are gone."""
        mark = self.desk.books.checkpoint()
        seats = self.steps.of(self._key_of(gone), self._place)
        self.desk.books.rollback(mark)
        return seats

    def _cost(self, victims: Iterable[Victim]) -> Cost:
        names = {victim.entry.workload.name for victim in victims}
        return sum(price(self.desk, victim) for victim in victims), len(names)

    def _key(self, victim: Victim) -> tuple[float, float, int]:
        """Cheapest first; of equal ones the youngest."""
        entry = victim.entry
        return price(self.desk, victim), -(entry.started_at or 0.0), -entry.start_number

    # -- few: set by set --------------------------------------------------------------------

    def _exact(self, rights: Rights, pool: list[Victim]) -> Found | None:
        """Try sets in order of price; of equal ones the fewest workloads, then the youngest."""
        pool = sorted(pool, key=self._key)
        if self.prove(pool) is None:
            return None
        heap: list[tuple[Cost, tuple[int, ...]]] = []
        for first, victim in enumerate(pool):
            heappush(heap, (self._cost([victim]), (first,)))
        while heap:
            _, some = heappop(heap)
            victims = [pool[i] for i in some]
            if len(closed(victims, pool)) == len(victims) and not self._is_too_little(victims):
                seats = self._if_legal(rights, victims)
                if seats is not None:
                    return seats
            for after in range(some[-1] + 1, len(pool)):
                more = (*some, after)
                heappush(heap, (self._cost([pool[i] for i in more]), more))
        return None

    def _if_legal(self, rights: Rights, victims: list[Victim]) -> Found | None:
        """Return a place that exactly these make if they may be asked, by the causes that hold."""
        causes = rights.causes([self._item(victim) for victim in victims])
        seats = None if causes is None else self.prove(victims)
        if seats is None or causes is None:
            return None
        pairs = zip(victims, causes, strict=True)
        return seats, [replace(victim, cause=cause) for victim, cause in pairs]

    # -- many: take all, put back what is not needed ----------------------------------------

    def _put_back(self, pool: list[Victim], rights: Rights | None = None) -> Found | None:
        """Take all away, then put back whoever is not needed, dearest first, by halves.

        With rights, those also stay away by whom others may be asked.
        """
        books = self.desk.books
        mark = books.checkpoint()
        remove_each(self.desk, pool)
        if not self._suffices(pool):
            books.rollback(mark)
            return None
        order = sorted(pool, key=self._key, reverse=True)
        order.sort(key=lambda victim: victim.unit > 0)  # no unit comes back before its minimum
        out = {id(victim): victim for victim in order}
        try:
            self._halve(order, out, rights)
        except CutShortSearchError:
            self.steps.left = 1  # it costs more than it must, but it is a plan
        books.rollback(mark)
        victims = [victim for victim in order if id(victim) in out]
        seats = self.prove(victims)
        assert seats is not None
        return seats, victims

    def _halve(self, some: list[Victim], out: dict[int, Victim], rights: Rights | None) -> None:
        """Put back all of these that are not needed; `out` is who stays away."""
        books = self.desk.books
        inside = {id(victim) for victim in some}
        others = [victim for key, victim in out.items() if key not in inside]
        gone = {victim.entry.workload.name for victim in others if not victim.unit}
        some = [v for v in some if not (v.unit and v.entry.workload.name in gone)]
        if not some:
            return
        mark = books.checkpoint()
        for victim in some:
            restore(self.desk, victim)
        if self._may_stay(some, out, rights) and self._suffices(others):
            for victim in some:
                del out[id(victim)]
            return
        books.rollback(mark)
        if len(some) == 1:
            return
        half = len(some) // 2
        self._halve(some[:half], out, rights)
        self._halve(some[half:], out, rights)

    def _may_stay(self, some: list[Victim], out: dict[int, Victim], rights: Rights | None) -> bool:
        """Return whether the others may be asked to leave though these stay."""
        if rights is None:
            return True
        inside = {id(victim) for victim in some}
        left = [self._item(victim) for key, victim in out.items() if key not in inside]
        return rights.causes(left) is not None

    def trimmed(self, victims: list[Victim]) -> Found | None:
        """Put back whoever is not needed, one by one, where room is told by counting."""
        books = self.desk.books
        mark = books.checkpoint()
        remove_all(self.desk, victims)
        seats = self._booked(victims)
        left = self._needed(victims) if seats is not None else victims
        books.rollback(mark)
        if len(left) < len(victims):
            seats = self.prove(left)
        return None if seats is None else (seats, left)

    def _needed(self, victims: list[Victim]) -> list[Victim]:
        """Return victims, who have been removed, without those whom it does not take."""
        names = [victim.entry.workload.name for victim in victims]
        counts = Counter(names)
        single = [counts[v.entry.workload.name] == 1 and _is_one_slot(v) for v in victims]
        if all(single) and not self._has_spare():
            return victims
        out = dict.fromkeys(range(len(victims)))
        order = sorted(out, key=lambda i: self._key(victims[i]), reverse=True)
        order.sort(key=lambda i: victims[i].unit > 0)  # no unit comes back before its minimum
        for i in order:
            if victims[i].unit and any(names[j] == names[i] and not victims[j].unit for j in out):
                continue
            if single[i] and not self._has_spare():
                continue  # its node has a slot less without it
            mark = self.desk.books.checkpoint()
            restore(self.desk, victims[i])
            if self._suffices([victims[j] for j in out if j != i]):
                del out[i]
            else:
                self.desk.books.rollback(mark)
        return [victims[i] for i in out]

    def _has_spare(self) -> bool:
        """Return whether there are more slots in a domain than it takes."""
        leaf = self.ask.root
        self.desk.placer.aim(self.ask.avoid, self.offer.barred)
        slots = self.desk.placer.fit(leaf).slots[max(leaf.required, 0)]
        return int(slots.max(initial=0)) > leaf.count


def _is_one_slot(victim: Victim) -> bool:
    """Return whether a victim is one task that shares no device."""
    kinds = [victim.entry.members[group].demand.kind for group, _ in victim.tasks]
    return len(kinds) == 1 and kinds[0] <= DeviceKind.WHOLE


def closed(victims: Sequence[Victim], pool: Iterable[Victim]) -> list[Victim]:
    """Return victims with the units of a pool that leave with their minima."""
    there = {(victim.entry.workload.name, victim.unit) for victim in victims}
    whole = {name for name, unit in there if not unit}
    more = [
        victim
        for victim in pool
        if victim.entry.workload.name in whole
        and (victim.entry.workload.name, victim.unit) not in there
    ]
    return [*victims, *more]


@dataclass(slots=True)
class Exchange:
    """What a search came to."""

    found: Found | None = None
    until: float = NEVER
    """When somebody may be asked to leave who may not be asked now."""
    is_cut: bool = False
    is_bold: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What others may have to leave for: the minimum of a workload, or one more unit of a group."""

    entry: Entry
    ask: Ask
    offers: Callable[[], Sequence[Offer]]
    """All ways to charge it, whatever quota says now."""
    suffices: Callable[[], bool]
    """Whether nobody need leave, in the books as they are; what it books is taken back."""
    place_it: PlaceIt | None = None
    """How a unit is placed beside what runs; None: a minimum, which may be anywhere."""
    group: str = ""
    """The group that grows; empty: it is a minimum."""
    tasks: Sequence[int] = ()
    """The tasks of the unit."""
    early_until: float = -NEVER
    """Until then it asks nobody of another queue: its turn has not come."""

    def newcomer(self, roll: Roll, offer: Offer) -> Item:
        """Return what would start, as an item."""
        unit = roll.count(self.entry.workload.name) if self.group else 0
        return roll.newcomer(self.entry, offer.request, unit)

    def which(self, found: Sequence[Seats]) -> list[Sequence[int]]:
        """Return the tasks of a unit by the seats that they have; empty: the first that wait."""
        ends = list(accumulate(len(seats.rows) for seats in found))
        return [self.tasks[a:b] for a, b in pairwise((0, *ends))] if self.group else []


# wide: who wants what of whom, by which shares, for how long
def find_exchange(
    desk: Desk, hunt: Hunt, yardstick: Yardstick, wish: Wish, steps: Steps
) -> Exchange:
    """Return whom a workload may displace to start or grow, cheapest first, and where to."""
    exchange, roll = Exchange(), hunt.roll
    entry, grows = wish.entry, bool(wish.group)
    line = roll.line(yardstick)
    if grows and not roll.count(entry.workload.name):
        return exchange  # what it had is finished
    is_due = not grows and entry.workload.name in desk.due
    is_early = wish.early_until > desk.now
    boldness = (False,) if grows or entry.past.is_bold else (False, True)
    seen: dict[int, Seen | None] = {}
    try:
        for is_bold, offer in product(boldness, wish.offers()):
            newcomer = wish.newcomer(roll, offer)
            choice = Choice(roll, entry, offer, steps, wish.place_it)
            is_sure, found, until = hunt.search(line, choice, newcomer, is_bold, is_early)
            if not is_sure:
                owed_s = None if grows else desk.promises.owed_to(entry, offer)
                turn = is_due, owed_s, is_early
                rights = Rights(desk, line, newcomer, *turn, seen=seen.get(id(offer)))
                rights.look(is_bold=is_bold)
                seen[id(offer)] = rights.seen
                found, until = choice.run(rights), rights.until
                is_sure = found is not None and _is_better(roll, yardstick, rights, found[1])
            found = found if is_sure else None
            if found is not None and steps.has_recalled:
                found = choice.confirmed(found)
            exchange.until = min(exchange.until, until)
            if found is not None:
                exchange.found = found[0], roll.closed(found[1])
                exchange.is_bold = is_bold
                break
    except CutShortSearchError:
        exchange.is_cut = True
    return exchange


def _is_better(roll: Roll, yardstick: Yardstick, rights: Rights, victims: Sequence[Victim]) -> bool:
    """Return whether the line is better with one more unit, which counts as old as its workload.

    A minimum starts last of all, and so is nobody's earlier senior; a unit can be.
    """
    p, line = rights.newcomer, rights.line
    started = float(roll.desk.entries[p.workload].start_number)
    if not p.unit or not any(
        item.queue == p.queue and item.rank > p.rank and item.started >= started
        for item in line.items()
    ):
        return True
    gone = {(v.entry.workload.name, v.unit) for v in victims}
    gone |= {unit.name for name, n in list(gone) if not n for unit in line.units(name)}
    items = [item for item in line.items() if item.name not in gone]
    items.append(replace(p, started=started))
    after = Line(line.tree, yardstick.quota, yardstick.divided, yardstick.norms, items)
    return word(after) < word(line)

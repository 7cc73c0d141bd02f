"""Reservations in time: the orders `easy` and `conservative`, by run-time limits or estimates.

easy           the first blocked ones of a queue are booked: who comes after them may start only if
               they can still start when they are booked. Who is no longer among the first stays
               booked, unless those are of a higher priority
conservative   everybody who waits is booked, in order, and nobody may delay anybody

A booking is the earliest instant at which one could be placed if those who run end by their limit
(or else their estimate) and those who are booked start as booked. Whether somebody would delay them
is tested by placing them all in a future with it. So a booking only ever moves earlier, unless the
world breaks it: work that overruns its estimate, a lost node, in `easy` a higher priority or one
who is not booked yet and comes before it. Who is booked anew then goes before those who are behind
it in its queue, whatever they were told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from mooring.model.plan import Delays, Impossible, Reserve, Reserved
from mooring.policy.backfill.calendar import longest
from mooring.policy.backfill.future import (
    Away,
    Booking,
    Give,
    delayed,
    earliest,
    give_back,
    nodes_of,
    seat_again,
)
from mooring.policy.backfill.running import Running
from mooring.policy.queues.offers import gate
from mooring.policy.victims.evict import remove

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.lines import Item, Lines, Rank
    from mooring.policy.queues.offers import Offer
    from mooring.policy.queues.tree import QueueTree
    from mooring.policy.victims.evict import Victim

ORDERS = ("easy", "conservative")
NOBODY = -1
LAST: Rank = (2, 0, inf, inf, inf, inf, 0)
Standing = Callable[[int, "Item"], tuple[object, ...]]
"""Where an item in the lines of a queue stands among all."""
Start = tuple["Item", "Sequence[Seats]"]
"""Who starts, or grows, and where."""
Place = Callable[[tuple[str, ...], list["Reason"]], "list[Seats] | None"]
"""Books seats off some nodes, or says why there are none."""


class Bookings:
    """Who starts when at the latest, at one desk."""

    # wide: the lines of a court
    def __init__(
        self,
        desk: Desk,
        lines: dict[int, Lines],
        queue_of: dict[str, int],
        standing: Standing,
    ) -> None:
        self.desk = desk
        self.booked: dict[str, Booking] = {}
        self.gone: Sequence[Victim] = ()
        """Who is on the way out and out of the books already, for a moment."""
        self._lines = lines
        self._queue_of = queue_of
        self._standing = standing
        self._tree: QueueTree | None = None
        self._orders: dict[int, str] = {}
        """The queues with reservations in time."""
        self._running = Running(desk)
        self._seen: tuple[object, ...] = ()
        """Of the desk, when all of this was last looked at."""
        self._seen_at = -inf
        self._waiting: dict[int, list[tuple[Rank, Item]]] = {}
        self._next: dict[int, int] = {}
        """How far a pass has come in each queue."""
        self._confirmed: dict[str, None] = {}
        """Those whose bookings hold in this pass."""
        self._has_gained = True
        """There may be room that was not there when bookings were last looked at."""
        self._moves = self._moves_before = 0
        """How often bookings have moved earlier, or were given up, now and before this pass."""
        self._refused: dict[Item, int] = {}
        """How often they had when somebody who would have delayed them was kept back."""
        self._grown: dict[int, None] = {}
        """Queues with bookings made in this pass for which those behind them were not minded."""
        self._has_freed = False
        """One that was booked has started early, and others were not looked at since."""
        self._is_sound = False
        """Who was last let through delays none of all who are booked."""
        self._slipped: dict[str, Booking] = {}
        """Bookings that the world has broken, until there are others."""
        self._before: dict[str, tuple[Booking | None, Booking | None]] = {}
        """What was booked, or had slipped, before this cycle, where that has changed in it."""
        self._shown_before: dict[str, tuple[object, ...] | None] = {}
        self._shown: dict[str, tuple[object, ...]] = {}
        self._told: dict[str, None] = {}

    # -- who is booked ----------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Return whether any queue has reservations in time."""
        if self._tree is not self.desk.tree:
            self._tree = self.desk.tree
            self._seen = ()
            orders = enumerate(self._tree.order)
            self._orders = {queue: order for queue, order in orders if order in ORDERS}
        return bool(self._orders)

    def kind_of(self, entry: Entry, queue: int) -> tuple[object, ...]:
        """Return what tells those apart who wait for the same, where run times matter."""
        if not self.is_on:
            return ()
        name = entry.workload.name if self._orders.get(queue) == "conservative" else ""
        return longest(self.desk, entry), name

    def settle(self, queue: int = NOBODY, rank: Rank = LAST) -> None:
        """Book all who are blocked before one of a queue is tried, in order."""
        if not self.is_on:
            for name in list(self.booked):
                self._unbook(name)
            return
        if self._seen != self._state() or self._is_late:
            self._renew()
        if self._has_freed:
            self._move_up()
        for other in self._orders:
            lines = self._lines.get(other)
            if lines is None:
                continue
            ready = lines.peek()
            bound = LAST if ready is None else lines.rank_of(ready[1])
            self._extend(other, min(bound, rank) if other == queue else bound)

    def reorder(self) -> None:
        """Look at everything anew: who waits stands in another order."""
        self._seen = ()

    def turn(self) -> bool:
        """End a pass over all who wait; return whether there should be another."""
        self.settle()
        self._has_gained, self._moves_before = self._has_moved, self._moves
        if self._has_gained:
            self._begin_pass()
            self._wake_refused()
        return self._has_gained

    @property
    def _has_moved(self) -> bool:
        """Return whether a booking has moved, or is gone, in this pass."""
        return self._moves != self._moves_before

    def wake(self) -> None:
        """Wake those who are due and were not tried since, and those who waited for one gone."""
        is_stale = False
        for name, booking in self.booked.items():
            lines, item = self._lines.get(booking.queue), (name, "")
            if lines is None or item not in lines:
                is_stale = True
            elif booking.at <= self.desk.now and not booking.was_called:
                booking.was_called = True
                lines.wake([lines.line_of(item)])
        if is_stale:
            self._refused.clear()
            self._wake_refused()

    def _wake_refused(self) -> None:
        """Wake those who were kept back before a booking moved."""
        for lines in self._lines.values():
            for line in list(lines.refused.values()):
                if self._refused.get(line.waiting[0][1], -1) < self._moves:
                    lines.wake([line])

    @property
    def stirs(self) -> bool:
        """Return whether bookings should be looked at anew."""
        if not self.is_on:
            return bool(self.booked)
        waiting = any(len(self._lines[queue]) for queue in self._orders if queue in self._lines)
        return waiting and self._seen != self._state()

    @property
    def stamp(self) -> tuple[object, ...]:
        """Return what it depends on whether one that is not booked may start."""
        return self._state(), self._moves, len(self.booked), self.desk.now

    def minded_by(self, item: Item) -> tuple[object, ...] | None:
        """Return what sets one apart from others who ask for the same room; None: it is booked.

        Room is only ever taken when somebody starts as booked, so it only matters who of them does
        so before one would end, and whom it must not delay.
        """
        if item[0] in self.booked:
            return None
        end = self._end_of(item)
        return tuple((b.name, b.at < end, self._binds(b, item)) for b in self.booked.values())

    def _state(self) -> tuple[object, ...]:
        """Return what bookings depend on."""
        desk = self.desk
        closed = tuple(desk.reserved.items())
        return desk.version, desk.books.epoch, len(desk.entries), closed

    @property
    def _is_late(self) -> bool:
        """Return whether somebody could not start as booked, so that time itself matters."""
        now = self.desk.now
        return self._seen_at < now and any(b.at < now for b in self.booked.values())

    def _renew(self) -> None:
        """Look anew at who runs, who waits and which bookings hold."""
        self._has_gained |= self._running.look()
        self._waiting = {
            queue: lines.ranked() for queue, lines in self._lines.items() if queue in self._orders
        }
        for name in [*self.booked, *(n for n in self.desk.latest if n not in self.booked)]:
            self._revise(name)
        self._slipped = {n: b for n, b in self._slipped.items() if self._waits(n, b.queue)}
        self._mend()
        self._begin_pass()
        self._seen, self._seen_at = self._state(), self.desk.now

    def _begin_pass(self) -> None:
        self._next = dict.fromkeys(self._waiting, 0)
        self._confirmed = {}
        self._grown, self._has_freed = {}, False

    def _revise(self, name: str) -> None:
        """Bring a booking up to date, or one that an earlier life promised."""
        old, new = self.booked.get(name), self._wanted(name)
        if new is None:
            if old is not None:
                self._unbook(name)
            return
        new.at = self.desk.latest.of(name) if old is None else old.at
        if old is not None:
            new.placements, new.was_called = old.placements, old.was_called
            self._has_gained |= old.ask.root is not new.ask.root or old.lasts != new.lasts
            self._has_gained |= old.ask.avoid != new.ask.avoid
        self.booked[name] = new

    def _wanted(self, name: str) -> Booking | None:
        """Return a booking without an instant; None: it could not start anyway."""
        queue, item = self._queue_of.get(name, NOBODY), (name, "")
        if queue not in self._orders or not self._waits(name, queue):
            return None
        lines, entry = self._lines[queue], self.desk.entries[name]
        line = lines.line_of(item)
        never = line.ask.problems or any(isinstance(why, Impossible) for why in line.reasons)
        if never or gate(self.desk, entry):
            return None
        ask, closed = line.ask, self.desk.closed_for(name)
        if closed:
            ask = replace(ask, avoid=(*ask.avoid, *closed))
        lasts, binds_all = longest(self.desk, entry), self._orders[queue] == "conservative"
        return Booking(name, queue, lines.rank_of(item), ask, lasts, inf, binds_all)

    def _waits(self, name: str, queue: int) -> bool:
        """Return whether one waits to start in the lines of a queue."""
        return queue in self._lines and (name, "") in self._lines[queue]

    def _mend(self) -> None:
        """Give up the bookings that no longer hold, the last in line first."""
        ends = self._running.ends()
        if delayed(self.desk, ends, self.booked.values()) is None:
            return
        kept: list[Booking] = []
        for booking in sorted(self.booked.values(), key=lambda booking: booking.rank):
            if delayed(self.desk, ends, [*kept, booking]) is None:
                kept.append(booking)
            else:
                self._slip(booking)

    def _slip(self, booking: Booking) -> None:
        """Give up a booking that the world has broken.

        Another is made as if nobody behind it in its queue was booked: those come after it.
        """
        self._unbook(booking.name)
        self._slipped[booking.name] = booking

    # -- one pass over all who wait ---------------------------------------------------------

    def _extend(self, queue: int, bound: Rank) -> None:
        """Book those of a queue that wait before a rank."""
        waiting, at = self._waiting.get(queue, []), self._next.get(queue, 0)
        most = None
        if self._orders[queue] == "easy":
            most = self.desk.policy.backfill.reservations
        while at < len(waiting) and waiting[at][0] < bound:
            item = waiting[at][1]
            name, group = item
            at += 1
            if group or item not in self._lines[queue]:
                continue
            self._look_at(name)
            if most is not None and self._count(queue) >= most:
                at = len(waiting)
                self._look_at_rest(queue)
        self._next[queue] = at

    def _move_up(self) -> None:
        """Let those who come first have what one has given up that started early."""
        self._has_freed = False
        for name in list(self._confirmed):
            self._look_at(name)

    def _count(self, queue: int) -> int:
        """Return how many of a queue are booked in this pass."""
        return sum(self.booked[name].queue == queue for name in self._confirmed)

    def _look_at_rest(self, queue: int) -> None:
        """Look at those of a queue who were booked and are no longer among the first.

        What they were told holds as long as it can; only a higher priority takes it over.
        """
        found = [b for b in {**self._slipped, **self.booked}.values() if b.queue == queue]
        first = [b for b in found if b.name in self._confirmed]
        rest = [b for b in found if b.name not in self._confirmed]
        for booking in sorted(rest, key=lambda booking: booking.rank):
            if any(_is_kept(booking, other) for other in first):
                self._look_at(booking.name)
            elif booking.name in self.booked:
                self._unbook(booking.name)

    def _look_at(self, name: str) -> None:
        """Book one, or move its booking earlier if that can be."""
        old, slipped = self.booked.get(name), self._slipped.get(name)
        wanted = self._wanted(name) if old is None else old
        if wanted is None:
            return
        if slipped is not None:
            wanted.placements, wanted.was_called = slipped.placements, slipped.was_called
        is_doubtful = old is not None and old.queue in self._grown
        if old is not None and not (is_doubtful or self._has_gained or self._has_moved):
            self._confirmed[name] = None
            return
        ends, others = self._running.ends(), [b for n, b in self.booked.items() if n != name]
        before = [b for b in others if b.queue != wanted.queue or b.name in self._confirmed]
        if is_doubtful and delayed(self.desk, ends, [*before, wanted]) is not None:
            self._slip(wanted)
            old, slipped = None, wanted
        if old is None or self._has_gained or self._has_moved:
            minded = before
            if slipped is None and (wanted.binds_all or old is not None):
                names = {b.name for b in before}
                minded = [b for b in others if b.name in names or _is_kept(b, wanted)]
            until = inf if old is None else old.at
            found = earliest(self.desk, ends, minded, wanted, until)
            if found is not None:
                self._book(found, old)
                self._grown.update({} if len(minded) == len(others) else {found.queue: None})
        if name in self.booked:
            self._confirmed[name] = None

    def _book(self, booking: Booking, old: Booking | None) -> None:
        name, latest = booking.name, self.desk.latest
        self._note(name)
        self._slipped.pop(name, None)
        if latest.of(name) < booking.at:
            latest.drop(name)  # the world has broken it
        latest.promise(name, booking.at)
        self._moves += old is not None
        booking.was_called &= old is None  # one that slips again and again is not called again
        self.booked[name] = booking

    def _unbook(self, name: str) -> None:
        self._note(name)
        del self.booked[name]
        self._confirmed.pop(name, None)
        self.desk.latest.drop(name)
        self._shown.pop(name, None)
        self._told[name] = None
        self._moves += 1

    def _note(self, name: str) -> None:
        """Note how one was booked before this cycle, before that changes."""
        self._before.setdefault(name, (self.booked.get(name), self._slipped.get(name)))

    def take_back(self) -> None:
        """Let all be booked as before this cycle: some who started in it have not come after all.

        Others may have been booked as if they had.
        """
        for name, (booked, slipped) in list(self._before.items()):
            if name in self.booked:
                self._unbook(name)
            self._slipped.pop(name, None)
            if booked is not None:
                self.booked[name] = replace(booked, was_called=False)
                self.desk.latest.promise(name, booked.at)
            if slipped is not None:
                self._slipped[name] = replace(slipped, was_called=False)
        for name, shown in self._shown_before.items():
            self._shown.pop(name, None)
            self._shown.update({} if shown is None else {name: shown})
        self._has_gained = True
        self._seen = ()

    # -- who may start ----------------------------------------------------------------------

    # wide: who would start, where, and why not
    def let(
        self, item: Item, place: Place, reasons: list[Reason], offer: Offer | None = None
    ) -> list[Seats] | None:
        """Book seats for which nobody starts later; None: there are none.

        What the placer likes best may be what another is booked on: then it is asked again without
        those nodes. Who need not mind a booking spares it where that costs nothing.
        """
        books, others = self.desk.books, [b for n, b in self.booked.items() if n != item[0]]
        mark, away = books.checkpoint(), Away(nodes_of(others, self._end_of(item)))
        late, lawful = "", None
        while True:
            seats = place(tuple(away.nodes), [] if away.nodes else reasons)
            if seats is None:
                break
            who = self.delays(item, seats)
            if who is None and (self._is_sound or self._late(item, seats, others) is None):
                return seats
            if who is None and lawful is None:
                lawful = tuple(away.nodes)
            books.rollback(mark)
            if who is not None and not away.nodes:
                late, again = who, self._as_booked(item, offer)
                if again is not None:
                    return again
            if not away.widen([books.nodes[row].name for each in seats for row in each.rows]):
                break
        if lawful is not None:
            self._is_sound = False
            return place(lawful, [])
        if late:
            self.keep_back(item, late, reasons)
        return None

    def _as_booked(self, item: Item, offer: Offer | None) -> list[Seats] | None:
        """Book the seats of one's own booking, if it is due and nobody starts later for it."""
        own, mark = self.booked.get(item[0]), self.desk.books.checkpoint()
        if own is None or offer is None or own.at > self.desk.now:
            return None
        seats = seat_again(self.desk, own, offer)
        if seats is not None and self.delays(item, seats) is not None:
            self.desk.books.rollback(mark)
            return None
        return seats

    def keep_back(self, item: Item, late: str, reasons: list[Reason]) -> None:
        """Note that somebody would start later for one."""
        self._refused[item] = self._moves
        reasons.append(Delays(late))

    def delays(self, item: Item, seats: Sequence[Seats]) -> str | None:
        """Return who would start later for one whose seats are booked; None: nobody."""
        others, gone = [b for n, b in self.booked.items() if n != item[0]], self.gone
        bound = [b for b in others if self._binds(b, item)]
        end = self._end_of(item)
        self._is_sound = not gone and all(end <= other.at for other in others)
        if not bound or self._is_sound or (not gone and all(end <= b.at for b in bound)):
            return None
        late = self._late(item, seats, bound)
        self._is_sound = late is None and not gone and len(bound) == len(others)
        return None if late is None else late.name

    def _end_of(self, item: Item, start_at: float | None = None) -> float:
        """Return when one ends that starts, or grows, now or at another instant."""
        if item[1]:
            return self._running.end_of(item[0])
        start_at = self.desk.now if start_at is None else start_at
        return start_at + longest(self.desk, self.desk.entries[item[0]])

    def _late(self, item: Item, seats: Sequence[Seats], bound: list[Booking]) -> Booking | None:
        """Return who of some would start later for one whose seats are booked and starts now."""
        end = self._end_of(item), self._give(item, seats)
        return delayed(self.desk, self._running.ends(self.gone, [end]), bound)

    def _late_after(
        self, starts: Sequence[Start], victims: Sequence[Victim], bound: list[Booking]
    ) -> Booking | None:
        """Return who of some would start later for those whose seats are booked.

        They start once victims have left, who are out of the books already and may take as long as
        room is kept.
        """
        at = self.desk.holds.ends_at
        ends = [(self._end_of(item, at), self._give(item, seats)) for item, seats in starts]
        return delayed(self.desk, self._running.ends(victims, ends), bound)

    def _give(self, item: Item, seats: Sequence[Seats]) -> Give:
        return partial(give_back, self.desk, seats, self.desk.entries[item[0]].account)

    def would_delay(
        self, item: Item, seats: Sequence[Seats], victims: Sequence[Victim]
    ) -> str | None:
        """Return who would start later if others left for one; None: nobody."""
        desk = self.desk
        if not self.booked:
            return None
        mark, entry = desk.books.checkpoint(), desk.entries[item[0]]
        for victim in victims:
            remove(desk, victim)
        for each in seats:
            assert each.part.demand is not None
            demand, code = each.part.demand, each.part.code
            desk.books.take(demand, each.rows, each.devices, entry.account, code)
        bound = [b for n, b in self.booked.items() if n != item[0] and self._binds(b, item)]
        late = self._late_after([(item, seats)], victims, bound)
        desk.books.rollback(mark)
        return None if late is None else late.name

    def would_be_delayed(
        self, starts: Sequence[Start], victims: Sequence[Victim], item: Item | None
    ) -> bool:
        """Return whether somebody would start later for moves, which are booked.

        Those start who were moved, and those they were moved for. The last moves are for one in
        line, who need not mind everybody, or for nobody. Who is to start while they may be under
        way might need the room that is left.
        """
        now, done_at = self.desk.now, self.desk.holds.ends_at
        if any(now < booking.at < done_at for booking in self.booked.values()):
            return True
        names = {name for (name, _), _ in starts}
        others = [booking for name, booking in self.booked.items() if name not in names]
        bound = [b for b in others if item is None or self._binds(b, item)]
        return bool(bound) and self._late_after(starts, victims, bound) is not None

    def _binds(self, booking: Booking, item: Item) -> bool:
        """Return whether one in line must not delay a booking."""
        queue = self._queue_of[item[0]]
        is_before = booking.queue == queue and booking.rank < self._lines[queue].rank_of(item)
        if booking.binds_all:
            return is_before or booking.queue != queue or item[0] not in self._slipped
        own = self.booked.get(item[0])
        if booking.queue == queue and own is not None and _is_kept(booking, own):
            return True
        if booking.name not in self._confirmed:
            return False
        if booking.queue == queue:
            return is_before
        first = self._standing(booking.queue, (booking.name, ""))
        return first < self._standing(queue, item)

    def started(self, entry: Entry) -> None:
        """Note that one has started, or grown."""
        name, desk = entry.workload.name, self.desk
        if not self.is_on:
            return
        self._refused.pop((name, ""), None)
        own = self.booked.get(name)
        if own is not None:
            moves, is_early = self._moves, own.at > desk.now
            self._unbook(name)
            self._has_gained |= is_early
            self._has_freed |= is_early
            self._moves = moves + (is_early and own.binds_all)
        if self._is_sound:  # else all is looked at anew
            self._running.note(entry)
            self._seen = self._state()
        self._is_sound = False
        if own is not None:
            if not own.binds_all:
                self._refused.clear()
            self._wake_refused()

    # -- what is known ----------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        """Return when the next one is due; infinite: nobody is booked."""
        if not self.booked:
            return inf
        now = self.desk.now
        waiting = (b.at for b in self.booked.values() if b.at > now and not b.was_called)
        return min(waiting, default=inf)

    def show(self) -> None:
        """Say which bookings are new or have changed."""
        for booking in sorted(self.booked.values(), key=lambda booking: booking.rank):
            where = tuple((each.group, each.nodes) for each in booking.placements)
            shown = self._shown.get(booking.name)
            if shown != (booking.at, where):
                self._shown_before.setdefault(booking.name, shown)
                self._shown[booking.name] = booking.at, where
                self._told[booking.name] = None
                decision = Reserve(booking.name, booking.placements, booking.at)
                self.desk.decisions.append(decision)

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return when one starts at the latest."""
        booking = self.booked.get(name)
        if booking is None:
            return ()
        nodes = {node for each in booking.placements for node in each.nodes}
        return (Reserved(booking.at, len(nodes)),)

    # wide: the lines of a court
    def copy(
        self,
        desk: Desk,
        lines: dict[int, Lines],
        queue_of: dict[str, int],
        standing: Standing,
    ) -> Bookings:
        """Return the bookings of a fork: they have been looked at when these were."""
        new = Bookings(desk, lines, queue_of, standing)
        new.booked = {name: replace(booking) for name, booking in self.booked.items()}
        new._slipped = {name: replace(booking) for name, booking in self._slipped.items()}
        new._running = self._running.copy(desk)
        new._tree, new._orders = self._tree, dict(self._orders)
        new._seen, new._seen_at = self._seen, self._seen_at
        new._waiting = {queue: list(names) for queue, names in self._waiting.items()}
        new._next, new._confirmed = dict(self._next), dict(self._confirmed)
        new._grown, new._is_sound = dict(self._grown), self._is_sound
        new._has_freed = self._has_freed
        new._has_gained, new._refused = self._has_gained, dict(self._refused)
        new._moves, new._moves_before = self._moves, self._moves_before
        new._shown, new._told = dict(self._shown), dict(self._told)
        return new

    def tell(self) -> list[str]:
        """Return those whose bookings have changed since the last call."""
        if not (self._told or self._before or self._shown_before):
            return []
        told = list(self._told)
        for noted in (self._told, self._before, self._shown_before):
            noted.clear()
        return told


def _is_kept(promised: Booking, other: Booking) -> bool:
    """Return whether one of a queue is not to start later for another that is booked too.

    That one may come before it: it has a start of its own, and only a higher priority goes earlier.
    """
    return promised.binds_all or promised.rank[1] <= other.rank[1]

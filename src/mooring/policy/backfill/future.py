"""The books as they will be if running work ends by its limit and booked work starts as booked.

Time is walked through on the books themselves, between a checkpoint and a rollback: what ends gives
its room back, what is booked takes its own. Room is only ever taken where a booking begins, so a
plan holds if everybody has a place at the instant of its booking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from mooring.model.workload import Placement
from mooring.policy.placing.ask import Ask
from mooring.policy.queues.lines import Rank
from mooring.policy.queues.offers import offers
from mooring.policy.victims.evict import attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Part
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.offers import Offer

Give = Callable[[], None]
"""Gives the room of one that ends back."""
End = tuple[float, Give]
TRIES = 4
"""So often one is tried without nodes on which it was in the way; the last time without any."""


@dataclass(slots=True)
class Booking:
    """A start in time, on nodes."""

    name: str
    queue: int
    """In whose lines it waits."""
    rank: Rank
    ask: Ask
    lasts: float
    at: float
    """When it starts at the latest."""
    binds_all: bool
    """Whether nobody may delay it; else only those who are before it."""
    placements: tuple[Placement, ...] = ()
    """Where, as far as is known; any other place will do at that instant."""
    was_called: bool = False
    """Whether it was tried since its instant came."""


class Future:
    """A walk through the time to come; only ever between a checkpoint and a rollback."""

    def __init__(self, desk: Desk, ends: Sequence[End], bookings: Iterable[Booking]) -> None:
        now = desk.now
        self.desk = desk
        self.seats: dict[str, list[Seats]] = {}
        """Where those have started on the way who found no room on the nodes of their booking."""
        self._ends = ends
        self._bookings = sorted(bookings, key=lambda booking: (max(booking.at, now), booking.rank))
        self._ended = self._begun = self._started = 0
        self._more: list[tuple[float, int, Give]] = []
        """When those end who have started on the way."""

    def fork(self) -> Future:
        """Return a walk that goes on from here; the books are the same."""
        new = Future(self.desk, self._ends, ())
        new._bookings, new.seats = self._bookings, dict(self.seats)
        new._ended, new._begun, new._started = self._ended, self._begun, self._started
        new._more = list(self._more)
        return new

    @property
    def next_end(self) -> float:
        """Return when somebody ends next; infinite: nobody does."""
        first = self._ends[self._ended][0] if self._ended < len(self._ends) else inf
        return min(first, self._more[0][0]) if self._more else first

    @property
    def next_instant(self) -> float:
        """Return when something happens next; infinite: nothing does."""
        return min(self.next_end, self._next_begin)

    @property
    def _next_begin(self) -> float:
        if self._begun == len(self._bookings):
            return inf
        return max(self._bookings[self._begun].at, self.desk.now)

    def go_to(self, at: float) -> Booking | None:
        """Let all happen up to an instant; return who could not start as booked, and stop there."""
        while True:
            end, begin = self.next_end, self._next_begin
            if min(end, begin) > at or end == begin == inf:
                return None
            if end <= begin:
                self._end_one()
                continue
            booking = self._bookings[self._begun]
            if not self.start(booking, begin):
                return booking
            self._begun += 1

    def finish(self) -> Booking | None:
        """Let all who are booked start; return who could not."""
        while self._begun < len(self._bookings):
            lost = self.go_to(self._next_begin)
            if lost is not None:
                return lost
        return None

    def start(self, booking: Booking, at: float) -> bool:
        """Let one start, on its own nodes if they have room; return whether it could."""
        desk = self.desk
        account = desk.entries[booking.name].account
        seats, is_new = seat(desk, booking)
        if seats is None:
            return False
        if is_new:
            self.seats[booking.name] = seats
        self._started += 1
        if at + booking.lasts < inf:
            give: Give = partial(give_back, desk, seats, account)
            heappush(self._more, (at + booking.lasts, self._started, give))
        return True

    def _end_one(self) -> None:
        if self._more and self.next_end == self._more[0][0]:
            heappop(self._more)[2]()
            return
        self._ends[self._ended][1]()
        self._ended += 1


def delayed(desk: Desk, ends: Sequence[End], bookings: Iterable[Booking]) -> Booking | None:
    """Return one who could not start as booked; None: all can, and their places are noted."""
    mark = desk.books.checkpoint()
    bookings = list(bookings)
    future = Future(desk, ends, bookings)
    lost = future.finish()
    desk.books.rollback(mark)
    if lost is None:
        note_places(desk, bookings, future)
    return lost


# wide: one that waits, and all that is known of the time to come
def earliest(
    desk: Desk,
    ends: Sequence[End],
    others: Sequence[Booking],
    wanted: Booking,
    before: float,
    after: float = -inf,
) -> Booking | None:
    """Return the first booking, before an instant, that delays none of the others.

    It may not be before another instant either.
    """
    books, found, rest = desk.books, None, None
    mark = books.checkpoint()
    future = Future(desk, ends, others)
    while rest is None and (at := future.next_instant) < before:
        has_ends = future.next_end == at
        if future.go_to(at) is not None:
            break
        if not has_ends or at < after:
            continue  # there is less room than before, or it is not its turn
        found = replace(wanted, at=at)
        rest = _begin(future, found, nodes_of(others, at + wanted.lasts, at))
    books.rollback(mark)
    if found is None or rest is None:
        return None
    note_places(desk, [*others, found], rest)
    return found


def _begin(future: Future, booking: Booking, others: Mapping[str, None]) -> Future | None:
    """Return a walk to the end in which one starts here and delays nobody; None: it would.

    It is tried again without the nodes on which it would be in the way of others.
    """
    books, away = future.desk.books, Away(others)
    trial: Booking | None = booking
    while trial is not None:
        mark, rest = books.checkpoint(), future.fork()
        has_room = rest.start(trial, trial.at)
        is_good = has_room and rest.finish() is None
        books.rollback(mark)
        if is_good:
            return rest
        used = [node for each in trial.placements for node in each.nodes]
        if booking.name in rest.seats:
            rows = [row for each in rest.seats[booking.name] for row in each.rows]
            used = [books.nodes[row].name for row in rows]
        trial = None
        if has_room and away.widen(used):
            ask = replace(booking.ask, avoid=(*booking.ask.avoid, *away.nodes))
            trial = replace(booking, ask=ask, placements=())
    return None


def nodes_of(bookings: Iterable[Booking], before: float, after: float = -inf) -> dict[str, None]:
    """Return the nodes of those who are booked between two instants."""
    some = [booking for booking in bookings if after < booking.at < before]
    return {node: None for b in some for each in b.placements for node in each.nodes}


class Away:
    """Nodes that one is kept off because others are booked there."""

    def __init__(self, others: Mapping[str, None]) -> None:
        self.nodes: dict[str, None] = {}
        self._others = others
        self._left = TRIES

    def widen(self, used: Iterable[str]) -> bool:
        """Keep off nodes that were used in vain, in the end off all; False: that is no help."""
        met = [node for node in used if node in self._others and node not in self.nodes]
        self._left -= 1
        self.nodes.update(dict.fromkeys(met if self._left > 0 else self._others))
        return bool(met) and self._left >= 0


def give_back(desk: Desk, seats: Sequence[Seats], account: int) -> None:
    """Give booked seats back."""
    for each in seats:
        assert each.part.demand is not None
        desk.books.give(each.part.demand, each.rows, each.devices, account, each.part.code)


def seat(desk: Desk, booking: Booking) -> tuple[list[Seats] | None, bool]:
    """Book a place for one in the books as they are; say whether it is another than before."""
    entry = desk.entries[booking.name]
    for offer in offers(desk, entry, booking.ask, booking.ask.barred, []):
        seats = seat_again(desk, booking, offer)
        if seats is not None:
            return seats, False
        seats = attempt(desk, entry, offer)
        if seats is not None:
            return seats, True
    return None, False


def seat_again(desk: Desk, booking: Booking, offer: Offer) -> list[Seats] | None:
    """Book the nodes of a booking, if they have room."""
    books, nodes = desk.books, {each.group: each.nodes for each in booking.placements}
    desk.placer.aim(offer.ask.avoid, offer.barred)
    mark, found = books.checkpoint(), []
    for leaf in offer.ask.leaves:
        seats = _on(desk, leaf, nodes.get(leaf.name, ()))
        if seats is None:
            books.rollback(mark)
            return None
        assert leaf.demand is not None
        account = desk.entries[booking.name].account
        books.take(leaf.demand, seats.rows, seats.devices, account, leaf.code)
        found.append(seats)
    return found


def _on(desk: Desk, leaf: Part, nodes: tuple[str, ...]) -> Seats | None:
    """Return seats for all tasks of a leaf on nodes; None: there is no room, or none of these."""
    row_of = desk.books.row_of
    if len(nodes) != leaf.count or any(node not in row_of for node in nodes):
        return None
    rows = [row_of[node] for node in nodes]
    counts = Counter(rows)
    fit = desk.placer.fit(leaf)
    slots = fit.slots_of[-1]
    in_runs = [row for row, count in counts.items() for _ in range(count)] == rows
    if fit.company is not None or not in_runs or any(slots[r] < n for r, n in counts.items()):
        return None
    return desk.placer.seats(leaf, list(counts.items()))


def note_places(desk: Desk, bookings: Iterable[Booking], future: Future) -> None:
    """Note where those who are booked have started in a future."""
    for booking in bookings:
        if booking.name in future.seats:
            members = desk.entries[booking.name].members
            booking.placements = tuple(
                desk.placement(members[each.part.name].pending()[: len(each.rows)], each)
                for each in future.seats[booking.name]
            )

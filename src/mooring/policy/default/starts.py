"""A workload that starts: with all of its minimum, or as much as will do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mooring.model.plan import Blocked, CutShort, Delays, Leaving, NotTogether
from mooring.policy.default.hall import LATER
from mooring.policy.default.moving import Moving
from mooring.policy.default.passing import (
    forget_passes,
    is_for_ever,
    no_room,
    wake_blocked,
    wake_first_blocked,
)
from mooring.policy.fewer import largest, least, spare
from mooring.policy.placing.search import CutShortError, place
from mooring.policy.queues.offers import gate, offers, turns, variants
from mooring.policy.victims.displace import Wish

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.default.displacing import Displacing
    from mooring.policy.default.hall import Hall
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.lines import Line, Lines
    from mooring.policy.queues.offers import Offer


MOST_KINDS = 1000


Flavors = tuple[tuple[str, ...], ...]
"""Choices of a flavor for each resource group; none: all."""


class Starts:
    """Lets those in a hall start."""

    def __init__(self, desk: Desk, hall: Hall, displacing: Displacing) -> None:
        self.desk = desk
        self.hall = hall
        self.displacing = displacing
        self._moving = Moving(desk, hall, displacing)
        self._failed: dict[object, tuple[object, tuple[Reason, ...], tuple[str, ...]]] = {}
        """By kind of line: how things stood when there was no room, why, and what was closed."""
        self._refused: dict[object, tuple[object, tuple[Reason, ...]]] = {}
        """By room, and by whom one must mind if there is some: the same, in this cycle."""

    def copy(self, desk: Desk, hall: Hall, displacing: Displacing) -> Starts:
        """Return the same for a fork."""
        new = Starts(desk, hall, displacing)
        new._moving = self._moving.copy(desk, hall, displacing)
        return new

    def begin(self) -> None:
        """Begin a cycle."""
        self._refused.clear()

    def attempt(self, entry: Entry, line: Line, reasons: list[Reason]) -> bool:
        """Let a workload start, or others leave for it; say why if neither can be.

        Where only room decides, lines of one kind have it or not together. Where that and bookings
        do, lines of one room start or not together if they must mind the same.
        """
        queue = self.hall.queue_of[entry.workload.name]
        if self.hall.waits_for_room(queue):
            return self._attempt_as_others(entry, line, reasons)
        if not self._only_room_decides(entry):
            return self._attempt(entry, line, reasons)
        books, desk = self.desk.books, self.desk
        state, known, shut = self._failed.get(line.kind, (None, (), ()))
        if state == (books.log_end, books.epoch, desk.reserved):
            line.tried_at, line.until = desk.version, self.hall.quantum.begins_at()
            line.shut = shut
            reasons += known
            return False
        if self._attempt(entry, line, reasons):
            return True
        if len(self._failed) >= MOST_KINDS:
            self._failed.clear()
        state = books.log_end, books.epoch, desk.reserved
        self._failed[line.kind] = state, tuple(reasons), line.shut
        return False

    def _attempt_as_others(self, entry: Entry, line: Line, reasons: list[Reason]) -> bool:
        """Let a workload start unless one could not that is like it to all who are booked."""
        hall, item = self.hall, (entry.workload.name, "")
        hall.bookings.settle(hall.queue_of[item[0]], hall.lines_of(entry).rank_of(item))
        state, minds = hall.bookings.stamp, hall.bookings.minded_by(item)
        if minds is None:
            return self._attempt(entry, line, reasons)
        for key in (line.room, (line.room, minds)):
            then, known = self._refused.get(key, (None, ()))
            if then == state:
                line.tried_at, line.until = self.desk.version, LATER
                reasons += known
                return False
        if self._attempt(entry, line, reasons):
            return True
        has_room = any(isinstance(reason, Delays) for reason in reasons)
        self._refused[(line.room, minds) if has_room else line.room] = state, tuple(reasons)
        return False

    def _only_room_decides(self, entry: Entry) -> bool:
        """Return whether a workload starts before its turn if there is room, and else not."""
        desk, hall = self.desk, self.hall
        if not hall.fills(entry) or hall.could_ask or hall.bookings.is_on or hall.could_move:
            return False
        rule = desk.tree.queues[hall.queue_of[entry.workload.name]]
        return not desk.tree.pairs and rule.bypass_limit is None and not _stays(entry)

    def _attempt(self, entry: Entry, line: Line, reasons: list[Reason]) -> bool:
        desk, lines, name = self.desk, self.hall.lines_of(entry), entry.workload.name
        line.until, line.shut = LATER, ()
        self.hall.bookings.settle(self.hall.queue_of[name], lines.rank_of((name, "")))
        fills = self.hall.fills(entry)
        reasons += gate(desk, entry)
        if fills and _stays(entry) and not reasons:
            reasons.append(Blocked(_first_waiting(lines)))
        if not reasons and not line.ask.problems:
            barred, blockers, is_shut = self.hall.blocked(entry, line)
            if is_shut:
                line.tried_at = desk.version
                reasons += blockers
                return False
            ask = self._open_to(entry, line.ask)
            ask = ask if ask.barred == barred else replace(ask, barred=barred)
            is_held, seats = self._find(entry, line, ask, reasons)
            if is_held:
                return True
            if seats is None and not any(isinstance(reason, Leaving) for reason in reasons):
                seats = self._fewer(entry, ask)
            if seats is not None:
                self._start(entry, lines, seats)
                if fills:
                    self.displacing.overtakes(entry)
                return True
            if spare(ask) and is_for_ever(reasons):  # that is why not all of it
                reasons.clear()
                self._seats(entry, least(ask), reasons)
            if reasons and not blockers:  # it is not told of room on closed nodes
                line.shut = desk.closed_for(name)
            reasons += blockers
        if not reasons:
            reasons += self._why(entry, line)
            if any(isinstance(reason, NotTogether) for reason in reasons):
                self._note_closed(entry, line, reasons)
        return False

    def _why(self, entry: Entry, line: Line) -> tuple[Reason, ...]:
        """Return why there is no room for a line.

        Where nobody is told, it only matters whether there could be any: that stays as it is,
        but for those to whom it matters who else is where.
        """
        desk, (seen, reasons) = self.desk, line.explained
        state = desk.books.epoch, desk.edits, desk.policy, desk.tree
        is_social = any(leaf.shape.is_social for leaf in entry.workload.leaves())
        if not self.hall.is_shadow or is_social or seen != state:
            reasons = no_room(desk, entry, line.ask)
            line.explained = state, reasons
        return reasons

    def _note_closed(self, entry: Entry, line: Line, reasons: list[Reason]) -> None:
        """Say for whom nodes are reserved, if a workload would have room on them."""
        owners = [name for name in self.desk.reserved if name != entry.workload.name]
        if owners and self._has_room(entry, line.ask):
            reasons[:] = [Blocked(owners[0])]
            line.shut = self.desk.closed_for(entry.workload.name)

    def _has_room(self, entry: Entry, ask: Ask) -> bool:
        """Return whether there would be places; where counting tells, none are chosen.

        What is tried for one whose turn has come is seen by others, who look again.
        """
        if entry.workload.name not in self.desk.due and self._is_counted(ask):
            room = self._room
            return any(room(offer) for offer in offers(self.desk, entry, ask, ask.barred, []))
        mark = self.desk.books.checkpoint()
        seats = self._seats(entry, ask, [])
        self.desk.books.rollback(mark)
        return seats is not None

    def _is_counted(self, ask: Ask) -> bool:
        """Return whether it is told by counting alone if there are places for an ask."""
        desk, leaf = self.desk, ask.root
        if leaf.demand is None or leaf.slices or len(desk.books.kinds) > 1:
            return False
        if self.hall.bookings.is_on or desk.promises.given:
            return False
        profile = desk.placer.profile  # one that scores notes what it has looked at
        if profile.rule(desk.books, leaf, service=ask.service) in profile.scores:
            return False
        return desk.placer.fit(leaf).company is None

    def _room(self, offer: Offer) -> bool:
        """Return whether counting says that there is a domain with room for one group."""
        placer, leaf = self.desk.placer, offer.ask.root
        placer.aim(offer.ask.avoid, offer.barred)
        slots = placer.fit(leaf).slots[max(leaf.required, 0)]
        return int(slots.max(initial=0)) >= leaf.count

    def _find(
        self, entry: Entry, line: Line, ask: Ask, reasons: list[Reason]
    ) -> tuple[bool, list[Seats] | None]:
        """Return whether others leave for a workload, or else its places, if it has any."""
        until = LATER
        for turn in turns(self.desk, entry, ask):
            if not turn.evicts:
                seats = self._seats(entry, ask, [], turn.flavors)
                if seats is not None:
                    return False, seats
                continue
            told: list[Reason] = []
            if self.displacing.displace(line, self._wish(entry, ask, turn.flavors), told):
                return True, None
            until = min(until, line.until)
            if any(isinstance(reason, Leaving) for reason in told):
                reasons += told
                return False, None
        seats = self._seats(entry, ask, reasons)
        if seats is not None:
            return False, seats
        wish = self._wish(entry, ask)
        is_held = self._make_room(line, wish, reasons)
        line.until = min(line.until, until)
        if wish.early_until > self.desk.now:
            line.until = min(line.until, wish.early_until)
        return is_held, None

    def _make_room(self, line: Line, wish: Wish, reasons: list[Reason]) -> bool:
        """Let others leave for a workload, or be moved if that is cheaper; False: neither."""

        def instead(price: float) -> bool:
            return self._moving.instead(line, wish, price)

        if self.displacing.displace(line, wish, reasons, instead):
            return True
        return not self.displacing.is_patient and self._moving.make_room(line, wish, reasons)

    def _open_to(self, entry: Entry, ask: Ask) -> Ask:
        """Return an ask that keeps off nodes that are closed for another."""
        closed = self.desk.closed_for(entry.workload.name)
        return replace(ask, avoid=(*ask.avoid, *closed)) if closed else ask

    def _wish(self, entry: Entry, ask: Ask, only: Flavors = ()) -> Wish:
        """Return the minimum of a workload as something that others may have to leave for."""

        def suffices() -> bool:
            return self._seats(entry, ask, [], only) is not None

        def some() -> list[Offer]:
            found = variants(self.desk, entry, ask)
            return [offer for offer in found if not only or offer.flavors in only]

        item = (entry.workload.name, "")
        early_until = self.hall.early_until(item, self.hall.lines_of(entry))
        return Wish(entry, ask, some, suffices, early_until=early_until)

    def _seats(
        self, entry: Entry, ask: Ask, reasons: list[Reason], only: Flavors = ()
    ) -> list[Seats] | None:
        """Book places on what the queue offers, perhaps only some flavors; None: there are none."""
        every = offers(self.desk, entry, ask, ask.barred, reasons)
        found = (offer for offer in every if not only or offer.flavors in only)
        for offer in self.desk.promises.lawful(entry, ask, found, reasons):
            seats = self._place(entry, offer, reasons)
            if seats is not None:
                return seats
        return None

    def _fewer(self, entry: Entry, ask: Ask) -> list[Seats] | None:
        """Book places for as many tasks as can be had; None: not even for the least."""
        books = self.desk.books

        def attempt(fewer: Ask) -> Ask | None:
            mark = books.checkpoint()
            seats = self._seats(entry, fewer, [])
            books.rollback(mark)
            return None if seats is None else fewer

        best = largest(ask, attempt)
        return None if best is None else self._seats(entry, best, [])

    def _place(self, entry: Entry, offer: Offer, reasons: list[Reason]) -> list[Seats] | None:
        """Book places as offered, where nobody who is booked starts later; None: nowhere."""
        if not self.hall.bookings.is_on:
            return self._place_off(entry, offer, (), reasons)
        place = partial(self._place_off, entry, offer)
        return self.hall.bookings.let((entry.workload.name, ""), place, reasons, offer)

    def _place_off(
        self, entry: Entry, offer: Offer, away: tuple[str, ...], reasons: list[Reason]
    ) -> list[Seats] | None:
        """Book places as offered, but off some nodes; None: there are none."""
        desk = self.desk
        mark = desk.books.checkpoint()
        desk.placer.aim((*offer.ask.avoid, *away), offer.barred)
        before = desk.promises.missing()
        try:
            seats = place(desk.placer, offer.ask, entry.account)
        except CutShortError:
            desk.books.rollback(mark)
            reasons.append(CutShort(desk.placer.steps))
            return None
        if seats is not None and not desk.promises.admits(entry, seats, before, reasons):
            desk.books.rollback(mark)
            return None
        return seats

    def _start(self, entry: Entry, lines: Lines, seats: list[Seats]) -> None:
        self.hall.go(entry, lines)
        self.desk.promises.mark(entry, seats)
        self.desk.start_all(entry, seats)
        self.hall.bookings.started(entry)
        forget_passes(entry)
        if self.hall.is_single_file:
            wake_first_blocked(lines)
        else:
            wake_blocked(lines)
        if entry.is_elastic:
            self.hall.wait_to_grow(entry, lines)


def _first_waiting(lines: Lines) -> str:
    items = [(lines.rank_of(item), item[0]) for item in lines if not item[1]]
    return min(items)[1]


def _stays(entry: Entry) -> bool:
    """Return whether a workload could not be asked to leave as soon as another's turn comes."""
    return entry.is_fixed or entry.workload.minimum_run_s > 0

"""The court of profile `default`: lines for each queue, served by standing.

Inside a queue the line is in order of rank; between queues the one whose next workload would stand
first is served. What cannot start sleeps until something changes that could matter.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mooring.model.plan import (
    Blocked,
    CutShort,
    Delays,
    Excluded,
    Exhausted,
    Impossible,
    Leaving,
    NoRoom,
    NotAllowed,
    OverQuota,
    Promised,
    Stopped,
    Unknown,
)
from mooring.policy.backfill.booking import Bookings
from mooring.policy.fewer import largest
from mooring.policy.grow import wish_to_grow
from mooring.policy.placing.ask import compile_ask, leaf_ask
from mooring.policy.placing.beside import growth
from mooring.policy.placing.helped import Helped
from mooring.policy.placing.place import ANYWHERE
from mooring.policy.placing.search import CutShortError, place
from mooring.policy.placing.why import why
from mooring.policy.queues.claims import Claims, likely
from mooring.policy.queues.lines import Lines
from mooring.policy.queues.offers import (
    Offer,
    gate,
    kinds_of,
    offers,
    place_beside,
    variants,
)
from mooring.policy.standing.roll import Roll
from mooring.policy.victims.displace import Wish, find_exchange
from mooring.policy.victims.evict import carry_out, in_the_way, outgoing, patience_ends, remove
from mooring.policy.victims.hunt import Hunt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.lines import Item, Line, Rank, Request
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.victims.displace import Exchange
    from mooring.policy.victims.evict import Victim

LATER = float("inf")
_COUNTED = (NoRoom, Impossible, Excluded)
"""Reasons that can be counted anew."""


class DefaultCourt:
    """Who is next, by our own rules."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._lines: dict[int, Lines] = {}
        self._queue_of: dict[str, int] = {}
        """The queue in whose lines a workload stands."""
        self.bookings = Bookings(desk, self._lines, self._queue_of, self._stands)
        self.claims = Claims(desk)
        self._tree, self._kinds = desk.tree, desk.books.kinds_there()
        self._seen = 0
        self._epoch = 0
        self._yardstick: Yardstick | None = None
        self._roll = Roll(desk)
        self._hunt = Hunt(desk, self._roll)
        self._rivals_seen = -1
        self._has_rivals = False
        self._classes: dict[tuple[int, int], None] = {}
        """Queues and priorities that have been seen."""
        self.residual: Callable[[Entry], float] | None = None
        """Expected residual run time, while there is a shadow; it lets queues backfill."""
        self.evicts = True
        self._moved_on: dict[str, None] = {}
        """Those who left a line for a hold since somebody was last told."""
        self._stuck: dict[str, None] = {}
        """Those whom nobody of their queue may pass any more."""
        self._until = LATER
        """When somebody may be asked to leave who may not be asked now."""

    # -- who waits --------------------------------------------------------------------------

    def wait(self, entry: Entry) -> None:
        """Put a workload in line for what it misses: its minimum, or more for its groups."""
        lines = self._lines_of(entry)
        self._classes[entry.queue, self.desk.priority(entry)] = None
        by_age = self.desk.queue_of(entry).eviction.within_queue == "lower-or-newer"
        self._has_rivals |= len(self._classes) > 1 or entry.is_elastic or by_age
        if entry.has_begun:
            self._forget_passes(entry)
            self._wait_to_grow(entry, lines)
        elif (entry.workload.name, "") not in lines:
            line = self._line_of(entry, lines)
            item = (entry.workload.name, "")
            lines.join(line, self.rank(entry, grows=False), item)
            self.claims.add(item, entry.queue, self._likely(line, entry))
            self._mind_passes(entry)

    def _likely(self, line: Line, entry: Entry) -> Request:
        if line.likely is None:
            line.likely = likely(self.desk, line.ask, entry.account)
        return line.likely

    def _lines_of(self, entry: Entry) -> Lines:
        """Return the lines that a workload stands in; a local queue stands in those above it."""
        tree, at = self.desk.tree, entry.queue
        while tree.queues[at].local and tree.parent[at] >= 0:
            at = tree.parent[at]
        queue = self._queue_of.setdefault(entry.workload.name, at)
        lines = self._lines.get(queue)
        if lines is None:
            lines = self._lines[queue] = Lines()
        return lines

    def rank(self, entry: Entry, *, grows: bool) -> Rank:
        """Return the place of a workload in its queue."""
        workload = entry.workload
        deadline = LATER if workload.deadline_at is None else workload.deadline_at
        priority = -self.desk.priority(entry)
        return int(grows), priority, deadline, workload.submitted_at, entry.sequence

    def _line_of(self, entry: Entry, lines: Lines) -> Line:
        """Return the line of a workload's ask."""
        workload = entry.workload
        key: tuple[object, ...] = (
            workload.groups,
            workload.topology,
            workload.service,
            entry.avoid,
            entry.is_fixed,
            (workload.leave_s, workload.minimum_run_s),  # who can leave in time may be let in
            gate(self.desk, entry),
            *self.bookings.kind_of(entry, self._queue_of[workload.name]),
        )
        if self.backfills(entry):  # who is expected to be done first may overtake
            key += (workload.estimate_s, workload.run_limit_s, entry.past.saved_s)
        line = lines.line(key)
        if line is None:
            line = lines.open(key, compile_ask(self.desk.books, workload, entry.avoid))
        return line

    def _wait_to_grow(self, entry: Entry, lines: Lines) -> None:
        """Put every group of a running workload that may have more tasks in a line of its own."""
        if all(members.spare <= 0 for members in entry.members.values()):
            return
        for leaf in compile_ask(self.desk.books, entry.workload).root.leaves():
            item = (entry.workload.name, leaf.name)
            tasks = growth(entry.members[leaf.name], leaf)
            if item in lines and lines.ask_of(item).root.count != len(tasks):
                self._leave(lines, item)
                lines.close(item)
            if tasks and item not in lines:
                ask = leaf_ask(leaf, len(tasks), entry.workload, entry.avoid)
                lines.join(lines.open(item, ask), self.rank(entry, grows=True), item)
            if tasks:
                times = entry.members[leaf.name].spare // len(tasks)
                likely = self._likely(lines.line_of(item), entry)
                self.claims.add(item, entry.queue, likely, times)

    def leave(self, entry: Entry) -> bool:
        """Take a workload out of all lines; return whether it was in one."""
        name, found = entry.workload.name, False
        lines = self._lines.get(self._queue_of.pop(name, -1))
        if lines is None:
            return False
        if (name, "") in lines:
            self._wake_blocked(lines)
        for group in ("", *entry.members):
            if (name, group) in lines:
                self._leave(lines, (name, group))
                found = True
            if group:
                lines.close((name, group))
        return found

    def _leave(self, lines: Lines, item: Item) -> None:
        lines.leave(item)
        self.claims.drop(item)
        if not item[1]:
            self._stuck.pop(item[0], None)

    def refresh(self) -> None:
        """Line everybody up anew: priorities, queues and who may use them may have changed."""
        items = [item for lines in self._lines.values() for item in lines]
        names = dict.fromkeys(name for name, _ in items)
        self._tree = self.desk.tree
        self._lines.clear()
        self._queue_of.clear()
        self._stuck.clear()
        self._classes.clear()
        self.claims.renew()
        for name in names:
            self.wait(self.desk.entries[name])
        for entry in self.desk.running():
            self._classes[entry.queue, self.desk.priority(entry)] = None
            self.desk.moved[entry.workload.name] = None
        self._has_rivals |= len(self._classes) > 1

    def _wake_all(self) -> None:
        """Wake everybody."""
        for lines in self._lines.values():
            for line in lines.sleeping.values():
                line.tried_at = -1
            lines.wake(list(lines.sleeping.values()))
        kinds = self.desk.books.kinds_there()
        may_differ = len(kinds) > 1 or kinds != self._kinds or self.desk.has_groups
        if self._tree is not self.desk.tree or (self.desk.tree.pairs and may_differ):
            self._renew_claims()

    def _renew_claims(self) -> None:
        """Count all claims anew: the queues, what they name or the nodes have changed."""
        self._tree, self._kinds = self.desk.tree, self.desk.books.kinds_there()
        self.claims.renew()
        for lines in self._lines.values():
            lines.forget_sizes()
            for item in lines:
                line, entry = lines.line_of(item), self.desk.entries[item[0]]
                times = 1
                if item[1]:
                    times = entry.members[item[1]].spare // max(1, line.ask.root.count)
                self.claims.add(item, entry.queue, self._likely(line, entry), times)

    # -- deciding ---------------------------------------------------------------------------

    @property
    def stirs(self) -> bool:
        """Return whether a line should be tried or someone should be told something."""
        self._wake_lines()
        return self.bookings.stirs or any(
            lines.any_ready or lines.told for lines in self._lines.values()
        )

    def _wake_lines(self) -> None:
        """Wake the sleeping lines that a change since the last cycle could help."""
        books = self.desk.books
        if self._epoch != books.epoch:
            self._epoch = books.epoch
            self._wake_all()
        elif self._seen != books.log_end:
            lost = self._seen < books.trimmed
            fresh = None if lost else sorted(set(books.touched[self._seen - books.trimmed :]))
            helped = Helped(self.desk.fits, fresh)
            for lines in self._lines.values():
                asleep = [line for line in lines.sleeping.values() if self._is_helped(line, helped)]
                lines.wake(asleep)
        self._seen = books.log_end
        self._wake_rivals()
        self.bookings.wake()

    def _wake_rivals(self) -> None:
        """Wake those who may find somebody to displace whom they could not displace before."""
        version, now = self.desk.version, self.desk.now
        if version == self._rivals_seen and now < self._until:
            return
        self._rivals_seen = version
        could = self._has_rivals or self.desk.overtakers
        for lines in self._lines.values() if could else ():
            lines.wake(
                [a for a in lines.sleeping.values() if a.tried_at != version or a.until <= now]
            )

    def _is_helped(self, line: Line, helped: Helped) -> bool:
        """Return whether a change could let a line go on."""
        if any(isinstance(r, OverQuota | Blocked | Promised | Delays) for r in line.reasons):
            return True
        return helped(line.ask)

    def serve(self) -> float | None:
        """Try the heads of all lines that are ready, in order of standing, until none is left."""
        desk = self.desk
        self._wake_lines()  # this cycle may have changed something already
        self.measure_anew()
        started = -1
        while started != len(desk.decisions):
            started = len(desk.decisions)
            self._serve_ready()
            if self._goes_on():
                started = -1
                continue
            asleep = [(ls, line) for ls in self._lines.values() for line in ls.sleeping.values()]
            drawn = [(lines, line) for lines, line in asleep if line.ask.is_drawn]
            if not drawn:
                break
            if started != len(desk.decisions):
                for lines, line in drawn:
                    lines.wake([line])
        self.bookings.show()
        self._seen = desk.books.log_end
        until = [line.until for lines in self._lines.values() for line in lines.sleeping.values()]
        self._until = min(until, default=LATER)
        wake_at = min(self._until, self.bookings.wake_at)
        return None if wake_at == LATER else wake_at

    def _goes_on(self) -> bool:
        """Return whether reservations have moved, so that somebody should be tried again."""
        while self.bookings.turn():
            self.bookings.wake()
            if any(lines.any_ready for lines in self._lines.values()):
                return True
        return False

    def measure_anew(self) -> None:
        """Let shares be those of now: queues and what is asked for may have changed."""
        self._yardstick = None

    @property
    def yardstick(self) -> Yardstick:
        """Return the yardstick of this cycle."""
        if self._yardstick is None:
            self._yardstick = self.claims.yardstick()
        return self._yardstick

    def _serve_ready(self) -> None:
        """Serve the queue whose next workload would stand first, again and again.

        What starts can only make the standing of the next ones worse, so that a key which is
        still right when its turn comes is the least.
        """
        ready = [queue for queue, lines in self._lines.items() if lines.peek() is not None]
        if len(ready) == 1:
            while self._lines[ready[0]].peek() is not None:
                self._try(ready[0])
            return
        heap = [(self._standing(queue), queue) for queue in ready]
        heapify(heap)
        while heap:
            key, queue = heappop(heap)
            now = self._standing(queue)
            if now is None:
                continue
            if now != key and heap and (now, queue) > heap[0]:
                heappush(heap, (now, queue))
                continue
            self._try(queue)
            after = self._standing(queue)
            if after is not None:
                heappush(heap, (after, queue))

    def _standing(self, queue: int) -> tuple[object, ...] | None:
        """Return where the next workload of a queue would stand; None: nobody waits there."""
        found = self._lines[queue].peek()
        return None if found is None else self._stands(queue, found[1])

    def _stands(self, queue: int, item: Item) -> tuple[object, ...]:
        """Return where one in the lines of a queue would stand."""
        lines = self._lines[queue]
        rank = lines.rank_of(item)
        if not self.desk.tree.pairs:
            return (rank,)
        entry = self.desk.entries[item[0]]
        size = tuple(self._likely(lines.line_of(item), entry).items())
        used, path = self.desk.books.usage_of, reversed(self.desk.tree.path[entry.queue])
        classes = [self.yardstick.standing(above, used[above], size) for above in path]
        return (*classes, rank)

    def _try(self, queue: int) -> None:
        """Let the next of a queue start or grow, or let its line sleep."""
        lines = self._lines[queue]
        found = self._next_to_fill(queue) or lines.next_ready()
        assert found is not None
        line, (name, group) = found
        entry = self.desk.entries[name]
        if group:
            self._try_growth(entry, lines, line, group)
            return
        reasons: list[Reason] = []
        if not self._try_start(entry, line, reasons):
            lines.sleep(line, tuple(reasons), self.desk.books.log_end)

    def _try_start(self, entry: Entry, line: Line, reasons: list[Reason]) -> bool:
        """Let a workload start, or others leave for it; say why if neither can be."""
        desk, lines = self.desk, self._lines_of(entry)
        name = entry.workload.name
        line.until = LATER
        self.bookings.settle(self._queue_of[name], lines.rank_of((name, "")))
        fills = self._fills(entry)
        reasons += gate(desk, entry)
        if fills and entry.is_fixed and not reasons:
            reasons.append(Blocked(self._first_waiting(entry)))  # it could not be asked to leave
        if not reasons and not line.ask.problems:
            barred, blockers = self._blocked(self._queue_of[entry.workload.name], line)
            ask = replace(self.open_to(entry, line.ask), barred=barred)
            seats = self._seats(entry, ask, reasons)
            if seats is None and self._displace(line, self._wish_to_start(entry, ask), reasons):
                return True
            if seats is None and not any(isinstance(reason, Leaving) for reason in reasons):
                seats = self._fewer(entry, ask)
            if seats is not None:
                self._start(entry, lines, seats)
                if fills:
                    desk.overtakers[entry.workload.name] = None
                return True
            reasons += [] if reasons else blockers
        if not reasons:
            desk.placer.aim(line.ask.avoid)
            reasons += why(desk.placer, line.ask)
        return False

    # -- backfill ---------------------------------------------------------------------------

    def serve_due(self, name: str) -> bool:
        """Serve one whose turn has come, whatever its line; return whether it no longer waits."""
        lines = self._lines.get(self._queue_of.get(name, -1))
        if lines is None or (name, "") not in lines:
            return True
        line = lines.line_of((name, ""))
        reasons: list[Reason] = []
        if self._try_start(self.desk.entries[name], line, reasons):
            return True
        if line.waiting[0][1] == (name, ""):
            lines.put_to_sleep(line, tuple(reasons), self.desk.books.log_end)
        return False

    def backfills(self, entry: Entry) -> bool:
        """Return whether the queue of a workload lets others by under the eyes of a shadow."""
        return self.desk.tree.order[self._queue_of[entry.workload.name]] == "backfill"

    def anyone_backfills(self) -> bool:
        """Return whether anybody waits to start in a queue that backfills."""
        order = self.desk.tree.order
        held = any(order[self.desk.entries[n].queue] == "backfill" for n in self.desk.holds)
        return held or any(
            order[queue] == "backfill" and any(not item[1] for item in lines)
            for queue, lines in self._lines.items()
        )

    def is_waiting(self, name: str) -> bool:
        """Return whether a workload waits to start."""
        lines = self._lines.get(self._queue_of.get(name, -1))
        return lines is not None and (name, "") in lines

    def could_start(self, name: str) -> bool:
        """Return whether one that waits could start if only others ended."""
        entry = self.desk.entries[name]
        line = self._lines_of(entry).line_of((name, ""))
        is_kept_off = any(isinstance(reason, Promised) for reason in line.reasons)
        return not gate(self.desk, entry) and self._could_start(line) and not is_kept_off

    def ask_of(self, name: str) -> Ask:
        """Return what one that waits asks for."""
        return self._lines_of(self.desk.entries[name]).ask_of((name, ""))

    def look_again(self) -> None:
        """Let everybody look again: other nodes are closed now."""
        for lines in self._lines.values():
            lines.wake(list(lines.sleeping.values()))

    def _fills(self, entry: Entry) -> bool:
        """Return whether a start now would be before its turn."""
        has_shadow = self.residual is not None and self.backfills(entry)
        return has_shadow and entry.workload.name not in self.desk.due

    def _first_waiting(self, entry: Entry) -> str:
        lines = self._lines_of(entry)
        items = [(lines.rank_of(item), item[0]) for item in lines if not item[1]]
        return min(items)[1]

    def _next_to_fill(self, queue: int) -> tuple[Line, Item] | None:
        """Return the next of a queue that backfills: who is expected to be done first."""
        if self.residual is None or self.desk.tree.order[queue] != "backfill":
            return None
        residual, entries = self.residual, self.desk.entries
        found = [
            ((residual(entries[line.waiting[0][1][0]]), line.waiting[0][0]), line)
            for line in self._lines[queue].ready_lines()
        ]
        if not found:
            return None
        line = min(found, key=lambda each: each[0])[1]
        return self._lines[queue].take(line), line.waiting[0][1]

    def open_to(self, entry: Entry, ask: Ask) -> Ask:
        """Return an ask that keeps off nodes that are closed for another."""
        closed = self.desk.closed_for(entry.workload.name)
        return replace(ask, avoid=(*ask.avoid, *closed)) if closed else ask

    def _wish_to_start(self, entry: Entry, ask: Ask) -> Wish:
        """Return the minimum of a workload as something that others may have to leave for."""

        def suffices() -> bool:
            return self._seats(entry, ask, []) is not None

        return Wish(entry, ask, partial(variants, self.desk, entry, ask), suffices)

    def _displace(self, line: Line, wish: Wish, reasons: list[Reason]) -> bool:
        """Let others leave for a workload, and keep the room for it; False: it has no right."""
        desk, entry, ask = self.desk, wish.entry, wish.ask
        lines = self._lines_of(entry)
        line.tried_at, line.until = desk.version, LATER
        if not self.evicts or not (self._has_rivals or self.desk.overtakers):
            return False
        if any(isinstance(reason, Delays) for reason in reasons):
            return False  # there is room, and it is kept for another
        began = max(
            entry.workload.submitted_at, entry.past.evicted_at or entry.workload.submitted_at
        )
        patient = began + entry.workload.preemption_delay_s
        if desk.now < patient:
            line.until = patient
            return False
        if ask.barred and set(kinds_of(desk, ask)) <= set(ask.barred):
            return False
        others = outgoing(desk, ask)
        exchange = self._exchange(wish, others)
        if exchange is None:  # nobody else need leave
            reasons[:] = [Leaving(tuple(other.entry.workload.name for other in others))]
            line.until = patience_ends(desk)
            return False
        line.until = exchange.until
        if exchange.is_cut:
            reasons.append(CutShort(desk.policy.eviction.steps))
        if exchange.found is None:
            return False
        item = (entry.workload.name, wish.group)
        late = self.bookings.would_delay(item, *exchange.found)
        if late is not None:
            self.bookings.keep_back(item, late, reasons)
            return False
        if wish.group:
            self.leave(entry)  # no group of it grows before this one has
        else:
            self._go(entry, lines)
        self._moved_on[entry.workload.name] = None
        if exchange.is_bold:
            entry.past = replace(entry.past, is_bold=True)
        if any(victim.cause == "quantum" for victim in exchange.found[1]):
            desk.overtakers[entry.workload.name] = None  # its turn has not come either
        others = in_the_way(desk, others, exchange.found[0])
        carry_out(desk, entry, *exchange.found, others, wish.which(exchange.found[0]))
        desk.holds[entry.workload.name].is_growth = bool(wish.group)
        self._wake_blocked(lines)
        return True

    def _exchange(self, wish: Wish, others: Sequence[Victim]) -> Exchange | None:
        """Look for victims as if others were gone, who leave anyway; None: that is enough."""
        books = self.desk.books
        mark = books.checkpoint()
        for other in others:
            remove(self.desk, other)
        self.bookings.gone = others
        exchange = None
        if not others or not wish.suffices():
            exchange = find_exchange(self.desk, self._hunt, self.yardstick, wish)
        self.bookings.gone = ()
        books.rollback(mark)
        return exchange

    def _seats(self, entry: Entry, ask: Ask, reasons: list[Reason]) -> list[Seats] | None:
        """Book places on what the queue offers; None: there are none."""
        found = offers(self.desk, entry, ask, ask.barred, reasons)
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
        """Book places as offered; None: there are none."""
        desk = self.desk
        mark = desk.books.checkpoint()
        desk.placer.aim(offer.ask.avoid, offer.barred)
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
        if seats is None or not self.bookings.is_on:
            return seats
        return self.bookings.let((entry.workload.name, ""), offer, mark, seats, reasons)

    def _start(self, entry: Entry, lines: Lines, seats: list[Seats]) -> None:
        self._go(entry, lines)
        self.desk.promises.mark(entry, seats)
        self.desk.start_all(entry, seats)
        self.bookings.started(entry)
        self._forget_passes(entry)
        self._wake_blocked(lines)
        if entry.is_elastic:
            self._wait_to_grow(entry, lines)

    def _go(self, entry: Entry, lines: Lines) -> None:
        """Take one whose room is found out of its line, past all who are before it."""
        item = (entry.workload.name, "")
        limit, rank = self._bypass_limit(entry), lines.rank_of(item)
        self._leave(lines, item)
        for line, (name, _) in list(lines.ahead(rank)) if limit is not None else ():
            passed = self.desk.entries[name]
            if not line.asleep or self._could_start(line):
                passed.past = replace(passed.past, bypassed=passed.past.bypassed + 1)
                self._mind_passes(passed)

    def _bypass_limit(self, entry: Entry) -> int | None:
        """Return how many later ones may start before a workload."""
        return self.desk.tree.queues[self._queue_of[entry.workload.name]].bypass_limit

    def _mind_passes(self, entry: Entry) -> None:
        """Let nobody pass a workload that has been passed as often as may be."""
        limit = self._bypass_limit(entry)
        if limit is not None and entry.past.bypassed >= limit:
            self._stuck[entry.workload.name] = None

    def _forget_passes(self, entry: Entry) -> None:
        if entry.past.bypassed:
            entry.past = replace(entry.past, bypassed=0)

    def _blocked(self, queue: int, line: Line) -> tuple[tuple[int, ...], list[Reason]]:
        """Return the kinds of nodes that others wait for who may not be passed, and whom."""
        order, lines = self.desk.tree.order[queue], self._lines[queue]
        before: list[tuple[Line, Item]] = []
        if order == "strict" or (order == "backfill" and self.residual is None):
            asleep = (other for other in lines.sleeping.values() if other.waiting)
            before += [(other, other.waiting[0][1]) for other in asleep]
        stuck = [(name, "") for name in self._stuck if (name, "") in lines]
        before += [(lines.line_of(item), item) for item in stuck]
        kinds: dict[int, None] = {}
        reasons: list[Reason] = []
        rank = line.waiting[0][0]
        for other, item in before:
            if lines.rank_of(item) < rank and self._could_start(other):
                kinds.update(dict.fromkeys(kinds_of(self.desk, other.ask)))
                reasons.append(Blocked(item[0]))
        return tuple(kinds), reasons[:1]

    def _could_start(self, line: Line) -> bool:
        """Return whether a sleeping line waits for room or quota, not for ever."""
        never = (Impossible, Stopped, NotAllowed, Exhausted, Unknown)
        return not line.ask.problems and not any(
            isinstance(r, never) or (isinstance(r, OverQuota) and not r.ever) for r in line.reasons
        )

    def _wake_blocked(self, lines: Lines) -> None:
        """Wake those who waited for one before them that has started."""
        blocked = [
            line
            for line in lines.sleeping.values()
            if any(isinstance(reason, Blocked) for reason in line.reasons)
        ]
        lines.wake(blocked)

    def _try_growth(self, entry: Entry, lines: Lines, line: Line, group: str) -> None:
        """Place one more unit of a group beside the others."""
        desk = self.desk
        if entry.is_incomplete:  # what it would grow beside is on its way out
            lines.sleep(line, (), desk.books.log_end)
            return
        item = (entry.workload.name, group)
        beside = desk.beside(entry)
        leaf = next(leaf for leaf in beside.root.leaves() if leaf.name == group)
        reasons: list[Reason] = list(gate(desk, entry))
        is_open = not reasons
        barred, blockers = self._blocked(self._queue_of[entry.workload.name], line)
        ask = replace(line.ask, barred=barred)
        self.bookings.settle(self._queue_of[entry.workload.name], lines.rank_of(item))
        beside.barred = barred
        if is_open:
            wanted = {leaf.name: growth(entry.members[leaf.name], leaf)}
            mark = desk.books.checkpoint()
            found = place_beside(desk, entry, beside, wanted, reasons)
            late = self.bookings.delays(item, [each for _, each in found]) if found else None
            if late is not None:
                desk.books.rollback(mark)
                self.bookings.keep_back(item, late, reasons)
            elif found is not None:
                self._leave(lines, item)
                lines.close(item)
                for tasks, seats in found:
                    desk.start(entry, tasks, seats)
                self.bookings.started(entry)
                self._wait_to_grow(entry, lines)
                return
        if is_open:
            wish = wish_to_grow(desk, entry, ask, group)
            if wish.tasks and self._displace(line, wish, reasons):
                return
        if not reasons:
            desk.placer.aim((*entry.avoid, *beside.closed), beside.barred)
            reasons += blockers or why(desk.placer, line.ask, beside.bound(leaf))
        lines.sleep(line, tuple(reasons or blockers), desk.books.log_end)

    # -- what is known ----------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return those who wait to start or to grow, in order of rank."""
        found = [(lines.rank_of(item), item) for lines in self._lines.values() for item in lines]
        return list(dict.fromkeys(name for _, (name, _) in sorted(found)))

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        hold = self.desk.holds.get(name)
        if hold is not None:
            return (Leaving(tuple(dict.fromkeys(who for who, _, _ in hold.leaving))),)
        lines = self._lines.get(self._queue_of.get(name, -1))
        entry = self.desk.entries.get(name)
        if lines is None or entry is None:
            return ()
        items = [(name, group) for group in ("", *entry.members) if (name, group) in lines]
        found = [reason for item in items for reason in self._reasons_of(lines, item)]
        return (*found, *self.bookings.reasons(name))

    def _reasons_of(self, lines: Lines, item: Item) -> tuple[Reason, ...]:
        line = lines.head_of(item)
        if line is None:
            return (lines.before(item),)
        counted = line.asleep and all(isinstance(r, _COUNTED) for r in line.reasons)
        now = self.desk.books.log_end
        if not counted or line.counted_at == now or self._seen != now:
            return line.reasons
        entry = self.desk.entries[item[0]]
        beside = self.desk.beside(entry)
        leaf = next((leaf for leaf in beside.root.leaves() if leaf.name == item[1]), None)
        within = ANYWHERE if leaf is None else beside.bound(leaf)
        self.desk.placer.aim(entry.avoid)
        reasons = why(self.desk.placer, line.ask, within)
        self._seen = self.desk.books.log_end  # what was tried on the way has been taken back
        return reasons

    def shares(self) -> list[list[int]] | None:
        """Return the share of every queue in every pair, by the demand of now."""
        return self.claims.yardstick().share

    def risk(self, name: str) -> str:
        """Return whether running work is covered by quota, in the share of its queue or beyond."""
        if not self.desk.tree.pairs:
            return ""
        line = self._roll.line(self.claims.yardstick())
        return line.risk((name, 0)) if (name, 0) in line else ""

    def tell(self) -> list[str]:
        """Return those whose reasons changed since the last call."""
        told = {name: None for lines in self._lines.values() for name, _ in lines.tell()}
        told.update(dict.fromkeys([*self._moved_on, *self.bookings.tell()]))
        self._moved_on.clear()
        return list(told)

    def copy(self, desk: Desk) -> DefaultCourt:
        """Return the court of a fork."""
        new = DefaultCourt(desk)
        new._lines = {queue: lines.copy() for queue, lines in self._lines.items()}
        new._queue_of, new._stuck = dict(self._queue_of), dict(self._stuck)
        new.bookings = self.bookings.copy(desk, new._lines, new._queue_of, new._stands)
        new.claims = self.claims.copy(desk)
        new._seen, new._epoch, new._until = self._seen, self._epoch, self._until
        new._tree, new._kinds = self._tree, self._kinds
        new._classes, new._has_rivals = dict(self._classes), self._has_rivals
        new._rivals_seen, new._moved_on = self._rivals_seen, dict(self._moved_on)
        new.evicts = self.evicts
        return new

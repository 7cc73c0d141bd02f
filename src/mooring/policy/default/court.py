"""The court of profile `default`: lines for each queue, served by standing.

Inside a queue the line is in order of rank; between queues the one whose next workload would stand
first is served. What cannot start sleeps until something changes that could matter.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mooring.model.plan import Excluded, Impossible, NoRoom, Promised
from mooring.policy.backfill.booking import ORDERS as TIMED
from mooring.policy.default.displacing import Displacing
from mooring.policy.default.growth import Growth
from mooring.policy.default.hall import LATER, Hall
from mooring.policy.default.helping import Helping
from mooring.policy.default.passing import (
    could_start,
    no_room,
    wake_blocked,
    wake_first_blocked,
)
from mooring.policy.default.starts import Starts
from mooring.policy.default.waking import Waking
from mooring.policy.placing.place import ANYWHERE
from mooring.policy.placing.why import why
from mooring.policy.queues.offers import gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason, Reserved
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.queues.claims import Claims
    from mooring.policy.queues.lines import Item, Line, Lines
    from mooring.policy.queues.share import Yardstick
    from mooring.policy.standing.plain import Risks

_COUNTED = (NoRoom, Impossible, Excluded)
"""Reasons that can be counted anew."""


class DefaultCourt:
    """Who is next, by our own rules."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._hall = Hall(desk)
        self._waking = Waking(desk, self._hall)
        self._displacing = Displacing(desk, self._hall)
        self._starts = Starts(desk, self._hall, self._displacing)
        self._growth = Growth(desk, self._hall, self._displacing)
        self._promised: dict[str, None] = {}
        """Those who were promised another latest start since somebody was last told."""
        self._residuals: dict[str, float] = {}
        """How long those who were looked at in this cycle are expected to run."""

    # -- who waits --------------------------------------------------------------------------

    def wait(self, entry: Entry) -> None:
        """Put a workload in line for what it misses: its minimum, or more for its groups."""
        self._hall.wait(entry)

    def leave(self, entry: Entry) -> bool:
        """Take a workload out of all lines; return whether it was in one."""
        return self._hall.leave(entry)

    def take_back(self) -> None:
        """Let all be booked as before this cycle: some who started have not come after all."""
        self._hall.bookings.take_back()

    def refresh(self) -> None:
        """Line everybody up anew: priorities, queues and who may use them may have changed."""
        self._hall.refresh()

    def helping(self) -> Helping:
        """Return those who wait to start, for a plan of moves by which some of them do."""
        return Helping(self._hall)

    def go(self, entry: Entry) -> None:
        """Let a workload leave its line: its room is found."""
        lines = self._hall.lines_of(entry)
        self._hall.go(entry, lines)
        self._hall.leave(entry)
        wake_blocked(lines)

    # -- deciding ---------------------------------------------------------------------------

    @property
    def stirs(self) -> bool:
        """Return whether a line should be tried or someone should be told something."""
        if self.desk.policy.fairness.history_weight:
            self.desk.usage.tick()
        self._waking.wake()
        hall = self._hall
        if self._waking.is_noted or hall.bookings.stirs:
            return True
        return any(each.any_ready or each.told for each in hall.lines.values())

    def serve(self) -> float | None:
        """Try the heads of all lines that are ready, in order of standing, until none is left."""
        desk, hall = self.desk, self._hall
        self._waking.wake()  # this cycle may have changed something already
        self._starts.begin()
        self._residuals.clear()
        hall.measure_anew()
        hall.rank_anew()
        started = -1
        while started != len(desk.decisions):
            started = len(desk.decisions)
            self._serve_ready()
            if self._goes_on():
                started = -1
                continue
            if started == len(desk.decisions) or not self._wake_drawn():
                break
        hall.bookings.show()
        wake_at = min(self._waking.rest(), hall.bookings.wake_at)
        if desk.policy.fairness.history_weight and any(hall.lines.values()):
            wake_at = min(wake_at, desk.usage.next_look())
        return None if wake_at == LATER else wake_at

    def _wake_drawn(self) -> bool:
        """Wake those who may go where others have started; return whether there are any."""
        found = False
        for lines in self._hall.lines.values():
            drawn = [line for line in lines.sleeping.values() if line.ask.is_drawn]
            lines.wake(drawn)
            found |= bool(drawn)
        return found

    def _goes_on(self) -> bool:
        """Return whether reservations have moved, so that somebody should be tried again."""
        while self._hall.bookings.turn():
            self._hall.bookings.wake()
            if any(lines.any_ready for lines in self._hall.lines.values()):
                return True
        return False

    def _serve_ready(self) -> None:
        """Serve the queue whose next workload would stand first, again and again.

        What starts can only make the standing of the next ones worse, so that a key which is
        still right when its turn comes is the least.
        """
        hall = self._hall
        ready = [queue for queue, lines in hall.lines.items() if lines.peek() is not None]
        if len(ready) == 1:
            while hall.lines[ready[0]].peek() is not None:
                self._try(ready[0])
            return
        heap = [(hall.standing(queue), queue) for queue in ready]
        heapify(heap)
        while heap:
            key, queue = heappop(heap)
            now = hall.standing(queue)
            if now is None:
                continue
            if now != key and heap and (now, queue) > heap[0]:
                heappush(heap, (now, queue))
                continue
            self._try(queue)
            after = hall.standing(queue)
            if after is not None:
                heappush(heap, (after, queue))

    def _try(self, queue: int) -> None:
        """Let the next of a queue start or grow, or let its line sleep."""
        lines = self._hall.lines[queue]
        found = self._next_to_fill(queue) or lines.next_ready()
        assert found is not None
        line, (name, group) = found
        entry = self.desk.entries[name]
        reasons: list[Reason] = []
        if group:
            is_done = self._growth.attempt(entry, line, group, reasons)
        else:
            is_done = self._starts.attempt(entry, line, reasons)
        if is_done:
            self._hall.rank_anew()
            return
        lines.sleep(line, tuple(reasons), self.desk.books.log_end)
        if self._hall.is_single_file and not could_start(line):
            wake_first_blocked(lines)  # it blocks nobody

    # -- backfill ---------------------------------------------------------------------------

    @property
    def yardstick(self) -> Yardstick:
        """Return the yardstick of this cycle."""
        return self._hall.yardstick

    @property
    def claims(self) -> Claims:
        """Return what those who wait ask for."""
        return self._hall.claims

    def measure_anew(self) -> None:
        """Let shares be those of now: queues and what is asked for may have changed."""
        self._hall.measure_anew()

    def fill_by(self, residual: Callable[[Entry], float] | None) -> None:
        """Let queues backfill, by expected residual run times; None: there is no shadow."""
        self._hall.residual = residual

    def become_shadow(self) -> None:
        """Let nobody be moved, from now on, and nobody be told."""
        self._hall.is_shadow = True

    def serve_due(self, name: str, *, is_new: bool = False) -> bool:
        """Serve one whose turn has come, whatever its line; return whether it no longer waits.

        In strict order, and where starts are booked, those before it are served first. A turn that
        is not new and was tried is tried again when its line is woken.
        """
        lines = self._hall.find(name)
        if lines is None or (name, "") not in lines:
            return True
        if self._is_to_follow(name, lines):
            return False
        line = lines.line_of((name, ""))
        if line.asleep and line.due == name and not is_new:
            return False
        reasons: list[Reason] = []
        if self._starts.attempt(self.desk.entries[name], line, reasons):
            return True
        if line.waiting[0][1] == (name, ""):
            line.due = name
            lines.put_to_sleep(line, tuple(reasons), self.desk.books.log_end)
        return False

    def promise(self, latest: dict[str, Reserved]) -> None:
        """Let it be known who starts when at the latest under the eyes of a shadow."""
        before, promises = self._hall.latest, self.desk.latest
        self._promised.update(
            {n: None for n in (*before, *latest) if before.get(n) != latest.get(n)}
        )
        for name in before:
            promises.drop(name)
        for name, reserved in latest.items():
            promises.promise(name, reserved.at)
        self._hall.latest = latest

    def anyone_backfills(self) -> bool:
        """Return whether anybody waits to start in a queue that backfills."""
        order = self.desk.tree.order
        held = any(order[self.desk.entries[n].queue] == "backfill" for n in self.desk.holds)
        return held or any(
            order[queue] == "backfill" and any(not item[1] for item in lines)
            for queue, lines in self._hall.lines.items()
        )

    def is_waiting(self, name: str) -> bool:
        """Return whether a workload waits to start."""
        lines = self._hall.find(name)
        return lines is not None and (name, "") in lines

    def backfills(self, name: str) -> bool:
        """Return whether one that waits stands in a queue that backfills."""
        return self._hall.backfills(self.desk.entries[name])

    def could_start(self, name: str) -> bool:
        """Return whether one that waits could start if only others ended who run."""
        entry = self.desk.entries[name]
        line = self._hall.lines_of(entry).line_of((name, ""))
        is_kept_off = any(isinstance(reason, Promised) for reason in line.reasons)
        if gate(self.desk, entry) or not could_start(line) or is_kept_off:
            return False
        return not self._hall.blocked(entry, line)[1]

    def waits_in_vain(self, name: str) -> bool:
        """Return whether one could not start even if others ended: nobody is behind it then."""
        lines, item = self._hall.find(name), (name, "")
        return lines is not None and item in lines and not could_start(lines.line_of(item))

    def _is_to_follow(self, name: str, lines: Lines) -> bool:
        """Return whether one must not be served before another that has yet to be tried.

        In strict order it never passes it; in `easy` and `conservative`, also from another queue
        that stands behind, not before that one is booked, which it is once it was tried in vain.
        """
        hall, order, item = self._hall, self.desk.tree.order, (name, "")
        queue = hall.queue_of[name]
        if order[queue] == "backfill":  # those go by their turns
            return False
        first = lines.peek() if order[queue] in ("strict", *TIMED) else None
        if first is not None and lines.rank_of(first[1]) < lines.rank_of(item):
            return True
        timed = [other for other in hall.lines if order[other] in TIMED and other != queue]
        heads = [head for head in map(hall.standing, timed) if head is not None]
        return bool(heads) and min(heads) < hall.stands(queue, item)

    def ask_of(self, name: str) -> Ask:
        """Return what one that waits asks for."""
        return self._hall.lines_of(self.desk.entries[name]).ask_of((name, ""))

    def look_again(self) -> None:
        """Let everybody look again: other nodes are closed now."""
        for lines in self._hall.lines.values():
            lines.wake(list(lines.sleeping.values()))

    def _next_to_fill(self, queue: int) -> tuple[Line, Item] | None:
        """Return the next of a queue that backfills: who is expected to be done first."""
        residual, entries = self._hall.residual, self.desk.entries
        if residual is None or self.desk.tree.order[queue] != "backfill":
            return None
        known, found = self._residuals, []
        for line in self._hall.lines[queue].ready_lines():
            rank, (name, _) = line.waiting[0]
            if name not in known:
                known[name] = residual(entries[name])
            found.append((known[name], rank, line.number, line))
        if not found:
            return None
        line = min(found)[-1]
        return self._hall.lines[queue].take(line), line.waiting[0][1]

    # -- what is known ----------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return those who wait to start or to grow, in order of rank."""
        return self._hall.waiting()

    def anyone_waits(self) -> bool:
        """Return whether anybody waits to start or to grow."""
        return any(self._hall.lines.values())

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits, or does not grow; empty: it has all it asked for."""
        if name in self.desk.holds:
            return (self.desk.holds[name].reason(name),)
        lines, entry = self._hall.find(name), self.desk.entries.get(name)
        if lines is None or entry is None:
            return ()
        items = [(name, group) for group in ("", *entry.members) if (name, group) in lines]
        found = [reason for item in items for reason in self._reasons_of(lines, item)]
        latest = self._hall.latest.get(name) if (name, "") in lines else None
        return (*found, *self._hall.bookings.reasons(name), *([latest] if latest else []))

    def _reasons_of(self, lines: Lines, item: Item) -> tuple[Reason, ...]:
        line = lines.head_of(item)
        if line is None:  # what keeps it back itself is no matter of who is before it
            return gate(self.desk, self.desk.entries[item[0]]) or (lines.before(item),)
        counted = line.asleep and all(isinstance(r, _COUNTED) for r in line.reasons)
        now = self.desk.books.log_end
        if not counted or line.counted_at == now or self._waking.seen != now:
            return line.reasons
        entry = self.desk.entries[item[0]]
        if not item[1]:
            reasons = no_room(self.desk, entry, line.ask)
        else:
            beside = self.desk.beside(entry)
            leaf = next((leaf for leaf in beside.root.leaves() if leaf.name == item[1]), None)
            within = ANYWHERE if leaf is None else beside.bound(leaf)
            self.desk.placer.aim(entry.avoid)
            reasons = why(self.desk.placer, line.ask, within)
        self._waking.seen = self.desk.books.log_end  # what was tried has been taken back
        return reasons

    def shares(self) -> list[list[int]] | None:
        """Return the share of every queue in every pair, by the demand of now."""
        return self._hall.claims.yardstick().share

    def risks(self) -> Risks:
        """Return who is covered by quota, in the share of its queue or beyond."""
        return self._displacing.risks()

    def tell(self) -> list[str]:
        """Return those whose reasons changed since the last call."""
        told = [name for lines in self._hall.lines.values() for name, _ in lines.tell()]
        told += self._displacing.tell()
        told += self._hall.bookings.tell()
        told += [name for name in self._promised if self.is_waiting(name)]
        self._promised.clear()
        return list(dict.fromkeys(told))

    def copy(self, desk: Desk) -> DefaultCourt:
        """Return the court of a fork."""
        new = object.__new__(DefaultCourt)
        new.desk = desk
        new._hall = hall = self._hall.copy(desk)
        new._waking = self._waking.copy(desk, hall)
        new._displacing = self._displacing.copy(desk, hall)
        new._starts = self._starts.copy(desk, hall, new._displacing)
        new._growth = Growth(desk, hall, new._displacing)
        new._promised, new._residuals = dict(self._promised), {}
        return new

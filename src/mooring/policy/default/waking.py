"""Which lines that sleep a change could help: room, others who may be displaced, reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.policy.default.hall import LATER
from mooring.policy.defragment import free_of, is_enough
from mooring.policy.placing.helped import Helped

if TYPE_CHECKING:
    from mooring.policy.default.hall import Hall
    from mooring.policy.desk import Desk
    from mooring.policy.queues.lines import Line, Lines


class Waking:
    """Watches the books of a desk for those who sleep in a hall."""

    def __init__(self, desk: Desk, hall: Hall) -> None:
        self.desk = desk
        self.hall = hall
        self.seen = 0
        """How much of the log of the books has been looked at."""
        self._epoch = 0
        self._rivals_seen = -1
        self._left_seen = 0
        """How many had left their lines when somebody was last looked for."""
        self.is_noted = False
        """Whether somebody should look again at a time that nobody was told yet."""
        self._until = LATER
        """When somebody may be asked to leave who may not be asked now."""

    def wake(self) -> None:
        """Wake the sleeping lines that a change since the last cycle could help."""
        books, desk = self.desk.books, self.desk
        end = books.log_end
        if self._epoch != books.epoch:
            self._epoch = books.epoch
            self._wake_all()
        elif self.seen != end:
            self._wake_helped()
        self.seen = end
        is_shorter = self._left_seen != self.hall.left
        if is_shorter or desk.version != self._rivals_seen or desk.now >= self._until:
            self._wake_rivals(is_shorter=is_shorter)
        if self.hall.bookings.booked:
            self.hall.bookings.wake()

    def _wake_helped(self) -> None:
        """Wake those whom it could help that rows have changed."""
        sleeping = [queue for queue, lines in self.hall.lines.items() if lines.sleeping]
        if not sleeping:
            return
        books = self.desk.books
        lost = self.seen < books.trimmed
        fresh = None if lost else sorted(set(books.touched[self.seen - books.trimmed :]))
        helped = Helped(self.desk.fits, fresh)
        for queue in sleeping:
            lines = self.hall.lines[queue]
            if self.hall.waits_for_room(queue):
                lines.wake_in_turn(helped)
                continue
            lines.wake(
                [
                    line
                    for line in self._asleep(lines)
                    if line.minds_all
                    or (line.is_blocked and not line.shut)
                    or helped(line.ask, line.shut)  # nothing was opened: all would be awake
                ]
            )

    def _asleep(self, lines: Lines) -> list[Line]:
        """Return the lines that sleep, but for those that only one before them could wake."""
        blocked = lines.blocked if self.hall.is_single_file else ()
        return [line for line in lines.sleeping.values() if line.number not in blocked]

    def _wake_all(self) -> None:
        """Wake everybody."""
        for lines in self.hall.lines.values():
            for line in lines.sleeping.values():
                line.tried_at, line.rests_until = -1, -LATER
            lines.wake(list(lines.sleeping.values()))
        self.hall.mind_claims()

    def _wake_rivals(self, *, is_shorter: bool) -> None:
        """Wake those who may find somebody to displace whom they could not displace before."""
        version, now = self.desk.version, self.desk.now
        self._rivals_seen, self._left_seen = version, self.hall.left
        could = self.hall.could_ask
        self.hall.measure_anew()
        for queue, lines in self.hall.lines.items():
            if not lines.sleeping or (now < self._until and self.hall.waits_for_room(queue)):
                continue
            asleep = self._rested(
                [
                    line
                    for line in self._asleep(lines)
                    if is_shorter or line.tried_at != version or line.until <= now
                ]
            )
            early = self._early(lines, asleep) if could else asleep
            kept = {line.number for line in early}
            others = [line for line in asleep if line.number not in kept or line.until <= now]
            lines.wake([*others, *self._movable(early)])

    def _early(self, lines: Lines, asleep: list[Line]) -> list[Line]:
        """Return those whose heads may ask nobody yet, before their turn; note when they may."""
        hall, now = self.hall, self.desk.now
        if hall.quantum.begins_at() <= now or self.desk.policy.headroom:
            return []  # somebody has had much, or is on room that was promised
        heads, found = sorted(lines.heads()) if asleep else [], []
        for line in asleep:
            item = line.waiting[0][1]
            if item[1] or hall.has_rivals_in(self.desk.entries[item[0]].queue):
                continue
            until = hall.early_until(item, lines, heads)
            if until > now:
                found.append(line)
                self.is_noted |= until < line.until
                line.until = min(line.until, until)
        return found

    def _rested(self, asleep: list[Line]) -> list[Line]:
        """Return those of some lines for which others are looked for now; note when for others."""
        now, found = self.desk.now, []
        for line in asleep:
            if line.until <= now or line.rests_until <= now:
                found.append(line)
            elif line.rests_until < line.until:
                line.until, self.is_noted = line.rests_until, True
        return found

    def _movable(self, asleep: list[Line]) -> list[Line]:
        """Return the lines for which others might be moved now; note when to look at others."""
        if not asleep or not self.hall.could_move:
            return []
        free, found = free_of(self.desk), []
        for line in asleep:
            again = line.looked_at + line.look_pause_s
            if line.until <= self.desk.now:
                found.append(line)
            elif not is_enough(free, line.ask):
                continue
            elif line.looked_at < self.desk.now < again:
                self.is_noted |= again < line.until
                line.until = min(line.until, again)
            else:
                found.append(line)
        return found

    def rest(self) -> float:
        """Note that everything was tried; return when to look again even if nothing changes."""
        self.seen, self.is_noted = self.desk.books.log_end, False
        lines = self.hall.lines.values()
        until = [line.until for each in lines for line in each.sleeping.values()]
        self._until = min(until, default=LATER)
        return self._until

    def copy(self, desk: Desk, hall: Hall) -> Waking:
        """Return the same for a fork."""
        new = Waking(desk, hall)
        new.seen, new._epoch, new._until = self.seen, self._epoch, self._until
        new._rivals_seen, new.is_noted = self._rivals_seen, self.is_noted
        new._left_seen = self._left_seen
        return new

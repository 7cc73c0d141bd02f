"""Who waits: one line for each ask, in order of rank; asks that cannot be met sleep.

Equal asks stand in one line, so only its head is ever tried. An ask that was refused sleeps, with
its reasons, until something changes that could matter; then it is ready again. Lines that differ
only in how long they ask for the same room can be woken in turn: the next one when one was tried
that had room.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from mooring.model.plan import (
    Behind,
    Blocked,
    Delays,
    Excluded,
    OverQuota,
    Promised,
    Reason,
)
from mooring.policy.placing.ask import Ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


MOST_LINES = 10_000
_NOT_OF_ROOM = (OverQuota, Promised, Delays)
"""Reasons that any change could take away."""
NEVER = float("inf")
LOOK_AGAIN_S = 60.0
"""When to look again whether protected work is in the way, where it was not."""

Rank = tuple[int, int, float, float, float, float, int]
"""Growth after minimum; then higher priority, less used where queues stand in line by that, earlier
deadline, shorter estimate where the queue goes by that (for both: what an own function says),
submission, and coming."""
Request = dict[int, int]
"""Amounts by pair."""
Item = tuple[str, str]
"""Who stands in a line: (workload, "") for its minimum, (workload, group) for growth of a group."""


class Told(NamedTuple):
    """What the head of a line was told: until when others are protected."""

    name: str
    at: float
    """When it was told."""
    until: float
    """Infinite: it would not help."""

    def holds(self, name: str, now: float, least_s: float) -> bool:
        """Return whether it need not be found out anew for a head, which holds for so long."""
        until = self.until if self.until < NEVER else self.at + LOOK_AGAIN_S
        return self.name == name and self.at < now < max(until, self.at + least_s)


@dataclass(slots=True, eq=False)
class Line:
    """All who ask for the same."""

    number: int
    ask: Ask
    waiting: list[tuple[Rank, Item]] = field(default_factory=list)
    asleep: bool = False
    reasons: tuple[Reason, ...] = ()
    is_blocked: bool = False
    """Its head waits for one before it to start."""
    minds_all: bool = False
    """Any change could help its head, and not only room for it."""
    kind: object = None
    """Lines of one kind ask for the same, and differ only in who goes first."""
    room: int = 0
    """Lines of one room ask for the same too, but perhaps for longer."""
    explained: tuple[tuple[object, ...], tuple[Reason, ...]] = ((), ())
    """What last kept its head from room, and the epoch of the books then."""
    counted_at: int = -1
    """How far the log of the books was when the reasons were counted."""
    told: Item | None = None
    """The head that was last told these reasons."""
    tried_at: int = -1
    """Version of the desk when its head last looked for others to displace."""
    until: float = NEVER
    """When somebody may be asked to leave for its head who may not be asked now."""
    due: str = ""
    """The head that was tried when its turn had come."""
    rests_until: float = -NEVER
    """Until then nobody looks for others to displace for its head again, whatever changes."""
    looked_at: float = -NEVER
    """When it was last looked for others to move for its head."""
    look_pause_s: float = 0.0
    """How long after that nobody looks again."""
    looked_version: int = -1
    """How things stood then."""
    protected: Told | None = None
    """What its head was told last."""
    likely: Request | None = None
    """What one of them would be charged, as far as can be told before."""
    shut: tuple[str, ...] = ()
    """Nodes that were closed for others when its head was tried: room there does not wake it."""


class Lines:
    """All lines, and which of them should be tried."""

    def __init__(self) -> None:
        self.told: dict[Item, None] = {}
        """Those whose reasons changed since they were last told, in order."""
        self.sleeping: dict[int, Line] = {}
        self.blocked: dict[int, Line] = {}
        """Those of them that wait for one before them to start."""
        self.refused: dict[int, Line] = {}
        """Those of them that have room, but others would start later for them."""
        self._lines: dict[object, Line] = {}
        self._of: dict[Item, tuple[Line, Rank]] = {}
        self._ready: list[tuple[Rank, int, Line]] = []
        self._next = 0
        self._most = MOST_LINES
        self._ranked: list[tuple[Rank, Item]] | None = None
        """All who wait in order of rank, once somebody has asked for that."""
        self._rooms: dict[object, int] = {}
        self._asleep: dict[int, dict[int, Line]] = {}
        """Those who sleep by the room they ask for."""
        self._turns: dict[int, tuple[Line, list[tuple[Rank, int, Line]]]] = {}
        """By room: the line that is awake for all of them, and those that are woken after it."""

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, item: Item) -> bool:
        return item in self._of

    @property
    def any_ready(self) -> bool:
        """Return whether a line should be tried."""
        return bool(self._ready)

    def line(self, key: object) -> Line | None:
        """Return the line of an ask."""
        return self._lines.get(key)

    def open(self, key: object, ask: Ask) -> Line:
        """Make the line of an ask; too many in which nobody stands are dropped."""
        if len(self._lines) >= self._most:
            self._lines = {k: line for k, line in self._lines.items() if line.waiting}
            self._most = max(MOST_LINES, 2 * len(self._lines))
            rooms = {line.room for line in self._lines.values()}
            self._rooms = {ask: room for ask, room in self._rooms.items() if room in rooms}
        self._next += 1
        line = self._lines[key] = Line(self._next, ask, room=self._next)
        return line

    def forget_sizes(self) -> None:
        """Let no line know any more what is likely to be charged, nor those that are empty."""
        for line in self._lines.values():
            line.likely = None

    def room_of(self, ask: object) -> int:
        """Return the number of the room that an ask is for."""
        if ask not in self._rooms:
            self._next += 1
            self._rooms[ask] = self._next
        return self._rooms[ask]

    def close(self, key: object) -> None:
        """Drop a line that nobody stands in."""
        self._lines.pop(key, None)

    def join(self, line: Line, rank: Rank, item: Item) -> None:
        """Put a workload in its line."""
        entry = (rank, item)
        if line.waiting and line.waiting[-1] > entry:
            insort(line.waiting, entry)
            place = bisect_left(line.waiting, entry)
            self._tell(line, place + 1)
        else:
            line.waiting.append(entry)
            place = len(line.waiting) - 1
        self._of[item] = line, rank
        if self._ranked is not None:
            insort(self._ranked, entry)
        if place == 0 and not line.asleep:
            heappush(self._ready, (rank, line.number, line))
        else:
            self._tell(line, place)

    def leave(self, item: Item) -> None:
        """Take a workload out of its line."""
        line, rank = self._of.pop(item)
        place = bisect_left(line.waiting, (rank, item))
        del line.waiting[place]
        if self._ranked is not None:
            del self._ranked[bisect_left(self._ranked, (rank, item))]
        self.told.pop(item, None)
        if place == 0 and line.waiting and not line.asleep:
            heappush(self._ready, (line.waiting[0][0], line.number, line))
        self._tell(line, place)
        if not line.waiting and line.asleep:
            self._rouse(line)
        if place == 0:
            self._wake_next(line)

    def move(self, item: Item, rank: Rank) -> bool:
        """Let an item have another place in its line; return whether the line has another head."""
        line, old = self._of[item]
        self._ranked = None
        head, place = line.waiting[0], bisect_left(line.waiting, (old, item))
        del line.waiting[place]
        insort(line.waiting, (rank, item))
        self._of[item] = line, rank
        for at in (place, place + 1, bisect_left(line.waiting, (rank, item))):
            self._tell(line, at)
            self._tell(line, at + 1)
        if line.waiting[0] != head and not line.asleep:
            heappush(self._ready, (line.waiting[0][0], line.number, line))
        return line.waiting[0] != head

    def next_ready(self) -> tuple[Line, Item] | None:
        """Return the line to try now and its head; it stays in line until it leaves."""
        found = self.peek()
        if found is not None:
            heappop(self._ready)
        return found

    def peek(self) -> tuple[Line, Item] | None:
        """Return the line to try next and its head."""
        while self._ready:
            rank, _, line = self._ready[0]
            if line.waiting and line.waiting[0][0] == rank and not line.asleep:
                return line, line.waiting[0][1]
            heappop(self._ready)
        return None

    def ready_lines(self) -> list[Line]:
        """Return all lines that should be tried, in no special order."""
        found = {line.number: line for _, _, line in self._ready}
        return [line for line in found.values() if line.waiting and not line.asleep]

    def take(self, line: Line) -> Line:
        """Take a line out of those that should be tried."""
        self._ready = [entry for entry in self._ready if entry[2] is not line]
        heapify(self._ready)
        return line

    def put_to_sleep(self, line: Line, reasons: tuple[Reason, ...], counted_at: int) -> None:
        """Let a line wait for a change, wherever it is."""
        self.take(line)
        self.sleep(line, reasons, counted_at)

    def sleep(self, line: Line, reasons: tuple[Reason, ...], counted_at: int) -> None:
        """Let a line wait for a change; its head has these reasons."""
        line.asleep = True
        line.counted_at = counted_at
        self.sleeping[line.number] = line
        self._asleep.setdefault(line.room, {})[line.number] = line
        head = line.waiting[0][1]
        if reasons != line.reasons or line.told != head:
            line.reasons = reasons
            self.told[head] = None
        self.blocked.pop(line.number, None)
        self.refused.pop(line.number, None)
        kinds = {type(reason) for reason in reasons}
        line.is_blocked, line.minds_all = Blocked in kinds, not kinds.isdisjoint(_NOT_OF_ROOM)
        if Excluded in kinds:
            line.minds_all |= any(isinstance(r, Excluded) and r.by == "quota" for r in reasons)
        if line.is_blocked and not line.shut:
            self.blocked[line.number] = line
        if Delays in kinds:
            self.refused[line.number] = line
            self._wake_next(line)
        else:
            self._end_turn(line)

    def wake(self, lines: Iterable[Line]) -> None:
        """Make sleeping lines ready."""
        for line in lines:
            if line.asleep:
                self._rouse(line)
                if line.waiting:
                    heappush(self._ready, (line.waiting[0][0], line.number, line))

    def wake_in_turn(self, is_helped: Callable[[Ask], bool]) -> None:
        """Make the first line of every room ready where a change helps who asks for it.

        The next one is when that has started, or was refused for another's sake: it may ask for
        less time. If there is no room, there is none for the others either.
        """
        for room, some in list(self._asleep.items()):
            if is_helped(next(iter(some.values())).ask):
                after = [(line.waiting[0][0], line.number, line) for line in some.values()]
                heapify(after)
                self._wake_first(room, after)
        others = [*self.blocked.values(), *self.refused.values()]
        self.wake([line for line in others if line.room not in self._turns])

    def _wake_first(self, room: int, after: list[tuple[Rank, int, Line]]) -> None:
        self._turns.pop(room, None)
        while after:
            rank, _, line = heappop(after)
            if line.asleep and line.waiting[0][0] == rank:
                self.wake([line])
                self._turns[room] = line, after
                return

    def _wake_next(self, line: Line) -> None:
        """Let the next one have its turn, if it is that of a line."""
        awake, after = self._turns.get(line.room, (None, []))
        if awake is line:
            self._wake_first(line.room, after)

    def _end_turn(self, line: Line) -> None:
        """Let no other have a turn after a line that has no room: nor have they."""
        if self._turns.get(line.room, (None, []))[0] is line:
            del self._turns[line.room]
            for other in [each for each in self.refused.values() if each.room == line.room]:
                self.sleep(other, line.reasons, line.counted_at)

    def _rouse(self, line: Line) -> None:
        line.asleep = False
        del self.sleeping[line.number]
        of_room = self._asleep[line.room]
        del of_room[line.number]
        if not of_room:
            del self._asleep[line.room]
        self.blocked.pop(line.number, None)
        self.refused.pop(line.number, None)

    def _tell(self, line: Line, place: int) -> None:
        if place < len(line.waiting) and (place or line.asleep):
            self.told[line.waiting[place][1]] = None

    def ask_of(self, item: Item) -> Ask:
        """Return what an item in a line asks for."""
        return self._of[item][0].ask

    def line_of(self, item: Item) -> Line:
        """Return the line that an item stands in."""
        return self._of[item][0]

    def head_of(self, item: Item) -> Line | None:
        """Return the line that an item is the head of; None: it is behind another."""
        line, rank = self._of[item]
        return line if line.waiting[0] == (rank, item) else None

    def before(self, item: Item) -> Behind:
        """Return whom an item that is not the head of its line stands behind."""
        line, rank = self._of[item]
        place = bisect_left(line.waiting, (rank, item))
        return Behind(line.waiting[place - 1][1][0])

    def tell(self) -> list[Item]:
        """Return those whose reasons changed since the last call."""
        if not self.told:
            return []
        items = [item for item in self.told if item in self._of]
        self.told.clear()
        for item in items:
            line = self.head_of(item)
            if line is not None:
                line.told = item
        return items

    def ahead(self, rank: Rank) -> Iterator[tuple[Line, Item]]:
        """Yield all who stand before a rank, line by line."""
        for line in self._lines.values():
            for other, item in line.waiting:
                if other >= rank:
                    break
                yield line, item

    def heads(self) -> Iterator[tuple[Rank, Line, Item]]:
        """Yield the first of each line who waits to start."""
        for line in (*self.sleeping.values(), *self.ready_lines()):
            rank, item = line.waiting[0]
            if not item[1]:
                yield rank, line, item

    def starting(self) -> list[Item]:
        """Return all who wait to start, in order of rank."""
        return [item for _, item in self.ranked() if not item[1]]

    def ranked(self) -> list[tuple[Rank, Item]]:
        """Return all who wait, in order of rank."""
        if self._ranked is None:
            self._ranked = sorted((rank, item) for item, (_, rank) in self._of.items())
        return list(self._ranked)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._of)

    def rank_of(self, item: Item) -> Rank:
        """Return the rank of an item in a line."""
        return self._of[item][1]

    def copy(self) -> Lines:
        """Return lines that change on their own from here."""
        new = Lines()
        new._next = self._next
        twin: dict[int, Line] = {}
        for key, line in self._lines.items():
            copied = Line(line.number, line.ask, list(line.waiting))
            copied.asleep, copied.reasons, copied.told = line.asleep, line.reasons, line.told
            copied.is_blocked, copied.minds_all = line.is_blocked, line.minds_all
            copied.counted_at, copied.likely = line.counted_at, line.likely
            copied.tried_at, copied.until = line.tried_at, line.until
            copied.rests_until, copied.due = line.rests_until, line.due
            copied.looked_at, copied.looked_version = line.looked_at, line.looked_version
            copied.look_pause_s = line.look_pause_s
            copied.kind, copied.room = line.kind, line.room
            copied.protected, copied.shut = line.protected, line.shut
            new._lines[key] = twin[line.number] = copied
        new._of = {item: (twin[line.number], rank) for item, (line, rank) in self._of.items()}
        new.sleeping = {number: twin[number] for number in self.sleeping}
        new._rooms, new._most = dict(self._rooms), self._most
        for room, (awake, after) in self._turns.items():
            there = [(rank, number, twin[number]) for rank, number, _ in after if number in twin]
            new._turns[room] = twin[awake.number], there
        for number, line in new.sleeping.items():
            new._asleep.setdefault(line.room, {})[number] = line
        new.blocked = {number: twin[number] for number in self.blocked}
        new.refused = {number: twin[number] for number in self.refused}
        ready = [(rank, number) for rank, number, _ in self._ready if number in twin]
        new._ready = [(rank, number, twin[number]) for rank, number in sorted(ready)]
        new.told = dict(self.told)
        return new

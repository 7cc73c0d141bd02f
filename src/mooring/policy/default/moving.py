"""Consolidation: others are moved for one who waits, and nobody leaves.

It is the last part of the search for victims, in the steps that the others leave over: looked at
are whole workloads that may be evicted and have run long enough. All of them have a place again,
which is proven and kept, as is the place of the one they move for, before anybody leaves. A start
without victims makes the line of all who run longer, so this does not go round in circles.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from mooring.model.plan import CutShort, Delays, Leaving, OverQuota
from mooring.policy.default.displacing import delayed_until
from mooring.policy.default.passing import wake_blocked
from mooring.policy.defragment import Bounds, Planner, free_of, is_enough
from mooring.policy.victims.displace import CutShortSearchError, Steps

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.default.displacing import Displacing
    from mooring.policy.default.hall import Hall
    from mooring.policy.defragment import Draft
    from mooring.policy.desk import Desk
    from mooring.policy.queues.lines import Line
    from mooring.policy.victims.displace import Wish

PAUSE_S, LONGEST_PAUSE_S, EARLY = 300.0, 4800.0, 3.0
"""How long after a look for one ask the next is, however much happens meanwhile; after every look
in vain it is twice as long, up to the longest. For who would start before its turn it is so many
times as long."""
ANY_NUMBER = 1 << 30
MOST_KNOWN = 1_000


class Moving:
    """Looks for moves at one desk."""

    def __init__(self, desk: Desk, hall: Hall, displacing: Displacing) -> None:
        self.desk = desk
        self.hall = hall
        self.displacing = displacing
        self._kept: tuple[tuple[object, ...], Planner] | None = None
        self._looked: dict[object, tuple[float, int, float]] = {}
        """By kind of line: when it was looked in vain for one of them, how things stood, and how
        long nobody looks again."""

    def copy(self, desk: Desk, hall: Hall, displacing: Displacing) -> Moving:
        """Return the same for a fork."""
        new = Moving(desk, hall, displacing)
        new._looked = dict(self._looked)
        return new

    def make_room(self, line: Line, wish: Wish, reasons: list[Reason]) -> bool:
        """Move others so that one starts, and keep all places; False: there are no such moves."""
        desk = self.desk
        if not self._is_open(wish.entry, line, reasons):
            return False
        if not is_enough(free_of(desk), wish.ask):
            return False
        line.looked_at, line.looked_version = desk.now, desk.version
        planner, search = self._planner(), self.displacing.search
        steps = Steps(search.steps.left, search.moves)
        try:
            draft = planner.for_one(wish.entry, wish.ask, steps)
        except CutShortSearchError:
            self.displacing.cut_short(line, wish, reasons)
            line.looked_at = -inf
            return False
        if draft is None:
            pause_s = self._note(line, wish.entry)
            line.until = min(line.until, max(planner.until, desk.now + pause_s))
            return False
        line.looked_at = -inf
        self._carry_out(wish, draft)
        return True

    def _note(self, line: Line, entry: Entry) -> float:
        """Note that it was looked for moves in vain for one of a kind; return the pause now."""
        now, times = self.desk.now, EARLY if self.hall.fills(entry) else 1.0
        at, _, pause_s = self._looked.get(line.kind, (-inf, 0, times * PAUSE_S))
        if at < now:
            is_again = now < at + 2 * pause_s
            pause_s = min(2 * pause_s, times * LONGEST_PAUSE_S) if is_again else times * PAUSE_S
        if len(self._looked) >= MOST_KNOWN:
            self._looked.clear()
        self._looked[line.kind] = now, self.desk.version, pause_s
        line.looked_at, line.looked_version, line.look_pause_s = self._looked[line.kind]
        return pause_s

    def instead(self, line: Line, wish: Wish, price: float) -> bool:
        """Move others for one for whom some would have to leave, if that costs no more.

        Who is moved need not wait; so of equal prices the moves are taken.
        """
        desk = self.desk
        if not self.hall.could_move or self.hall.bookings.is_on:
            return False
        if not is_enough(free_of(desk), wish.ask):
            return False
        looked_at, _, pause_s = self._looked.get(line.kind, (inf, 0, PAUSE_S))
        if looked_at < desk.now < looked_at + pause_s:
            return False
        try:
            draft = self._planner().for_one(wish.entry, wish.ask, self.displacing.search.steps)
        except CutShortSearchError:
            return False
        if draft is None or draft.cost > price:
            self._kept = None  # it takes those for moved whom it has planned to move
            self._note(line, wish.entry)
            return False
        self._carry_out(wish, draft)
        return True

    def _carry_out(self, wish: Wish, draft: Draft) -> None:
        """Let others be moved, and keep the room for the one it is for."""
        desk, planner = self.desk, self._planner()
        entry, lines = wish.entry, self.hall.lines_of(wish.entry)
        fills = self.hall.fills(entry)
        self.hall.go(entry, lines)
        self.displacing.note_hold(entry)
        draft.carry_out()
        if fills:
            self.displacing.overtakes(entry)  # its turn has not come
        self._kept = (desk.now, desk.version, desk.policy), planner
        wake_blocked(lines)

    def _planner(self) -> Planner:
        """Return a planner who knows who may be moved, if only its own moves happened since."""
        desk, rules = self.desk, self.desk.policy.eviction
        now = desk.now, desk.version, desk.policy
        if self._kept is None or self._kept[0] != now:
            bounds = Bounds(rules.movers if rules.movers > 0 else ANY_NUMBER)
            self._kept = now, Planner(desk, _nobody_knows, bounds)
        return self._kept[1]

    def _is_open(self, entry: Entry, line: Line, reasons: list[Reason]) -> bool:
        """Return whether it is time to look; room that comes anyway is waited for."""
        desk = self.desk
        if not self.hall.could_move:
            return False
        if any(isinstance(reason, CutShort | Delays | Leaving | OverQuota) for reason in reasons):
            return False
        name = entry.workload.name
        if any(booked != name for booked in self.hall.bookings.booked):
            return False  # who is booked might have to wait longer
        patient = delayed_until(entry)
        if desk.now < patient:
            line.until = min(line.until, patient)
            return False
        looked = self._looked.get(line.kind)
        if looked is not None and looked[0] > line.looked_at:
            line.looked_at, line.looked_version, line.look_pause_s = looked
        again = line.looked_at + line.look_pause_s
        if line.looked_at < desk.now < again:
            if line.looked_version != desk.version:  # else it would find what it found before
                line.until = min(line.until, again)
            return False
        return True


def _nobody_knows(entry: Entry) -> float:
    """Return how long a workload is expected to run yet: that is not asked here."""
    return inf

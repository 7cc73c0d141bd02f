"""Others who leave for a workload that would stand before them, and the room kept for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from mooring.model.plan import CutShort, Delays, Leaving, Protected
from mooring.model.workload import NEVER_S
from mooring.policy.default.hall import LATER
from mooring.policy.default.passing import wake_blocked
from mooring.policy.default.patience import patient_until, waits_since
from mooring.policy.placing.place import Seats
from mooring.policy.queues.lines import Told
from mooring.policy.queues.offers import kinds_of
from mooring.policy.standing.roll import Roll, price, split
from mooring.policy.victims.displace import Steps, find_exchange
from mooring.policy.victims.evict import carry_out, in_the_way, outgoing, patience_ends, remove
from mooring.policy.victims.hunt import Hunt
from mooring.policy.victims.protection import protected_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.default.hall import Hall
    from mooring.policy.desk import Desk
    from mooring.policy.queues.lines import Item, Line, Rank
    from mooring.policy.standing.plain import Risks
    from mooring.policy.victims.displace import Exchange, Wish
    from mooring.policy.victims.evict import Victim

    Instead = Callable[[float], bool]
    Newcomer = tuple[Rank, float, bool, tuple[tuple[str, ...], tuple[int, ...]]]


MOST_LOOKED_AT, TOLD_S = 500, 600.0
"""Where there are more workloads, nobody is told how long others are protected; where there are
more than a few, nobody is told anew for so long."""
FEW, PAUSE_S, LONGEST_PAUSE_S, LONGEST_EARLY_S, NODES = 16, 30.0, 240.0, 960.0, 250
"""Where more workloads than a few run and wait, a search in vain is not made again for so long,
whatever starts and ends meanwhile, and every time for twice as long, at most the longest: that
hardly ever helps, and there is the more of it the more there are. For who would start before its
turn the longest grows with the nodes from so many on, as the search does. Room that becomes free
is looked at at once."""
MOST_KNOWN = 1_000


@dataclass(frozen=True, slots=True)
class Vain:
    """A search that found nobody. As long as nothing changes nobody is found for who ranks behind,
    either; while it rests nobody of the same kind searches."""

    world: tuple[object, ...]
    version: int
    newcomer: Newcomer
    """Who asked: its rank, what it has saved of its work, whether it has been bold before, and
    where it may not be."""
    until: float
    """When somebody may be asked to leave who may not be asked now."""
    rests_until: float
    pause_s: float
    protected: Told | None

    def holds(self, desk: Desk, world: tuple[object, ...], newcomer: Newcomer) -> bool:
        """Return whether a newcomer of the same kind need not search."""
        if world != self.world:
            return False
        if desk.now < self.rests_until:
            return True
        rank, saved_s, is_bold, ways = self.newcomer
        is_behind = newcomer[0] >= rank and newcomer[1] >= saved_s and newcomer[2] >= is_bold
        is_same = self.version == desk.version and desk.now < self.until
        return is_same and is_behind and newcomer[3] == ways


@dataclass(slots=True)
class Search:
    """One search, and what it has found out as long as nothing changes."""

    good_for: tuple[object, ...]
    proofs: dict[object, list[Seats] | None] = field(default_factory=dict)
    moves: dict[object, list[Seats] | None] = field(default_factory=dict)
    steps: Steps = field(default_factory=partial(Steps, 0))

    def copy(self) -> Search:
        """Return the search of a fork."""
        return Search(self.good_for, dict(self.proofs), dict(self.moves))


class Displacing:
    """Looks for victims at one desk."""

    def __init__(self, desk: Desk, hall: Hall) -> None:
        self.desk = desk
        self.hall = hall
        self.is_patient = False
        """Whether the last who looked for others lets them stay, since room is expected."""
        self.roll = Roll(desk)
        self._hunt = Hunt(desk, self.roll)
        self._moved_on: dict[str, None] = {}
        """Those who left a line for a hold since somebody was last told."""
        self.search = Search(())
        """The one that goes on, or was last."""
        self._cut: dict[Item, Search] = {}
        """Those that were cut short, by whom they are for."""
        self._vain: dict[object, Vain] = {}
        """Those in vain, by kind of newcomer."""

    def displace(
        self, line: Line, wish: Wish, reasons: list[Reason], instead: Instead | None = None
    ) -> bool:
        """Let others leave for a workload, and keep the room for it; False: it has no right.

        `instead` is told the price of whom was found, and may find a cheaper way.
        """
        desk, entry, ask = self.desk, wish.entry, wish.ask
        line.tried_at, line.until = desk.version, LATER
        self.is_patient = False
        self._begin(wish)
        has_rivals = self._has_rivals(wish)
        if not (has_rivals or desk.overtakers or desk.policy.headroom):
            return False
        if any(isinstance(reason, Delays) for reason in reasons):
            return False  # there is room, and it is kept for another
        patient = delayed_until(entry)
        if desk.now < patient:
            line.until = patient
            if patient < LATER:
                self._tell_protected(line, wish, reasons)
            return False
        if ask.barred and set(kinds_of(desk, ask)) <= set(ask.barred):
            return False
        if not (has_rivals or desk.policy.headroom or entry.workload.name in desk.due):
            line.until = self.hall.quantum.begins_at()
            if desk.now < line.until:
                return False  # only overtakers could be asked, and none of them has had its turn
        kind = None if instead is None else self._kind_of(line, wish)
        if self._is_vain(line, wish, kind, reasons):
            return False
        others = outgoing(desk, ask)
        self._begin(wish, others)
        exchange = self._exchange(wish, others)
        if exchange is None:  # nobody else need leave
            reasons[:] = [Leaving(tuple(other.entry.workload.name for other in others))]
            line.until = patience_ends(desk)
            return False
        line.until = exchange.until
        if exchange.is_cut:
            self.cut_short(line, wish, reasons)
        elif exchange.found is None and exchange.until < LATER:
            self._tell_protected(line, wish, reasons)
        if exchange.found is None:
            if not exchange.is_cut and kind is not None:
                self._note_vain(line, wish, kind)
            return False
        if instead is not None and self._waits(line, wish, exchange.found[1], reasons):
            return False
        bookings, item = self.hall.bookings, (entry.workload.name, wish.group)
        late = bookings.would_delay(item, *exchange.found)
        if late is not None:
            bookings.keep_back(item, late, reasons)
            return False
        if instead is None or others or not instead(self._price(exchange.found[1])):
            self._carry_out(wish, exchange, others)
        return True

    def _has_rivals(self, wish: Wish) -> bool:
        """Return whether anybody could have to leave by right."""
        if self._is_early(wish):
            return self.hall.has_rivals_in(wish.entry.queue)
        return self.hall.has_rivals

    def _is_early(self, wish: Wish) -> bool:
        return wish.early_until > self.desk.now

    # wide: who waits, for what, for whom, and what it is told
    def _waits(
        self, line: Line, wish: Wish, victims: Sequence[Victim], reasons: list[Reason]
    ) -> bool:
        """Return whether a workload lets victims stay, since room is expected; say until when."""
        desk = self.desk
        until = patient_until(desk, self.roll, self.hall.yardstick, wish, victims)
        self.is_patient = desk.now < until
        if self.is_patient:
            line.until = until
            is_busy = len(desk.entries) > FEW
            line.rests_until = min(until, desk.now + PAUSE_S) if is_busy else -LATER
            reasons.append(Protected(until))
        return self.is_patient

    def _kind_of(self, line: Line, wish: Wish) -> object:
        """Return what a search depends on but for who is how old; None: it is the only one."""
        if line.kind is None or wish.group:
            return None
        entry = wish.entry
        is_due = entry.workload.name in self.desk.due
        is_early = self._is_early(wish) and self.hall.has_rivals
        return line.kind, entry.queue, self.desk.priority(entry), is_due, is_early

    def _world(self) -> tuple[object, ...]:
        desk = self.desk
        return desk.books.epoch, desk.edits, desk.policy, desk.tree

    def _newcomer(self, wish: Wish) -> Newcomer:
        past, ask, item = wish.entry.past, wish.ask, (wish.entry.workload.name, "")
        rank = self.hall.lines_of(wish.entry).rank_of(item)
        return rank, past.saved_s, past.is_bold, (ask.avoid, ask.barred)

    def _is_vain(self, line: Line, wish: Wish, kind: object, reasons: list[Reason]) -> bool:
        """Return whether it is known that nobody leaves for a workload; say what was said."""
        vain = None if kind is None else self._vain.get(kind)
        if vain is None or not vain.holds(self.desk, self._world(), self._newcomer(wish)):
            return False
        line.until, line.rests_until = vain.until, vain.rests_until
        told = vain.protected
        if told is not None and self.desk.now < told.until < LATER:
            reasons.append(Protected(told.until))
        return True

    def _note_vain(self, line: Line, wish: Wish, kind: object) -> None:
        """Note that a search was in vain."""
        desk = self.desk
        before, pause_s = self._vain.get(kind), 0.0
        if len(desk.entries) > FEW:
            is_again = before is not None and desk.now < before.rests_until + before.pause_s
            most_s = self._longest_pause_s(wish.entry)
            pause_s = min(2 * before.pause_s, most_s) if before and is_again else PAUSE_S
        line.rests_until = rests_until = desk.now + pause_s
        line.until = max(line.until, rests_until)
        if len(self._vain) >= MOST_KNOWN:
            self._vain.clear()
        newcomer = self._newcomer(wish)
        told = line.protected
        if told is not None and (told.name != wish.entry.workload.name or line.until == LATER):
            told = None
        self._vain[kind] = Vain(
            self._world(), desk.version, newcomer, line.until, rests_until, pause_s, told
        )

    def _longest_pause_s(self, entry: Entry) -> float:
        """Return for how long at most nobody looks for others for a workload after it was done."""
        times = len(self.desk.books.nodes) / NODES if self.hall.fills(entry) else 1.0
        return min(max(1.0, times) * LONGEST_PAUSE_S, LONGEST_EARLY_S)

    def _price(self, victims: Sequence[Victim]) -> float:
        return sum(price(self.desk, victim) for victim in victims)

    def _exchange(self, wish: Wish, others: Sequence[Victim]) -> Exchange | None:
        """Look for victims as if others were gone, who leave anyway; None: that is enough."""
        books, bookings = self.desk.books, self.hall.bookings
        mark = books.checkpoint()
        for other in others:
            remove(self.desk, other)
        bookings.gone = others
        exchange = None
        if not others or not wish.suffices():
            exchange = self._look(wish)
        bookings.gone = ()
        books.rollback(mark)
        return exchange

    def _look(self, wish: Wish) -> Exchange:
        """Look for victims, from where the search for them was cut short."""
        steps, yardstick = self.search.steps, self.hall.yardstick
        return find_exchange(self.desk, self._hunt, yardstick, wish, steps)

    def _tell_protected(self, line: Line, wish: Wish, reasons: list[Reason]) -> None:
        """Say when a workload could start by asking others who may not be asked before.

        That takes a while to tell, so it is not told where very many run, and what was told holds
        until then; where more than a few run, for some time at least.
        """
        desk, name = self.desk, wish.entry.workload.name
        if wish.group or len(desk.entries) > MOST_LOOKED_AT:
            return
        known, least_s = line.protected, TOLD_S if len(desk.entries) > FEW else 0.0
        if known is None or not known.holds(name, desk.now, least_s):
            since = max(desk.now, delayed_until(wish.entry))
            until = protected_until(desk, self.roll, self.hall.yardstick, wish, since)
            known = line.protected = Told(name, desk.now, until)
        if desk.now < known.until < LATER:
            reasons.append(Protected(known.until))

    def _begin(self, wish: Wish, others: Sequence[Victim] = ()) -> None:
        """Begin a search, or go on with one that was cut short if nothing has changed since."""
        desk, ask, item = self.desk, wish.ask, (wish.entry.workload.name, wish.group)
        ways = (ask.avoid, ask.barred, tuple(other.name for other in others))
        good_for = (desk.books.epoch, desk.version, desk.edits, desk.policy, *ways)
        known = self._cut.get(item)
        is_good = known is not None and known.good_for == good_for
        self.search = known if known is not None and is_good else Search(good_for)
        self.search.steps = Steps(max(1, desk.policy.eviction.steps), self.search.proofs)

    def cut_short(self, line: Line, wish: Wish, reasons: list[Reason]) -> None:
        """Note that a search reached its bound, and let it go on in the next cycle."""
        version = self.search.good_for[:2]
        self._cut = {i: known for i, known in self._cut.items() if known.good_for[:2] == version}
        self._cut[wish.entry.workload.name, wish.group] = self.search
        reasons.append(CutShort(self.desk.policy.eviction.steps, goes_on=True))
        line.until = self.desk.now

    def _carry_out(self, wish: Wish, exchange: Exchange, others: Sequence[Victim]) -> None:
        """Let the victims leave; who they leave for stands in no line any more."""
        desk, entry, lines = self.desk, wish.entry, self.hall.lines_of(wish.entry)
        assert exchange.found is not None
        seats, victims = exchange.found
        if wish.group:
            self.hall.leave(entry)  # no group of it grows before this one has
        else:
            self.hall.go(entry, lines)
        self.note_hold(entry)
        if exchange.is_bold:
            entry.past = replace(entry.past, is_bold=True)
        if any(victim.cause == "quantum" for victim in victims):
            self.overtakes(entry)  # its turn has not come either
        others = in_the_way(desk, others, seats)
        carry_out(desk, entry, seats, victims, others, wish.which(seats))
        desk.holds[entry.workload.name].is_growth = bool(wish.group)
        wake_blocked(lines)

    def note_hold(self, entry: Entry) -> None:
        """Note that a workload leaves its line for a hold: somebody should be told."""
        self._moved_on[entry.workload.name] = None

    def overtakes(self, entry: Entry) -> None:
        """Note that a workload starts before its turn."""
        self.desk.overtakers[entry.workload.name] = None
        self.hall.quantum.note(entry)

    def risks(self) -> Risks:
        """Return who is covered by quota, in the share of its queue or beyond.

        Where nothing is shared, all that a queue has is its share.
        """
        if not self.desk.tree.pairs:
            units = {e.workload.name: split(self.desk, e) for e in self.desk.running()}
            some = {name: 1 + len(more) for name, (minimum, more) in units.items() if minimum}
            return {name: ("in share",) * count for name, count in some.items()}
        line = self.roll.line(self.hall.claims.yardstick())
        found: Risks = {}
        for name in self.desk.entries:
            words: list[str] = []
            while (name, len(words)) in line:
                words.append(line.risk((name, len(words))))
            if words:
                found[name] = tuple(words)
        return found

    def tell(self) -> list[str]:
        """Return those who left a line for a hold since the last call."""
        told = list(self._moved_on)
        self._moved_on.clear()
        return told

    def copy(self, desk: Desk, hall: Hall) -> Displacing:
        """Return the same for a fork."""
        new = Displacing(desk, hall)
        new._moved_on = dict(self._moved_on)
        new._cut = {item: search.copy() for item, search in self._cut.items()}
        new._vain = dict(self._vain)
        return new


def delayed_until(entry: Entry) -> float:
    """Return until when a workload waits before others must leave for it."""
    workload = entry.workload
    if workload.preemption_delay_s >= NEVER_S:
        return LATER
    return waits_since(entry) + workload.preemption_delay_s

"""Whose turn it is: the shadow and its marks, for queues that backfill."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.engine.latest import Latest
from mooring.engine.shadow import Shadow, cast_shadow, revive
from mooring.model.cluster import WHOLE
from mooring.model.events import (
    Ended,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.workload import TaskState
from mooring.policy.backfill.reserve import nodes_for, swapped
from mooring.policy.backfill.runtimes import RunTimes
from mooring.policy.fewer import least
from mooring.policy.queues.offers import gate

if TYPE_CHECKING:
    from mooring.engine.engine import Engine
    from mooring.model.entry import Entry
    from mooring.model.events import Event
    from mooring.model.memory import Memory, ShadowRun
    from mooring.policy.default.court import DefaultCourt
    from mooring.policy.desk import Desk

NEVER = float("inf")
FEW, SWAP_S = 50, 60.0
"""Where there are more workloads than a few, reservations are improved no more often than that."""


class Turns:
    """Keeps the shadow of an engine while somebody waits in a queue that backfills."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.run_times = RunTimes()
        self.shadow: Shadow | None = None
        self._latest = Latest(desk)
        self.forgets = True
        """Whether the shadow is let go when nobody waits. Kept, it would run behind reality where
        somebody has overtaken, and turns would come later."""
        self._remembered: tuple[ShadowRun, ...] = ()
        """The shadow of an earlier life, until the first cycle."""
        self._back: dict[str, None] | None = None
        """Those who may wait again although their turn has come; None: anybody may."""
        self._doubted: dict[str, None] | None = None
        """Those of whom it may have changed whether they may start at all; None: of anybody."""
        self._swapped_at = -NEVER
        """When reservations were last looked at for better nodes."""
        self._opened = False
        """Whether nodes were kept for one that is over since somebody last looked."""
        self._good: tuple[int, tuple[str, ...]] = -1, ()
        """Nodes that are all there, and since when that is known."""
        self._turned: list[str] = []
        """Those whose turn has come in this cycle."""
        self._over: list[tuple[str, str, int, float | None]] = []
        """Over since the last cycle: workload, queue, size, since when it ran in all its runs."""

    def load(self, memory: Memory) -> None:
        """Take in what an earlier life knew."""
        self.run_times.load(memory)
        self._remembered = memory.shadow
        self.desk.reserved = dict(memory.reserved)
        self.desk.overtakers.update(dict.fromkeys(memory.overtakers))

    def dump(self, memory: Memory) -> Memory:
        """Return a memory with the shadow and its marks in it."""
        runs = self._remembered if self.shadow is None else self.shadow.dump()
        memory = self.run_times.dump(memory)
        return replace(
            memory,
            shadow=runs,
            overtakers=tuple(self.desk.overtakers),
            reserved=tuple(self.desk.reserved.items()),
        )

    def observe(self, event: Event) -> None:
        """Let the shadow know."""
        if self.shadow is None:
            return
        self.shadow.observe(event)
        match event:
            case Submitted() | Ended() | TasksChanged(state=TaskState.RUNNING):
                return
            case TasksChanged(name):
                self._doubt(name)
                if self._back is not None:
                    self._back[name] = None
                return
            case WorkloadChanged(workload):
                self._doubt(workload.name)
            case PolicyChanged() | QueuesChanged():
                self._doubted = None
            case _:
                pass
        self._back = None

    def _doubt(self, name: str) -> None:
        if self._doubted is not None:
            self._doubted[name] = None

    def forget_who_waits(self) -> None:
        """Let anybody wait again although its turn has come: starts were taken back."""
        self._back = None

    def over(self, entry: Entry) -> None:
        """Note that a workload is over; how long it ran is known in the next cycle."""
        name, since, saved = entry.workload.name, entry.running_since, entry.past.saved_s
        for marks in (self.desk.due, self.desk.overtakers):
            marks.pop(name, None)
        if name in self.desk.reserved:
            self.desk.reserved = {n: on for n, on in self.desk.reserved.items() if n != name}
            self._opened = True
        began = None if since is None else since - saved
        self._over.append((name, group_of(entry), size_of(entry), began))

    @property
    def stirs(self) -> bool:
        """Return whether something of the shadow is due now."""
        wake = self.shadow.wake_at if self.shadow is not None else None
        return self.shadow is not None and (bool(self._over) or (wake or NEVER) <= self.desk.now)

    def note_ends(self) -> None:
        """Learn from the workloads that are over since the last cycle."""
        now = self.desk.now
        for name, queue, size, began in self._over:
            ran_s = None if began is None else max(0.0, now - began)
            if ran_s is not None:
                self.run_times.ended(queue, size, ran_s)
            if self.shadow is not None:
                self.shadow.over(name, ran_s, now)
        self._over.clear()

    def serve(self, engine: Engine, court: DefaultCourt) -> list[float | None]:
        """Let a court decide in the light of the shadow; return when to look again."""
        if self._remembered:
            self.shadow = revive(engine, self._remembered, self.desk.now)
            self._remembered = ()
        self.note_ends()
        if self.shadow is None:
            court.fill_by(None)
            wake = court.serve()
            if not court.anyone_backfills():
                return [wake]
            self.shadow = cast_shadow(engine, self.desk.now)
            court.look_again()  # strict order no longer keeps anybody back
        court.fill_by(self.residual)
        court.measure_anew()
        self._keep_out(court, self.shadow)
        self._turned.clear()
        for name in self.shadow.advance(self.desk.now):
            self._turn(court, name)
        if self._back is not None:
            self._back.update(dict.fromkeys(self._turned))
        self._serve_due(court)
        wake = court.serve()
        latest = self._latest.look(self.shadow)
        if latest is not None:
            court.promise(latest)
        if self.forgets and self.shadow.is_calm and not court.anyone_backfills():
            self._forget(court)
            return [wake]
        return [wake, self.shadow.wake_at, self._latest.wake_at]

    def _keep_out(self, court: DefaultCourt, shadow: Shadow) -> None:
        """Let only those have turns who could start if only there was room."""
        entries, there = self.desk.entries, shadow.beside.entries()
        for name in list(there) if self._doubted is None else self._doubted:
            entry = entries.get(name)
            if entry is None or name not in there or not court.is_waiting(name):
                continue
            may_start = not gate(self.desk, entry)
            if may_start and name in shadow.away:
                shadow.let_in(entry.workload)
            elif not may_start and shadow.lets(name):
                shadow.withdraw(name)
        self._doubted = {}

    def _turn(self, court: DefaultCourt, name: str) -> None:
        """Let the turn of a workload come: it is firm if it runs, or due."""
        entry = self.desk.entries.get(name)
        if entry is None:
            return
        if self.desk.overtakers.pop(name, False) is not False:
            self.desk.note_move(entry)
        self._turned.append(name)
        if court.is_waiting(name):
            self.desk.due[name] = None
            court.serve_due(name, is_new=True)

    def _serve_due(self, court: DefaultCourt) -> None:
        """Serve those whose turn has come, in order; reserve nodes for the first without room."""
        assert self.shadow is not None
        desk = self.desk
        is_time = desk.now >= self._swapped_at + SWAP_S
        if is_time:
            self._swapped_at = desk.now
        starts = self.shadow.starts
        some = starts if self._back is None else [name for name in self._back if name in starts]
        found = [name for name in some if court.is_waiting(name)]
        if not (found or desk.reserved or self._opened):
            desk.due = {}
            self._back = dict.fromkeys([*self._turned, *desk.holds])
            return
        found.sort(key=self.shadow.turn_of)
        desk.due = dict.fromkeys(found)
        blocked = [name for name in list(desk.due) if not court.serve_due(name)]
        desk.due = dict.fromkeys(blocked)
        self._back = dict.fromkeys([*found, *self._turned, *desk.holds])
        first = [name for name in blocked if court.backfills(name) and court.could_start(name)]
        first = first[: desk.policy.backfill.reservations]
        kept: dict[str, tuple[str, ...]] = {}
        for name in first:
            taken = tuple(node for nodes in kept.values() for node in nodes)
            before = desk.reserved.get(name, ())
            if before and self._are_good(before):
                looks = is_time or len(desk.entries) <= FEW
                ask = least(court.ask_of(name))
                kept[name] = swapped(desk, ask, before, taken) if looks else before
            else:
                kept[name] = nodes_for(desk, least(court.ask_of(name)), self.residual, taken)
        if kept != desk.reserved or self._opened:
            self._opened = False
            desk.reserved = {name: nodes for name, nodes in kept.items() if nodes}
            court.look_again()

    def _are_good(self, nodes: tuple[str, ...]) -> bool:
        """Return whether all of these nodes are there; that stays so until nodes change."""
        books = self.desk.books
        if self._good != (books.epoch, nodes):
            rows = [books.row_of.get(node) for node in nodes]
            if not all(row is not None and bool(books.present[row]) for row in rows):
                return False
            self._good = books.epoch, nodes
        return True

    def residual(self, entry: Entry) -> float:
        """Return how long a workload is expected to run yet."""
        workload = entry.workload
        if workload.service:
            return NEVER
        ran = entry.past.saved_s
        if entry.running_since is not None:
            ran += self.desk.now - entry.running_since
        said = workload.estimate_s if workload.estimate_s is not None else workload.run_limit_s
        if said is not None:
            return max(0.0, said - ran)
        return self.run_times.residual(group_of(entry), size_of(entry), ran)

    def expected(self, entry: Entry) -> float:
        """Return how long a workload is expected to run yet; infinite: nobody knows."""
        workload = entry.workload
        is_said = workload.estimate_s is not None or workload.run_limit_s is not None
        return self.residual(entry) if is_said or self.run_times.ends else NEVER

    def _forget(self, court: DefaultCourt) -> None:
        """Let go of the shadow: it stands where reality stands."""
        self.shadow = self._back = self._doubted = None
        self._latest = Latest(self.desk)
        court.promise({})
        court.fill_by(None)
        for marks in (self.desk.due, self.desk.overtakers, self.desk.reserved):
            marks.clear()

    def copy(self, desk: Desk) -> Turns:
        """Return the turns of a fork."""
        new = Turns(desk)
        new.forgets = self.forgets
        new._latest = self._latest.copy(desk)
        new.run_times = self.run_times.copy()
        new.shadow = None if self.shadow is None else self.shadow.copy()
        new._swapped_at, new._opened = self._swapped_at, self._opened
        new._doubted = None if self._doubted is None else dict(self._doubted)
        new._over, new._remembered = list(self._over), self._remembered
        return new


def group_of(entry: Entry) -> str:
    """Return with whom a workload has run times in common: its queue, and whose it is there."""
    workload = entry.workload
    return f"{workload.queue}/{workload.namespace}" if workload.namespace else workload.queue


def size_of(entry: Entry) -> int:
    """Return how many devices the minimum of a workload takes, at least one."""
    milli = sum([(m.demand.weight - 1) * m.group.min for m in entry.members.values()])
    return max(1, round(milli / WHOLE))

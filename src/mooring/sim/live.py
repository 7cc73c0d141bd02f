"""A trial under way: it can be stopped between two instants, saved and continued."""

from __future__ import annotations

from array import array
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from mooring.journal import Journal, JournalError, Recorder
from mooring.metrics import Metrics
from mooring.metrics.summary import Waited
from mooring.model.events import Ended, Event
from mooring.sim.own import own_of
from mooring.sim.run import Run
from mooring.sim.whys import Whys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mooring.model.plan import Plan
    from mooring.sim.loop import Listener, Loop
    from mooring.sim.study import Trial

    Cycle = tuple[float, Sequence[Event], Plan]

_BATCH = 256
"""Records that a journal takes at a time."""
_DAY_S = 86_400.0
_NAP_S = 0.1
"""Longest sleep between two looks at whether to stop."""


@dataclass(slots=True)
class Waits:
    """How long every workload waited, by name; or only what became of some."""

    follow: tuple[str, ...] = ()
    keeps_all: bool = True
    told: dict[str, Waited] = field(default_factory=dict)
    """Of those that are followed."""
    names: list[str] = field(default_factory=list)
    """Of those who have started."""
    seconds: array[float] = field(default_factory=lambda: array("d"))
    """How long each of them waited."""
    in_vain: dict[str, float] = field(default_factory=dict)
    """How long those waited who have not started."""
    whys: Whys = field(default_factory=Whys)
    """What those who are followed waited for."""

    def __post_init__(self) -> None:
        self.whys.names = self.follow

    def add(self, waited: Waited) -> None:
        """Note one whose wait is over, or the run is."""
        if waited.name in self.follow:
            self.told[waited.name] = waited
            self.whys.over(waited)
        if not self.keeps_all:
            return
        if waited.is_waiting:
            self.in_vain[waited.name] = waited.wait_s
        else:
            self.names.append(waited.name)
            self.seconds.append(waited.wait_s)


class Lull:
    """Keeps cycles in which nothing happens from listeners until something does.

    Whether they are part of a run until all is done is known only then.
    """

    def __init__(self, loop: Loop, listeners: Sequence[Listener], kept: Iterable[Cycle]) -> None:
        self.kept = list(kept)
        self._loop = loop
        self._listeners = listeners

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Hear of a cycle."""
        self.kept.append((now, events, plan))
        if self._loop.moved_at == now:
            self.end(now)

    def end(self, at: float) -> None:
        """Tell what was kept: nothing of it was later than that."""
        for now, events, plan in self.kept:
            for listener in self._listeners:
                listener(min(now, at), events, plan)
        self.kept.clear()


@dataclass(frozen=True, slots=True)
class State:
    """Where a trial stands, but for its load."""

    run: dict[str, Any]
    metrics: Metrics
    waits: Waits | None
    pending: tuple[Event, ...] = ()
    """What the journal has not got yet."""
    records: int = 0
    """How many the journal had."""
    lull: tuple[Cycle, ...] = ()
    """Cycles that do not count yet."""
    ended: int = 0
    """How many workloads had ended."""

    @property
    def now(self) -> float:
        """Return when that is."""
        now: float = self.run["loop"]["now"]
        return now


class Live:
    """A trial under way; `tick` hears how far it comes, by `way`."""

    def __init__(
        self, trial: Trial, tick: Callable[[int], None], state: State | None = None
    ) -> None:
        reading = trial.source.read(trial.seed, trial.until_s)
        load = trial.rules.applied(reading.load)
        self.trial = trial
        self.remarks = reading.remarks
        own = own_of(trial.rules.own)
        self.run = Run(load, trial.rules.policy, delays=trial.delays, own=own)
        self._pending: tuple[Event, ...] = ()
        self._records = 0
        self._is_new = state is None
        if state is None:
            keeps = trial.keeps_waits or bool(trial.follow)
            self.waits = Waits(trial.follow, trial.keeps_waits) if keeps else None
            note = None if self.waits is None else self.waits.add
            restart_s = trial.delays.restart_s
            self.metrics = Metrics(self.run.start, trial.warm_up_s, note, restart_s=restart_s)
        else:
            self.run.restore(state.run)
            self.metrics, self.waits = state.metrics, state.waits
            self._pending, self._records = state.pending, state.records
        self.way = Way(trial, len(reading.drafts), tick)
        if state is not None:
            self.way.stand(self.run.loop.now, state.ended)
        self.run.loop.listen(self.way.hear)
        listeners: list[Listener] = [self.metrics.hear]
        if self.waits is not None and self.waits.follow:
            listeners.insert(0, self.waits.whys.hear)
        self.lull = Lull(self.run.loop, listeners, () if state is None else state.lull)
        self.run.loop.listen(self.lull.hear)

    def go(
        self, until: float = inf, halt: Callable[[], bool] = lambda: False, pace: float = 0.0
    ) -> bool:
        """Go on up to `until`; return whether nothing told it to halt before.

        With a pace, no more than so many virtual seconds pass in a second.
        """
        loop = self.run.loop
        self.way.go(until)
        with ExitStack() as stack:
            if self.trial.journal:
                stack.callback(self._close, *self._open())
            timing = _Pace(pace, loop.now, halt) if pace else None
            while loop.next_at <= until and loop.next_at < inf and not self.is_over:
                if timing is not None:
                    timing.wait(loop.next_at)
                if halt():
                    return False
                if not loop.step():
                    break
            if timing is not None and until < inf:
                timing.wait(until)
        if self.is_over:
            self.way.end()
        return not halt() or loop.next_at > until

    @property
    def is_over(self) -> bool:
        """Return whether it was to run until all is done, and that is so."""
        return self.trial.until_s == inf and self.run.loop.is_over

    def state(self) -> State:
        """Return where it stands; it must not go on while that is in use."""
        journal, lull = (self._pending, self._records), tuple(self.lull.kept)
        return State(self.run.saved(), self.metrics, self.waits, *journal, lull, self.way.ended)

    def _open(self) -> tuple[Journal, Recorder]:
        """Let a journal be written: a new one, or more of the one that there is."""
        path = self.trial.journal
        if self._is_new:
            journal = Journal.create(path, self.run.start, batch=_BATCH)
        else:
            journal = Journal.open(path, batch=_BATCH)
        has = len(journal)
        if has != self._records or journal.header != self.run.start:
            journal.close()
            raise JournalError(
                f"{path}: this is not the journal of this run, which had {self._records} records "
                f"when it was saved; here are {has}: put back the journal of then"
            )
        self._is_new = False
        recorder = Recorder(self.run.engine, journal, self._pending)
        self.run.loop.engine = recorder
        return journal, recorder

    def _close(self, journal: Journal, recorder: Recorder) -> None:
        self.run.loop.engine = self.run.engine
        self._pending = recorder.pending
        journal.flush()
        self._records = len(journal)
        journal.close()


def counts_work(trial: Trial, until_s: float) -> bool:
    """Return whether workloads tell how far a run has come.

    That is so of a trace up to its last end: nobody knows when that is, only how many there are. Of
    a mix it is up to when work comes that is known.
    """
    return until_s == inf and bool(trial.source.trace)


def seconds_of(trial: Trial, until_s: float) -> float:
    """Return how long a run goes as far as one knows: of a mix up to when work comes."""
    return until_s if until_s < inf else trial.source.options.days * _DAY_S


class Way:
    """Tells how far a run has come, now and then: in seconds of virtual time, or in workloads."""

    EVERY_S = 600
    PARTS = 1000
    """So often workloads are told of in a run, at most."""

    def __init__(self, trial: Trial, workloads: int, tick: Callable[[int], None]) -> None:
        self.ended = 0
        self._trial = trial
        self._workloads = workloads
        self._tick = tick
        self._now = 0.0
        self._told = 0
        self.counts_work = False
        self.whole = 0
        """How far it goes."""
        self.go(trial.until_s)

    def stand(self, now: float, ended: int) -> None:
        """Be where a run that is continued stood."""
        self._now, self.ended = max(now, 0.0), ended
        self._told = self.done

    def go(self, until_s: float) -> None:
        """Go on up to then."""
        before, self.counts_work = self.counts_work, counts_work(self._trial, until_s)
        seconds = seconds_of(self._trial, until_s)
        self.whole = self._workloads if self.counts_work else int(seconds)
        if before != self.counts_work:
            self._told = self.done

    @property
    def done(self) -> int:
        """Return how far it has come."""
        return self.ended if self.counts_work else min(int(self._now), self.whole)

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Hear of a cycle."""
        self._now = now
        self.ended += sum(isinstance(event, Ended) for event in events)
        least = self.whole // self.PARTS if self.counts_work else self.EVERY_S
        if self.done - self._told >= max(least, 1):
            self._tell(self.done)

    def end(self) -> None:
        """Tell the rest: it is over, though some may never start or end."""
        self._tell(self.whole)

    def _tell(self, done: int) -> None:
        self._tick(done - self._told)
        self._told = done


class _Pace:
    """Lets virtual time pass no faster than so many seconds a second."""

    def __init__(self, pace: float, now: float, halt: Callable[[], bool]) -> None:
        self._pace = pace
        self._first = max(now, 0.0)
        self._began = monotonic()
        self._halt = halt

    def wait(self, time: float) -> None:
        """Sleep until that moment has come, or there is reason to halt."""
        due = self._began + (time - self._first) / self._pace
        while (left := due - monotonic()) > 0 and not self._halt():
            sleep(min(left, _NAP_S))

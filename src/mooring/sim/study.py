"""Policies on the same work: what to run, how, and what came of it."""

from __future__ import annotations

from array import array
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from mooring.journal import Journal, Recorder
from mooring.metrics import Metrics, Summary
from mooring.metrics.frames import Film
from mooring.model.plan import Plan
from mooring.model.queues import Queue
from mooring.model.settings import Policy
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.mixes import make_load
from mooring.sim.own import Paths, own_of
from mooring.sim.run import AT_ONCE, Delays, Run
from mooring.sim.traces import Options as TraceOptions
from mooring.sim.traces import find

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.events import Event
    from mooring.sim.load import Load

_BATCH = 256
"""Records that a journal takes at a time."""
NATIVE = Policy(small="spread", gang="spread", service="spread")
"""Each task to the node with the most left, as schedulers do that know no more."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A policy under a name, and how queues are served under it."""

    name: str
    policy: Policy = Policy()
    order: str = ""
    """Of all queues; empty: as the queues say."""
    queues: tuple[Queue, ...] = ()
    """None: those of the load."""
    own: Paths = ()
    """Functions of the user, by import path."""

    def applied(self, load: Load) -> Load:
        """Return a load with the queues of these rules."""
        queues = self.queues or load.queues
        if self.order:
            queues = tuple(replace(queue, order=self.order) for queue in queues)
        return replace(load, queues=queues)


NAMED = {
    "fifo": Rules("fifo", NATIVE, "strict"),
    "best-effort": Rules("best-effort", NATIVE, "best-effort"),
    "backfill": Rules("backfill", NATIVE, "backfill"),
    "e-binpack": Rules("e-binpack", Policy(), "strict"),
    "default": Rules("default", Policy(), "backfill"),
}
"""Strict FIFO with native placement, then one thing better at a time, and all together."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where work comes from: a mix, or a trace."""

    mix: str = "lab"
    options: MixOptions = field(default_factory=MixOptions)
    trace: str = ""
    """A name of `mooring traces list`, or a file; then the mix does not matter."""
    folder: str = "."
    reading: TraceOptions = field(default_factory=TraceOptions)

    def load(self, seed: int) -> Load:
        """Return the load; a trace is the same for every seed."""
        if self.trace:
            return find(self.trace, self.folder).read(self.reading).load
        return make_load(self.mix, seed, self.options)


@dataclass(frozen=True, slots=True)
class Trial:
    """One run to be made."""

    source: Source
    rules: Rules
    seed: int = 0
    warm_up_s: float = 0.0
    until_s: float = inf
    delays: Delays = AT_ONCE
    keeps_waits: bool = False
    journal: str = ""
    """A file to write every cycle to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    trial: Trial
    summary: Summary
    film: Film
    waits: Waits | None = None


@dataclass(slots=True)
class Waits:
    """How long every workload waited that has started, by name."""

    names: list[str] = field(default_factory=list)
    seconds: array[float] = field(default_factory=lambda: array("d"))

    def add(self, name: str, seconds: float) -> None:
        """Note one that has started."""
        self.names.append(name)
        self.seconds.append(seconds)


def run_trial(trial: Trial, tick: Callable[[int], None]) -> Outcome:
    """Make one run; `tick` hears of seconds of virtual time as they pass."""
    load = trial.rules.applied(trial.source.load(trial.seed))
    own = own_of(trial.rules.own)
    run = Run(load, trial.rules.policy, [_Clock(tick).hear], delays=trial.delays, own=own)
    waits = Waits() if trial.keeps_waits else None
    metrics = Metrics(run.start, trial.warm_up_s, None if waits is None else waits.add)
    run.loop.listen(metrics.hear)
    if trial.journal:
        with closing(Journal.create(trial.journal, run.start, batch=_BATCH)) as journal:
            run.loop.engine = Recorder(run.engine, journal)
            run.run(trial.until_s)
    else:
        run.run(trial.until_s)
    if trial.until_s < inf:
        metrics.hear(trial.until_s, (), Plan())  # the last stretch counts too
    return Outcome(trial, metrics.summary(), metrics.film(), waits)


class _Clock:
    """Tells how much virtual time has passed, now and then."""

    EVERY_S = 600

    def __init__(self, tick: Callable[[int], None]) -> None:
        self._tick = tick
        self._told = 0

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Hear of a cycle."""
        passed = int(now) - self._told
        if passed >= self.EVERY_S:
            self._told += passed
            self._tick(passed)


@dataclass(frozen=True, slots=True)
class Worse:
    """A workload that waits longer under one policy than under the first."""

    name: str
    policy: str
    before_s: float
    after_s: float


def got_worse(outcomes: Sequence[Outcome], most: int = 10) -> list[Worse]:
    """Return those who lose most against the first policy on the same work, worst first."""
    first = outcomes[0]
    if first.waits is None:
        return []
    before = dict(zip(first.waits.names, first.waits.seconds, strict=True))
    found = []
    for outcome in outcomes[1:]:
        assert outcome.waits is not None
        for name, after in zip(outcome.waits.names, outcome.waits.seconds, strict=True):
            if after > before.get(name, inf):
                found.append(Worse(name, outcome.trial.rules.name, before[name], after))
    found.sort(key=lambda each: (each.before_s - each.after_s, each.name))
    return found[:most]

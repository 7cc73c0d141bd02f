"""Policies on the same work: what to run, how, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from mooring.metrics import Summary
from mooring.metrics.frames import Film
from mooring.model.plan import Plan
from mooring.model.queues import Queue
from mooring.model.settings import Eviction, Policy
from mooring.sim.live import Live, Waits
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.mixes import make_load
from mooring.sim.own import Paths
from mooring.sim.run import AT_ONCE, Delays
from mooring.sim.traces import Options as TraceOptions
from mooring.sim.traces import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mooring.sim.load import Load

STAY = Eviction(consolidates=False)
"""Nobody is moved to another place so that another has room."""
NATIVE = Policy(small="spread", gang="spread", service="spread", eviction=STAY)
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
    "e-binpack": Rules("e-binpack", Policy(eviction=STAY), "strict"),
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
    is_whole: bool = True
    """Nobody broke it off."""


def run_trial(trial: Trial, tick: Callable[[int], None]) -> Outcome:
    """Make one run; `tick` hears of seconds of virtual time as they pass."""
    live = Live(trial, tick)
    return outcome_of(live, is_whole=live.go(trial.until_s))


def outcome_of(live: Live, *, is_whole: bool, until_s: float | None = None) -> Outcome:
    """Return what came of a run, which is over: the last stretch counts too."""
    trial = live.trial
    end = trial.until_s if until_s is None else until_s
    if is_whole and end < inf:
        live.metrics.hear(end, (), Plan())
    return Outcome(trial, live.metrics.summary(), live.metrics.film(), live.waits, is_whole)


@dataclass(frozen=True, slots=True)
class Worse:
    """A workload that waits longer under one policy than under the first, with the same seed."""

    name: str
    policy: str
    before_s: float
    after_s: float
    seed: int = 0


def got_worse(outcomes: Sequence[Outcome], most: int = 10) -> list[Worse]:
    """Return those who lose most against the first policy on the same work, worst first."""
    found: list[Worse] = []
    first = outcomes[0].trial.rules.name if outcomes else ""
    for seed in dict.fromkeys(outcome.trial.seed for outcome in outcomes):
        same = [outcome for outcome in outcomes if outcome.trial.seed == seed]
        base = next((each for each in same if each.trial.rules.name == first), None)
        if base is not None and base.waits is not None:
            others = [each for each in same if each is not base]
            found += _losers(base.waits, others)
    found.sort(key=lambda each: (each.before_s - each.after_s, each.name, each.seed))
    return found[:most]


def _losers(first: Waits, others: Sequence[Outcome]) -> Iterator[Worse]:
    before = dict(zip(first.names, first.seconds, strict=True))
    for outcome in others:
        assert outcome.waits is not None
        name_of, seed = outcome.trial.rules.name, outcome.trial.seed
        for name, after in zip(outcome.waits.names, outcome.waits.seconds, strict=True):
            if after > before.get(name, inf):
                yield Worse(name, name_of, before[name], after, seed)

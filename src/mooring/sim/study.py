"""Policies on the same work: what to run, how, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from math import inf
from typing import TYPE_CHECKING

from mooring.config.reader import nearest
from mooring.metrics import Summary
from mooring.metrics.frames import Film
from mooring.model.plan import Plan
from mooring.model.queues import Queue
from mooring.model.settings import Eviction, Policy
from mooring.sim.errors import StudyError
from mooring.sim.failures import with_failures
from mooring.sim.live import Live, Waits, counts_work, seconds_of
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.mixes import make_load
from mooring.sim.own import Paths
from mooring.sim.run import AT_ONCE, Delays
from mooring.sim.traces import NOTHING, Reading, Remarks, read_trace
from mooring.sim.traces import Options as TraceOptions
from mooring.sim.traces.intake import ANY_QUEUE
from mooring.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mooring.sim.load import Arrival, Load

_DAY_S = 86_400.0
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
        arrivals = self._known(load) if self.queues else load.arrivals
        return replace(load, arrivals=arrivals, queues=queues)

    def _known(self, load: Load) -> Iterator[Arrival]:
        """Yield the arrivals: one in a queue that these rules have not got would wait for ever."""
        names = {queue.name for queue in self.queues}
        for arrival in load.arrivals:
            if arrival.workload.queue not in names:
                found = dict.fromkeys([arrival.workload.queue, *(q.name for q in load.queues)])
                lacking = listed([name for name in found if name not in names])
                raise StudyError(
                    f"policy {self.name} has no queue {lacking}, where work of this load waits: "
                    "add it to the file, or put that work elsewhere with --queue FROM=TO"
                )
            yield arrival


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
    node_failures: float = 0.0
    """Failures of a node a year."""

    def read(self, seed: int, until_s: float = inf) -> Reading:
        """Return the load, and what was left out of it; the work of a trace has no seed.

        Nodes fail until then: whoever fell behind must not be spared.
        """
        reading = self._read(seed)
        if not self.node_failures:
            return reading
        if until_s == inf:
            told = "a run that ends when all is done has no end up to which nodes could fail"
            raise StudyError(f"--node-failures {self.node_failures:g}: {told}; give --days")
        failing = with_failures(reading.load, seed, self.node_failures, until_s)
        return replace(reading, load=failing)

    def _read(self, seed: int) -> Reading:
        if self.trace:
            reading = read_trace(self.trace, self.folder, self.reading)
            if not reading.drafts:
                broken = counted(reading.left_out, "broken row")
                told = f"; {broken} left out" if reading.left_out else ""
                raise StudyError(f"--trace {self.trace}: no work comes{self._window()}{told}")
            return reading
        load = make_load(self.mix, seed, self.options)
        return Reading(_moved(load, self.reading) if self.reading.queues else load, 0)

    def _window(self) -> str:
        since, until = self.reading.since_s, self.reading.until_s
        if not since and until == inf:
            return ""
        return f" from {since:g} s" + ("" if until == inf else f" to {until:g} s") + " of it"


def _moved(load: Load, reading: TraceOptions) -> Load:
    """Return a load with its work in other queues."""
    names = {queue.name: reading.queue(queue.name) for queue in load.queues}
    for given, here in reading.queues:
        if given not in (ANY_QUEUE, *names):
            near = nearest(given, names) or f"; there are {listed(list(names))}"
            raise StudyError(f"--queue {given}={here}: no work is in queue {given}{near}")
    kept = [queue for queue in load.queues if queue.name in names.values()]
    known = {queue.name for queue in kept}
    new = [Queue(name) for name in dict.fromkeys(names.values()) if name not in known]

    def moved(arrival: Arrival) -> Arrival:
        workload = arrival.workload
        return replace(arrival, workload=replace(workload, queue=names[workload.queue]))

    return replace(load, arrivals=map(moved, load.arrivals), queues=(*kept, *new))


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
    follow: tuple[str, ...] = field(default=(), repr=False)
    """Workloads of which is told what became of them; that changes nothing in the run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    trial: Trial
    gpus: int
    """Of all nodes that there were at its beginning."""
    summary: Summary
    film: Film
    waits: Waits | None = None
    is_whole: bool = True
    """Nobody broke it off."""
    remarks: Remarks = NOTHING
    """What one should know about its load."""


def whole_of(trials: Sequence[Trial]) -> int:
    """Return how far runs go together: seconds, or workloads of traces that run until all is done.

    Such a trace is read for that, once.
    """
    workloads: dict[Source, int] = {}
    whole = 0.0
    for trial in trials:
        source = trial.source
        if not counts_work(trial, trial.until_s):
            whole += int(seconds_of(trial, trial.until_s))
            continue
        if source not in workloads:
            workloads[source] = len(source.read(trial.seed).drafts)
        whole += workloads[source]
    return int(whole)


def run_trial(trial: Trial, tick: Callable[[int], None]) -> Outcome:
    """Make one run; `tick` hears how far it comes, in seconds or workloads."""
    live = Live(trial, tick)
    return outcome_of(live, is_whole=live.go(trial.until_s))


def outcome_of(live: Live, *, is_whole: bool, until_s: float | None = None) -> Outcome:
    """Return what came of a run, which goes on no more: the last stretch counts too.

    One that was to run until all is done ends when something last happened. That must be after its
    warm-up: nobody could know before.
    """
    trial, loop = live.trial, live.run.loop
    end = trial.until_s if until_s is None else until_s
    if live.is_over:
        end = loop.moved_at
    elif not is_whole or end == inf:
        end = loop.now
    live.lull.end(end)
    live.metrics.hear(end, loop.unheard, Plan())
    if live.waits is not None:
        for waited in live.metrics.waiting():
            live.waits.add(waited)
    summary, film = live.metrics.summary(), live.metrics.film()
    gpus = sum(len(node.devices) for node in live.run.start.nodes)
    return Outcome(trial, gpus, summary, film, live.waits, is_whole, live.remarks)


def need_something_counted(outcomes: Sequence[Outcome]) -> None:
    """Raise an error if the warm-up leaves nothing of any of some runs."""
    whole = [each.summary for each in outcomes if each.is_whole]
    if whole and all(each.end <= each.start for each in whole):
        days = outcomes[0].trial.warm_up_s / _DAY_S
        raise StudyError(
            f"--warm-up {days:g}: all is done by then, nothing is left to count: give less"
        )


@dataclass(frozen=True, slots=True)
class Worse:
    """A workload that waits longer under one policy than under the first, with the same seed."""

    name: str
    policy: str
    before_s: float
    after_s: float
    seed: int = 0
    is_waiting: bool = False
    """It has not started."""


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
        waits, trial = outcome.waits, outcome.trial
        assert waits is not None
        started = zip(waits.names, waits.seconds, repeat(False))
        in_vain = zip(waits.in_vain, waits.in_vain.values(), repeat(True))
        for name, after, is_waiting in chain(started, in_vain):
            if after > before.get(name, inf):
                yield Worse(name, trial.rules.name, before[name], after, trial.seed, is_waiting)

"""The Kant setting: clusters of several sizes and kinds, one thing better at a time.

Each run is a row, as in a sweep, with what bounds its numbers: `docs/kant.md` derives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from mooring.metrics import BUCKETS
from mooring.model.cluster import WHOLE
from mooring.model.events import Ended, Submitted, WorkloadChanged
from mooring.sim.bounds import Demand
from mooring.sim.live import Live
from mooring.sim.mixes import Options
from mooring.sim.mixes.cluster import NODE_GPUS
from mooring.sim.run import Delays
from mooring.sim.study import NAMED, Source, Trial, outcome_of
from mooring.sim.sweep import Cell, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.metrics import Summary
    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload
    from mooring.sim.sweep import Row

KINDS = {"training": "lab", "inference": "inference", "mixed": "mixed"}
"""Kinds of clusters, and the mix that comes to each."""
POLICIES = tuple(NAMED)
"""The first is what all are compared with, the last is all together."""
GPUS, LOADS, SEEDS = (256,), (0.9, 1.1), (0, 1, 2, 3, 4)
DAYS, WARM_UP_DAYS = 7.0, 2.0
DELAYS = Delays(start_s=30.0, restart_s=60.0, grace_s=10.0)
_DAY, _HOUR = 86_400.0, 3600.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run."""

    kinds: Sequence[str] = ("training",)
    gpus: Sequence[int] = GPUS
    loads: Sequence[float] = LOADS
    policies: Sequence[str] = POLICIES
    seeds: Sequence[int] = SEEDS
    days: float = DAYS
    warm_up: float = WARM_UP_DAYS

    def cells(self) -> Iterator[Cell]:
        """Yield all runs, seed by seed: what is broken off can still be compared."""
        for kind in dict.fromkeys(self.kinds):
            for gpus in dict.fromkeys(self.gpus):
                for load in dict.fromkeys(self.loads):
                    yield from self._cells(kind, gpus, load)

    def _cells(self, kind: str, gpus: int, load: float) -> Iterator[Cell]:
        days = self.days + self.warm_up
        source = Source(KINDS[kind], Options(gpus, days, load))
        warm_up_s, until_s = self.warm_up * _DAY, days * _DAY
        for seed in dict.fromkeys(self.seeds):
            for name in dict.fromkeys(self.policies):
                yield Cell(Trial(source, NAMED[name], seed, warm_up_s, until_s, DELAYS))


def key_of(cell: Cell) -> str:
    """Return the name of a run in a file of rows: these have more columns than those of a sweep."""
    return f"kant-{cell.key}"


def run_cell(cell: Cell, tick: Callable[[int], None] = lambda passed: None) -> Row:
    """Run a cell; return its row."""
    began, trial = monotonic(), cell.trial
    live = Live(trial, tick)
    ledger = Ledger(live)
    live.run.loop.listen(ledger.hear)
    live.go(trial.warm_up_s)
    ledger.open_window(trial.warm_up_s)
    live.go(trial.until_s)
    ledger.close(trial.until_s)
    outcome = outcome_of(live, is_whole=True)
    row = row_of(cell, outcome, monotonic() - began)
    return {**row, **_counts(outcome.summary), **ledger.columns(), "cell": key_of(cell)}


def _counts(summary: Summary) -> Row:
    """Return how many there were of each size."""
    there = {curve.bucket: curve.started + curve.waiting for curve in summary.waits}
    return {f"submitted_{bucket}": there.get(bucket, 0) for bucket in BUCKETS}


@dataclass(slots=True)
class _Known:
    """A training workload that has come and has not ended."""

    gpus: float
    at: float
    span_s: float
    """How long it holds its GPUs if nothing disturbs it, starting included."""


class Ledger:
    """Listens to a run: what was asked for, by whom, and how late it was done."""

    def __init__(self, live: Live) -> None:
        self._live = live
        delays = live.trial.delays
        self._start_s, self._grace_s = delays.start_s, delays.grace_s
        self._gpus = live.trial.source.options.gpus
        self._jobs = Demand()
        """Of all training since the beginning of the run."""
        self._window = Demand()
        """Of training inside the window: what it inherits, and what comes."""
        self._services = Demand()
        self._inherited = self._offered = 0.0
        self._known: dict[str, _Known] = {}
        self._wanted: dict[str, float] = {}
        """Of services, GPUs for all replicas that are wanted."""
        self._work = self._late = 0.0
        """GPU-seconds, and these times seconds of delay."""
        self._begin = self._end = 0.0
        self._is_open = False
        self._since, self._is_ragged, self._ragged_s = 0.0, False, 0.0

    # -- records ------------------------------------------------------------------------------

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Take one cycle in."""
        for event in events:
            match event:
                case Submitted():
                    self._come(event.workload, now)
                case Ended():
                    self._leave(event.workload, now)
                case WorkloadChanged() if event.workload.name in self._wanted:
                    self._want(event.workload.name, _most(event.workload), now)
                case _:
                    pass
        self._pass(now)
        held = self._live.metrics.held_milli
        self._is_ragged = held % (NODE_GPUS * WHOLE) not in (0, self._gpus % NODE_GPUS * WHOLE)

    def _come(self, workload: Workload, now: float) -> None:
        known = self._live.run.work.progress.get(workload.name)
        if known is None or known.run_s == inf:
            self._want(workload.name, _most(workload), now)
            return
        job = _Known(workload.gpus, now, known.run_s + self._start_s)
        self._known[workload.name] = job
        self._work += job.gpus * job.span_s
        self._jobs.add(now, job.gpus, job.span_s)
        if self._is_open:
            self._window.add(now, job.gpus, job.span_s)
            self._offered += job.gpus * job.span_s

    def _leave(self, name: str, now: float) -> None:
        job = self._known.pop(name, None)
        if job is not None:
            self._late += _late(job, now)
        elif name in self._wanted:
            self._want(name, 0.0, now)

    def _want(self, name: str, gpus: float, now: float) -> None:
        """Note what a service wants; those who must go take their time."""
        more = gpus - self._wanted.get(name, 0.0)
        self._wanted[name] = gpus
        self._services.step(now if more > 0 else now + self._grace_s, more)

    def _pass(self, now: float) -> None:
        if self._is_open and self._is_ragged:
            self._ragged_s += now - max(self._since, self._begin)
        self._since = now

    def open_window(self, now: float) -> None:
        """Begin to count: those who are there have so much before them."""
        self._is_open, self._begin = True, now
        for rest in self._live.run.rests(now):
            if rest.run_s < inf:
                seconds = rest.run_s if rest.runs else rest.run_s + self._start_s
                self._window.add(now, rest.workload.gpus, seconds)
                self._inherited += rest.workload.gpus * seconds

    def close(self, now: float) -> None:
        """End the window: those who are not done are at least so late."""
        self._pass(now)
        self._end = now
        for rest in self._live.run.rests(now):
            job = self._known.get(rest.workload.name)
            if job is not None:
                self._late += _late(job, now + rest.run_s + (0.0 if rest.runs else self._start_s))

    # -- numbers ------------------------------------------------------------------------------

    def columns(self) -> Row:
        """Return the bounds, and what is compared with them."""
        gpus, begin, end = float(self._gpus), self._begin, self._end
        services, capacity_s = self._services.cut(gpus), gpus * (end - begin)
        served = self._window.joined(services).serve(gpus, begin, end)
        whole = self._jobs.serve(gpus, 0.0, end)
        nodes = -(-self._gpus // NODE_GPUS)
        gar = services.median(begin, end) / gpus if not self._work else 2 * served.done / capacity_s
        return {
            "inherited": self._inherited / capacity_s,
            "offered": self._offered / capacity_s,
            "gar_most": min(gar, 1.0),
            "sor_most": served.done / capacity_s,
            "gfr_least": self._ragged_s / (end - begin) / nodes,
            "delay_s": self._late / self._work if self._work else None,
            "delay_least_s": whole.behind / self._work if self._work else None,
            "unserved_least_gpu_hours": whole.left / _HOUR,
        }


def _most(workload: Workload) -> float:
    shapes = ((leaf.most, leaf.shape) for leaf in workload.leaves())
    return sum(most * shape.gpus * shape.milli for most, shape in shapes) / WHOLE


def _late(job: _Known, ends_at: float) -> float:
    """Return how late a workload is done, times the GPU-seconds it is about."""
    return job.gpus * job.span_s * max(ends_at - job.at - job.span_s, 0.0)

"""The fold: records in, numbers out. It sees nothing but what a journal holds."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from math import inf
from operator import gt, itemgetter
from typing import TYPE_CHECKING

import numpy as np

from mooring.metrics.fairness import Queues
from mooring.metrics.fragments import Fragments
from mooring.metrics.frames import Camera
from mooring.metrics.people import People
from mooring.metrics.spans import Curves, OverTime
from mooring.metrics.summary import Curve, Evictions, Failed, Promises, Spread, Summary, Waited
from mooring.metrics.tted import Gangs
from mooring.metrics.waits import Waits
from mooring.model.cluster import WHOLE
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Evict, Reserved
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mooring.metrics.frames import Film
    from mooring.metrics.job import Job
    from mooring.model.events import Event
    from mooring.model.plan import Plan, Reason
    from mooring.model.queues import Queue
    from mooring.model.scenario import Scenario
    from mooring.model.workload import Workload

_HOUR = 3600.0
_SOON_S = 1.0
"""A start that is so little late was on time."""
_OWN_WISH = "resized"
"""Cause of those who leave as their owner wants fewer: nobody evicted them."""
_SAMPLE = 16
"""Stretches of the curves between two looks at demand-weighted fragmentation."""
_FIXED = 5
"""Columns of curves before those of queues: GAR, GFR, GPUs waited for, held, installed."""
MOST_QUEUES = 24
"""Queues that have a curve of their own."""


@dataclass(slots=True)
class Integrals:
    """GPU-seconds, in thousandths of a GPU."""

    installed: float = 0.0
    held: float = 0.0
    running: float = 0.0
    lost: float = 0.0
    """Of what ran, what had to be done again or was a restart."""
    useless: float = 0.0
    """Idle and of no use to what is asked for."""
    failed: float = 0.0
    """Held by those that have failed."""


class Metrics:
    """All metrics of one stretch of time.

    `begin` (None: the start) is when the warm-up is over: time before it does not count, nor do
    the waits of those who came before it. `waited` hears of everybody's wait that is over, by start
    or not. `restart_s` is what a restart takes one that does not say so itself.
    """

    def __init__(
        self,
        start: Scenario,
        begin: float | None = None,
        waited: Callable[[Waited], None] | None = None,
        *,
        restart_s: float = 0.0,
    ) -> None:
        self._waited = waited
        self._restart_s = restart_s
        self.begin = start.now if begin is None else begin
        self._now = start.now
        """Up to when time has been counted."""
        self._last = start.now
        """When the last cycle was."""
        self._queues = Queues(start.queues)
        self._people = People([self])
        cluster = self._people.cluster
        self._gangs = Gangs(cluster, start.topology)
        self._fragments = Fragments(cluster)
        self._waits = Waits()
        self._gar, self._gfr = OverTime(), OverTime()
        self._crumbs_s = 0.0
        """Over time, which part of all GPUs is idle on nodes in part use."""
        self._names = list[str]()
        self._curves = Curves(self.begin, _FIXED)
        self._draw(start.queues)
        self._camera = Camera(cluster, self.begin)
        self._integrals = Integrals()
        self._sample = (start.now, 0.0)
        self._counts = Counter[str]()
        self._causes = Counter[str]()
        self._errors = array("d")
        for event in start.events():
            self._people.observe(event, start.now)
        if self.begin <= start.now:
            self._people.open_window()

    # -- records ------------------------------------------------------------------------------

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Take one cycle."""
        for at, event in self._timed(events, now):
            self._pass(at)
            if isinstance(event, QueuesChanged):
                self._queues.set_queues(event.queues)
                self._draw(event.queues)
            self._counts["nodes lost"] += at >= self.begin and self._people.cluster.loses(event)
            self._people.observe(event, at)
        self._pass(now)
        self._last = now
        evicted = set[tuple[str, str]]()
        for decision in plan.decisions:
            if isinstance(decision, Evict) and decision.cause != _OWN_WISH:
                evicted.add((decision.workload, decision.cause))
            self._people.carry_out(decision, now)
        for waiting in plan.waiting:
            self._explain(waiting.workload, waiting.reasons)
        if now >= self.begin:
            self._causes.update(cause for _, cause in evicted)

    def _draw(self, queues: Sequence[Queue]) -> None:
        """Begin curves of queues that have none."""
        new = [queue.name for queue in queues if queue.name not in self._names]
        new = new[: MOST_QUEUES - len(self._names)]
        self._names += new
        self._curves.widen(len(new))

    def _timed(self, events: Sequence[Event], now: float) -> Iterable[tuple[float, Event]]:
        """Return the events of a cycle and when they happened, in order of time.

        What is told of one workload stays in order: what comes later happened no earlier.
        """
        times = [self._time_of(event, now) for event in events]
        if not any(map(gt, times, times[1:])):
            return zip(times, events, strict=True)
        latest = dict[str, float]()
        for index, event in enumerate(events):
            name = _whose(event)
            if name:
                times[index] = latest[name] = max(times[index], latest.get(name, -inf))
        return sorted(zip(times, events, strict=True), key=itemgetter(0))

    def _time_of(self, event: Event, now: float) -> float:
        """Return when something happened: a start without a time was at the last cycle."""
        if isinstance(event, TasksChanged):
            if event.at is not None:
                return min(max(event.at, self._now), now)
            if event.state is TaskState.RUNNING:
                return self._last
        return now

    def _explain(self, name: str, reasons: Sequence[Reason]) -> None:
        """Note why one waits, and the first start that is announced to it."""
        job = self._people.jobs.get(name)
        if job is None or job.started_at is not None:
            return
        job.reasons = tuple(reasons)
        if job.promised_at is None:
            job.promised_at = next((r.at for r in reasons if isinstance(r, Reserved)), None)

    def _pass(self, now: float) -> None:
        """Count the time up to now, in which nothing has changed."""
        begin = max(self._now, self.begin)
        if now <= self._now:
            return
        self._now = now
        if now >= self.begin:
            self._people.open_window()
        if now <= begin:
            return
        seconds, people = now - begin, self._people
        totals = people.cluster.totals
        gar = totals.allocated / totals.installed if totals.installed else 0.0
        gfr = totals.partly / totals.nodes if totals.nodes else 0.0
        self._gar.add(gar, seconds)
        self._gfr.add(gfr, seconds)
        integrals = self._integrals
        integrals.installed += totals.installed * seconds
        integrals.held += people.held_milli * seconds
        integrals.running += people.running_milli * seconds
        if totals.installed:
            self._crumbs_s += totals.crumbs / totals.installed * seconds
        integrals.useless += self._demand(begin) * totals.installed * seconds
        self._camera.pass_time(now)
        self._queues.pass_time(begin, now, totals.installed)
        used = [self._queues.used.get(name, 0) / WHOLE for name in self._names]
        waiting, held = people.waiting_milli / WHOLE, people.held_milli / WHOLE
        self._curves.add(begin, now, [gar, gfr, waiting, held, totals.installed / WHOLE, *used])

    def _demand(self, at: float) -> float:
        """Return demand-weighted fragmentation, which is looked at only now and then."""
        due, found = self._sample
        if at >= due:
            found = self._fragments.look()
            self._sample = at + _SAMPLE * self._curves.step, found
        return found

    # -- what becomes of workloads ------------------------------------------------------------

    def came(self, job: Job) -> None:
        """Count one more that asks for something."""
        self._queues.ask(job.workload.queue, job.wanted)
        self._fragments.arrive(job)
        self._counts["submitted"] += job.in_window

    def changed(self, job: Job, old: Workload, wanted: int) -> None:
        """Count an edited workload as what it is now."""
        self._queues.ask(old.queue, -wanted)
        self._queues.ask(job.workload.queue, job.wanted)
        self._queues.hold(old.queue, -job.milli)
        self._queues.hold(job.workload.queue, job.milli)

    def wants(self, job: Job, milli: int) -> None:
        """Count what parts of GPUs are where they have a place."""
        self._queues.ask(job.workload.queue, milli)

    def holds(self, job: Job, milli: int) -> None:
        """Count what a workload has got or lost."""
        self._queues.hold(job.workload.queue, milli)
        self._note_had(job, job.milli - milli)

    def _note_had(self, job: Job, milli: int) -> None:
        """Note that a workload has had so much up to now."""
        job.had += milli * max(self._now - max(job.had_at, self.begin), 0.0)
        job.had_at = self._now

    def runs(self, job: Job) -> None:
        """Count a wait that is over."""
        assert job.runs_since is not None
        if job.started_at is not None or not job.in_window:
            return
        self._counts["started"] += 1
        self._end_wait(job, job.runs_since)
        if job.gpus:
            self._gangs.count(job)
        if job.promised_at is not None:
            placed_at = job.runs_since if job.placed_at is None else job.placed_at
            self._errors.append(placed_at - job.promised_at)

    def breaks(self, job: Job, at: float) -> None:
        """Count the work that has to be done again: what a service has served is done."""
        assert job.runs_since is not None
        self._integrals.lost += self._restarting(job, at)
        if at < self.begin:
            return
        job.spoilt = 0.0
        if not job.workload.service:
            saved_until = job.workload.saved_until(job.runs_since, at)
            job.spoilt = self._amount(job, max(saved_until, self._ready_at(job)), at)
        self._integrals.lost += job.spoilt
        self._counts["broken"] += 1

    def _ready_at(self, job: Job) -> float:
        """Return when the present run has come so far as to go on with its work."""
        assert job.runs_since is not None
        said = job.workload.restart_cost_s
        restart_s = self._restart_s if said is None else said
        return job.runs_since + (restart_s if job.restarts else 0.0)

    def _restarting(self, job: Job, now: float) -> float:
        """Return what the present run has needed up to now to come so far."""
        if job.runs_since is None:
            return 0.0
        return self._amount(job, job.runs_since, min(self._ready_at(job), now))

    def _amount(self, job: Job, begin: float, end: float) -> float:
        """Return what a run held from then to then, in the window."""
        return job.ran(max(begin, self.begin), end)

    def _end_wait(self, job: Job, at: float) -> None:
        """Count a wait that is over, by start or not."""
        waited = _waited(job, at)
        if job.gpus:
            self._waits.over(waited)
        if self._waited is not None:
            self._waited(waited)

    def left(self, job: Job) -> None:
        """Count one that is over, and who never started as one who had to wait longer."""
        self._queues.ask(job.workload.queue, -job.wanted)
        self._integrals.lost += self._restarting(job, self._now)
        self._repair(job)
        if job.in_window and job.started_at is None:
            self._end_wait(job, self._now)
            self._errors.extend(self._overdue(job))
        self._counts["ended"] += self._now >= self.begin
        if job.failed:
            self._note_had(job, job.milli)
            self._integrals.failed += job.had
            self._counts["failed"] += self._now >= self.begin

    def _repair(self, job: Job) -> None:
        """Take back what was counted for one that was told to leave, and was done before."""
        if job.spoilt is not None and self._was_done(job):
            self._integrals.lost -= job.spoilt
            self._counts["broken"] -= 1

    def _was_done(self, job: Job) -> bool:
        """Return whether one that was told to leave has ended because its own work was done.

        That is sure where its tasks were said to have finished, and it not to have failed. Else it
        is assumed where the next cycle finds it at its end with its place not yet free: if
        decisions take time, it ran on until this one took effect, and no cycle comes before that.
        Then it may have failed too, by itself: of one that failed as it was made to leave, a live
        cluster says first that its tasks have failed or are gone. Records cannot tell this from a
        workload that somebody takes back while it leaves, if that is told in the next cycle.
        """
        if job.told_at is None or job.workload.service:
            return False
        is_next = job.told_at == self._last < self._now
        is_leaving = any(seat.state is TaskState.RELEASING for seat in job.seats.values())
        return (job.minimum_is_done and not job.failed) or (is_next and is_leaving)

    # -- numbers ------------------------------------------------------------------------------

    @property
    def held_milli(self) -> int:
        """Return how many thousandths of GPUs all have together now."""
        return self._people.held_milli

    def summary(self) -> Summary:
        """Return the numbers up to the last cycle."""
        integrals, counts = self._integrals, self._counts
        seconds = max(self._now - self.begin, 0.0)
        installed = integrals.installed

        def over(amount: float) -> float | None:
            return amount / installed if installed else 0.0 if seconds else None

        waiting = [waited for waited in self.waiting() if waited.gpus]
        now = self._now
        lost = integrals.lost + sum(self._restarting(j, now) for j in self._people.jobs.values())
        return Summary(
            self.begin,
            max(self._now, self.begin),
            installed / WHOLE / seconds if seconds else 0.0,
            counts["submitted"],
            counts["started"],
            counts["ended"],
            _spread(self._gar),
            over(integrals.held),
            over(integrals.running),
            over(max(integrals.running - lost, 0.0)),
            _spread(self._gfr),
            self._crumbs_s / seconds if seconds else None,
            over(integrals.useless),
            self._waits.curves(waiting),
            self._gangs.summary(),
            Evictions(
                counts["broken"],
                tuple(sorted(self._causes.items())),
                lost / WHOLE / _HOUR,
            ),
            Failed(counts["failed"], integrals.failed / WHOLE / _HOUR),
            self._queues.summary(),
            self._promises(),
            self._curve(),
            self._waits.worst(waiting),
            self._waits.not_started(waiting),
            counts["nodes lost"],
        )

    def film(self) -> Film:
        """Return how full every node was over time."""
        return self._camera.film()

    def waiting(self) -> Iterator[Waited]:
        """Yield who came inside the window and has not started yet."""
        for job in self._people.jobs.values():
            if job.in_window and job.started_at is None:
                yield _waited(job, self._now)

    def _overdue(self, job: Job) -> Iterator[float]:
        """Yield how late the start of one is by now that should have started."""
        placed_at = job.placed_at if job.seats else None
        by = self._now if placed_at is None else placed_at
        if job.promised_at is not None and self._now - job.promised_at > _SOON_S:
            yield by - job.promised_at

    def _promises(self) -> Promises:
        jobs = (j for j in self._people.jobs.values() if j.in_window and j.started_at is None)
        errors = np.array([*self._errors, *(late for job in jobs for late in self._overdue(job))])
        if not len(errors):
            return Promises(0, 0, 0.0, 0.0)
        far = np.abs(errors)
        kept = int((errors <= _SOON_S).sum())
        return Promises(len(errors), kept, float(far.mean()), float(np.quantile(far, 0.9)))

    def _curve(self) -> Curve:
        spans, columns = self._curves.points(self._now)
        gar, gfr, waiting, held, installed = (tuple(column) for column in columns[:_FIXED])
        whole, used = np.cumsum(np.multiply(installed, spans)), np.cumsum(np.multiply(held, spans))
        sor = np.divide(used, whole, out=np.zeros(len(whole)), where=whole > 0)
        queues = zip(self._names, map(tuple, columns[_FIXED:]), strict=True)
        return Curve(
            self.begin, self._curves.step, gar, gfr, tuple(sor.tolist()), waiting, tuple(queues)
        )


def _spread(values: OverTime) -> Spread:
    p10, median, p90 = values.quantiles((0.1, 0.5, 0.9))
    return Spread(values.mean, p10, median, p90)


def _whose(event: Event) -> str:
    """Return the name of the workload that an event is about; empty: about none."""
    match event:
        case Submitted() | Adopted() | WorkloadChanged():
            return event.workload.name
        case TasksChanged() | BindRefused() | Ended():
            return event.workload
        case _:
            return ""


def _waited(job: Job, now: float) -> Waited:
    wait_s = max(now - job.submitted_at, 0.0)
    wanted, why = job.workload, job.reasons if job.runs_since is None else ()
    waits = job.runs_since is None
    head = wanted.name, wanted.queue, job.gpus, job.submitted_at, wait_s
    return Waited(*head, is_waiting=waits, reasons=why, has_place=waits and bool(job.seats))

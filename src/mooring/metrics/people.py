"""Everybody who waits or runs, as the records tell; each change is handed to listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mooring.metrics.cluster import Cluster, Seat, is_part, milli_of
from mooring.metrics.job import Job
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Bind, Evict
from mooring.model.resources import CPU, amount_of
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.metrics.job import Spot
    from mooring.model.cluster import Node
    from mooring.model.events import Event
    from mooring.model.plan import Decision
    from mooring.model.workload import Placement, Shape, Workload

_GONE = (TaskState.PENDING, TaskState.FINISHED, TaskState.FAILED)
"""States in which a task has no place."""


class Meter(Protocol):
    """Hears what becomes of workloads; everything is told before time goes on."""

    def came(self, job: Job) -> None:
        """Hear of a workload that was submitted or found running."""

    def changed(self, job: Job, old: Workload, wanted: int) -> None:
        """Hear of a workload that was edited; before, it was that and could use so much."""

    def wants(self, job: Job, milli: int) -> None:
        """Hear that parts of GPUs are so much more (or less) where they have a place."""

    def holds(self, job: Job, milli: int) -> None:
        """Hear of a workload that has so much more (or less) than before."""

    def runs(self, job: Job) -> None:
        """Hear of a minimum that begins to run; `runs_since` says when."""

    def breaks(self, job: Job, at: float) -> None:
        """Hear of a minimum that ran and does not any more, though it is not over."""

    def left(self, job: Job) -> None:
        """Hear of a workload that is over, with what it still has."""


class People:
    """Keeps jobs and the cluster as the events and decisions say."""

    def __init__(self, meters: Iterable[Meter]) -> None:
        self.cluster = Cluster()
        self.jobs: dict[str, Job] = {}
        self._seated: dict[str, dict[tuple[str, Spot], Seat]] = {}
        """Who has a seat on a node."""
        self.held_milli = 0
        """What all have together."""
        self.waiting_milli = 0
        """What those ask for who have nothing."""
        self.running_milli = 0
        """Of all whose minimum runs, what their running tasks have."""
        self._meters = list(meters)
        self._opens = False

    def open_window(self) -> None:
        """From now on who comes is counted."""
        self._opens = True

    # -- facts --------------------------------------------------------------------------------

    def observe(self, event: Event, at: float) -> None:
        """Take a fact that came at that time."""
        match event:
            case NodeJoined() | NodeChanged():
                self._set_node(event.node, at)
            case NodeLeft():
                self._node_left(event.node, at)
            case Submitted():
                self._come(event.workload, counts=self._opens)
            case Adopted():
                self._adopt(event)
            case WorkloadChanged():
                job = self.jobs.get(event.workload.name)
                if job is not None:
                    self._edit(job, event.workload, at)
            case Ended():
                self._end(event)
            case TasksChanged():
                self._change(event, at)
            case BindRefused():
                self._vacate(event.workload, event.group, event.tasks, at)
            case _:
                pass

    def _come(self, workload: Workload, *, counts: bool) -> Job:
        job = Job(workload, workload.submitted_at, counts)
        self._weigh(job)
        self.jobs[workload.name] = job
        for meter in self._meters:
            meter.came(job)
        self._count_held(job, 0)
        return job

    def _edit(self, job: Job, workload: Workload, at: float) -> None:
        old, wanted, job.workload = job.workload, job.wanted, workload
        self._weigh(job)
        for meter in self._meters:
            meter.changed(job, old, wanted)
        self._count_held(job, 0)
        self._look(job, at)

    def _weigh(self, job: Job) -> None:
        """See how much a workload asks for."""
        pairs = [(leaf, self.cluster.asked_milli(leaf.shape)) for leaf in job.workload.leaves()]
        job.asked = sum(leaf.min * milli for leaf, milli in pairs)
        job.wanted = sum(leaf.most * milli for leaf, milli in pairs)
        job.parts = {leaf.name: milli for leaf, milli in pairs if is_part(leaf.shape)}
        for (group, _), seat in job.seats.items() if job.parts else ():
            job.wanted += seat.given - job.parts.get(group, seat.given)

    def _weigh_anew(self, job: Job) -> None:
        """See whether a workload asks for more or less, now that other nodes are there."""
        wanted = job.wanted
        self._weigh(job)
        more, job.wanted = job.wanted - wanted, wanted
        self._count_wanted(job, more)
        self._count_held(job, 0)

    def _count_wanted(self, job: Job, milli: int) -> None:
        """Count that parts of GPUs are so much more (or less) than they were taken for."""
        job.wanted += milli
        for meter in self._meters if milli else ():
            meter.wants(job, milli)

    def _adopt(self, event: Adopted) -> None:
        job = self._come(event.workload, counts=False)
        for group, tasks in event.finished:
            job.finished[group] = len(tasks)
        for placement in event.placements:
            self._seat(job, placement, TaskState.RUNNING)
        for group, tasks in event.starting:
            self._set(job, [(group, task) for task in tasks], TaskState.BOUND)
        for group, tasks in event.releasing:
            self._set(job, [(group, task) for task in tasks], TaskState.RELEASING)
        since = event.running_since
        self._look(job, event.started_at if since is None else since)

    def _end(self, event: Ended) -> None:
        job = self.jobs.pop(event.workload, None)
        if job is None:
            return
        job.failed = event.failed
        for meter in self._meters:
            meter.left(job)
        if job.runs_since is not None:
            self.running_milli -= job.running_milli
        for spot, seat in job.seats.items():
            self.cluster.use(seat, -1)
            self._stand_up(job, spot, seat)
        self._count_held(job, -job.milli)
        self.waiting_milli -= job.waits_for

    def _node_left(self, name: str, at: float) -> None:
        spots: dict[str, list[Spot]] = {}
        for who, spot in self._seated.get(name, ()):
            spots.setdefault(who, []).append(spot)
        for who, some in spots.items():
            self._remove(self.jobs[who], some)
            self._look(self.jobs[who], at)
            self.jobs[who].told_at = None
        self.cluster.drop(name)

    def _set_node(self, node: Node, at: float) -> None:
        """Let a node come or change; what is on a device that broke, or is mended, counts anew."""
        if self.cluster.keeps_health(node):
            self.cluster.set(node)
            return
        there, is_new = self._seated.get(node.name, {}), node.name not in self.cluster.nodes
        for seat in there.values():
            self.cluster.use(seat, -1)
        self.cluster.set(node)
        for (name, (group, _)), seat in there.items():
            job = self.jobs[name]
            if is_new:
                seat.given = milli_of(_shape(job, group), node, seat.devices)
            before, seat.milli = seat.milli, self.cluster.healthy_milli(seat)
            self.cluster.use(seat, 1)
            self._count_held(job, seat.milli - before)
            if seat.state is TaskState.RUNNING:
                self._run_on(job, seat.milli - before)
            self._look(job, at)
        for job in self.jobs.values() if is_new else ():
            if job.parts:  # it may be the first node that says what a part is
                self._weigh_anew(job)

    def _change(self, event: TasksChanged, at: float) -> None:
        job = self.jobs.get(event.workload)
        if job is None:
            return
        spots = [(event.group, task) for task in event.tasks]
        if event.state in _GONE:
            self._remove(job, spots)
            if event.state is TaskState.FINISHED:
                job.finished[event.group] = job.finished.get(event.group, 0) + len(spots)
        else:
            self._set(job, spots, event.state)
        self._look(job, at)

    # -- decisions ----------------------------------------------------------------------------

    def carry_out(self, decision: Decision, at: float) -> None:
        """Take a decision: what is bound has its place at once, what is evicted stops."""
        job = self.jobs.get(decision.workload)
        if job is None:
            return
        match decision:
            case Bind():
                if not job.seats:
                    job.placed_at = at
                self._seat(job, decision.placement, TaskState.ASSUMED)
            case Evict():
                spots, ran = [(decision.group, task) for task in decision.tasks], job.runs_since
                self._set(job, spots, TaskState.RELEASING)
                self._look(job, at)
                if ran is not None and job.runs_since is None:
                    job.told_at = at
            case _:
                pass

    # -- seats --------------------------------------------------------------------------------

    def _seat(self, job: Job, placement: Placement, state: TaskState) -> None:
        shape = _shape(job, placement.group)
        cpu, held = amount_of(shape.amounts, CPU), 0
        spots = [(placement.group, task) for task in placement.tasks]
        if again := [spot for spot in spots if spot in job.seats]:
            self._remove(job, again)
        rows = zip(placement.tasks, placement.nodes, placement.devices, strict=True)
        for task, name, devices in rows:
            seen = self.cluster.nodes.get(name)
            milli = milli_of(shape, seen.node if seen else None, devices)
            seat = Seat(name, 0 if shape.mig else devices, milli, cpu, TaskState.ASSUMED)
            seat.milli = self.cluster.healthy_milli(seat)
            spot = placement.group, task
            job.seats[spot] = self._seated.setdefault(name, {})[job.workload.name, spot] = seat
            held += seat.milli
            self._count_wanted(job, milli - job.parts.get(placement.group, milli))
            self.cluster.use(seat, 1)
        self._count_held(job, held)
        if state is not TaskState.ASSUMED:
            self._set(job, [(placement.group, task) for task in placement.tasks], state)

    def _set(self, job: Job, spots: Iterable[Spot], state: TaskState) -> None:
        """Let tasks that have a place reach a state."""
        for spot in spots:
            seat = job.seats.get(spot)
            if seat is not None:
                self._count_running(job, spot[0], seat, state)
                seat.state = state

    def _count_running(self, job: Job, group: str, seat: Seat, state: TaskState) -> None:
        sign = (state is TaskState.RUNNING) - (seat.state is TaskState.RUNNING)
        if sign:
            job.running[group] = job.running.get(group, 0) + sign
            self._run_on(job, sign * seat.milli)

    def _run_on(self, job: Job, milli: int) -> None:
        """Count that tasks of a workload run on so much more (or less)."""
        job.running_milli += milli
        if job.runs_since is not None:
            self.running_milli += milli

    def _vacate(self, name: str, group: str, tasks: Iterable[int], at: float) -> None:
        job = self.jobs.get(name)
        if job is not None:
            self._remove(job, [(group, task) for task in tasks])
            self._look(job, at)

    def _remove(self, job: Job, spots: Iterable[Spot]) -> None:
        gone = 0
        for spot in spots:
            seat = job.seats.pop(spot, None)
            if seat is not None:
                self._count_running(job, spot[0], seat, TaskState.PENDING)
                gone += seat.milli
                self._count_wanted(job, job.parts.get(spot[0], seat.given) - seat.given)
                self.cluster.use(seat, -1)
                self._stand_up(job, spot, seat)
        self._count_held(job, -gone)

    def _stand_up(self, job: Job, spot: Spot, seat: Seat) -> None:
        there = self._seated[seat.node]
        there.pop((job.workload.name, spot), None)
        if not there:
            del self._seated[seat.node]

    def _count_held(self, job: Job, milli: int) -> None:
        """Count what a workload has got or lost, and whether it waits for all it asked for."""
        job.milli += milli
        self.held_milli += milli
        waits_for = 0 if job.seats else job.asked
        self.waiting_milli += waits_for - job.waits_for
        job.waits_for = waits_for
        for meter in self._meters if milli else ():
            meter.holds(job, milli)

    def _look(self, job: Job, at: float) -> None:
        """See whether the minimum of a workload has begun or ceased to run."""
        runs = job.minimum_runs
        if runs and job.runs_since is None:
            job.runs_since, job.steps = at, [(at, job.running_milli)]
            job.spoilt = job.told_at = None
            self.running_milli += job.running_milli
            for meter in self._meters:
                meter.runs(job)
            if job.started_at is None:
                job.started_at = at
        elif not runs and job.runs_since is not None:
            for meter in self._meters:
                meter.breaks(job, at)
            self.running_milli -= job.running_milli
            job.runs_since = None
            job.steps.clear()
            job.restarts += 1
        elif runs and self._meters:
            job.step(at)


def _shape(job: Job, group: str) -> Shape:
    """Return what a task of a group asks for."""
    return next(leaf.shape for leaf in job.workload.leaves() if leaf.name == group)

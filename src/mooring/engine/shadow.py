"""The shadow: strict order, run beside reality, which says when everybody's turn comes.

A second engine is fed the same submissions. In it nobody overtakes and nobody is moved; who has a
right to the room of another takes it, and that one waits for another turn. Work ends there its run
time after its shadow start, or at its real end if that is later. A workload whose shadow start has
come is *due*; one that runs before is an *overtaker* and may be asked to leave for one that is due.
So nothing that comes later and does not rank higher delays anybody's turn, but by a right of its
queue to what another has borrowed.

While nobody waits there is no shadow: it would stand where reality stands.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mooring.engine.check import EventError
from mooring.engine.snapshot import as_adopted
from mooring.model.events import (
    Adopted,
    Ended,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.memory import ShadowRun
from mooring.model.plan import Bind, Evict
from mooring.model.workload import PodGroup, TaskState, Workload
from mooring.policy.queues.offers import gate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.engine.engine import Engine
    from mooring.model.events import Event
    from mooring.model.plan import Decision
    from mooring.model.queues import Queue
    from mooring.model.settings import Policy


LEAST_S = 1.0
"""A look there that asks for another at once has it so much later."""


class Shadow:
    """Strict order beside one engine."""

    def __init__(self, beside: Engine) -> None:
        self.beside = beside
        self.starts: dict[str, float] = {}
        """When each started there, in order."""
        self._numbers: dict[str, int] = {}
        """Who of them was first, where they started at the same time."""
        self.ended: dict[str, float] = {}
        """How long those ran that are over in reality, and not yet there."""
        self.ends: list[tuple[float, str]] = []
        self.done: dict[str, float] = {}
        """How long those have run there who had to leave there for another."""
        self.away: dict[str, None] = {}
        """Those who may not start there, since they may not in reality, whatever is free."""
        self._looks_at: float | None = None
        """When somebody there may be asked to leave who may not be asked now."""

    # -- facts ------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Take in what concerns the shadow; ends come by `over`."""
        match event:
            case Submitted(workload):
                self.beside.observe(Submitted(stripped(workload), again=True))
            case WorkloadChanged(workload):
                if workload.name in self.beside.entries() and workload.name not in self.starts:
                    self.beside.observe(WorkloadChanged(stripped(workload)))
            case NodeJoined() | NodeChanged() | NodeLeft():
                self.beside.observe(event)
            case QueuesChanged(queues):
                self.beside.observe(QueuesChanged(strict(queues)))
            case PolicyChanged(policy):
                self.beside.observe(PolicyChanged(calm(policy)))
            case _:
                pass

    def over(self, name: str, ran_s: float | None, now: float) -> None:
        """Note that a workload is over in reality; None: it never ran."""
        if name not in self.beside.entries():
            return
        if ran_s is None or name in self.away:
            self.beside.observe(Ended(name))
            self._forget(name)
            self.away.pop(name, None)
            return
        self.ended[name] = ran_s
        if name in self.starts:
            heappush(self.ends, (max(self.starts[name] + self.left_s(name), now), name))
        elif name in self.done and not self.left_s(name):
            heappush(self.ends, (now, name))  # it has run there for as long as in reality

    def left_s(self, name: str) -> float:
        """Return how long one that is over in reality runs there after its next, or last, start."""
        return max(0.0, self.ended.get(name, 0.0) - self.done.get(name, 0.0))

    def lets(self, name: str) -> bool:
        """Return whether one has had its turn there, or may have it."""
        return name in self.starts or not gate(self.beside.desk, self.beside.entries()[name])

    def withdraw(self, name: str) -> None:
        """Let one have no turn who may not start in reality: others need its room."""
        entry = self.beside.entries()[name]
        for group, members in entry.members.items():
            some = tuple(members.staying())
            for state in (TaskState.RELEASING, TaskState.PENDING) if some else ():
                self.beside.observe(TasksChanged(name, group, some, state))
        self.beside.observe(WorkloadChanged(replace(entry.workload, active=False)))
        self._forget(name)
        self.away[name] = None

    def let_in(self, workload: Workload) -> None:
        """Let one wait there for its turn again that was away."""
        del self.away[workload.name]
        self.beside.observe(WorkloadChanged(stripped(workload)))

    # -- turns ------------------------------------------------------------------------------

    def begin(self, name: str, at: float) -> None:
        """Note that a workload starts there, after all others that do at this time."""
        self.starts[name] = at
        self._numbers[name] = next(reversed(self._numbers.values()), 0) + 1

    def turn_of(self, name: str) -> tuple[float, int]:
        """Return by what those are in order whose turns have come."""
        return self.starts[name], self._numbers[name]

    def _forget(self, name: str) -> None:
        self.starts.pop(name, None)
        self._numbers.pop(name, None)
        self.done.pop(name, None)

    def _leave(self, name: str, at: float) -> None:
        """Let the turn of one be over before it is done: strict order itself has evicted it."""
        began = self.starts.pop(name, None)
        self._numbers.pop(name, None)
        if began is not None:
            self.done[name] = self.done.get(name, 0.0) + at - began
        self.ends = [each for each in self.ends if each[1] != name]
        heapify(self.ends)
        if name in self.ended and not self.left_s(name):
            heappush(self.ends, (at, name))

    # -- time -------------------------------------------------------------------------------

    def advance(self, now: float) -> Iterator[str]:
        """Go on until now; yield those whose turn comes, in order, each before the next."""
        while (at := self.wake_at) is not None and at <= now:
            while self.ends and self.ends[0][0] <= at:
                self._end(heappop(self.ends)[1])
            yield from self._decide(at)
        yield from self._decide(now)

    def _end(self, name: str) -> None:
        if name in self.beside.entries() and name in self.ended:
            self.beside.observe(Ended(name))
            del self.ended[name]
            self._forget(name)

    def _decide(self, at: float) -> Iterator[str]:
        """Decide there, let all that is decided come true, and say who started."""
        while True:
            plan = self.beside.decide(at)
            for decision in plan.decisions:
                yield from self._carry_out(decision, at)
            if not any(isinstance(decision, Evict) for decision in plan.decisions):
                wake = plan.wake_at
                self._looks_at = None if wake is None else max(wake, at + LEAST_S)
                return

    def _carry_out(self, decision: Decision, at: float) -> Iterator[str]:
        match decision:
            case Bind(name, placement, _):
                self._become(name, placement.group, placement.tasks, TaskState.RUNNING, at)
                if name not in self.starts:
                    self.begin(name, at)
                    if name in self.ended:
                        heappush(self.ends, (at + self.left_s(name), name))
                    yield name
            case Evict(name, group, tasks, _, beneficiary):
                self._become(name, group, tasks, TaskState.PENDING, at)
                if beneficiary and not self.beside.entries()[name].has_begun:
                    self._leave(name, at)
            case _:
                pass

    # wide: which tasks, of what, become what and when
    def _become(
        self, name: str, group: str, tasks: tuple[int, ...], state: TaskState, at: float
    ) -> None:
        """Let tasks reach a state; who was bound and evicted in one plan only leaves."""
        states = self.beside.entries()[name].members[group].states
        before = TaskState.ASSUMED if state == TaskState.RUNNING else TaskState.RELEASING
        some = tuple(task for task in tasks if states[task] == before)
        if some:
            self.beside.observe(TasksChanged(name, group, some, state, at))

    @property
    def wake_at(self) -> float | None:
        """Return when something ends there, or somebody may be asked to leave."""
        looks_at = self._looks_at
        if not self.ends:
            return looks_at
        ends_at = self.ends[0][0]
        return ends_at if looks_at is None or ends_at < looks_at else looks_at

    @property
    def is_calm(self) -> bool:
        """Return whether nobody waits there and nobody runs there who is over in reality."""
        return not self.ended and not self.beside.anyone_waits()

    def dump(self) -> tuple[ShadowRun, ...]:
        """Return all who are in the shadow, as values."""
        entries, ends = self.beside.entries(), {name: at for at, name in self.ends}
        begun = [name for name in self.starts if name in entries]
        waiting = [name for name in entries if name not in self.starts]
        found = []
        for name in (*begun, *waiting):
            adopted = as_adopted(self.beside.books, entries[name])
            found.append(
                ShadowRun(
                    entries[name].workload,
                    self.starts.get(name),
                    adopted.placements,
                    self.ended.get(name),
                    ends.get(name),
                    self.done.get(name, 0.0),
                )
            )
        return tuple(found)

    def copy(self) -> Shadow:
        """Return the shadow of a fork."""
        new = Shadow(self.beside.fork())
        new.starts, new.ended, new.ends = dict(self.starts), dict(self.ended), list(self.ends)
        new._numbers, new.away, new.done = dict(self._numbers), dict(self.away), dict(self.done)
        new._looks_at = self._looks_at
        return new


def cast_shadow(engine: Engine, now: float) -> Shadow:
    """Return the shadow of an engine that had none: all who run have had their turn.

    Who leaves for another waits for it anew, as it would in strict order; not who is only moved.
    """
    beside = engine.fork()
    beside.become_shadow()
    shadow = Shadow(beside)
    for name, entry in list(beside.entries().items()):
        began = now if entry.started_at is None else entry.started_at
        was_there = entry.has_begun
        if not was_there:
            beside.observe(WorkloadChanged(stripped(entry.workload)))
        for group, members in entry.members.items():
            leaving = [t for t, s in enumerate(members.states) if s == TaskState.RELEASING]
            if leaving:
                beside.observe(TasksChanged(name, group, tuple(leaving), TaskState.PENDING, now))
        if entry.has_begun or (was_there and name in engine.desk.holds):
            shadow.begin(name, began)
    return shadow


def revive(engine: Engine, runs: tuple[ShadowRun, ...], now: float) -> Shadow:
    """Return the shadow that an earlier life of an engine had."""
    beside = engine.empty()
    beside.become_shadow()
    shadow = Shadow(beside)
    known = set()
    for run in runs:
        name = run.workload.name
        known.add(name)
        over = run.ran_s
        if over is None and name not in engine.entries():
            if run.started_at is None:
                continue  # it is gone and never had its turn
            over = max(0.0, now - run.started_at)
        _bring_back(beside, run)
        if run.started_at is not None:
            shadow.begin(name, run.started_at)
        elif not run.workload.active:
            shadow.away[name] = None
        if run.done_s:
            shadow.done[name] = run.done_s
        if over is not None:
            shadow.ended[name] = over
            if run.started_at is not None:
                ends_at = run.started_at + shadow.left_s(name)
                ends_at = ends_at if run.ends_at is None else run.ends_at
                heappush(shadow.ends, (max(ends_at, now), name))
    for name, entry in engine.entries().items():
        if name not in known:
            beside.observe(Submitted(stripped(entry.workload), again=True))
    return shadow


def _bring_back(beside: Engine, run: ShadowRun) -> None:
    """Let a workload be where it was in the shadow; if that is gone it gets another place."""
    if run.placements:
        try:
            beside.observe(Adopted(run.workload, run.placements, run.started_at or 0.0))
        except EventError:
            pass
        else:
            return
    beside.observe(Submitted(stripped(run.workload), again=True))


def stripped(workload: Workload) -> Workload:
    """Return a workload as the shadow sees it: no growth, no limit."""
    groups = _all_fixed(workload.groups)
    if groups is workload.groups and workload.run_limit_s is None:
        return workload
    return replace(workload, groups=groups, run_limit_s=None)


def _all_fixed(groups: tuple[PodGroup, ...]) -> tuple[PodGroup, ...]:
    """Return groups without growth; the same ones if there is none."""
    fixed = tuple(_fixed(group) for group in groups)
    is_same = all(new is old for new, old in zip(fixed, groups, strict=True))
    return groups if is_same else fixed


def _fixed(group: PodGroup) -> PodGroup:
    if group.groups:
        inside = _all_fixed(group.groups)
        return group if inside is group.groups else replace(group, groups=inside)
    is_fixed = group.min >= 1 and group.max == 0
    return group if is_fixed else replace(group, min=max(group.min, 1), max=0)


def strict(queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
    """Return the queues of a shadow: nobody is let by, nothing has a limit of time."""
    return tuple(
        replace(
            queue,
            order="strict" if queue.order == "backfill" else queue.order,
            run_limit_s=None,
        )
        for queue in queues
    )


def calm(policy: Policy) -> Policy:
    """Return the policy of a shadow."""
    return replace(
        policy,
        failure=replace(policy.failure, restarts=None),
        defragmentation=replace(policy.defragmentation, automatic=False),
        headroom=(),
    )

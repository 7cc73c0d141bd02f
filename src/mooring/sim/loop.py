"""The one loop: virtual time around the engine.

Facts go in by `at`, or by `feed` where there are many. Each step takes everything of one instant,
tells the engine, lets it decide once and turns the plan into later facts: what is bound runs, what
runs ends, what is evicted comes back. It knows nothing of traces, files or printing; listeners see
every cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    Event,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Bind, Evict, Notice, Plan, Reserve
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.workload import Workload

Listener = Callable[[float, Sequence[Event], Plan], None]
"""Hears of every cycle: when, what was observed since the one before, and the plan."""
RunTime = Callable[["Workload"], float | None]
"""How long a workload runs once its minimum does; None or infinite: until someone ends it."""
Fails = Callable[["Workload"], bool]
"""Whether a workload fails at the end of its run."""
BrokenOff = Callable[["Workload", float, float], None]
"""Hears that a run was broken off: whose, when it began, and when it broke off."""
Cost = Callable[[float | None], float]
"""Of a decision: called with None before it, and with what came of that after; then in seconds."""

_RANK: dict[type, int] = {
    Ended: 0,
    TasksChanged: 0,
    BindRefused: 0,
    NodeLeft: 1,
    NodeChanged: 1,
    NodeJoined: 1,
    PolicyChanged: 1,
    QueuesChanged: 1,
    Submitted: 2,
    Adopted: 2,
    WorkloadChanged: 2,
}
"""Order inside an instant: what ends makes room before nodes change before work comes."""
_TIMER = 3
_STARTING = (TaskState.ASSUMED, TaskState.BOUND)
_LEAVING = (TaskState.RELEASING,)
_LIMIT = "run-limit"
"""Cause of those who leave as they have run as long as they may."""
_KEPT = (
    *("now", "cycles", "_busy_s", "_busy_until", "_sequence", "_heap", "_fed", "_taken"),
    *("_observed", "_end_of", "_change_of", "_adopted", "_timer", "_breaking", "moved_at"),
    *("_last_of", "_over"),
)
"""What says where a loop stands."""


class Driven(Protocol):
    """What the loop needs of an engine."""

    def observe(self, event: Event) -> None:
        """Take in a fact about the world."""

    def decide(self, now: float) -> Plan:
        """Return all that should be done at this instant."""

    def entries(self) -> Mapping[str, Entry]:
        """Return all workloads."""


class Loop:
    """Drives an engine through virtual time.

    Facts are ordered by (time, kind, sequence). An effect that the world overtook does not come:
    the end of a run that was broken off, the start or release of a task that has moved on.

    If limits end work, its owner ends it when it has left: it never starts again, and has failed.
    """

    # wide: each has a good default
    def __init__(
        self,
        engine: Driven,
        run_time: RunTime = lambda workload: None,
        listeners: Sequence[Listener] = (),
        *,
        start_s: float = 0.0,
        grace_s: float = 0.0,
        broken_off: BrokenOff = lambda workload, began_at, at: None,
        fails: Fails = lambda workload: False,
        limits_end: bool = False,
        cost: Cost | None = None,
    ) -> None:
        self.engine = engine
        self.now = -inf
        self.moved_at = -inf
        """When a fact came last, or something was started or evicted."""
        self.cycles = 0
        self._run_time = run_time
        self._broken_off = broken_off
        self._fails = fails
        self._limits_end = limits_end
        self._listeners = list(listeners)
        self._start_s = start_s
        self._grace_s = grace_s
        self._cost = cost
        self._busy_s = 0.0
        """How long the last decision took: what it asks for happens only then."""
        self._busy_until = -inf
        self._breaking: list[str] = []
        """Who is broken off when that time is over."""
        self._sequence = 0
        self._heap: list[tuple[float, int, int, Event | None, bool]] = []
        """Time, kind, sequence, fact (None: a timer), and whether it is an effect of a plan."""
        self._feed: Iterator[tuple[float, Event]] = iter(())
        self._fed: tuple[float, Event] | None = None
        """The next fact of the feed: only it is in memory."""
        self._taken = 0
        """Facts of the feed that have happened."""
        self._observed: list[Event] = []
        """What the engine was told since it last decided."""
        self._end_of: dict[str, tuple[int, float]] = {}
        """Workloads whose minimum runs, the sequence of their end, and when the run began."""
        self._change_of: dict[tuple[str, str, int], int] = {}
        """Tasks that start or release, and the sequence of the fact that is to come."""
        self._last_of: dict[str, int] = {}
        """Workloads that leave since they ran as long as they may, and the sequence of the end."""
        self._over: dict[str, None] = {}
        """Workloads that were ended so: what else was to become of them does not."""
        self._adopted: list[TasksChanged] = []
        """Adopted on their way out: a cycle sees them there before they go."""
        self._timer = -1
        """Sequence of the timer that the last plan asked for."""

    @property
    def next_at(self) -> float:
        """Return the time of the next instant; infinite: nothing is to come."""
        first = self._heap[0][0] if self._heap else inf
        if self._fed is not None and self._fed[0] < first:
            first = self._fed[0]
        return first if first >= self._busy_until else self._busy_until

    @property
    def unheard(self) -> tuple[Event, ...]:
        """Return what the last plan let begin at once: listeners hear of it with the next cycle."""
        return tuple(self._observed)

    @property
    def is_over(self) -> bool:
        """Return whether nothing is to come; if nobody is there, but timers and void effects."""
        if self._fed is not None or self.engine.entries():
            return self.next_at == inf
        return all(event is None or is_effect for _, _, _, event, is_effect in self._heap)

    def running_since(self, name: str) -> float | None:
        """Return since when the minimum of a workload runs; None: it does not."""
        known = self._end_of.get(name)
        return None if known is None else known[1]

    def at(self, time: float, event: Event) -> None:
        """Let a fact happen then."""
        self._push(time, _RANK[type(event)], event)

    def feed(self, facts: Iterable[tuple[float, Event]]) -> None:
        """Let facts happen that are given in order of time; each is taken when its time comes."""
        if self._fed is not None:
            raise ValueError("there is a feed already")
        self._feed = iter(facts)
        self._fed = next(self._feed, None)

    def listen(self, listener: Listener) -> None:
        """Let one more hear of every cycle."""
        self._listeners.append(listener)

    def wake(self, time: float) -> None:
        """Let the engine decide then even if nothing happens."""
        self._push(time, _TIMER, None)

    def run(self, until: float = inf) -> None:
        """Take every instant up to `until`."""
        while self.next_at <= until and self.step():
            pass

    def step(self) -> bool:
        """Take one instant: all its facts, then one cycle; return whether there was one."""
        heap, now = self._heap, self.next_at
        if now == inf:
            return False
        while self._fed is not None and self._fed[0] <= now:
            self.at(*self._fed)
            self._fed = next(self._feed, None)
            self._taken += 1
        self.now = now
        stirred = False
        while heap and heap[0][0] <= now:
            _, _, sequence, event, is_effect = heappop(heap)
            if event is None:
                stirred |= not is_effect or sequence == self._timer
                continue
            due = self._due(event, sequence) if is_effect else self._still(event)
            if due is not None:
                self._observe(due)
                self.moved_at, stirred = now, True
        breaking, self._breaking = self._breaking, []
        for name in breaking:
            if name in self.engine.entries():
                self._mind(name, now)
        if stirred:
            self._cycle(now)
        return True

    def _push(self, time: float, rank: int, event: Event | None, *, is_effect: bool = False) -> int:
        if not self.now <= time < inf:
            raise ValueError(f"it is {self.now}: nothing can happen at {time}")
        sequence = self._sequence
        self._sequence += 1
        heappush(self._heap, (time, rank, sequence, event, is_effect))
        return sequence

    def _observe(self, event: Event) -> None:
        self.engine.observe(event)
        self._observed.append(event)
        match event:
            case TasksChanged():
                self._mind(event.workload, self.now if event.at is None else event.at)
            case BindRefused():
                self._mind(event.workload, self.now)
            case Ended():
                self._end_of.pop(event.workload, None)
                self._last_of.pop(event.workload, None)
            case Adopted():
                name = event.workload.name
                for group, tasks in event.releasing:
                    self._adopted.append(TasksChanged(name, group, tasks, TaskState.PENDING))
                self._mind(name, event.started_at)
            case WorkloadChanged():
                self._mind(event.workload.name, self.now)
            case NodeLeft():
                for name in list(self._end_of):
                    self._mind(name, self.now)
            case _:
                pass

    def _cycle(self, now: float) -> None:
        observed, self._observed = self._observed, []
        plan = self._decide(now)
        self.cycles += 1
        leaving, self._adopted = self._adopted, []
        for event in leaving:
            self._later(self._grace_s, event)
        self._timer = -1
        if plan.wake_at is not None:
            self._timer = self._push(max(plan.wake_at, now), _TIMER, None, is_effect=True)
        for decision in plan.decisions:
            match decision:
                case Bind():
                    self.moved_at = now
                    self._start(decision)
                case Evict():
                    self.moved_at = now
                    self._release(decision)
                case Reserve() | Notice():
                    pass
                case _:
                    assert_never(decision)
        for listener in self._listeners:
            listener(now, observed, plan)

    def _decide(self, now: float) -> Plan:
        """Let the engine decide; it hears of nothing more until that is done."""
        if self._cost is None:
            return self.engine.decide(now)
        begin = self._cost(None)
        plan = self.engine.decide(now)
        self._busy_s = self._cost(begin)
        self._busy_until = now + self._busy_s
        return plan

    # -- saved and continued ----------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """Return where the loop stands, but for the engine and what its feed is made of."""
        return {name: getattr(self, name) for name in _KEPT}

    def restore(self, saved: dict[str, Any]) -> None:
        """Stand where another loop stood, whose feed was the same; this one has not begun."""
        for _ in range(saved["_taken"]):
            self._fed = next(self._feed, None)
        if self._fed != saved["_fed"]:
            raise ValueError("what is to come is not what it was")
        self.__dict__.update(saved)

    # -- effects of a plan ------------------------------------------------------------------

    def _start(self, bind: Bind) -> None:
        """Let bound tasks run, at once or later."""
        placement = bind.placement
        runs = TasksChanged(bind.workload, placement.group, placement.tasks, TaskState.RUNNING)
        delay_s = self._busy_s + self._start_s
        if delay_s:
            self._later(delay_s, replace(runs, at=self.now + delay_s))
        else:
            self._observe(runs)  # no fact of an instant: the engine need not decide again for it

    def _release(self, evict: Evict) -> None:
        """Let evicted tasks go, and wait again."""
        pending = TasksChanged(evict.workload, evict.group, evict.tasks, TaskState.PENDING)
        delay_s = self._busy_s + self._grace_s
        self._later(delay_s, pending)
        if self._limits_end and evict.cause == _LIMIT:
            ended = Ended(evict.workload, failed=True)
            last = self._push(self.now + delay_s, _RANK[Ended], ended, is_effect=True)
            self._last_of[evict.workload] = last  # of several groups only the last one counts
        if self._busy_s:
            self._breaking.append(evict.workload)
            self._push(self._busy_until, _TIMER, None, is_effect=True)
        else:
            self._mind(evict.workload, self.now)

    def _later(self, delay_s: float, event: TasksChanged) -> None:
        at = self.now + delay_s
        sequence = self._push(at, _RANK[TasksChanged], event, is_effect=True)
        for task in event.tasks:
            self._change_of[event.workload, event.group, task] = sequence

    def _mind(self, name: str, began_at: float) -> None:
        """Let a workload whose minimum runs end in its time; forget the end of a broken run."""
        entry = self.engine.entries()[name]
        if not _runs(entry):
            known = self._end_of.pop(name, None)
            if known is not None:
                self._broken_off(entry.workload, known[1], self.now)
        elif name not in self._end_of:
            run_s = self._run_time(entry.workload)
            if run_s is None or run_s == inf:
                self._end_of[name] = -1, began_at
                return
            at = max(began_at + run_s, self.now)
            ended = Ended(name, failed=self._fails(entry.workload))
            sequence = self._push(at, _RANK[Ended], ended, is_effect=True)
            self._end_of[name] = sequence, began_at

    def _still(self, event: Event) -> Event | None:
        """Return a fact whose time has come, unless it is about one that its limit has ended."""
        match event:
            case Submitted() | Adopted():
                self._over.pop(event.workload.name, None)
                return event
            case WorkloadChanged():
                return None if event.workload.name in self._over else event
            case Ended() | TasksChanged() | BindRefused():
                return None if event.workload in self._over else event
            case _:
                return event

    def _due(self, event: Event, sequence: int) -> Event | None:
        """Return what is left of an effect whose time has come."""
        if isinstance(event, Ended):
            if self._last_of.get(event.workload) == sequence:
                return self._due_last(event)
            known = self._end_of.get(event.workload)
            return event if known is not None and known[0] == sequence else None
        assert isinstance(event, TasksChanged)
        workload, group = event.workload, event.group
        entry = self.engine.entries().get(workload)
        members = entry.members.get(group) if entry else None
        states = members.states if members else b""
        legal = _STARTING if event.state is TaskState.RUNNING else _LEAVING
        left = []
        for task in event.tasks:
            if self._change_of.get((workload, group, task)) == sequence:
                del self._change_of[workload, group, task]
                if task < len(states) and states[task] in legal:
                    left.append(task)
        return replace(event, tasks=tuple(left)) if left else None

    def _due_last(self, ended: Ended) -> Ended | None:
        """Return the end of one who has run as long as it may, unless it has not left."""
        del self._last_of[ended.workload]
        if self.engine.entries()[ended.workload].is_placed:
            return None
        self._over[ended.workload] = None
        return ended


def _runs(entry: Entry) -> bool:
    """Return whether the minimum of a workload runs: all of it, and at least one task."""
    if entry.charged_only:
        return True
    return entry.runs and any(TaskState.RUNNING in m.states for m in entry.members.values())

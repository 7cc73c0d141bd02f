"""A run: a load, a policy, and the one loop around an engine.

Arrivals are taken one by one as their time comes, and what is known of a workload is forgotten when
it ends, so that a long run needs no more memory than a short one. How much of its work each has
done is kept here: one that is broken off keeps what its last checkpoint saved, does the rest again,
and is first busy for as long as its restart takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from math import inf
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mooring.engine import Engine
from mooring.model.events import Ended, NodeJoined, Submitted
from mooring.model.memory import Memory
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.workload import Workload
from mooring.policy.own import NOTHING_OWN
from mooring.sim.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.policy.own import Own
    from mooring.sim.load import Arrival, Load
    from mooring.sim.loop import Cost, Listener


@dataclass(frozen=True, slots=True)
class Delays:
    """How long things take in the world that is simulated."""

    start_s: float = 0.0
    """From the decision to start until all run: images are pulled, ranks find each other."""
    restart_s: float = 0.0
    """What a restart takes where the workload has no `restart_cost_s` of its own."""
    grace_s: float = 0.0
    """From the decision to evict until the room is free."""
    decide_s: float | None = 0.0
    """What a decision takes; None: as long as it takes here, which no two runs have in common."""

    @property
    def cost(self) -> Cost | None:
        """Return how the loop learns what a decision takes; None: nothing."""
        if self.decide_s is None:
            return _measured
        return partial(_given, self.decide_s) if self.decide_s else None


def _measured(begin: float | None) -> float:
    return perf_counter() - (begin or 0.0)


def _given(seconds: float, begin: float | None) -> float:
    return seconds


AT_ONCE = Delays()


@dataclass(slots=True)
class Progress:
    """How far one workload has come."""

    run_s: float
    """Seconds of undisturbed work until it is done."""
    submitted_at: float = 0.0
    fails: bool = False
    """It fails then."""
    done_s: float = 0.0
    """Of these, what is done and saved."""
    restarts: int = 0
    """How often it was broken off."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What one workload has before it."""

    workload: Workload
    run_s: float
    """Seconds that it has to run; infinite: until it is ended."""
    runs: bool
    """It runs; otherwise it waits, or is about to start."""


@dataclass(slots=True)
class Work:
    """The work of all who wait or run."""

    restart_s: float = 0.0
    progress: dict[str, Progress] = field(default_factory=dict)

    def left_s(self, workload: Workload) -> float:
        """Return how long a workload runs if it starts now and nobody disturbs it."""
        known = self.progress.get(workload.name)
        if known is None:
            return inf  # nobody said
        return known.run_s - known.done_s + self._restart_s(workload, known)

    def fails(self, workload: Workload) -> bool:
        """Return whether a workload fails at the end of its run."""
        known = self.progress.get(workload.name)
        return known is not None and known.fails

    def broken_off(self, workload: Workload, began_at: float, at: float) -> None:
        """Keep what the last checkpoint of a run has saved."""
        known = self.progress.get(workload.name)
        if known is None:
            return
        busy_s = self._restart_s(workload, known)
        saved_s = max(0.0, workload.saved_until(began_at, at) - began_at - busy_s)
        known.done_s = min(known.done_s + saved_s, known.run_s)
        known.restarts += 1

    def _restart_s(self, workload: Workload, known: Progress) -> float:
        if not known.restarts:
            return 0.0
        said = workload.restart_cost_s
        return self.restart_s if said is None else said


class Run:
    """One load under one policy."""

    # wide: each has a good default
    def __init__(
        self,
        load: Load,
        policy: Policy = Policy(),
        listeners: Sequence[Listener] = (),
        *,
        delays: Delays = AT_ONCE,
        memory: Memory = Memory(),
        own: Own = NOTHING_OWN,
    ) -> None:
        queues = tuple(load.queues)
        self.start = Scenario(0.0, load.topology, load.nodes, queues, policy, memory=memory)
        """All that was there before anything happened, as a journal begins with."""
        self.engine = Engine(load.topology, policy, memory, queues, own)
        for node in load.nodes:
            self.engine.observe(NodeJoined(node))
        self.work = Work(delays.restart_s)
        self.loop = Loop(
            self.engine,
            self.work.left_s,
            [*listeners, self._forget],
            start_s=delays.start_s,
            grace_s=delays.grace_s,
            broken_off=self.work.broken_off,
            fails=self.work.fails,
            limits_end=True,
            cost=delays.cost,
        )
        self.loop.feed(merge(self._submitted(load.arrivals), load.changes, key=itemgetter(0)))

    def run(self, until: float = inf) -> None:
        """Take every instant up to `until`."""
        self.loop.run(until)

    def rests(self, now: float) -> Iterator[Rest]:
        """Yield what everybody has before them who has come and has not ended."""
        for name, entry in self.engine.entries().items():
            since = self.loop.running_since(name)
            left_s = self.work.left_s(entry.workload)
            run_s = left_s if since is None else max(left_s - (now - since), 0.0)
            yield Rest(entry.workload, run_s, since is not None)

    def saved(self) -> dict[str, Any]:
        """Return where the run stands, but for its load."""
        loop, progress = self.loop.saved(), self.work.progress
        return {"engine": self.engine, "loop": loop, "progress": progress}

    def restore(self, saved: dict[str, Any]) -> None:
        """Stand where another run of the same load stood; this one has not begun."""
        self.engine = self.loop.engine = saved["engine"]
        self.loop.restore(saved["loop"])
        self.work.progress = saved["progress"]

    def _submitted(self, arrivals: Iterable[Arrival]) -> Iterator[tuple[float, Event]]:
        for arrival in arrivals:
            progress = Progress(arrival.run_s, arrival.at, arrival.fails)
            self.work.progress[arrival.workload.name] = progress
            yield arrival.at, Submitted(arrival.workload)

    def _forget(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Forget those who have ended; all others have heard of them by now."""
        for event in events:
            if isinstance(event, Ended):
                self.work.progress.pop(event.workload, None)

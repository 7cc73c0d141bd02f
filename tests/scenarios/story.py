"""A story: a cluster and its queues in virtual time, and what became of everybody.

    story = Story("a=8 b=8", queue("training", 12), queue("serving", 4))
    story.at(0, service("web", 8, queue="serving"))
    story.at(60, task("train", 8, queue="training"), runs=600)
    story.go(60)
    assert story.running() == ["train", "web"]
    story.rests()

What is bound runs, what runs ends in its time, what is evicted is gone after a grace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mooring.engine import Engine
from mooring.model.events import NodeJoined, Submitted
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, Notice, Plan
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Policy
from mooring.model.workload import TaskState
from mooring.sim.loop import Loop
from tests.build import On, picture, told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Reason
    from mooring.model.workload import Workload

Devices = int | dict[str, int]
"""Of all flavors together, or by flavor."""


class Left(NamedTuple):
    """An eviction: when, of whom, why, and for whom."""

    at: float
    workload: str
    cause: str
    beneficiary: str


def queue(name: str, quota: Devices = 0, limit: Devices | None = None, **rules: Any) -> Queue:
    """Return a queue with so many devices."""
    quotas, limits = _by_flavor(quota), _by_flavor(limit)
    flavors = dict.fromkeys([*quotas, *limits])
    of = [Quota("gpu", f, quotas.get(f, 0), limits.get(f)) for f in flavors]
    return Queue(name, quotas=tuple(of), **rules)


def _by_flavor(devices: Devices | None) -> dict[str, int]:
    if devices is None:
        return {}
    given = devices if isinstance(devices, dict) else {"": devices}
    return {flavor: 1000 * count for flavor, count in given.items()}


@dataclass
class Chronicle:
    """All that was decided, in order."""

    starts: dict[str, list[float]] = field(default_factory=dict)
    """When tasks of each workload were bound."""
    left: list[Left] = field(default_factory=list)
    notices: list[tuple[float, Notice]] = field(default_factory=list)

    def hear(self, now: float, _: Sequence[Event], plan: Plan) -> None:
        """Take in one cycle."""
        for decision in plan.decisions:
            match decision:
                case Bind(name, _, _):
                    times = self.starts.setdefault(name, [])
                    if now not in times:
                        times.append(now)
                case Evict(name, _, _, cause, beneficiary):
                    self.left.append(Left(now, name, cause, beneficiary))
                case Notice():
                    self.notices.append((now, decision))
                case _:
                    pass


class Story:
    """One cluster in virtual time."""

    # wide: each has a good default
    def __init__(
        self,
        text: str,
        *queues: Queue,
        facts: Sequence[On] = (),
        policy: Policy = Policy(),
        memory: Memory = Memory(),
        grace_s: float = 0.0,
    ) -> None:
        topology, found = picture(text)
        for each in facts:
            some = each.names
            found = [told(n, each.facts) if not some or n.name in some else n for n in found]
        self.engine = Engine(topology, policy, memory, queues or (Queue("default"),))
        self.tale = Chronicle()
        self._runs: dict[str, float] = {}
        self.loop = Loop(
            self.engine,
            lambda workload: self._runs.get(workload.name),
            [self.tale.hear],
            grace_s=grace_s,
        )
        for node in found:
            self.loop.at(0.0, NodeJoined(node))

    # -- what happens -----------------------------------------------------------------------

    def at(self, time: float, *workloads: Workload, runs: float | None = None) -> Story:
        """Let workloads be submitted then; they run for ever, or for so long."""
        for workload in workloads:
            if runs is not None:
                self._runs[workload.name] = runs
            self.loop.at(time, Submitted(replace(workload, submitted_at=time)))
        return self

    def tell(self, time: float, *events: Event) -> Story:
        """Let something else happen then."""
        for event in events:
            self.loop.at(time, event)
        return self

    def go(self, time: float) -> Story:
        """Let time pass until then."""
        self.loop.wake(time)
        self.loop.run(time)
        return self

    def rests(self) -> None:
        """Check that five more cycles change nothing."""
        for i in range(5):
            plan = self.engine.decide(self.loop.now + 0.1 * i)
            assert plan.decisions == ()
            assert plan.waiting == ()

    # -- what has become of it --------------------------------------------------------------

    def running(self) -> list[str]:
        """Return those who run, by name."""
        return sorted(self.engine.running())

    def waiting(self) -> list[str]:
        """Return those who wait to start, by name."""
        entries = self.engine.entries()
        return sorted(name for name in self.engine.waiting() if not entries[name].is_placed)

    def sizes(self) -> dict[str, int]:
        """Return how many tasks of each workload run."""
        found = {}
        for name, entry in sorted(self.engine.entries().items()):
            tasks = sum(m.states.count(TaskState.RUNNING) for m in entry.members.values())
            if tasks:
                found[name] = tasks
        return found

    def nodes(self, name: str) -> list[str]:
        """Return the nodes of the tasks of a workload, in order of its tasks."""
        entry, names = self.engine.entries()[name], self.engine.books.nodes
        return [names[m.rows[t]].name for m in entry.members.values() for t in m.holding()]

    def starts(self, name: str) -> list[float]:
        """Return when tasks of a workload were bound."""
        return self.tale.starts.get(name, [])

    def left(self, *names: str) -> list[Left]:
        """Return who had to leave, in order; perhaps only some."""
        return [each for each in self.tale.left if not names or each.workload in names]

    def why(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits."""
        return self.engine.reasons(name)


def minimum_runs(**seconds: float) -> Mapping[str, Any]:
    """Return the keyword of a policy's `eviction` for minimum run times, by cause."""
    return {"minimum_run_s": tuple((c.replace("_", "-"), s) for c, s in sorted(seconds.items()))}

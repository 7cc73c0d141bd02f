"""Builders with quiet defaults, so that a test shows only what matters.

    world = cluster("rack-1: a=8 b=8 | rack-2: c=8 d=4").busy("a=3")
    plan = world.submit(gang("g", tasks=3, gpus=4, level="rack")).cycle()
    assert nodes(plan) == {"c", "d"}
    world.settles()

A picture names the domains (`superpod/leaf` for two levels) and the devices of every node.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from signal import ITIMER_REAL, SIGALRM, setitimer, signal
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from mooring.engine import Engine
from mooring.model.cluster import WHOLE, Device, Node, Taint
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
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, Plan
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.resources import amounts
from mooring.model.settings import Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import (
    NodePreference,
    Placement,
    PodGroup,
    Requirement,
    Shape,
    Slice,
    SpreadTerm,
    TaskState,
    TaskTerm,
    Toleration,
    TopologyRequest,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Decision, Reason

LEVELS = {0: (), 1: ("rack",), 2: ("superpod", "leaf"), 3: ("zone", "superpod", "leaf")}
QUEUES = (DEFAULT_QUEUE, Queue("other"))


# -- nodes ----------------------------------------------------------------------------------


class Facts(TypedDict, total=False):
    """What a test may say about a node."""

    model: str
    cpu: int
    memory: int
    pods: int
    labels: Mapping[str, str]
    taints: Sequence[Taint]
    ready: bool
    devices: Sequence[Device]
    path: Sequence[str]
    extra: Mapping[str, int]


class On:
    """Facts about some nodes of a picture."""

    def __init__(self, names: str, facts: Facts) -> None:
        self.names = names.split()
        self.facts = facts


def on(names: str, **facts: Unpack[Facts]) -> On:
    """Say something about the nodes with these names; no names mean every node."""
    return On(names, facts)


def told(node: Node, facts: Facts) -> Node:
    """Return a node of which these facts are true as well."""
    capacity = dict(node.capacity) | dict(facts.get("extra", {}))
    capacity |= {name: facts[name] for name in ("cpu", "memory", "pods") if name in facts}
    return replace(
        node,
        capacity=amounts(capacity),
        labels=tuple(sorted({**dict(node.labels), **facts.get("labels", {})}.items())),
        taints=tuple(facts.get("taints", node.taints)),
        ready=facts.get("ready", node.ready),
        gpu_model=facts.get("model", node.gpu_model),
        devices=tuple(facts.get("devices", node.devices)),
        path=tuple(facts.get("path", node.path)),
    )


# wide: all that devices of one node may differ in
def gpus(
    count: int,
    *,
    island: int = 0,
    switch: int = 0,
    memory: int = 81_920,
    mig: str = "",
    bad: Sequence[int] = (),
) -> tuple[Device, ...]:
    """Return devices in islands (and behind switches) of so many; 0: all in one."""
    return tuple(
        Device(
            memory=memory,
            healthy=i not in bad,
            island=i // island if island else 0,
            switch=i // switch if switch else 0,
            mig=mig,
        )
        for i in range(count)
    )


def node(name: str, count: int = 8, *at: str, **facts: Unpack[Facts]) -> Node:
    """Return one node with so many devices, in the domains `at`, outermost first."""
    plain = Node(
        name,
        amounts({"cpu": 64_000, "memory": 1 << 20}),
        gpu_model="H100" if count else "",
        devices=gpus(count),
        path=at,
    )
    return told(plain, facts)


def picture(text: str) -> tuple[Topology, list[Node]]:
    """Read `rack-1: a=8 b=8 | rack-2: c=8`; without colons there are no levels."""
    found: list[Node] = []
    depth = 0
    for part in text.split("|"):
        before, _, rest = part.rpartition(":")
        path = tuple(before.strip().split("/")) if before.strip() else ()
        depth = max(depth, len(path))
        for item in rest.split():
            name, _, count = item.partition("=")
            found.append(node(name, int(count or 8), *path))
    return Topology(tuple(Level(name) for name in LEVELS[depth])), found


# -- workloads ------------------------------------------------------------------------------


class Needs(TypedDict, total=False):
    """What a test may say about a task."""

    gpus: int
    milli: int
    gpu_memory: int
    mig: str
    models: Sequence[str]
    cpu: int
    memory: int
    extra: Mapping[str, int]
    selector: Mapping[str, str]
    affinity: Sequence[Sequence[Requirement]]
    preferences: Sequence[NodePreference]
    tolerations: Sequence[Toleration]
    labels: Mapping[str, str]
    near: Sequence[TaskTerm]
    apart: Sequence[TaskTerm]
    spread: Sequence[SpreadTerm]
    ports: Sequence[int]


class GroupNeeds(Needs, total=False):
    """What a test may say about a group."""

    tasks: int
    most: int
    level: str
    preferred: str
    slices: Sequence[tuple[str, int]]


class WorkloadNeeds(GroupNeeds, total=False):
    """What a test may say about a workload of one group."""

    priority: int
    queue: str
    submitted_at: float


_GROUP = ("tasks", "most", "level", "preferred", "slices")
_WORKLOAD = ("priority", "queue", "submitted_at")


def shape(**needs: Unpack[Needs]) -> Shape:
    """Return a shape; one whole device unless something else is said."""
    return Shape(
        amounts=amounts(
            {
                "cpu": needs.get("cpu", 0),
                "memory": needs.get("memory", 0),
                **needs.get("extra", {}),
            }
        ),
        gpus=needs.get("gpus", 1),
        milli=needs.get("milli", WHOLE),
        gpu_memory=needs.get("gpu_memory", 0),
        mig=needs.get("mig", ""),
        gpu_models=tuple(needs.get("models", ())),
        selector=pairs(needs.get("selector", {})),
        affinity=tuple(tuple(clauses) for clauses in needs.get("affinity", ())),
        preferences=tuple(needs.get("preferences", ())),
        tolerations=tuple(needs.get("tolerations", ())),
        labels=pairs(needs.get("labels", {})),
        near=tuple(needs.get("near", ())),
        apart=tuple(needs.get("apart", ())),
        spread=tuple(needs.get("spread", ())),
        ports=tuple(needs.get("ports", ())),
    )


def pairs(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return labels in the order in which the model keeps them."""
    return tuple(sorted(given.items()))


def group(name: str, **needs: Unpack[GroupNeeds]) -> PodGroup:
    """Return a group with tasks."""
    of_task: Any = {key: value for key, value in needs.items() if key not in _GROUP}
    return PodGroup(
        name,
        shape(**of_task),
        needs.get("tasks", 1),
        needs.get("most", 0),
        near_by(needs.get("level", ""), needs.get("preferred", ""), *needs.get("slices", ())),
    )


def near_by(level: str = "", preferred: str = "", *slices: tuple[str, int]) -> TopologyRequest:
    """Return a topology request."""
    return TopologyRequest(level, preferred, tuple(Slice(*pair) for pair in slices))


def together(name: str, *groups: PodGroup, level: str = "", preferred: str = "") -> PodGroup:
    """Return an inner group."""
    return PodGroup(name, groups=groups, topology=near_by(level, preferred))


def workload(name: str, *groups: PodGroup, level: str = "", preferred: str = "") -> Workload:
    """Return a workload of several groups."""
    return Workload(name, groups, topology=near_by(level, preferred))


def gang(name: str, **needs: Unpack[WorkloadNeeds]) -> Workload:
    """Return a workload of one group, `main`."""
    of_group: Any = {key: value for key, value in needs.items() if key not in _WORKLOAD}
    return Workload(
        name,
        (group("main", **of_group),),
        needs.get("queue", "default"),
        needs.get("priority", 0),
        needs.get("submitted_at", 0.0),
    )


def task(name: str, count: int = 1, /, **needs: Unpack[WorkloadNeeds]) -> Workload:
    """Return a workload of one task that asks for so many whole devices."""
    needs["gpus"] = count
    return gang(name, **needs)


def share(name: str, thousandths: int, /, **needs: Unpack[WorkloadNeeds]) -> Workload:
    """Return a task that asks for a part of one device."""
    needs["milli"] = thousandths
    return gang(name, **needs)


def service(name: str, replicas: int, /, **needs: Unpack[WorkloadNeeds]) -> Workload:
    """Return a service with so many replicas at least."""
    needs["tasks"] = replicas
    return replace(gang(name, **needs), service=True)


# -- the world ------------------------------------------------------------------------------


class World:
    """An engine and the little that a test does to it. Methods that decide return a plan."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = 0.0
        self.plans: list[Plan] = []

    def see(self, *events: Event) -> World:
        """Tell the engine facts."""
        for event in events:
            self.engine.observe(event)
        return self

    def submit(self, *workloads: Workload) -> World:
        """Ask for workloads to run."""
        return self.see(*(Submitted(each) for each in workloads))

    def edit(self, workload: Workload) -> World:
        """Change a workload."""
        return self.see(WorkloadChanged(workload))

    def end(self, *names: str) -> World:
        """Let workloads be over."""
        return self.see(*(Ended(name) for name in names))

    def join(self, *new: Node) -> World:
        """Let nodes join."""
        return self.see(*(NodeJoined(each) for each in new))

    def leave(self, *names: str) -> World:
        """Let nodes leave."""
        return self.see(*(NodeLeft(name) for name in names))

    def node(self, name: str) -> Node:
        """Return what is known of a node."""
        return next(each for each in self.engine.snapshot().nodes if each.name == name)

    def change(self, name: str, **facts: Unpack[Facts]) -> World:
        """Let a node's facts change."""
        return self.see(NodeChanged(told(self.node(name), facts)))

    def tasks(self, name: str, state: TaskState, *which: int, group: str = "main") -> World:
        """Let tasks reach a state; none named: all that have a place."""
        members = self.engine.entries()[name].members[group]
        return self.see(TasksChanged(name, group, which or tuple(members.holding()), state))

    def refuse(self, name: str, *which: int, group: str = "main") -> World:
        """Refuse the binds of tasks."""
        return self.see(BindRefused(name, group, which))

    def busy(self, text: str) -> World:
        """Let whole devices be in use, the lowest first: `a=3 b=8`."""
        for item in text.split():
            name, _, count = item.partition("=")
            mask = (1 << int(count)) - 1
            self.adopt(task(f"busy-{name}", int(count)), {name: [mask]})
        return self

    def adopt(
        self, workload: Workload, places: Mapping[str, Sequence[int]], group: str = "main"
    ) -> World:
        """Find a workload running: per node, the devices of each task there."""
        where = [(name, mask) for name, masks in places.items() for mask in masks]
        names, masks = tuple(name for name, _ in where), tuple(mask for _, mask in where)
        placement = Placement(group, tuple(range(len(where))), names, masks)
        return self.see(Adopted(workload, (placement,)))

    def cycle(self, now: float | None = None) -> Plan:
        """Decide."""
        self.now = self.now if now is None else now
        self.plans.append(self.engine.decide(self.now))
        return self.plans[-1]

    def confirm(self, plan: Plan, state: TaskState = TaskState.RUNNING) -> World:
        """Let all that a plan binds reach a state, and all that it evicts be released."""
        for decision in plan.decisions:
            match decision:
                case Bind(name, placement):
                    self.see(TasksChanged(name, placement.group, placement.tasks, state))
                case Evict(name, of_group, which):
                    self.see(TasksChanged(name, of_group, which, TaskState.PENDING))
                case _:
                    pass
        return self

    def run(self, *workloads: Workload, now: float | None = None) -> World:
        """Submit workloads, decide, and let everything that was decided come true."""
        self.submit(*workloads)
        return self.confirm(self.cycle(now))

    def settles(self) -> None:
        """Check that five more cycles decide nothing."""
        for _ in range(5):
            plan = self.cycle(self.now + 1)
            assert plan.decisions == ()
            assert plan.waiting == ()


def cluster(
    text: str,
    *facts: On,
    policy: Policy = Policy(),
    memory: Memory = Memory(),
    topology: Topology | None = None,
) -> World:
    """Return a world with the nodes of a picture, about which more may be said with `on`."""
    levels, found = picture(text)
    for each in facts:
        found = [
            told(old, each.facts) if not each.names or old.name in each.names else old
            for old in found
        ]
    world = World(Engine(topology or levels, policy, memory, QUEUES))
    return world.join(*found)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail a test that would otherwise never end."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal(SIGALRM, ring)
    setitimer(ITIMER_REAL, seconds)
    try:
        yield
    finally:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, before)


# -- looking at plans -----------------------------------------------------------------------


def binds(plan: Plan) -> list[Bind]:
    """Return the binds of a plan."""
    return [decision for decision in plan.decisions if isinstance(decision, Bind)]


def evicts(plan: Plan) -> list[Evict]:
    """Return the evictions of a plan."""
    return [decision for decision in plan.decisions if isinstance(decision, Evict)]


def nodes(plan: Plan) -> set[str]:
    """Return all nodes that something is bound to."""
    return {name for bind in binds(plan) for name in bind.placement.nodes}


def ranks(plan: Plan) -> list[str]:
    """Return the node of each task, in the order of decisions and tasks."""
    return [name for bind in binds(plan) for name in bind.placement.nodes]


def by_workload(plan: Plan) -> dict[str, list[str]]:
    """Return the nodes of each workload's tasks, in order."""
    found: dict[str, list[str]] = {}
    for bind in binds(plan):
        found.setdefault(bind.workload, []).extend(bind.placement.nodes)
    return found


def by_group(plan: Plan) -> dict[str, list[str]]:
    """Return the nodes of each group's tasks, in order."""
    found: dict[str, list[str]] = {}
    for bind in binds(plan):
        found.setdefault(bind.placement.group, []).extend(bind.placement.nodes)
    return found


def devices(plan: Plan) -> list[tuple[int, ...]]:
    """Return the devices of each task, in the order of decisions and tasks."""
    masks = [mask for bind in binds(plan) for mask in bind.placement.devices]
    return [tuple(i for i in range(mask.bit_length()) if mask >> i & 1) for mask in masks]


def decided(plan: Plan) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return what is bound and evicted: verb, workload, tasks."""

    def one(decision: Decision) -> tuple[str, str, tuple[int, ...]]:
        match decision:
            case Bind(name, placement):
                return "bind", name, placement.tasks
            case Evict(name, _, which):
                return "evict", name, which
            case _:
                raise AssertionError(decision)

    told = [each for each in plan.decisions if isinstance(each, Bind | Evict)]
    return [one(decision) for decision in told]


def reasons(world: World, name: str) -> tuple[Reason, ...]:
    """Return why a workload waits."""
    return world.engine.reasons(name)


def told_about(plan: Plan) -> dict[str, tuple[Reason, ...]]:
    """Return the reasons in a plan, by workload."""
    return {waiting.workload: waiting.reasons for waiting in plan.waiting}


def used(world: World) -> str:
    """Return how many devices of each node are in use: `a=8/8 b=0.3/8`."""
    books = world.engine.books
    found = []
    for row, each in enumerate(books.nodes):
        if books.present[row]:
            there = sum(1 for device in each.devices if device.healthy and not device.mig)
            taken = there * WHOLE - int(books.share[:, row].sum())
            found.append(f"{each.name}={taken / WHOLE:g}/{there}")
    return " ".join(found)

"""Queues and eviction: how long it takes until everybody who may start has started.

One-GPU workloads run everywhere. All facts are there before the clock starts; it stops with the
last decision, so that releases at once, starts and the cycles between them are in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.core import CAPACITY, DEVICES, LEAF, SUPERPOD
from bench.measure import Result, watch
from mooring.engine import Engine
from mooring.model.cluster import Node
from mooring.model.events import Adopted, NodeJoined, Submitted, TasksChanged
from mooring.model.plan import Bind, Evict
from mooring.model.queues import Queue, Quota
from mooring.model.resources import GPU, amounts
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement, PodGroup, Shape, TaskState, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mooring.model.plan import Plan

SIZES = (500, 5_000)
NOW = 10_000.0
"""Long enough after the start of all that runs that nobody is protected any more."""
AGO = 1_000_000
"""How long before the others all that runs was submitted, in seconds."""
ONE_GPU = Shape(amounts({"cpu": 8_000, "memory": 65_536}), gpus=1)
BORROWER, OWNER, STEADY = "borrower", "owner", "steady"


@dataclass(frozen=True, slots=True)
class Case:
    """One situation, and how many workloads should start in it."""

    name: str
    build: Callable[[int], tuple[Engine, int]]
    bars: tuple[float, float]
    """In seconds, by size."""
    published: float | None = None
    """What KAI says it needs, in seconds, at 500 nodes."""


def run(prefixes: Sequence[str] = ()) -> Iterator[Result]:
    """Yield the results whose names begin with one of the prefixes; none: all."""
    for nodes in SIZES:
        for case in CASES:
            name = f"policy.{case.name}.{nodes}"
            if prefixes and not name.startswith(tuple(prefixes)):
                continue
            taken = min(measure(*case.build(nodes)) for _ in range(3 if case.bars[0] < 1 else 1))
            rival = case.published if nodes == SIZES[0] else None
            bar = case.bars[SIZES.index(nodes)]
            yield Result(name, taken, "s", "lower", bar, _compared(rival), rival)
        name = f"policy.quiet.{nodes}"
        if not prefixes or name.startswith(tuple(prefixes)):
            yield Result(name, quiet(nodes), "s", "lower", 1e-3, "10,000 wait in 100 queues")


def _compared(rival: float | None) -> str:
    return "" if rival is None else f"KAI publishes {rival:,.1f} s"


def measure(engine: Engine, starts: int) -> float:
    """Return the seconds until nothing is left to decide; so many workloads must have started."""
    begun: dict[str, None] = {}
    with watch() as taken:
        plan = engine.decide(NOW)
        while plan.decisions:
            begun.update(dict.fromkeys(d.workload for d in plan.decisions if isinstance(d, Bind)))
            come_true(engine, plan)
            plan = engine.decide(NOW)
    begun = {name: None for name in begun if not name.startswith("r")}
    assert len(begun) == starts, f"{len(begun)} started, not {starts}"
    return taken.seconds


def come_true(engine: Engine, plan: Plan) -> None:
    """Let what a plan binds run, and what it evicts be gone."""
    for each in plan.decisions:
        if isinstance(each, Bind):
            at = each.placement
            engine.observe(TasksChanged(each.workload, at.group, at.tasks, TaskState.RUNNING))
        elif isinstance(each, Evict):
            engine.observe(TasksChanged(each.workload, each.group, each.tasks, TaskState.PENDING))


# -- what there is ----------------------------------------------------------------------------


def cluster(nodes: int, quotas: dict[str, int]) -> Engine:
    """Return an engine with queues of so many GPUs each."""
    queues = [Queue(name, quotas=(Quota(GPU, quota=1000 * n),)) for name, n in quotas.items()]
    engine = Engine(Topology((Level("superpod"), Level("leaf"))), queues=queues)
    for i in range(nodes):
        path = (f"s{i // SUPERPOD:04d}", f"l{i // LEAF:05d}")
        engine.observe(
            NodeJoined(Node(_node(i), CAPACITY, gpu_model="H100", devices=DEVICES, path=path))
        )
    return engine


def _node(i: int) -> str:
    return f"n{i:06d}"


# wide: what runs where, and whose it is
def fill(
    engine: Engine,
    nodes: Iterable[int],
    queue: str = BORROWER,
    *,
    per_node: int = 8,
    preemptible: bool = True,
) -> None:
    """Let one-GPU workloads run on nodes."""
    for node in nodes:
        for device in range(per_node):
            work = _workload(f"r{node}-{device}", ONE_GPU, 1, queue, 8 * node + device - AGO)
            placement = Placement("main", (0,), (_node(node),), (1 << device,))
            engine.observe(Adopted(replace(work, preemptible=preemptible), (placement,)))


def _workload(name: str, shape: Shape, count: int = 1, queue: str = OWNER, at: int = 0) -> Workload:
    return Workload(name, (PodGroup("main", shape, min=count),), queue, submitted_at=float(at))


def _shape(gpus: int) -> Shape:
    return Shape(amounts({"cpu": 8_000 * gpus, "memory": 65_536 * gpus}), gpus=gpus)


# -- situations -------------------------------------------------------------------------------


def _reclaim(works: int, count: int, gpus: int) -> Callable[[int], tuple[Engine, int]]:
    """Return a situation: a queue within its quota takes back what another has borrowed."""

    def build(nodes: int) -> tuple[Engine, int]:
        engine = cluster(nodes, {BORROWER: 0, OWNER: works * count * gpus})
        fill(engine, range(nodes))
        for i in range(works):
            engine.observe(Submitted(_workload(f"w{i}", _shape(gpus), count, at=i)))
        return engine, works

    return build


def _hopeless(nodes: int) -> tuple[Engine, int]:
    """Ten nodes are wanted and nine can be had: the rest is covered or not preemptible."""
    covered = range(9, nodes, 2)
    engine = cluster(nodes, {BORROWER: 0, OWNER: 80, STEADY: 8 * len(covered)})
    fill(engine, range(9))
    fill(engine, covered, STEADY)
    fill(engine, range(10, nodes, 2), preemptible=False)
    engine.observe(Submitted(_workload("w", _shape(8), 10)))
    return engine, 0


def _consolidate(nodes: int) -> tuple[Engine, int]:
    """Every node has 5 GPUs free and 6 are wanted: one workload of each such node must move.

    All who run are within their quota, so that nobody may be asked to leave for good.
    """
    engine = cluster(nodes, {BORROWER: 3 * nodes, OWNER: 41 * 60})
    fill(engine, range(nodes), per_node=3)
    for i in range(41):
        engine.observe(Submitted(_workload(f"w{i}", _shape(6), 10, at=i)))
    return engine, 41


def _jam(nodes: int) -> tuple[Engine, int]:
    """All GPUs can be had, but not the last CPU of a node, which 400 before 4,000 others want."""
    engine = cluster(nodes, {BORROWER: 0, OWNER: 8 * nodes})
    daemon = _workload("r", Shape(amounts({"cpu": 1_000})), nodes, STEADY)
    names = tuple(_node(i) for i in range(nodes))
    placement = Placement("main", tuple(range(nodes)), names, (0,) * nodes)
    engine.observe(Adopted(replace(daemon, preemptible=False), (placement,)))
    fill(engine, range(nodes))
    for i in range(400):
        memory = 512 * max(0, i - 200)  # half of them alike
        shape = Shape(amounts({"cpu": 128_000, "memory": 65_536 + memory}), gpus=8)
        work = _workload(f"h{i}", shape, 1 + i % 10 if i > 200 else 4, at=i)
        engine.observe(Submitted(replace(work, priority=1)))
    for i in range(4_000):
        engine.observe(Submitted(_workload(f"w{i}", ONE_GPU, at=i)))
    return engine, 4_000


def quiet(nodes: int) -> float:
    """Return the seconds of a cycle with nothing to do: full queues, in which many wait."""
    names = [f"q{i:02d}" for i in range(100)]
    engine = cluster(nodes, dict.fromkeys(names, nodes * 8 // 100))
    for i, name in enumerate(names):
        fill(engine, range(i * nodes // 100, (i + 1) * nodes // 100), name)
    for i in range(10_000):
        work = _workload(f"w{i}", _shape(1 + i // 100 % 8), 1 + i // 800 % 4, names[i % 100], i)
        engine.observe(Submitted(work))
    cycles, now = 1_000, NOW
    while engine.decide(now).decisions:
        raise AssertionError("something was to be done")
    with watch() as taken:
        for i in range(cycles):
            engine.decide(now + i)
    return taken.seconds / cycles


SOON, LATER = (0.1, 1.0), (3.0, 30.0)
CASES = (
    Case("reclaim-1", _reclaim(1, 1, 1), SOON, 13.9),
    Case("reclaim-250x8", _reclaim(1, 250, 8), SOON),
    Case("reclaim-500x8", _reclaim(1, 500, 8), SOON, 85.0),
    Case("hopeless", _hopeless, SOON, 249.5),
    Case("reclaim-4000", _reclaim(4_000, 1, 1), LATER, 694.0),
    Case("gangs-50", _reclaim(50, 10, 5), LATER),
    Case("consolidate-41", _consolidate, LATER),
    Case("jam", _jam, LATER),
)

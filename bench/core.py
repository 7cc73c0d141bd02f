"""The core: tasks and gangs per second, refusals, churn, growth, memory.

Everything is counted over `observe` and `decide` together. Clusters have 8 GPUs a node, leaves of
16 nodes and superpods of 16 leaves.
"""

from __future__ import annotations

import math
import random
import statistics
import tracemalloc
from typing import TYPE_CHECKING

from bench.measure import Result, watch
from mooring.engine import Engine
from mooring.model.cluster import Device, Node
from mooring.model.events import Ended, NodeJoined, Submitted
from mooring.model.plan import Bind
from mooring.model.resources import amounts
from mooring.model.settings import Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mooring.model.plan import Plan

SIZES = (1_000, 12_500, 100_000)
MAIN = 12_500
LEAF, SUPERPOD = 16, 256
E_BINPACK = Policy(small="e-binpack")
CAPACITY = amounts({"cpu": 128_000, "memory": 1 << 20, "pods": 110})
DEVICES = tuple(Device(81_920, island=0, switch=i // 4, numa=i // 4, nic=i) for i in range(8))
ONE_GPU = Shape(amounts({"cpu": 8_000, "memory": 65_536}), gpus=1)
WHOLE_NODE = Shape(amounts({"cpu": 64_000, "memory": 524_288}), gpus=8)


def cluster(nodes: int, policy: Policy = E_BINPACK) -> Engine:
    """Return an engine over an empty cluster."""
    engine = Engine(Topology((Level("superpod"), Level("leaf"))), policy)
    for i in range(nodes):
        path = (f"s{i // SUPERPOD:04d}", f"l{i // LEAF:05d}")
        node = Node(f"n{i:06d}", CAPACITY, gpu_model="H100", devices=DEVICES, path=path)
        engine.observe(NodeJoined(node))
    engine.decide(0.0)
    return engine


def workload(name: str, shape: Shape, count: int = 1, required: str = "") -> Workload:
    """Return a workload of one group."""
    group = PodGroup("main", shape, min=count, topology=TopologyRequest(required=required))
    return Workload(name, (group,))


def placed(plan: Plan) -> int:
    """Return how many tasks got a node and devices."""
    return sum(len(d.placement.nodes) for d in plan.decisions if isinstance(d, Bind))


def one_by_one(engine: Engine, works: Sequence[Workload]) -> float:
    """Return the seconds to submit and decide each workload on its own; all must start."""
    done = 0
    with watch() as taken:
        for work in works:
            engine.observe(Submitted(work))
            done += len(engine.decide(1.0).decisions)
    assert done == len(works), f"{done} of {len(works)} started"
    return taken.seconds


def best_of(runs: int, measure: Callable[[], float]) -> float:
    """Return the least of several measurements: what the code costs when nothing disturbs it."""
    return min(measure() for _ in range(runs))


def run() -> Iterator[Result]:
    """Yield all results."""
    for nodes in SIZES:
        yield from _by_size(nodes)
    yield from _growth()
    yield from _potential()
    yield from _churn()
    yield from _refusal()
    yield from _quiet()
    yield from _memory()


_singles: dict[int, float] = {}


def _by_size(nodes: int) -> Iterator[Result]:
    suffix = "" if nodes == MAIN else f".{nodes}"
    main = nodes == MAIN

    def bulk() -> float:
        engine = cluster(nodes)
        count = nodes * 8
        with watch() as taken:
            engine.observe(Submitted(workload("bulk", ONE_GPU, count)))
            plan = engine.decide(1.0)
        assert placed(plan) == count
        return taken.seconds / count

    yield Result(f"core.tasks.bulk{suffix}", 1 / best_of(3, bulk), "tasks/s", "higher",
                 1_000_000 if main else None)  # fmt: skip

    few = min(nodes * 8 // 2, 20_000)

    def single() -> float:
        works = [workload(f"t{i}", ONE_GPU) for i in range(few)]
        return one_by_one(cluster(nodes), works) / few

    _singles[nodes] = best_of(3, single)
    yield Result(f"core.tasks.single{suffix}", 1 / _singles[nodes], "tasks/s", "higher",
                 30_000 if main else None)  # fmt: skip

    whole = min(nodes // 2, 6_000)

    def node_gangs() -> float:
        works = [workload(f"t{i}", WHOLE_NODE) for i in range(whole)]
        return one_by_one(cluster(nodes), works) / whole

    yield Result(f"core.gangs.node{suffix}", 1 / best_of(3, node_gangs), "gangs/s", "higher",
                 20_000 if main else None)  # fmt: skip

    big = nodes // SUPERPOD * (SUPERPOD // 64)

    def gangs_64() -> float:
        works = [workload(f"t{i}", WHOLE_NODE, 64, "superpod") for i in range(big)]
        return one_by_one(cluster(nodes), works) / big

    yield Result(f"core.gangs.64{suffix}", 1 / best_of(3, gangs_64), "gangs/s", "higher",
                 2_000 if main else None)  # fmt: skip


def _growth() -> Iterator[Result]:
    small, large = SIZES[0], SIZES[-1]
    exponent = math.log(_singles[large] / _singles[small]) / math.log(large / small)
    yield Result("core.growth", exponent, "exponent", "lower", 0.2, "cost per task with nodes")

    def blocked(waiting: int) -> float:
        engine = _full(1_000)
        works = [workload(f"t{i}", _mixed(i % 20)) for i in range(waiting)]
        for work in works:
            engine.observe(Submitted(work))
        engine.decide(1.0)
        more = [workload(f"m{i}", _mixed(i % 20)) for i in range(1_000)]
        with watch() as taken:
            for work in more:
                engine.observe(Submitted(work))
                engine.decide(1.0)
        return taken.seconds

    few, many = best_of(3, lambda: blocked(1_000)), best_of(3, lambda: blocked(100_000))
    yield Result("core.growth.waiting", math.log(many / few) / math.log(100), "exponent", "lower",
                 None, "cost per blocked task with waiting tasks")  # fmt: skip


def _full(nodes: int, left: int = 0) -> Engine:
    """Return a cluster in which all nodes but `left` are taken."""
    engine = cluster(nodes)
    engine.observe(Submitted(workload("full", WHOLE_NODE, nodes - left)))
    engine.decide(0.0)
    return engine


def _mixed(i: int) -> Shape:
    """Return one of many shapes of 1, 2, 4 or 8 GPUs."""
    gpus = (1, 1, 2, 4, 8)[i % 5]
    return Shape(
        amounts({"cpu": 4_000 * gpus + 100 * (i // 5), "memory": 32_768 * gpus}), gpus=gpus
    )


def _potential() -> Iterator[Result]:
    rng = random.Random(0)
    gpus = (0, 1, 1, 1, 2, 4)
    shapes = [
        Shape(
            amounts({"cpu": rng.randrange(1, 16) * 1_000, "memory": rng.randrange(4, 64) * 1_024}),
            gpus=rng.choice(gpus),
            milli=rng.choice((1000, 1000, 500, 250)),
        )
        for _ in range(100)
    ]
    shapes = [s if s.gpus == 1 else Shape(s.amounts, gpus=s.gpus) for s in shapes]
    count = 5_000

    def measure() -> float:
        engine = cluster(MAIN, Policy())
        works = [workload(f"t{i}", rng.choice(shapes)) for i in range(2_000 + count)]
        one_by_one(engine, works[:2_000])
        return one_by_one(engine, works[2_000:]) / count

    yield Result("core.tasks.potential", 1 / best_of(2, measure), "tasks/s", "higher", 2_500)


def _churn() -> Iterator[Result]:
    rng = random.Random(0)

    def measure() -> float:
        engine = cluster(MAIN)
        running: list[str] = []
        taken_gpus, number = 0, 0
        while taken_gpus < 0.9 * MAIN * 8:
            shape = _mixed(rng.randrange(20))
            engine.observe(Submitted(workload(f"t{number}", shape)))
            running.append(f"t{number}")
            taken_gpus += shape.gpus
            number += 1
        engine.decide(0.0)
        rng.shuffle(running)
        rounds = 5_000
        works = [workload(f"c{i}", _mixed(rng.randrange(20))) for i in range(rounds)]
        with watch() as taken:
            for i in range(rounds):
                engine.observe(Ended(running[i]))
                engine.observe(Submitted(works[i]))
                engine.decide(1.0)
        return taken.seconds / rounds

    yield Result("core.churn", 1 / best_of(2, measure), "workloads/s", "higher", 8_000)


def _refusal() -> Iterator[Result]:
    engine = _full(MAIN, left=9)
    new: list[float] = []
    known: list[float] = []
    for i in range(30):
        shape = Shape(amounts({"cpu": 1_000 + i}), gpus=8)
        for name, times in ((f"n{i}", new), (f"k{i}", known)):
            work = workload(name, shape, 10)
            with watch() as taken:
                engine.observe(Submitted(work))
                plan = engine.decide(1.0)
            assert not plan.decisions
            times.append(taken.seconds)
    yield Result("core.refusal", 1e3 * statistics.median(new), "ms", "lower", 1.0,
                 "80 GPUs, one pod short, new shape")  # fmt: skip
    yield Result("core.refusal.known", 1e3 * statistics.median(known), "ms", "lower")


def _quiet() -> Iterator[Result]:
    engine = _full(1_000)
    for i in range(100_000):
        engine.observe(Submitted(workload(f"t{i}", _mixed(i % 100))))
    engine.decide(1.0)
    with watch() as taken:
        for _ in range(1_000):
            engine.decide(1.0)
    yield Result("core.quiet", 1e6 * taken.seconds / 1_000, "µs", "lower", 20.0,
                 "a cycle with 100,000 waiting and nothing to do")  # fmt: skip


def _memory() -> Iterator[Result]:
    tracemalloc.start()
    engine = cluster(MAIN)
    one_by_one(engine, [workload("first", ONE_GPU)])
    node = tracemalloc.get_traced_memory()[0] / MAIN
    yield Result("core.memory.node", node, "bytes", "lower", None, "facts included, one shape")
    works = [workload(f"t{i}", Shape(gpus=9)) for i in range(20_000)]
    before = tracemalloc.get_traced_memory()[0]
    for work in works:
        engine.observe(Submitted(work))
    engine.decide(1.0)
    waiting = (tracemalloc.get_traced_memory()[0] - before) / len(works)
    tracemalloc.stop()
    yield Result("core.memory.waiting", waiting, "bytes", "lower", None, "per waiting task")

"""Own functions in an engine: what they see, what they decide, and that forks keep to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mooring.engine import Engine
from mooring.model.events import Ended, NodeChanged, NodeJoined, PolicyChanged, Submitted
from mooring.model.plan import Bind, Excluded, Impossible
from mooring.model.queues import Queue
from mooring.model.settings import Policy
from mooring.policy.own import NodeFacts, NodeStates, Own, Task
from tests.build import gang, node, picture, shape, share, task

if TYPE_CHECKING:
    from mooring.model.columns import Bools, Floats
    from mooring.model.workload import Workload
    from mooring.policy.own import Order, Score


def engine_of(text: str, own: Own, order: str = "strict") -> Engine:
    """Return an engine for the cluster of a picture."""
    topology, nodes = picture(text)
    engine = Engine(topology, queues=(Queue("default", order=order),), own=own)
    for each in nodes:
        engine.observe(NodeJoined(each))
    return engine


def started(engine: Engine, *workloads: Workload) -> dict[str, list[str]]:
    """Submit workloads; return on which nodes who starts, in order of their starts."""
    for each in workloads:
        engine.observe(Submitted(each))
    binds = [each for each in engine.decide(engine.desk.now).decisions if isinstance(each, Bind)]
    return {bind.workload: list(bind.placement.nodes) for bind in binds}


def in_turn(engine: Engine, first: str) -> list[str]:
    """Return who starts one after the other on a single device, each when the last has ended."""
    found = [first]
    while True:
        engine.observe(Ended(found[-1]))
        some = list(started(engine))
        if not some:
            return found
        found += some


# ── order ────────────────────────────────────────────────────────────────────────────────────────


def by_length(workload: Workload) -> float:
    return len(workload.name)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(None, ["x", "ccc", "bb", "aa", "d"]), (by_length, ["x", "d", "bb", "aa", "ccc"])],
    ids=["by age", "by an own order, then by age"],
)
def test_an_own_order_stands_in_place_of_age(order: Order | None, expected: list[str]) -> None:
    engine = engine_of("a=1", Own(order=order))
    waiting = [task(name, 1, submitted_at=i) for i, name in enumerate(("ccc", "bb", "aa", "d"))]
    started(engine, task("x", 1))
    assert started(engine, *waiting) == {}
    assert engine.waiting() == expected[1:]
    assert in_turn(engine, "x") == expected


def test_priority_goes_before_an_own_order_and_that_before_deadlines() -> None:
    engine = engine_of("a=1", Own(order=by_length))
    started(engine, task("x", 1))
    late, urgent = task("late", 1, priority=1), replace(task("due", 1), deadline_at=9.0)
    started(engine, urgent, task("me", 1), late)
    assert engine.waiting() == ["late", "me", "due"]


@pytest.mark.parametrize("order", ["best-effort", "backfill", "easy"])
def test_every_order_of_queues_goes_by_it(order: str) -> None:
    """Also under a shadow, which is a fork with another policy."""
    engine = engine_of("a=1", Own(order=by_length), order)
    started(engine, task("x", 1))
    started(engine, task("ccc", 1), task("bb", 1), task("a", 1))
    assert in_turn(engine, "x") == ["x", "a", "bb", "ccc"]


# ── score ────────────────────────────────────────────────────────────────────────────────────────


def last(nodes: NodeStates, task: Task) -> Floats:
    return nodes.index.astype(np.float64)


def emptiest(nodes: NodeStates, task: Task) -> Floats:
    part: Floats = nodes.free_gpus / nodes.free_gpus.max()
    return part


@pytest.mark.parametrize(
    ("score", "expected"),
    [(None, ["a", "a", "b"]), (last, ["b", "c", "c"]), (emptiest, ["a", "b", "c"])],
    ids=["by default", "last", "emptiest"],
)
def test_an_own_score_places_the_tasks_of_a_gang_one_by_one(
    score: Score | None, expected: list[str]
) -> None:
    engine = engine_of("a=4 b=4 c=4", Own(score=score))
    found = started(engine, gang("g", tasks=3, gpus=2))["g"]
    assert sorted(found) == expected


def test_a_required_domain_holds_and_equal_scores_go_to_the_used_domain() -> None:
    engine = engine_of("r1: a=4 b=4 | r2: c=4 d=4", Own(score=lambda n, t: np.zeros(len(n))))
    assert started(engine, task("x", 1)) == {"x": ["a"]}
    assert started(engine, gang("g", tasks=2, gpus=4, level="rack")) == {"g": ["c", "d"]}
    assert started(engine, task("y", 4)) == {"y": ["b"]}


def test_a_score_sees_only_nodes_where_the_task_fits() -> None:
    seen = []

    def look(nodes: NodeStates, task: Task) -> Floats:
        seen.append((nodes.names, nodes.free_gpus.tolist(), task.gpus))
        return -nodes.free_gpus

    engine = engine_of("a=2 b=4 c=8", Own(score=look))
    assert started(engine, share("s", 500)) == {"s": ["a"]}
    assert started(engine, task("t", 2)) == {"t": ["b"]}
    assert seen == [(["a", "b", "c"], [2.0, 4.0, 8.0], 0.5), (["b", "c"], [4.0, 8.0], 2.0)]


# ── filter ───────────────────────────────────────────────────────────────────────────────────────


def labelled(nodes: NodeFacts, task: Task) -> Bools:
    found: Bools = (nodes.label("pool") == "small") == (task.gpus < 2)
    return found


def test_an_own_filter_keeps_tasks_off_nodes_and_is_told() -> None:
    engine = engine_of("a=2 b=2 c=2", Own(filter=labelled), "best-effort")
    small = node("b", 2, labels={"pool": "small"})
    engine.observe(NodeChanged(small))
    assert started(engine, task("x", 1), task("y", 1), task("z", 1)) == {"x": ["b"], "y": ["b"]}
    assert Excluded("main", "filter", 2) in engine.reasons("z")
    assert started(engine, gang("g", tasks=2, gpus=2)) == {"g": ["a", "c"]}
    engine.observe(Submitted(gang("h", tasks=3, gpus=2)))
    engine.decide(0.0)
    assert Impossible("main", "cluster", 3, 2) in engine.reasons("h")
    engine.observe(NodeChanged(node("a", 2, labels={"pool": "small"})))
    engine.observe(Ended("g"))
    assert started(engine) == {"z": ["a"]}


# ── forks ────────────────────────────────────────────────────────────────────────────────────────


def test_forks_and_other_policies_keep_own_functions() -> None:
    engine = engine_of("a=1 b=1", Own(by_length, last, lambda n, t: n.index < 2))
    other = engine.fork()
    third = engine.empty()
    other.observe(PolicyChanged(replace(Policy(), search_steps=7)))
    for each in (engine, other, third):
        assert started(each, task("ccc", 1), task("a", 1)) == {"a": ["b"], "ccc": ["a"]}


# ── what they see ────────────────────────────────────────────────────────────────────────────────


def test_columns_of_nodes_are_in_the_units_of_people() -> None:
    topology, nodes = picture("r1: a=2 b=4 | r2: c=8")
    engine = Engine(topology, own=Own())
    c = node("c", 8, "r2", model="L4", labels={"zone": "x"}, cpu=1500, memory=2048)
    for each in (*nodes[:2], c):
        engine.observe(NodeJoined(each))
    started(engine, task("t", 8, cpu=500), share("s", 250))
    seen = NodeStates(engine.books, engine.desk.fits.facts(), np.array([0, 1, 2]))
    assert seen.names == ["a", "b", "c"]
    assert seen.gpus.tolist() == [2.0, 4.0, 8.0]
    assert seen.free_gpus.tolist() == [2.0, 3.75, 0.0]
    assert seen.whole_gpus.tolist() == [2.0, 3.0, 0.0]
    assert (seen.cpu[2], seen.memory[2]) == (1.5, 2.0)
    assert (seen.free_cpu[2], seen.free_memory[2]) == (1.0, 2.0)
    assert seen.models.tolist() == ["H100", "H100", "L4"]
    assert seen.label("zone").tolist() == ["", "", "x"]
    assert seen.domain("rack").tolist() == [0, 0, 1]
    assert seen.gpus_in("rack").tolist() == [6.0, 6.0, 8.0]
    assert seen.free_gpus_in("rack").tolist() == [5.75, 5.75, 0.0]
    with pytest.raises(ValueError, match="no level 'row' in this cluster; there are"):
        seen.domain("row")


def test_columns_are_copies() -> None:
    engine = engine_of("a=2 b=4", Own())
    engine.decide(0.0)
    seen = NodeStates(engine.books, engine.desk.fits.facts(), np.array([0, 1]))
    for column in (seen.index, seen.gpus, seen.free_gpus, seen.free_cpu, seen.domain("node")):
        column[:] = 99
    assert (seen.index.tolist(), seen.free_gpus.tolist()) == ([0, 1], [2.0, 4.0])
    assert seen.domain("node").tolist() == [0, 1]


def test_a_task_in_the_units_of_people() -> None:
    seen = Task.of(shape(gpus=2, milli=500, cpu=2500, memory=512))
    assert (seen.gpus, seen.cpu, seen.memory) == (1.0, 2.5, 0.5)
    assert gang("g", tasks=3, gpus=4).gpus == 12.0
    assert share("s", 250).gpus == 0.25

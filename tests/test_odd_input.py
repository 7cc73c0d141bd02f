"""Odd but legal facts, and facts that cannot be: nothing is lost, given twice or left asleep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.engine import EventError
from mooring.model.cluster import Device
from mooring.model.events import Adopted, NodeJoined, PolicyChanged, Submitted
from mooring.model.plan import Unknown
from mooring.model.settings import Policy
from mooring.model.workload import (
    Placement,
    PodGroup,
    Requirement,
    Shape,
    Slice,
    TaskState,
    TopologyRequest,
    Workload,
)
from tests.build import (
    by_workload,
    cluster,
    decided,
    evicts,
    gang,
    gpus,
    group,
    node,
    on,
    reasons,
    task,
    used,
    workload,
)


@pytest.mark.parametrize("size", [3, 8, 0])
def test_slices_of_the_workload_must_divide_its_group(size: int) -> None:
    """They are handed down to its only group, and checked there."""
    world = cluster("r1: a=4 b=4")
    inner = PodGroup("g", Shape(gpus=1), min=4)
    odd = Workload("w", (inner,), topology=TopologyRequest(slices=(Slice("rack", size),)))

    assert world.submit(odd).cycle().decisions == ()
    assert isinstance(reasons(world, "w")[0], Unknown)


def test_slices_inside_slices_of_another_group_are_told() -> None:
    leaf = PodGroup("i", Shape(gpus=1), 2, topology=TopologyRequest(slices=(Slice("node", 1),)))
    outer = TopologyRequest(slices=(Slice("rack", 2),))
    world = cluster("r1: a=1 | r2: b=1").submit(Workload("w", (leaf,), topology=outer))

    assert world.cycle().decisions == ()
    assert isinstance(reasons(world, "w")[0], Unknown)


def test_a_device_that_leaves_mig_mode_in_use_is_not_given_as_a_whole() -> None:
    world = cluster("a=1", on("a", devices=gpus(1, mig="a100-40gb")))
    world.run(task("m", 1, mig="1g.5gb")).change("a", devices=(Device(memory=40_960),))

    assert world.submit(task("t")).cycle().decisions == ()

    assert by_workload(world.end("m").cycle()) == {"t": ["a"]}


def test_a_device_that_enters_mig_mode_in_use_takes_no_instance() -> None:
    world = cluster("a=1").run(task("t"))
    world.change("a", devices=gpus(1, mig="a100-40gb")).submit(task("m", 1, mig="1g.5gb"))

    assert world.cycle().decisions == ()
    assert by_workload(world.end("t").cycle()) == {"m": ["a"]}


def test_whole_devices_are_not_adopted_twice() -> None:
    """Neither in one event nor after another."""
    world = cluster("a=2")
    twice = Adopted(gang("g", tasks=2), (Placement("main", (0, 1), ("a", "a"), (1, 1)),))
    with pytest.raises(EventError):
        world.see(twice)
    world.adopt(task("t"), {"a": [1]})
    with pytest.raises(EventError):
        world.see(Adopted(task("u"), (Placement("main", (0,), ("a",), (1,)),)))
    assert used(world) == "a=1/2"


def test_growth_asks_for_less_when_part_of_a_slice_comes_back() -> None:
    """The third pair waits; then one of the second pair fails, and one device is enough."""
    world = cluster("r1: a=1 b=1 c=1 d=1 e=1").submit(
        gang("g", tasks=2, most=6, slices=[("rack", 2)])
    )
    world.run()
    world.submit(task("f"))
    world.run()
    world.tasks("g", TaskState.FAILED, 3)

    assert decided(world.cycle()) == [("bind", "g", (3,))]


@pytest.mark.parametrize(
    "shape",
    [
        Shape((("cpu", 0),)),
        Shape((("pods", 1),)),
        Shape(gpus=-1),
        Shape(ports=(53, 53)),
        Shape(affinity=((Requirement("zone", "Near", ("x",)),),)),
        Shape(affinity=((Requirement("zone", "Lt"),),)),
    ],
)
def test_a_shape_that_nobody_can_ask_for_is_refused_at_once(shape: Shape) -> None:
    """And what came before it is bound all the same."""
    world = cluster("a=2").submit(task("ok"))

    with pytest.raises(EventError):
        world.see(Submitted(Workload("bad", (PodGroup("main", shape),))))

    assert by_workload(world.cycle()) == {"ok": ["a"]}


def test_numbers_of_a_policy_are_checked() -> None:
    for wrong in (Policy(search_steps=0), Policy(mix_half_life_s=0.0)):
        with pytest.raises(EventError):
            cluster("a=1").see(PolicyChanged(wrong))


def test_running_work_cannot_be_edited_to_levels_that_do_not_exist() -> None:
    world = cluster("r1: a=2").run(gang("g", tasks=2))
    lost = gang("g", tasks=2)
    lost = replace(lost, groups=(replace(lost.groups[0], topology=TopologyRequest("nope")),))

    with pytest.raises(EventError):
        world.edit(lost)
    world.settles()


def test_a_minimum_above_what_runs_is_reached_or_the_gang_starts_again() -> None:
    """The same before and after a restart: a gang never runs on below its minimum for long."""
    world = cluster("a=2").run(gang("g", tasks=2)).edit(gang("g", tasks=3))

    assert evicts(world.cycle(0.0)) == []
    assert reasons(world, "g")
    assert [evict.tasks for evict in evicts(world.cycle(60.0))] == [(0, 1)]


def test_a_node_with_too_many_devices_does_not_take_others_along() -> None:
    world = cluster("a=1").join(node("b", 1))

    with pytest.raises(EventError):
        world.see(NodeJoined(node("wide", 63)))

    assert by_workload(world.submit(gang("g", tasks=2)).cycle()) == {"g": ["a", "b"]}


def test_the_same_facts_again_wake_nobody() -> None:
    """A heartbeat is not a change."""
    world = cluster("a=1").run(task("t")).submit(task("u"))
    world.cycle()
    epoch = world.engine.books.epoch

    world.join(node("a", 1)).cycle()

    assert world.engine.books.epoch == epoch


def test_reasons_name_the_group_and_not_another_workload() -> None:
    """Equal asks share a line, and so its reasons."""
    lost = workload("first", group("x"), group("y"), level="rak")
    world = cluster("r1: a=1").submit(lost).submit(replace(lost, name="second"))
    world.cycle()

    assert reasons(world.end("first"), "second") == (Unknown("", "level", "rak"),)

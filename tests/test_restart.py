"""A restart changes nothing: a new engine that is told the present moment goes on like the old one.

What the old one knew comes as a snapshot; while it was down, workloads may have been edited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mooring.config import dump_scenario, read_scenario
from mooring.engine import Engine
from mooring.engine.check import EventError
from mooring.model.events import Adopted, QueuesChanged, TasksChanged, WorkloadChanged
from mooring.model.queues import Queue
from mooring.model.settings import Eviction, Policy
from mooring.model.workload import Placement, TaskState
from tests.build import World, by_workload, cluster, decided, gang, group, on, reasons, task, used

if TYPE_CHECKING:
    from mooring.model.scenario import Scenario
    from mooring.model.workload import Workload

RUNNING, PENDING = TaskState.RUNNING, TaskState.PENDING
PATIENT = Policy(eviction=Eviction(minimum_run_s=(("preempt", 50.0),)))


def again(world: World, *, edited: Workload | None = None) -> World:
    """Return the world after a restart; a workload that waits may have been edited meanwhile."""
    scene: Scenario = world.engine.snapshot(world.now)
    if edited is not None:
        waiting = [edited if each.name == edited.name else each for each in scene.waiting]
        scene = replace(scene, waiting=tuple(waiting))
    new = World(Engine(scene.topology, scene.policy, scene.memory, scene.queues))
    return new.see(*scene.events())


# -- since when it runs ---------------------------------------------------------------------------


def test_minimum_run_time_counts_from_when_it_ran_also_after_a_restart() -> None:
    world = cluster("a=1", policy=PATIENT).submit(task("low"))
    world.cycle(0.0)
    world.see(TasksChanged("low", "main", (0,), RUNNING, 20.0)).cycle(25.0)

    world = again(world).submit(task("high", priority=1))

    assert world.cycle(30.0).wake_at == 70.0
    assert decided(world.cycle(70.0)) == [("evict", "low", (0,))]
    assert again(world).engine.snapshot() == world.engine.snapshot()


def test_what_does_not_run_yet_does_not_after_a_restart() -> None:
    world = cluster("a=1", policy=PATIENT).submit(task("low"))
    world.cycle(0.0)

    world = again(world).submit(task("high", priority=1))

    assert world.cycle(60.0).decisions == ()
    world.see(TasksChanged("low", "main", (0,), RUNNING, 60.0))
    assert world.cycle(61.0).wake_at == 110.0


def test_found_running_without_more_it_has_run_since_it_started() -> None:
    world = cluster("a=1", policy=PATIENT)
    world.see(Adopted(task("low"), (Placement("main", (0,), ("a",), (1,)),), 10.0))

    assert world.submit(task("high", priority=1)).cycle(20.0).wake_at == 60.0


@pytest.mark.parametrize("ran", [False, True])
def test_who_lost_a_task_has_run_before_or_not_after_a_restart(ran: bool) -> None:
    """A limit on run times counts from when all ran; if only one of two ever did, it does not."""
    limited = (Queue("default", run_limit_s=50.0),)
    world = cluster("a=1 b=1").see(QueuesChanged(limited)).submit(gang("g", tasks=2))
    world.cycle(0.0)
    world.tasks("g", RUNNING, 0, *([1] if ran else [])).leave("b").cycle(10.0)

    for each in (world, again(world)):
        assert (decided(each.cycle(55.0)) == [("evict", "g", (0,))]) == ran


def test_file_keeps_since_when_work_runs_and_what_does_not_run_yet() -> None:
    """Of two that elastic work has, the first runs since 0 and the second was just bound."""
    world = cluster("a=1 b=1", on("b", ready=False)).submit(gang("g", tasks=1, most=2))
    world.cycle(0.0)
    world.tasks("g", RUNNING, 0).change("b", ready=True).cycle(5.0)
    scene = world.engine.snapshot()
    assert scene.running[0].starting == (("main", (1,)),)
    assert scene.running[0].running_since == 0.0

    assert read_scenario(dump_scenario(scene)).running == scene.running


@pytest.mark.parametrize("what", ["starting", "releasing"])
def test_only_what_has_a_place_comes_or_leaves(what: str) -> None:
    event = Adopted(gang("g", tasks=2), (Placement("main", (0,), ("a",), (1,)),))
    changes: dict[str, Any] = {what: (("main", (1,)),)}

    with pytest.raises(EventError, match="has no place"):
        cluster("a=2").see(replace(event, **changes))


# -- room that was kept ---------------------------------------------------------------------------


def asked_to_leave() -> World:
    """Return a world in which room is kept for `high`, and `low` is on its way out of it."""
    world = cluster("a=2").run(gang("low", tasks=2), now=0.0)
    plan = world.submit(gang("high", tasks=2, priority=1)).cycle(1.0)
    assert decided(plan) == [("evict", "low", (0, 1))]
    return world


def test_room_is_kept_over_a_restart() -> None:
    world = again(asked_to_leave()).submit(gang("late", tasks=2, priority=1, submitted_at=1.0))

    assert world.cycle(2.0).decisions == ()
    assert by_workload(world.tasks("low", PENDING, 0, 1).cycle(3.0)) == {"high": ["a", "a"]}


@pytest.mark.parametrize(
    "edited",
    [
        replace(gang("high", priority=1), groups=(group("other", tasks=2),)),
        replace(gang("high", priority=1), groups=(group("main"), group("other"))),
        gang("high", tasks=1, priority=1),
        gang("high", tasks=3, priority=1),
        gang("high", tasks=2, gpus=2, priority=1),
        gang("high", tasks=2, milli=500, priority=1),
        gang("high", tasks=2, gpus=0, cpu=1, priority=1),
    ],
    ids=["renamed", "one more group", "fewer", "more", "larger", "parts", "without devices"],
)
def test_room_kept_for_what_was_edited_meanwhile_is_open_again(edited: Workload) -> None:
    """It was for another shape; the workload waits as what it is now, and starts whole."""
    world = again(asked_to_leave(), edited=edited)

    started = by_workload(world.cycle(2.0)).get("high", [])
    world.tasks("low", PENDING, 0, 1)
    started += by_workload(world.cycle(3.0)).get("high", [])

    wanted = sum(leaf.min for leaf in edited.leaves())
    fits = wanted * edited.groups[0].shape.gpus <= 2
    assert len(started) == (wanted if fits else 0)
    assert (world.engine.books.held >= 0).all()


# -- size -----------------------------------------------------------------------------------------


def test_work_that_was_shrunk_while_nobody_looked_is_shrunk_now() -> None:
    world = cluster("a=4").run(gang("wide", tasks=1, most=4), now=0.0)
    assert used(world) == "a=4/4"
    scene = world.engine.snapshot()
    smaller = replace(scene.running[0], workload=gang("wide", tasks=1, most=2))
    new = World(Engine(scene.topology, scene.policy, scene.memory, scene.queues))

    new.see(*replace(scene, running=(smaller,)).events())

    plan = new.cycle(1.0)
    assert decided(plan) == [("evict", "wide", (2, 3))]
    assert {each.cause for each in plan.decisions} == {"resized"}  # type: ignore[union-attr]
    new.confirm(plan)
    assert used(new) == "a=2/4"
    new.settles()


def test_restart_between_an_edit_and_its_cycle_loses_neither() -> None:
    world = cluster("a=4").run(gang("wide", tasks=1, most=4), now=0.0)
    world.edit(gang("wide", tasks=1, most=3))

    assert decided(again(world).cycle(1.0)) == [("evict", "wide", (3,))]


def test_gang_whose_minimum_is_raised_gets_what_it_misses() -> None:
    world = cluster("a=1 b=2").run(task("g"), now=0.0)
    world.run(gang("late", submitted_at=1.0, tasks=1), now=1.0)
    world.see(WorkloadChanged(gang("g", tasks=2)))
    for each in (world, again(world)):
        plan = each.cycle(2.0)
        assert [(verb, name) for verb, name, _ in decided(plan)] == [("bind", "g")]
        each.confirm(plan)
        each.settles()


def test_gang_whose_minimum_is_raised_beyond_what_there_is_starts_again_later() -> None:
    """It is incomplete for as long as it may be, then it leaves whole and waits for all of it."""
    world = cluster("a=1").run(task("g"), now=0.0)

    world.see(WorkloadChanged(gang("g", tasks=2)))

    assert world.cycle(1.0).wake_at == 1.0 + Policy().gang_grace_s
    assert reasons(world, "g")
    plan = world.cycle(61.0)
    assert decided(plan) == [("evict", "g", (0,))]
    world.confirm(plan)
    assert world.cycle(62.0).decisions == ()
    world.join(*cluster("b=1").engine.snapshot().nodes)
    assert sorted(by_workload(world.cycle(63.0))["g"]) == ["a", "b"]


def test_units_that_become_part_of_the_minimum_are_not_asked_to_leave_any_more() -> None:
    """Of equal priority a minimum may ask units to leave, and no minimum."""
    world = cluster("a=3").run(gang("wide", tasks=1, most=3), now=0.0)
    world.see(WorkloadChanged(gang("wide", tasks=3, most=3)))

    assert world.submit(task("equal", submitted_at=1.0)).cycle(1.0).decisions == ()
    world.see(WorkloadChanged(gang("wide", tasks=2, most=3)))
    assert decided(world.cycle(2.0)) == [("evict", "wide", (2,))]

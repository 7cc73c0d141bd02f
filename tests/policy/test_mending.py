"""What a gang lost comes back where its queue may be charged, and never through a back door."""

from __future__ import annotations

from dataclasses import replace

from mooring.model.events import QueuesChanged
from mooring.model.plan import Exhausted, OverQuota, Stopped
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Eviction, Policy
from mooring.model.workload import TaskState
from tests.build import World, cluster, decided, gang, node, on, reasons

FINISHED, FAILED = TaskState.FINISHED, TaskState.FAILED


def limited(world: World, gpus: int, flavor: str = "") -> World:
    """Give the queue `default` a limit."""
    limit = Quota("gpu", flavor, limit=1000 * gpus)
    return world.see(QueuesChanged((Queue("default", quotas=(limit,)), Queue("other"))))


def test_gang_is_not_completed_beyond_the_limit_of_its_queue() -> None:
    """While it had no room, the limit became less."""
    world = limited(cluster("a=1 b=1"), 2).run(gang("g", tasks=2), now=0.0)
    world.leave("b").cycle(1.0)

    plan = limited(world, 1).join(node("c", 1)).cycle(2.0)

    assert plan.decisions == ()
    assert reasons(world, "g") == (OverQuota("default", "", "gpu", 1000, 0, ever=True),)
    assert decided(limited(world, 2).cycle(3.0)) == [("bind", "g", (1,))]


def test_gang_is_completed_on_a_flavor_that_its_queue_may_be_charged_for() -> None:
    """The A100s are nearer at hand, and there is no quota for them."""
    world = cluster("a=1 b=1 c=2", on("c", model="A100"))
    world.run(gang("g", tasks=2, models=["A100", "H100"], level="node"), now=0.0)
    assert world.engine.running() == ["g"]
    limited(world, 0, "H100").tasks("g", FAILED, 0)

    assert decided(world.cycle(1.0)) == [("bind", "g", (0,))]
    limited(world, 0, "A100").tasks("g", FAILED, 0)
    assert world.cycle(2.0).decisions == ()


def test_finished_tasks_are_no_way_around_a_run_limit() -> None:
    """One of two is done; the other has run as long as it may, and does not start again."""
    policy = Policy(eviction=Eviction(notice_s=0.0))
    world = cluster("a=2", policy=policy)
    world.run(replace(gang("g", tasks=2), run_limit_s=100.0), now=0.0)
    world.tasks("g", FINISHED, 0).cycle(1.0)

    plan = world.cycle(100.0)
    assert decided(plan) == [("evict", "g", (1,))]
    world.confirm(plan).cycle(101.0)

    assert reasons(world, "g") == (Exhausted(0),)
    world.settles()


def test_finished_tasks_are_no_way_around_a_stopped_queue() -> None:
    world = cluster("a=2").run(gang("g", tasks=2), now=0.0)
    world.tasks("g", FINISHED, 0).see(QueuesChanged((Queue("default", stop="drain"),)))

    plan = world.cycle(1.0)
    assert decided(plan) == [("evict", "g", (1,))]
    assert world.confirm(plan).cycle(2.0).decisions == ()

    assert reasons(world, "g") == (Stopped("default"),)
    world.see(QueuesChanged((Queue("default"),)))
    assert decided(world.cycle(3.0)) == [("bind", "g", (1,))]


def test_running_gang_of_a_held_queue_is_completed() -> None:
    """It has started long ago."""
    world = cluster("a=2").run(gang("g", tasks=2), now=0.0)
    world.see(QueuesChanged((Queue("default", stop="hold"),))).tasks("g", FAILED, 0)

    assert decided(world.cycle(1.0)) == [("bind", "g", (0,))]

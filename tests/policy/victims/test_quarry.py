"""Quarries are kept from search to search: what is known of them is what a fork finds anew."""

from __future__ import annotations

from mooring.engine import Engine
from mooring.model.queues import Queue
from mooring.model.workload import TaskState
from tests.build import World, binds, gang, picture, task


def test_a_minimum_run_that_begins_anew_wakes_nobody_at_its_old_end() -> None:
    """Protected work fails and starts again; there is no time known before it runs again."""
    topology, nodes = picture("a=2")
    queue = Queue("default", preempt_minimum_run_s=50.0)
    world = World(Engine(topology, queues=(queue,))).join(*nodes)
    world.run(task("low", 1), task("busy", 1), now=0.0)
    assert world.submit(gang("high", tasks=2, gpus=1, priority=1)).cycle(10.0).wake_at == 50.0

    world.tasks("low", TaskState.FAILED)
    assert [bind.workload for bind in binds(world.cycle(20.0))] == ["low"]
    assert world.end("busy").cycle(30.0).wake_at is None

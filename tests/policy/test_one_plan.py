"""What one plan may say: nobody comes and leaves in it, and who was promised a start has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.events import PolicyChanged, QueuesChanged
from mooring.model.queues import EvictionRules, Queue, Quota
from mooring.model.settings import Eviction, Policy
from mooring.model.workload import TaskState
from tests.build import by_workload, cluster, decided, gang, on, task

PENDING, FAILED = TaskState.PENDING, TaskState.FAILED


def test_who_would_be_sent_away_at_once_does_not_start() -> None:
    """It is not bound in one plan to be evicted in the next, with nothing between."""
    quotas = (Quota("gpu", quota=1000),)
    world = cluster("n=2").see(QueuesChanged((Queue("a", quotas=quotas), Queue("b"))))
    world.see(PolicyChanged(Policy(eviction=Eviction(minimum_run_s=()))))
    world.submit(
        task("too-big", 4, queue="a", priority=1, submitted_at=0.0),
        task("small", 1, queue="a", submitted_at=1.0),
        task("beyond", 2, queue="b", priority=2, submitted_at=0.5),
    )

    assert by_workload(world.cycle(2.0)) == {"small": ["n"]}
    assert set(world.engine.waiting()) == {"too-big", "beyond"}
    assert world.engine.entries()["beyond"].past.evictions == 0


def test_who_need_not_wait_any_more_is_in_a_plan_where_it_was_let_in() -> None:
    """It was before `tiny`, whose quota or limit may depend on it."""
    quotas = (Quota("gpu", quota=2000),)
    world = cluster("n=2 m=1").see(QueuesChanged((Queue("a", quotas=quotas), Queue("b"))))
    world.see(PolicyChanged(Policy(eviction=Eviction(minimum_run_s=()))))
    world.submit(
        task("too-big", 4, queue="a", priority=1),
        task("covered", 2, queue="a"),
        task("beyond", 2, queue="b", priority=2),
        task("tiny", 1, queue="b"),
    )

    plan = world.cycle(2.0)

    assert decided(plan) == [("bind", "covered", (0,)), ("bind", "tiny", (0,))]


def test_who_starts_where_others_left_for_it_is_not_sent_away_in_the_same_plan() -> None:
    """Else they would have left in vain: whoever stands before it asks in the next cycle."""
    world = cluster("a=2").run(task("low", 2), now=0.0)
    plan = world.submit(task("high", 2, priority=1)).cycle(1.0)
    assert decided(plan) == [("evict", "low", (0,))]
    world.submit(task("first", 2, priority=2))

    plan = world.tasks("low", PENDING, 0).cycle(2.0)

    assert decided(plan) == [("bind", "high", (0,))]
    assert decided(world.confirm(plan).cycle(3.0)) == [("evict", "high", (0,))]


def test_nor_is_a_unit_for_which_another_left() -> None:
    low = replace(gang("low", tasks=1, most=2), semi_preemptible=True)
    world = cluster("a=3").run(low, now=0.0)
    plan = world.run(gang("wide", tasks=1, most=2, priority=1), now=1.0).plans[-1]
    assert decided(plan) == [("bind", "wide", (0,)), ("evict", "low", (1,))]
    world.submit(task("first", priority=2))

    plan = world.cycle(2.0)

    assert decided(plan) == [("bind", "wide", (1,))]
    assert decided(world.confirm(plan).cycle(3.0)) == [("evict", "wide", (1,))]


@pytest.mark.parametrize("profile", ["default", "kai", "kueue"])
def test_gang_is_not_completed_and_sent_away_in_one_plan(profile: str) -> None:
    """It lost a task, and the next cycle has room for that and one who sends the gang away."""
    rules = EvictionRules(within_queue="lower-priority")
    quotas = (Quota("gpu", quota=4000), Quota("pods", quota=100))
    world = cluster("a=2 b=2", policy=Policy(profile=profile))
    world.see(QueuesChanged((Queue("default", quotas=quotas, eviction=rules),)))
    world.run(gang("low", tasks=3), now=0.0)
    world.tasks("low", FAILED, 0).submit(gang("high", tasks=4, priority=1))

    plan = world.cycle(1.0)

    assert sorted(decided(plan)) == [("evict", "low", (1, 2))]
    world.confirm(plan)
    assert sorted(by_workload(world.cycle(2.0))["high"]) == ["a", "a", "b", "b"]


def test_unit_is_not_added_and_sent_away_in_one_plan() -> None:
    world = cluster("a=2 b=2", on("b", ready=False)).run(gang("wide", tasks=2, most=4), now=0.0)
    world.change("b", ready=True).submit(gang("high", tasks=4, priority=1))

    plan = world.cycle(1.0)

    assert [(verb, name) for verb, name, _ in decided(plan)] == [("evict", "wide")]


def test_who_has_not_come_after_all_keeps_its_turn() -> None:
    """It starts, another that has not come after all asks it to leave, and so neither has it.

    It had its turn, and lost its node.
    """
    queues = (Queue("a", quotas=(Quota("gpu", quota=1000),)), Queue("b", order="backfill"))
    world = cluster("a=2 n=2 o=2", policy=Policy(eviction=Eviction(minimum_run_s=())))
    world.see(QueuesChanged(queues)).run(task("due", 2, queue="b"), now=0.0)
    world.run(*(task(name, 2, queue="b", priority=3) for name in ("old", "new")), now=0.0)
    world.run(task("late", 2, queue="b", submitted_at=1.0), now=1.0).leave("a").run(now=2.0)
    assert world.engine.snapshot(2.0).memory.reserved == (("due", ("n",)),)
    world.end("old", "new", "late").submit(
        task("too-big", 4, queue="a", priority=1, submitted_at=2.0),
        task("small", 1, queue="a", submitted_at=3.0),
        task("beyond", 2, queue="b", priority=2, submitted_at=2.5),
    )

    assert by_workload(world.cycle(4.0)) == {"small": ["o"], "beyond": ["n"]}
    assert world.engine.snapshot(4.0).memory.reserved == (("due", ("n",)),)

"""Who claims what: demand, and the shares that follow from it."""

from __future__ import annotations

from dataclasses import replace

from mooring.model.events import QueuesChanged
from mooring.model.queues import Queue
from mooring.model.settings import Defragmentation, Eviction, Policy
from mooring.policy.default.court import DefaultCourt
from tests.build import World, cluster, decided, gang, task

POLICY = Policy(eviction=Eviction(minimum_run_s=()))


def shares(world: World) -> dict[str, int | None]:
    """Return the share of every queue in devices."""
    found = world.engine.standings(world.now)
    return {queue: share for (queue, _, _), (_, share) in found.items() if queue in "ab"}


def demand(world: World) -> dict[str, int]:
    """Return what every queue has and wants, in devices."""
    court = world.engine._court
    assert isinstance(court, DefaultCourt)
    rows = zip(court.desk.tree.names, court.claims.requests(), strict=True)
    return {name: row[0] for name, row in rows if name in "ab"}


def test_exchange_changes_no_share_not_even_while_its_victims_leave() -> None:
    """The work of b that leaves will wait again: meanwhile a has no claim on its share."""
    world = cluster("n=2 m=2 o=2", policy=POLICY).see(QueuesChanged((Queue("a"), Queue("b"))))
    world.run(gang("b1", tasks=2, gpus=2, queue="b"), task("a1", 2, queue="a"), now=0.0)
    world.submit(gang("a2", tasks=2, gpus=2, queue="a"))
    world.submit(task("b2", 2, queue="b", priority=1))
    before = {"a": 3000, "b": 3000}

    plan = world.cycle(1.0)

    assert ("evict", "b1", (0, 1)) in decided(plan)
    assert shares(world) == before, "while it leaves"
    world.confirm(plan).cycle(2.0)
    assert shares(world) == before, "and when it waits"


def test_unit_that_leaves_is_wanted_again_but_no_more_than_may_be() -> None:
    world = cluster("n=4", policy=POLICY).see(QueuesChanged((Queue("a"), Queue("b"))))
    wide = gang("wide", tasks=1, most=4, queue="a")
    world.run(wide, now=0.0)
    world.submit(gang("b1", tasks=4, queue="b"))
    world.submit(task("b2", queue="b"))
    plan = world.cycle(1.0)
    assert decided(plan) == [("evict", "wide", (3,))]
    assert shares(world) == {"a": 2000, "b": 2000}

    world.edit(replace(wide, groups=(replace(wide.groups[0], max=1),))).cycle(2.0)

    assert shares(world) == {"a": 1000, "b": 3000}, "what is leaving does not come back"


def test_work_that_is_moved_is_wanted_once() -> None:
    """It is on its way out in one place, and room is kept for it in another."""
    tidy = replace(POLICY, defragmentation=Defragmentation(automatic=True, ratio=0.0))
    world = cluster("n=2 m=2", policy=tidy).see(QueuesChanged((Queue("a"), Queue("b"))))
    world.adopt(task("a1", queue="a"), {"n": [1]})
    world.adopt(task("a2", queue="a"), {"m": [1]})
    world.submit(task("b1", 2, queue="b"))
    plan = world.cycle(10_000.0)
    moved = [name for verb, name, _ in decided(plan) if verb == "evict"]
    assert len(moved) == 1
    assert demand(world) == {"a": 2000, "b": 2000}

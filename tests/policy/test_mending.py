"""What a gang lost comes back where its queue may be charged, and never through a back door."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.engine import Engine
from mooring.model.events import (
    Event,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    QueuesChanged,
    Submitted,
    WorkloadChanged,
)
from mooring.model.plan import Exhausted, OverQuota, Stopped
from mooring.model.queues import Queue, Quota, ResourceGroup
from mooring.model.settings import Eviction, Policy
from mooring.model.topology import Topology
from mooring.model.workload import TaskState, Workload
from mooring.policy.default.court import DefaultCourt
from tests.build import (
    World,
    binds,
    cluster,
    decided,
    evicts,
    gang,
    node,
    on,
    reasons,
    task,
    used,
)

FINISHED, FAILED = TaskState.FINISHED, TaskState.FAILED
RUNNING, PENDING = TaskState.RUNNING, TaskState.PENDING


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


def test_what_is_lost_of_a_gang_in_one_rack_stays_in_it_whatever_its_slices() -> None:
    """Two and two are to be in one superpod, all in one leaf: the other leaf of it is none."""
    world = cluster("s1/l1: a=3 a1=1 | s1/l2: b=3")
    world.run(gang("g", tasks=4, level="leaf", slices=(("superpod", 2),)), now=0.0)

    assert world.leave("a1").cycle(1.0).decisions == ()
    assert decided(world.join(node("a2", 1, "s1", "l1")).cycle(2.0))


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


STOPS: dict[str, Event] = {
    "run-limit": WorkloadChanged(replace(gang("g", tasks=2, most=3), run_limit_s=50.0)),
    "inactive": WorkloadChanged(replace(gang("g", tasks=2, most=3), active=False)),
    "drain": QueuesChanged((Queue("default", stop="drain"),)),
}


@pytest.mark.parametrize("profile", ["default", "kai", "kueue"])
@pytest.mark.parametrize("stay", [(0,), (0, 1)])
@pytest.mark.parametrize("cause", STOPS)
def test_staying_all_the_same_is_no_way_around_a_stop(
    cause: str, stay: tuple[int, ...], profile: str
) -> None:
    """Of two who were to leave one or both stay: they get nothing, and are asked again later."""
    policy = Policy(profile=profile, eviction=Eviction(notice_s=0.0), gang_grace_s=10.0)
    world = cluster("a=3", policy=policy).run(gang("g", tasks=2, most=3), now=0.0)
    world.tasks("g", FAILED, 2)
    told = world.see(STOPS[cause]).cycle(100.0)
    assert [(each.cause, each.tasks) for each in evicts(told)] == [(cause, (0, 1))]
    for each in (0, 1):
        world.tasks("g", RUNNING if each in stay else PENDING, each)

    for now in (101.0, 120.0, 159.0):
        plan = world.cycle(now)
        assert plan.decisions == ()
        assert plan.wake_at == 160.0
        assert isinstance(reasons(world, "g")[0], Exhausted | Stopped)
    plan = world.cycle(160.0)

    assert [(each.cause, each.tasks) for each in evicts(plan)] == [(cause, stay)]
    world.confirm(plan).cycle(161.0)
    assert isinstance(reasons(world, "g")[0], Exhausted | Stopped)
    world.settles()


def test_running_gang_of_a_held_queue_is_completed() -> None:
    """It has started long ago."""
    world = cluster("a=2").run(gang("g", tasks=2), now=0.0)
    world.see(QueuesChanged((Queue("default", stop="hold"),))).tasks("g", FAILED, 0)

    assert decided(world.cycle(1.0)) == [("bind", "g", (0,))]


def test_run_limit_goes_on_after_all_that_ran_was_lost_for_a_while() -> None:
    """One group is done, the other lost its only node: the clock does not stop for good."""
    policy = Policy(eviction=Eviction(notice_s=0.0), gang_grace_s=1000.0)
    world = cluster("a=1 b=1", policy=policy)
    done, rest = (replace(gang("g").groups[0], name=name) for name in ("done", "rest"))
    world.run(Workload("g", (done, rest), run_limit_s=300.0), now=0.0)
    members = world.engine.entries()["g"].members
    where = world.engine.books.nodes[members["rest"].rows[0]].name
    world.tasks("g", FINISHED, 0, group="done").leave(where)
    world.cycle(100.0)
    world.confirm(world.join(node("c", 1)).cycle(200.0))

    assert world.cycle(250.0).wake_at == 300.0
    assert decided(world.cycle(300.0)) == [("evict", "g", (0,))]


def test_group_of_which_nothing_runs_grows_on_a_flavor_of_its_queue() -> None:
    """What is free is of another flavor, which it may not have."""
    groups = (ResourceGroup(("gpu",), ("H100",)),)
    some = (Quota("gpu", "H100", limit=2000), Quota("gpu", "A100", quota=9000))
    queue = Queue("default", quotas=some, groups=groups)
    world = cluster("a=1 b=4", on("b", model="A100")).see(QueuesChanged((queue,)))
    least = replace(gang("g", gpus=0, cpu=1).groups[0], name="cpu")
    more = replace(gang("g").groups[0], name="gpu", min=0, max=3)

    plan = world.submit(Workload("g", (least, more))).cycle(0.0)

    grown = [bind for bind in binds(plan) if bind.placement.group == "gpu"]
    assert [(bind.placement.nodes, bind.flavor) for bind in grown] == [(("a",), "H100")]
    assert world.engine.books.charged("default")["H100", "gpu"] == 1000


def test_looking_at_the_engine_does_not_change_what_is_asked_of_a_queue() -> None:
    """A fork settles what is known of the nodes; a tie between flavors is not broken by that."""

    def demand(*, looks: bool) -> object:
        queues = (Queue("a", quotas=(Quota("gpu", "H100", quota=1000),)), Queue("b"))
        engine = Engine(Topology(), queues=queues)
        engine.observe(NodeJoined(node("n", 2, model="A100")))
        if looks:
            engine.fork()
        engine.observe(NodeChanged(node("n", 2, model="H100")))
        engine.observe(NodeJoined(node("m", 2, model="A100")))
        engine.snapshot()
        engine.observe(Submitted(task("t", 2, queue="a")))
        court = engine._court
        assert isinstance(court, DefaultCourt)
        assert court.stirs
        return court.claims.requests()

    assert demand(looks=True) == demand(looks=False)


def test_demand_follows_the_nodes_that_come_later() -> None:
    """What a workload is likely to be charged is not what it was when it came."""
    queues = (Queue("a", quotas=(Quota("gpu", "H100", quota=1000),)), Queue("b"))

    def story(*events: Event) -> object:
        engine = Engine(Topology(), queues=queues)
        for event in events:
            engine.observe(event)
            engine.snapshot()
        return engine.decide(10.0).decisions

    joins = [NodeJoined(node("n", 2, model="A100")), NodeJoined(node("m", 4, model="H100"))]
    comes = [
        Submitted(task("a-1", 3, queue="a", submitted_at=1.0)),
        Submitted(task("b-1", 1, queue="b", submitted_at=2.0)),
        Submitted(task("a-2", 1, queue="a", submitted_at=0.0)),
    ]
    assert story(*joins, *comes) == story(*comes, *joins)


def test_group_of_which_nothing_runs_grows_under_kueue_too() -> None:
    least = replace(gang("g", gpus=0, cpu=1).groups[0], name="cpu")
    more = replace(gang("g").groups[0], name="gpu", min=0, max=2)
    world = cluster("a=1", policy=Policy(profile="kueue", undeclared="ignore"))

    world.confirm(world.submit(Workload("g", (least, more))).cycle(0.0)).cycle(1.0)

    assert world.engine.entries()["g"].members["gpu"].holding() == [0]


def test_growth_beside_what_runs_by_node_minds_quota_where_it_is_placed() -> None:
    """The queue came to choose among flavors after it had started: it goes on as it began."""
    world = cluster("a=2 b=2", on("b", model="A100"))
    some = (Quota("gpu", "H100", limit=1000), Quota("gpu", "A100", quota=2000))
    world.run(gang("h", tasks=1, models=["H100"]), now=1.0)
    groups = (ResourceGroup(("gpu",), ("A100", "H100")),)
    world.see(QueuesChanged((Queue("default", quotas=some, groups=groups),)))

    plan = world.edit(gang("h", tasks=1, most=2, models=["H100"])).cycle(2.0)

    assert plan.decisions == ()
    assert reasons(world, "h") == (OverQuota("default", "H100", "gpu", 1000, 0, ever=True),)


def test_kinds_of_nodes_that_are_gone_leave_no_trace() -> None:
    """Nothing is shared that there is none of, whatever there was before."""

    def pairs(*events: Event) -> object:
        engine = Engine(Topology(), queues=(Queue("a"), Queue("b")))
        for event in events:
            engine.observe(event)
            engine.snapshot()
        engine.observe(Submitted(task("t", 4, queue="a")))
        return engine.desk.tree.pairs, engine.decide(1.0)

    new = node("n", 2, model="H100")
    old = [NodeJoined(node("n", 2, model="A100")), NodeJoined(node("m", 2, model="B200"))]
    assert pairs(*old, NodeLeft("m"), NodeChanged(new)) == pairs(NodeJoined(new))


def test_group_that_lost_all_its_nodes_comes_back_on_its_flavor_under_kueue() -> None:
    """There is room of another flavor, of which the queue has had all that it may."""
    some = (Quota("gpu", "H100", quota=1000, limit=1000), Quota("gpu", "A100", quota=1000))
    groups = (ResourceGroup(("gpu",), ("H100", "A100")),)
    policy = Policy(profile="kueue", undeclared="ignore")
    world = cluster("a=1 b=1 c=1", on("b", model="A100"), policy=policy)
    world.see(QueuesChanged((Queue("default", quotas=some, groups=groups),)))
    one, two = (replace(gang("g").groups[0], name=name) for name in ("one", "two"))
    world.run(Workload("g", (one, two)), now=0.0)
    assert used(world) in ("a=1/1 b=1/1 c=0/1", "a=0/1 b=1/1 c=1/1")

    assert world.leave("b").cycle(1.0).decisions == ()
    plan = world.join(node("d", 1, model="A100")).cycle(2.0)

    assert [(bind.placement.nodes, bind.flavor) for bind in binds(plan)] == [(("d",), "A100")]

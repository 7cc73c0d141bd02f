"""Room that is kept for one for whom others leave: it starts there, or waits again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.events import PolicyChanged, QueuesChanged, TasksChanged
from mooring.model.memory import Held, Memory
from mooring.model.plan import Leaving, NoRoom, Reserve, Stopped
from mooring.model.queues import DEFAULT_QUEUE, Queue, Quota
from mooring.model.settings import Eviction, Policy
from mooring.model.workload import Placement, Shape, SpreadTerm, TaskState, TaskTerm, Workload
from tests.build import (
    On,
    World,
    by_workload,
    cluster,
    decided,
    devices,
    gang,
    gpus,
    group,
    node,
    on,
    reasons,
    shape,
    task,
    workload,
)

RUNNING, RELEASING, PENDING = TaskState.RUNNING, TaskState.RELEASING, TaskState.PENDING
HOLD_S = Policy().eviction.hold_s


def preempted(text: str = "a=2", big: int = 2) -> World:
    """Return a world in which `high` waits for the room of `low`, which is on its way out."""
    world = cluster(text).run(task("low", big), now=0.0)
    plan = world.submit(task("high", big, priority=1)).cycle(1.0)
    assert decided(plan) == [("evict", "low", (0,))]
    assert reasons(world, "high") == (Leaving(("low",)),)
    return world


def check_books(world: World) -> None:
    """What is held is free or on its way out."""
    books = world.engine.books
    assert (books.held >= 0).all()
    assert (books.open + books.releasing >= 0).all()


def test_room_is_kept_until_the_victim_has_left() -> None:
    world = preempted()
    world.submit(task("small", 2)).cycle(2.0)

    plan = world.tasks("low", PENDING, 0).cycle(3.0)

    assert by_workload(plan) == {"high": ["a"]}
    world.settles()


def test_one_whose_room_does_not_come_free_in_time_waits_as_before() -> None:
    """It must not be forgotten: it starts as soon as there is room."""
    world = preempted()

    world.cycle(1.0 + HOLD_S)

    assert world.engine.waiting() == ["high"]
    assert isinstance(reasons(world, "high")[0], NoRoom)
    assert by_workload(world.tasks("low", PENDING, 0).cycle(200.0)) == {"high": ["a"]}
    world.settles()


def test_refused_eviction_gives_the_room_back() -> None:
    """What stays after all is not kept for another; the other asks again."""
    world = preempted()

    world.tasks("low", RUNNING, 0)

    check_books(world)
    assert world.engine.books.holds == {}
    assert decided(world.cycle(2.0)) == [("evict", "low", (0,))]


def test_lost_node_takes_the_room_that_was_kept_there_with_it() -> None:
    world = preempted("a=2 b=1")

    world.leave("a")

    assert by_workload(world.cycle(2.0)) == {}
    assert set(world.engine.waiting()) == {"high", "low"}
    assert by_workload(world.join(node("c", 2)).cycle(3.0)) == {"high": ["c"]}
    world.settles()


def test_node_that_stops_being_ready_keeps_no_room() -> None:
    world = preempted().change("a", ready=False).tasks("low", PENDING, 0)

    assert world.cycle(2.0).decisions == ()
    assert by_workload(world.change("a", ready=True).cycle(3.0)) == {"high": ["a"]}


def test_node_that_loses_a_device_keeps_no_room_on_it() -> None:
    world = preempted()

    world.change("a", devices=gpus(2, bad=[1])).tasks("low", PENDING, 0)

    assert by_workload(world.cycle(2.0)) == {}
    assert world.engine.waiting() == ["high", "low"]


def test_node_of_which_something_else_changes_keeps_its_room() -> None:
    world = preempted().change("a", labels={"rack": "7"})
    world.cycle(2.0)

    assert reasons(world, "high") == (Leaving(("low",)),)
    assert by_workload(world.tasks("low", PENDING, 0).cycle(3.0)) == {"high": ["a"]}


def test_node_that_becomes_another_flavor_keeps_no_room() -> None:
    """It was charged to a flavor that the node no longer has."""
    world = preempted()

    world.change("a", model="A100")
    world.cycle(2.0)

    assert world.engine.books.charged("default") == {}
    assert world.engine.waiting() == ["high"]


def test_stopped_queue_keeps_no_room() -> None:
    world = preempted()

    world.see(QueuesChanged((replace(DEFAULT_QUEUE, stop="hold"),))).tasks("low", PENDING, 0)

    assert world.cycle(2.0).decisions == ()
    assert reasons(world, "high") == (Stopped("default"),)


def test_charge_of_kept_room_follows_an_edit_of_the_queues() -> None:
    """Pairs are numbered anew; what is held is charged by the new numbers."""
    world = preempted()
    some = (Quota("cpu", quota=1), Quota("gpu", "H100", quota=1000), Quota("gpu", quota=2000))

    world.see(QueuesChanged((Queue("default", quotas=some), Queue("other"))))

    desk = world.engine.desk
    assert desk.holds["high"].size == {1: 2000, 2: 2000}
    assert desk.books.usage.tolist()[0] == [0, 2000, 2000]


def test_slices_that_are_on_their_way_out_are_given_to_one_only() -> None:
    """A MIG instance that is kept for another is not open to a third."""
    world = cluster("a=1", on("a", devices=gpus(1, mig="a100-40gb")))
    half: Shape = shape(mig="3g.20gb")
    first = replace(gang("low", tasks=2), groups=(replace(gang("x").groups[0], shape=half, min=2),))
    one = replace(gang("x").groups[0], shape=half)
    world.run(first, now=0.0)
    high = replace(workload("high", one), priority=1)

    plan = world.submit(high, workload("third", one)).cycle(1.0)

    assert [d for d in plan.decisions if isinstance(d, Reserve)]
    assert by_workload(plan) == {}
    plan = world.tasks("low", PENDING, 0, 1).cycle(2.0)
    assert set(by_workload(plan)) == {"high", "third"}
    assert devices(plan)[0] != devices(plan)[1]


def test_kept_room_is_looked_at_again_before_it_is_used() -> None:
    """Meanwhile someone came to the node who cannot bear its company."""
    apart = TaskTerm("node", (("app", "x"),))
    world = cluster("a=4").run(task("low", 2), now=0.0)
    high = gang("high", gpus=4, priority=1, labels={"app": "x"})
    low = gang("shy", gpus=0, apart=[apart])
    world.submit(high).cycle(1.0)
    world.submit(low)
    world.confirm(world.cycle(2.0))

    plan = world.tasks("low", PENDING, 0).cycle(3.0)

    assert decided(plan) == [("evict", "shy", (0,))]


X, Y = (("app", "x"),), (("app", "y"),)
LEVEL = gang("high", tasks=4, labels=dict(X), spread=[SpreadTerm("node", X)])
PAIR = workload(
    "high",
    group("x", labels=dict(X), near=[TaskTerm("node", Y)]),
    group("y", labels=dict(Y), near=[TaskTerm("node", X)]),
)


@pytest.mark.parametrize(
    ("text", "facts", "high"),
    [
        ("r1: a=2 b=2 | r2: z=1", [], LEVEL),  # found all at once: a, a, b, z
        ("a=2 z=2 c=1", [on("c", model="A100")], LEVEL),  # level on the nodes of its flavor
        ("z=2", [], PAIR),  # each is there for the other
    ],
)
def test_kept_room_will_do_if_all_who_it_is_for_have_company_there(
    text: str, facts: list[On], high: Workload
) -> None:
    """Who comes first of them does not matter. Another, who goes before it, does not get it."""
    world = cluster(text, *facts, on("z", labels={"name": "z"}))
    world.run(task("low", selector={"name": "z"}), now=0.0)
    plan = world.submit(replace(high, priority=1)).cycle(1.0)
    assert decided(plan)[0] == ("evict", "low", (0,))

    world.submit(task("late", priority=2, selector={"name": "z"}))
    plan = world.tasks("low", PENDING, 0).cycle(2.0)

    assert set(by_workload(plan)) == {"high"}


def test_what_leaves_by_itself_is_no_victim() -> None:
    """The line of those who run forgets a task as soon as it is on its way out."""
    world = cluster("a=2").run(task("low", 2), now=0.0)
    world.see(TasksChanged("low", "main", (0,), RELEASING))
    fork = world.engine.fork()

    plan = world.submit(task("high", 2, priority=1)).cycle(1.0)

    assert plan.decisions == ()
    fork.observe(TasksChanged("low", "main", (0,), RUNNING))
    assert fork.decide(1.0).decisions == ()


def test_nobody_starts_and_leaves_in_one_plan() -> None:
    """A head that cannot start lets another queue go first, and the next one displaces that."""
    quotas = (Quota("gpu", quota=1000),)
    rules = (Queue("a", quotas=quotas), Queue("b"))
    world = cluster("n=2").see(QueuesChanged(rules))
    policy = Policy(eviction=Eviction(minimum_run_s=()))
    world.see(PolicyChanged(policy))
    world.submit(
        task("too-big", 4, queue="a", priority=1, submitted_at=0.0),
        task("small", 1, queue="a", submitted_at=1.0),
        task("beyond", 2, queue="b", priority=2, submitted_at=0.5),
    )

    plans = [world.cycle(2.0)]
    for now in (3.0, 4.0, 5.0):
        world.confirm(plans[-1])
        plans.append(world.cycle(now))

    for plan in plans:
        verbs = [(name, verb) for verb, name, _ in decided(plan)]
        assert len({name for name, _ in verbs}) == len(verbs)
    assert world.engine.running() == ["small"]
    assert set(world.engine.waiting()) == {"too-big", "beyond"}
    world.settles()


def test_room_that_was_kept_for_more_than_a_minimum_of_nothing_is_given_up_over_a_restart() -> None:
    """Such room is found again in a moment; who has nothing that it must have starts anyway."""
    held = Held("empty", (Placement("main", (0,), ("a",), (1,)),), 100.0)
    world = cluster("a=2", memory=Memory(holds=(held,)))

    plan = world.submit(gang("empty", tasks=0, most=1)).cycle(1.0)

    assert decided(plan) == [("bind", "empty", (0,))]

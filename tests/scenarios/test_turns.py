"""Rights and turns: who may ask another queue for room, and when, where queues backfill."""

from __future__ import annotations

from dataclasses import replace

from mooring.engine import Engine
from mooring.model.events import Ended, NodeLeft, WorkloadChanged
from mooring.model.memory import Memory, ShadowRun
from mooring.model.settings import Backfill, Headroom, Policy
from mooring.model.workload import NEVER_S, Placement
from tests.build import World, evicts, gang, on, picture, task
from tests.scenarios.story import Left, Story, queue

HOUR, DAY = 3600.0, 86_400.0
RED = queue("red", 4, order="backfill")
BLUE = queue("blue", 4, order="backfill")


def borrowed(large: int, runs: float = 600, policy: Policy = Policy()) -> Story:
    """Return how blue borrows what red does not use, and red then asks for so many, if any."""
    story = Story("a=8", RED, BLUE, policy=policy).at(0, task("own", 2, queue="red"))
    story.at(0, task("long", 4, queue="blue")).at(1, task("borrows", 2, queue="blue"), runs=runs)
    return story.at(10, task("large", large, queue="red")) if large else story


def test_who_is_first_in_line_has_its_quota_back_at_once() -> None:
    story = Story("a=8", RED, BLUE)
    story.at(0, task("long", 4, queue="blue")).at(1, task("borrows", 4, queue="blue"))

    story.at(10, task("mine", 4, queue="red")).go(20)

    assert story.left() == [Left(10, "borrows", "quota", "mine")]
    assert story.running() == ["long", "mine"]
    story.rests()


def test_who_passes_another_takes_what_is_free_and_makes_nobody_of_another_queue_leave() -> None:
    """In strict order it would not be there yet: it starts when the first two are free."""
    story = borrowed(4).at(20, task("small", 2, queue="red")).go(1000)

    assert story.left() == []
    assert story.starts("small") == [601]
    story.rests()


def test_one_that_asks_for_more_than_its_share_does_not_cost_those_behind_it_their_quota() -> None:
    """It has no right that they would use in its place; for an hour they wait for what is free."""
    story = borrowed(6, runs=9000).at(20, task("small", 2, queue="red")).go(4000)

    assert story.left() == [Left(3620, "borrows", "quota", "small")]
    assert story.running() == ["long", "own", "small"]
    story.rests()


def test_who_has_just_left_for_another_has_no_turn_before_those_who_come_later() -> None:
    """It wants all nodes and borrowed half of them: they were closed for it, and stood idle."""
    quotas = queue("red", 16, order="backfill"), queue("blue", 16, order="backfill")
    story = Story("a=8 b=8 c=8 d=8", *quotas, grace_s=10.0)
    story.at(0, gang("large", tasks=4, gpus=8, queue="red"), runs=3600)
    story.at(100, task("small", 1, queue="blue"), runs=7200)

    story.at(200, task("later", 8, queue="blue"), runs=600).go(300)

    assert story.left() == [Left(100, "large", "quota", "small")]
    assert story.starts("later") == [200]
    story.rests()


def test_without_patience_they_have_it_at_once() -> None:
    policy = Policy(backfill=Backfill(patience_s=0.0))
    story = borrowed(6, policy=policy).at(20, task("small", 2, queue="red")).go(30)

    assert story.left() == [Left(20, "borrows", "quota", "small")]


def test_one_that_wants_other_nodes_does_not_cost_those_behind_it_their_quota() -> None:
    red = queue("red", {"H100": 4, "A10": 4}, order="backfill")
    blue = queue("blue", {"H100": 0, "A10": 4}, order="backfill")
    story = Story("h=4 a=8", red, blue, facts=[on("a", model="A10")])
    story.at(0, task("own", 2, queue="red", models=["H100"]))
    story.at(0, task("long", 4, queue="blue", models=["A10"]))
    story.at(1, task("borrows", 4, queue="blue", models=["A10"]))
    story.at(10, task("large", 4, queue="red", models=["H100"]))

    story.at(20, task("small", 2, queue="red", models=["A10"])).go(30)

    assert story.left() == [Left(20, "borrows", "quota", "small")]


def test_when_the_one_before_is_gone_the_next_has_its_quota_at_once() -> None:
    story = borrowed(4).at(20, task("small", 2, queue="red")).tell(30, Ended("large")).go(40)

    assert story.left() == [Left(30, "borrows", "quota", "small")]
    assert story.running() == ["long", "own", "small"]


def test_a_higher_priority_asks_its_own_queue_before_its_turn() -> None:
    """Both start before `large`, whose turn would be first: that is no matter of other queues."""
    story = Story("a=8", RED, BLUE)
    story.at(0, task("long", 6, queue="blue"), task("fixed", 1, queue="red", priority=5))
    story.at(10, task("large", 4, queue="red", priority=5)).at(20, task("low", queue="red"))

    story.at(30, task("high", queue="red", priority=4)).go(40)

    assert story.left() == [Left(30, "low", "preempt", "high")]
    story.rests()


def test_nobody_waits_for_its_quota_for_longer_than_a_day() -> None:
    """What red runs never ends, so that there never is quota for all of `large`."""
    story = borrowed(4, runs=10 * DAY).at(20, task("small", 2, queue="red")).go(2 * DAY)

    assert story.left() == [Left(DAY + 20, "borrows", "quota", "small")]
    story.rests()


def test_one_that_asks_nobody_to_leave_keeps_no_rights_from_those_behind_it() -> None:
    story = borrowed(0)
    story.at(10, replace(task("calm", 4, queue="red"), preemption_delay_s=NEVER_S))

    story.at(20, task("small", 2, queue="red")).go(30)

    assert story.left() == [Left(20, "borrows", "quota", "small")]


def test_when_the_one_with_rights_is_gone_the_others_are_waited_for_no_longer_than_else() -> None:
    story = borrowed(4, runs=DAY).at(11, task("too large", 6, queue="red"))

    story.at(20, task("small", 2, queue="red")).tell(30, Ended("large")).loop.run(DAY / 2)

    assert story.left() == [Left(HOUR + 20, "borrows", "quota", "small")]


def test_shares_that_change_change_whom_one_is_behind() -> None:
    """Green wants everything: what `large` asks for is more than the share of red from then on."""
    story = Story("a=12", RED, BLUE, queue("green", 0, order="backfill"))
    story.at(0, task("own", 2, queue="red"), task("long", 4, queue="blue"))
    story.at(1, task("borrows", 6, queue="blue")).at(10, task("large", 6, queue="red"))
    story.at(20, task("small", 2, queue="red")).at(5000, task("more", 12, queue="green"))

    story.loop.run(DAY / 2)

    assert story.starts("small") == [5000]


def test_promised_room_is_had_before_ones_turn() -> None:
    policy = Policy(headroom=(Headroom("red", 4, 60.0),))
    red, blue = (queue(name, 0, order="backfill") for name in ("red", "blue"))
    story = Story("a=8", red, blue, policy=policy).at(0, task("own", 2, queue="red"))
    story.at(0, task("long", 4, queue="blue")).at(1, task("guest", 2, queue="blue"))

    story.at(10, task("large", 4, queue="red")).at(20, task("small", 2, queue="red")).go(30)

    assert story.left() == [Left(20, "guest", "headroom", "small")]


def test_a_priority_that_falls_is_noticed_by_one_whose_turn_has_not_come() -> None:
    story = Story("a=8", RED, BLUE).at(0, task("long", 6, queue="blue"))
    story.at(0, *(task(name, queue="red", priority=4) for name in ("fixed", "low")))
    story.at(10, task("large", 4, queue="red", priority=4))
    story.at(20, task("high", queue="red", priority=4))

    story.tell(30, WorkloadChanged(task("low", queue="red"))).go(50)

    assert story.left()[0] == Left(30, "low", "preempt", "high")


def test_strict_order_takes_back_what_is_protected_when_it_no_longer_is() -> None:
    """In the shadow `ghost` runs on, who is over in reality; its queue has no quota."""
    eviction = replace(Policy().eviction, minimum_run_s=(("fair-share", 900.0), ("quota", 900.0)))
    topology, nodes = picture("a=4")
    there = Placement("main", (0,), ("a",), (0b1111,))
    head = task("head", 4, queue="red", submitted_at=5.0)
    early = task("early", 2, queue="red", submitted_at=6.0)
    runs = (
        ShadowRun(task("ghost", 4, queue="blue"), 10.0, (there,), ran_s=5000.0),
        *(ShadowRun(each) for each in (head, early)),
    )
    memory = Memory(shadow=runs, overtakers=("early",))
    queues = RED, queue("blue", 0, order="backfill")
    world = World(Engine(topology, Policy(eviction=eviction), memory, queues)).join(*nodes)
    world.adopt(early, {"a": [0b11]}).submit(head)

    assert world.cycle(20.0).wake_at == 910.0
    plan = world.cycle(910.0)

    assert [(each.workload, each.cause, each.beneficiary) for each in evicts(plan)] == [
        ("early", "overtaker", "head")
    ]
    assert world.engine.shadow_starts() == {"head": 910.0}


def test_who_loses_a_node_in_the_shadow_keeps_its_turn() -> None:
    story = Story("a=4 b=4 c=4", RED, BLUE)
    story.at(0, gang("pair", tasks=2, gpus=4, queue="blue"), task("other", 4, queue="blue"))
    story.at(5, task("waits", 8, queue="blue")).tell(100, NodeLeft("b")).go(200)

    assert story.engine.shadow_starts()["pair"] == 0


def two_leave() -> Story:
    """Return how red takes its quota back from the first of two that wait in turn for blue."""
    story = Story("a=8", RED, BLUE)
    story.at(0, task("first", 4, queue="blue"), task("second", 4, queue="blue"), runs=1000)
    return story.at(5, task("third", 8, queue="blue"))


def test_strict_order_itself_takes_quota_back_so_that_turns_come_as_they_would_there() -> None:
    """`mine` has its turn in the shadow too, and who had to leave there waits for another one."""
    story = two_leave().at(100, task("mine", 4, queue="red"), runs=200).go(110)

    turns = story.engine.shadow_starts()
    assert story.left() == [Left(100, "second", "quota", "mine")]
    assert turns == {"first": 0, "mine": 100}


def test_what_had_to_leave_in_the_shadow_ends_there_after_what_was_left_of_it() -> None:
    """It ran 100 of 1,000 s when `mine` came for 200 s: `third` has its turn when both are done."""
    story = two_leave().at(100, task("mine", 4, queue="red"), runs=200).go(110)

    (run,) = [run for run in story.engine.memory().shadow if run.workload.name == "second"]

    assert (run.started_at, run.done_s) == (None, 100.0)
    assert story.go(3000).starts("third") == [1300]

"""Elastic work that runs asks others to leave for one more unit, by the rights of its queue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.config import dump_scenario, read_scenario
from mooring.engine import Engine
from mooring.model.events import Ended, NodeJoined, TasksChanged, WorkloadChanged
from mooring.model.plan import Bind, Evict, Leaving, OverQuota, Reserve
from mooring.model.queues import EvictionRules
from mooring.model.settings import Backfill, Eviction, Policy
from mooring.model.workload import TaskState
from tests.build import gang, on, service, task
from tests.scenarios.story import Left, Story, minimum_runs, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload

AT_ONCE = Policy(eviction=Eviction(**minimum_runs(fair_share=0, leximin=0)))
"""Nobody is protected because it has just begun."""


def web(least: int, most: int, team: str = "serving", name: str = "web") -> Workload:
    """Return a service with so many replicas at least, and at most."""
    return service(name, least, most=most, queue=team)


def scale(story: Story, at: float, workload: Workload) -> Story:
    """Let somebody ask for another size of a workload then."""
    return story.tell(at, WorkloadChanged(workload))


def one_by_one(count: int, team: str = "training") -> list[Workload]:
    """Return so many tasks of one device each."""
    return [task(f"train-{i}", 1, queue=team) for i in range(count)]


def test_who_could_not_be_charged_for_more_waits_for_quota_though_room_is_missing_too() -> None:
    """More nodes would be no help."""
    org = queue("org", 8, limit=8)
    a, b = queue("serving", 4, parent="org"), queue("training", 4, parent="org")
    story = Story("a=8", org, a, b).at(0, gang("train", tasks=4, queue="training"))
    story.at(10, web(4, 6)).go(20)

    assert story.why("web") == (OverQuota("org", "", "gpu", 1000, 0),)


# -- within quota ---------------------------------------------------------------------------------


def test_it_takes_one_borrowed_device_back_after_the_other() -> None:
    """Each unit waits for one to leave, who has 30 seconds; then comes the next."""
    story = Story("a=8", queue("training"), queue("serving", 6), grace_s=30)
    story.at(0, web(2, 2)).at(10, *one_by_one(6)).go(20)
    assert sum(story.sizes().values()) == 8

    scale(story, 100, web(2, 6)).go(120)
    assert story.why("web") == (Leaving(("train-5",)),)
    story.go(5000)

    assert story.sizes() == {"train-0": 1, "train-1": 1, "web": 6}
    assert story.left() == [Left(100 + 30 * i, f"train-{5 - i}", "quota", "web") for i in range(4)]
    assert story.starts("web") == [0, 130, 160, 190, 220]
    story.rests()


def test_it_does_not_grow_at_the_cost_of_anybody_beyond_its_share() -> None:
    """Both have what is theirs: eight devices, four each. What ends is free for all."""
    story = Story("a=8", queue("red"), queue("blue"), policy=AT_ONCE)
    story.at(0, *one_by_one(4, "red"), web(4, 4, "blue")).go(10)
    scale(story, 100, web(4, 8, "blue")).go(5000)

    assert story.sizes()["web"] == 4
    assert story.left() == []
    story.rests()

    story.tell(6000, Ended("train-0")).go(6100)
    assert story.sizes()["web"] == 5
    assert story.left() == []
    story.rests()


def test_it_does_not_take_what_the_quota_of_another_covers() -> None:
    story = Story("a=8", queue("training", 4), queue("serving", 4), policy=AT_ONCE)
    story.at(0, *one_by_one(4), web(4, 8)).go(5000)

    assert story.sizes()["web"] == 4
    assert story.left() == []
    story.rests()


def test_a_queue_that_does_not_reclaim_does_not_grow_so_either() -> None:
    never = EvictionRules(reclaim="never")
    story = Story("a=4", queue("training"), queue("serving", 4, eviction=never))
    story.at(0, web(1, 1)).at(10, *one_by_one(3)).go(20)
    scale(story, 100, web(1, 4)).go(200)

    assert story.sizes()["web"] == 1
    assert story.left() == []
    story.rests()


# -- coming to rest -------------------------------------------------------------------------------


@pytest.mark.parametrize("grace", [0, 30])
@pytest.mark.parametrize("first", ["red", "blue"])
def test_two_services_of_equal_weight_come_to_rest(first: str, grace: float) -> None:
    """One has everything when the other comes: units change hands until both have five."""
    second = "blue" if first == "red" else "red"
    story = Story("a=10", queue("red"), queue("blue"), policy=AT_ONCE, grace_s=grace)
    story.at(0, web(1, 10, first, first)).go(10)
    assert story.sizes() == {first: 10}

    story.at(100, web(1, 10, second, second)).go(5000)

    assert story.sizes() == {"blue": 5, "red": 5}
    assert len(story.left(first)) == 5
    assert story.left(second) == []
    story.rests()


def test_it_comes_to_rest_where_nothing_can_be_divided_evenly() -> None:
    """Nine devices, three queues, units of two: nobody takes from one that has no more."""
    story = Story("a=9", *(queue(name) for name in "rgb"), policy=AT_ONCE, grace_s=5)
    for i, name in enumerate("rgb"):
        story.at(100 * i, gang(name, tasks=1, most=4, gpus=2, queue=name))
    story.go(5000)

    assert sorted(story.sizes().values()) == [1, 1, 2]
    before = len(story.left())
    story.go(20_000)
    assert len(story.left()) == before
    story.rests()


def test_fair_share_lets_what_has_just_begun_run_for_a_while() -> None:
    """A quarter of an hour by default; units are as old as their workload."""
    story = Story("a=4", queue("red"), queue("blue"))
    story.at(0, web(1, 4, "red", "r")).go(10)
    scale(story, 20, web(1, 1, "red", "r"))
    story.at(20, web(1, 1, "blue", "b")).go(30)
    scale(story, 40, web(1, 4, "red", "r")).go(50)
    assert story.sizes() == {"b": 1, "r": 3}

    scale(story, 60, web(1, 4, "blue", "b")).go(899)
    assert story.sizes() == {"b": 1, "r": 3}

    story.go(1000)
    assert story.sizes() == {"b": 2, "r": 2}
    assert story.left("r")[-1] == Left(900, "r", "fair-share", "b")
    story.rests()


# -- its own queue --------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [0, 1])
def test_it_takes_no_minimum_of_its_own_queue(priority: int) -> None:
    """Minima are served before growth, whatever their priority."""
    story = Story("a=4", queue("team", 4), policy=AT_ONCE)
    story.at(0, replace(web(2, 2, "team"), priority=priority), *one_by_one(2, "team")).go(10)
    scale(story, 100, replace(web(2, 4, "team"), priority=priority)).go(5000)

    assert story.sizes() == {"train-0": 1, "train-1": 1, "web": 2}
    assert story.left() == []
    story.rests()


@pytest.mark.parametrize("priority", [0, 1])
def test_it_takes_units_of_lower_priority_only(priority: int) -> None:
    """Of two services of one queue the more important one gets the devices above the minima."""
    story = Story("a=8", queue("team", 8), queue("other"))
    story.at(0, web(2, 2, "team"), web(2, 6, "team", "low")).go(10)
    assert story.sizes() == {"low": 6, "web": 2}

    scale(story, 100, replace(web(2, 8, "team"), priority=priority)).go(5000)

    assert story.sizes() == ({"low": 2, "web": 6} if priority else {"low": 6, "web": 2})
    assert {(each.cause, each.beneficiary) for each in story.left()} == (
        {("preempt", "web")} if priority else set()
    )
    story.rests()


# -- where it may be ------------------------------------------------------------------------------


def test_slices_grow_as_whole_slices() -> None:
    """Slices of two on one node each: two leave at a time, of the same node."""
    story = Story("a=4 b=4", queue("training"), queue("serving", 8), grace_s=10)
    small = gang("web", tasks=2, slices=[("node", 2)], queue="serving")
    story.at(0, small).at(10, *one_by_one(6)).go(20)
    assert sum(story.sizes().values()) == 8
    where = {f"train-{i}": story.nodes(f"train-{i}")[0] for i in range(6)}
    sizes: dict[int, None] = {}
    story.loop.listen(lambda now, events, plan: sizes.update({story.sizes()["web"]: None}))

    scale(story, 100, gang("web", tasks=2, most=6, slices=[("node", 2)], queue="serving")).go(5000)

    assert list(sizes) == [2, 4, 6]
    nodes = story.nodes("web")
    assert all(nodes[i] == nodes[i + 1] for i in range(0, 6, 2))
    assert [(each.at, each.cause) for each in story.left()] == [
        (100, "quota"), (100, "quota"), (110, "quota"), (110, "quota"),
    ]  # fmt: skip
    left = [where[each.workload] for each in story.left()]
    assert left == nodes[2:]
    story.rests()


def test_it_stays_in_the_domain_of_its_group() -> None:
    """Younger guests on the other rack would be cheaper, but they are of no use."""
    story = Story("r1: a=4 | r2: b=4", queue("training"), queue("serving", 8))
    story.at(0, gang("web", tasks=2, level="rack", queue="serving")).go(5)
    here = story.nodes("web")[0]
    story.at(10, *one_by_one(2)).go(20)
    story.at(30, *(task(f"late-{i}", 1, queue="training") for i in range(4))).go(40)
    scale(story, 100, gang("web", tasks=2, most=8, level="rack", queue="serving")).go(5000)

    assert story.nodes("web") == [here] * 4
    assert len(story.left()) == 2
    assert story.sizes()["web"] == 4
    story.rests()


@pytest.mark.parametrize(
    ("most", "level", "outside"), [(8, "", 0), (12, "", 4), (12, "rack", 0)], ids=str
)
def test_a_service_spreads_inside_its_domain_while_that_has_room(
    most: int, level: str, outside: int
) -> None:
    """Then it goes on in another, unless it may not."""
    policy = Policy(spread_within="rack")
    story = Story("r1: a=4 b=4 | r2: c=4 d=4", queue("serving", 16), policy=policy)
    small = service("web", 2, level=level, queue="serving")
    story.at(0, small).go(5)
    rack = "ab" if story.nodes("web")[0] in "ab" else "cd"
    assert sorted(story.nodes("web")) == list(rack)
    scale(story, 100, service("web", 2, most=most, level=level, queue="serving")).go(5000)

    assert len([node for node in story.nodes("web") if node not in rack]) == outside
    assert len([node for node in story.nodes("web") if node in rack]) == 8
    story.rests()


def test_it_stays_on_the_flavor_of_its_group() -> None:
    """The quota is for H100s; nobody on an A10 has to leave."""
    queues = queue("training"), queue("serving", {"H100": 4, "A10": 0})
    story = Story("h=4 a=4", *queues, facts=[on("a", model="A10")])
    story.at(0, gang("web", tasks=1, models=["H100"], queue="serving")).go(5)
    story.at(10, *one_by_one(7)).go(20)
    on_a10 = [name for name in story.running() if story.nodes(name) == ["a"]]
    assert len(on_a10) == 4
    larger = gang("web", tasks=1, most=8, models=["H100"], queue="serving")
    scale(story, 100, larger).go(5000)

    assert story.nodes("web") == ["h"] * 4
    assert story.left(*on_a10) == []
    story.rests()


# -- what may happen meanwhile --------------------------------------------------------------------


def growing(grace_s: float = 60) -> Story:
    """Return a service that waits for its third replica, at time 110."""
    story = Story("a=4", queue("training"), queue("serving", 4), grace_s=grace_s)
    story.at(0, web(2, 2)).at(10, *one_by_one(2)).go(20)
    scale(story, 100, web(2, 4)).go(110)
    assert story.left() == [Left(100, "train-1", "quota", "web")]
    assert story.sizes() == {"train-0": 1, "web": 2}
    return story


def test_a_restart_keeps_the_room_for_the_unit() -> None:
    """One who would take the device is there; the device goes to the unit, and nobody else leaves.

    The one that leaves needs no second eviction.
    """
    before = growing()
    scenario = read_scenario(dump_scenario(before.engine.snapshot(110)))
    assert [held.workload for held in scenario.memory.holds] == ["web"]
    engine = Engine(scenario.topology, scenario.policy, scenario.memory, scenario.queues)
    for node in scenario.nodes:
        engine.observe(NodeJoined(node))
    for running in scenario.running:
        engine.observe(running)
    assert engine.decide(120).decisions == ()
    assert engine.reasons("web") == (Leaving(("train-1",)),)

    engine.observe(TasksChanged("train-1", "main", (0,), TaskState.PENDING, 160))
    decisions = engine.decide(160).decisions
    assert [(d.workload, d.placement.tasks) for d in decisions if isinstance(d, Bind)] == [
        ("web", (2,))
    ]
    assert [d.workload for d in decisions if isinstance(d, Evict)] == ["train-0"]
    assert [d.workload for d in decisions if isinstance(d, Reserve)] == ["web"]


def test_a_fork_goes_the_same_way() -> None:
    story = growing()
    fork = story.engine.fork()
    for engine in (fork, story.engine):
        engine.observe(TasksChanged("train-1", "main", (0,), TaskState.PENDING, 120))
    assert fork.decide(120) == story.engine.decide(120)


def test_who_asks_for_less_again_opens_the_room() -> None:
    """The one that leaves comes back when it is gone."""
    story = growing()
    scale(story, 120, web(2, 2)).go(200)

    assert story.sizes() == {"train-0": 1, "train-1": 1, "web": 2}
    assert len(story.left()) == 1
    story.rests()


def test_a_workload_that_ends_opens_the_room() -> None:
    story = growing()
    story.tell(120, Ended("web")).go(200)

    assert story.sizes() == {"train-0": 1, "train-1": 1}
    story.rests()


def test_a_gang_that_loses_tasks_is_mended_before_it_grows() -> None:
    """Its minimum comes first; then it grows on, and no task is started twice."""
    story = growing()
    story.tell(120, TasksChanged("web", "main", (0,), TaskState.FAILED, 120)).go(5000)

    assert story.sizes() == {"web": 4}
    assert sorted(story.nodes("web")) == ["a"] * 4
    story.rests()


def test_the_minimum_of_another_is_served_before_a_unit() -> None:
    """One device is lent, and two want it within quota: the one that has nothing gets it."""
    story = Story("a=4", queue("training"), queue("serving", 4))
    story.at(0, web(1, 1), web(2, 2, name="shop")).at(10, *one_by_one(1)).go(20)
    story.at(100, web(1, 1, name="new"))
    scale(story, 100, web(1, 4)).go(200)

    assert story.left() == [Left(100, "train-0", "quota", "new")]
    assert story.sizes() == {"new": 1, "shop": 2, "web": 1}
    story.rests()


def test_growth_asks_no_overtakers() -> None:
    """Who has started before its turn makes room for those whose turn has come, not for units."""
    policy = Policy(backfill=Backfill(quantum_s=10.0))
    story = Story("a=4", queue("team", 4, order="backfill"), policy=policy)
    story.at(0, web(1, 1, "team")).at(0, task("long", 2, queue="team"))
    story.at(10, task("wide", 4, queue="team"))
    story.at(20, replace(task("fill", 1, queue="team"), estimate_s=5000.0)).go(30)
    assert story.sizes() == {"fill": 1, "long": 1, "web": 1}
    scale(story, 100, web(1, 4, "team")).go(1000)

    assert story.sizes() == {"fill": 1, "long": 1, "web": 1}
    assert story.left() == []

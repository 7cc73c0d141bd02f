"""Elastic work: it grows into what is free, and shrinks before anybody is killed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.model.plan import Bind, Blocked, OverQuota
from mooring.model.queues import ResourceGroup
from tests.build import gang, on, task
from tests.scenarios.story import Left, Story, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload


def elastic(name: str, least: int, most: int, team: str = "default") -> Workload:
    """Return a workload that runs with so many devices at least, and at most."""
    return gang(name, tasks=least, most=most, queue=team)


# -- growing ------------------------------------------------------------------------------------


def test_it_grows_one_unit_at_a_time_in_fair_order_between_queues() -> None:
    """Red and blue take turns until nothing is free."""
    story = Story("a=10", queue("red"), queue("blue"))
    order: list[str] = []
    story.loop.listen(
        lambda now, events, plan: order.extend(
            d.workload for d in plan.decisions if isinstance(d, Bind) for _ in d.placement.tasks
        )
    )
    story.at(0, elastic("r", 1, 10, "red"), elastic("b", 1, 10, "blue"))
    story.go(10)

    assert story.sizes() == {"b": 5, "r": 5}
    assert all({*order[i : i + 2]} == {"r", "b"} for i in range(0, 10, 2))
    story.rests()


def test_weights_say_how_far_each_grows() -> None:
    story = Story("a=8", queue("red", weight=3.0), queue("blue"))
    story.at(0, elastic("r", 1, 8, "red"), elastic("b", 1, 8, "blue"))
    story.go(10)

    assert story.sizes() == {"b": 2, "r": 6}
    story.rests()


def test_it_grows_into_what_becomes_free_and_no_further_than_it_can_use() -> None:
    story = Story("a=8")
    story.at(0, elastic("e", 2, 6)).at(0, task("t", 5), runs=100)
    story.go(50)
    assert story.sizes() == {"e": 3, "t": 1}

    story.go(200)
    assert story.sizes() == {"e": 6}
    story.rests()


def test_a_minimum_that_waits_is_served_before_growth() -> None:
    """What becomes free goes to the one that has nothing, though it came last."""
    story = Story("a=8")
    story.at(0, elastic("e", 2, 8)).at(0, task("t", 4), runs=100)
    story.at(10, replace(task("late", 4), preemption_delay_s=1000))
    story.go(200)

    assert story.sizes() == {"e": 4, "late": 1}
    assert story.left() == []
    story.rests()


def test_growth_does_not_pass_the_head_of_a_strict_queue() -> None:
    """Eight are waited for: not even the elder one takes a device meanwhile."""
    story = Story("a=8", queue("team", 8, order="strict"))
    story.at(0, replace(elastic("e", 2, 8, "team"), priority=1), task("t", 4, queue="team"))
    story.at(0, replace(task("u", 2, queue="team"), preemptible=False), runs=50)
    story.at(10, task("head", 8, queue="team"))
    story.go(100)

    assert story.sizes() == {"e": 2, "t": 1}
    assert story.why("e") == (Blocked("head"),)
    story.rests()


def test_growth_stays_on_its_flavor_and_within_its_limit() -> None:
    """The queue has A10s left, but no more H100s; a flavor that was chosen once is kept."""
    flavors = (ResourceGroup(("gpu",), ("H100", "A10")),)
    team = queue("team", {"H100": 4, "A10": 4}, {"H100": 4, "A10": 8}, groups=flavors)
    story = Story("h=8 a=8", team, facts=[on("a", model="A10")])
    story.at(0, elastic("e", 2, 8, "team")).go(10)

    assert story.sizes() == {"e": 4}
    assert {*story.nodes("e")} == {"h"}
    assert story.why("e") == (OverQuota("team", "H100", "gpu", 1000, 0),)
    story.rests()


def test_growth_of_work_without_a_chosen_flavor_stays_within_each_limit() -> None:
    """It starts on one model and grows there up to its limit, whatever is left of the other."""
    team = queue("team", {"H100": 4, "A10": 4}, {"H100": 4, "A10": 6})
    story = Story("h=8 a=8", team, facts=[on("a", model="A10")])
    story.at(0, elastic("e", 2, 16, "team")).go(10)

    nodes = story.nodes("e")
    assert {node: nodes.count(node) for node in "ha"} == {"h": 0, "a": 6}
    story.rests()


# -- shrinking ----------------------------------------------------------------------------------


def test_it_shrinks_before_anyone_is_killed() -> None:
    """Room for four is made of units above minima; everybody goes on running."""
    story = Story("a=12")
    story.at(0, elastic("e", 2, 8), task("t", 4))
    story.go(10)
    assert story.sizes() == {"e": 8, "t": 1}

    story.at(20, gang("new", tasks=4)).go(30)

    assert {(each.workload, each.cause, each.beneficiary) for each in story.left()} == {
        ("e", "preempt", "new")
    }
    assert story.sizes() == {"e": 4, "new": 4, "t": 1}
    story.rests()


def test_it_shrinks_even_where_killing_would_be_cheaper() -> None:
    """A task that began a minute ago has lost next to nothing; the units have run for a day."""
    queues = queue("owner", 4), queue("guest")
    story = Story("a=8 b=4", *queues, facts=[on("b", model="A10")])
    story.at(0, gang("e", tasks=4, most=8, queue="guest", models=["H100"])).go(10)
    story.at(86_340, task("young", 4, queue="guest", models=["A10"]))
    story.at(86_400, gang("new", tasks=4, queue="owner")).go(86_410)

    assert {(each.workload, each.cause) for each in story.left()} == {("e", "quota")}
    assert story.sizes() == {"e": 4, "new": 4, "young": 1}
    story.rests()


def test_it_shrinks_for_the_quota_of_another_queue_too() -> None:
    """The owner of the devices wants five: three are free, two are given up, nobody is killed."""
    story = Story("a=8", queue("owner", 6), queue("guest"))
    story.at(0, elastic("e", 2, 5, "guest"), task("o", 1, queue="owner"))
    story.go(10)
    assert story.sizes() == {"e": 5, "o": 1}

    story.at(20, gang("new", tasks=4, queue="owner")).go(30)

    assert [(each.workload, each.cause) for each in story.left()] == [("e", "quota")]
    assert story.sizes() == {"e": 3, "new": 4, "o": 1}
    story.rests()


def test_the_minimum_goes_only_when_the_units_are_not_enough() -> None:
    story = Story("a=8", queue("owner", 8), queue("guest"))
    story.at(0, elastic("e", 2, 8, "guest")).go(10)
    story.at(20, gang("most", tasks=6, queue="owner")).go(30)
    assert story.sizes() == {"e": 2, "most": 6}

    story.at(40, gang("all", tasks=2, queue="owner")).go(50)
    assert story.sizes() == {"all": 2, "most": 6}
    assert story.waiting() == ["e"]
    story.rests()


@pytest.mark.parametrize("semi", [True, False])
def test_semi_preemptible_work_keeps_its_minimum(semi: bool) -> None:
    """Its units may be had, its minimum not; who needs both waits."""
    story = Story("a=8", queue("owner", 6), queue("guest", 2))
    story.at(0, replace(elastic("e", 2, 8, "guest"), semi_preemptible=semi)).go(10)
    assert story.sizes() == {"e": 8}

    story.at(20, gang("six", tasks=6, queue="owner"), runs=100).go(30)
    assert story.sizes() == {"e": 2, "six": 6}

    story.at(40, gang("all", tasks=8, queue="guest", priority=9)).go(50)
    assert story.sizes() == {"e": 2, "six": 6}
    story.rests()

    story.go(300)
    assert story.sizes() == ({"e": 8} if semi else {"all": 8})
    assert (Left(120, "e", "preempt", "all") in story.left()) is not semi
    story.rests()

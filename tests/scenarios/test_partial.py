"""Fewer will do: a workload that starts with what there is, where it cannot have all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.config import dump_scenario, read_scenario
from mooring.model.events import Ended, NodeLeft
from mooring.model.plan import NoRoom
from mooring.sim.settle import settle
from tests.build import gang, task
from tests.scenarios.story import Left, Story, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload


def flexible(name: str, tasks: int, least: int, team: str = "default", level: str = "") -> Workload:
    """Return a gang that can do with fewer."""
    whole = gang(name, tasks=tasks, queue=team, level=level)
    return replace(whole, groups=(replace(whole.groups[0], partial=least),))


def test_it_starts_with_what_there_is_and_stays_so() -> None:
    """Five of eight are free; when the rest becomes free, it goes to others."""
    story = Story("a=8")
    story.at(0, task("busy", 3), runs=100)
    story.at(10, flexible("train", 8, 2)).go(50)
    assert story.sizes() == {"busy": 1, "train": 5}
    story.rests()

    story.at(60, task("next", 3)).go(200)
    assert story.sizes() == {"next": 1, "train": 5}
    story.rests()


def test_it_waits_where_not_even_the_least_can_be_had() -> None:
    story = Story("a=8")
    story.at(0, task("busy", 7), runs=100)
    story.at(10, flexible("train", 8, 2)).go(50)
    assert story.why("train")[0] == NoRoom("main", "cluster", 8, 1)

    story.go(200)
    assert story.sizes() == {"train": 8}
    story.rests()


def test_it_takes_all_where_others_have_to_leave_for_it() -> None:
    """Who may have everything by right does not content itself with less."""
    story = Story("a=8", queue("owner", 8), queue("guest"))
    story.at(0, task("g", 3, queue="guest"))
    story.at(10, flexible("train", 8, 2, "owner")).go(50)

    assert story.left() == [Left(10, "g", "quota", "train")]
    assert story.sizes() == {"train": 8}
    story.rests()


def test_nobody_has_to_leave_for_a_part_of_it() -> None:
    """Its quota of four would make the guest leave; but it wants eight, and takes what is free."""
    story = Story("a=8", queue("owner", 4, 8), queue("guest", 4))
    story.at(0, replace(task("fixed", 4, queue="guest"), preemptible=False))
    story.at(0, task("g", 2, queue="guest"))
    story.at(10, flexible("train", 8, 1, "owner")).go(50)

    assert story.left() == []
    assert story.sizes() == {"fixed": 1, "g": 1, "train": 2}
    story.rests()


def test_a_limit_of_its_queue_may_be_the_reason_too() -> None:
    story = Story("a=8", queue("team", 4, 6))
    story.at(0, flexible("train", 8, 2, "team")).go(10)

    assert story.sizes() == {"train": 6}
    story.rests()


def test_a_part_fits_into_one_rack() -> None:
    story = Story("rack-1: a=4 b=4 | rack-2: c=4")
    story.at(0, flexible("train", 12, 2, level="rack")).go(10)

    assert story.sizes() == {"train": 8}
    assert {*story.nodes("train")} == {"a", "b"}
    story.rests()


def test_who_is_evicted_asks_for_all_again() -> None:
    """It had five; when its turn comes again there is room for all eight."""
    story = Story("a=8")
    story.at(0, task("some", 3)).at(10, flexible("train", 8, 2))
    story.at(50, task("urgent", 8, priority=9), runs=100)
    story.tell(60, Ended("some"))
    story.go(40)
    assert story.sizes() == {"some": 1, "train": 5}

    story.go(500)
    assert story.left("train") == [Left(50, "train", "preempt", "urgent")]
    assert story.sizes() == {"train": 8}
    story.rests()


def test_a_part_that_loses_a_node_is_completed_to_what_it_was() -> None:
    """Six devices are free when two of its four tasks are lost; it does not become more."""
    story = Story("a=4 b=2 c=2")
    story.at(0, task("busy", 4), runs=100)
    story.at(10, flexible("train", 8, 2)).go(200)
    assert story.nodes("train") == ["b", "b", "c", "c"]

    story.tell(300, NodeLeft("b")).go(400)

    assert sorted(story.nodes("train")) == ["a", "a", "c", "c"]
    assert story.left() == []
    story.rests()


def test_a_part_is_still_complete_after_a_restart() -> None:
    """It is read back from where it runs, and nothing is missing."""
    story = Story("a=8")
    story.at(0, task("busy", 3)).at(10, flexible("train", 8, 2)).go(50)
    text = dump_scenario(story.engine.snapshot(50))
    scenario = read_scenario(text)

    result = settle(scenario)
    assert result.decisions == ()
    assert len(result.engine.entries()["train"].members["main"].staying()) == 5
    assert dump_scenario(result.engine.snapshot(50)) == text


@pytest.mark.parametrize("limit", [None, 4], ids=["the cluster is too small", "so is its limit"])
def test_whom_only_the_whole_of_it_is_denied_for_ever_is_not_passed(limit: int | None) -> None:
    """All eight can never be had, two can: in strict order nobody takes them before."""
    story = Story("a=4", queue("team", 0, limit, order="strict"))
    story.at(0, task("busy", 3, queue="team"), runs=100)
    story.at(10, flexible("train", 8, 2, "team"))
    story.at(20, task("later", queue="team")).go(50)
    assert story.sizes() == {"busy": 1}

    story.go(200)
    assert story.sizes() == {"train": 4}
    story.rests()

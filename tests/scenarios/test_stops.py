"""Stopping: queues that hold or drain, work that is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.events import Ended, QueuesChanged, WorkloadChanged
from mooring.model.plan import Exhausted, Stopped
from tests.build import gang, task
from tests.scenarios.story import Left, Story, queue


def team(stop: str = "") -> QueuesChanged:
    """Return the queues with the team's stopped, or not."""
    return QueuesChanged((queue("org"), queue("team", 4, parent="org", stop=stop), queue("other")))


@pytest.fixture
def story() -> Story:
    """Return a team that runs one and has one waiting, beside another queue."""
    story = Story("a=8", *team().queues)
    story.at(0, task("runs", 4, queue="team"), task("other", 4, queue="other"))
    story.at(1, task("waits", 4, queue="team"))
    story.go(10)
    assert story.running() == ["other", "runs"]
    return story


def test_a_queue_on_hold_starts_nothing_and_keeps_what_runs(story: Story) -> None:
    """Half of the devices become free; only the other queue may have them."""
    story.tell(20, team("hold")).at(30, task("new", 1, queue="team"))
    story.tell(50, Ended("other")).go(60)
    assert story.running() == ["runs"]
    story.at(100, task("last", 4, queue="other")).go(200)

    assert story.running() == ["last", "runs"]
    assert story.why("waits") == story.why("new") == (Stopped("team"),)
    story.rests()


def test_what_becomes_free_under_a_hold_goes_to_others() -> None:
    """Until the hold is lifted: then the team takes its quota back."""
    story = Story("a=8", *team("hold").queues)
    story.at(0, task("mine", 4, queue="team"), task("o1", 4, queue="other"))
    story.at(1, task("o2", 4, queue="other"))
    story.go(10)
    assert story.running() == ["o1", "o2"]

    story.tell(20, team()).go(30)

    assert [(each.cause, each.beneficiary) for each in story.left()] == [("quota", "mine")]
    assert story.starts("mine") == [20]
    story.rests()


def test_a_drained_queue_gives_back_all_it_has_and_starts_again_in_order(story: Story) -> None:
    story.tell(20, team("drain")).go(30)
    assert story.left() == [Left(20, "runs", "drain", "")]
    assert story.waiting() == ["runs", "waits"]
    assert story.why("runs") == (Stopped("team"),)
    story.rests()

    story.tell(40, team()).go(50)
    assert story.starts("runs") == [0, 40]
    assert story.running() == ["other", "runs"]
    story.rests()


def test_a_drained_queue_above_drains_all_below_it(story: Story) -> None:
    queues = team().queues
    story.tell(20, QueuesChanged((replace(queues[0], stop="drain"), *queues[1:]))).go(30)

    assert story.left() == [Left(20, "runs", "drain", "")]
    assert story.why("runs") == (Stopped("org"),)
    story.rests()


def test_work_that_is_switched_off_leaves_and_waits_until_it_is_switched_on(story: Story) -> None:
    """Its place in line is its old one; meanwhile the next has its turn."""
    runs = replace(task("runs", 4, queue="team"), submitted_at=0)
    story.tell(20, WorkloadChanged(replace(runs, active=False))).go(30)
    assert story.left() == [Left(20, "runs", "inactive", "")]
    assert story.why("runs") == (Stopped(""),)
    assert story.running() == ["other", "waits"]
    story.rests()

    story.tell(40, WorkloadChanged(runs)).go(50)
    assert story.running() == ["other", "waits"]
    story.tell(60, WorkloadChanged(replace(task("waits", 4, queue="team"), active=False))).go(70)
    assert story.running() == ["other", "runs"]
    story.rests()


def test_work_that_comes_switched_off_does_not_start() -> None:
    story = Story("a=8")
    off = replace(gang("off", tasks=2), active=False)
    story.at(0, off).at(1, gang("on", tasks=2)).go(10)
    assert story.running() == ["on"]

    story.tell(20, WorkloadChanged(replace(off, active=True))).go(30)
    assert story.running() == ["off", "on"]
    story.rests()


def test_each_is_told_what_keeps_it_back_itself_not_who_is_before_it() -> None:
    """They ask for the same and stand in one line; the first of it starting would help nobody."""
    story = Story("a=8")
    story.at(0, *(replace(task(f"long-{i}", 1), run_limit_s=10.0) for i in range(2)))
    story.at(0, *(replace(task(f"off-{i}", 2), active=False) for i in range(2)))
    story.go(60)

    assert story.why("off-0") == story.why("off-1") == (Stopped(""),)
    assert story.why("long-0") == story.why("long-1") == (Exhausted(0),)
    story.rests()


@pytest.mark.parametrize("stop", ["hold", "drain"])
def test_a_stopped_local_queue_stops_only_its_own(stop: str) -> None:
    """Two teams in one line: the other one's equal work is not behind what is stopped."""
    blue = queue("blue", parent="shared", local=True, stop=stop)
    blue = replace(blue, quotas=())
    green = replace(blue, name="green", stop="")
    story = Story("a=8", queue("shared", 8), blue, green)
    story.at(0, task("b", 2, queue="blue")).at(1, task("g", 2, queue="green")).go(10)

    assert story.running() == ["g"]
    assert story.why("b") == (Stopped("blue"),)
    story.rests()

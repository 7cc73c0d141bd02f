"""Where running work stands: covered by quota, in the share of its queue, or beyond."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.model.queues import Queue
from mooring.model.settings import Policy
from tests.build import gang, task
from tests.scenarios.story import Story, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload

COVERED, IN_SHARE, BEYOND = ("covered",), ("in share",), ("beyond",)


def standing(profile: str, queues: list[Queue], *works: Workload) -> dict[str, tuple[str, ...]]:
    """Return where each stands that has started, one after the other, on eight devices."""
    story = Story("a=8", *queues, policy=Policy(profile=profile))
    for at, work in enumerate(works):
        story.at(at, work)
    story.go(len(works))
    assert story.running() == sorted(work.name for work in works)
    return story.engine.risks()


@pytest.mark.parametrize("profile", ["default", "kai", "kueue"])
def test_nothing_runs_without_a_standing(profile: str) -> None:
    """The team has half of its quota; then it has all of it and borrows from the other."""
    queues = [queue("all", 0), queue("team", 4, parent="all"), queue("other", 4, parent="all")]
    works = [task(name, 2, queue="team") for name in ("one", "two", "three")]
    found = standing(profile, queues, *works)
    above = BEYOND if profile == "kueue" else IN_SHARE
    assert found == {"one": COVERED, "two": COVERED, "three": above}


@pytest.mark.parametrize("profile", ["default", "kai"])
def test_a_queue_that_has_more_than_its_share_is_beyond_it(profile: str) -> None:
    """The share of each is four; the other one asks for what it could have."""
    queues = [queue("team"), queue("other")]
    works = [task(name, 2, queue="team") for name in ("one", "two", "three")]
    found = standing(profile, queues, *works, task("theirs", 2, queue="other"))
    assert {found["one"], found["two"], found["theirs"]} == {IN_SHARE}


def test_where_nothing_is_shared_all_is_in_share() -> None:
    assert standing("default", [Queue("default")], task("one", 2)) == {"one": IN_SHARE}


@pytest.mark.parametrize("profile", ["default", "kai"])
def test_of_elastic_work_each_unit_has_a_standing(profile: str) -> None:
    """Two are guaranteed: the minimum and one unit."""
    queues = [queue("team", 2), queue("other", 2)]
    found = standing(profile, queues, gang("grows", tasks=1, most=4, queue="team"))
    assert found == {"grows": ("covered", "covered", "in share", "in share")}


@pytest.mark.parametrize("profile", ["kai", "kueue"])
def test_a_higher_priority_has_the_quota_first(profile: str) -> None:
    queues = [queue("all", 0), queue("team", 2, parent="all"), queue("other", 6, parent="all")]
    first, urgent = task("first", 2, queue="team"), task("urgent", 2, queue="team", priority=1)
    found = standing(profile, queues, first, urgent)
    assert found["urgent"] == COVERED
    assert found["first"] != COVERED


def test_in_kueue_the_quota_is_that_of_the_queue_around_local_ones() -> None:
    queues = [queue("team", 2), queue("mine", local=True, parent="team")]
    assert standing("kueue", queues, task("one", 2, queue="mine")) == {"one": COVERED}

"""Several GPU models: which of them a workload goes to, and whose share it comes out of."""

from __future__ import annotations

import pytest

from tests.build import gang, on, task
from tests.scenarios.story import Story, queue

A10 = on("x y", model="A10")
RED, BLUE = queue("red", {"H100": 4, "A10": 0}), queue("blue", {"H100": 0, "A10": 8})


# -- one's own before what is another's -------------------------------------------------------


@pytest.mark.parametrize("order", ["h=4 x=8", "x=8 h=4"])
def test_a_queue_has_its_own_before_it_borrows(order: str) -> None:
    """Red owns the H100s and any model will do; the A10s are free, and blue's."""
    story = Story(order, RED, BLUE, facts=[A10]).at(0, task("mine", 4, queue="red")).go(0)

    assert story.nodes("mine") == ["h"]
    story.rests()


def test_it_borrows_when_its_own_is_used_up() -> None:
    story = Story("h=4 x=8", RED, BLUE, facts=[A10])
    story.at(0, task("first", 3, queue="red")).at(10, task("second", 2, queue="red")).go(10)

    assert story.nodes("first") == ["h"]
    assert story.nodes("second") == ["x"]
    story.rests()


def test_it_borrows_where_its_own_has_no_room_for_all() -> None:
    """Its quota is free, but not on one node as it must be."""
    story = Story("g=2 h=2 x=8", RED, BLUE, facts=[A10]).at(0, task("mine", 4, queue="red")).go(0)

    assert story.nodes("mine") == ["x"]


def test_a_gang_goes_to_its_own_as_a_whole() -> None:
    story = Story("h=4 x=8", RED, BLUE, facts=[A10])
    story.at(0, gang("mine", tasks=4, gpus=1, queue="red")).go(0)

    assert story.nodes("mine") == ["h"] * 4


def test_what_came_to_its_own_is_not_evicted_for_the_owner_of_the_other() -> None:
    """Both have what is theirs, in whatever order they come."""
    story = Story("h=4 x=8", RED, BLUE, facts=[A10]).at(0, task("mine", 4, queue="red"))
    story.at(10, task("theirs", 8, queue="blue", models=["A10"])).go(100)

    assert story.running() == ["mine", "theirs"]
    assert story.left() == []

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


# -- models are not added together --------------------------------------------------------------


def test_many_cheap_devices_do_not_cost_a_share_of_the_few_dear_ones() -> None:
    """Red has all sixteen A10s; of the four H100s its half is still its own."""
    story = Story("h=4 x=8 y=8", queue("red"), queue("blue"), facts=[A10])
    for i in range(2):
        story.at(0, task(f"cheap-{i}", 8, queue="red", models=["A10"]))
    for i in range(4):
        story.at(10, task(f"theirs-{i}", queue="blue", models=["H100"]))
    for i in range(2):
        story.at(2000, task(f"mine-{i}", queue="red", models=["H100"]))
    story.go(2100)

    assert {each.cause for each in story.left()} == {"fair-share"}
    assert [name for name in story.running() if name.startswith("mine")] == ["mine-0", "mine-1"]
    assert len([name for name in story.running() if name.startswith("theirs")]) == 2
    story.rests()


def test_each_model_is_divided_by_itself() -> None:
    """Red came first and has all there is; blue gets half of each model, not half of the sum."""
    story = Story("h=4 x=8", queue("red"), queue("blue"), facts=[A10])
    for team, at in (("red", 0), ("blue", 2000)):
        for model, count in (("H100", 4), ("A10", 8)):
            for i in range(count):
                story.at(at, task(f"{team}-{model}-{i}", queue=team, models=[model]))
    story.go(2100)

    for team in ("red", "blue"):
        for model, count in (("H100", 2), ("A10", 4)):
            some = [name for name in story.running() if name.startswith(f"{team}-{model}")]
            assert len(some) == count
    story.rests()

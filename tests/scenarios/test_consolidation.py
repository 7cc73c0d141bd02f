"""Consolidation: work is moved, and nobody leaves, where that makes room for one who waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.model.events import WorkloadChanged
from mooring.model.plan import Evict, Leaving, NoRoom, Reserve
from mooring.model.settings import Eviction, Policy
from tests.build import gang, task
from tests.scenarios.story import Left, Story, queue

if TYPE_CHECKING:
    from mooring.model.plan import Plan
    from mooring.model.queues import Queue
    from mooring.model.workload import Workload

TEAMS = (queue("red", 2), queue("blue", 2))
YOUNG_S = 1800.0
"""So long nobody is moved."""


def checkered(*queues: Queue, policy: Policy = Policy(), grace_s: float = 0.0) -> Story:
    """Return two nodes of two GPUs; from 100 s on one of each is in use."""
    story = Story("m=2 n=2", *(queues or TEAMS), policy=policy, grace_s=grace_s)
    name = queues[0].name if queues else "red"
    for at, who in enumerate(("gone-m", "left-m", "gone-n", "left-n")):
        story.at(at, task(who, queue=name), runs=100.0 - at if who.startswith("gone") else None)
    story.go(100)
    assert (story.nodes("left-m"), story.nodes("left-n")) == (["m"], ["n"])
    return story


def wants_two(**needs: str) -> Workload:
    return task("big", 2, queue=needs.get("queue", "blue"))


def test_one_is_moved_so_that_another_has_a_whole_node() -> None:
    """Both teams are within quota and two GPUs are free, but not on one node."""
    story = checkered().go(YOUNG_S + 10)

    story.at(4000, wants_two()).go(4000)

    (left,) = story.left()
    assert left in (Left(4000, "left-m", "move", "big"), Left(4000, "left-n", "move", "big"))
    assert story.running() == ["big", "left-m", "left-n"]
    assert story.nodes("left-m") == story.nodes("left-n") != story.nodes("big")
    story.rests()


def test_in_a_single_queue_work_is_moved_too() -> None:
    """Nobody has a right to the place of another, and nobody loses one."""
    story = checkered(queue("team")).at(4000, wants_two(queue="team")).go(4000)

    assert [each.cause for each in story.left()] == ["move"]
    assert story.running() == ["big", "left-m", "left-n"]
    story.rests()


def test_the_cheapest_is_moved() -> None:
    """What was saved a minute ago costs little to move."""
    story = checkered()
    story.go(3990)
    saved = replace(story.engine.entries()["left-n"].workload, checkpoint_at=3980.0)
    story.tell(3995, WorkloadChanged(saved)).at(4000, wants_two()).go(4000)

    assert story.left() == [Left(4000, "left-n", "move", "big")]


def test_nobody_is_moved_who_has_only_just_begun() -> None:
    """It is the scheduler that looks again when the first may be moved."""
    story = checkered().at(200, wants_two()).go(1700)
    assert story.left() == []
    assert story.waiting() == ["big"]

    story.go(2200)

    (left,) = story.left()
    assert (left.cause, left.beneficiary) == ("move", "big")
    assert YOUNG_S <= left.at < 2200
    story.rests()


@pytest.mark.parametrize("rules", [Eviction(consolidates=False), Eviction(movers=0)])
def test_where_moves_are_switched_off_one_waits(rules: Eviction) -> None:
    story = checkered(policy=Policy(eviction=rules)).at(4000, wants_two()).go(9000)

    assert story.left() == []
    assert isinstance(story.why("big")[0], NoRoom)


def test_what_may_not_be_evicted_is_not_moved() -> None:
    story = checkered().go(3990)
    for name in ("left-m", "left-n"):
        fixed = replace(story.engine.entries()[name].workload, preemptible=False)
        story.tell(3995, WorkloadChanged(fixed))
    story.at(4000, wants_two()).go(9000)

    assert story.left() == []
    assert story.waiting() == ["big"]


@pytest.mark.parametrize(("movers", "starts"), [(1, False), (2, True), (-1, True)])
def test_no_more_are_moved_for_one_than_may_be(movers: int, starts: bool) -> None:
    """Two whole nodes are wanted, and each has one in it."""
    rules = Policy(eviction=Eviction(movers=movers))
    story = Story("m=2 n=2 o=2 p=2", queue("red", 8), queue("blue", 8), policy=rules)
    for at, name in enumerate("mnop"):
        story.at(2 * at, task(f"gone-{name}", queue="red"), runs=100)
        story.at(2 * at + 1, task(f"left-{name}", queue="red"))
    story.at(4000, gang("big", tasks=2, gpus=2, queue="blue")).go(9000)

    assert len(story.left()) == (2 if starts else 0)
    assert ("big" in story.running()) == starts


def test_nobody_is_moved_where_that_makes_too_little_room() -> None:
    """Three GPUs are wanted, and two are free."""
    story = Story("m=3 n=3", queue("red", 4), queue("blue", 4))
    for at, name in enumerate("mn"):
        story.at(2 * at, task(f"gone-{name}", queue="red"), runs=100)
        story.at(2 * at + 1, task(f"left-{name}", 2, queue="red"))
    story.at(4000, task("big", 3, queue="blue")).go(9000)

    assert story.left() == []
    story.rests()


def test_nobody_is_moved_for_one_who_has_no_quota() -> None:
    """Room could be made, but its queue may not be charged."""
    story = checkered(queue("red", 2), queue("blue", 0, limit=1))
    story.at(4000, wants_two()).go(9000)

    assert story.left() == []
    story.rests()


def test_who_has_a_right_takes_it_before_anybody_is_moved() -> None:
    """Red uses more than its quota: one of it leaves for good, as it would without free room."""
    story = checkered(queue("red", 1), queue("blue", 2)).at(4000, wants_two()).go(4000)

    assert [each.cause for each in story.left()] in (["quota"], ["move"])
    assert "big" in story.running()
    story.rests()


def test_all_places_are_kept_before_anybody_leaves() -> None:
    """While one is on its way, nobody takes its new place, nor that of the one it moves for."""
    story = checkered(queue("red", 4), queue("blue", 4), grace_s=60.0)
    plans: list[Plan] = []
    story.loop.listen(lambda now, events, plan: plans.append(plan))
    story.at(4000, wants_two()).go(4000)

    (plan,) = [plan for plan in plans if plan.decisions]
    (moved,) = [each.workload for each in plan.decisions if isinstance(each, Evict)]
    kept = [each.workload for each in plan.decisions if isinstance(each, Reserve)]
    assert sorted(kept) == sorted(["big", moved])
    assert story.why("big") == (Leaving((moved,)),)

    story.at(4010, task("small", queue="red")).go(4030)

    assert "small" not in story.running()
    story.go(4100)
    assert story.running() == ["big", "left-m", "left-n"]
    story.rests()


@pytest.mark.parametrize("steps", [1, 2])
def test_a_look_for_moves_that_is_cut_short_goes_on(steps: int) -> None:
    """The bound of steps is for one cycle; the next goes on without being told anything."""
    story = checkered(policy=Policy(eviction=Eviction(steps=steps)))
    cycles = story.loop.cycles
    story.at(4000, wants_two()).go(4000)

    assert story.loop.cycles > cycles + 2
    assert [each.cause for each in story.left()] == ["move"]
    assert story.running() == ["big", "left-m", "left-n"]
    story.rests()


def test_a_move_is_taken_where_it_costs_less_than_an_eviction() -> None:
    """Red has borrowed the GPUs of blue, which wants a node: one of red's need not wait at all."""
    teams = (queue("red", 1), queue("blue", 3))
    story = checkered(*teams).go(YOUNG_S + 10)

    story.at(4000, wants_two()).go(4000)

    assert [each.cause for each in story.left()] == ["move"]
    assert story.running() == ["big", "left-m", "left-n"]
    story.rests()


def test_an_eviction_is_taken_where_it_costs_less_than_a_move() -> None:
    """Two hours of work could be moved; what has just begun, and is borrowed, leaves instead."""
    story = Story("m=2 n=2", queue("red", 1), queue("blue", 3))
    story.at(0, task("old", queue="red"))
    story.at(1, task("gone", queue="red"), runs=7299.0)
    story.at(7200, task("young", queue="red")).go(7300)
    assert story.nodes("old") != story.nodes("young")

    story.at(8200, wants_two()).go(8200)  # borrowed work may leave after a while, but not move

    assert story.left() == [Left(8200, "young", "quota", "big")]
    story.rests()

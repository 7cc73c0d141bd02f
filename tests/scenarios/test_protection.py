"""Protected work: who could start if it were asked to leave is told when it may be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.model.plan import Excluded, NoRoom, Protected
from mooring.model.settings import Eviction, Policy
from mooring.model.workload import NEVER_S
from tests.build import task
from tests.scenarios.story import Left, Story, minimum_runs, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload

OWNER, GUEST = queue("owner", 1), queue("guest")


def guest(name: str = "guest", count: int = 1, minimum_run_s: float = 0.0) -> Workload:
    return replace(task(name, count, queue="guest"), minimum_run_s=minimum_run_s)


def owner(count: int = 1, delay_s: float = 0.0) -> Workload:
    return replace(task("mine", count, queue="owner"), preemption_delay_s=delay_s)


def test_who_may_run_for_a_while_says_so_itself() -> None:
    """The owner of the GPU waits for an hour, is told so, and has it then."""
    story = Story("n=1", OWNER, GUEST).at(0, guest(minimum_run_s=3600.0)).at(100, owner()).go(100)
    assert story.why("mine") == (Protected(3600.0),)
    story.rests()

    story.go(3600)

    assert story.left() == [Left(3600, "guest", "quota", "mine")]
    assert story.running() == ["mine"]


def test_a_policy_lets_everybody_run_for_a_while() -> None:
    runs = minimum_runs(quota=3600.0, fair_share=7200.0, leximin=7200.0)
    policy = Policy(eviction=Eviction(**runs))
    story = Story("n=1", OWNER, GUEST, policy=policy).at(0, guest()).at(100, owner()).go(100)

    assert story.why("mine") == (Protected(3600.0),)


def test_what_is_beyond_its_share_runs_for_a_quarter_of_an_hour() -> None:
    story = Story("n=2", queue("owner"), GUEST)
    story.at(0, guest("g1"), guest("g2")).at(100, owner()).go(100)
    assert story.why("mine") == (Protected(900.0),)

    story.go(900)

    assert [(left.at, left.cause) for left in story.left()] == [(900, "fair-share")]
    assert "mine" in story.running()


def test_who_waits_before_it_asks_is_told_until_when() -> None:
    story = Story("n=1", OWNER, GUEST).at(0, guest()).at(50, owner(delay_s=100.0)).go(60)
    assert story.why("mine") == (Protected(150.0),)

    story.go(150)

    assert story.left() == [Left(150, "guest", "quota", "mine")]


def test_who_never_asks_is_told_of_room_and_stands_in_nobodys_way() -> None:
    """A new node would help it; one of less priority that may ask does so past it."""
    low, high = task("low", 1, priority=1), task("high", 1, priority=5)
    polite = replace(task("polite", 1, priority=9), preemption_delay_s=NEVER_S)
    story = Story("n=1").at(0, low).at(10, polite).go(20)
    assert story.why("polite") == (NoRoom("main", "cluster", 1, 0), Excluded("main", "gpu", 1))
    story.rests()

    story.at(100, high).go(100)

    assert story.left() == [Left(100, "low", "preempt", "high")]
    assert story.running() == ["high"]


def test_it_is_told_when_all_may_be_asked_whom_it_needs() -> None:
    """Two must leave: it is the second that counts, and who is not needed does not."""
    story = Story("n=3", queue("owner", 2), GUEST)
    story.at(0, guest("g1", 1, 500.0), guest("g2", 1, 2000.0), guest("g3", 1, 9000.0))
    story.at(100, owner(2)).go(100)
    assert story.why("mine") == (Protected(2000.0),)

    story.go(2000)

    assert sorted(left.workload for left in story.left()) == ["g1", "g2"]
    assert story.starts("mine") == [2000.0]


def test_its_own_patience_and_that_of_others_both_count() -> None:
    story = Story("n=1", OWNER, GUEST).at(0, guest(minimum_run_s=400.0))
    story.at(50, owner(delay_s=100.0)).go(60)

    assert story.why("mine") == (Protected(400.0),)


def test_nobody_is_told_so_whom_it_would_not_help() -> None:
    """The other GPU is in use by work that may never be asked."""
    story = Story("n=2", queue("owner", 1), queue("guest", 1))
    story.at(0, replace(guest("fixed"), preemptible=False), guest("g", 1, 3600.0))
    story.at(100, owner(2)).go(100)

    assert [type(reason) for reason in story.why("mine")] == [NoRoom, Excluded]


def test_who_is_covered_is_not_protected_but_out_of_the_question() -> None:
    story = Story("n=1", OWNER, queue("guest", 1)).at(0, guest(minimum_run_s=3600.0))
    story.at(100, owner()).go(100)

    assert [type(reason) for reason in story.why("mine")] == [NoRoom, Excluded]

"""Queues that stand in line by what they have used, faded by time: least first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.model.plan import Blocked
from mooring.model.queues import EvictionRules
from mooring.model.settings import Fairness, Policy
from tests.build import task
from tests.scenarios.story import Story, queue

if TYPE_CHECKING:
    from mooring.model.queues import Queue

HOUR = 3600.0
STAYS = EvictionRules(within_queue="never", reclaim="never")
ORDERS = ["best-effort", "strict", "backfill", "easy", "conservative"]


def lab(order: str = "best-effort", *, local: bool = True, by_usage: bool = True) -> list[Queue]:
    """Return two people's queues below one."""
    return [
        queue("lab", 2, order=order, by_usage=by_usage, eviction=STAYS),
        queue("ann", local=local, parent="lab"),
        queue("bob", local=local, parent="lab"),
    ]


def used_by_ann(queues: list[Queue], policy: Policy = Policy()) -> Story:
    """Return a story in which all was Ann's for ten hours; she was also first to ask for more."""
    story = Story("a=2", *queues, policy=policy)
    story.at(0, task("long", 2, queue="ann"), runs=10 * HOUR)
    story.at(1, task("ann-1", 1, queue="ann"), task("ann-2", 1, queue="ann"), runs=HOUR)
    story.at(2, task("bob-1", 1, queue="bob"), task("bob-2", 1, queue="bob"), runs=HOUR)
    return story


@pytest.mark.parametrize("order", ORDERS)
def test_who_has_used_less_goes_first(order: str) -> None:
    story = used_by_ann(lab(order)).go(10 * HOUR + 10)
    assert story.running() == ["bob-1", "bob-2"]
    assert story.go(11 * HOUR + 10).running() == ["ann-1", "ann-2"]
    story.rests()


def test_otherwise_age_decides() -> None:
    story = used_by_ann(lab(by_usage=False)).go(10 * HOUR + 10)
    assert story.running() == ["ann-1", "ann-2"]


def test_queues_with_lines_of_their_own_take_turns_by_it_too() -> None:
    """Both are as far beyond what they are guaranteed: then it is what they have used."""
    story = used_by_ann(lab(local=False)).go(10 * HOUR + 10)
    assert "bob-1" in story.running()


def test_a_higher_priority_goes_before_who_has_used_less() -> None:
    story = used_by_ann(lab())
    story.at(3, task("urgent", 2, queue="ann", priority=1), runs=HOUR)
    assert story.go(10 * HOUR + 10).running() == ["urgent"]


def test_a_start_counts_at_once() -> None:
    """Nobody has used anything. Whoever starts stands behind the other with the next one."""
    story = Story("a=1", *lab())
    story.at(0, *(task(f"ann-{i}", 1, queue="ann") for i in range(2)), runs=10)
    story.at(0, *(task(f"bob-{i}", 1, queue="bob") for i in range(2)), runs=10)
    story.go(60)
    by_start = sorted(story.tale.starts, key=story.starts)
    assert [name[:3] for name in by_start] == ["ann", "bob", "ann", "bob"]


def test_what_was_used_long_ago_no_longer_matters() -> None:
    fades = Policy(fairness=Fairness(usage_half_life_s=HOUR))
    story = Story("a=2", *lab(), policy=fades)
    story.at(0, task("old", 2, queue="ann"), runs=HOUR)
    story.at(100 * HOUR, task("new", 2, queue="bob"), runs=HOUR)
    story.at(100 * HOUR + 1, task("bob", 2, queue="bob")).at(
        100 * HOUR + 2, task("ann", 2, queue="ann")
    )
    assert story.go(102 * HOUR).running() == ["ann"]


def test_what_was_used_outlives_a_restart() -> None:
    before = used_by_ann(lab()).go(9 * HOUR)
    after = Story("a=2", *lab(), memory=before.engine.memory())
    after.at(10 * HOUR, task("ann", 2, queue="ann"), task("bob", 2, queue="bob")).go(10 * HOUR + 1)
    assert after.running() == ["bob"]


def test_in_strict_order_the_one_who_has_used_less_blocks() -> None:
    story = Story("a=3", *lab("strict"))
    story.at(0, task("long", 2, queue="ann"), runs=20 * HOUR)
    story.at(5 * HOUR, task("ann", 1, queue="ann", models=["none"]))
    story.at(6 * HOUR, task("bob", 3, queue="bob")).at(7 * HOUR, task("late", 2, queue="ann"))
    story.go(8 * HOUR)
    assert story.why("late") == (Blocked("bob"),)

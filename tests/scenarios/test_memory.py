"""What a restart must not forget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.config import dump_scenario, read_scenario
from mooring.model.events import TasksChanged
from mooring.model.plan import Exhausted
from mooring.model.settings import Failure, Fairness, Policy
from mooring.model.workload import TaskState
from tests.build import task
from tests.scenarios.story import Story, queue

if TYPE_CHECKING:
    from mooring.model.memory import Memory
    from mooring.model.queues import Queue

HOUR = 3600.0
REMEMBERS = Policy(fairness=Fairness(history_weight=1.0, half_life_s=24 * HOUR))


def written_and_read(story: Story) -> Memory:
    """Return the memory of an engine as it comes out of a file."""
    return read_scenario(dump_scenario(story.engine.snapshot(story.loop.now))).memory


def teams() -> tuple[Queue, Queue]:
    """Return two equal teams."""
    return queue("red"), queue("blue")


def both_want_all(story: Story, at: float) -> list[int]:
    """Let both teams want everything; return how much red and blue get."""
    story.at(at, *(task(f"r{i:02}", 1, queue="red") for i in range(8)))
    story.at(at, *(task(f"b{i:02}", 1, queue="blue") for i in range(8)))
    story.go(at + 1)
    return [sum(name.startswith(team) for name in story.running()) for team in "rb"]


def test_history_survives_a_restart() -> None:
    """Red had everything for ten hours; blue gets more of the surplus, restart or not."""
    before = Story("a=8", *teams(), policy=REMEMBERS)
    before.at(0, task("long", 8, queue="red"), runs=10 * HOUR)
    before.go(10 * HOUR)
    memory = written_and_read(before)

    after = Story("a=8", *teams(), policy=REMEMBERS, memory=memory)
    without = both_want_all(before, 10 * HOUR + 60)
    assert both_want_all(after, 10 * HOUR + 60) == without
    red, blue = without
    assert red < blue
    assert red + blue == 8
    before.rests()
    after.rests()

    forgetful = Story("a=8", *teams(), policy=REMEMBERS)
    assert both_want_all(forgetful, 10 * HOUR + 60) == [4, 4]


def test_history_is_only_as_heavy_as_the_policy_says() -> None:
    """Without weight nothing is remembered against anybody."""
    plain = Policy()
    story = Story("a=8", *teams(), policy=plain)
    story.at(0, task("long", 8, queue="red"), runs=10 * HOUR)
    story.go(10 * HOUR)

    assert both_want_all(story, 10 * HOUR + 60) == [4, 4]
    story.rests()


@pytest.mark.parametrize("restart", [False, True])
def test_a_crash_loop_is_over_after_a_restart_too(restart: bool) -> None:
    """Failures and avoided nodes are remembered."""
    policy = Policy(failure=Failure(restarts=1, node_failures=9))
    story = Story("a=8", policy=policy)
    story.at(0, task("loop", 8))
    for at in (100, 200):
        story.tell(at, TasksChanged("loop", "main", (0,), TaskState.FAILED, at))
    story.go(300)
    if restart:
        memory = written_and_read(story)
        story = Story("a=8", policy=policy, memory=memory)
        story.at(300, task("loop", 8)).go(310)

    assert story.waiting() == ["loop"]
    assert story.why("loop") == (Exhausted(2),)
    story.rests()

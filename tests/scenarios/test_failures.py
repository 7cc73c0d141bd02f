"""Failures: nodes that are lost, tasks that crash, and what is tried again."""

from __future__ import annotations

from mooring.model.events import NodeJoined, NodeLeft, TasksChanged
from mooring.model.plan import Exhausted
from mooring.model.settings import Failure, Policy
from mooring.model.workload import TaskState
from tests.build import gang, node, task
from tests.scenarios.story import Left, Story

HOUR = 3600.0


def crash(at: float, name: str, task: int = 0) -> TasksChanged:
    """Let a task fail."""
    return TasksChanged(name, "main", (task,), TaskState.FAILED, at)


def test_a_second_node_failure_keeps_the_gang() -> None:
    """Two of its nodes are lost, one after the other: it stays in its rack."""
    story = Story("rack-1: a=8 b=8 c=8 d=8 | rack-2: e=8 f=8 g=8 h=8")
    story.at(0, gang("g", tasks=2, gpus=8, level="rack"))
    story.go(10)
    first, second = story.nodes("g")

    story.tell(100, NodeLeft(first)).tell(200, NodeLeft(second)).go(300)

    rack = "abcd" if first in "abcd" else "efgh"
    assert len(set(story.nodes("g"))) == 2
    assert set(story.nodes("g")) == {*rack} - {first, second}
    assert story.starts("g") == [0, 100, 200]
    assert story.left() == []
    story.rests()


def test_a_gang_that_lost_two_nodes_at_once_moves_whole_if_its_rack_has_no_room() -> None:
    """After its grace it gives up the rest of its rack and starts in the other one."""
    story = Story("rack-1: a=8 b=8 c=8 | rack-2: d=8 e=8 f=8")
    story.at(0, gang("g", tasks=3, gpus=8, level="rack"))
    story.go(10)
    lost = story.nodes("g")[:2]

    story.tell(100, *(NodeLeft(name) for name in lost)).go(300)

    assert story.left() == [Left(160, "g", "lost-node", "")]
    assert story.starts("g") == [0, 160]
    assert {*story.nodes("g")} == {*("def" if lost[0] in "abc" else "abc")}
    story.rests()


def test_a_restart_budget_ends_a_crash_loop() -> None:
    """Three failures are one too many; its room goes to another, and it says why it waits."""
    story = Story("a=8", policy=Policy(failure=Failure(restarts=2, node_failures=9)))
    story.at(0, gang("loop", tasks=2, gpus=4))
    story.at(1, task("next", 8))
    for time in (100, 200, 300):
        story.tell(time, crash(time, "loop", 1))
    story.go(400)

    assert story.starts("loop") == [0, 100, 200]
    assert story.left() == [Left(300, "loop", "failed", "")]
    assert story.running() == ["next"]
    assert story.why("loop") == (Exhausted(3),)
    story.rests()


def test_a_node_that_keeps_failing_is_avoided_for_a_while() -> None:
    """Twice within the hour is enough; an hour after the first of them it is tried again."""
    policy = Policy(failure=Failure(node_failures=2, node_window_s=HOUR))
    story = Story("a=8", policy=policy)
    story.at(0, task("t", 8))
    story.tell(100, crash(100, "t")).tell(200, crash(200, "t"))
    story.go(300)
    assert story.starts("t") == [0, 100]
    assert story.waiting() == ["t"]

    story.tell(400, NodeJoined(node("b", 8))).at(500, task("u", 8)).go(600)
    assert story.nodes("t") == ["b"]
    assert story.waiting() == ["u"]

    story.go(2 * HOUR)
    assert story.starts("u") == [100 + HOUR]
    assert story.nodes("u") == ["a"]
    story.rests()

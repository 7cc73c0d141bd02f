"""Failures: nodes that are lost, tasks that crash, and what is tried again."""

from __future__ import annotations

import pytest

from mooring.model.events import Ended, NodeLeft, TasksChanged
from mooring.model.plan import Excluded, Exhausted
from mooring.model.settings import Failure, Policy
from mooring.model.workload import TaskState
from tests.build import gang, group, task, workload
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


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "within seconds"])
def test_one_crash_of_a_gang_counts_once_however_it_is_told(at_once: bool) -> None:
    """Its tasks are told to have failed one by one; some are started again in between."""
    story = Story("a=8 b=8", policy=Policy(failure=Failure(restarts=1, node_failures=99)))
    story.at(0, gang("g", tasks=4, gpus=2))
    for i in range(4):
        at = 100 if at_once else 100 + 2 * i
        story.tell(at, crash(at, "g", i))
    story.go(200)
    assert (story.sizes(), story.left()) == ({"g": 4}, [])

    story.tell(300, crash(300, "g", 2)).go(400)
    assert story.left() == [Left(300, "g", "failed", "")]
    assert story.why("g") == (Exhausted(2),)


def test_leader_and_workers_that_crash_together_crash_once() -> None:
    work = workload("w", group("leader", tasks=2), group("workers", tasks=2))
    story = Story("a=8", policy=Policy(failure=Failure(restarts=1, node_failures=99)))
    story.at(0, work).go(10)
    story.tell(
        100,
        TasksChanged("w", "leader", (0, 1), TaskState.FAILED, 100),
        TasksChanged("w", "workers", (0, 1), TaskState.FAILED, 100),
    ).go(200)

    assert story.sizes() == {"w": 4}
    assert story.starts("w") == [0, 100]


def test_a_task_that_fails_long_after_another_fails_by_itself() -> None:
    story = Story("a=8", policy=Policy(failure=Failure(restarts=1, node_failures=99)))
    story.at(0, gang("g", tasks=2, gpus=2))
    story.tell(100, crash(100, "g", 0)).tell(1000, crash(1000, "g", 1)).go(1100)

    assert story.why("g") == (Exhausted(2),)


# -- nodes that keep failing ----------------------------------------------------------------


def test_one_that_crashes_wherever_it_is_says_nothing_about_nodes() -> None:
    """An innocent one has all nodes, at once."""
    story = Story("a=8 b=8 c=8 d=8")
    story.at(0, task("bug", 1))
    for at in range(60, 1200, 60):
        story.tell(at, crash(at, "bug"))
    story.at(1190, gang("good", tasks=3, gpus=8)).go(1190)

    assert story.running() == ["bug", "good"]
    assert len(story.starts("bug")) == 20


def test_a_crash_loop_keeps_off_the_node_where_it_began_and_others_do_not() -> None:
    """Perhaps it is the node: it tries another one. Only there it is seen who is at fault."""
    policy = Policy(failure=Failure(node_failures=2))
    story = Story("a=8 b=8", policy=policy)
    story.at(0, task("loop", 8)).go(10)
    first = story.nodes("loop")
    story.tell(100, crash(100, "loop")).tell(200, crash(200, "loop"))
    story.at(210, task("other", 8)).go(300)

    assert story.nodes("loop") != first
    assert story.nodes("other") == first


def test_who_has_no_other_node_waits_a_while_and_is_told_why() -> None:
    story = Story("a=8", policy=Policy(failure=Failure(node_failures=2, node_window_s=HOUR)))
    story.at(0, task("t", 8))
    story.tell(100, crash(100, "t")).tell(200, crash(200, "t")).go(300)
    assert story.why("t") == (Excluded("main", "failing", 1),)

    story.go(2 * HOUR)
    assert story.starts("t") == [0, 100, 100 + HOUR]
    story.rests()


def test_a_node_on_which_different_workloads_fail_is_avoided_for_a_while() -> None:
    """Once each is enough, of two; an hour after the first of them it is tried again."""
    policy = Policy(failure=Failure(node_failures=2, node_window_s=HOUR))
    story = Story("a=8 b=8", policy=policy)
    story.at(0, task("s", 8), task("t", 4), task("u", 4)).go(50)
    bad = story.nodes("t")
    assert bad == story.nodes("u") != story.nodes("s")
    story.tell(100, crash(100, "t")).tell(200, crash(200, "u")).tell(210, Ended("t")).go(300)
    assert story.waiting() == ["u"]
    assert Excluded("main", "failing", 1) in story.why("u")

    story.go(2 * HOUR)
    assert story.starts("u") == [0, 100 + HOUR]
    assert story.nodes("u") == bad
    story.rests()


def test_never_are_all_nodes_avoided() -> None:
    """A whole series crashes, each where it is: that many nodes cannot be bad at once."""
    story = Story("a=8 b=8 c=8 d=8", policy=Policy(failure=Failure(node_failures=2)))
    story.at(0, *(task(f"t{i}", 4) for i in range(8))).go(10)
    for i in range(8):
        story.tell(100 + i, crash(100 + i, f"t{i}"))
        story.tell(200 + i, Ended(f"t{i}"))
    story.at(300, *(task(f"good-{i}", 8) for i in range(4))).go(400)

    assert len(story.running()) == 2


def test_avoided_nodes_are_remembered_over_a_restart() -> None:
    policy = Policy(failure=Failure(node_failures=2, node_window_s=HOUR))
    story = Story("a=8 b=8", policy=policy)
    story.at(0, task("loop", 8)).go(10)
    (first,) = story.nodes("loop")
    story.tell(100, crash(100, "loop")).tell(200, crash(200, "loop")).go(200)

    again = Story("a=8 b=8", policy=policy, memory=story.engine.memory())
    again.at(300, task("loop", 8), task("other", 8)).go(310)

    assert again.nodes("other") == [first]

"""Fewer tasks than asked for, where a workload allows it."""

from __future__ import annotations

import pytest

from mooring.model.events import TasksChanged, WorkloadChanged
from mooring.model.resources import amounts
from mooring.model.workload import PodGroup, Shape, TaskState, Workload
from tests.policy.kueue.cases import Case, workload_of

CASES = {
    # name: (queues, running, waiting, evicts, tasks of w in the end)
    "all, where all fit": ("a cpu=6", "", "w a cpu=1 tasks=6 partial=2", "", 6),
    "as many as fit": ("a cpu=4", "", "w a cpu=1 tasks=6 partial=2", "", 4),
    "the least that will do": ("a cpu=2", "", "w a cpu=1 tasks=6 partial=2", "", 2),
    "not less": ("a cpu=4", "", "w a cpu=1 tasks=6 partial=5", "", 0),
    "not at all without leave": ("a cpu=4", "", "w a cpu=1 tasks=6", "", 0),
    "with what is borrowed": (
        "co\na < co cpu=2\nb < co cpu=2",
        "",
        "w a cpu=1 tasks=6 partial=2",
        "",
        4,
    ),
    "within the borrowing limit": (
        "co\na < co cpu=2+1\nb < co cpu=2",
        "",
        "w a cpu=1 tasks=6 partial=2",
        "",
        3,
    ),
    "rather evict than be smaller": (
        "a cpu=6 within=lower-priority",
        "low a cpu=2",
        "w a cpu=1 tasks=6 partial=2 prio=1",
        "low:preempt",
        6,
    ),
    "smaller, and evict": (
        # 6 never fit beside high; with low gone 3 do
        "a cpu=4 within=lower-priority",
        "low a cpu=2\nhigh a cpu=1 prio=5",
        "w a cpu=1 tasks=6 partial=3 prio=1",
        "low:preempt",
        3,
    ),
    "rather more tasks than no eviction": (
        # 1 would fit beside low, 3 do without it
        "a cpu=3 within=lower-priority",
        "low a cpu=2",
        "w a cpu=1 tasks=6 partial=1 prio=1",
        "low:preempt",
        3,
    ),
    "the largest that fits on any flavor": (
        "a one/cpu=3 two/cpu=4",
        "",
        "w a cpu=1 tasks=6 partial=2",
        "",
        4,
    ),
}


@pytest.mark.parametrize(
    ("queues", "running", "waiting", "evicts", "tasks"), CASES.values(), ids=CASES
)
def test_size(queues: str, running: str, waiting: str, evicts: str, tasks: int) -> None:
    end = Case(queues, running, waiting).settle()
    assert (end.evicts, end.tasks("w")) == (evicts, tasks)


def test_only_the_group_that_allows_it_is_smaller() -> None:
    shape = Shape(amounts({"cpu": 1000}))
    groups = (PodGroup("driver", shape, 2), PodGroup("workers", shape, 6, partial=1))
    end = Case("a cpu=5", more_waiting=(Workload("w", groups, "a"),)).decide()
    members = end.engine.entries()["w"].members
    assert {name: len(each.staying()) for name, each in members.items()} == {
        "driver": 2,
        "workers": 3,
    }


def test_it_is_charged_for_what_it_has() -> None:
    end = Case("a cpu=4", "", "w a cpu=1 tasks=6 partial=3 at=1").decide()
    assert end.engine.books.charged("a")["default", "cpu"] == 4000


class TestLife:
    """A workload that runs with fewer tasks is complete, until it leaves."""

    def test_it_is_left_alone(self) -> None:
        end = Case("a cpu=4", "", "w a cpu=1 tasks=6 partial=3").settle()
        assert end.engine.decide(10_000.0).decisions == ()
        assert end.tasks("w") == 4

    def test_it_is_recognised_when_found_running(self) -> None:
        line = workload_of("w a cpu=1 tasks=6 partial=3 on=default,default,default,default")
        end = Case("a cpu=9", more_running=(line.adopted,)).settle()
        assert (end.evicts, end.tasks("w")) == ("", 4)
        assert end.engine.decide(10_000.0).decisions == ()

    def test_it_asks_for_all_again_when_it_has_left(self) -> None:
        case = Case(
            "a cpu=6 within=lower-priority",
            waiting="w a cpu=1 tasks=6 partial=3\nhigh a cpu=2 prio=5",
        )
        # high and four tasks of w start; when high is over, w still has four
        end = case.settle()
        assert (end.runs, end.tasks("w")) == ("high w", 4)
        engine = end.engine
        tasks = tuple(engine.entries()["w"].members["main"].staying())
        engine.observe(TasksChanged("w", "main", tasks, TaskState.RELEASING))
        engine.observe(TasksChanged("w", "main", tasks, TaskState.PENDING))
        assert engine.entries()["w"].members["main"].group.min == 6

    def test_an_edit_does_not_make_it_incomplete(self) -> None:
        end = Case("a cpu=4", "", "w a cpu=1 tasks=6 partial=3").settle()
        edited = workload_of("w a cpu=1 tasks=6 partial=3 prio=7").workload
        end.engine.observe(WorkloadChanged(edited))
        assert end.engine.decide(10_000.0).decisions == ()

    def test_it_ends_when_its_tasks_have_finished(self) -> None:
        end = Case("a cpu=4", "", "w a cpu=1 tasks=6 partial=3").settle()
        tasks = tuple(end.engine.entries()["w"].members["main"].staying())
        end.engine.observe(TasksChanged("w", "main", tasks, TaskState.FINISHED))
        assert end.engine.decide(10_000.0).decisions == ()

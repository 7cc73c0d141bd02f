"""Runs by hand: small clusters on which every instant can be worked out on paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

import pytest

from mooring.metrics import Metrics
from mooring.model.events import (
    Ended,
    NodeChanged,
    NodeJoined,
    NodeLeft,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Bind, Evict
from mooring.model.queues import Queue
from mooring.model.workload import TaskState
from mooring.sim.failures import with_failures
from mooring.sim.load import Arrival, Load
from mooring.sim.mixes import Options, make_load
from mooring.sim.run import AT_ONCE, Delays, Run
from mooring.sim.study import NAMED
from tests.build import gang, group, picture, task, workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mooring.metrics import Summary
    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload

STRICT = (Queue("default", order="strict"),)


@dataclass
class Diary:
    """Notes who starts, leaves and ends when."""

    starts: list[tuple[float, str]] = field(default_factory=list)
    evicted: list[tuple[float, str]] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)

    def __call__(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        self.ends |= {event.workload: now for event in events if isinstance(event, Ended)}
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                self.starts.append((now, decision.workload))
            elif isinstance(decision, Evict):
                self.evicted.append((now, decision.workload))


def load_of(
    text: str, *arrivals: tuple[Workload, float], changes: Iterable[tuple[float, Event]] = ()
) -> Load:
    """Return a load on the cluster of a picture; workloads come when they say, and run so long."""
    topology, nodes = picture(text)
    some = [Arrival(workload.submitted_at, workload, run_s) for workload, run_s in arrivals]
    return Load("by hand", topology, tuple(nodes), some, changes, STRICT)


def play(load: Load, delays: Delays = AT_ONCE) -> Diary:
    """Run a load to its end."""
    diary = Diary()
    Run(load, listeners=[diary], delays=delays).run()
    return diary


def test_one_after_the_other() -> None:
    load = load_of("a=1", (task("x", 1), 10.0), (task("y", 1, submitted_at=4.0), 5.0))

    diary = play(load)

    assert diary.starts == [(0.0, "x"), (10.0, "y")]
    assert diary.ends == {"x": 10.0, "y": 15.0}


def test_a_start_takes_its_time() -> None:
    """Run times count from when all run; the room is taken from the decision on."""
    load = load_of("a=1", (task("x", 1), 10.0), (task("y", 1), 10.0))

    assert play(load, Delays(start_s=3.0)).ends == {"x": 13.0, "y": 26.0}


def test_decisions_take_their_time_if_that_is_wanted() -> None:
    """What is decided at 0 happens at 2; who comes meanwhile is heard of then, and runs at 4."""
    load = load_of("a=1 b=1", (task("x", 1), 10.0), (task("y", 1, submitted_at=1.0), 10.0))

    diary = play(load, Delays(decide_s=2.0))

    assert diary.starts == [(0.0, "x"), (2.0, "y")]
    assert diary.ends == {"x": 12.0, "y": 14.0}


def test_who_is_told_to_leave_works_until_the_decision_is_made() -> None:
    """The low one runs from 10 on, and is evicted at 100, by a decision that is made at 110."""
    low, high = task("low", 1), task("high", 1, submitted_at=100.0, priority=5)
    saved = replace(low, checkpoint_every_s=1.0)

    in_time = play(load_of("a=1", (low, 95.0), (high, 50.0)), Delays(decide_s=10.0))
    broken = play(load_of("a=1", (saved, 300.0), (high, 50.0)), Delays(decide_s=10.0))

    assert in_time.ends == {"low": 110.0, "high": 120.0 + 50.0}  # it is seen at 110 that one ended
    assert broken.starts[-1] == (170.0, "low")
    assert broken.ends["low"] == 170.0 + 10.0 + 300.0 - 100.0


def test_who_would_end_after_the_decision_is_broken_off_though_grace_is_long() -> None:
    """It runs 10 to 110 and would end at 115; its node is free at 160."""
    low, high = task("low", 1), task("high", 1, submitted_at=100.0, priority=5)
    diary = play(load_of("a=1", (low, 105.0), (high, 50.0)), Delays(decide_s=10.0, grace_s=50.0))
    assert diary.ends["low"] > diary.ends["high"] > 160.0 + 50.0


def test_time_that_decisions_take_here_can_count() -> None:
    """However long it is, it is more than nothing."""
    load = load_of("a=1", (task("x", 1), 10.0), (task("y", 1), 10.0))

    ends = play(load, Delays(decide_s=None)).ends

    assert 10.0 < ends["x"] < ends["y"] - 10.0


@pytest.mark.parametrize(
    ("every_s", "restart_s", "delays", "end"),
    [
        # The low one runs 0–100 and has 300 to do; the high one has the node 100–150.
        (None, None, Delays(), 150 + 300),
        (30.0, None, Delays(), 150 + 300 - 90),
        (100.0, None, Delays(), 150 + 300 - 100),
        (30.0, 20.0, Delays(), 150 + 20 + 300 - 90),
        (30.0, None, Delays(restart_s=7.0), 150 + 7 + 300 - 90),
        (30.0, 0.0, Delays(restart_s=7.0), 150 + 300 - 90),
        (30.0, 20.0, Delays(restart_s=7.0), 150 + 20 + 300 - 90),
        # It leaves until 105; both starts take 4 s more; it ran from 4 to 100: three checkpoints.
        (30.0, None, Delays(start_s=4.0, grace_s=5.0), 105 + 4 + 50 + 4 + 300 - 90),
    ],
)
def test_eviction_costs_what_was_not_saved(
    every_s: float | None, restart_s: float | None, delays: Delays, end: float
) -> None:
    low = replace(task("low", 1), checkpoint_every_s=every_s, restart_cost_s=restart_s)
    high = task("high", 1, submitted_at=100.0, priority=5)
    load = load_of("a=1", (low, 300.0), (high, 50.0))

    diary = play(load, delays)

    assert diary.evicted == [(100.0, "low")]
    assert diary.ends["low"] == end


def test_a_restart_is_not_work() -> None:
    """Broken off again while it is still busy with its restart, it has lost nothing but time."""
    low = replace(task("low", 1), checkpoint_every_s=10.0, restart_cost_s=40.0)
    first = task("first", 1, submitted_at=100.0, priority=5)
    second = task("second", 1, submitted_at=135.0, priority=5)
    load = load_of("a=1", (low, 300.0), (first, 10.0), (second, 10.0))

    diary = play(load)

    assert [at for at, name in diary.evicted] == [100.0, 135.0]  # 100 done; from 110 it restarts
    assert diary.ends["low"] == 145 + 40 + 200


def test_checkpoints_that_are_told_count_as_well() -> None:
    """Of the last checkpoint told and the last one by the clock, the later one is what is left."""
    low = replace(task("low", 1), checkpoint_every_s=60.0, checkpoint_at=90.0)
    high = task("high", 1, submitted_at=100.0, priority=5)

    assert play(load_of("a=1", (low, 300.0), (high, 50.0))).ends["low"] == 150 + 300 - 90


def test_a_lost_node_takes_a_gang_with_it() -> None:
    """Half of the gang is gone at 50, and there is no other node; it comes back at 80."""
    _, (_, lost) = picture("a=1 b=1")
    changes: list[tuple[float, Event]] = [(50.0, NodeLeft("b")), (80.0, NodeJoined(lost))]
    some = replace(gang("g", tasks=2, gpus=1), checkpoint_every_s=20.0)

    diary = play(load_of("a=1 b=1", (some, 100.0), changes=changes))

    assert diary.ends["g"] == 80 + 100 - 40


def test_a_failed_task_starts_again() -> None:
    """At 30 it fails, 20 of it were saved: 80 are left."""
    failed = TasksChanged("x", "main", (0,), TaskState.FAILED)
    some = replace(task("x", 1), checkpoint_every_s=20.0)
    group = some.groups[0].name

    diary = play(load_of("a=1", (some, 100.0), changes=[(30.0, replace(failed, group=group))]))

    assert diary.ends["x"] == 30 + 80


def test_who_ranks_higher_does_not_wait_behind_who_is_blocked() -> None:
    """The big one blocks the small one of its rank, not the urgent one that asks for the same."""
    runs, big = task("runs", 1), task("big", 2, submitted_at=1.0)
    small = task("small", 1, submitted_at=2.0)
    urgent = task("urgent", 1, submitted_at=3.0, priority=5)
    load = load_of("a=2", (runs, 100.0), (big, 10.0), (small, 10.0), (urgent, 10.0))

    assert play(load).starts == [(0.0, "runs"), (3.0, "urgent"), (100.0, "big"), (110.0, "small")]


def test_ends_come_before_submissions() -> None:
    """At 10 the node is free for whoever was submitted first, not for who comes then."""
    load = load_of("a=1", (task("x", 1), 10.0), (task("y", 1, submitted_at=10.0), 5.0))

    assert play(load).starts == [(0.0, "x"), (10.0, "y")]


def test_what_nobody_gave_a_run_time_runs_until_it_is_ended() -> None:
    load = load_of("a=1", (task("x", 1), inf), changes=[(70.0, Ended("x"))])

    assert play(load).ends == {"x": 70.0}


def failing(load: Load, *, fails: bool = True) -> Load:
    """Return a load of which all work fails at the end of its run, or none."""
    return replace(load, arrivals=[replace(each, fails=fails) for each in load.arrivals])


def ends_of(load: Load, delays: Delays = AT_ONCE) -> list[tuple[float, Ended]]:
    """Run a load to its end; return who ended when, and how."""
    found: list[tuple[float, Ended]] = []

    def hear(now: float, events: Sequence[Event], plan: Plan) -> None:
        found.extend((now, event) for event in events if isinstance(event, Ended))

    Run(load, listeners=[hear], delays=delays).run()
    return found


def test_who_fails_does_so_at_the_end_of_its_own_run() -> None:
    """The low one is broken off from 30 to 80 and does all of it again; one is done, one ended."""
    low, high = task("low", 1), task("high", 1, submitted_at=30.0, priority=5)
    load = failing(load_of("a=1", (low, 100.0), (high, 50.0)))
    other = (task("done", 1), 10.0), (task("ended", 1, submitted_at=10.0), 100.0)
    ended = load_of("a=1", *other, changes=[(60.0, Ended("ended"))])
    some = [replace(each, fails=each.workload.name == "ended") for each in ended.arrivals]

    assert ends_of(load) == [(80.0, Ended("high", failed=True)), (180.0, Ended("low", failed=True))]
    assert ends_of(replace(ended, arrivals=some)) == [(10.0, Ended("done")), (60.0, Ended("ended"))]


def limited(workload: Workload, run_limit_s: float = 50.0) -> Workload:
    """Return a workload that may run no longer than that."""
    return replace(workload, run_limit_s=run_limit_s)


@pytest.mark.parametrize(
    ("delays", "first", "second"),
    [
        (Delays(), 50, 60),
        (Delays(grace_s=7.0), 57, 67),
        (Delays(start_s=3.0), 53, 66),
        (Delays(decide_s=2.0), 54, 66),
        (Delays(grace_s=7.0, decide_s=2.0), 61, 73),
    ],
)
def test_who_has_run_as_long_as_it_may_is_over_when_it_has_left(
    delays: Delays, first: float, second: float
) -> None:
    """It has failed, as it was not done; who waits for its node runs 10 s, and is."""
    load = load_of("a=8", (limited(task("a", 8)), 100.0), (task("b", 8, submitted_at=5.0), 10.0))

    assert ends_of(load, delays) == [(first, Ended("a", failed=True)), (second, Ended("b"))]


def test_a_limit_ends_a_workload_once_however_many_groups_it_has() -> None:
    """It leaves in three pieces, of which one is larger than it needs to be."""
    parts = group("leader"), group("worker", tasks=3, most=5), group("other", gpus=0)
    load = load_of("a=8", (limited(workload("w", *parts)), inf))

    assert ends_of(load, Delays(grace_s=5.0)) == [(55.0, Ended("w", failed=True))]


def test_who_is_done_when_its_limit_is_over_has_not_failed() -> None:
    """Or while that is decided: until then it runs on."""
    load = load_of("a=8", (limited(task("a", 8)), 50.0))
    later = load_of("a=8", (limited(task("a", 8)), 51.0))

    assert ends_of(load) == [(50.0, Ended("a"))]
    assert [end for _, end in ends_of(later, Delays(decide_s=2.0))] == [Ended("a")]


def test_of_whom_its_limit_has_ended_nothing_more_is_heard() -> None:
    """It would have been edited and ended later on; another one is, at the same time."""
    a, b = task("a", 4), task("b", 4)
    changes: list[tuple[float, Event]] = [
        (60.0, WorkloadChanged(replace(a, priority=3))),
        (70.0, Ended("a")),
        (70.0, Ended("b")),
    ]
    load = load_of("a=8", (limited(a), inf), (b, inf), changes=changes)

    assert ends_of(load) == [(50.0, Ended("a", failed=True)), (70.0, Ended("b"))]


def test_work_in_a_queue_with_a_limit_is_over_too() -> None:
    """Services would scale and end when they are gone already."""
    load = make_load("mixed", 1, Options(64, days=0.2, load=1.5))
    queues = tuple(replace(queue, run_limit_s=1800.0) for queue in load.queues)

    ends = ends_of(replace(load, queues=queues), Delays(30.0, 60.0, 10.0))

    names = [end.workload for _, end in ends]
    assert len(names) == len(set(names))
    assert sum(end.failed for _, end in ends) > len(names) / 10


def test_a_run_that_its_limit_ends_is_broken_off_and_lost_since_it_was_saved() -> None:
    """It runs 50 s and leaves in 10: 20 s of that were saved, and all of it was in vain."""
    low = replace(limited(task("a", 8)), checkpoint_every_s=20.0, submitted_at=0.0)
    run = Run(load_of("a=8", (low, 100.0)), delays=Delays(grace_s=10.0))
    metrics = Metrics(run.start)
    run.loop.listen(metrics.hear)
    run.run()

    summary = metrics.summary()

    assert summary.ended == summary.failed.workloads == summary.evictions.workloads == 1
    assert summary.failed.gpu_hours == pytest.approx(8 * 60 / 3600)
    assert summary.evictions.lost_gpu_hours == pytest.approx(8 * 10 / 3600)
    assert summary.evictions.by_cause == (("run-limit", 1),)


def half_a_day() -> Load:
    """Return more work than 64 GPUs can do, in the course of which nodes fail."""
    load = make_load("lab", 4, Options(64, days=0.5, load=2.0))
    load = replace(load, arrivals=list(load.arrivals))
    return with_failures(NAMED["default"].applied(load), 4, 50, 43_200.0)


def measured(load: Load, delays: Delays) -> tuple[list[tuple[float, Plan]], Summary, int]:
    """Run a load; return all plans, the numbers, and how many failed just when told to leave."""
    run = Run(load, delays=delays)
    metrics = Metrics(run.start, restart_s=delays.restart_s)
    plans: list[tuple[float, Plan]] = []
    in_time = 0

    def hear(now: float, events: Sequence[Event], plan: Plan) -> None:
        nonlocal in_time
        before = plans[-1][1].decisions if plans else ()
        told = {decision.workload for decision in before if isinstance(decision, Evict)}
        in_time += sum(isinstance(e, Ended) and e.failed and e.workload in told for e in events)
        plans.append((now, plan))

    run.loop.listen(metrics.hear)
    run.loop.listen(hear)
    run.run(43_200.0)
    return plans, metrics.summary(), in_time


@pytest.mark.parametrize("decide_s", [0.0, 120.0])
def test_that_work_fails_changes_no_decision_and_no_other_number(decide_s: float) -> None:
    """Where decisions take time some are told to leave that have failed before they must."""
    load, delays = half_a_day(), Delays(30.0, 60.0, 30.0, decide_s)

    plans, summary, in_time = measured(load, delays)
    others, without, _ = measured(failing(half_a_day(), fails=False), delays)

    assert plans == others
    assert replace(summary, failed=without.failed) == without
    assert summary.evictions.workloads > 20
    assert summary.nodes_lost > 0
    assert summary.failed.workloads > 100
    assert without.failed.workloads == 0
    assert (in_time > 0) == (decide_s > 0)


def test_all_that_is_held_is_held_by_those_that_fail_if_all_do() -> None:
    """Who is broken off has its GPUs several times; the first hour does not count."""
    run = Run(failing(half_a_day()), delays=Delays(30.0, 60.0, 30.0))
    metrics = Metrics(run.start, 3600.0)
    run.loop.listen(metrics.hear)
    run.run()

    summary = metrics.summary()

    assert summary.failed.workloads == summary.ended
    assert summary.sor is not None
    held = summary.sor * summary.gpus * (summary.end - summary.start) / 3600
    assert summary.failed.gpu_hours == pytest.approx(held)


def test_arrivals_are_taken_when_their_time_comes() -> None:
    """An endless stream costs nothing; what has ended is forgotten."""
    taken = 0

    def endless() -> Iterator[Arrival]:
        nonlocal taken
        while True:
            taken += 1
            yield Arrival(10.0 * taken, task(f"t{taken}", 1, submitted_at=10.0 * taken), 4.0)

    topology, nodes = picture("a=1")
    run = Run(Load("endless", topology, tuple(nodes), endless(), queues=STRICT))
    run.run(until=1000.0)

    assert taken == 101
    assert sorted(run.work.progress) == ["t100", "t101"]
    assert sorted(run.engine.entries()) == ["t100"]


def test_changes_come_in_their_time() -> None:
    """A node that is closed from 5 to 20 keeps who comes between waiting."""
    _, (node,) = picture("a=1")
    changes = [(5.0, NodeChanged(replace(node, ready=False))), (20.0, NodeChanged(node))]
    load = load_of("a=1", (task("x", 1, submitted_at=6.0), 10.0), changes=changes)

    assert play(load).starts == [(20.0, "x")]


def test_stopping_on_the_way_changes_nothing() -> None:
    works = [(task(f"t{n}", 1 + n % 2, submitted_at=3.0 * n), 7.0 + n) for n in range(12)]
    whole, parts = Diary(), Diary()
    Run(load_of("a=2 b=2", *works), listeners=[whole]).run()
    run = Run(load_of("a=2 b=2", *works), listeners=[parts])
    for until in islice(range(0, 1000, 5), 30):
        run.run(until)
    run.run()

    assert parts == whole

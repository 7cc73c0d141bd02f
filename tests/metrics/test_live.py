"""The live numbers are those of the long fold."""

from __future__ import annotations

import pytest

from mooring.metrics import Metrics
from mooring.metrics.live import Live
from mooring.model.events import Ended, Event, NodeJoined, NodeLeft, Submitted, TasksChanged
from mooring.model.plan import Bind, Decision, Evict, Plan
from mooring.model.scenario import Scenario
from mooring.model.workload import Placement, TaskState
from tests.build import gang, node, task

WORK, PAIR = task("w", 4), gang("g", tasks=2, gpus=2)
GROUP, PAIRED = WORK.groups[0].name, PAIR.groups[0].name
NODES = tuple(NodeJoined(node(name, 4)) for name in "abc")

STORY: list[tuple[float, tuple[Event, ...], tuple[Decision, ...]]] = [
    (
        0.0,
        (*NODES, Submitted(WORK), Submitted(PAIR)),
        (Bind("w", Placement(GROUP, (0,), ("a",), (0b1111,))),),
    ),
    (10.0, (), (Bind("g", Placement(PAIRED, (0, 1), ("b", "c"), (0b11, 0b11))),)),
    (30.0, (), (Evict("g", PAIRED, (0, 1), "preempt"),)),
    (40.0, (TasksChanged("g", PAIRED, (0, 1), TaskState.PENDING),), ()),
    (60.0, (NodeLeft("c"),), ()),
    (100.0, (Ended("w"),), ()),
]


def test_the_present() -> None:
    live = Live()
    seen = []
    for now, events, decisions in STORY:
        live.hear(now, events, Plan(decisions))
        seen.append((round(live.gar, 3), round(live.gfr, 3), live.nodes))
    assert seen == [
        (0.333, 0.0, 3),
        (0.667, 0.667, 3),
        (0.667, 0.667, 3),
        (0.333, 0.0, 3),
        (0.5, 0.0, 2),
        (0.0, 0.0, 2),
    ]


def test_lines() -> None:
    live = Live()
    assert live.lines() == {}
    for (now, events, decisions), lines in zip(
        STORY, [(1, 1), (0, 2), (0, 2), (1, 1), (1, 1), (1, 0)], strict=True
    ):
        live.hear(now, events, Plan(decisions))
        assert live.lines() == {"default": lines}
    assert live.waits("g")
    assert not live.waits("w")


def test_occupancy_is_that_of_the_summary() -> None:
    live, metrics = Live(), Metrics(Scenario())
    for now, events, decisions in STORY:
        live.hear(now, events, Plan(decisions))
        metrics.hear(now, events, Plan(decisions))
    assert live.sor == pytest.approx(metrics.summary().sor)
    assert live.installed_gpu_s == pytest.approx(60 * 12 + 40 * 8)


def test_time_goes_on_without_cycles_and_never_back() -> None:
    live = Live()
    live.hear(0.0, STORY[0][1], Plan(STORY[0][2]))
    live.pass_time(10.0)
    live.pass_time(5.0)
    assert live.held_gpu_s == pytest.approx(40.0)
    assert live.sor == pytest.approx(1 / 3)
    assert Live().sor == Live().gar == Live().gfr == 0.0

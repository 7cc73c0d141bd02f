"""A recorded life replays to the same plans; where it does not, the difference is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.journal import Journal, Recorder
from mooring.model.cluster import Device, Node
from mooring.model.events import Ended, Event, NodeJoined, NodeLeft, Submitted, TasksChanged
from mooring.model.plan import Behind, Bind, Evict, NoRoom, Plan, Record, Reserve, Waiting
from mooring.model.scenario import Scenario
from mooring.model.workload import Placement, PodGroup, Shape, TaskState, Workload
from mooring.sim.replay import MOST_DIFFERENCES, MOST_LINES, Replay, begin, replay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.model.entry import Entry
    from mooring.model.memory import Memory
    from mooring.model.queues import Queue
    from mooring.model.settings import Policy
    from mooring.model.topology import Topology

EIGHT = tuple(Device() for _ in range(8))


class Queueing:
    """A tiny engine: one workload a node, first come first served, on the node first by name."""

    descending = False

    def __init__(
        self, topology: Topology, policy: Policy, memory: Memory, queues: Sequence[Queue] = ()
    ) -> None:
        self.free: list[str] = []
        self.waiting: list[str] = []
        self.node_of: dict[str, str] = {}
        self.said: dict[str, str] = {}

    def observe(self, event: Event) -> None:
        match event:
            case NodeJoined(node):
                self.free = sorted([*self.free, node.name], reverse=self.descending)
            case NodeLeft(node_name):
                self.free.remove(node_name)
            case Submitted(workload):
                self.waiting.append(workload.name)
            case Ended(name):
                self.free = sorted([*self.free, self.node_of.pop(name)], reverse=self.descending)
            case _:
                pass

    def entries(self) -> Mapping[str, Entry]:
        return {}

    def decide(self, now: float) -> Plan:
        decisions = []
        while self.free and self.waiting:
            name, node = self.waiting.pop(0), self.free.pop(0)
            self.node_of[name] = node
            decisions.append(Bind(name, Placement("g", (0,), (node,), (255,))))
        ahead = {name: self.waiting[i - 1] for i, name in enumerate(self.waiting) if i}
        news = [Waiting(n, (Behind(a),)) for n, a in ahead.items() if self.said.get(n) != a]
        self.said = ahead
        return Plan(tuple(decisions), tuple(news), now + 60 if ahead else None)


class Descending(Queueing):
    """The same with another taste in nodes."""

    descending = True


class Failing(Queueing):
    """The same, until it meets a workload that it cannot bear."""

    def observe(self, event: Event) -> None:
        if event == Ended("b"):
            raise RuntimeError("no b")
        super().observe(event)

    def decide(self, now: float) -> Plan:
        if now == 7.0:
            raise RuntimeError("not at seven")
        return super().decide(now)


def node(name: str) -> Node:
    return Node(name, devices=EIGHT)


def submitted(name: str) -> Submitted:
    return Submitted(Workload(name, (PodGroup("g", Shape(gpus=8)),)))


START = Scenario(now=5.0, nodes=(node("n1"), node("n2")))
LIFE: list[tuple[float, list[Event]]] = [
    (5.0, [submitted("a")]),
    (6.0, [submitted("b"), submitted("c"), submitted("d"), submitted("e")]),
    (7.0, [Ended("a")]),
    (8.0, []),
    (9.0, [NodeJoined(node("n0")), Ended("b")]),
    (10.0, []),
    (11.0, [Ended("c"), Ended("d"), Ended("e")]),
]


def record_life(path: Path, factory: type[Queueing] = Queueing) -> Path:
    """Return the journal of an engine that went through the life above."""
    with Journal.create(path, START) as journal:
        engine = Recorder(begin(START, factory), journal)
        for now, events in LIFE:
            for event in events:
                engine.observe(event)
            engine.decide(now)
    return path


def replay_file(path: Path, factory: type[Queueing] = Queueing) -> Replay:
    with Journal.open(path) as journal:
        return replay(journal, factory)


def test_same_engine_gives_the_same_plans(tmp_path: Path) -> None:
    done = replay_file(record_life(tmp_path / "journal"))
    assert done == Replay(records=6, decisions=5, differences=())
    assert done.is_same


def test_cycle_without_events_and_decisions_leaves_no_record(tmp_path: Path) -> None:
    with Journal.open(record_life(tmp_path / "journal")) as journal:
        records = list(journal.records())
    assert [record.now for record in records] == [5.0, 6.0, 7.0, 8.0, 9.0, 11.0]
    assert [list(record.events) for record in records] == [
        events for now, events in LIFE if now != 10.0
    ]
    assert records[3].plan == Plan(wake_at=68.0)


def test_recorder_answers_as_the_engine_does(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal", START) as journal:
        engine = Recorder(begin(START, Queueing), journal)
        engine.observe(submitted("a"))
        plan = engine.decide(5.0)
        (record,) = journal.records()
    assert plan == record.plan
    assert plan.decisions == (Bind("a", Placement("g", (0,), ("n1",), (255,))),)


def test_progress_hears_every_record(tmp_path: Path) -> None:
    heard: list[int] = []
    with Journal.open(record_life(tmp_path / "journal")) as journal:
        replay(journal, Queueing, heard.append)
    assert heard == [1, 2, 3, 4, 5, 6]


def test_other_engine_shows_where_it_differs(tmp_path: Path) -> None:
    done = replay_file(record_life(tmp_path / "journal"), Descending)
    assert not done.is_same
    first = done.differences[0]
    assert (first.index, first.now) == (0, 5.0)
    assert first.lines == (
        "- bind a/g task 0 on n1, devices 0xff",
        "+ bind a/g task 0 on n2, devices 0xff",
    )


@pytest.mark.parametrize(
    ("at", "said"), [(7.0, "not at seven"), (9.0, "no b")], ids=["decide", "observe"]
)
def test_cycle_that_fails_fails_again_in_replay(tmp_path: Path, at: float, said: str) -> None:
    path = tmp_path / "journal"
    with Journal.create(path, START) as journal:
        engine = Recorder(begin(START, Failing), journal)
        engine.observe(submitted("a"))
        engine.observe(submitted("b"))
        engine.decide(6.0)
        engine.observe(Ended("a"))
        with pytest.raises(RuntimeError, match=said):
            engine.observe(Ended("b")) if at == 9.0 else engine.decide(at)
        assert len(journal) == 2
    with pytest.raises(RuntimeError, match=said) as caught:
        replay_file(path, Failing)
    assert caught.value.__notes__ == [f"in record 1 of {path}, at {6.0 if at == 9.0 else 7.0}"]


def test_engine_that_fails_after_a_difference_only_ends_the_replay(tmp_path: Path) -> None:
    """The events of another life may ask what the engine cannot do: here, an end before a start."""
    path = tmp_path / "journal"
    with Journal.create(path, Scenario(nodes=(node("n1"),))) as journal:
        journal.append(Record(0.0, (submitted("a"),), Plan()))
        journal.append(Record(1.0, (Ended("x"),), Plan()))
        journal.append(Record(2.0, (), Plan()))
    done = replay_file(path)
    assert (done.records, done.decisions) == (1, 1)
    assert [d.index for d in done.differences] == [0, 1]
    assert done.differences[1].lines == ("! the engine failed: KeyError('x')",)


def test_replay_ends_after_enough_differences(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal.create(path, Scenario()) as journal:
        journal.append_many(Record(float(i), (), Plan(wake_at=0.0)) for i in range(50))
    done = replay_file(path)
    assert done.records == len(done.differences) == MOST_DIFFERENCES


class Silent(Queueing):
    """Says what it is told to say."""

    plan = Plan()

    def decide(self, now: float) -> Plan:
        return self.plan


def differences(tmp_path: Path, recorded: Plan, replayed: Plan) -> tuple[str, ...]:
    """Return the lines that a replay shows of two plans."""

    class Saying(Silent):
        plan = replayed

    path = tmp_path / "journal"
    with Journal.create(path, Scenario()) as journal:
        journal.append(Record(0.0, (), recorded))
    (difference,) = replay_file(path, Saying).differences
    return difference.lines


def placed(*nodes: str) -> Placement:
    return Placement("g", tuple(range(len(nodes))), nodes, (3,) * len(nodes))


DIFFERENT: dict[str, tuple[Plan, Plan, tuple[str, ...]]] = {
    "one task elsewhere": (
        Plan((Bind("w", placed("a", "b", "c")),)),
        Plan((Bind("w", placed("a", "x", "c")),)),
        ("- bind w/g task 1 on b, devices 0x3", "+ bind w/g task 1 on x, devices 0x3"),
    ),
    "order": (
        Plan((Bind("v", placed("a")), Bind("w", placed("b")))),
        Plan((Bind("w", placed("b")), Bind("v", placed("a")))),
        ("! the same decisions, in another order or divided otherwise",),
    ),
    "evict": (
        Plan((Evict("w", "g", (0, 1), "lost-node"),)),
        Plan((Evict("w", "g", (1,), "preempt", "v"), Evict("w", "g", (0,), "lost-node"))),
        ("- evict w/g task 1: lost-node", "+ evict w/g task 1: preempt for v"),
    ),
    "reserve": (
        Plan((Reserve("w", (placed("a"),), 5.0),)),
        Plan((Reserve("w", (placed("a"),), 6.0),)),
        (
            "- reserve w/g task 0 on a, devices 0x3 until 5.0",
            "+ reserve w/g task 0 on a, devices 0x3 until 6.0",
        ),
    ),
    "reasons": (
        Plan(waiting=(Waiting("w", (Behind("v"),)),)),
        Plan(waiting=(Waiting("w", (NoRoom("g", "rack", 2, 1),)),)),
        (
            "- waiting w: [{'kind': 'behind', 'workload': 'v'}]",
            "+ waiting w: [{'kind': 'no-room', 'group': 'g', 'level': 'rack', 'wanted': 2, "
            "'best': 1}]",
        ),
    ),
    "time": (Plan(wake_at=1.0), Plan(), ("- wake at 1.0", "+ wake at None")),
    "all of many": (
        Plan((Bind("w", placed(*("a",) * (MOST_LINES + 5))),)),
        Plan(),
        (
            *(f"- bind w/g task {task} on a, devices 0x3" for task in range(MOST_LINES)),
            "- … and 5 more",
        ),
    ),
}


@pytest.mark.parametrize(("old", "new", "lines"), DIFFERENT.values(), ids=DIFFERENT)
def test_difference_shows_what_only_one_side_has(
    tmp_path: Path, old: Plan, new: Plan, lines: tuple[str, ...]
) -> None:
    assert differences(tmp_path, old, new) == lines


REPLAY = """
import sys
sys.path[:0] = sys.argv[2:]
from tests.sim.test_replay import replay_real
print(replay_real(sys.argv[1]))
"""


def replay_real(path: str | Path) -> Replay:
    with Journal.open(path) as journal:
        return replay(journal, import_module("mooring.engine").Engine)


def test_real_engine_replays_in_another_process_with_another_hash_seed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    factory = pytest.importorskip("mooring.engine").Engine
    with Journal.create(path, START) as journal:
        engine = Recorder(begin(START, factory), journal)
        for now, events in LIFE:
            for event in events:
                engine.observe(event)
            for decision in engine.decide(now).decisions:
                assert isinstance(decision, Bind)
                done = decision.placement
                for state in (TaskState.BOUND, TaskState.RUNNING):
                    engine.observe(TasksChanged(decision.workload, "g", done.tasks, state))
        engine.decide(12.0)
    here = replay_real(path)
    assert here.is_same
    assert here.decisions == 5
    root = str(Path(__file__).parents[2])
    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", REPLAY, str(path), root, *sys.path],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == str(here)

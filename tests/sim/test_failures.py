"""Nodes that fail under mixes and traces, and what that does to work."""

from pathlib import Path

import pytest

from mooring.model.events import NodeJoined, NodeLeft
from mooring.sim.errors import StudyError
from mooring.sim.load import Load
from mooring.sim.mixes import Options
from mooring.sim.study import NAMED, Source, Trial, run_trial

DAY = 86_400.0
HEADER = "at,name,gpus,run_s\n"


def failed(load: Load) -> int:
    """Return how often nodes fail; each comes back, and none fails while it is down."""
    down: set[str] = set()
    count = 0
    for _, event in load.changes:
        if isinstance(event, NodeLeft):
            assert event.node not in down
            down.add(event.node)
            count += 1
        elif isinstance(event, NodeJoined):
            down.remove(event.node.name)
    assert not down
    return count


def test_nodes_fail_and_come_back() -> None:
    source = Source("lab", Options(800, days=10), node_failures=60)
    assert failed(source.read(2, 10 * DAY).load) == pytest.approx(100 * 60 * 10 / 365, rel=0.3)


def test_a_seed_gives_the_same_failures_and_another_seed_others() -> None:
    def told(seed: int) -> list[tuple[float, str]]:
        source = Source("lab", Options(64, days=5), node_failures=50)
        changes = source.read(seed, 5 * DAY).load.changes
        return [(at, event.node) for at, event in changes if isinstance(event, NodeLeft)]

    assert told(1) == told(1) != told(2)


def test_nodes_of_a_trace_fail_to_the_end_however_little_work_there_is(tmp_path: Path) -> None:
    """Each twice a day; whoever fell behind is not spared, nor is a run without an end."""
    trace = tmp_path / "mine.csv"
    trace.write_text(HEADER + "0,short,8,60\n0,other,8,60\n")
    source = Source(trace=str(trace), node_failures=730)
    load = source.read(0, 50 * DAY).load
    assert failed(load) == pytest.approx(len(load.nodes) * 2 * 50, rel=0.3)
    assert failed(Source(trace=str(trace)).read(0, 50 * DAY).load) == 0
    with pytest.raises(StudyError, match=r"--node-failures 730: .* give --days"):
        source.read(0)


def test_work_of_a_trace_is_broken_off_where_nodes_fail(tmp_path: Path) -> None:
    """Without checkpoints all of it is lost and done again: the end comes later by that."""
    trace = tmp_path / "mine.csv"
    trace.write_text(HEADER + "".join(f"{hour * 3600},w{hour},8,7200\n" for hour in range(48)))

    def run(a_year: float) -> tuple[int, float, float]:
        source = Source(trace=str(trace), node_failures=a_year)
        trial = Trial(source, NAMED["default"], until_s=10 * DAY)
        summary = run_trial(trial, lambda passed: None).summary
        return summary.ended, summary.sor_run or 0.0, summary.sor_useful or 0.0

    ended, run_part, useful = run(365 * 4.0)
    assert ended == 48
    assert useful < run_part
    ended, run_part, useful = run(0.0)
    assert ended == 48
    assert useful == pytest.approx(run_part)

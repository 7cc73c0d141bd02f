"""Traces are found by name or file; what is not there is told, with where to get it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.engine import Engine
from mooring.model.events import NodeJoined, QueuesChanged, Submitted
from mooring.sim.loop import Loop
from mooring.sim.traces import (
    FAMILIES,
    Options,
    Summary,
    TraceError,
    find,
    find_all,
    read_trace,
    summary_of,
)
from tests.sim.traces.test_readers import FILES, PHILLY, write_traces

if TYPE_CHECKING:
    from pathlib import Path


def test_all_that_is_there_is_found(tmp_path: Path) -> None:
    found, missing = find_all(write_traces(tmp_path))

    assert {one.name for one in found} == set(FILES)
    assert missing == []


def test_files_are_found_zipped_and_in_their_folders(tmp_path: Path) -> None:
    (tmp_path / "philly-jobs").mkdir()
    (tmp_path / "philly-jobs" / "philly.csv.gz").write_bytes(gzip.compress(PHILLY.encode()))

    found, missing = find_all(tmp_path)
    assert [one.name for one in found] == ["philly-jobs"]
    assert {family.name for family in missing} == {f.name for f in FAMILIES} - {"philly-jobs"}
    assert read_trace("philly-jobs", tmp_path).rows == 3


def test_a_trace_that_is_there_twice_is_found_once(tmp_path: Path) -> None:
    (tmp_path / "philly-jobs").mkdir()
    for folder in (tmp_path, tmp_path / "philly-jobs"):
        (folder / "philly.csv").write_text(PHILLY)
    assert [one.path.parent.name for one in find_all(tmp_path)[0]] == ["philly-jobs"]


@pytest.mark.parametrize("trace", FILES)
def test_a_file_is_known_by_its_columns(tmp_path: Path, trace: str) -> None:
    """Whatever its name is."""
    write_traces(tmp_path)
    file, text = FILES[trace]
    (tmp_path / "renamed.csv").write_text(text)

    assert find(str(tmp_path / file), "").name == trace
    by_columns = find(str(tmp_path / "renamed.csv"), "").family
    assert by_columns is not None
    assert trace.startswith(by_columns.name)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("philly-job", "did you mean 'philly-jobs'"),
        ("nonsense", "see mooring traces list"),
        ("none.csv", "there is no such file"),
        ("lingjun-topo", "get it from alibaba/alibaba-lingjun-dataset-2023, data/topo.csv"),
        ("philly-muri-1", "get it from Rivendile/Muri, simulator/trace-data"),
    ],
)
def test_what_is_not_there_is_told(tmp_path: Path, given: str, said: str) -> None:
    (tmp_path / "philly.csv").write_text(PHILLY)
    with pytest.raises(TraceError, match=said):
        find(given, tmp_path)


def test_a_trace_in_numbers(tmp_path: Path) -> None:
    """20 GPUs for an hour, one for a minute, eight for five seconds; a day in all."""
    write_traces(tmp_path)
    summary = summary_of(read_trace("philly-jobs", tmp_path, Options(nodes=5)))

    assert replace(summary, mean_gpus=0.0) == Summary(3, 3, 86_400.0, 5, 40, 0.0, 0)
    assert summary.mean_gpus == pytest.approx((20 * 3600 + 60 + 8 * 5) / 86_400)


def test_services_count_while_they_stand(tmp_path: Path) -> None:
    """One GPU from 0 to the last arrival at 100; the other comes then."""
    write_traces(tmp_path)
    assert summary_of(read_trace("dlrm-inference", tmp_path)).mean_gpus == pytest.approx(1.0)


@pytest.mark.parametrize("trace", FILES)
def test_every_trace_runs_to_its_end(tmp_path: Path, trace: str) -> None:
    has_nodes = find(trace, write_traces(tmp_path)).has_nodes
    load = read_trace(trace, tmp_path, Options(nodes=0 if has_nodes else 4)).load
    engine = Engine(load.topology)
    run_s: dict[str, float] = {}
    loop = Loop(engine, lambda workload: run_s[workload.name])
    engine.observe(QueuesChanged(load.queues))
    for node in load.nodes:
        engine.observe(NodeJoined(node))
    for arrival in load.arrivals:
        run_s[arrival.workload.name] = arrival.run_s
        loop.at(arrival.at, Submitted(arrival.workload))
    for at, event in load.changes:
        loop.at(at, event)
    loop.run()

    assert {entry.workload.name for entry in engine.entries().values()} <= {"i-new"}

"""`mooring traces`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main
from mooring.sim.traces import FAMILIES, read_trace
from tests.sim.traces.test_readers import FILES, PHILLY, write_traces

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")


def test_what_is_there_is_listed(tmp_path: Path, capsys: Captured) -> None:
    assert main(["traces", "list", "--traces", str(write_traces(tmp_path))]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["trace", "rows", "span", "nodes", "GPUs", "in", "use"]
    listed = {line.split()[0]: line.split()[1:] for line in lines if line.split()}
    assert set(FILES) <= set(listed)
    assert listed["philly-jobs"] == ["3", "1.0", "days", "1"]
    assert listed["spot-gpu-nodes"] == ["2", "2", "9"]
    assert not any("not here" in line for line in lines)


def test_what_is_not_there_is_listed_with_its_place(tmp_path: Path, capsys: Captured) -> None:
    assert main(["traces", "list", "--traces", str(tmp_path)]) == 0

    out = capsys.readouterr().out
    for family in FAMILIES:
        assert f"{family.repository}:" in out
        assert family.path in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_list_as_json(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "philly.csv").write_text(PHILLY + "never,1,1,1,vc1\n")
    (tmp_path / "topo.csv").write_text("ip\nx\n")
    assert main(["traces", "list", "--traces", str(tmp_path), "-o", "json"]) == 0

    data = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert data["philly-jobs"] == {
        "name": "philly-jobs",
        "found": True,
        "file": str(tmp_path / "philly.csv"),
        "what": "jobs of a research cluster",
        "rows": 4,
        "broken_rows": 1,
        "workloads": 3,
        "span_s": 86_400.0,
        "nodes": None,
        "gpus": None,
        "mean_gpus": 0.83,
        "notes": [],
    }
    assert data["lingjun-topo"]["problem"] == "there is no column 'DSW' or 'PSW' or 'ASW'"
    assert data["openb"]["found"] is False
    assert data["openb"]["repository"] == "alibaba/clusterdata"


def test_broken_files_do_not_end_the_list(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "philly.csv").write_text(PHILLY + "never,1,1,1,vc1\n")
    (tmp_path / "topo.csv").write_text("ip\nx\n")
    assert main(["traces", "list", "--traces", str(tmp_path)]) == 0

    out = capsys.readouterr().out
    assert "philly-jobs: 1 broken row." in out
    assert "lingjun-topo: there is no column 'DSW' or 'PSW' or 'ASW'." in out


def test_the_environment_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("MOORING_TRACES", str(write_traces(tmp_path)))
    assert main(["traces", "list"]) == 0
    assert "philly-jobs" in capsys.readouterr().out


def test_a_trace_is_converted(tmp_path: Path, capsys: Captured) -> None:
    write_traces(tmp_path)
    out = tmp_path / "out.jsonl.gz"
    options = ["--nodes", "3", "--until", "1h", "--queue", "vc1=a", "--queue", "*=b", "--known"]
    argv = ["traces", "convert", "philly-jobs", str(out), "--traces", str(tmp_path), *options]
    assert main(argv) == 0
    assert "2 workloads, 3 nodes with 24 GPUs, 2 queues." in capsys.readouterr().out

    load = read_trace(str(out), "").load
    assert [(a.at, a.workload.queue, a.workload.estimate_s) for a in load.arrivals] == [
        (0, "a", 3600),
        (60, "b", 60),
    ]
    assert len(load.nodes) == 3


def test_a_conversion_as_json(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "mine.csv").write_text("name,at,gpus\na,0,1\nb,1,x\n")
    out = tmp_path / "out.csv"
    argv = [
        "traces",
        "convert",
        str(tmp_path / "mine.csv"),
        str(out),
        "--skip-broken",
        "-o",
        "json",
    ]
    assert main(argv) == 0

    assert json.loads(capsys.readouterr().out) == {
        "name": "mine",
        "files": [str(out), str(tmp_path / "out.nodes.csv")],
        "workloads": 1,
        "nodes": 1,
        "gpus": 8,
        "queues": 1,
        "left_out": 1,
        "notes": ["it names no nodes, and gets 1 node of 8 GPUs; --nodes says how many"],
    }


def test_rows_that_are_left_out_are_told(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "mine.csv").write_text("name,at,gpus\na,0,1\nb,1,x\n")
    argv = ["traces", "convert", str(tmp_path / "mine.csv"), str(tmp_path / "out.csv")]
    assert main([*argv, "--skip-broken"]) == 0

    out = capsys.readouterr().out
    assert "1 broken row left out:" in out
    assert "mine.csv: line 3, column gpus: 'x': give a whole number" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["list", "--traces", "none"], "none: there is no such folder"),
        (["convert", "nonsense", "out.csv"], "nonsense: there is no such trace or file"),
        (["convert", "mine.csv", "out.txt"], "out.txt: give a name that ends in"),
        (["convert", "mine.csv", "mine.csv"], "mine.csv: there is such a file"),
        (["convert", "mine.csv", "o.csv", "--nodes-of", "other"], "other: there is no such trace"),
        (["convert", "mine.csv", "o.csv", "--nodes", "0"], "no whole number from 1"),
        (
            ["convert", "on.csv", "o.csv", "--nodes", "3"],
            "--nodes 3: on has 2 nodes: give at most 2",
        ),
        (["convert", "on.csv", "o.csv", "--gpus", "4"], "--gpus 4: the nodes of on have GPUs of"),
        (["convert", "mine.csv", "o.csv", "--since", "soon"], "'soon': give seconds"),
        (["convert", "mine.csv", "o.csv", "--queue", "a"], "not of the form FROM=TO"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    argv: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "on"):
        (tmp_path / f"{name}.csv").write_text("name,at\na,0\n")
    (tmp_path / "on.nodes.csv").write_text("name,gpus\nx,8\ny,8\n")
    there = set(tmp_path.iterdir())
    assert main(["traces", *argv]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert set(tmp_path.iterdir()) == there


def test_the_schema_is_printed(capsys: Captured) -> None:
    assert main(["schema", "--trace"]) == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["name", "at"]


def test_a_note_that_asks_ends_as_a_question(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "jobs.csv").write_text("name,at,run_s,gpus,queue\na,0,60,1,prdo\nb,0,60,1,prod\n")
    (tmp_path / "jobs.queues.csv").write_text("name,gpus\nprod,8\n")
    assert main(["simulate", "--trace", str(tmp_path / "jobs.csv"), "--nodes", "1"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith(
        "queue prdo (1 workload) is not in jobs.queues.csv: it has no quota there; "
        "did you mean 'prod'?"
    )

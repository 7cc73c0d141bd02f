"""`mooring simulate` and `mooring compare`: what they print and write, and their exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main
from mooring.cli.simulate import Spread
from tests.sim.traces.test_readers import write_traces

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]
SMALL = ["--cluster", "64", "--days", "0.1", "--warm-up", "0.02", "--load", "1.2"]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")


def test_one_run_is_told_in_two_tables(capsys: Captured) -> None:
    assert main(["simulate", *SMALL, "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["default"]
    assert [line.split()[0] for line in lines if line.startswith("GPUs")] == ["GPUs"]
    assert max(map(len, lines)) <= 80
    assert "workloads in 2.4 hours of 64 GPUs, simulated in" in lines[-1]


def test_the_same_seed_gives_the_same_numbers(capsys: Captured) -> None:
    told = []
    for seed in ("1", "1", "2"):
        assert main(["simulate", *SMALL, "--seed", seed, "-o", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1] != told[2]
    assert told[0]["name"] == "default"
    assert told[0]["start"] == 0.02 * 86_400


def test_policies_side_by_side_with_intervals(tmp_path: Path, capsys: Captured) -> None:
    page, data = tmp_path / "report.html", tmp_path / "numbers.csv"
    files = ["--report", str(page), "--data", str(data)]
    policies = ["--policy", "fifo", "default", "--seed", "1", "2", "--jobs", "1"]
    assert main(["compare", *SMALL, *policies, *files, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_whole"]
    assert [(p["policy"], p["seeds"]) for p in told["policies"]] == [("fifo", 2), ("default", 2)]
    assert [(r["name"], r["seed"]) for r in told["runs"]] == [
        ("fifo", 1),
        ("fifo", 2),
        ("default", 1),
        ("default", 2),
    ]
    mean = told["policies"][0]["sor"]["mean"]
    assert mean == pytest.approx((told["runs"][0]["sor"] + told["runs"][1]["sor"]) / 2)
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert [row.split(",")[0] for row in data.read_text().splitlines()] == [
        "policy",
        "fifo",
        "default",
    ]


def test_several_processes_give_the_same(capsys: Captured) -> None:
    told = []
    for jobs in ("1", "2"):
        options = ["--policy", "fifo", "default", "--jobs", jobs, "-o", "json"]
        assert main(["compare", *SMALL, *options]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]


def test_a_policy_file_and_its_mistakes(tmp_path: Path, capsys: Captured) -> None:
    good, bad = tmp_path / "mine.yaml", tmp_path / "bad.yaml"
    good.write_text("policy: {small: best-fit}\n")
    bad.write_text("policy: {small: worst-fit}\n")
    assert main(["simulate", *SMALL, "--policy", str(good)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["mine"]
    assert main(["simulate", *SMALL, "--policy", str(bad)]) == 2
    assert "worst-fit" in capsys.readouterr().err
    assert main(["simulate", *SMALL, "--policy", "nobody-knows"]) == 2
    assert "no such policy: fifo" in capsys.readouterr().err


def test_a_trace_instead_of_a_mix(tmp_path: Path, capsys: Captured) -> None:
    folder = write_traces(tmp_path)
    options = ["--trace", "philly-jobs", "--traces", str(folder), "--days", "0", "-o", "json"]
    assert main(["simulate", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["submitted"] == told["ended"] == 3


def test_a_journal_of_a_run_replays(tmp_path: Path, capsys: Captured) -> None:
    journal = tmp_path / "run.journal"
    assert main(["simulate", *SMALL, "--journal", str(journal)]) == 0
    assert main(["replay", str(journal)]) == 0
    assert "every plan as it was" in capsys.readouterr().out


def test_intervals_are_students() -> None:
    """Of 1, 2, 3: mean 2, deviation 1, t of two degrees 4.303 over the root of three."""
    spread = Spread.of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.half) == pytest.approx((2.0, 4.303 / 3**0.5))
    assert spread.told("{:.1f} s") == "2.0 ± 2.5"
    assert Spread.of([5.0]).told("{:.1f} s") == "5.0 s"

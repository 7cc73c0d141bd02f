"""`mooring measure`: numbers of journals, whoever wrote them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main
from mooring.cli.numbers import in_units
from mooring.journal import Journal
from mooring.model.events import Ended, NodeJoined, Submitted, TasksChanged
from mooring.model.plan import Bind, Plan, Record
from mooring.model.scenario import Scenario
from mooring.model.workload import Placement, TaskState
from tests.build import node, task

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]
NOON = 1_790_000_000.0
"""A clock that began long ago, as that of a live cluster did."""
ONLY_OF_RUNS = {"name", "is_whole", "left_out", "notes"}


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")


def written(path: Path, began: float = NOON) -> str:
    """Write by hand what a live cluster could: 4 GPUs, on which one workload runs for an hour."""
    work = task("w", 4, submitted_at=began + 60.0)
    place = Placement(work.groups[0].name, (0,), ("a",), (0b1111,))
    with Journal.create(path, Scenario(began)) as journal:
        journal.append(Record(began, (NodeJoined(node("a", 4)),), Plan()))
        journal.append(Record(began + 60.0, (Submitted(work),), Plan()))
        journal.append(Record(began + 600.0, (), Plan((Bind("w", place),))))
        runs = TasksChanged("w", place.group, (0,), TaskState.RUNNING, began + 630.0)
        journal.append(Record(began + 660.0, (runs,), Plan()))
        journal.append(Record(began + 4200.0, (Ended("w"),), Plan()))
        journal.append(Record(began + 6000.0, (), Plan()))
    return str(path)


def measured(capsys: Captured, *words: str) -> dict[str, object]:
    assert main(["measure", *words, "-o", "json"]) == 0
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_by_hand(tmp_path: Path, capsys: Captured) -> None:
    """Held from 600 to 4,200 of 6,000 s."""
    told = measured(capsys, written(tmp_path / "live.journal"))
    assert told["name"] == "live"
    assert (told["start"], told["end"]) == (NOON, NOON + 6000.0)
    assert told["sor"] == pytest.approx(0.6)
    assert told["started"] == told["ended"] == 1


def test_a_part(tmp_path: Path, capsys: Captured) -> None:
    """Held from 600 to 2,400 of the 1,800 s after 600; who came before is nobody of these."""
    file = written(tmp_path / "live.journal")
    told = measured(capsys, file, "--since", "10m", "--until", "40m")
    assert (told["start"], told["end"]) == (NOON + 600.0, NOON + 2400.0)
    assert told["sor"] == pytest.approx(1.0)
    assert told["submitted"] == 0


def test_nothing_happened_after_the_last_record(tmp_path: Path, capsys: Captured) -> None:
    told = measured(capsys, written(tmp_path / "live.journal"), "--until", "2h")
    assert told["sor"] == pytest.approx(0.5)


def test_a_journal_has_the_numbers_of_its_run(tmp_path: Path, capsys: Captured) -> None:
    """Whoever drives: the fold sees nothing but records."""
    file = str(tmp_path / "run.journal")
    options = ["--cluster", "64", "--days", "0.2", "--warm-up", "0.05", "--load", "1.2"]
    options += ["--mix", "mixed", "--journal", file, "-o", "json"]
    assert main(["simulate", *options]) == 0
    run = json.loads(capsys.readouterr().out)
    some = ["--since", "4320", "--until", "21600", "--restart", "60"]

    told = measured(capsys, file, *some)

    assert run["evictions"]["workloads"] > 0
    assert run["evictions"]["lost_gpu_hours"] > 0
    for key in set(run) - ONLY_OF_RUNS:
        assert told[key] == run[key], key


def test_one_is_told_whole_and_several_side_by_side(tmp_path: Path, capsys: Captured) -> None:
    """Only the end of a name that says what it is, is cut off: those of live ones have a number."""
    one, other = written(tmp_path / "20261119-3"), written(tmp_path / "other.journal")
    assert main(["measure", one]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["20261119-3"]
    assert lines[-1] == "1 workload in 1.7 hours of 4 GPUs."
    assert any(line.startswith("GPUs") for line in lines)
    assert main(["measure", one, other]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["20261119-3", "other"]
    assert lines[-1] == "other: 1 workload in 1.7 hours of 4 GPUs."


def test_the_page_counts_time_from_the_beginning(tmp_path: Path) -> None:
    """Seconds since 1970 to five digits would all be the same."""
    found = []
    for began in (0.0, NOON):
        file, page = written(tmp_path / "x.journal", began), tmp_path / "page.html"
        assert main(["measure", file, "--report", str(page)]) == 0
        (line,) = re.findall(r"^const DATA = (.*);$", page.read_text("utf-8"), re.M)
        (run,) = json.loads(line)["runs"]
        found.append([run["curve"], run["film"], run["worst"]])
        (tmp_path / "x.journal").unlink()
    assert found[0] == found[1]
    assert found[1][2][0]["submitted_at"] == 60.0


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.13, "0.1 s"),
        (59.0, "59.0 s"),
        (90.0, "1.5 minutes"),
        (8_640.0, "2.4 hours"),
        (129_600.0, "36.0 hours"),
        (216_000.0, "2.5 days"),
    ],
)
def test_stretches_in_words(seconds: float, told: str) -> None:
    assert in_units(seconds) == told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{0}", "{0}"], "{0}: this was given twice"),
        (["{1}/no.journal"], "{1}/no.journal: there is no such file"),
        (["{1}"], "{1}: this is a folder; give a file"),
        (["{1}/empty.journal"], "{1}/empty.journal: it has no records"),
        (
            ["{0}", "--since", "2h"],
            "{0}: its 6 records end 6000 s after it began, so nothing is left to measure",
        ),
        (
            ["{0}", "--data", "{1}/x.txt"],
            "--data {1}/x.txt: give a name that ends in .json or .csv",
        ),
    ],
    ids=["twice", "no file", "folder", "empty", "late", "kind of file"],
)
def test_mistakes(tmp_path: Path, capsys: Captured, words: list[str], said: str) -> None:
    file = written(tmp_path / "live.journal")
    Journal.create(tmp_path / "empty.journal", Scenario()).close()
    assert main(["measure", *(word.format(file, tmp_path) for word in words)]) == 2
    assert capsys.readouterr().err == said.format(file, tmp_path) + "\n"

"""Own functions on the command line: compared, in several processes, and refused with a reason."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]
SMALL = ["--cluster", "32", "--days", "0.02", "--load", "4"]
MINE = """
def largest_first(workload):
    return -workload.gpus

def emptiest(nodes, task):
    return nodes.free_gpus

def halves(nodes, task):
    return (nodes.index % 2 == 0) == (task.gpus < 8)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with own functions the current one."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def compared(capsys: Captured, *options: str) -> dict[str, dict[str, float]]:
    """Return the headlines by policy."""
    assert main(["compare", *SMALL, *options, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    return {run["name"]: run for run in told["runs"]}


def test_own_functions_beside_a_named_policy(capsys: Captured) -> None:
    """In two processes the same comes out as in one; every function makes a difference."""
    own = [
        "fifo,order=mine.py:largest_first",
        "empty=e-binpack,score=mine.py:emptiest",
        "e-binpack,filter=mine.py:halves",
    ]
    options = ["--policy", "fifo", "e-binpack", *own, "--jobs"]
    found = compared(capsys, *options, "1")
    assert list(found) == ["fifo", "e-binpack", "fifo+largest_first", "empty", "e-binpack+halves"]
    assert compared(capsys, *options, "2") == found
    fifo, packed, largest, empty, halves = ({**run, "name": ""} for run in found.values())
    assert largest != fifo != packed
    assert halves != packed
    assert empty == fifo  # `spread` is just that


def test_one_run_by_an_own_order(capsys: Captured) -> None:
    assert main(["simulate", *SMALL, "--days", "0.01", "--policy", "order=mine:largest_first"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["default+largest_first"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["simulate", "--policy", "score=mine.py:fullest"], "there is no function fullest"),
        (["simulate", "--policy", "score=mine.py:largest_first"], "cannot be called with nodes"),
        (["compare", "--policy", "default", "x=,order=yours.py:f"], "there is no file yours.py"),
        (
            ["compare", "--policy", "x=fifo", "x=default"],
            "two policies x; give one another name: NAME=default",
        ),
        (["simulate", "--policy", "nobody,score=mine.py:emptiest"], "no such policy: fifo"),
        (["simulate", "--policy", "kai.yaml,score=mine.py:emptiest"], "not with kai"),
        (
            ["simulate", "--journal", "j", "--policy", "score=mine.py:emptiest"],
            "--journal j: a run by own functions cannot be replayed",
        ),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    folder: Path, capsys: Captured, options: list[str], expected: str
) -> None:
    (folder / "kai.yaml").write_text("policy: {profile: kai}\n")
    assert main([options[0], *SMALL, *options[1:]]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert expected in told[0]


LOUD = """
import sys
print("imported")
def first(workload):
    print("asked", file=sys.stdout)
    return workload.gpus
def best(nodes, task):
    print("scored")
    return nodes.free_gpus
def may(nodes, task):
    sys.stdout.write("filtered\\n")
    return nodes.gpus > 0
"""


@pytest.mark.parametrize("place", ["loud.py", "loud", "package.loud"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_own_functions_print_is_no_part_of_the_output(
    folder: Path, capfd: pytest.CaptureFixture[str], place: str, jobs: str
) -> None:
    """It goes to standard error, from every process."""
    (folder / "package").mkdir()
    (folder / "package/__init__.py").write_text("print('packed')\n")
    for file in ("loud.py", "package/loud.py"):
        (folder / file).write_text(LOUD)
    own = f"fifo,order={place}:first,score={place}:best,filter={place}:may"
    options = ["--policy", "default", own, "--jobs", jobs, "-o", "json"]
    try:
        assert main(["compare", *SMALL, *options]) == 0
        assert main(["simulate", *SMALL, "--days", "0.01", "--policy", own, "--save", "a.run"]) == 0
    finally:
        for name in ("loud", "package", "package.loud"):
            sys.modules.pop(name, None)
    out, err = capfd.readouterr()
    told, end = json.JSONDecoder().raw_decode(out)
    assert [run["name"] for run in told["runs"]] == ["default", "fifo+first+best+may"]
    said = {"imported", "asked", "scored", "filtered"}
    said |= {"packed"} if place.startswith("package") else set()
    assert not said & set(out[end:].split())
    assert said <= set(err.split())


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_mistakes_of_a_run_are_told_from_every_process(
    folder: Path, capsys: Captured, jobs: str
) -> None:
    (folder / "bad.py").write_text("def f(nodes, task):\n    return nodes.names[-1000]\n")
    options = ["--policy", "fifo", "fifo,score=bad.py:f", "--jobs", jobs]
    assert main(["compare", *SMALL, *options]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == (
        "--policy score=bad.py:f: it raises IndexError: list index out of range (bad.py, line 2)"
    )


def test_an_edited_function_is_another_policy(folder: Path, capsys: Captured) -> None:
    """A sweep runs it anew, and a saved run does not go on with it."""
    policy = ["--policy", "fifo,order=mine.py:largest_first"]
    saved = ["--stop-at", "10m", "--save", "half.run"]
    assert main(["sweep", "rows.csv", *SMALL, *policy]) == 0
    assert main(["sweep", "rows.csv", *SMALL, *policy]) == 0
    assert "0 runs in" in capsys.readouterr().out
    assert main(["simulate", *SMALL, *policy, *saved]) == 0
    (folder / "mine.py").write_text(MINE.replace("-workload", "workload"))
    assert main(["sweep", "rows.csv", *SMALL, *policy]) == 0
    assert "1 run in" in capsys.readouterr().out
    assert main(["simulate", "--continue", "half.run"]) == 2
    assert "its own functions have changed since" in capsys.readouterr().err


def test_an_edited_trace_is_other_work(folder: Path, capsys: Captured) -> None:
    for number in (1, 2):
        (folder / "t.csv").write_text(f"name,at,run_s,gpus\na,0,{number}00,1\n")
        assert main(["sweep", "rows.csv", "--trace", "t.csv", "--policy", "fifo"]) == 0
        assert "1 run in" in capsys.readouterr().out
    (folder / "d").mkdir()
    (folder / "d/t.csv").write_text("name,at,run_s,gpus\na,0,700,1\n")
    traces = ["--trace", "t.csv", "d/t.csv"]
    assert main(["sweep", "rows.csv", *traces, "--policy", "fifo", "-o", "json"]) == 0
    loads = json.loads(capsys.readouterr().out)["loads"]
    assert [load["work"] for load in loads] == ["trace t.csv", "trace d/t.csv"]

"""A reader that goes away costs nobody a file that was asked for, nor a full disk the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mooring.cli.main import main
from tests.cli.test_cli import shell
from tests.sim.test_openb import write_study
from tests.sim.traces.test_readers import write_traces

if TYPE_CHECKING:
    from pathlib import Path

SMALL = "--cluster 16 --days 0.01"
TINY = "--gpus 16 --load 1 --seed 0 --days 0.01 --warm-up 0.01"
CONVERTED = ["x.csv", "x.nodes.csv", "x.queues.csv"]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (f"simulate {SMALL} --report r.html --data r.json", ["r.html", "r.json"]),
        (f"simulate {SMALL} --pace 1e9 --report r.html --save x.run", ["r.html", "x.run"]),
        (f"simulate {SMALL} --out all -o json", ["report.html", "runs.csv", "runs.json"]),
        (
            f"compare {SMALL} --policy fifo default --jobs 1 --report r.html --data r.csv",
            ["r.csv", "r.html"],
        ),
        ("measure ../x.journal --report r.html", ["r.html"]),
        (f"sweep rows.csv {SMALL} --policy fifo --jobs 1", ["rows.csv"]),
        ("demo --cluster 16 --hours 1 --no-open --jobs 1", ["mooring-demo.html"]),
        ("demo --cluster 16 --hours 1 --no-open --jobs 1 -o json", ["mooring-demo.html"]),
        (f"experiment kant {TINY} --report r.md --figure r.svg --jobs 1", ["r.md", "r.svg"]),
        ("experiment openb --traces ../study --seed 1 --jobs 1 --figure r.svg", ["r.svg"]),
        ("experiment philly --traces ../traces --nodes 16 --jobs 1 --figure r.svg", ["r.svg"]),
        ("traces convert philly-jobs x.csv --traces ../traces", CONVERTED),
    ],
)
def test_files_are_written_before_anything_is_printed(
    tmp_path: Path, command: str, files: list[str]
) -> None:
    if "measure" in command:
        made = ["--journal", str(tmp_path / "x.journal")]
        assert main(["simulate", *SMALL.split(), *made]) == 0
    here, study, traces = (tmp_path / name for name in ("here", "study", "traces"))
    for folder in (here, study, traces):
        folder.mkdir()
    write_study(study)
    write_traces(traces)

    ended = shell(f"cd {here}; mooring {command} | true; exit ${{PIPESTATUS[0]}}")

    assert (ended.returncode, ended.stderr) == (141, "")
    assert sorted(path.name for path in here.rglob("*") if path.is_file()) == files


@pytest.mark.parametrize("command", ["simulate", "compare --policy fifo --jobs 1"])
def test_a_full_disk_leaves_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    full = tmp_path / "x.json"
    full.symlink_to("/dev/full")
    assert main([*command.split(), *SMALL.split(), "--data", str(full)]) == 2
    told = capsys.readouterr()
    assert "GAR median" in told.out
    assert told.err == f"{full}: this cannot be written: No space left on device\n"

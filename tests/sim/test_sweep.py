"""Sweeps: a row for every cell, whatever happens on the way, and whoever does the work."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from signal import SIGINT
from time import sleep
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main
from mooring.cli.sweep import tell_strangers
from mooring.sim import far, sweep
from mooring.sim.errors import StudyError
from mooring.sim.far import run_far
from mooring.sim.mixes import Options
from mooring.sim.study import NAMED, Source, Trial
from mooring.sim.sweep import Cell, Results, run_cell, strangers
from tests.sim.traces.test_readers import write_traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mooring.sim.sweep import Row

Captured = pytest.CaptureFixture[str]
GRID = ["--cluster", "16", "--days", "0.03", "--policy", "fifo", "default", "--load", "1", "2"]
HERE = ["--seed", "0", "1", "--jobs", "1"]


def told(capsys: Captured, *words: str) -> dict[str, list[dict[str, object]]]:
    """Run a sweep; return what it prints."""
    assert main(["sweep", *words, "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert isinstance(data, dict)
    return data


def a_cell(seed: int = 0) -> Cell:
    """Return a run of half an hour."""
    source = Source("lab", Options(gpus=16, days=0.02))
    return Cell(Trial(source, NAMED["default"], seed, until_s=1800.0))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_grid_is_run_once_and_can_grow(tmp_path: Path, capsys: Captured, name: str) -> None:
    file = str(tmp_path / name)
    first = told(capsys, file, *GRID, *HERE)
    assert [(each["work"], each["load"]) for each in first["loads"]] == [
        ("mix lab", 1.0),
        ("mix lab", 2.0),
    ]
    assert [(row["load"], row["policy"], row["seed"]) for row in first["rows"]] == [
        (load, policy, seed)
        for load in (1.0, 2.0)
        for seed in (0, 1)
        for policy in ("fifo", "default")
    ]
    before = (tmp_path / name).read_bytes()

    assert told(capsys, file, *GRID, *HERE) == first
    assert (tmp_path / name).read_bytes() == before

    more = told(capsys, file, *GRID, "--seed", "0", "1", "2", "--jobs", "1")
    assert (tmp_path / name).read_bytes().startswith(before)
    assert len(more["rows"]) == 12
    assert [row for row in more["rows"] if row["seed"] != 2] == first["rows"]


NEW = {"failed", "failed_gpu_hours"}
"""Columns that rows of before have not got."""


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_rows_from_before_a_column_came_are_read(
    tmp_path: Path, capsys: Captured, name: str
) -> None:
    file = tmp_path / name
    rows = told(capsys, str(file), *GRID, *HERE)["rows"]
    assert rows[0].keys() > NEW
    old = [{key: value for key, value in row.items() if key not in NEW} for row in rows]
    file.unlink()
    with closing(Results(file)) as results:
        for row in old:
            results.add(row)  # type: ignore[arg-type]
    before = file.read_bytes()

    again = told(capsys, str(file), *GRID, *HERE)

    assert again["rows"] == old
    assert again["loads"][0]["policies"][0]["failed"] is None  # type: ignore[index]
    assert file.read_bytes() == before


def test_numbers_are_those_of_compare(tmp_path: Path, capsys: Captured) -> None:
    swept = told(capsys, str(tmp_path / "x.jsonl"), *GRID[:-1], *HERE)
    assert main(["compare", *GRID[:-1], *HERE, "-o", "json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert swept["loads"][0]["policies"] == compared["policies"]


def test_tables_by_load(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["sweep", str(tmp_path / "x.csv"), *GRID, *HERE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("mix")] == [
        "mix lab on 16 GPUs at load 1:",
        "mix lab on 16 GPUs at load 2:",
    ]
    assert lines[-2].startswith("8 runs in ")
    assert lines[-1].startswith("It began with an empty cluster")
    assert main(["sweep", str(tmp_path / "x.csv"), *GRID, *HERE]) == 0
    assert " s; 8 were there already.\n" in capsys.readouterr().out


def test_a_trace_is_one_load_however_often_nodes_fail(tmp_path: Path, capsys: Captured) -> None:
    """Its GPUs are those of its nodes: how many of them are healthy depends on the seed."""
    folder = str(write_traces(tmp_path))
    words = ["--trace", "philly-jobs", "--traces", folder, "--nodes", "2", "--days", "3"]
    words += ["--node-failures", "700", "--policy", "fifo", *HERE]

    swept = told(capsys, str(tmp_path / "x.jsonl"), *words)

    assert [row["gpus"] for row in swept["rows"]] == [16, 16]
    assert [load["gpus"] for load in swept["loads"]] == [16]


def test_failures_can_be_swept(tmp_path: Path, capsys: Captured) -> None:
    """As in runs of their own; each often is a load of its own."""
    file = str(tmp_path / "rows.jsonl")
    work = ["--cluster", "64", "--days", "0.1", "--policy", "default"]
    swept = told(capsys, file, *work, *HERE, "--node-failures", "0", "4000")
    assert [load["node_failures_a_year"] for load in swept["loads"]] == [0.0, 4000.0]
    calm, rough = [[row["nodes_lost"] for row in swept["rows"][at : at + 2]] for at in (0, 2)]
    assert calm == [0, 0]
    assert all(isinstance(lost, int) and lost > 0 for lost in rough)
    assert main(["sweep", file, *work, *HERE, "--node-failures", "4000"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "on 64 GPUs at load 0.9, each node failing 4000 times a year:" in words
    assert "0 runs in" in words


def test_ctrl_c_leaves_whole_rows_and_the_next_call_goes_on(
    tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "x.jsonl"
    seeds = ["--seed", *map(str, range(500)), "--jobs", "2"]
    asked = [sys.executable, "-m", "mooring", "sweep", str(file), *GRID, *seeds]
    process = subprocess.Popen(asked, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not (file.exists() and file.stat().st_size):
        sleep(0.05)
    process.send_signal(SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "Broken off" in out
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert 0 < len(kept) < 2000

    after = told(capsys, str(file), *GRID, *HERE)
    known = {row["cell"]: row for row in kept}
    assert [known.get(row["cell"], row) for row in after["rows"]] == after["rows"]
    assert len(after["rows"]) == 8
    cells = known.keys() | {row["cell"] for row in after["rows"]}
    assert len(file.read_text().splitlines()) == len(cells)


# -- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_half_a_row_at_the_end_is_dropped(tmp_path: Path, name: str) -> None:
    results = Results(tmp_path / name)
    rows = [run_cell(a_cell(seed)) for seed in (0, 1)]
    for row in rows:
        results.add(row)
    results.close()
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-9])

    again = Results(tmp_path / name)
    assert list(again.rows.values()) == rows[:1]
    again.add(rows[1])
    again.close()

    assert (tmp_path / name).read_bytes() == whole


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.jsonl", '{"a": 1}\n'),
        ("x.jsonl", "no JSON\n"),
        ("x.csv", "a,b\n1,2\n"),
        ("x.csv", "cell,policy,work,gpus,load,seed\na,b,c,many,1,2\n"),
    ],
)
def test_a_file_of_something_else_is_told_and_kept(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    line = 2 if name == "x.csv" else 1
    with pytest.raises(StudyError, match=f"{name}, line {line}: this is no row of a sweep"):
        Results(tmp_path / name)
    assert (tmp_path / name).read_text() == text


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, capsys: Captured) -> None:
    assert main(["sweep", str(tmp_path), *GRID, *HERE]) == 2
    assert "cannot be written: Is a directory" in capsys.readouterr().err


def test_rows_of_other_code_are_told(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv"
    with closing(Results(file)) as results:
        results.add(run_cell(a_cell()))
    with closing(Results(file)) as results:
        rows = list(results.rows.values())
    assert strangers(rows) == 0
    tell_strangers(rows, "rows.csv")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sweep, "release", lambda: "mooring of tomorrow")
    tell_strangers(rows, "rows.csv")
    assert "1 row of rows.csv is of other code" in capsys.readouterr().err


def test_columns_of_a_file_stay_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    row = run_cell(a_cell())
    with closing(Results(file)) as results:
        results.add({key: value for key, value in row.items() if key != "code"})
    before = file.read_text()
    with closing(Results(file)) as results, pytest.raises(StudyError, match="other columns"):
        results.add(row)
    assert file.read_text() == before


def test_cells_are_known_by_what_is_run() -> None:
    assert a_cell(1).key == a_cell(1).key != a_cell(2).key


# -- elsewhere ------------------------------------------------------------------------------------


class Threads:
    """Stands in for a cluster."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2)
        self.is_open = True

    def submit(self, work: Callable[[Cell], Row], task: Cell) -> Future[Row]:
        return self._pool.submit(work, task)

    def close(self) -> None:
        self._pool.shutdown()
        self.is_open = False


def test_a_cluster_gives_the_same_rows(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = told(capsys, str(tmp_path / "here.csv"), *GRID, *HERE)
    monkeypatch.setattr(sweep, "far_of", lambda where: Threads())
    there = told(capsys, str(tmp_path / "there.csv"), *GRID, *HERE, "--on", "dask://x:1")
    for row in (*here["rows"], *there["rows"]):
        del row["took_s"]
    assert there == here


def test_a_cluster_is_let_go_of_if_somebody_fails() -> None:
    cluster = Threads()

    def fail(cell: Cell) -> Row:
        raise StudyError(cell.key)

    with pytest.raises(StudyError):
        list(run_far(cluster, fail, [a_cell()]))  # type: ignore[arg-type]
    assert not cluster.is_open


def test_workers_have_the_same_code() -> None:
    with pytest.raises(StudyError, match=r"and here is mooring 0\.0\.1: install the same"):
        run_cell(Cell(a_cell().trial, "mooring 0.0.1"))


@pytest.mark.parametrize("where", ["dask://", "spark://x:1", "localhost"])
def test_where_must_be_known(tmp_path: Path, capsys: Captured, where: str) -> None:
    assert main(["sweep", str(tmp_path / "x.csv"), *GRID, "--on", where]) == 2
    assert f"--on {where}: write local, dask://HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["dask", "ray"])
def test_what_is_not_installed_is_told(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(far, "import_module", missing)
    assert main(["sweep", str(tmp_path / "x.csv"), *GRID, "--on", f"{what}://host:1"]) == 2
    assert f"{what} is not installed here; install it with pip" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


def test_a_file_to_which_nothing_came_is_not_left_behind(tmp_path: Path) -> None:
    """One that was there already stays, also if it is empty."""
    new, old = tmp_path / "new.csv", tmp_path / "old.csv"
    old.touch()
    for path in (new, old):
        with closing(Results(path)):
            assert path.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]


def test_on_a_real_dask_cluster(tmp_path: Path, capsys: Captured) -> None:
    """Skipped where Dask is not installed."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, processes=True, dashboard_address=None)
    with cluster:
        where = cluster.scheduler_address.replace("tcp://", "dask://")
        rows = told(capsys, str(tmp_path / "there.csv"), *GRID, *HERE, "--on", where)["rows"]
    here = told(capsys, str(tmp_path / "here.csv"), *GRID, *HERE)["rows"]
    for row in (*here, *rows):
        del row["took_s"]
    assert rows == here

"""The Kant setting on a tiny cluster: no run passes its bounds, and it can be gone on with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from mooring.cli import main
from mooring.model.cluster import Device, Node
from mooring.model.resources import CPU, amounts
from mooring.model.topology import Topology
from mooring.model.workload import PodGroup, Shape, Workload
from mooring.sim import kant, parallel
from mooring.sim.kant import DELAYS, POLICIES, Ledger, Setting, key_of, run_cell
from mooring.sim.live import Live
from mooring.sim.load import Arrival, Load
from mooring.sim.mixes import Options
from mooring.sim.run import Delays
from mooring.sim.study import NAMED, Source, Trial, outcome_of
from mooring.sim.traces import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mooring.sim.sweep import Cell, Row

Captured = pytest.CaptureFixture[str]
TINY = ["--gpus", "16", "--days", "0.04", "--warm-up", "0.02", "--jobs", "1"]
SOME = ["--policy", "fifo", "default", "--load", "1.1", "--seed", "0", "1"]


def told(capsys: Captured, *words: str) -> dict[str, object]:
    """Run the study; return what it prints."""
    assert main(["experiment", "kant", *words, "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert isinstance(data, dict)
    return data


# -- bounds of a run, by hand ---------------------------------------------------------------------


def a_load(*jobs: tuple[float, int, float]) -> Load:
    """Return one node of eight GPUs and jobs of (time, GPUs, seconds)."""
    node = Node("n", amounts({CPU: 64_000}), devices=(Device(),) * 8)
    arrivals = [
        Arrival(at, Workload(f"j{i}", (PodGroup("task", Shape((), gpus)),), submitted_at=at), run_s)
        for i, (at, gpus, run_s) in enumerate(jobs)
    ]
    return Load("hand", Topology(), (node,), arrivals)


def columns(load: Load, warm_up_s: float, until_s: float, monkeypatch: pytest.MonkeyPatch) -> Row:
    """Return the bounds of a strict run."""
    monkeypatch.setattr(Source, "read", lambda self, seed, until_s: Reading(load, 0))
    source = Source("lab", Options(gpus=8))
    trial = Trial(source, NAMED["fifo"], 0, warm_up_s, until_s, Delays(start_s=10.0))
    live = Live(trial, lambda passed: None)
    ledger = Ledger(live)
    live.run.loop.listen(ledger.hear)
    live.go(warm_up_s)
    ledger.open_window(warm_up_s)
    live.go(until_s)
    ledger.close(until_s)
    summary = outcome_of(live, is_whole=True).summary
    return {**ledger.columns(), "sor": summary.sor, "gfr": summary.gfr.mean}


def test_two_whole_nodes_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hold eight GPUs for 10 + 90 s, so that the second is 100 s late; the fluid is not better
    at the end, but what it does of both at once is not late: it is behind by 50 s in the mean."""
    row = columns(a_load((0, 8, 90), (0, 8, 90)), 100, 200, monkeypatch)

    assert row["inherited"] == pytest.approx(1.0)
    assert row["offered"] == 0
    assert row["sor"] == row["sor_most"] == pytest.approx(1.0)
    assert row["delay_s"] == pytest.approx(50)  # 0 and 100 s
    assert row["delay_least_s"] == pytest.approx(50)
    assert row["unserved_least_gpu_hours"] == pytest.approx(0)
    assert row["gfr_least"] == row["gfr"] == 0


def test_no_policy_can_use_more_than_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four GPUs for 50 s of a window of 100 s: a quarter; until then the node is in part use."""
    row = columns(a_load((110, 4, 40)), 100, 200, monkeypatch)

    assert row["offered"] == row["sor_most"] == pytest.approx(0.25)
    assert row["sor"] == pytest.approx(0.25)
    assert row["gar_most"] == pytest.approx(0.5)  # for half of the time, and then nothing
    assert row["gfr_least"] == row["gfr"] == pytest.approx(0.5)
    assert row["delay_s"] == row["delay_least_s"] == 0


def test_what_is_left_over_must_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times what there is: two thirds are unserved, whoever is served."""
    row = columns(a_load(*[(0.0, 8, 90.0)] * 3), 0, 100, monkeypatch)

    assert row["unserved_least_gpu_hours"] == pytest.approx(2 * 8 * 100 / 3600)
    assert row["sor_most"] == pytest.approx(1)
    assert row["delay_s"] == pytest.approx((0 + 100 + 100) / 3)
    # asked for and not served grows evenly to 1,600 GPU-seconds, in the mean 800, of 2,400
    assert row["delay_least_s"] == pytest.approx(800 * 100 / 2400)


# -- bounds of made-up runs -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["training", "inference", "mixed"])
@pytest.mark.parametrize("policy", ["fifo", "default"])
@pytest.mark.parametrize(("gpus", "load"), [(20, 4.0), (64, 0.5)], ids=["too much", "little"])
def test_no_run_passes_its_bounds(kind: str, policy: str, gpus: int, load: float) -> None:
    """With too much to do waits are bounded; with little what can be used, nearly to the digit."""
    setting = Setting((kind,), (gpus,), (load,), (policy,), (1,), 0.1, 0.02)
    (cell,) = setting.cells()
    row = {key: 0.0 if value is None else value for key, value in run_cell(cell).items()}
    numbers = {key: float(value) for key, value in row.items() if not isinstance(value, str)}

    window_s, hours = 0.1 * 86_400, 0.1 * 24 * gpus
    each_s = DELAYS.grace_s + DELAYS.restart_s + DELAYS.start_s
    evicted = numbers["evictions"] * each_s / window_s
    again = numbers["lost_gpu_hours"] / hours + evicted
    assert numbers["sor"] <= numbers["sor_most"] + again + 1e-9
    assert numbers["gar_median"] <= numbers["gar_most"] + 2 * again + 1e-9
    assert numbers["gfr"] >= numbers["gfr_least"] - 1e-9
    assert numbers["delay_s"] >= numbers["delay_least_s"] - 1e-9
    assert numbers["sor"] > 0.1
    if load < 1:
        assert again < 0.02
        assert numbers["sor_most"] < 0.4
        assert numbers["gar_most"] < 0.4


# -- the command ----------------------------------------------------------------------------------


def test_the_grid_goes_seed_by_seed() -> None:
    cells = list(Setting(gpus=(8, 16), seeds=(3, 4)).cells())

    assert len(cells) == 2 * 2 * 2 * len(POLICIES)
    assert [cell.trial.rules.name for cell in cells[: len(POLICIES)]] == list(POLICIES)
    assert [cell.trial.seed for cell in cells[:: len(POLICIES)]] == [3, 4] * 4
    assert {cell.trial.until_s - cell.trial.warm_up_s for cell in cells} == {7 * 86_400}
    assert len({key_of(cell) for cell in cells}) == len(cells)


def test_rows_are_kept_and_gone_on_with(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "rows.jsonl"
    first = told(capsys, *TINY, *SOME, "--rows", str(file))
    before = file.read_text()
    assert len(before.splitlines()) == 4
    assert first["is_whole"] is True

    assert told(capsys, *TINY, *SOME, "--rows", str(file)) == first
    assert file.read_text() == before
    told(capsys, *TINY, *SOME, "2", "--rows", str(file))
    assert file.read_text().startswith(before)
    assert len(file.read_text().splitlines()) == 6


def test_all_that_is_written(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    kept = ["--rows", str(tmp_path / "rows.csv")]
    page, text, figure = (tmp_path / name for name in ("x.html", "x.md", "x.svg"))
    wanted = ["--report", str(page), "--figure", str(figure)]
    assert main(["experiment", "kant", *TINY, *SOME, *kept, *wanted]) == 0
    shown = capsys.readouterr().out
    assert "mix lab on 16 GPUs at load 1.1:" in shown
    assert "median GAR at least +7%" in shown
    assert main(["experiment", "kant", *TINY, *SOME, *kept, "--report", str(text)]) == 0
    assert capsys.readouterr().out.endswith("4 were there already.\n")

    assert ElementTree.fromstring(figure.read_text()).tag.endswith("svg")
    assert figure.read_text() in page.read_text()
    assert "| GAR median | " in text.read_text()


def test_ctrl_c_leaves_what_is_done(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(
        work: Callable[..., Row], cells: list[Cell], jobs: int, tick: Callable[[int], None]
    ) -> Iterator[Row]:
        yield from parallel.run_all(work, cells[:2], jobs, tick)
        raise KeyboardInterrupt

    monkeypatch.setattr("mooring.cli.kant.run_all", some)
    file = tmp_path / "rows.jsonl"
    assert main(["experiment", "kant", *TINY, *SOME, "--rows", str(file), "-o", "json"]) == 130
    data = json.loads(capsys.readouterr().out)
    assert (data["is_whole"], len(data["rows"])) == (False, 2)
    assert len(data["groups"][0]["verdicts"]) > 0  # both policies of the first seed
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--days", "0"], "--days 0"),
        (
            ["--report", "no/such/folder/x.html"],
            "--report no/such/folder/x.html: there is no folder no/such/folder",
        ),
        (["--rows", "no/such/folder/x.csv"], "no/such/folder/x.csv: this cannot be written"),
    ],
)
def test_mistakes(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: list[str], fault: str
) -> None:
    monkeypatch.setattr(kant, "POLICIES", ("fifo",))
    few = ["--gpus", "8", "--load", "0.5", "--seed", "0", "--policy", "fifo", "--jobs", "1"]
    assert main(["experiment", "kant", *few, "--days", "0.01", "--warm-up", "0", *words]) == 2
    assert fault in capsys.readouterr().err

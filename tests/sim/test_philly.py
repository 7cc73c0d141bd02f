"""The Philly table: a part of it by a plain twin, all of it by the published numbers."""

from __future__ import annotations

import gzip
import json
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mooring.cli.main import main
from mooring.sim import philly
from mooring.sim.philly import ORDERS, load_of, run_one
from tests.sim.traces.test_readers import write_traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mooring.sim.load import Arrival

PART, FEW = 700, 32
"""So many jobs on so many nodes are enough for all to wait."""
PUBLISHED = {
    (96, "fifo"): (2_202, 6_194, 37_777, 48_113),
    (96, "sjf"): (681, 1_289, 13_485, 126_368),
    (64, "fifo"): (833_677, 1_354_242, 1_423_587, 1_440_625),
    (64, "sjf"): (12_991, 20_476, 167_031, 5_772_750),
}
"""Mean, p90, p99 and longest wait (benchmarks § 4)."""
BARS = {
    (96, "easy"): (1_036, 46_200),
    (96, "default"): (930, 48_113),
    (64, "default"): (40_000, None),
}
"""Mean and longest wait at most."""


def seats(free: list[int], gpus: int) -> list[tuple[int, int]] | None:
    """Return where a job goes: nodes and GPUs; None: it does not fit."""
    if gpus <= 8:
        fitting = [(left, node) for node, left in enumerate(free) if left >= gpus]
        return [(min(fitting)[1], gpus)] if fitting else None
    whole = [node for node, left in enumerate(free) if left == 8][: gpus // 8]
    found = [(node, 8) for node in whole]
    if gpus % 8:
        others = [(-left, node) for node, left in enumerate(free) if node not in whole]
        left, node = min(others)
        found.append((node, gpus % 8))
        whole = whole if -left >= gpus % 8 else []
    return found if len(whole) == gpus // 8 else None


def gpus_of(arrival: Arrival) -> int:
    """Return how many GPUs a job asks for."""
    return sum(group.min * group.shape.gpus for group in arrival.workload.groups)


def waits_of(arrivals: list[Arrival], nodes: int, *, shortest: bool) -> list[float]:
    """Return all waits in strict order, by age or the shortest first."""
    free, line, ends = [8] * nodes, list[tuple[float, int]](), list[tuple[float, int]]()
    places: dict[int, list[tuple[int, int]]] = {}
    waits, come = [0.0] * len(arrivals), 0
    while come < len(arrivals) or ends:
        coming = arrivals[come].at if come < len(arrivals) else float("inf")
        now = min(coming, ends[0][0]) if ends else coming
        while ends and ends[0][0] <= now:
            for node, gpus in places.pop(heappop(ends)[1]):
                free[node] += gpus
        while come < len(arrivals) and arrivals[come].at <= now:
            heappush(line, (arrivals[come].run_s if shortest else 0.0, come))
            come += 1
        while line and (found := seats(free, gpus_of(arrivals[line[0][1]]))) is not None:
            job = heappop(line)[1]
            for node, gpus in found:
                free[node] -= gpus
            places[job] = found
            heappush(ends, (now + arrivals[job].run_s, job))
            waits[job] = now - arrivals[job].at
    return waits


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_strict_orders_are_those_of_a_plain_twin(traces: Path, policy: str) -> None:
    load = load_of(str(traces), FEW, ORDERS[policy], PART)
    waits = np.array(waits_of(list(load.arrivals), FEW, shortest=policy == "sjf"))

    row = run_one(str(traces), FEW, policy, PART)

    assert row.jobs == PART
    assert row.mean_wait == pytest.approx(waits.mean())
    assert row.p99 == pytest.approx(np.quantile(waits, 0.99))
    assert row.max_wait == waits.max() > 0


def test_backfill_waits_less_than_strict_order(traces: Path) -> None:
    rows = {policy: run_one(str(traces), FEW, policy, PART) for policy in ("fifo", "default")}

    assert rows["default"].jobs == PART
    assert rows["default"].mean_wait < rows["fifo"].mean_wait
    assert rows["default"].max_wait <= 1.03 * rows["fifo"].max_wait  # fragmentation


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "policy"), PUBLISHED)
def test_strict_orders_give_the_published_numbers(traces: Path, nodes: int, policy: str) -> None:
    row = run_one(str(traces), nodes, policy)

    found = (row.mean_wait, row.p90, row.p99, row.max_wait)
    assert tuple(round(wait) for wait in found) == PUBLISHED[nodes, policy]


@pytest.mark.soak
@pytest.mark.parametrize(("nodes", "policy"), BARS)
def test_backfill_meets_its_bars(traces: Path, nodes: int, policy: str) -> None:
    mean, longest = BARS[nodes, policy]

    row = run_one(str(traces), nodes, policy)

    assert row.mean_wait <= mean
    assert longest is None or row.max_wait <= longest


def test_a_folder_without_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "philly", "--traces", str(tmp_path)]) == 2
    assert "get it from" in capsys.readouterr().err


def test_the_table_and_the_figure_of_a_few_jobs(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with gzip.open(traces / "philly-jobs" / "philly.csv.gz", "rt", encoding="utf-8") as lines:
        (tmp_path / "philly.csv").write_text("".join(islice(lines, 200)), "utf-8")
    figure = tmp_path / "waits.svg"
    study = ["experiment", "philly", "--traces", str(tmp_path), "--nodes", "16", "-o", "json"]

    assert main([*study, "--figure", str(figure)]) == 0

    found = json.loads(capsys.readouterr().out)
    assert [(row["nodes"], row["policy"]) for row in found] == [(16, name) for name in ORDERS]
    assert {row["jobs"] for row in found} == {199}
    assert all(name in figure.read_text("utf-8") for name in ("16 nodes", *ORDERS))

    assert main([*study, "--figure", str(tmp_path / "no" / "waits.svg")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_ctrl_c_says_how_much_of_the_table_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON it is a list of the rows that are done."""
    run_all = philly.run_all

    def interrupted(folder: str, runs: list[tuple[int, str]], *more: Any) -> Iterator[philly.Row]:
        yield from run_all(folder, runs[:2], *more)
        raise KeyboardInterrupt

    monkeypatch.setattr("mooring.cli.philly.run_all", interrupted)
    table = ["experiment", "philly", "--traces", str(write_traces(tmp_path)), "--nodes", "16"]

    assert main([*table, "--jobs", "1"]) == 130
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f" Broken off: 2 of {len(ORDERS)} runs are done.")
    assert main([*table, "--jobs", "1", "-o", "json"]) == 130
    assert len(json.loads(capsys.readouterr().out)) == 2

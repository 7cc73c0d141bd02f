"""The real files: what was counted in them elsewhere."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

import pytest

from mooring.model.topology import Tree
from mooring.sim.traces import Options, read_trace, summary_of, write_trace
from mooring.sim.traces.intake import milli_of

if TYPE_CHECKING:
    from pathlib import Path

    from mooring.sim.traces import Reading

#                       rows   work   days  nodes  GPUs  in use
COUNTED = {
    "openb-default": (8152, 8151, 149, 1213, 6212, 14),
    "philly-jobs": (82_247, 82_247, 109, 96, 768, 374),
    "philly-muri-1": (1494, 1494, 125, 32, 256, 128),
    "philly-muri-2": (5755, 5755, 99, 87, 696, 346),
    "philly-muri-3": (992, 992, 95, 13, 104, 51),
    "philly-muri-4": (2638, 2638, 85, 26, 208, 100),
    "philly-chronus-slo": (30_940, 30_735, 14, 275, 2200, 1097),
    "dlrm-inference": (23_871, 23_856, 31, None, None, 3195),
    "spot-gpu-nodes": (4278, 0, 0, 4278, 10_412, 0),
    "lingjun-topo": (847, 0, 0, 847, 6776, 0),
}


@cache
def _read(name: str, folder: Path) -> Reading:
    return read_trace(name, folder)


@pytest.mark.parametrize("name", COUNTED)
def test_the_numbers_are_those_that_were_counted(traces: Path, name: str) -> None:
    summary = summary_of(_read(name, traces))
    rows, workloads, days, nodes, gpus, used = COUNTED[name]

    assert (summary.rows, summary.workloads, summary.left_out) == (rows, workloads, 0)
    assert round(summary.span_s / 86_400) == days
    assert nodes is None or (summary.nodes, summary.gpus) == (nodes, gpus)
    assert round(summary.mean_gpus) == used


def most_in_use(reading: Reading) -> int:
    """Return the most GPUs in use at once if nobody waits."""
    ends = {event.workload: at for at, event in reading.load.changes}  # type: ignore[union-attr]
    steps = []
    for arrival in reading.load.arrivals:
        gpus = milli_of(arrival.workload)
        end = ends.get(arrival.workload.name, arrival.at + arrival.run_s)
        steps += [(arrival.at, 1, gpus), (end, 0, -gpus)]
    return max(accumulate(gpus for _, _, gpus in sorted(steps))) // 1000


def test_no_more_is_in_use_at_once_than_was_counted(traces: Path) -> None:
    assert most_in_use(_read("dlrm-inference", traces)) == 3414
    assert 60 <= most_in_use(_read("openb-default", traces)) <= 66


def test_as_many_pods_of_openb_fail_as_were_counted(traces: Path) -> None:
    """With 1.8 % of the GPU time; most of them are best effort and last some minutes."""
    arrivals = list(_read("openb-default", traces).load.arrivals)
    failed = [arrival for arrival in arrivals if arrival.fails]
    assert len(failed) == 1870
    held = [milli_of(each.workload) * each.run_s for each in arrivals if each.run_s < inf]
    of_failed = sum(milli_of(each.workload) * each.run_s for each in failed)
    assert of_failed / sum(held) == pytest.approx(0.018, abs=0.0005)


def test_philly_is_what_the_benchmark_says(traces: Path) -> None:
    load = _read("philly-jobs", traces).load
    sizes = Counter(milli_of(arrival.workload) // 1000 for arrival in load.arrivals)

    assert len(load.queues) == 15
    assert {queue.name: queue.weight for queue in load.queues}["6214e9"] == 64
    assert sizes[1] / sizes.total() == pytest.approx(0.932, abs=0.0005)
    assert (sizes[12], sizes[128]) == (7, 3)


def test_lingjun_is_a_tree_of_119_leaves(traces: Path) -> None:
    load = read_trace("lingjun-topo", traces).load
    tree = Tree(load.topology, load.nodes)
    assert [len(names) for names in tree.names] == [1, 1, 3, 119, 847]


def test_a_day_of_philly_on_the_tree(traces: Path) -> None:
    day = Options(since_s=30 * 86_400, until_s=31 * 86_400, nodes=40, nodes_of="lingjun-topo")
    load = read_trace("philly-jobs", traces, day).load
    times = [arrival.at for arrival in load.arrivals]

    assert len(load.nodes) == 40
    assert times
    assert 0 <= min(times) <= max(times) < 86_400


@pytest.mark.parametrize("name", ["openb-gpuspec33", "philly-chronus-mix2", "lingjun-topo"])
def test_a_real_trace_comes_back_from_the_tidy_format(
    traces: Path, tmp_path: Path, name: str
) -> None:
    options = Options(until_s=2 * 86_400 if name.startswith("philly") else inf)
    load = read_trace(name, traces, options).load
    path, *_ = write_trace(load, tmp_path / "a.csv.gz")
    back = read_trace(str(path), "").load

    assert list(back.arrivals) == list(load.arrivals)
    assert list(back.changes) == list(load.changes)
    assert (back.nodes, back.topology, back.queues) == (load.nodes, load.topology, load.queues)

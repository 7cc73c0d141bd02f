"""Made-up load is what the published curves say, whatever the seed and the size of the cluster."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mooring.model.events import Ended, WorkloadChanged
from mooring.sim.mixes import MIXES, Options, make_load
from mooring.sim.mixes.curves import joint, read_curve
from mooring.sim.mixes.make import DAY
from mooring.sim.study import NAMED, Source, Trial, run_trial

if TYPE_CHECKING:
    from mooring.sim.load import Arrival

CLUSTERS = [("lab", "Seren"), ("pretraining", "Kalos"), ("classic", "Helios")]
WITHIN = 0.02
"""Two points."""


@pytest.mark.parametrize(("mix", "cluster"), CLUSTERS)
def test_the_joint_has_all_three_curves(mix: str, cluster: str) -> None:
    table = joint(cluster, MIXES[mix].giants)
    sizes = np.array(table.sizes)
    gpu_time = table.part @ table.means * sizes
    for weight, parts in (("jobs", table.by_size), ("gpu_time", gpu_time / gpu_time.sum())):
        for size, wanted in zip(*read_curve(cluster, "gpu_num", weight), strict=True):
            assert parts[sizes <= size].sum() == pytest.approx(wanted, abs=WITHIN)
    by_duration = np.cumsum(table.part.sum(axis=0))
    _, wanted = read_curve(cluster, "duration_s", "jobs")
    assert by_duration == pytest.approx(wanted[: len(by_duration)], abs=1e-6)


@pytest.mark.parametrize(("mix", "cluster"), CLUSTERS)
def test_a_week_is_within_two_points_of_the_curves(mix: str, cluster: str) -> None:
    load = make_load(mix, 7, Options(8_000, days=7, load=0.9))
    groups_and_runs = [(a.workload.groups[0], a.run_s) for a in load.arrivals]
    sizes = np.array([group.min * group.shape.gpus for group, _ in groups_and_runs])
    runs = np.array([run_s for _, run_s in groups_and_runs])
    gpu_time = sizes * runs
    for size, wanted in zip(*read_curve(cluster, "gpu_num", "jobs"), strict=True):
        assert (sizes <= size).mean() == pytest.approx(wanted, abs=WITHIN)
    for size, wanted in zip(*read_curve(cluster, "gpu_num", "gpu_time"), strict=True):
        part = gpu_time[sizes <= size].sum() / gpu_time.sum()
        assert part == pytest.approx(wanted, abs=WITHIN)
    for duration, wanted in zip(*read_curve(cluster, "duration_s", "jobs"), strict=True):
        assert (runs <= duration).mean() == pytest.approx(wanted, abs=WITHIN)
    assert gpu_time.sum() / (8_000 * 7 * DAY) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("mix", MIXES)
def test_a_seed_gives_one_load_and_another_seed_another(mix: str) -> None:
    def told(seed: int) -> tuple[object, ...]:
        load = make_load(mix, seed, Options(64, days=0.5))
        return (*load.arrivals, *load.changes)

    assert told(1) == told(1) != told(2)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("gpus", [8, 20, 1_000, 100_000])
def test_any_size_of_cluster_gets_work_that_fits_it(mix: str, gpus: int) -> None:
    load = make_load(mix, 3, Options(gpus, days=1))
    assert sum(len(node.devices) for node in load.nodes) == gpus
    depth = len(load.topology.levels)
    assert all(len(node.path) == depth for node in load.nodes)
    some = list(islice(load.arrivals, 500))
    assert some
    assert [a.at for a in some] == sorted(a.at for a in some)
    queues = {queue.name for queue in load.queues}
    for arrival in some:
        (group,) = arrival.workload.groups
        assert group.min * group.shape.gpus <= gpus
        assert arrival.workload.queue in queues
        assert arrival.workload.submitted_at == arrival.at


def part_in_company(arrivals: list[Arrival]) -> float:
    """Return the part that comes within a minute of another of the same user."""
    times = defaultdict(list)
    for arrival in arrivals:
        times[arrival.workload.user].append(arrival.at)
    close = 0
    for some in times.values():
        near = np.diff(some) <= 60.0
        close += int((np.append(near, False) | np.append(False, near)).sum())
    return close / len(arrivals)


def test_small_jobs_come_in_batches() -> None:
    """Four of five jobs with one GPU come in company, larger ones alone.

    Without batches 8 % of either do, by chance.
    """
    arrivals = list(make_load("lab", 5, Options(8_000, days=7)).arrivals)
    assert part_in_company([a for a in arrivals if a.workload.gpus == 1]) > 0.6
    assert part_in_company([a for a in arrivals if a.workload.gpus > 1]) < 0.2


def test_afternoons_are_busier_than_mornings() -> None:
    times = np.array([a.at for a in make_load("lab", 5, Options(8_000, days=7)).arrivals])
    hours = (times % DAY // 3600).astype(int)
    by_hour = np.bincount(hours, minlength=24)
    assert by_hour[16] > 2 * by_hour[6]


def test_services_scale_with_the_hour_and_some_come_and_go() -> None:
    load = make_load("inference", 1, Options(2_000, days=2))
    services = [arrival.workload for arrival in load.arrivals]
    changes = list(load.changes)
    assert all(service.service for service in services)
    assert [at for at, _ in changes] == sorted(at for at, _ in changes)
    assert sum(isinstance(event, Ended) for _, event in changes) >= 3
    wanted = {service.name: service.groups[0] for service in services}
    asked = {n: g.most * g.shape.gpus * g.shape.milli / 1000 for n, g in wanted.items()}
    seen = []
    for _, event in changes:
        if isinstance(event, WorkloadChanged):
            (group,) = event.workload.groups
            milli = group.shape.gpus * group.shape.milli
            asked[event.workload.name] = group.most * milli / 1000
        seen.append(sum(asked.values()))
    assert max(seen) > 1.3 * min(seen)
    assert any(group.shape.milli < 1000 for group in wanted.values())


def test_services_of_a_run_have_what_the_hour_asks_for() -> None:
    """They grow until the afternoon and shrink again: GPUs in use at 3, 15 and 24 o'clock."""
    source = Source("inference", Options(200, days=1.0, load=0.7))
    trial = Trial(source, NAMED["default"], until_s=86_400.0)
    curve = run_trial(trial, lambda passed: None).summary.curve
    used = dict(curve.queues)["serving"]
    night, day, end = (used[int(part * (len(used) - 1))] for part in (3 / 24, 15 / 24, 1.0))
    assert day > 1.5 * night
    assert end < 0.75 * day

"""Made-up load is what the published curves say, if there is enough of it; it fits any cluster."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mooring.model.events import Ended, WorkloadChanged
from mooring.sim.mixes import MIXES, Options, make_load
from mooring.sim.mixes.curves import joint, read_curve
from mooring.sim.mixes.failing import RATES, Rates, odds_of
from mooring.sim.mixes.make import DAY
from mooring.sim.study import NAMED, Source, Trial, run_trial

if TYPE_CHECKING:
    from mooring.model.columns import Floats
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


@cache
def draw(mix: str, seed: int, days: float) -> tuple[Floats, Floats, Floats]:
    """Return of the jobs that come to 8,000 GPUs the GPUs, the durations, and whether they fail."""
    arrivals = make_load(mix, seed, Options(8_000, days, load=0.9)).arrivals
    gpus, runs, fails = np.array([(a.workload.gpus, a.run_s, a.fails) for a in arrivals]).T
    return gpus, runs, fails


def furthest(values: Floats, curve: tuple[Floats, Floats], weights: Floats | None = None) -> float:
    """Return how far from any point of a curve the part of the values is that is not above."""
    every = np.ones_like(values) if weights is None else weights
    parts = [every[values <= x].sum() / every.sum() for x in curve[0]]
    return float(np.abs(np.array(parts) - curve[1]).max())


SEEDS = [(*one, seed) for one in CLUSTERS for seed in range(5)]
MORE = [("pretraining", "Kalos", seed) for seed in (7, 8, 9, 12, 18)]
"""By batches 4, 8 and 18 were up to 3.2 points off, 7 was not."""


@pytest.mark.parametrize(("mix", "cluster", "seed"), SEEDS + MORE)
def test_a_week_is_within_two_points_of_the_curves(mix: str, cluster: str, seed: int) -> None:
    gpus, runs, _ = draw(mix, seed, days=7)
    assert furthest(gpus, read_curve(cluster, "gpu_num", "jobs")) < WITHIN
    assert furthest(gpus, read_curve(cluster, "gpu_num", "gpu_time"), gpus * runs) < WITHIN
    assert furthest(runs, read_curve(cluster, "duration_s", "jobs")) < WITHIN
    assert (gpus * runs).sum() / (8_000 * 7 * DAY) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_a_day_of_pretraining_has_the_sizes_and_durations_of_the_curves(seed: int) -> None:
    gpus, runs, _ = draw("pretraining", seed, days=1)
    assert furthest(gpus, read_curve("Kalos", "gpu_num", "jobs")) < WITHIN
    assert furthest(runs, read_curve("Kalos", "duration_s", "jobs")) < WITHIN


@pytest.mark.parametrize("size", [256, 512, 1024])
def test_large_jobs_of_pretraining_last_as_long_as_their_size_does(size: int) -> None:
    """In the mean, and in the tail: one of 32 lasts over eight times the mean."""
    gpus, runs, _ = draw("pretraining", 4, days=7)
    table = joint("Kalos", MIXES["pretraining"].giants)
    row = table.part[table.sizes.index(size)]
    mean, some = float(row @ table.means / row.sum()), runs[gpus == size]
    assert some.mean() == pytest.approx(mean, rel=0.06)
    assert (some > 8 * mean).sum() == pytest.approx(len(some) / 32, abs=1.5)


def test_the_lab_draws_what_it_drew_when_long_runs_of_it_were_published() -> None:
    arrivals = list(make_load("lab", 3, Options(256, days=7)).arrivals)
    gpus = [a.workload.gpus for a in arrivals]
    assert (len(arrivals), sum(gpus)) == (10_650, 43_428)
    sums = sum(a.at for a in arrivals), sum(a.run_s for a in arrivals)
    assert sums == pytest.approx((3273500273.647669, 15584486.995508129), rel=1e-12)


DRAWN = {
    ("lab", 0, 8_000, 1.0): "6333e8a20a0441d8",
    ("lab", 1, 64, 3.0): "1bd7e9655fbd6dd8",
    ("lab", 7, 1_000, 2.0): "2346a82ab8f6b65a",
    ("pretraining", 0, 8_000, 1.0): "a2355da1c1453ae2",
    ("pretraining", 7, 1_000, 2.0): "afa4f189d5f939dd",
    ("classic", 0, 8_000, 1.0): "8bedcdf036c21430",
    ("classic", 1, 64, 3.0): "6eb713ece18fff3d",
    ("inference", 0, 8_000, 1.0): "e4143f79d68198f4",
    ("mixed", 0, 8_000, 1.0): "e03bc533e7bb4a09",
    ("mixed", 1, 64, 3.0): "dac1e8fcdea6c5fe",
}
"""By the code of commit 83a432f, in which no job failed."""


@pytest.mark.parametrize(("mix", "seed", "gpus", "days"), DRAWN)
def test_that_jobs_fail_changes_nothing_else_of_them(
    mix: str, seed: int, gpus: int, days: float
) -> None:
    """Names, times, durations, sizes, queues and users are those of before, with every seed."""
    told = sha256()
    for a in make_load(mix, seed, Options(gpus, days)).arrivals:
        w = a.workload
        told.update(f"{w.name} {a.at:.9g} {a.run_s:.9g} {w.gpus} {w.queue} {w.user}\n".encode())
    assert told.hexdigest()[:16] == DRAWN[mix, seed, gpus, days]


def part_failed(gpus: Floats, runs: Floats, fails: Floats) -> Rates:
    """Return the part of jobs that fail, and the part of GPU time that they have."""
    return Rates(fails.mean(), float((gpus * runs) @ fails / (gpus @ runs)))


@pytest.mark.parametrize(("mix", "cluster", "seed"), SEEDS + MORE)
def test_in_a_week_as_many_jobs_fail_as_published_and_have_as_much_gpu_time(
    mix: str, cluster: str, seed: int
) -> None:
    assert part_failed(*draw(mix, seed, days=7)) == pytest.approx(RATES[cluster], abs=WITHIN)


@pytest.mark.parametrize(("mix", "cluster"), CLUSTERS)
def test_of_jobs_of_any_size_that_part_fails_that_should(mix: str, cluster: str) -> None:
    """Neither rate is had by failures among small jobs or among large ones alone."""
    gpus, runs, fails = np.concatenate([draw(mix, seed, days=7) for seed in range(5)], axis=1)
    odds = odds_of(joint(cluster, MIXES[mix].giants), RATES[cluster])
    kinds, parts = np.log2(gpus * runs) // 4, [odds.of(each) for each in (gpus * runs).tolist()]
    for kind in np.unique(kinds):
        some = kinds == kind
        wanted = np.array(parts)[some].sum()
        assert fails[some].sum() == pytest.approx(wanted, abs=max(0.02 * wanted, 4.0))


@pytest.mark.parametrize(("mix", "cluster"), CLUSTERS)
@pytest.mark.parametrize("most", [1, 8, 64, 2_048])
def test_both_rates_can_be_had_whatever_the_largest_job(mix: str, cluster: str, most: int) -> None:
    table = joint(cluster, MIXES[mix].giants).up_to(most)
    odds = odds_of(table, RATES[cluster])
    every = np.array(table.sizes)[:, None] * table.means
    parts = table.part * np.vectorize(odds.of)(every)
    found = Rates(parts.sum(), float((parts * every).sum() / table.gpu_seconds))
    assert found == pytest.approx(RATES[cluster], abs=1e-9)


def test_services_do_not_fail_and_the_training_beside_them_does() -> None:
    arrivals = list(make_load("mixed", 1, Options(2_000, days=2)).arrivals)
    assert not any(a.fails for a in arrivals if a.workload.service)
    fails = [a.fails for a in arrivals if not a.workload.service]
    assert sum(fails) / len(fails) == pytest.approx(RATES["Seren"].jobs, abs=WITHIN)


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


@pytest.mark.parametrize("mix", ["lab", "pretraining"])
def test_small_jobs_come_in_batches(mix: str) -> None:
    """Four of five jobs with one GPU come in company, larger ones alone.

    Without batches 8 % of either do, by chance.
    """
    arrivals = list(make_load(mix, 5, Options(8_000, days=7)).arrivals)
    assert part_in_company([a for a in arrivals if a.workload.gpus == 1]) > 0.6
    assert part_in_company([a for a in arrivals if a.workload.gpus > 1]) < 0.2


def test_afternoons_are_busier_than_mornings() -> None:
    times = np.array([a.at for a in make_load("lab", 5, Options(8_000, days=7)).arrivals])
    hours = (times % DAY // 3600).astype(int)
    by_hour = np.bincount(hours, minlength=24)
    assert by_hour[16] > 2 * by_hour[6]


@pytest.mark.parametrize(("mix", "part"), [("inference", 1.0), ("mixed", 1 / 3)])
@pytest.mark.parametrize("seed", range(6))
def test_services_ask_for_their_part_of_the_load_in_the_mean(
    mix: str, part: float, seed: int
) -> None:
    """Also those that are there for a while only: counted as if they stayed it was 0.71 of 0.9."""
    gpus, until_s, load = 1_000, 3 * DAY, 0.9
    made = make_load(mix, seed, Options(gpus, until_s / DAY, load))
    services = [each.workload for each in made.arrivals if each.workload.service]
    came = [(s.submitted_at, WorkloadChanged(s)) for s in services]
    events = sorted([*came, *made.changes], key=lambda each: each[0])
    asked = dict[str, float]()
    total, last = 0.0, 0.0
    for at, event in events:
        total += sum(asked.values()) * (min(at, until_s) - last)
        last = min(at, until_s)
        if isinstance(event, WorkloadChanged):
            (group,) = event.workload.groups
            milli = group.shape.gpus * group.shape.milli
            asked[event.workload.name] = group.most * milli / 1000
        elif isinstance(event, Ended):
            del asked[event.workload]
    total += sum(asked.values()) * (until_s - last)
    assert total / until_s == pytest.approx(part * load * gpus, rel=0.03)


def test_pretraining_on_8000_gpus_has_gangs_of_2048() -> None:
    """They are 0.2 % of jobs, taken from those of 1,024."""
    gpus, _, _ = draw("pretraining", 0, 7)
    assert (gpus == 2048).mean() == pytest.approx(0.002, abs=0.0005)
    assert gpus.max() == 2048


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

"""Training jobs: sizes and durations from published curves, in bursts, by the hour of the day.

Jobs come in batches: somebody submits some like jobs within a minute, small ones above all. Jobs
of a batch have one size and nearly the same duration. To keep close to the curves even in a short
run, sizes and durations are not drawn independently: each draw lies where the fewest have been.
What is counted there is batches or, in a mix with few jobs, every job.

How close that is was measured with a hundred seeds on 8,000 GPUs at load 0.9, as the largest
distance from any point of the curve of sizes by jobs, of sizes by GPU time, and of durations:

    lab          a week     91,000 jobs   1.6  1.6  1.5 points
                 3 days     38,000        2.9  2.7  2.0
    classic      a week     81,000        0.8  1.7  1.3
                 3 days     34,000        1.1  3.8  1.7
    pretraining  a week     15,000        0.2  1.5  0.2
                 a day       2,100        0.7 10.2  1.0

So a week is within two points of all three, and in pretraining a day is of sizes and durations.
Fewer jobs are further off: GPU time most of all, as it hangs on the few that last longest.
"""

from __future__ import annotations

from bisect import bisect_right as bisect
from dataclasses import dataclass
from functools import cache
from math import inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload
from mooring.sim.load import Arrival
from mooring.sim.mixes.cluster import LEAF_NODES, NODE_GPUS, POD_LEAVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.model.columns import Floats
    from mooring.sim.mixes.curves import Joint

HOUR = 3600.0
BY_HOUR = (
    *(0.90, 0.79, 0.65, 0.53, 0.49, 0.48, 0.48, 0.44, 0.51, 0.80, 1.15, 1.28),
    *(1.23, 1.26, 1.39, 1.47, 1.55, 1.40, 1.13, 1.24, 1.33, 1.25, 1.16, 1.08),
)
"""Arrivals by hour of the day, as parts of the mean (four Helios clusters)."""
GOLDEN = (sqrt(5) - 1) / 2
ALIKE = 0.9
"""How much the durations of a batch go together: 1 is equal."""
BATCH_S = 60.0
"""Jobs of a batch come within that time."""
CHECKPOINT_S = 1800.0
"""Training saves its work that often."""
BOUND = 0.5
"""Part of the gangs that must stay in one domain; the others should."""
_NORMAL = NormalDist()
_STRATA, _POINTS, _BLUR = 32, 64, 0.1
"""Large jobs last as long as the mean of one of so many strata, give or take a tenth: a single
one that lasts ever so long must not decide how much GPU time a week has."""
_LARGEST_BATCH = 100
_LARGEST_SMALL = 1
"""GPUs of jobs that come in large batches."""
_PLACES = 8
"""Where every job counts, a batch is tried in so many places."""
_GRID: Floats = np.arange(1, 65, dtype=np.float64) / 64


@dataclass(frozen=True, slots=True)
class Team:
    """Those who share a queue."""

    queue: str
    part: float
    """Of all batches."""
    users: int


class Even:
    """Numbers from 0 to 1, ever more evenly spread: steps by the golden ratio, from anywhere."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._at = float(rng.random())

    def draw(self) -> float:
        """Return one more."""
        self._at = (self._at + GOLDEN) % 1.0
        return self._at


class EvenBatches:
    """Quantiles of like jobs: the middles of batches are even, whatever the number of jobs."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._middles = Even(rng)

    def draw(self, count: int) -> list[float]:
        """Return the quantiles of one more batch."""
        return _alike(self._middles.draw(), count, self._rng)


class EvenJobs:
    """Quantiles of like jobs: a batch lies where the jobs of all batches are then most even.

    Jobs count as much as their quantile weighs. Evenness is looked at up to every point of a grid,
    and not in the sum alone: that could be right with none of the longest jobs.
    """

    def __init__(self, rng: np.random.Generator, weigh: Callable[[float], float]) -> None:
        self._rng = rng
        self._weigh = weigh
        middles = (_GRID - _GRID[0] / 2).tolist()
        self._each: Floats = np.cumsum([weigh(middle) for middle in middles]) / len(middles)
        """What a job adds up to every point in the mean."""
        self._over: Floats = np.zeros_like(_GRID)
        """How much more than that all jobs together have."""

    def draw(self, count: int) -> list[float]:
        """Return the quantiles of one more batch."""
        least, found = inf, ([0.0], self._over)
        for middle in self._rng.random(_PLACES).tolist():
            some = _alike(middle, count, self._rng)
            weights = np.array([self._weigh(quantile) for quantile in some])
            over = self._over - count * self._each + weights @ (np.array(some)[:, None] <= _GRID)
            off = float(over @ over)
            if off < least:
                least, found = off, (some, over)
        quantiles, self._over = found
        return quantiles


def batch_sizes(largest: int) -> Floats:
    """Return how often batches have 1, 2, … jobs: the larger, the rarer (count^-2)."""
    parts: Floats = np.arange(1, largest + 1, dtype=np.float64) ** -2
    parts /= parts.sum()
    return parts


class Jobs:
    """Draws training jobs."""

    def __init__(
        self, rng: np.random.Generator, joint: Joint, teams: tuple[Team, ...], *, every_job: bool
    ) -> None:
        """With `every_job` evenness counts jobs, without it batches."""
        self._rng = rng
        self._joint = joint
        self._teams = teams
        self._shares = _steps(np.array([team.part for team in teams]))
        self._cdf = [_steps(row) for row in joint.part]
        self._edges: list[float] = joint.edges.tolist()
        many = batch_sizes(_LARGEST_BATCH)
        self._many = _steps(many)
        few = np.array([size > _LARGEST_SMALL for size in joint.sizes])
        per_batch = float(many @ np.arange(1, _LARGEST_BATCH + 1))
        batches = joint.by_size / np.where(few, 1.0, per_batch)
        self._per_job = float(batches.sum())
        """How many batches there are for every job."""
        self._by_size = _steps(batches)
        self._sizes = Even(rng)
        self._counts: Callable[[], float] = Even(rng).draw if every_job else rng.random
        self._means: dict[int, list[float]] = {}
        """Per large size, the mean duration of every stratum."""
        self._quantiles = [
            EvenJobs(rng, self._weigh(index)) if every_job else EvenBatches(rng)
            for index in range(len(joint.sizes))
        ]
        self._number = 0

    def arrivals(self, until_s: float, jobs_per_s: float) -> Iterator[Arrival]:
        """Yield jobs in order of time; batches that begin earlier may end later."""
        rate = jobs_per_s * self._per_job
        waiting: list[Arrival] = []
        for at in self._times(until_s, rate):
            waiting.sort(key=lambda arrival: arrival.at)
            ready = [arrival for arrival in waiting if arrival.at <= at]
            yield from ready
            waiting = waiting[len(ready) :]
            waiting += self._batch(at)
        yield from sorted(waiting, key=lambda arrival: arrival.at)

    def _times(self, until_s: float, rate: float) -> Iterator[float]:
        """Yield when batches begin: a Poisson process that follows the hour of the day."""
        peak, at = max(BY_HOUR), 0.0
        while (at := at + self._rng.exponential(1 / (rate * peak))) < until_s:
            if self._rng.random() * peak < BY_HOUR[int(at / HOUR) % 24]:
                yield at

    def _batch(self, at: float) -> Iterator[Arrival]:
        """Yield like jobs of one user."""
        rng, joint = self._rng, self._joint
        index = bisect(self._by_size, self._sizes.draw())
        size = joint.sizes[index]
        count = 1
        if size <= _LARGEST_SMALL:
            count = 1 + bisect(self._many, self._counts())
        team = self._teams[bisect(self._shares, rng.random())]
        user = f"{team.queue}-{int(rng.integers(team.users))}"
        is_bound = rng.random() < BOUND
        times = np.sort(at + rng.random(count) * BATCH_S).tolist() if count > 1 else [at]
        for when, quantile in zip(times, self._quantiles[index].draw(count), strict=True):
            wanted = Workload(
                f"job-{self._number:06d}",
                _groups(size, is_bound=is_bound),
                team.queue,
                user=user,
                submitted_at=when,
                checkpoint_every_s=CHECKPOINT_S,
            )
            self._number += 1
            yield Arrival(when, wanted, self._duration(index, quantile))

    def _duration(self, index: int, quantile: float) -> float:
        """Return a duration for a quantile: for a large job, about the mean of its stratum."""
        if self._joint.sizes[index] <= NODE_GPUS:
            return self._below(index, quantile)
        means = self._strata(index)
        stratum, inside = divmod(quantile * _STRATA, 1.0)
        return means[min(int(stratum), _STRATA - 1)] * (1 - _BLUR + 2 * _BLUR * inside)

    def _strata(self, index: int) -> list[float]:
        """Return the mean duration of every stratum of a size."""
        if index not in self._means:
            points = (np.arange(_STRATA * _POINTS) + 0.5) / (_STRATA * _POINTS)
            every = np.array([self._below(index, point) for point in points.tolist()])
            self._means[index] = every.reshape(_STRATA, _POINTS).mean(axis=1).tolist()
        return self._means[index]

    def _weigh(self, index: int) -> Callable[[float], float]:
        """Return what quantiles weigh: of a large size, as they last; of a small one, the same.

        Small jobs have little GPU time, and some of them last a thousand times the mean.
        """
        if self._joint.sizes[index] <= NODE_GPUS:
            return lambda _: 1.0
        mean = float(np.mean(self._strata(index)))
        return lambda quantile: self._duration(index, quantile) / mean

    def _below(self, index: int, quantile: float) -> float:
        """Return the duration below which that part of the jobs of a size lies."""
        steps, edges = self._cdf[index], self._edges
        column = bisect(steps, quantile)
        below = steps[column - 1] if column else 0.0
        above = steps[column] if column < len(steps) else 1.0
        inside = (quantile - below) / max(above - below, 1e-12)
        low, high = edges[column], edges[column + 1]
        return float(max(low * (high / low) ** min(inside, 1.0), 1.0))


def _steps(parts: Floats) -> list[float]:
    """Return where each part but the last ends, if all of them are put side by side from 0 to 1."""
    ends: list[float] = (np.cumsum(parts) / parts.sum()).tolist()
    return ends[:-1]


def _alike(middle: float, count: int, rng: np.random.Generator) -> list[float]:
    """Return quantiles that go together; a single one is the middle."""
    return [_near(middle, rng) for _ in range(count)] if count > 1 else [middle]


def _near(quantile: float, rng: np.random.Generator) -> float:
    """Return a quantile that goes together with another, and is even by itself."""
    middle = _NORMAL.inv_cdf(min(max(quantile, 1e-9), 1 - 1e-9))
    return _NORMAL.cdf(ALIKE * middle + sqrt(1 - ALIKE**2) * rng.standard_normal())


@cache
def _groups(gpus: int, *, is_bound: bool) -> tuple[PodGroup, ...]:
    """Return the tasks of a job; a bound gang must stay in one domain, another should."""
    if gpus <= NODE_GPUS:
        return (PodGroup("task", _shape(gpus)),)
    tasks = -(-gpus // NODE_GPUS)
    level = "leaf" if tasks <= LEAF_NODES else "pod" if tasks <= LEAF_NODES * POD_LEAVES else ""
    request = TopologyRequest(required=level) if is_bound else TopologyRequest(preferred=level)
    return (PodGroup("worker", _shape(NODE_GPUS), tasks, topology=request),)


def _shape(gpus: int) -> Shape:
    return Shape(amounts({CPU: 12_000 * gpus, MEMORY: gpus << 17}), gpus)

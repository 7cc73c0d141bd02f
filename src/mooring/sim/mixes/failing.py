"""Which training jobs fail: as many as were published, with as much GPU time.

Most of those that fail are small: in the lab 43 % of the jobs, which have 12 % of the GPU time. How
likely a job fails is taken to follow from its GPU-seconds x, as 1 / (1 + exp(-(a + b ln x))), and a
and b are what both rates need, over the joint of size and duration. On a small cluster, without the
largest sizes, they are others, so that both rates hold there too.

Draws are even: a job fails if what has failed so far is nearer to what should have then, among jobs
of about as many GPU-seconds, and in GPU time. They have a stream of their own, so that all else of
a mix is what it is without them.

How close that is was measured with a hundred seeds at load 0.9, as the largest distance of either
rate, over the jobs that come, from what was published:

                    8,000 GPUs             256 GPUs     64 GPUs
                    a week      a day      a week       a week
    lab             0.4  0.4    0.7  2.1   1.0  1.2     2.0  4.3 points
    pretraining     0.1  1.5    0.3  5.7   0.2  2.9     0.2  9.0
    classic         0.1  0.1    0.2  0.5   0.5  1.6     0.7  4.9

So a week on 8,000 GPUs is within two points of both. A day on 64 is up to four points off in jobs
and forty in GPU time, which one job may decide there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.model.columns import Floats
    from mooring.sim.load import Arrival
    from mooring.sim.mixes.curves import Joint

_STREAM = 3
"""Of the streams of a seed; mixes draw all else from the first two, nodes fail by the third."""
_ROUNDS = 50
_OWED = 0.25
"""Of a large job, in GPU time: what is owed in the mean. With nothing at first, the first large
ones would not fail, and a day would have a point too little."""


class Rates(NamedTuple):
    """What part of jobs failed, and what part of GPU time they had."""

    jobs: float
    gpu_time: float


RATES = {
    "Seren": Rates(0.429, 0.124),
    "Kalos": Rates(0.397, 0.080),
    "Helios": Rates(0.155, 0.093),
}
"""Of jobs with GPUs, as Hu et al., NSDI 2024, publish beside the traces of Acme (CC BY 4.0)."""


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely jobs fail."""

    base: float
    slope: float
    large: float
    """GPU-seconds of the job that a GPU-second belongs to, in the mean."""

    def of(self, gpu_seconds: float) -> float:
        """Return how likely a job of so many GPU-seconds fails."""
        return 1 / (1 + exp(-(self.base + self.slope * log(gpu_seconds))))


def odds_of(joint: Joint, rates: Rates) -> Odds:
    """Return the odds by which both rates hold, by Newton's method."""
    every: Floats = np.outer(joint.sizes, joint.means)
    by_time = joint.part * every / joint.gpu_seconds
    middle = float((joint.part * np.log(every)).sum())
    weights = np.array([joint.part.ravel(), by_time.ravel()])
    basis = np.array([np.ones(every.size), np.log(every.ravel()) - middle])
    found = np.array([log(rates.jobs / (1 - rates.jobs)), 0.0])
    for _ in range(_ROUNDS):
        likely = 1 / (1 + np.exp(-found @ basis))
        off = weights @ likely - rates
        found -= np.linalg.solve(weights * (likely * (1 - likely)) @ basis.T, off)
        if np.abs(off).max() < 1e-12:
            break
    base, slope = found.tolist()
    return Odds(base - slope * middle, slope, float((by_time * every).sum()))


class Failing:
    """Says which jobs fail, one after the other."""

    def __init__(self, rng: np.random.Generator, odds: Odds) -> None:
        self._rng = rng
        self._odds = odds
        self._jobs: dict[int, float] = {}
        """By doublings of GPU-seconds, how many more jobs should have failed; at first a draw."""
        self._time = _OWED
        """How much more GPU time should have failed, in GPU-seconds of a large job."""

    def fails(self, gpu_seconds: float) -> bool:
        """Return whether the next job fails, which has so many GPU-seconds."""
        kind, likely = int(log2(gpu_seconds)), self._odds.of(gpu_seconds)
        if kind not in self._jobs:
            self._jobs[kind] = float(self._rng.random()) - 0.5
        time = gpu_seconds / self._odds.large
        jobs_left, time_left = self._jobs[kind] + likely, self._time + likely * time
        fails = (jobs_left - 1) ** 2 + (time_left - time) ** 2 < jobs_left**2 + time_left**2
        self._jobs[kind], self._time = jobs_left - fails, time_left - fails * time
        return fails


def with_failing(arrivals: Iterable[Arrival], seed: int, odds: Odds) -> Iterator[Arrival]:
    """Yield jobs, of which some fail at the end of their run."""
    failing = Failing(np.random.default_rng(seed).spawn(_STREAM + 1)[_STREAM], odds)
    for arrival in arrivals:
        fails = failing.fails(arrival.workload.gpus * arrival.run_s)
        yield replace(arrival, fails=True) if fails else arrival

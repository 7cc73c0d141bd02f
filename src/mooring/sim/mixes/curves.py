"""Published curves: sizes by jobs and by GPU time, durations; and the joint they make possible.

Curves say nothing of how size and duration go together but for one thing: GPU time by size gives
the mean duration of every size. The joint used here is the one of greatest entropy that has all
three: it is found by scaling rows and columns and tilting rows, again and again.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from mooring.model.columns import Floats

_ROUNDS = 400
_NEWTON = 8


@dataclass(frozen=True, slots=True)
class Joint:
    """How often jobs of a size last how long."""

    sizes: tuple[int, ...]
    """GPUs."""
    edges: Floats
    """Durations between which jobs lie, in seconds, ascending: one more than columns."""
    part: Floats
    """Per size and stretch of durations, the part of all jobs; adds up to 1."""

    @property
    def by_size(self) -> Floats:
        """Return the part of jobs of every size."""
        found: Floats = self.part.sum(axis=1)
        return found

    @property
    def means(self) -> Floats:
        """Return the mean duration of each stretch: inside, durations are even on a log scale."""
        return _means(self.edges)

    @property
    def gpu_seconds(self) -> float:
        """Return GPU-seconds per job."""
        return float(np.asarray(self.sizes) @ (self.part @ self.means))

    def up_to(self, most: int) -> Joint:
        """Return the joint without sizes above `most`."""
        kept = [index for index, size in enumerate(self.sizes) if size <= most]
        part = self.part[kept]
        return Joint(tuple(self.sizes[i] for i in kept), self.edges, part / part.sum())


def _means(edges: Floats) -> Floats:
    low, high = edges[:-1], edges[1:]
    found: Floats = (high - low) / np.log(high / low)
    return found


def read_curve(cluster: str, variable: str, weight: str) -> tuple[Floats, Floats]:
    """Return the points of a curve: values, and the part of all that is not above."""
    text = resources.files("mooring.sim.mixes").joinpath("curves.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    wanted = (cluster, variable, weight)
    points = [
        (float(row["x"]), float(row["cdf_percent"]) / 100)
        for row in rows
        if (row["cluster"], row["variable"], row["weight"]) == wanted
    ]
    xs, cdf = np.array(points).T
    return xs, cdf / cdf[-1]


@cache
def joint(cluster: str, giants: float = 0.0) -> Joint:
    """Return the joint of size and duration of a cluster.

    `giants` is the part of jobs that ask for twice the largest size; it is taken from the largest.
    """
    xs, by_jobs = read_curve(cluster, "gpu_num", "jobs")
    _, by_time = read_curve(cluster, "gpu_num", "gpu_time")
    edges, by_duration = read_curve(cluster, "duration_s", "jobs")
    sizes, jobs, time = xs, np.diff(by_jobs, prepend=0.0), np.diff(by_time, prepend=0.0)
    if giants:
        sizes = np.append(sizes, 2 * sizes[-1])
        jobs = np.append(jobs, giants)
        jobs[-2] -= giants
        time = np.append(time, _GIANTS_TIME)
        time[-2] -= _GIANTS_TIME
    columns = np.diff(by_duration, prepend=0.0)
    edges = np.concatenate([[edges[0] / 2], edges])
    there, lasting = jobs > 0, columns > 0
    sizes, jobs, time = sizes[there], jobs[there], np.maximum(time[there], _LEAST_TIME)
    last = int(np.flatnonzero(lasting)[-1]) + 1
    edges, columns = edges[: last + 1], columns[:last]
    narrow = np.where(sizes > _SMALL, 1 / (2 * _SPREAD**2), 0.0)
    part = _fit(jobs, columns, time / sizes / jobs, (_means(edges), narrow))
    return Joint(tuple(int(size) for size in sizes), edges, part)


_GIANTS_TIME = 0.01
"""GPU time of giants: so little that the curve by GPU time stays what it is within two points."""
_SMALL, _SPREAD = 8, 0.9
"""Above that many GPUs durations are log-normal with that spread, bent as the curves need it: with
the tails of all jobs, a few of the largest would decide how much GPU time a whole week has."""
_LEAST_TIME = 2e-5
"""GPU time of a size of which the curve shows none: the points are rounded to 0.01 %."""


def _fit(rows: Floats, columns: Floats, durations: Floats, shape: tuple[Floats, Floats]) -> Floats:
    """Return the table with these sums whose rows have mean durations in these proportions.

    `shape` is the mean of every column, and how much narrower than all of them a row is.
    """
    means, narrow = shape
    wanted = durations * (columns @ means) / (rows @ durations)
    wanted = np.clip(wanted, 1.5 * means[0], 0.5 * means[-1])
    log = np.log(means) - np.log(means).mean()
    bend = -narrow[:, None] * (log - np.log(wanted)[:, None] + np.log(means).mean()) ** 2
    tilt, scale = np.zeros(len(rows)), np.ones(len(columns))
    weight = np.zeros((len(rows), len(columns)))
    for _ in range(_ROUNDS):
        for _ in range(_NEWTON):
            weight = scale * np.exp(np.clip(np.outer(tilt, log) + bend, -60, 60))
            weight /= weight.sum(axis=1, keepdims=True)
            mean = weight @ means
            slope = (weight * means) @ log - mean * (weight @ log)
            tilt += np.clip((wanted - mean) / np.maximum(slope, 1e-9), -0.5, 0.5)
        sums = rows @ weight
        scale *= np.divide(columns, sums, out=np.ones(len(columns)), where=sums > 0)
    return weight * rows[:, None]

"""What no policy can exceed, from the work alone: a cluster that is a fluid.

Workloads of a fluid can be cut and poured together: whatever was asked for and not served is stored
and may be served later, at any rate that the cluster has. No real policy can do more, so what the
fluid reaches bounds them all.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mooring.model.columns import Floats


@dataclass(frozen=True, slots=True)
class Served:
    """What the fluid does in a stretch of time."""

    asked: float
    """GPU-seconds that a cluster without end would have served."""
    done: float
    """The most GPU-seconds that so many GPUs can serve."""
    behind: float
    """The least integral over time of what is asked for and not served, in GPU-seconds · s."""

    @property
    def left(self) -> float:
        """Return the least that is not served at the end, in GPU-seconds."""
        return self.asked - self.done


class Demand:
    """GPUs that would be in use on a cluster without end: they go up and down in steps."""

    def __init__(self) -> None:
        self._times, self._steps = array("d"), array("d")

    def add(self, begin: float, gpus: float, seconds: float = inf) -> None:
        """Ask for so many GPUs for so long."""
        self.step(begin, gpus)
        if seconds < inf:
            self.step(begin + seconds, -gpus)

    def step(self, at: float, gpus: float) -> None:
        """Ask for so many more from then on, or fewer."""
        self._times.append(at)
        self._steps.append(gpus)

    def joined(self, other: Demand) -> Demand:
        """Return both together."""
        both = Demand()
        for each in (self, other):
            both._times.extend(each._times)
            both._steps.extend(each._steps)
        return both

    def cut(self, capacity: float) -> Demand:
        """Return what is asked for up to that many GPUs: what is beyond is not stored."""
        times, gpus = self._levels()
        made = Demand()
        made._times.extend(times.tolist())
        made._steps.extend(np.diff(np.minimum(gpus, capacity), prepend=0.0).tolist())
        return made

    def median(self, begin: float, end: float) -> float:
        """Return the GPUs that are not exceeded for half of the time."""
        seconds, gpus = self._stretches(begin, end)
        order = np.argsort(gpus, kind="stable")
        passed = np.cumsum(seconds[order])
        index = int(np.searchsorted(passed, passed[-1] / 2 * (1 - 1e-12)))
        return float(gpus[order][min(index, len(order) - 1)])

    def serve(self, capacity: float, begin: float, end: float) -> Served:
        """Return the most that so many GPUs can do of it: see `docs/kant.md`.

        What is asked for before `begin` counts as asked for then.
        """
        seconds, gpus = self._stretches(begin, end)
        slope = gpus - capacity
        level = np.concatenate([[0.0], np.cumsum(slope * seconds)])
        stored = level - np.minimum.accumulate(level)
        first, last = stored[:-1], stored[1:]
        runs_dry = (slope < 0) & (last == 0.0)
        falls = np.where(runs_dry, -slope, 1.0)
        areas = np.where(runs_dry, first**2 / (2 * falls), (first + last) / 2 * seconds)
        asked = float(gpus @ seconds)
        return Served(asked, asked - float(stored[-1]), float(areas.sum()))

    def _levels(self) -> tuple[Floats, Floats]:
        times, steps = np.array(self._times), np.array(self._steps)
        order = np.argsort(times, kind="stable")
        return times[order], np.cumsum(steps[order])

    def _stretches(self, begin: float, end: float) -> tuple[Floats, Floats]:
        """Return how long each level lasts, and the GPUs of it."""
        times, gpus = self._levels()
        inside = np.clip(times, begin, end)
        edges = np.concatenate([[begin], inside, [end]])
        levels: Floats = np.concatenate([[0.0], gpus])
        seconds: Floats = np.diff(edges)
        return seconds, levels

"""JWTD: how long workloads wait, by size. Who has not started is counted as waiting longer."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mooring.metrics.summary import WaitCurve, Waited

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.model.columns import Floats

BUCKETS = ("1", "2-7", "8", "9-63", "64-255", "256-1023", "1024+")
_FIRST = (1, 2, 8, 9, 64, 256, 1024)
PARTS = (0.5, 0.9, 0.99)
CURVE_POINTS = 101
WORST = 20


def bucket_of(gpus: int) -> int:
    """Return the bucket of a size; a part of one GPU counts as one."""
    return max(bisect_right(_FIRST, gpus) - 1, 0)


class Survival(NamedTuple):
    """How many still wait after how long, by Kaplan and Meier."""

    times: Floats
    """At which some started, ascending."""
    waiting: Floats
    """The part that waits longer than that."""


def survival(waits: Sequence[float], censored: Sequence[float]) -> Survival:
    """Return the part that waits longer than each wait, where some still wait.

    One who has waited c so far says of waits up to c that it was longer, and nothing more.
    """
    times, starts = np.unique(np.asarray(waits, float), return_counts=True)
    ended = np.sort(np.asarray(waits, float))
    still = np.sort(np.asarray(censored, float))
    at_risk = (len(ended) - np.searchsorted(ended, times)) + (
        len(still) - np.searchsorted(still, times)
    )
    return Survival(times, np.cumprod(1.0 - starts / at_risk, dtype=np.float64))


def quantile(curve: Survival, part: float) -> float | None:
    """Return the least wait that a part does not exceed; None: so many have not started yet."""
    index = int(np.searchsorted(-curve.waiting, -(1.0 - part) - 1e-12))
    return float(curve.times[index]) if index < len(curve.times) else None


class Longest:
    """Those who waited longest, a few of any number."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, float, Waited]] = []

    def note(self, waited: Waited) -> None:
        """Count one in."""
        # names come again: two of one name that waited as long differ in when they came
        entry = (waited.wait_s, waited.name, waited.submitted_at, waited)
        if len(self._heap) < WORST:
            heappush(self._heap, entry)
        else:
            heappushpop(self._heap, entry)

    def beside(self, others: Iterable[Waited]) -> tuple[Waited, ...]:
        """Return the longest of these and others, longest first."""
        every = [*(entry[-1] for entry in self._heap), *others]
        return tuple(sorted(every, key=lambda each: (-each.wait_s, each.name))[:WORST])


class Waits:
    """Waits until the minimum runs, of those submitted inside the window."""

    def __init__(self) -> None:
        self._waits = [array("d") for _ in BUCKETS]
        self._in_vain = [array("d") for _ in BUCKETS]
        """Of those who left and had not started."""
        self._worst = Longest()
        self._longest_in_vain = Longest()

    def over(self, waited: Waited) -> None:
        """Count one whose wait is over: it has started, or left and waited in vain."""
        waits = self._in_vain if waited.is_waiting else self._waits
        waits[bucket_of(waited.gpus)].append(waited.wait_s)
        self._worst.note(waited)
        if waited.is_waiting:
            self._longest_in_vain.note(waited)

    def curves(self, waiting: Iterable[Waited]) -> tuple[WaitCurve, ...]:
        """Return the distribution per bucket, with those who wait still or did in vain."""
        censored = [list(waits) for waits in self._in_vain]
        for waited in waiting:
            censored[bucket_of(waited.gpus)].append(waited.wait_s)
        every = [self._curve(bucket, censored[bucket]) for bucket in range(len(BUCKETS))]
        return tuple(curve for curve in every if curve is not None)

    def _curve(self, bucket: int, censored: Sequence[float]) -> WaitCurve | None:
        waits = self._waits[bucket]
        if not waits and not censored:
            return None
        curve = survival(waits, censored)
        p50, p90, p99 = (quantile(curve, part) for part in PARTS)
        parts = np.linspace(0, 1, CURVE_POINTS)
        return WaitCurve(
            BUCKETS[bucket],
            len(waits),
            len(censored),
            sum(waits) / len(waits) if waits else None,
            p50,
            p90,
            p99,
            max([*waits, *censored]),
            tuple(quantile(curve, part) for part in parts.tolist()),
        )

    def worst(self, waiting: Iterable[Waited]) -> tuple[Waited, ...]:
        """Return those who waited longest, longest first."""
        return self._worst.beside(waiting)

    def not_started(self, waiting: Iterable[Waited]) -> tuple[Waited, ...]:
        """Return those who waited longest of all who wait still or did in vain."""
        return self._longest_in_vain.beside(waiting)

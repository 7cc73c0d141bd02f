"""What is measured over time: distributions weighted by time, and curves of bounded length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_POINTS = 512
"""A curve that grows beyond is thinned to half."""


class OverTime:
    """How long a value was how high."""

    def __init__(self) -> None:
        self._seconds: dict[float, float] = {}

    def add(self, value: float, seconds: float) -> None:
        """Count a value that lasted so long."""
        if seconds > 0:
            self._seconds[value] = self._seconds.get(value, 0.0) + seconds

    @property
    def mean(self) -> float | None:
        """Return the mean over time; None before any time has passed."""
        total = sum(self._seconds.values())
        return sum(v * s for v, s in self._seconds.items()) / total if total else None

    def quantiles(self, parts: Sequence[float]) -> list[float] | list[None]:
        """Return for each part the least value not exceeded for that part of the time."""
        if not self._seconds:
            return [None for _ in parts]
        values = np.array(sorted(self._seconds))
        ends = np.cumsum([self._seconds[value] for value in values.tolist()])
        found = np.searchsorted(ends, np.asarray(parts) * ends[-1] * (1 - 1e-12))
        return [float(values[min(index, len(values) - 1)]) for index in found.tolist()]


class Curves:
    """Several values over time, as means over equal stretches; the longer, the coarser."""

    def __init__(self, start: float, width: int, step: float = 60.0) -> None:
        self.start = start
        self.step = step
        self._width = width
        self._sums: list[list[float]] = []
        """Per stretch and value, the integral."""

    def widen(self, more: int) -> None:
        """Take so many values more from now on, which were 0 before."""
        self._width += more
        for sums in self._sums:
            sums += [0.0] * more

    def add(self, begin: float, end: float, values: Sequence[float]) -> None:
        """Count values that lasted from `begin` to `end`."""
        while end - self.start > self.step * MOST_POINTS:
            self._thin()
        index = int((begin - self.start) // self.step)
        while begin < end:
            until = min(end, self.start + (index + 1) * self.step)
            while len(self._sums) <= index:
                self._sums.append([0.0] * self._width)
            sums, seconds = self._sums[index], until - begin
            for column, value in enumerate(values):
                sums[column] += value * seconds
            begin, index = until, index + 1

    def _thin(self) -> None:
        """Make one stretch of every two."""
        pairs = zip(self._sums[::2], [*self._sums[1::2], [0.0] * self._width], strict=False)
        self._sums = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
        self.step *= 2

    def points(self, end: float) -> tuple[list[float], list[list[float]]]:
        """Return how long the stretches are, and per value its mean over each of them."""
        times = [self.start + index * self.step for index in range(len(self._sums))]
        spans = [max(min(end, time + self.step) - time, 1e-9) for time in times]
        columns = [
            [sums[column] / span for sums, span in zip(self._sums, spans, strict=True)]
            for column in range(self._width)
        ]
        return spans, columns

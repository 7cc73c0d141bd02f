"""How fast devices become free by themselves: learnt from work that ends.

Ends are counted by flavor and by what one task had, so that the end of many small tasks is no
hope for one that wants a whole node. Older ends count for less. Where nothing has ended nothing is
known, and nobody expects anything.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.memory import Freed

HALF_LIFE_S = 2400.0
"""Ends that are so long ago count half."""
MEAN_S = HALF_LIFE_S / 0.6931471805599453
"""The sum of all weights of one end a second."""
MOST_KNOWN = 256


class Flow:
    """Counts what becomes free, at one desk."""

    def __init__(self) -> None:
        self._freed: dict[tuple[str, int], tuple[float, float]] = {}
        """By flavor and thousandths of devices of a task: when it was counted last, and how many
        tasks then; who ended last comes last."""
        self._new: dict[tuple[str, int], int] = {}
        """What became free since the last cycle."""

    def free(self, flavor: str, milli: int, tasks: int) -> None:
        """Note that tasks of a workload that is over leave their devices."""
        if milli and tasks:
            self._new[flavor, milli] = self._new.get((flavor, milli), 0) + tasks

    def learn(self, now: float) -> None:
        """Count what became free since the last cycle."""
        if not self._new:
            return
        for key, tasks in self._new.items():
            at, weight = self._freed.pop(key, (now, 0.0))
            if len(self._freed) >= MOST_KNOWN:
                del self._freed[next(iter(self._freed))]
            self._freed[key] = max(at, now), weight * _faded(at, now) + tasks
        self._new.clear()

    def wait_s(self, flavors: Sequence[str], milli: int, tasks: int, now: float) -> float:
        """Return how long it takes until so many tasks of a size have become free."""
        weight = 0.0
        for (flavor, size), (at, count) in self._freed.items():
            if size >= milli and flavor in flavors:
                weight += count * _faded(at, now)
        return tasks * MEAN_S / weight if weight > 0 else inf

    def load(self, freed: Sequence[Freed]) -> None:
        """Take in what an earlier life has learnt."""
        some = freed[-MOST_KNOWN:]
        self._freed = {(flavor, milli): (at, weight) for flavor, milli, at, weight in some}

    def dump(self) -> tuple[Freed, ...]:
        """Return all that was learnt."""
        return tuple([(*key, *known) for key, known in self._freed.items()])

    def copy(self) -> Flow:
        """Return what a fork knows."""
        new = Flow()
        new._freed, new._new = dict(self._freed), dict(self._new)
        return new


def _faded(at: float, now: float) -> float:
    faded: float = 0.5 ** (max(0.0, now - at) / HALF_LIFE_S)
    return faded

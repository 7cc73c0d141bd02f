"""The mix: how often each type of task is asked for. Learnt from arrivals, or known beforehand."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.memory import Memory, TaskType
from mooring.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from mooring.model.columns import Floats
    from mooring.model.workload import Shape

FIRST_LESSON = 16
"""Arrivals before a learnt mix is used at all; after that it is read again at every doubling."""
LESSON = 4096
"""Most arrivals between two readings."""
_LARGEST_GROWTH = 2.0**16
_FORGOTTEN = 2.0**-10
"""A count below this is dropped when the counts are next rewritten."""


@lru_cache(maxsize=1 << 12)
def task_type(shape: Shape) -> TaskType | None:
    """Return the type of a shape; none if it asks for devices by MIG profile or by memory."""
    if shape.mig or shape.gpu_memory:
        return None
    amounts = tuple(pair for pair in shape.amounts if pair[0] in (CPU, MEMORY))
    if not shape.gpus:
        return TaskType(amounts, 0, 0, ())
    return TaskType(amounts, shape.gpus, shape.milli, shape.gpu_models)


class Mix:
    """Counts by type, in order of first arrival; older arrivals count for less.

    Counts are kept multiplied by a growth that doubles every half-life, so that fading touches one
    number: count = weight / growth.
    """

    def __init__(self, *, learns: bool = True) -> None:
        self.learns = learns
        self.version = 0
        """Changes when what is derived from the counts should be derived anew."""
        self.arrivals = 0
        self._weight: dict[TaskType, float] = {}
        self._growth = 1.0
        self._faded_at = 0.0
        self._next_lesson = FIRST_LESSON

    @property
    def is_ready(self) -> bool:
        """Return whether the counts say enough to be used."""
        return bool(self._weight) and (not self.learns or self.arrivals >= FIRST_LESSON)

    @property
    def types(self) -> list[TaskType]:
        """Return all types, in order of first arrival."""
        return list(self._weight)

    @property
    def counts(self) -> Floats:
        """Return how often each of `types` was asked for, faded."""
        return np.array(list(self._weight.values()), np.float64) / self._growth

    def arrive(self, shape: Shape, count: int = 1) -> None:
        """Count tasks of a shape, if the mix learns."""
        kind = task_type(shape) if self.learns else None
        if kind is None:
            return
        self._weight[kind] = self._weight.get(kind, 0.0) + count * self._growth
        self.arrivals += count
        if self.arrivals >= self._next_lesson:
            self.version += 1
            self._next_lesson = _lesson_after(self.arrivals)

    def fade(self, now: float, half_life_s: float) -> None:
        """Let all counts decay up to `now`."""
        if not self.learns or now <= self._faded_at:
            return
        if not self._weight:  # nothing to fade: the mix begins now
            self._faded_at = now
            return
        halvings = (now - self._faded_at) / half_life_s
        self._growth *= 2.0 ** min(halvings, 100.0)
        self._faded_at = now
        if self._growth > _LARGEST_GROWTH:
            self._rewrite()

    def _rewrite(self) -> None:
        """Bring the growth back to one and drop the types that have all but faded away."""
        faded = {kind: weight / self._growth for kind, weight in self._weight.items()}
        self._weight = {kind: count for kind, count in faded.items() if count >= _FORGOTTEN}
        self._growth = 1.0

    def dump(self) -> Memory:
        """Return the mix as the part of the memory that it is."""
        pairs = zip(self._weight, self.counts.tolist(), strict=True)
        return Memory(mix=tuple(pairs), arrivals=self.arrivals, mix_at=self._faded_at)

    def load(self, memory: Memory) -> None:
        """Take the mix from a memory; what was counted before is forgotten."""
        self._weight = dict(memory.mix)
        self._growth = 1.0
        self._faded_at = memory.mix_at
        self.arrivals = memory.arrivals
        self._next_lesson = _lesson_after(self.arrivals)
        self.version += 1

    def copy(self) -> Mix:
        """Return a mix that goes its own way from here."""
        twin = Mix(learns=self.learns)
        twin.version = self.version
        twin.arrivals = self.arrivals
        twin._weight = dict(self._weight)
        twin._growth = self._growth
        twin._faded_at = self._faded_at
        twin._next_lesson = self._next_lesson
        return twin


def _lesson_after(arrivals: int) -> int:
    """Return the number of arrivals at which the mix is read next: 64, 128, … 4096, 8192, 12288."""
    if arrivals >= LESSON:
        return (arrivals // LESSON + 1) * LESSON
    lesson = FIRST_LESSON
    while lesson <= arrivals:
        lesson *= 2
    return lesson

"""How long work runs: learnt from what has ended, by (queue, size); the key of the fill.

Ends are counted in bins of time, two to an octave. The chance to end inside a bin, once it was
reached, is the hazard of the bin; older ends count for less:

    all:    h0 = (E + 0.3) / (R + 1)     E ends in the bin, R runs that reached it, decay 0.999
    group:  h  = (e + 2 h0) / (r + 2)    the same of one (queue, size), decay 0.98

A group that has seen little so leans on all. Whoever ends inside a bin ends evenly spread over it;
that gives the expected residual from any age. Only ends are counted, so r is a sum of e.

What is derived is a function of what the memory keeps: an engine that was started again has the
same keys. To keep that cheap, E and R are read at lessons only, not at every end.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING

from mooring.model.memory import Memory

if TYPE_CHECKING:
    from mooring.model.memory import RunGroup

FIRST_EDGE_S = 60.0
"""What runs for less is short, and how short makes no difference."""
OCTAVES = 20
EDGES = tuple(
    FIRST_EDGE_S * 2.0**octave * half for octave in range(OCTAVES) for half in (1.0, sqrt(2.0))
)
"""Where bins begin, but for the first, which begins at 0; the last one is open (above a year)."""
BINS = len(EDGES) + 1
GROUP_DECAY = 0.98
ALL_DECAY = 0.999
MEAN_STEP = 0.1
"""How much of the mean is the run that ended last (α)."""
MOST_GROUPS = 512
LESSON = 64
"""All together are read at every doubling of the ends up to here, then each time so many ended."""
_FORGOTTEN = 2.0**-10
"""A weight below this is dropped."""


@dataclass(slots=True)
class _Ends:
    """Decayed counts of ends by bin, and the mean."""

    learnt_at: int = 0
    mean_s: float = 0.0
    weight: dict[int, float] = field(default_factory=dict)

    def learn(self, run_s: float, decay: float, at: int) -> None:
        """Count one more end."""
        self.mean_s += (run_s - self.mean_s) * (MEAN_STEP if self.weight else 1.0)
        faded = {bin_: weight * decay for bin_, weight in self.weight.items()}
        if min(faded.values(), default=1.0) < _FORGOTTEN:
            faded = {bin_: weight for bin_, weight in faded.items() if weight >= _FORGOTTEN}
        reached = bisect_right(EDGES, run_s)
        faded[reached] = faded.get(reached, 0.0) + 1.0
        self.weight = faded
        self.learnt_at = at

    def dump(self, queue: str, size: int) -> RunGroup:
        """Return it as plain values."""
        return queue, size, self.learnt_at, self.mean_s, tuple(sorted(self.weight.items()))

    def copy(self) -> _Ends:
        """Return counts that go their own way from here."""
        return _Ends(self.learnt_at, self.mean_s, dict(self.weight))


@dataclass(slots=True)
class _Table:
    """What is derived for one group: hazards, and the expected residual at the start of bins."""

    version: int
    hazard: list[float]
    residual_s: list[float]


_NOTHING = _Ends()


class RunTimes:
    """Expected residual run times by (queue, size).

    Sizes are whatever the caller counts in (thousandths of a device). Where a limit or an estimate
    is given, that serves as key and the caller need not ask here.
    """

    def __init__(self) -> None:
        self.ends = 0
        """How many workloads have ended in all."""
        self._all = _Ends()
        self._read = _Ends()
        """All together as they were at the last lesson."""
        self._groups: dict[tuple[str, int], _Ends] = {}
        """Who learnt last comes last; beyond `MOST_GROUPS` the first is dropped."""
        self._tables: dict[tuple[str, int], _Table] = {}
        self._prior = _prior(self._read)

    def ended(self, queue: str, size: int, run_s: float) -> None:
        """Learn from a workload that ran so long in all, without what it did twice."""
        run_s = max(run_s, 0.0)
        self.ends += 1
        self._all.learn(run_s, ALL_DECAY, self.ends)
        if self.ends == _lesson(self.ends):
            self._read = self._all.copy()
            self._prior = _prior(self._read)
        group = self._groups.pop((queue, size), None) or _Ends()
        group.learn(run_s, GROUP_DECAY, self.ends)
        if len(self._groups) >= MOST_GROUPS:
            oldest = next(iter(self._groups))
            del self._groups[oldest]
            self._tables.pop(oldest, None)
        self._groups[queue, size] = group

    def version(self, queue: str, size: int) -> int:
        """Return a number that stays the same as long as the residuals of a group do."""
        return max(self._groups.get((queue, size), _NOTHING).learnt_at, self._read.learnt_at)

    def residual(self, queue: str, size: int, age_s: float) -> float:
        """Return how much longer a workload that ran for `age_s` is expected to run."""
        table = self._table(queue, size)
        age_s = max(age_s, 0.0)
        at = bisect_right(EDGES, age_s)
        if at == BINS - 1:
            return table.residual_s[at]
        begin = EDGES[at - 1] if at else 0.0
        width, left = EDGES[at] - begin, EDGES[at] - age_s
        # Of those that reach the bin a share h ends in it, evenly; some of them before this age.
        hazard = table.hazard[at]
        here = hazard * left / width
        ends = here / (1.0 - hazard + here)
        return ends * left / 2 + (1.0 - ends) * (left + table.residual_s[at + 1])

    def mean(self, queue: str, size: int) -> float:
        """Return the mean run time of a group, recent ends first; of all if it has none."""
        return self._groups.get((queue, size), self._all).mean_s

    def _table(self, queue: str, size: int) -> _Table:
        key, version = (queue, size), self.version(queue, size)
        group = self._groups.get(key)
        if group is None:
            key, group = ("", -1), _NOTHING  # one table for all who have learnt nothing
            version = self._read.learnt_at
        table = self._tables.get(key)
        if table is None or table.version != version:
            table = self._tables[key] = _derive(version, group, self._prior)
        return table

    def dump(self, memory: Memory = Memory()) -> Memory:
        """Return a memory with the run times as they are now."""
        groups = tuple([ends.dump(*key) for key, ends in self._groups.items()])
        whole = (self._all.dump("", 0), self._read.dump("", 0)) if self.ends else ()
        return replace(memory, run_times=groups, run_times_all=whole)

    def load(self, memory: Memory) -> None:
        """Take the run times from a memory; what was learnt before is forgotten."""
        self._groups = {(row[0], row[1]): _load(row) for row in memory.run_times[-MOST_GROUPS:]}
        self._tables = {}
        now, read = memory.run_times_all or (_NOTHING.dump("", 0),) * 2
        self._all, self._read = _load(now), _load(read)
        self._prior = _prior(self._read)
        self.ends = self._all.learnt_at

    def copy(self) -> RunTimes:
        """Return run times that go their own way from here."""
        twin = RunTimes()
        twin.ends = self.ends
        twin._all, twin._read, twin._prior = self._all.copy(), self._read, self._prior
        twin._groups = {key: ends.copy() for key, ends in self._groups.items()}
        twin._tables = dict(self._tables)
        return twin


def _lesson(ends: int) -> int:
    """Return the last number of ends at which all together are read: 1, 2, 4, … 64, 128, 192."""
    return ends - ends % LESSON if ends >= LESSON else 1 << ends.bit_length() - 1


def _load(row: RunGroup) -> _Ends:
    return _Ends(row[2], row[3], dict(row[4]))


def _hazards(ends: _Ends, prior: list[float], strength: float) -> list[float]:
    """Return per bin (e + strength · prior) / (r + strength)."""
    hazards, reached = [0.0] * BINS, 0.0
    for at in range(BINS - 1, -1, -1):
        here = ends.weight.get(at, 0.0)
        reached += here
        hazards[at] = (here + strength * prior[at]) / (reached + strength)
    return hazards


def _prior(ends: _Ends) -> list[float]:
    """Return h0 of every bin."""
    return _hazards(ends, [0.3] * BINS, 1.0)


def _derive(version: int, group: _Ends, prior: list[float]) -> _Table:
    """Return the hazards of a group, and what is expected at the start of every bin."""
    hazards = _hazards(group, prior, 2.0)
    residuals = [EDGES[-1]] * BINS
    for at in range(BINS - 2, -1, -1):
        width = EDGES[at] - (EDGES[at - 1] if at else 0.0)
        hazard = hazards[at]
        residuals[at] = hazard * width / 2 + (1.0 - hazard) * (width + residuals[at + 1])
    return _Table(version, hazards, residuals)

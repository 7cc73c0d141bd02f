"""When running work ends by its limit or estimate, and what was promised to who waits.

For a blocked head the engine gives back, on the books and to be rolled back, the tasks of running
work end by end, in the order of `Ends.after`, and tries to place the head after each. The first
instant at which it fits is its reservation; `LatestStarts` keeps that it only moves earlier.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from mooring.model.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.entry import Entry
    from mooring.policy.desk import Desk


NEVER = inf


def limit_of(desk: Desk, entry: Entry) -> float | None:
    """Return how long a workload may run in all: its own limit, or that of a queue above."""
    tree = desk.tree
    own = entry.workload.run_limit_s
    for queue in tree.path[entry.queue]:
        limit = tree.queues[queue].run_limit_s
        if limit is not None:
            return limit if own is None else min(own, limit)
    return own


def is_used_up(desk: Desk, entry: Entry) -> bool:
    """Return whether a workload has run as long as it may; a limit that was raised since counts."""
    limit, used_up_s = limit_of(desk, entry), entry.past.used_up_s
    return limit is not None and used_up_s is not None and limit <= used_up_s


def longest(desk: Desk, entry: Entry) -> float:
    """Return how long a workload runs at most: by its limit, or else by its estimate."""
    limit = limit_of(desk, entry)
    limit = entry.workload.estimate_s if limit is None else limit
    return inf if limit is None else limit


class Ends:
    """Running work in the order in which it ends. Work without a limit or estimate is not here."""

    def __init__(self) -> None:
        self._of: dict[str, float] = {}
        self._sorted: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, workload: str) -> bool:
        return workload in self._of

    def put(self, workload: str, end_at: float) -> None:
        """Note when a workload ends; an end noted before is replaced, an infinite one is none."""
        self.drop(workload)
        if end_at < inf:
            self._of[workload] = end_at
            insort(self._sorted, (end_at, workload))

    def drop(self, workload: str) -> None:
        """Forget a workload that has ended or no longer runs."""
        end_at = self._of.pop(workload, None)
        if end_at is not None:
            del self._sorted[bisect_left(self._sorted, (end_at, workload))]

    def of(self, workload: str) -> float:
        """Return when a workload ends; infinite: never, or it is not known."""
        return self._of.get(workload, inf)

    def after(self, now: float) -> list[tuple[float, str]]:
        """Return who ends when, in order; who is overdue is expected to end now."""
        return [(max(end_at, now), workload) for end_at, workload in self._sorted]

    def copy(self) -> Ends:
        """Return ends that change on their own from here."""
        new = Ends()
        new._of, new._sorted = dict(self._of), list(self._sorted)
        return new


class LatestStarts:
    """When each workload with a reservation starts at the latest. That only moves earlier."""

    def __init__(self) -> None:
        self._of: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def promise(self, workload: str, start_at: float) -> float:
        """Promise a start, unless an earlier one was promised; return what holds."""
        latest = min(start_at, self._of.get(workload, inf))
        if latest < inf:
            self._of[workload] = latest
        return latest

    def of(self, workload: str) -> float:
        """Return when a workload starts at the latest; infinite: nothing was promised."""
        return self._of.get(workload, inf)

    def drop(self, workload: str) -> None:
        """Forget a promise: it was kept, taken back, or broken by the world."""
        self._of.pop(workload, None)

    def dump(self, memory: Memory = Memory()) -> Memory:
        """Return a memory with the promises as they are now."""
        return replace(memory, latest_starts=tuple(self._of.items()))

    def load(self, memory: Memory) -> None:
        """Take the promises from a memory."""
        self._of = dict(memory.latest_starts)

    def copy(self) -> LatestStarts:
        """Return promises that change on their own from here."""
        new = LatestStarts()
        new._of = dict(self._of)
        return new

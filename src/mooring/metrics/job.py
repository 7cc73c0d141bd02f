"""One workload as the records tell of it: what it has, what of it runs, and since when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.metrics.cluster import Seat, asked_milli
from mooring.model.cluster import WHOLE
from mooring.model.plan import Reason
from mooring.model.workload import Workload

if TYPE_CHECKING:
    from mooring.model.workload import PodGroup

Spot = tuple[str, int]
"""(group, task)."""


@dataclass(slots=True)
class Job:
    """A workload that has been submitted and has not ended."""

    workload: Workload
    submitted_at: float
    in_window: bool
    seats: dict[Spot, Seat] = field(default_factory=dict)
    finished: dict[str, int] = field(default_factory=dict)
    """Per group, how many tasks are done."""
    running: dict[str, int] = field(default_factory=dict)
    """Per group, how many tasks run."""
    started_at: float | None = None
    """When its minimum first ran."""
    runs_since: float | None = None
    """Since when its minimum runs; None: it does not."""
    milli: int = 0
    """What its seats have together."""
    waits_for: int = 0
    """What it asks for while it has nothing."""
    running_milli: int = 0
    """What those that run have."""
    steps: list[tuple[float, int]] = field(default_factory=list)
    """Of the present run: how much that was, from when on."""
    restarts: int = 0
    promised_at: float | None = None
    """The first start that was announced to it."""
    reasons: tuple[Reason, ...] = ()
    """Why it waited, as was said last."""

    @property
    def asked(self) -> int:
        """Return what its minimum asks for, in thousandths of a GPU."""
        return sum(leaf.min * asked_milli(leaf.shape) for leaf in self.workload.leaves())

    @property
    def gpus(self) -> int:
        """Return how many GPUs its minimum asks for, rounded up."""
        return -(-self.asked // WHOLE)

    def ran(self, begin: float, end: float) -> float:
        """Return what the present run has had from then to then, in thousandths times seconds."""
        ends = [at for at, _ in self.steps[1:]]
        rows = zip(self.steps, [*ends, end], strict=True)
        return sum(m * max(min(until, end) - max(at, begin), 0.0) for (at, m), until in rows)

    @property
    def minimum_runs(self) -> bool:
        """Return whether something runs, and so many tasks of every group as it needs."""
        return any(self.running.values()) and self._has(self.workload.root)

    def _has(self, group: PodGroup) -> bool:
        """Return whether what a group needs runs or is done."""
        if group.groups:
            enough = group.needed or len(group.groups)
            return sum(self._has(part) for part in group.groups) >= enough
        there = self.running.get(group.name, 0) + self.finished.get(group.name, 0)
        return there >= (group.partial or group.min)

"""One workload as the records tell of it: what it has, what of it runs, and since when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.metrics.cluster import Seat
from mooring.model.cluster import WHOLE
from mooring.model.plan import Reason
from mooring.model.workload import Workload

if TYPE_CHECKING:
    from mooring.model.workload import PodGroup

MOST_STEPS = 128
"""Of the present run of one workload that are kept."""
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
    asked: int = 0
    """What its minimum asks for, in thousandths of a GPU."""
    wanted: int = 0
    """The same of all that it can use; of parts of GPUs that have a place, what they have there."""
    parts: dict[str, int] = field(default_factory=dict)
    """Per group that asks for parts of GPUs, what a task without a place is taken for."""
    milli: int = 0
    """What its seats have together."""
    waits_for: int = 0
    """What it asks for while it has nothing."""
    running_milli: int = 0
    """What those that run have."""
    steps: list[tuple[float, float]] = field(default_factory=list)
    """Of the present run: how much that was, from when on."""
    spoilt: float | None = None
    """It was broken off in the window: what of that counts as lost; None: it was not."""
    told_at: float | None = None
    """When it was broken off as it was told to leave; None: it was not, or lost a node since."""
    restarts: int = 0
    promised_at: float | None = None
    """The first start that was announced to it."""
    placed_at: float | None = None
    """When it last got a place after it had none: it starts then, and runs when it has come up."""
    had: float = 0.0
    """What it has had in the window up to `had_at`, in thousandths times seconds."""
    had_at: float = 0.0
    failed: bool = False
    """Its end was a failure."""
    reasons: tuple[Reason, ...] = ()
    """Why it waited, as was said last."""

    @property
    def gpus(self) -> int:
        """Return how many GPUs its minimum asks for, rounded up."""
        return -(-self.asked // WHOLE)

    def step(self, at: float) -> None:
        """Note that another amount runs from now on; of many steps the older half gets coarser."""
        steps, milli = self.steps, self.running_milli
        if steps[-1][1] == milli:
            return
        if steps[-1][0] == at:
            steps.pop()
        steps.append((at, milli))
        if len(steps) > MOST_STEPS:
            half = MOST_STEPS // 2
            pairs = zip(steps[:half:2], steps[1:half:2], steps[2 : half + 1 : 2], strict=True)
            steps[:half] = [
                (a, (x * (b - a) + y * (end - b)) / (end - a)) for (a, x), (b, y), (end, _) in pairs
            ]

    def ran(self, begin: float, end: float) -> float:
        """Return what the present run has had from then to then, in thousandths times seconds."""
        ends = [at for at, _ in self.steps[1:]]
        rows = zip(self.steps, [*ends, end], strict=True)
        return sum(m * max(min(until, end) - max(at, begin), 0.0) for (at, m), until in rows)

    @property
    def minimum_runs(self) -> bool:
        """Return whether something runs, and so many tasks of every group as it needs."""
        return any(self.running.values()) and self._has(self.workload.root)

    @property
    def minimum_is_done(self) -> bool:
        """Return whether of every group so many tasks have finished as it needs; nothing runs."""
        return not any(self.running.values()) and self._has(self.workload.root)

    def _has(self, group: PodGroup) -> bool:
        """Return whether what a group needs runs or is done."""
        if group.groups:
            enough = group.needed or len(group.groups)
            return sum(self._has(part) for part in group.groups) >= enough
        there = self.running.get(group.name, 0) + self.finished.get(group.name, 0)
        return there >= (group.partial or group.min)

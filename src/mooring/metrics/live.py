"""A live cluster in a few numbers: each cycle costs what changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.metrics.people import People
from mooring.model.cluster import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.metrics.cluster import Totals
    from mooring.model.events import Event
    from mooring.model.plan import Plan


class Live:
    """Folds cycles into the present GAR and GFR, and into SOR since the beginning."""

    def __init__(self) -> None:
        self._people = People([])
        self._now: float | None = None
        self.installed_gpu_s = 0.0
        """GPU-seconds that there were on healthy nodes since the beginning."""
        self.held_gpu_s = 0.0
        """Of those, how many somebody had."""

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Take one cycle."""
        self.pass_time(now)
        for event in events:
            self._people.observe(event, now)
        for decision in plan.decisions:
            self._people.carry_out(decision, now)

    def pass_time(self, now: float) -> None:
        """Count the time up to now, in which nothing has changed."""
        seconds = 0.0 if self._now is None else max(now - self._now, 0.0)
        self._now = now if self._now is None else max(now, self._now)
        self.installed_gpu_s += seconds * self.totals.installed / WHOLE
        self.held_gpu_s += seconds * self._people.held_milli / WHOLE

    @property
    def totals(self) -> Totals:
        """Return sums over healthy nodes, in thousandths of a GPU."""
        return self._people.cluster.totals

    @property
    def gar(self) -> float:
        """Return the part of all GPUs that is allocated now."""
        return self.totals.allocated / self.totals.installed if self.totals.installed else 0.0

    @property
    def gfr(self) -> float:
        """Return the part of all nodes with GPUs that is in part use now."""
        return self.totals.partly / self.totals.nodes if self.totals.nodes else 0.0

    @property
    def sor(self) -> float:
        """Return the part of all GPU-seconds that somebody had, since the beginning."""
        return self.held_gpu_s / self.installed_gpu_s if self.installed_gpu_s else 0.0

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return len(self._people.cluster.nodes)

    def lines(self) -> dict[str, tuple[int, int]]:
        """Return, by queue, how many workloads have nothing and how many have something."""
        found: dict[str, list[int]] = {}
        for job in self._people.jobs.values():
            found.setdefault(job.workload.queue, [0, 0])[bool(job.seats)] += 1
        return {queue: (waiting, running) for queue, (waiting, running) in found.items()}

    def waits(self, workload: str) -> bool:
        """Return whether a workload is there and has nothing."""
        job = self._people.jobs.get(workload)
        return job is not None and not job.seats

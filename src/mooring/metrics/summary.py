"""The numbers of a stretch of time, as values."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.plan import Reason


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over time; None before any time has passed."""

    mean: float | None
    p10: float | None
    median: float | None
    p90: float | None


@dataclass(frozen=True, slots=True)
class Waited:
    """How long one workload waited."""

    name: str
    queue: str
    gpus: int
    """Of its minimum, rounded up."""
    submitted_at: float
    wait_s: float
    is_waiting: bool = False
    """It has not started: it waits still, or left."""
    reasons: tuple[Reason, ...] = ()
    """Then: why not, as was said last."""
    has_place: bool = False
    """It has not started, but has what it needs and is about to."""


@dataclass(frozen=True, slots=True)
class WaitCurve:
    """JWTD of one bucket; None where too many wait still to tell."""

    bucket: str
    started: int
    waiting: int
    """Who has not started: they wait still, or left."""
    mean: float | None
    """Of those that have started."""
    p50: float | None
    p90: float | None
    p99: float | None
    longest: float
    """So far."""
    curve: tuple[float | None, ...]
    """Waits that 0, 1, 2 … 100 % do not exceed."""


@dataclass(frozen=True, slots=True)
class Tted:
    """JTTED and its structural proxies, of gangs that started: means, and the 90th percentile.

    None: there were no gangs.
    """

    gangs: int
    time: float | None
    """T(placement) / T(ideal placement)."""
    time_p90: float | None
    nodes: float | None
    """Nodes used / fewest possible."""
    leaves: float | None
    """Leaves used / fewest possible."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """Whom it cost what."""

    workloads: int
    """Times that one that ran had less than its minimum left, whoever took it."""
    by_cause: tuple[tuple[str, int], ...]
    """Times that one was told to give tasks back, also above its minimum or before it ran."""
    lost_gpu_hours: float
    """Work that has to be done again, and restarts."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Those whose end was a failure."""

    workloads: int
    gpu_hours: float
    """That they had, also while they came up or did work again."""


@dataclass(frozen=True, slots=True)
class QueueUse:
    """What one queue used, and what it had a right to by what it asked for."""

    queue: str
    gpu_hours: float
    fair_gpu_hours: float

    @property
    def ratio(self) -> float | None:
        """Return use over right; None: it asked for nothing."""
        return self.gpu_hours / self.fair_gpu_hours if self.fair_gpu_hours else None


@dataclass(frozen=True, slots=True)
class Fairness:
    """How even queues were served; None: they asked for nothing."""

    jain: float | None
    """Jain's index of use over right: 1 is even, 1/n is all for one."""
    least: float | None
    """The least use over right (max-min)."""
    queues: tuple[QueueUse, ...]


@dataclass(frozen=True, slots=True)
class Promises:
    """Starts that were announced, and how they came out: who is due and waits is late by now."""

    announced: int
    """That were due."""
    kept: int
    """Had a place no later than first announced; how long it took to come up does not count."""
    mean_error_s: float
    """Mean distance between first announcement and that."""
    p90_error_s: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time: means over stretches of `step_s`."""

    start: float
    step_s: float
    gar: tuple[float, ...]
    gfr: tuple[float, ...]
    sor: tuple[float, ...]
    """From the beginning of the window up to then."""
    waiting_gpus: tuple[float, ...]
    queues: tuple[tuple[str, tuple[float, ...]], ...]
    """GPUs in use by queue."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All numbers of a window; None is what cannot be told, as no time was counted."""

    start: float
    end: float
    gpus: float
    """Installed on healthy nodes, mean over time."""
    submitted: int
    started: int
    ended: int
    gar: Spread
    sor: float | None
    sor_run: float | None
    sor_useful: float | None
    gfr: Spread
    gfr_gpu: float | None
    """Idle GPUs of nodes in part use, over all GPUs: mean over time."""
    gfr_demand: float | None
    """Idle GPUs that the typical workload cannot use (FGD), over all GPUs."""
    waits: tuple[WaitCurve, ...]
    tted: Tted
    evictions: Evictions
    failed: Failed
    fairness: Fairness
    promises: Promises
    curve: Curve
    worst: tuple[Waited, ...]
    """Who waited longest, longest first; the first twenty."""
    not_started: tuple[Waited, ...]
    """The same of those who wait still, or left in vain."""
    nodes_lost: int
    """Times that a node left, or was not ready any more."""

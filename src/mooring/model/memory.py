"""What cannot be read back from the world: the engine hands it out and takes it in."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.resources import Amounts
from mooring.model.workload import Placement, Workload

RunGroup = tuple[str, int, int, float, tuple[tuple[int, float], ...]]
"""Run times of one (queue, size): queue, size, how many workloads of all groups had ended when it
last learnt, mean in seconds, and (bin, weight) of the ends, lowest bin first."""

Freed = tuple[str, int, float, float]
"""What became free by itself: flavor, thousandths of devices of a task, when that was last counted,
and how many tasks, older ones for less."""

Steps = tuple[tuple[float, float], ...]
"""Since when how much, oldest first."""
Charges = tuple[tuple[str, float], ...]
"""(resource, amount), ordered by resource."""


@dataclass(frozen=True, slots=True)
class TaskType:
    """A task as the mix sees it: what it asks for, not where it may go."""

    amounts: Amounts
    gpus: int
    milli: int
    gpu_models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """What one workload has been through."""

    failures: int = 0
    """How often it crashed."""
    attained_s: float = 0.0
    """How long it ran, in earlier runs."""
    saved_s: float = 0.0
    """How much of that was saved by checkpoints."""
    evictions: int = 0
    """How often it had to leave for another's sake."""
    quantum_evictions: int = 0
    """How often because it had its turn."""
    evicted_at: float | None = None
    is_bold: bool = False
    """It has displaced work of its own queue that stood before it; once in its life it may."""
    used_up_s: float | None = None
    """The run limit that it has used up; it starts again only with a higher one."""
    bypassed: int = 0
    """How many later ones of its queue have started before it since it waits."""


NO_PAST = Past()


@dataclass(frozen=True, slots=True)
class Held:
    """Room that is kept for a workload."""

    workload: str
    placements: tuple[Placement, ...]
    until: float
    leaving: tuple[tuple[str, str, int], ...] = ()
    """(workload, group, task) of those who must be gone before it starts."""


@dataclass(frozen=True, slots=True)
class ShadowRun:
    """One workload as it stands in the shadow."""

    workload: Workload
    started_at: float | None = None
    """When it started there; None: it waits there."""
    placements: tuple[Placement, ...] = ()
    ran_s: float | None = None
    """How long it ran in reality, where it is over; None: it is not."""
    ends_at: float | None = None
    """When it ends there; None: that is not known yet."""
    done_s: float = 0.0
    """How long it ran there before it had to leave for another."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One serialisable value; the drivers store it."""

    mix: tuple[tuple[TaskType, float], ...] = ()
    """How often each type was asked for, faded by time; in order of first arrival."""
    arrivals: int = 0
    """How many tasks the mix has seen in all."""
    pasts: tuple[tuple[str, Past], ...] = ()
    """Workloads that have been through something."""
    node_failures: tuple[tuple[str, tuple[tuple[float, str], ...]], ...] = ()
    """When work failed on nodes, lately, and whose it was."""
    mix_at: float = 0.0
    """When the counts were last faded."""
    run_times: tuple[RunGroup, ...] = ()
    """Run times by (queue, size); who learnt last comes last."""
    run_times_all: tuple[RunGroup, ...] = ()
    """Run times of all together: as they are now, and as they were last read."""
    holds: tuple[Held, ...] = ()
    """Room that is kept for workloads that will start there."""
    reserved: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Workloads whose turn has come, and the nodes that are closed for all others."""
    shadow: tuple[ShadowRun, ...] = ()
    """All who are in the shadow: first those who started there, in order, then who waits."""
    overtakers: tuple[str, ...] = ()
    """Those who run before their turn."""
    latest_starts: tuple[tuple[str, float], ...] = ()
    """Workloads with a reservation, and when each starts at the latest."""
    usage_steps: tuple[tuple[str, str, str, Steps], ...] = ()
    """What each (queue, flavor, resource) used."""
    capacity_steps: tuple[tuple[str, str, Steps], ...] = ()
    """What there was of each (flavor, resource)."""
    consumed: tuple[tuple[str, str, float, int, float], ...] = ()
    """Sampled usage: queue, resource, amount, the number of its sample, usage since then."""
    penalties: tuple[tuple[str, str, Charges], ...] = ()
    """Sampled usage: queue, workload, and what it was charged beforehand."""
    loans: tuple[tuple[str, str, tuple[int, ...], str], ...] = ()
    """Workload, group and tasks on room that was promised to a queue, and that queue."""
    freed: tuple[Freed, ...] = ()
    """How many tasks ended lately, by flavor and size; what ended last comes last."""
    defragmented: tuple[tuple[float, float], ...] = ()
    """When running work was moved to close gaps, lately, and the GPU-hours that were lost."""

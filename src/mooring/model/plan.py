"""What the engine says: decisions, the reasons of what waits, and the record of a cycle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.model.events import Event
from mooring.model.workload import Placement

if TYPE_CHECKING:
    from collections.abc import Container

Spot = tuple[str, str, int]
"""(workload, group, task)."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Start these tasks there. One workload may need several, one a pod group."""

    workload: str
    placement: Placement
    flavor: str = ""
    """What it is charged to, where a queue chooses among flavors."""

    @property
    def spots(self) -> list[Spot]:
        """Return the tasks that it starts."""
        return [(self.workload, self.placement.group, task) for task in self.placement.tasks]


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop these tasks of a workload and let them wait again."""

    workload: str
    group: str
    tasks: tuple[int, ...]
    cause: str
    """What made it necessary. For another's sake: `preempt`, `quota`, `fair-share`, `leximin`,
    `while-borrowing`, `overtaker`, `quantum`, `headroom`, `move`. For nobody's: `lost-node`,
    `lost-task`, `stale-gang`, `resized`, `run-limit`, `drain`, `inactive`, `failed`,
    `defragment`."""
    beneficiary: str = ""

    @property
    def spots(self) -> list[Spot]:
        """Return the tasks that it stops."""
        return [(self.workload, self.group, task) for task in self.tasks]


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keep this room for the workload until then."""

    workload: str
    placements: tuple[Placement, ...]
    until: float


@dataclass(frozen=True, slots=True)
class Notice:
    """A workload will have to leave then."""

    workload: str
    cause: str
    at: float


Decision = Bind | Evict | Reserve | Notice


def without(decision: Decision, spots: Container[Spot]) -> Decision | None:
    """Return a decision that leaves out some tasks; None: nothing is left of it."""
    if not isinstance(decision, Bind | Evict):
        return decision
    kept = [i for i, spot in enumerate(decision.spots) if spot not in spots]
    if len(kept) == len(decision.spots) or not kept:
        return decision if kept else None
    if isinstance(decision, Evict):
        return replace(decision, tasks=tuple(decision.tasks[i] for i in kept))
    old = decision.placement
    tasks, nodes = tuple(old.tasks[i] for i in kept), tuple(old.nodes[i] for i in kept)
    devices = tuple(old.devices[i] for i in kept)
    return replace(decision, placement=Placement(old.group, tasks, nodes, devices))


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No domain of the level has room for all tasks now."""

    group: str
    level: str
    wanted: int
    best: int
    """Most that one domain could take now."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """Not even an empty cluster could take it."""

    group: str
    level: str
    wanted: int
    most: int
    """Most that one domain could take if nothing ran."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """So many nodes are no help to the group, and this is the first thing in the way."""

    group: str
    by: str
    """not-ready, gpu-model, selector, affinity, taint, filter, failing, quota, refused, tasks, or a
    resource's name."""
    nodes: int


@dataclass(frozen=True, slots=True)
class NotTogether:
    """Every group alone has room, all of them together have not."""

    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CutShort:
    """The search reached its bound of counted steps; it is tried again when something changes."""

    steps: int
    goes_on: bool = False
    """It does not wait for a change: the next cycle goes on where this one stopped."""


@dataclass(frozen=True, slots=True)
class Behind:
    """It asks for the same as this workload, which is before it in line."""

    workload: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It names something that does not exist: a level, a MIG profile."""

    group: str
    what: str
    name: str


@dataclass(frozen=True, slots=True)
class OverQuota:
    """A queue may not be charged so much more."""

    queue: str
    flavor: str
    """Empty: all flavors together."""
    resource: str
    wanted: int
    left: int
    """What it may still be charged; devices in thousandths."""
    ever: bool = True
    """Whether it could be charged that much if nothing ran."""
    fixed: bool = False
    """Whether it is only short because the workload is not preemptible: that takes no more than
    quota."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """It, or a queue that it is in, does not start anything now."""

    queue: str
    """Empty: the workload itself is not active."""


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """The queue is not for this namespace or user."""

    queue: str
    what: str
    """`namespace` or `user`."""
    name: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nobody of the queue may start before this workload on what it needs."""

    workload: str


@dataclass(frozen=True, slots=True)
class Delays:
    """It has room, but this workload, which has a reservation, would start later for it."""

    workload: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """It starts then at the latest, if those who run keep to their limits or estimates."""

    at: float
    nodes: int
    """How many nodes are expected to take it."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Its room is found: it starts when these workloads have left."""

    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moving:
    """It is moved: it starts at its other place when it has left, and so have these workloads."""

    workloads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Protected:
    """Those who could make room for it are not asked to leave before then.

    They may run for so long, or room is expected to become free by itself.
    """

    until: float


@dataclass(frozen=True, slots=True)
class Promised:
    """It would use room that a queue was promised, and it could not leave in time."""

    queue: str
    gpus: int
    """The promise."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """It failed so often, or ran so long, that it is not started again."""

    failures: int
    """0: it ran as long as it may."""


Reason = (
    NoRoom
    | Impossible
    | Excluded
    | NotTogether
    | CutShort
    | Behind
    | Unknown
    | OverQuota
    | Stopped
    | NotAllowed
    | Blocked
    | Delays
    | Reserved
    | Leaving
    | Moving
    | Protected
    | Promised
    | Exhausted
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a workload is not running, or why it does not grow."""

    workload: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that should be done at one instant.

    `waiting` holds what changed since the last plan, the senior ones first; `Engine.reasons` knows
    all.
    """

    decisions: tuple[Decision, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    wake_at: float | None = None
    """When to decide again even if nothing happens."""


@dataclass(frozen=True, slots=True)
class Record:
    """One cycle as it was: enough to replay it."""

    now: float
    events: tuple[Event, ...]
    plan: Plan

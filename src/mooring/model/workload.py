"""Workloads, their pod groups and tasks, and the legal changes of a task's state.

A workload is a tree of pod groups. A leaf has a shape and a count; an inner group has groups.
The minimum of every leaf starts together or not at all; what is above it is elastic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from mooring.model.cluster import WHOLE, Labels
from mooring.model.resources import PORT, PORT_ADDRESSES, PORT_AT, Amounts

if TYPE_CHECKING:
    from collections.abc import Iterator


class TaskState(IntEnum):
    """Where a task is in its life."""

    PENDING = 0
    ASSUMED = 1
    BOUND = 2
    RUNNING = 3
    RELEASING = 4
    FINISHED = 5
    FAILED = 6


#             ┌──refused──┐
#             ▼           │
#   ┌────▶ pending ──▶ assumed ──▶ bound ──▶ running ──▶ finished
#   │         ▲           │          │        │   ▲  └─▶ failed
#   │         └───────────┼──────────┼────────┼───┼───────┘
#   └── given back ── releasing ◀────┴────────┘   └── eviction refused ── releasing
#
# What the world tells may skip steps: a task can be running before "bound" was seen.
NEVER_S = float(1 << 40)
"""So long is for ever."""
_PLACED = {TaskState.RUNNING, TaskState.RELEASING, TaskState.FINISHED, TaskState.FAILED}
LEGAL: dict[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: frozenset({TaskState.ASSUMED}),
    TaskState.ASSUMED: frozenset({TaskState.PENDING, TaskState.BOUND, *_PLACED}),
    TaskState.BOUND: frozenset(_PLACED),
    TaskState.RUNNING: frozenset(_PLACED - {TaskState.RUNNING}),
    TaskState.RELEASING: frozenset({TaskState.PENDING, *_PLACED} - {TaskState.RELEASING}),
    TaskState.FINISHED: frozenset(),
    TaskState.FAILED: frozenset({TaskState.PENDING}),
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One clause about labels: `key operator values`, operators as in Kubernetes."""

    key: str
    operator: str = "In"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodePreference:
    """Node affinity that adds to a score instead of excluding."""

    weight: int
    clauses: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Toleration:
    """Lets a task on to tainted nodes. An empty key with operator Exists tolerates everything.

    With Lt and Gt the value of the taint is a number below, or above, that of the toleration.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class TaskTerm:
    """Pod (anti-)affinity: near, or apart from, tasks with these labels at this level."""

    level: str
    """A level of the topology, or `label/` and a node label."""
    labels: Labels
    weight: int = 0
    """0: required; else preferred with this weight."""
    clauses: tuple[Requirement, ...] = ()
    """What the labels of those tasks must meet besides."""


@dataclass(frozen=True, slots=True)
class SpreadTerm:
    """Topology spread: tasks with these labels differ by at most `skew` between domains."""

    level: str
    """A level of the topology, or `label/` and a node label."""
    labels: Labels
    skew: int = 1
    required: bool = True
    clauses: tuple[Requirement, ...] = ()
    """What the labels of those tasks must meet besides."""
    min_domains: int = 0
    """With fewer domains than this, the emptiest one counts as empty."""
    heed_selectors: bool = True
    """Leave out nodes that the task itself does not select."""
    heed_taints: bool = True
    """Leave out nodes that the task itself does not tolerate, or that are not ready."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port of another protocol than TCP, or on one address of the node only."""

    port: int
    protocol: str = "TCP"
    address: str = ""
    """Empty: on all addresses."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one task asks for and where it may go. Equal tasks have equal shapes."""

    amounts: Amounts = ()
    """Everything but devices."""
    gpus: int = 0
    """How many devices (or MIG instances)."""
    milli: int = WHOLE
    """Thousandths of each device; 1000 is a whole one, which is never shared."""
    gpu_memory: int = 0
    """MiB of each device, instead of thousandths; 0: not asked by memory."""
    mig: str = ""
    """MIG profile, instead of thousandths."""
    gpu_models: tuple[str, ...] = ()
    """GPU models that will do; none: any."""
    selector: Labels = ()
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: any of these, each all of its clauses."""
    preferences: tuple[NodePreference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    labels: Labels = ()
    """What the terms of other tasks see."""
    near: tuple[TaskTerm, ...] = ()
    apart: tuple[TaskTerm, ...] = ()
    spread: tuple[SpreadTerm, ...] = ()
    ports: tuple[int, ...] = ()
    """Host ports, by TCP on all addresses."""
    host_ports: tuple[HostPort, ...] = ()
    """Other host ports."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        values = tuple(getattr(self, name) for name in _SHAPE_FIELDS)
        object.__setattr__(self, "_hash", hash(values))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has other hashes, so there it is made anew.
        return type(self), tuple(getattr(self, name) for name in _SHAPE_FIELDS)

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_whole(self) -> bool:
        """Return whether it asks for whole devices."""
        return self.gpus > 0 and self.milli == WHOLE and not self.gpu_memory and not self.mig

    @property
    def is_social(self) -> bool:
        """Return whether where it may go depends on which other tasks are where."""
        return bool(self.near or self.apart or self.spread)

    @property
    def port_amounts(self) -> Amounts:
        """Return what its host ports take of a node, in any order."""
        if not self.host_ports:
            return tuple((f"{PORT}{port}", PORT_ADDRESSES) for port in self.ports)
        taken = {_port_name(port, "TCP"): PORT_ADDRESSES for port in self.ports}
        everywhere = [each for each in self.host_ports if not each.address]
        taken |= {_port_name(each.port, each.protocol): PORT_ADDRESSES for each in everywhere}
        for each in self.host_ports:
            name = _port_name(each.port, each.protocol)
            if each.address and taken.get(name, 0) < PORT_ADDRESSES:
                taken[name] = taken.get(name, 0) + 1
                taken[f"{PORT_AT}{each.port}/{each.protocol}/{each.address}"] = 1
        return tuple(taken.items())


def _port_name(port: int, protocol: str) -> str:
    return f"{PORT}{port}" if protocol == "TCP" else f"{PORT}{port}/{protocol}"


_SHAPE_FIELDS = tuple(name for name in Shape.__dataclass_fields__ if not name.startswith("_"))


@dataclass(frozen=True, slots=True)
class Slice:
    """Tasks in runs of `size`, each run inside one domain of `level`."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """How close together the tasks of a group must or should be."""

    required: str = ""
    preferred: str = ""
    slices: tuple[Slice, ...] = ()
    """Outermost first, at most three."""
    volume: int = 0
    """MiB that each task sends per step, when known."""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Tasks of one shape (a leaf), or groups that belong together (an inner group)."""

    name: str
    shape: Shape = Shape()
    min: int = 1
    max: int = 0
    """0: as many as `min`."""
    topology: TopologyRequest = TopologyRequest()
    groups: tuple[PodGroup, ...] = ()
    partial: int = 0
    """Where `min` cannot be had, so few will do; 0: nothing less than `min`."""
    needed: int = 0
    """Of an inner group: how many of its groups must be there; 0: all."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        values = tuple(getattr(self, name) for name in _GROUP_FIELDS)
        object.__setattr__(self, "_hash", hash(values))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has other hashes, so there it is made anew.
        return type(self), tuple(getattr(self, name) for name in _GROUP_FIELDS)

    def __hash__(self) -> int:
        return self._hash

    @property
    def most(self) -> int:
        """Return how many tasks the group can use."""
        return max(self.min, self.max)

    def leaves(self) -> Iterator[PodGroup]:
        """Yield the groups that have tasks, in order."""
        if not self.groups:
            yield self
        for group in self.groups:
            yield from group.leaves()


_GROUP_FIELDS = tuple(name for name in PodGroup.__dataclass_fields__ if not name.startswith("_"))


@dataclass(frozen=True, slots=True)
class Workload:
    """The unit of queueing: starts whole, ends whole."""

    name: str
    groups: tuple[PodGroup, ...]
    queue: str = "default"
    priority: int = 0
    submitted_at: float = 0.0
    topology: TopologyRequest = TopologyRequest()
    """Of all groups together."""
    service: bool = False
    """Replicas that serve and never end, instead of work that does."""
    preemptible: bool = True
    run_limit_s: float | None = None
    estimate_s: float | None = None
    minimum_run_s: float = 0.0
    checkpoint_at: float | None = None
    """When it last saved its work."""
    restart_cost_s: float | None = None
    priority_class: str = ""
    """Name of a class of the policy that gives the priority."""
    semi_preemptible: bool = False
    """Only what is above its minimum may be evicted."""
    deadline_at: float | None = None
    """When it should be done; among equals the earlier deadline goes first."""
    preemption_delay_s: float = 0.0
    """So long after it was submitted or evicted it makes nobody leave; `NEVER_S`: for ever."""
    grace_s: float | None = None
    """How long it may be incomplete; negative: for ever; None: as the policy says."""
    leave_s: float | None = None
    """How long it takes to leave once it is asked to; None: as the policy says."""
    namespace: str = ""
    user: str = ""
    active: bool = True
    """False: it does not start, and stops if it runs."""
    checkpoint_every_s: float | None = None
    """How often it saves its work while it runs; None: nobody knows."""

    @property
    def checkpoints(self) -> bool:
        """Return whether it is known to save its work."""
        return self.checkpoint_at is not None or self.checkpoint_every_s is not None

    def saved_until(self, since: float, at: float) -> float:
        """Return up to when a run that began at `since` is saved: its last checkpoint until `at`.

        As long as nothing of the run is saved that is `since` itself.
        """
        saved = since
        if self.checkpoint_every_s:
            saved += max(0.0, at - since) // self.checkpoint_every_s * self.checkpoint_every_s
        if self.checkpoint_at is not None:
            saved = max(saved, min(self.checkpoint_at, at))
        return saved

    @property
    def gpus(self) -> float:
        """Return how many devices its minimum asks for; parts of one count as such."""
        milli = sum(leaf.min * leaf.shape.gpus * leaf.shape.milli for leaf in self.leaves())
        return milli / WHOLE

    @property
    def root(self) -> PodGroup:
        """Return all groups as one."""
        return PodGroup("", groups=self.groups, topology=self.topology)

    def leaves(self) -> Iterator[PodGroup]:
        """Yield the groups that have tasks, in order."""
        for group in self.groups:
            if group.groups:
                yield from group.leaves()
            else:
                yield group


@dataclass(frozen=True, slots=True)
class Placement:
    """Where tasks of one pod group are: equally long tuples, one entry a task."""

    group: str
    tasks: tuple[int, ...]
    nodes: tuple[str, ...]
    devices: tuple[int, ...]
    """Bit i: device i. For MIG, bit 8·i + s: memory slice s of device i."""

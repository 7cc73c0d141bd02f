"""Queues: who waits, who is charged, and by which rules. They form a tree of any depth."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.cluster import Labels, Taint

ANY_FLAVOR_NAME = ""
"""In place of a flavor: all flavors together, each counted at its price."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """A named kind of node that quota is counted in: all nodes with these labels.

    Nodes of no named flavor have their GPU model as flavor.
    """

    name: str
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    """What a task must tolerate to be charged here."""
    price: float = 1.0
    """What one device of it is worth where flavors are compared or added up."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue has of one (flavor, resource); devices in thousandths."""

    resource: str
    flavor: str = ANY_FLAVOR_NAME
    quota: int | None = 0
    """Guaranteed; None: without bound."""
    limit: int | None = None
    """Ceiling of what is used here and below; None: none."""
    weight: float | None = None
    """Claim on what is left over; None: that of the queue."""
    borrowing_limit: int | None = None
    """Most that is used above quota."""
    lending_limit: int | None = None
    """Most of its quota that others may use."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that are always charged to one and the same flavor."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]
    """In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Fungibility:
    """Whether the next flavor is tried where this one would do at a price."""

    when_borrowing: str = "stop"
    """`stop` at a flavor that fits by borrowing, or try the `next`."""
    when_preempting: str = "next"
    """`stop` at a flavor that fits by eviction, or try the `next`."""
    prefer: str = "borrowing"
    """`borrowing` over preempting, or `preempting` over borrowing."""


@dataclass(frozen=True, slots=True)
class EvictionRules:
    """Whom workloads of a queue may evict.

    What is empty is as the queue above says, and else as the profile does; in profile kueue only
    what a queue says itself counts.
    """

    within_queue: str = ""
    """`never`, `lower-priority`, or `lower-or-newer` (equal priority, later submission)."""
    reclaim: str = ""
    """From other queues, what was lent: `never`, `lower-priority`, `any`."""
    while_borrowing: str = ""
    """From other queues, to end above quota: `never`, `lower-priority`."""
    borrowing_threshold: int | None = None
    """Victims of `while_borrowing` have at most this priority."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue; an empty parent makes it a root."""

    name: str
    parent: str = ""
    quotas: tuple[Quota, ...] = ()
    groups: tuple[ResourceGroup, ...] = ()
    """None: any flavor will do, the most plentiful first."""
    fungibility: Fungibility = Fungibility()
    weight: float = 1.0
    priority: int = 0
    """Higher gets surplus first, and goes first among equals."""
    order: str = ""
    """`strict`, `best-effort`, `backfill`, `easy`, `conservative`; empty: the profile's."""
    by_usage: bool = False
    """Whether the queues below stand in its line by what they have used (least first)."""
    eviction: EvictionRules = EvictionRules()
    preempt_minimum_run_s: float | None = None
    """How long its work runs before it may be preempted; None: as the queue above says."""
    reclaim_minimum_run_s: float | None = None
    run_limit_s: float | None = None
    """Most that a workload may run; None: as the queue above says."""
    stop: str = ""
    """`hold`: nothing starts; `drain`: besides, what runs is evicted."""
    namespaces: tuple[str, ...] | None = None
    """Who may use it; None: everybody."""
    users: tuple[str, ...] | None = None
    local: bool = False
    """It has no quota: its work stands in the line of the queue above."""
    bypass_limit: int | None = None
    """How many later workloads may start before a waiting one; None: as many as may."""
    created_at: float = 0.0
    by: str = ""
    """Who goes first among equals: by `age` (or empty), or by `estimate`, shortest first."""


DEFAULT_QUEUE = Queue("default")

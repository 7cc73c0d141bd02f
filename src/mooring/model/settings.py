"""The policy as values: names and numbers. `policy.profile` makes functions of them."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.queues import Flavor

HOUR = 3600.0
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Fairness:
    """How surplus is shared."""

    half_life_s: float | None = None
    """How fast the history of use fades; None: it does not fade."""
    window_s: float = 7 * DAY
    """How far back history goes."""
    history_weight: float = 0.0
    """How much history corrects the weights; 0: it does not. (`k` of KAI.)"""
    strategies: tuple[str, ...] = ()
    """Profile kueue: `final-share`, `initial-share`, in this order; none: no fair sharing."""
    usage_half_life_s: float = 7 * DAY
    """Of the usage that orders the queues below a queue with `by_usage`."""
    usage_sampling_s: float = 300.0
    usage_weights: tuple[tuple[str, float], ...] = ()
    """Weight of resources in that usage; 1 where nothing is said."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who may be asked to leave, when, and what it costs."""

    minimum_run_s: tuple[tuple[str, float], ...] = (
        ("fair-share", 900.0),
        ("leximin", 1800.0),
        ("move", 1800.0),
        ("quantum", HOUR),
    )
    """Per cause, how long work runs before it may be evicted; other causes: 0."""
    preempt_minimum_run_s: float = 0.0
    """Profile kai: where no queue says how long."""
    reclaim_minimum_run_s: float = 0.0
    minimum_run_by: str = "lca"
    """Profile kai: whose minimum protects from reclaim, `lca` or the `queue` itself."""
    steps: int = 20_000
    """Bound of a search for victims, in counted steps."""
    movers: int = 16
    """Most workloads that are moved to make room for one."""
    restart_s: float = 60.0
    """What a restart costs where the workload does not say."""
    hold_s: float = 120.0
    """How long freed room is kept for the one it was freed for, after all have left."""
    saturation: float = 1.0
    """Profile kai: multiplier of the saturation of one who reclaims."""
    consolidates: bool = True
    notice_s: float = 300.0
    """How long before its run-time limit a workload is told that it must leave."""
    leave_s: float = 30.0
    """How long evicted work takes to leave where the workload does not say."""
    patience_s: float = 0.0
    """Longest time that a workload for which room is expected to become free by itself waits for it
    before those leave who borrow; 0: it never waits."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """How far a workload may overtake others."""

    reservations: int = 1
    """How many blocked workloads per flavor have room reserved."""
    quantum_s: float = 4 * HOUR
    """Work attained from which on one that checkpoints may be asked to let others by."""
    quantum_evictions: int = 8
    """How often that may happen to a workload."""
    patience_s: float = HOUR
    """So long one whose turn has not come waits for room before others of other queues must leave
    for it, behind one of its queue who asks for more than the share and so has no right to it."""
    longest_patience_s: float = 24 * HOUR
    """The same, behind one who will have the right."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What happens when things break."""

    restarts: int | None = None
    """How often a workload may be started again after it failed; None: always."""
    node_failures: int = 3
    """From so many failures on a node within the window on, by work that failed on no other, it is
    avoided: by everybody if several failed there, else by the one that did."""
    node_window_s: float = HOUR


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """When running work is moved to close gaps."""

    automatic: bool = False
    ratio: float = 2.0
    """Least benefit (GPU-hours of waiting saved) over cost (GPU-hours lost)."""
    budget: float = 8.0
    """GPU-hours that may be lost a day."""
    moves: int = 16


@dataclass(frozen=True, slots=True)
class Headroom:
    """A promise: so many devices of a flavor within so many seconds, for one queue."""

    queue: str
    gpus: int
    within_s: float
    flavor: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a user may choose."""

    small: str = "potential"
    """Score for a single task below one node."""
    rest: str = ""
    """The same for one beside other groups of its workload; empty: as `small`."""
    gang: str = "e-binpack"
    """Placement of everything else."""
    service: str = "e-spread"
    """Placement of the replicas of a service."""
    spread_within: str = ""
    """Level of the one domain that a service spreads inside; empty: the outermost level."""
    devices: str = "linked"
    """Which devices of a node: best-linked, or lowest index."""
    search_steps: int = 2_000
    """Bound of a search, in counted steps."""
    mix_half_life_s: float = 14 * DAY
    """How fast the learnt mix of requests forgets."""
    mix_learns: bool = True
    """Whether arrivals change the mix; false: it stays as the memory had it."""
    gang_grace_s: float = 60.0
    """How long a gang may be incomplete after a refused bind before it is undone."""
    profile: str = "default"
    """`default`, `kai` or `kueue`: who is next, who may be charged, who must make room."""
    flavors: tuple[Flavor, ...] = ()
    priority_classes: tuple[tuple[str, int], ...] = ()
    fairness: Fairness = Fairness()
    eviction: Eviction = Eviction()
    backfill: Backfill = Backfill()
    failure: Failure = Failure()
    defragmentation: Defragmentation = Defragmentation()
    headroom: tuple[Headroom, ...] = ()
    undeclared: str = "block"
    """Profile kueue: requests for what a queue has no quota of `block` it, or are `ignore`d."""

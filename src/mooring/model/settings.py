"""The policy as values: names and numbers. `policy.profile` makes functions of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """What a user may choose."""

    small: str = "potential"
    """Score for a single task below one node."""
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
    mix_half_life_s: float = 14 * 86_400.0
    """How fast the learnt mix of requests forgets."""
    mix_learns: bool = True
    """Whether arrivals change the mix; false: it stays as the memory had it."""
    gang_grace_s: float = 60.0
    """How long a gang may be incomplete after a refused bind before it is undone."""

"""The invoice of a defragmentation: what would be moved, what it costs, and what it brings."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.workload import Placement


@dataclass(frozen=True, slots=True)
class Move:
    """One workload that would run elsewhere."""

    workload: str
    nodes: tuple[str, ...]
    """Where it runs now."""
    placements: tuple[Placement, ...]
    """Where it would run."""
    cost: float
    """GPU-hours that are lost: since its checkpoint, and by its restart."""
    beneficiary: str = ""
    """Who starts because of it; empty: nobody, it closes a gap."""


@dataclass(frozen=True, slots=True)
class Gain:
    """One workload that waits and would start."""

    workload: str
    gpus: float
    placements: tuple[Placement, ...]
    earlier_s: float | None
    """How much earlier than by the ends of those who run; None: no end is in sight."""
    saved: float
    """GPU-hours of waiting; where no end is in sight, those of a day."""


@dataclass(frozen=True, slots=True)
class Invoice:
    """A plan to move running work, priced."""

    now: float
    moves: tuple[Move, ...]
    gains: tuple[Gain, ...]
    cost: float
    """GPU-hours that are lost."""
    saved: float
    """GPU-hours of waiting that are saved."""
    ratio: float | None
    """Saved over lost; None: nothing is lost."""
    gfr_before: float
    gfr_after: float
    """Nodes of which a part is allocated over all nodes, once everybody runs."""

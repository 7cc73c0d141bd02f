"""What cannot be read back from the world: the engine hands it out and takes it in."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class TaskType:
    """A task as the mix sees it: what it asks for, not where it may go."""

    amounts: Amounts
    gpus: int
    milli: int
    gpu_models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """One serialisable value; the drivers store it."""

    mix: tuple[tuple[TaskType, float], ...] = ()
    """How often each type was asked for, faded by time; in order of first arrival."""
    arrivals: int = 0
    """How many tasks the mix has seen in all."""
    mix_at: float = 0.0
    """When the counts were last faded."""

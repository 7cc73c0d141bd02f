"""Queues: who waits and who is charged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue; an empty parent makes it a root."""

    name: str
    parent: str = ""


DEFAULT_QUEUE = Queue("default")

"""A load: a cluster and all that happens to it. Traces are read into one, generators draw one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from mooring.model.cluster import Node
from mooring.model.events import Event
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.topology import Topology
from mooring.model.workload import Workload


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload, when it comes, and how long it has to run."""

    at: float
    workload: Workload
    run_s: float = inf
    """Seconds of undisturbed work until it is done; infinite: it runs until it is ended."""
    fails: bool = False
    """It fails at the end of its run."""


@dataclass(frozen=True, slots=True)
class Load:
    """A cluster and what comes to it; the arrivals may be drawn while they are taken."""

    name: str
    topology: Topology
    nodes: tuple[Node, ...]
    arrivals: Iterable[Arrival]
    """In order of time."""
    changes: Iterable[tuple[float, Event]] = ()
    """What else happens, in order of time: services that scale or end, nodes that fail."""
    queues: tuple[Queue, ...] = (DEFAULT_QUEUE,)

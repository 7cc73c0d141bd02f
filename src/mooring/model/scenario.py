"""A whole moment as one value: what a scenario file holds and what a snapshot gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.model.cluster import Node
from mooring.model.events import Adopted, NodeJoined, Submitted
from mooring.model.memory import Memory
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.settings import Policy
from mooring.model.topology import Topology
from mooring.model.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.events import Event


@dataclass(frozen=True, slots=True)
class Scenario:
    """Cluster, policy, workloads, memory and time."""

    now: float = 0.0
    topology: Topology = Topology()
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = (DEFAULT_QUEUE,)
    policy: Policy = Policy()
    waiting: tuple[Workload, ...] = ()
    running: tuple[Adopted, ...] = ()
    memory: Memory = Memory()

    def events(self) -> Iterator[Event]:
        """Yield what a new engine must observe to stand at this moment."""
        for node in self.nodes:
            yield NodeJoined(node)
        yield from sorted(self.running, key=lambda each: not each.is_known)
        for workload in self.waiting:
            yield Submitted(workload, again=True)

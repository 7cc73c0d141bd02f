"""Facts from the world: all that can be observed."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.cluster import Node
from mooring.model.queues import Queue
from mooring.model.settings import Policy
from mooring.model.workload import Placement, TaskState, Workload


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node is there. One of the same name is replaced, as by `NodeChanged`."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node's facts are now these."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeLeft:
    """A node is gone, and all that ran on it has failed."""

    node: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """A workload asks to run."""

    workload: Workload
    again: bool = False
    """It was submitted before, to an earlier life of the engine whose memory has counted it."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """A workload was found running, placed by an earlier life of the engine or by someone else.

    Without placements and finished tasks only its charge is known. A task that asks for devices
    and is placed without any has some of those that are free.
    """

    workload: Workload
    placements: tuple[Placement, ...] = ()
    started_at: float = 0.0
    finished: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(group, tasks) that are done and do not run again."""
    releasing: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(group, tasks) of the placements that are on their way out."""
    flavors: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Per group, (resource, flavor) that it is charged to, where a queue chooses among flavors."""
    anywhere: bool = False
    """It runs, and it does not matter where: places are assumed where there is room."""
    starting: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(group, tasks) of the placements that do not run yet."""
    running_since: float | None = None
    """When all of its minimum ran; None: when it started, unless some do not run yet."""

    @property
    def is_known(self) -> bool:
        """Return whether nothing about its places has to be assumed."""
        asks = {leaf.name: leaf.shape.gpus > 0 for leaf in self.workload.leaves()}
        return not self.anywhere and all(
            all(placement.devices) or not asks.get(placement.group, False)
            for placement in self.placements
        )


@dataclass(frozen=True, slots=True)
class WorkloadChanged:
    """A workload was edited: priority, size, queue, limit. Its place in line stays.

    Once it has begun its shapes stay. A minimum above what runs makes it incomplete: it gets what
    it misses, or starts again.
    """

    workload: Workload


@dataclass(frozen=True, slots=True)
class Ended:
    """A workload is over, or was taken back: all that it had is free."""

    workload: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """Tasks of a pod group reached a state: bound, running, releasing, finished, failed.

    A releasing task that reaches `pending` has released what it had and waits again.
    """

    workload: str
    group: str
    tasks: tuple[int, ...]
    state: TaskState
    at: float | None = None
    """When; None: at the last cycle."""


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The world did not take a bind. The task waits again, and not for these nodes."""

    workload: str
    group: str
    tasks: tuple[int, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class QueuesChanged:
    """From now on these are the queues."""

    queues: tuple[Queue, ...]


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """From now on this policy decides."""

    policy: Policy


Event = (
    NodeJoined
    | NodeChanged
    | NodeLeft
    | Submitted
    | Adopted
    | WorkloadChanged
    | Ended
    | TasksChanged
    | BindRefused
    | QueuesChanged
    | PolicyChanged
)

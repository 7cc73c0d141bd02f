"""Which GPUs of the cluster are in use: kept up placement by placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.events import NodeChanged, NodeLeft
from mooring.model.mig import GEOMETRIES
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from mooring.model.cluster import Node
    from mooring.model.events import Event
    from mooring.model.workload import Shape


@dataclass(slots=True)
class Seat:
    """A task that has a place."""

    node: str
    devices: int
    """Bit i: device i; 0 for MIG."""
    given: int
    """Thousandths of GPUs."""
    cpu: int
    state: TaskState
    milli: int = 0
    """Of what it was given, what is on healthy GPUs of a node that is ready."""


class Seen:
    """One node: what it has, and how much of it is in use; in thousandths of a GPU."""

    __slots__ = ("allocated", "cpu", "installed", "node", "taken")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.installed = 0
        self.allocated = 0
        self.cpu = 0
        """In use, in thousandths."""
        self.taken: list[int] = []
        """Per device, what is in use."""
        self.set(node)

    @property
    def healthy(self) -> tuple[bool, ...]:
        """Return which devices can be used."""
        ready = self.node.ready
        return tuple(ready and device.healthy for device in self.node.devices)

    def set(self, node: Node) -> None:
        """Take the node's facts; what is in use stays."""
        self.node = node
        self.installed = WHOLE * sum(device.healthy for device in node.devices)
        self.taken += [0] * (len(node.devices) - len(self.taken))


@dataclass(slots=True)
class Totals:
    """Sums over healthy nodes, in thousandths of a GPU."""

    installed: int = 0
    allocated: int = 0
    nodes: int = 0
    """With GPUs."""
    partly: int = 0
    """Nodes of which some, but not all, is in use."""
    crumbs: int = 0
    """What is idle on those."""


class Cluster:
    """All nodes, and sums over those that are healthy."""

    def __init__(self) -> None:
        self.nodes: dict[str, Seen] = {}
        self.totals = Totals()
        self.version = 0
        """Changes when a node comes, changes or goes."""
        self._parts: dict[tuple[object, ...], int] = {}
        """What parts of GPUs were taken for, on the present nodes."""

    def set(self, node: Node) -> None:
        """Let a node come or change; what is in use on it stays so."""
        self._changes()
        seen = self.nodes.get(node.name)
        if seen is None:
            seen = self.nodes[node.name] = Seen(node)
        else:
            self._count(seen, -1)
            seen.set(node)
        self._count(seen, 1)

    def keeps_health(self, node: Node) -> bool:
        """Return whether the same devices can be used when a node comes or changes so."""
        seen = self.nodes.get(node.name)
        return seen is not None and seen.healthy == Seen(node).healthy

    def healthy_milli(self, seat: Seat) -> int:
        """Return what of a seat is on healthy devices; MIG does not say on which it is."""
        seen = self.nodes.get(seat.node)
        if seen is None or not seen.installed or not seen.node.ready:
            return 0
        healthy = [device.healthy for device in seen.node.devices]
        if all(healthy) and not seat.devices >> len(healthy):
            return seat.given
        if not seat.devices:
            return seat.given * sum(healthy) // len(healthy)
        kept = sum(healthy[index] for index in bits(seat.devices) if index < len(healthy))
        return seat.given * kept // seat.devices.bit_count()

    def loses(self, event: Event) -> bool:
        """Return whether a node that was ready leaves by it, or is not ready any more."""
        match event:
            case NodeLeft():
                name, stays = event.node, False
            case NodeChanged():
                name, stays = event.node.name, event.node.ready
            case _:
                return False
        seen = self.nodes.get(name)
        return seen is not None and seen.node.ready and not stays

    def drop(self, name: str) -> None:
        """Let a node go."""
        seen = self.nodes.pop(name, None)
        if seen is not None:
            self._changes()
            self._count(seen, -1)

    def _changes(self) -> None:
        self.version += 1
        self._parts.clear()

    def asked_milli(self, shape: Shape) -> int:
        """Return how many thousandths of GPUs a task asks for.

        What a part by memory or MIG is, depends on the node; the first that could have it is taken,
        and whole GPUs if there is none.
        """
        asked = shape.gpus * shape.milli
        if not is_part(shape):
            return asked
        key = shape.gpus, shape.gpu_memory, shape.mig, shape.gpu_models
        if key not in self._parts:
            nodes = (seen.node for seen in self.nodes.values())
            parts = (_part_milli(shape, node) for node in nodes)
            self._parts[key] = next(filter(None, parts), asked)
        return self._parts[key]

    def use(self, seat: Seat, sign: int) -> None:
        """Take (or give back, sign −1) what a task has on its node."""
        seen = self.nodes.get(seat.node)
        if seen is None:
            return
        self._count(seen, -1)
        seen.allocated += sign * seat.milli
        seen.cpu += sign * seat.cpu
        chosen = list(bits(seat.devices))
        seen.taken += [0] * (seat.devices.bit_length() - len(seen.taken))
        for device in chosen:
            seen.taken[device] += sign * (seat.given // len(chosen))
        self._count(seen, 1)

    def _count(self, seen: Seen, sign: int) -> None:
        """Add a node to the sums, or take it out."""
        if not seen.node.ready or not seen.installed:
            return
        totals, idle = self.totals, seen.installed - seen.allocated
        totals.installed += sign * seen.installed
        totals.allocated += sign * seen.allocated
        totals.nodes += sign
        if seen.allocated > 0 and idle > 0:
            totals.partly += sign
            totals.crumbs += sign * idle


def milli_of(shape: Shape, node: Node | None, devices: int) -> int:
    """Return how many thousandths of GPUs one task has on a node."""
    if not shape.gpus:
        return 0
    if shape.mig:
        return _mig_milli(shape, node)
    if not shape.gpu_memory:
        return shape.gpus * shape.milli
    memories = [device.memory for device in node.devices] if node else []
    chosen = [memories[device] for device in bits(devices) if device < len(memories)]
    return sum(-(-shape.gpu_memory * WHOLE // memory) for memory in chosen if memory)


def _mig_milli(shape: Shape, node: Node | None) -> int:
    """Return the part of a device that the memory slices of MIG instances are."""
    for device in node.devices if node else ():
        geometry = GEOMETRIES.get(device.mig)
        if geometry is not None and shape.mig in geometry.profiles:
            return shape.gpus * geometry.profiles[shape.mig].width * WHOLE // geometry.slices
    return 0


def is_part(shape: Shape) -> bool:
    """Return whether it depends on the node which part of a GPU a task has."""
    return bool(shape.gpus and (shape.mig or shape.gpu_memory))


def _part_milli(shape: Shape, node: Node) -> int:
    """Return what a task that asks for parts would have on a node; 0: it cannot be there."""
    if shape.gpu_models and node.gpu_model not in shape.gpu_models:
        return 0
    if shape.mig:
        return _mig_milli(shape, node)
    memories = (device.memory for device in node.devices if not device.mig)
    memory = next((each for each in memories if each >= shape.gpu_memory), 0)
    return shape.gpus * -(-shape.gpu_memory * WHOLE // memory) if memory else 0

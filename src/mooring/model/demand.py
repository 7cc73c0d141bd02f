"""A shape as the books count it: which columns it changes, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from mooring.model.cluster import WHOLE
from mooring.model.resources import GPU_ROW, PODS_ROW
from mooring.model.workload import Shape

if TYPE_CHECKING:
    from mooring.model.resources import ResourceOrder


class DeviceKind(IntEnum):
    """How a shape asks for devices."""

    NONE = 0
    WHOLE = 1
    SHARED = 2
    """Thousandths of each device."""
    MEMORY = 3
    """MiB of each device; the thousandths depend on the node."""
    MIG = 4


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A shape, interned: one object for all tasks of that shape in one set of books."""

    index: int
    shape: Shape
    kind: DeviceKind
    pairs: tuple[tuple[int, int], ...]
    """(row in the columns, amount): everything that is added and subtracted."""
    asks: tuple[tuple[int, int], ...]
    """`pairs`, and wholly free devices where it needs them: what must be there for one copy."""
    weight: int
    """What one copy adds to the use of its node: thousandths of devices, and one."""


def compile_demand(index: int, shape: Shape, order: ResourceOrder) -> Demand:
    """Return `shape` in terms of the columns, adding resources that are new."""
    pairs = [(PODS_ROW, 1)]
    pairs += [(order.add(name), amount) for name, amount in shape.amounts]
    pairs += [(order.add(name), amount) for name, amount in shape.port_amounts]
    pairs.sort()
    kind = device_kind(shape)
    asks = [*pairs, (GPU_ROW, shape.gpus)] if kind is DeviceKind.WHOLE else pairs
    milli = shape.gpus * (shape.milli if kind in (DeviceKind.WHOLE, DeviceKind.SHARED) else WHOLE)
    return Demand(index, shape, kind, tuple(pairs), tuple(asks), milli + 1)


def device_kind(shape: Shape) -> DeviceKind:
    """Return how `shape` asks for devices."""
    if not shape.gpus:
        return DeviceKind.NONE
    if shape.mig:
        return DeviceKind.MIG
    if shape.gpu_memory:
        return DeviceKind.MEMORY
    return DeviceKind.WHOLE if shape.milli == WHOLE else DeviceKind.SHARED

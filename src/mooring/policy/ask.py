"""What a workload asks for, compiled against one set of books: equal workloads, one ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.model.cluster import WHOLE
from mooring.model.demand import DeviceKind
from mooring.model.mig import GEOMETRIES
from mooring.model.plan import Unknown
from mooring.model.demand import Demand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.books import Books
    from mooring.model.workload import PodGroup, Workload

NO_LEVEL = -1


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A pod group with names resolved: a leaf has a demand, an inner group has parts."""

    name: str
    demand: Demand | None
    count: int
    """Tasks that must be placed together; for growth one unit."""
    required: int = NO_LEVEL
    preferred: int = NO_LEVEL
    slices: tuple[tuple[int, int], ...] = ()
    """(level, size), outermost first."""
    parts: tuple[Part, ...] = ()

    def leaves(self) -> Iterator[Part]:
        """Yield the parts that have tasks, in order."""
        if self.demand is not None:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def of(self, count: int) -> Part:
        """Return the same leaf with another number of tasks."""
        return Part(
            self.name, self.demand, count, self.required, self.preferred, self.slices, self.parts
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """The minimum of a workload, ready to be placed."""

    root: Part
    leaves: tuple[Part, ...]
    service: bool
    avoid: tuple[str, ...]
    """Nodes that refused a task of the workload."""
    problems: tuple[Unknown, ...]
    """Names in it that mean nothing here; such an ask cannot be placed."""


def compile_ask(books: Books, workload: Workload, avoid: tuple[str, ...] = ()) -> Ask:
    """Resolve levels and shapes of a workload."""
    problems: list[Unknown] = []
    root = _compile(books, workload.root, problems)
    while not root.slices and root.required == root.preferred == NO_LEVEL and len(root.parts) == 1:
        root = root.parts[0]
    leaves = tuple(leaf for leaf in root.leaves() if leaf.count)
    return Ask(root, leaves, workload.service, avoid, tuple(problems))


def _compile(books: Books, group: PodGroup, problems: list[Unknown]) -> Part:
    levels = books.tree.level_of
    request = group.topology

    def level(name: str) -> int:
        if name and name not in levels:
            problems.append(Unknown(group.name, "level", name))
        return levels.get(name, NO_LEVEL)

    slices = tuple((level(s.level), s.size) for s in request.slices)
    required, preferred = level(request.required), level(request.preferred)
    parts = tuple(_compile(books, child, problems) for child in group.groups)
    demand = None if parts else books.demand(group.shape)
    if demand is not None:
        _check_shape(group, problems)
        _check_slices(group, slices, problems)
    return Part(group.name, demand, group.min, required, preferred, slices, parts)


def _check_shape(group: PodGroup, problems: list[Unknown]) -> None:
    shape = group.shape
    known = any(shape.mig in geometry.profiles for geometry in GEOMETRIES.values())
    if shape.mig and not known:
        problems.append(Unknown(group.name, "MIG profile", shape.mig))
    if not 0 < shape.milli <= WHOLE:
        problems.append(Unknown(group.name, "thousandths of a device", str(shape.milli)))


def _check_slices(
    group: PodGroup, slices: tuple[tuple[int, int], ...], problems: list[Unknown]
) -> None:
    outer_level, outer = NO_LEVEL, group.min
    for level, size in slices:
        if level <= outer_level or size <= 0 or outer % size:
            problems.append(Unknown(group.name, "slices", f"{size} in {outer}"))
            return
        outer_level, outer = level, size


def unit(part: Part) -> Part:
    """Return one elastic unit of a leaf: a task, or a whole slice."""
    size = part.slices[0][1] if part.slices else 1
    return part.of(size)


def is_below_node(books: Books, demand: Demand) -> bool:
    """Return whether a task leaves something of every node with devices that takes it."""
    if demand.kind in (DeviceKind.MIG, DeviceKind.MEMORY):
        return False
    return demand.shape.gpus < books.widest

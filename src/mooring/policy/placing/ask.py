"""What a workload asks for, compiled against one set of books: equal workloads, one ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.model.cluster import WHOLE
from mooring.model.demand import Demand, DeviceKind
from mooring.model.mig import GEOMETRIES
from mooring.model.plan import Unknown
from mooring.model.topology import LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mooring.model.books import Books
    from mooring.model.workload import PodGroup, SpreadTerm, TaskTerm, Workload

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
    code: int = BY_NODE
    """The flavor that it is placed on and charged to."""
    least: int = 0
    """So few tasks will do where all cannot be had; 0: nothing less."""
    is_beside: bool = False
    """Whether its workload has other groups."""

    def leaves(self) -> Iterator[Part]:
        """Yield the parts that have tasks, in order."""
        if self.demand is not None:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def of(self, count: int) -> Part:
        """Return the same leaf with another number of tasks, and nothing less."""
        return replace(self, count=count, least=0)

    def sliced(self, slices: tuple[tuple[int, int], ...]) -> Part:
        """Return the same leaf with other slices."""
        return replace(self, slices=slices)

    def run_of(self, size: int, slices: tuple[tuple[int, int], ...]) -> Part:
        """Return one run of a sliced leaf, wherever it may be."""
        return Part(self.name, self.demand, size, slices=slices, code=self.code)

    def under(self, around: Part) -> Part:
        """Return the part with what the group around it, which has no other, asks for too."""
        return replace(
            self,
            required=max(self.required, around.required),
            preferred=max(self.preferred, around.preferred),
            slices=self.slices or around.slices,
        )

    def inside(self, level: int) -> Part:
        """Return the part for a domain of `level`: slices that must be in one such hold already."""
        if not self.slices or self.slices[0][0] > level:
            return self
        return replace(self, slices=tuple(s for s in self.slices if s[0] > level))


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
    is_drawn: bool = False
    """Whether the start of another workload could make room for it."""
    barred: tuple[int, ...] = ()
    """Kinds of nodes that others have to be let on first."""

    def with_counts(self, counts: Mapping[str, int]) -> Ask:
        """Return an ask for another number of tasks of some leaves."""

        def over(part: Part) -> Part:
            if part.demand is None:
                return replace(part, parts=tuple(over(child) for child in part.parts))
            return part.of(counts.get(part.name, part.count))

        leaves = tuple(leaf for leaf in map(over, self.leaves) if leaf.count)
        return replace(self, root=over(self.root), leaves=leaves)

    def with_codes(self, codes: Mapping[str, int]) -> Ask:
        """Return an ask whose leaves are placed on and charged to these flavors."""

        def over(part: Part) -> Part:
            if part.demand is None:
                return replace(part, parts=tuple(over(child) for child in part.parts))
            return replace(part, code=codes.get(part.name, part.code))

        return replace(self, root=over(self.root), leaves=tuple(map(over, self.leaves)))


def compile_ask(books: Books, workload: Workload, avoid: tuple[str, ...] = ()) -> Ask:
    """Resolve levels and shapes of a workload."""
    problems: list[Unknown] = []
    root = _compile(books, workload.root, problems)
    if len(root.parts) > 1 or (root.parts and len(list(root.leaves())) > 1):
        root = _beside(root)
    while len(root.parts) == 1:
        child = root.parts[0]
        if root.slices and child.slices:
            problems.append(Unknown(child.name, "slices", "inside slices of the group around it"))
        inherits = bool(root.slices)
        root = child.under(root)
        if inherits and root.demand is not None:
            _check_slices(root.name, root.count, root.slices, problems)
    leaves = tuple(leaf for leaf in _bounded_leaves(root) if leaf.count)
    drawn = any(is_drawn(leaf) for leaf in leaves)
    return Ask(root, leaves, workload.service, avoid, tuple(problems), drawn)


def _beside(part: Part) -> Part:
    """Return a part with its leaves marked: they are not alone in their workload."""
    return replace(part, parts=tuple(map(_beside, part.parts)), is_beside=not part.parts)


def leaf_ask(leaf: Part, tasks: int, workload: Workload, avoid: tuple[str, ...]) -> Ask:
    """Return the ask for some more tasks of a leaf."""
    part = leaf.of(tasks).sliced(())
    return Ask(part, (part,), workload.service, avoid, (), is_drawn(part))


def is_drawn(leaf: Part) -> bool:
    """Return whether a leaf asks for company, or wants to be level with others."""
    shape = leaf.demand.shape if leaf.demand else None
    return shape is not None and bool(shape.near or shape.spread)


def _bounded_leaves(part: Part) -> Iterator[Part]:
    """Yield the leaves with all that the groups around them require."""
    if part.demand is not None:
        yield part
    for child in part.parts:
        yield from _bounded_leaves(replace(child, required=max(child.required, part.required)))


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
    if len(parts) > 1 and slices:
        problems.append(Unknown(group.name, "slices", "of several groups"))
    problems += [Unknown(group.name, "slices", f"of {n}") for _, n in slices if parts and n <= 0]
    demand = None if parts else books.demand(group.shape)
    if demand is not None:
        terms: tuple[TaskTerm | SpreadTerm, ...] = (*group.shape.near, *group.shape.apart)
        for term in (*terms, *group.shape.spread):
            if not term.level.startswith(LABEL):
                level(term.level)
        _check_shape(group, problems)
        _check_slices(group.name, group.min, slices, problems)
    if any(level == NO_LEVEL or size <= 0 for level, size in slices):
        slices = ()  # told as a problem
    least = group.partial if group.partial < group.min else 0
    return Part(group.name, demand, group.min, required, preferred, slices, parts, least=least)


def _check_shape(group: PodGroup, problems: list[Unknown]) -> None:
    shape = group.shape
    known = any(shape.mig in geometry.profiles for geometry in GEOMETRIES.values())
    if shape.mig and not known:
        problems.append(Unknown(group.name, "MIG profile", shape.mig))
    if not 0 < shape.milli <= WHOLE:
        problems.append(Unknown(group.name, "thousandths of a device", str(shape.milli)))


def _check_slices(
    name: str, count: int, slices: tuple[tuple[int, int], ...], problems: list[Unknown]
) -> None:
    outer_level, outer = NO_LEVEL, count
    for level, size in slices:
        if level <= outer_level or size <= 0 or outer % size:
            problems.append(Unknown(name, "slices", f"{size} in {outer}"))
            return
        outer_level, outer = level, size


def is_below_node(books: Books, demand: Demand) -> bool:
    """Return whether a task leaves something of every node with devices that takes it."""
    if demand.kind in (DeviceKind.MIG, DeviceKind.MEMORY):
        return False
    return demand.shape.gpus < books.widest

"""Plain twins: slow, obvious versions of what the engine does with columns and counting.

Nothing here uses the books, the fits or the search; only facts (nodes, workloads, placements).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from mooring.model.cluster import WHOLE, Node
from mooring.model.mig import GEOMETRIES
from mooring.model.resources import PODS
from mooring.model.workload import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mooring.model.books import Layout
    from mooring.model.cluster import Labels
    from mooring.model.topology import Topology
    from mooring.model.workload import Placement, PodGroup, Workload


# -- one node -------------------------------------------------------------------------------


@dataclass
class Room:
    """What one node has left."""

    node: Node
    amounts: dict[str, int]
    shares: list[int]
    slices: list[int]
    ports: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, node: Node) -> Room:
        """Return the room of an empty node; a device that cannot be given has none."""
        shares = [WHOLE if each.healthy and not each.mig else 0 for each in node.devices]
        return cls(node, dict(node.capacity), shares, [0] * len(node.devices))

    def milli(self, shape: Shape, device: int) -> int:
        """Return the thousandths of a device that a shape takes."""
        if not shape.gpu_memory:
            return shape.milli
        memory = self.node.devices[device].memory
        if memory < shape.gpu_memory:
            return WHOLE + 1
        return (shape.gpu_memory * WHOLE + memory - 1) // memory

    def has_amounts(self, shape: Shape) -> bool:
        """Return whether everything but devices is there for one task."""
        if PODS in self.amounts and self.amounts[PODS] < 1:
            return False
        if self.ports & set(shape.ports):
            return False
        return all(self.amounts.get(name, 0) >= amount for name, amount in shape.amounts)

    def masks(self, shape: Shape) -> Iterator[int]:
        """Yield every set of devices that would do for one task."""
        if not shape.gpus:
            yield 0
        elif shape.mig:
            yield from self._instances(shape, shape.gpus, 0)
        else:
            fitting = [d for d in range(len(self.shares)) if self._fits(shape, d)]
            for chosen in combinations(fitting, shape.gpus):
                yield sum(1 << d for d in chosen)

    def _fits(self, shape: Shape, device: int) -> bool:
        if self.milli(shape, device) == WHOLE:
            return self.shares[device] == WHOLE
        return self.shares[device] >= self.milli(shape, device)

    def _instances(self, shape: Shape, left: int, taken: int) -> Iterator[int]:
        if not left:
            yield taken
            return
        for d, device in enumerate(self.node.devices):
            profiles = GEOMETRIES[device.mig].profiles if device.mig and device.healthy else {}
            profile = profiles.get(shape.mig)
            for start in profile.starts if profile else ():
                assert profile is not None
                mask = (1 << profile.width) - 1 << start
                if not mask & self.slices[d] and not mask << 8 * d & taken:
                    yield from self._instances(shape, left - 1, taken | mask << 8 * d)

    def put(self, shape: Shape, mask: int, sign: int = 1) -> None:
        """Take the room of one task (or, with −1, give it back)."""
        for name, amount in (*shape.amounts, *([(PODS, 1)] if PODS in self.amounts else [])):
            self.amounts[name] = self.amounts.get(name, 0) - sign * amount
        self.ports ^= set(shape.ports)
        for bit in range(mask.bit_length()):
            if not mask >> bit & 1:
                continue
            if shape.mig:
                self.slices[bit // 8] ^= 1 << bit % 8
            else:
                self.shares[bit] -= sign * self.milli(shape, bit)

    def copies(self, shape: Shape, most: int = 10_000) -> int:
        """Return how many tasks fit: always on the devices that could serve the most others."""
        here = Room(
            self.node, dict(self.amounts), list(self.shares), list(self.slices), {*self.ports}
        )
        if shape.mig:
            instances = sum(most_instances(self, shape, d) for d in range(len(self.shares)))
            most = min(most, instances // shape.gpus)
        count = 0
        while count < most and here.has_amounts(shape):
            mask = 0 if shape.mig else here._roomiest(shape)
            if mask is None:
                break
            here.put(shape, mask)
            count += 1
        return count

    def _roomiest(self, shape: Shape) -> int | None:
        fitting = [d for d in range(len(self.shares)) if self._fits(shape, d)]
        if len(fitting) < shape.gpus:
            return None
        serve = sorted(fitting, key=lambda d: (-(self.shares[d] // self.milli(shape, d)), d))
        return sum(1 << d for d in serve[: shape.gpus])

    def state(self) -> tuple[object, ...]:
        """Return all that matters for what still fits; equal devices are interchangeable."""
        kinds = zip(self.node.devices, self.shares, self.slices, strict=True)
        rows = sorted((d.memory, d.mig, d.healthy, share, used) for d, share, used in kinds)
        amounts = tuple(sorted(self.amounts.items()))
        return amounts, tuple(rows), tuple(sorted(self.ports))


def most_instances(room: Room, shape: Shape, device: int) -> int:
    """Return how many MIG instances a device still takes; all ways are tried."""
    here = room.node.devices[device]
    profile = GEOMETRIES[here.mig].profiles.get(shape.mig) if here.mig and here.healthy else None
    if profile is None:
        return 0
    masks = [(1 << profile.width) - 1 << start for start in profile.starts]

    def most(used: int, first: int) -> int:
        return max(
            (
                1 + most(used | mask, index + 1)
                for index, mask in enumerate(masks[first:], first)
                if not mask & used
            ),
            default=0,
        )

    return most(room.slices[device], 0)


# -- who is where ---------------------------------------------------------------------------


def allows(node: Node, shape: Shape) -> bool:
    """Return whether the labels, taints and model of a node let a shape in."""
    labels = dict(node.labels)
    if not node.ready:
        return False
    if shape.gpus and shape.gpu_models and node.gpu_model not in shape.gpu_models:
        return False
    if any(labels.get(key) != value for key, value in shape.selector):
        return False
    for taint in node.taints:
        covered = any(
            (not t.effect or t.effect == taint.effect)
            and (t.key == taint.key or (not t.key and t.operator == "Exists"))
            and (t.operator == "Exists" or t.value == taint.value)
            for t in shape.tolerations
        )
        if taint.effect != "PreferNoSchedule" and not covered:
            return False
    return True


def domain(topology: Topology, node: Node, level: str) -> tuple[str, ...]:
    """Return the domain of a node at a level, as a value."""
    index = topology.names.index(level)
    if level == topology.names[-1]:
        return (*node.path, node.name)
    return tuple(node.path[:index])


@dataclass(frozen=True)
class Seat:
    """One task on one node."""

    shape: Shape
    node: Node
    keeps_model: bool = False
    """Its group uses one GPU model, so that nodes of others are no alternative."""


def meant(shape: Shape, labels: Labels) -> bool:
    """Return whether a term with these labels means this shape."""
    return all(pair in shape.labels for pair in labels)


def terms_hold(topology: Topology, nodes: Sequence[Node], old: list[Seat], new: list[Seat]) -> bool:
    """Return whether all terms hold at the end; those among the old tasks are not asked."""
    every = [*old, *new]
    among = [(one, other) for one in every for other in every if one is not other]
    fresh = [pair for pair in among if any(each is seat for each in pair for seat in new)]
    return (
        not any(_are_too_close(topology, one, other) for one, other in fresh)
        and _company_holds(topology, old, new)
        and all(_is_level(topology, nodes, one, every) for one in new)
    )


def _same(topology: Topology, level: str, one: Seat, other: Seat) -> bool:
    return domain(topology, one.node, level) == domain(topology, other.node, level)


def _are_too_close(topology: Topology, one: Seat, other: Seat) -> bool:
    return any(
        not term.weight
        and meant(other.shape, term.labels)
        and _same(topology, term.level, one, other)
        for term in one.shape.apart
    )


def _company_holds(topology: Topology, old: list[Seat], new: list[Seat]) -> bool:
    """Return whether the tasks can come in an order in which each finds the company it wants.

    Those that want none come before all others or after; it may matter who is the first of a flock.
    """
    choosy = [seat for seat in new if seat.shape.near]
    easy = [seat for seat in new if not seat.shape.near]
    return any(
        _all_arrive(topology, before, [first, *(seat for seat in choosy if seat is not first)])
        for before in (old, [*old, *easy])
        for first in choosy or easy[:1]
    )


def _all_arrive(topology: Topology, there: list[Seat], coming: list[Seat]) -> bool:
    there = list(there)
    while coming:
        ready = next((s for s in coming if _has_company(topology, s, there)), None)
        if ready is None:
            return False
        there.append(ready)
        coming = [seat for seat in coming if seat is not ready]
    return True


def _has_company(topology: Topology, one: Seat, there: list[Seat]) -> bool:
    for term in one.shape.near:
        company = [seat for seat in there if meant(seat.shape, term.labels)]
        alone = not company and meant(one.shape, term.labels)
        found = any(_same(topology, term.level, one, other) for other in company)
        if not (term.weight or alone or found):
            return False
    return True


def _is_level(topology: Topology, nodes: Sequence[Node], one: Seat, every: list[Seat]) -> bool:
    for term in one.shape.spread:
        measured = [
            node
            for node in nodes
            if allows(node, one.shape)
            and (not one.keeps_model or node.gpu_model == one.node.gpu_model)
        ]
        usable = {domain(topology, node, term.level) for node in measured}
        counts = Counter(
            domain(topology, seat.node, term.level)
            for seat in every
            if meant(seat.shape, term.labels) and seat.node in measured
        )
        least = min((counts[each] for each in usable), default=0)
        here = counts[domain(topology, one.node, term.level)]
        if term.required and here - least > term.skew:
            return False
    return True


# -- existence ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """Tasks that must share a domain of a level: of the workload, a group, or a slice."""

    key: tuple[object, ...]
    level: str


@dataclass(frozen=True)
class Slot:
    """One task to be placed, and the bounds that it is under."""

    group: str
    shape: Shape
    bounds: tuple[Bound, ...]
    keeps_model: bool
    follows: bool
    """It equals the task before it, so that only one order of the two must be tried."""


def slots_of(workload: Workload) -> list[Slot]:
    """Return the minimum of a workload, task by task."""

    def down(group: PodGroup, bounds: tuple[Bound, ...]) -> Iterator[Slot]:
        if group.topology.required:
            bounds = (*bounds, Bound((group.name, "required"), group.topology.required))
        for child in group.groups:
            yield from down(child, bounds)
        if group.groups:
            return
        for task in range(group.min):
            runs = tuple(
                Bound((group.name, "slice", each.level, task // each.size), each.level)
                for each in group.topology.slices
            )
            keeps = group.min > 1 and group.shape.gpus > 0
            follows = task > 0 and not runs
            yield Slot(group.name, group.shape, (*bounds, *runs), keeps, follows)

    root = workload.root
    return list(down(root, ()))


class Exhaustive:
    """Tries every assignment of tasks to nodes and devices."""

    def __init__(
        self,
        topology: Topology,
        rooms: Sequence[Room],
        old: list[Seat],
        nodes: Sequence[Node] | None = None,
    ) -> None:
        self.topology = topology
        self.rooms = rooms
        self.nodes = [room.node for room in rooms] if nodes is None else nodes
        """Over which it is measured how evenly tasks are spread; not all need have rooms."""
        self.old = old
        self.steps = 0

    def finds(self, workload: Workload) -> bool:
        """Return whether there is any valid placement of the minimum."""
        self.slots = slots_of(workload)
        self.social = any(
            shape.is_social
            for shape in (*(s.shape for s in self.slots), *(o.shape for o in self.old))
        )
        self.failed: set[tuple[object, ...]] = set()
        return self._place(0, {}, [])

    def _place(self, index: int, chosen: dict[object, object], seats: list[Seat]) -> bool:
        if index == len(self.slots):
            return terms_hold(self.topology, self.nodes, self.old, seats)
        slot = self.slots[index]
        last = seats[-1].node.name if slot.follows else ""
        state = (
            index,
            last,
            tuple(room.state() for room in self.rooms),
            tuple(sorted((str(k), str(v)) for k, v in chosen.items())),
            tuple(seat.node.name for seat in seats) if self.social else (),
        )
        if state in self.failed:
            return False
        found = any(
            self._put(index, room, mask, chosen, seats)
            for room in self._candidates(slot, chosen, last)
            for mask in distinct(room, slot.shape)
        )
        if not found:
            self.failed.add(state)
        return found

    def _candidates(self, slot: Slot, chosen: dict[object, object], last: str) -> list[Room]:
        names = [room.node.name for room in self.rooms]
        start = names.index(last) if last else 0
        return [
            room
            for room in self.rooms[start:]
            if allows(room.node, slot.shape)
            and room.has_amounts(slot.shape)
            and all(
                chosen.get(bound.key, here) == here
                for bound in slot.bounds
                for here in [domain(self.topology, room.node, bound.level)]
            )
            and (not slot.keeps_model or chosen.get(slot.group) in (None, room.node.gpu_model))
        ]

    # wide: the state of a recursion
    def _put(
        self, index: int, room: Room, mask: int, chosen: dict[object, object], seats: list[Seat]
    ) -> bool:
        slot = self.slots[index]
        self.steps += 1
        more = dict(chosen)
        for bound in slot.bounds:
            more[bound.key] = domain(self.topology, room.node, bound.level)
        if slot.keeps_model:
            more[slot.group] = room.node.gpu_model
        room.put(slot.shape, mask)
        found = self._place(
            index + 1, more, [*seats, Seat(slot.shape, room.node, slot.keeps_model)]
        )
        room.put(slot.shape, mask, -1)
        return found


def distinct(room: Room, shape: Shape) -> list[int]:
    """Return the sets of devices that leave different rooms."""
    found: dict[tuple[object, ...], int] = {}
    for mask in room.masks(shape):
        room.put(shape, mask)
        found.setdefault(room.state(), mask)
        room.put(shape, mask, -1)
    return list(found.values())


def problems(
    topology: Topology,
    rooms: Sequence[Room],
    old: list[Seat],
    workload: Workload,
    placements: Iterable[Placement],
) -> list[str]:
    """Return what is wrong with a placement of the minimum; the rooms are used up by it."""
    room_of = {room.node.name: room for room in rooms}
    leaf_of = {leaf.name: leaf for leaf in workload.leaves()}
    where: dict[str, list[Node]] = {name: [] for name in leaf_of}
    seats: list[Seat] = []
    wrong: list[str] = []
    for placement in placements:
        shape = leaf_of[placement.group].shape
        for name, mask in zip(placement.nodes, placement.devices, strict=True):
            room = room_of[name]
            if not allows(room.node, shape):
                wrong.append(f"{placement.group} may not go to {name}")
            if not room.has_amounts(shape) or mask not in set(room.masks(shape)):
                wrong.append(f"{placement.group} has no room on {name} with devices {mask:b}")
            room.put(shape, mask)
            where[placement.group].append(room.node)
            keeps_model = shape.gpus > 0 and leaf_of[placement.group].min > 1
            seats.append(Seat(shape, room.node, keeps_model))
    counts = {name: len(found) for name, found in where.items()}
    if counts != {leaf.name: leaf.min for leaf in leaf_of.values()}:
        return [*wrong, f"wrong numbers of tasks: {counts}"]
    wrong += _broken_bounds(topology, workload, where)
    if not terms_hold(topology, [room.node for room in rooms], old, seats):
        wrong.append("a term about other tasks is broken")
    return wrong


def _broken_bounds(
    topology: Topology, workload: Workload, where: dict[str, list[Node]]
) -> list[str]:
    wrong: list[str] = []
    chosen: dict[object, object] = {}
    at: Counter[str] = Counter()
    for slot in slots_of(workload):
        node = where[slot.group][at[slot.group]]
        at[slot.group] += 1
        for bound in slot.bounds:
            here = domain(topology, node, bound.level)
            if chosen.setdefault(bound.key, here) != here:
                wrong.append(f"{bound.key} is in more than one {bound.level}")
        if slot.keeps_model and chosen.setdefault(slot.group, node.gpu_model) != node.gpu_model:
            wrong.append(f"{slot.group} has more than one model")
    return wrong


# -- choice of domains ----------------------------------------------------------------------


def spans(topology: Topology, nodes: Iterable[Node]) -> tuple[int, ...]:
    """Return how many domains of each level the nodes are in, the cluster first."""
    nodes = list(nodes)
    return tuple(len({domain(topology, n, level) for n in nodes}) for level in topology.names)


def best_spans(
    topology: Topology, room: dict[Node, int], count: int, start: int, top: int
) -> tuple[int, ...] | None:
    """Return the fewest domains by which `count` tasks can be placed; None: they cannot.

    The lowest level, from `start` up to `top`, of which one domain holds all; inside it as few
    domains as possible at each level below, upper levels first.
    """
    usable = [node for node, most in room.items() if most]
    sets = [
        (spans(topology, chosen), chosen)
        for size in range(1, len(usable) + 1)
        for chosen in combinations(usable, size)
        if sum(room[node] for node in chosen) >= count
    ]
    for level in range(start, top - 1, -1):
        inside = [found for found, _ in sets if found[level] == 1]
        if inside:
            return min(inside)
    return None


# -- choice of devices ----------------------------------------------------------------------


def pair_value(layout: Layout, one: int, other: int) -> int:
    """Return what two devices have in common: 1000 an island, 100 a switch, 10 NUMA, 1 a NIC."""
    value = 0
    for index, points in enumerate((1000, 100, 10, 1)):
        if layout[one][index] == layout[other][index]:
            value += points
    return value


def set_value(layout: Layout, chosen: Iterable[int]) -> int:
    """Return the links inside a set of devices."""
    return sum(pair_value(layout, a, b) for a, b in combinations(sorted(chosen), 2))


def rest_value(layout: Layout, rest: Sequence[int]) -> int:
    """Return the links of the best subset of every size, summed."""
    return sum(
        max(set_value(layout, chosen) for chosen in combinations(rest, size))
        for size in range(2, len(rest) + 1)
    )


def device_values(layout: Layout, free: Sequence[int], chosen: Sequence[int]) -> tuple[int, int]:
    """Return what a choice is worth: its links first, then what it leaves."""
    rest = [d for d in free if d not in chosen]
    return set_value(layout, chosen), rest_value(layout, rest)


# -- E-Binpack ------------------------------------------------------------------------------


def binpack_pick(
    topology: Topology, room: dict[Node, int], used: dict[Node, int], order: Sequence[Node]
) -> Node | None:
    """Return the node for one task: a used one if any has room; at each level the most used domain.

    Of equals the first in the order of rows.
    """
    candidates = [node for node in order if room[node]]
    touched = [node for node in candidates if used[node]]
    candidates = touched or candidates
    for level in topology.names[1:]:
        if not candidates:
            return None

        def use(node: Node, level: str = level) -> int:
            here = domain(topology, node, level)
            return sum(used[other] for other in order if domain(topology, other, level) == here)

        most = max(use(node) for node in candidates)
        first = next(node for node in candidates if use(node) == most)
        chosen = domain(topology, first, level)
        candidates = [node for node in candidates if domain(topology, node, level) == chosen]
    return candidates[0] if candidates else None

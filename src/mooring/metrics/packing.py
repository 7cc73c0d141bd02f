"""How few nodes and leaves would do for the tasks of a workload, if nothing else ran.

For equal tasks that is exact. Tasks that differ are packed node by node, the largest first: then
there may be a way with fewer still.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from mooring.model.cluster import WHOLE
from mooring.model.mig import GEOMETRIES, best_start, bits, compute_slices, fits_count, starts
from mooring.model.resources import GPU, PODS, UNLIMITED, Amounts, of_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.metrics.cluster import Cluster
    from mooring.model.cluster import Node
    from mooring.model.mig import Geometry
    from mooring.model.workload import Shape

Path = tuple[str, ...]
"""Domains, outermost first."""
Counts = dict["Need", int]
"""Tasks by what each needs."""


class Need(NamedTuple):
    """What decides how many tasks an empty node holds: a shape, but for where it may go."""

    amounts: Amounts
    gpus: int
    milli: int
    gpu_memory: int
    mig: str
    gpu_models: tuple[str, ...]

    @property
    def gpu_milli(self) -> int:
        """Return about how many thousandths of GPUs it takes: of a part by memory, all."""
        return self.gpus * (compute_slices(self.mig) * WHOLE // 8 if self.mig else self.milli)


def need_of(shape: Shape) -> Need:
    """Return what a task of a shape needs."""
    amounts = (*shape.amounts, *shape.port_amounts, (PODS, 1))
    models = shape.gpu_models
    return Need(amounts, shape.gpus, shape.milli, shape.gpu_memory, shape.mig, models)


def room_of(shape: Shape, node: Node) -> int:
    """Return how many tasks of a shape an empty node holds."""
    return Filling(node).room(need_of(shape))


def path_of(node: Node, depth: int) -> Path:
    """Return the domains of a node down to its leaf; names that are not given are empty."""
    return (*node.path, *("",) * depth)[:depth]


class Filling:
    """A node that was empty, and what is put on it; as the books count it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._taken: Counter[str] = Counter()
        self._capacity = dict(node.capacity)
        cut = [device.mig in GEOMETRIES for device in node.devices]
        healthy = [device.healthy for device in node.devices]
        self._share = [WHOLE * (h and not c) for h, c in zip(healthy, cut, strict=True)]
        """Per device, what is left of it; 0 where it is cut into instances."""
        self._slices = {d: 0 for d, c in enumerate(cut) if c and healthy[d]}
        """Per device that is cut, which slices are taken."""

    def room(self, need: Need) -> int:
        """Return how many more tasks of a kind there is room for."""
        if need.gpu_models and self._node.gpu_model not in need.gpu_models:
            return 0
        found = self._device_room(need)
        for name, amount in need.amounts:
            found = min(found, (self._all(name) - self._taken[name]) // amount)
        return found

    def _all(self, name: str) -> int:
        default = UNLIMITED if name == PODS else of_ports(name)
        return self._capacity.get(name, default)

    def _device_room(self, need: Need) -> int:
        gpus = need.gpus
        if need.mig:
            masks = self._slices.items()
            return sum(fits_count(self._geometry(d), need.mig, mask) for d, mask in masks) // gpus
        each = [share // self._milli(need, d) for d, share in enumerate(self._share)]
        tasks = sum(each) // gpus
        while sum(min(tasks, parts) for parts in each) < gpus * tasks:  # on different devices
            tasks -= 1
        return tasks

    def take(self, need: Need, count: int) -> None:
        """Put so many tasks of a kind on it, for which there is room."""
        for name, amount in need.amounts:
            self._taken[name] += amount * count
        for _ in range(count * need.gpus if need.mig else 0):
            self._cut(need.mig)
        for _ in range(0 if need.mig else count):
            self._use(need)

    def _use(self, need: Need) -> None:
        """Take the fullest device that will do; several as empty as can be: so most go in."""
        sign = 1 if need.gpus == 1 else -1
        some = [(sign * share, d) for d, share in enumerate(self._share)]
        fitting = [(key, d) for key, d in some if self._share[d] >= self._milli(need, d)]
        for _, device in sorted(fitting)[: need.gpus]:
            self._share[device] -= self._milli(need, device)

    def _cut(self, profile: str) -> None:
        """Take an instance of a profile where most of its like are left, and then of others."""
        for device, taken in self._slices.items():
            geometry = self._geometry(device)
            masks = [bits(geometry, profile, start) for start in starts(geometry, profile)]
            free = [taken | mask for mask in masks if not mask & taken]
            if free:
                start = best_start(geometry, profile, taken)
                best = taken | bits(geometry, profile, start)
                self._slices[device] = max(
                    free, key=lambda mask: (fits_count(geometry, profile, mask), mask == best)
                )
                return

    def _geometry(self, device: int) -> Geometry:
        return GEOMETRIES[self._node.devices[device].mig]

    def _milli(self, need: Need, device: int) -> int:
        """Return what a task takes of a device; more than there is of one too small."""
        if not need.gpu_memory:
            return need.milli
        memory = self._node.devices[device].memory
        return -(-need.gpu_memory * WHOLE // memory) if memory else 2 * WHOLE


class Stock:
    """All nodes that are ready, as if nothing ran: those alike are counted, leaf by leaf."""

    def __init__(self, cluster: Cluster, depth: int) -> None:
        self._cluster = cluster
        self._depth = depth
        self._version = -1
        self._leaves: dict[Path, Counter[int]] = {}
        """Per leaf, how many nodes of each kind."""
        self._kinds: list[Node] = []
        """One node of each kind that ever was."""
        self._largest: Counter[str] = Counter()
        """Per resource, the most that one of those has."""
        self._kind_of: dict[tuple[object, ...], int] = {}
        self._known: dict[str, tuple[Node, int]] = {}
        """By name, a node and its kind, as it was last."""
        self._lowest: dict[tuple[Need, int], int] = {}
        self._fewest: dict[frozenset[tuple[Need, int]], tuple[float, float]] = {}
        self._rooms: dict[tuple[int, Need], int] = {}

    def lowest(self, need: Need, count: int) -> int:
        """Return the lowest level of which one domain holds so many tasks; 0: the cluster."""
        self._recount()
        key = need, count
        found = self._lowest.get(key)
        if found is None:
            found = self._lowest[key] = self._find_lowest(need, count)
        return found

    def fewest(self, wanted: Mapping[Need, int]) -> tuple[float, float]:
        """Return the fewest nodes and the fewest leaves that hold all; infinite: none do."""
        self._recount()
        key = frozenset(wanted.items())
        found = self._fewest.get(key)
        if found is None:
            found = self._fewest[key] = self._find_fewest(wanted)
        return found

    def _recount(self) -> None:
        """Count the nodes anew where one has come, changed or gone."""
        if self._version == self._cluster.version:
            return
        self._version = self._cluster.version
        self._lowest.clear()
        self._fewest.clear()
        self._leaves.clear()
        for name, seen in self._cluster.nodes.items():
            known = self._known.get(name)
            if known is None or known[0] is not seen.node:
                known = self._known[name] = seen.node, self._find_kind(seen.node)
            if seen.node.ready:
                leaf = path_of(seen.node, self._depth)
                self._leaves.setdefault(leaf, Counter())[known[1]] += 1

    def _find_kind(self, node: Node) -> int:
        facts = node.capacity, node.gpu_model, node.devices
        if facts not in self._kind_of:
            self._kind_of[facts] = len(self._kinds)
            self._kinds.append(node)
            has = {**dict(node.capacity), GPU: WHOLE * len(node.devices)}
            self._largest |= Counter(has)
        return self._kind_of[facts]

    def _room(self, kind: int, need: Need) -> int:
        key = kind, need
        if key not in self._rooms:
            self._rooms[key] = Filling(self._kinds[kind]).room(need)
        return self._rooms[key]

    def _find_lowest(self, need: Need, count: int) -> int:
        sums = [Counter[Path]() for _ in range(self._depth + 1)]
        most = 0
        for path, kinds in self._leaves.items():
            rooms = [(self._room(kind, need), number) for kind, number in kinds.items()]
            most = max(most, *(room for room, _ in rooms))
            for level, domains in enumerate(sums):
                domains[path[:level]] += sum(room * number for room, number in rooms)
        best = [max(domains.values(), default=0) for domains in sums] + [most]
        return max((level for level, room in enumerate(best) if room >= count), default=0)

    def _find_fewest(self, wanted: Mapping[Need, int]) -> tuple[float, float]:
        every = sum(self._leaves.values(), Counter[int]())
        want = {need: wanted[need] for need in sorted(wanted, key=self._order)}
        worth = {
            kind: sum(need.gpu_milli * count for need, count in self._pack(kind, want).items())
            for kind in every
        }
        best = sorted(every, key=lambda kind: -worth[kind])

        def largest(kinds: Counter[int]) -> int:
            return -sum(worth[kind] * number for kind, number in kinds.items())

        left, nodes = self._fill(every, best, want)
        if left:
            return inf, inf
        left, leaves = want, 0
        for kinds in sorted(self._leaves.values(), key=largest):
            left, used = self._fill(kinds, best, left)
            leaves += used > 0
        return nodes, inf if left else leaves

    def _order(self, need: Need) -> tuple[float, Need]:
        """Return what sorts by size, largest first: the parts that it takes of a node together."""
        parts = (amount / max(self._largest[name], amount) for name, amount in need.amounts)
        return -sum(parts) - need.gpu_milli / max(self._largest[GPU], need.gpu_milli), need

    def _fill(self, kinds: Counter[int], best: list[int], left: Counts) -> tuple[Counts, int]:
        """Put tasks on nodes, the best kinds first; return what is left, and how many it took."""
        nodes = 0
        for kind in best if left else ():
            number = kinds[kind]
            while number and (packed := self._pack(kind, left)):
                times = min(number, *(left[need] // count for need, count in packed.items()))
                rest = {need: count - times * packed.get(need, 0) for need, count in left.items()}
                left = {need: count for need, count in rest.items() if count}
                number, nodes = number - times, nodes + times
        return left, nodes

    def _pack(self, kind: int, left: Counts) -> Counts:
        """Return what an empty node of a kind takes of the tasks, in their order."""
        if len(left) == 1:
            ((need, count),) = left.items()
            taken = min(count, self._room(kind, need))
            return {need: taken} if taken else {}
        filling, packed = Filling(self._kinds[kind]), Counts()
        for need, count in left.items():
            taken = min(count, filling.room(need))
            if taken:
                filling.take(need, taken)
                packed[need] = taken
        return packed

"""The books: what every node, device and queue has left, as columns.

Per node and resource: free + used + releasing = capacity. Part of free (or of releasing) may be
held for a named workload; `open` is free less held: what anyone may take now. Per device the same
in thousandths: `share` is what is open of it; it is negative where a hold lies on room that is
still being released, or where a device in use went bad.

Every change is written to a log with its inverse: `checkpoint` and `rollback` are the only way to
speculate. Every row that changes is appended to `touched`, from which others catch up.

Rows have two faces: numpy arrays for vectors, memoryviews of the same memory for single values.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.model.cluster import WHOLE, Node
from mooring.model.columns import INT, view, views
from mooring.model.demand import Demand, DeviceKind, compile_demand
from mooring.model.mig import compute_slices
from mooring.model.queues import ANY_FLAVOR_NAME, Flavor
from mooring.model.resources import (
    GPU_ROW,
    PODS_ROW,
    UNLIMITED,
    ResourceOrder,
    of_ports,
)
from mooring.model.topology import Topology, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mooring.model.columns import Bools, Counts, Ints
    from mooring.model.workload import Shape

VECTOR_FROM = 17
"""From so many tasks on, vectors are faster than single values."""
LOG_LIMIT = 1 << 16
BY_NODE = -1
"""In place of the code of a flavor: whatever the nodes are."""
FIRST_ASSIGNMENT = -2
"""Codes from here down are assignments: a flavor for each resource."""

Assignment = tuple[tuple[str, str], ...]
"""(resource, flavor) pairs, ordered by resource."""
Bill = tuple[tuple[int, int], ...]
"""(pair, amount) that one task is charged."""

Layout = tuple[tuple[int, int, int, int, str], ...]
"""Island, switch, NUMA node, NIC and MIG geometry of every device of a node."""

_NODE_COLUMNS = [
    "capacity",
    "open",
    "held",
    "releasing",
    "share",
    "usable",
    "sound",
    "mig_used",
    "mig_twice",
    "device_memory",
    "whole",
    "devices",
    "flavor",
    "kind",
    "charged_kind",
    "layout",
    "present",
]


class BooksError(Exception):
    """An invariant of the books is broken: a bug, not bad input."""


@lru_cache(maxsize=1 << 16)
def bits(mask: int) -> tuple[int, ...]:
    """Return the positions of the set bits of `mask`."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


class Books:
    """Nodes, devices, holds and charges as one."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.order = ResourceOrder()
        self.nodes: list[Node] = []
        self.row_of: dict[str, int] = {}
        self.epoch = 0
        """Changes with the facts of any node, and when rows are renumbered."""
        self.widest = 0
        """Most devices that any node has."""
        self.touched = array("i")
        self.trimmed = 0
        """How many entries of `touched` have been dropped from its front."""
        self.log_end = 0
        """The position behind its last entry, dropped ones included."""
        self.demands: list[Demand] = []
        self.tally: list[Counts] = []
        """Per demand, how many of its tasks are on each node."""
        self.flavors: list[str] = []
        self.layouts: list[Layout] = []
        self.named_flavors: tuple[Flavor, ...] = ()
        self.plain_anywhere = False
        """Flavors without labels are those of all nodes; else only where there is no GPU model."""
        self.kinds: list[tuple[str, ...]] = []
        """Kinds of nodes: the flavors that their nodes have, the one they are charged as first."""
        self._there: tuple[int, list[int]] = (-1, [])
        """The kinds that there are nodes of, and for which epoch."""
        self.assignments: list[Assignment] = []
        self.queues: list[str] = []
        self._queue_of: dict[str, int] = {}
        self.missing: dict[tuple[str, str, int], int] = {}
        """Tasks that are taken out while something is tried, as far as somebody asked to know."""
        self.holds: dict[str, list[tuple[Demand, int, int, int, int]]] = {}
        """Per owner, for every task: demand, row, devices, account and flavor."""
        self.lent: dict[tuple[int, float], int] = {}
        """By kind of nodes and seconds to leave, devices on loan to work that would leave."""
        self._demand_of: dict[Shape, Demand] = {}
        self._counters: dict[str, int] = {}
        self._matches: list[Callable[[Shape], bool]] = []
        self._counters_of: list[tuple[int, ...]] = []
        """Per demand, the counters that it is counted in."""
        self._counts: list[Counts] = []
        self._undo: list[tuple[Any, ...]] = []
        self.share = np.zeros((0, 0), np.int16)
        self._charges: dict[tuple[int, int, int], int] = {}
        """How many tasks each (account, flavor, demand) is charged for."""
        self.pairs: list[tuple[str, str]] = []
        """(flavor, resource) pairs of which the use of every queue is kept."""
        self._paths: list[tuple[int, ...]] = []
        self._choices: list[dict[str, tuple[str, ...]]] = []
        """Per queue and resource, the flavors it is charged to, in order; none: any."""
        self._bills: dict[tuple[int, int, int], Bill] = {}
        self._memory_of_kind: dict[int, int] | None = None
        """Memory by which parts of devices are charged; None: they are charged as whole ones."""
        self.usage = np.zeros((0, 0), INT)
        """What each queue, with all below it, uses of each pair."""
        self.fixed = np.zeros((0, 0), INT)
        """The part of it that is not preemptible."""
        self._allocate(Tree(topology, ()), ())

    # -- columns ----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return self.tree.count

    def _allocate(self, tree: Tree, nodes: Sequence[Node]) -> None:
        n, resources = tree.count, len(self.order)
        widest = max((len(node.devices) for node in nodes), default=0)
        width = max(widest, len(self.share))  # never less: a row may be in use and its node gone
        self.tree = tree
        self.nodes = list(nodes)
        self.row_of = {node.name: row for row, node in enumerate(nodes)}
        self.capacity = np.zeros((resources, n), INT)
        self.open = np.zeros((resources, n), INT)
        self.held = np.zeros((resources, n), INT)
        self.releasing = np.zeros((resources, n), INT)
        self.share = np.zeros((width, n), np.int16)
        self.usable = np.zeros((width, n), np.bool_)
        self.sound = np.zeros((width, n), np.bool_)
        self.mig_used = np.zeros((width, n), np.uint8)
        self.mig_twice = np.zeros((width, n), np.uint8)
        self.device_memory = np.zeros((width, n), INT)
        self.whole = np.zeros(n, INT)
        self.devices = np.zeros(n, INT)
        self.flavor = np.zeros(n, INT)
        self.kind = np.zeros(n, INT)
        self.charged_kind = np.zeros(n, INT)
        self.layout = np.zeros(n, INT)
        self.present = np.zeros(n, np.bool_)
        self.used = [np.zeros(len(first) - 1, INT) for first in tree.first]
        self.epoch += 1
        self.log_end = self.trimmed = self.log_end + 1
        self.touched = array("i")
        self._bind_views()

    def _bind_views(self) -> None:
        self.open_of = views(self.open)
        self.releasing_of = views(self.releasing)
        self.share_of = views(self.share)
        self.mig_of = views(self.mig_used)
        self._mig_twice_of = views(self.mig_twice)
        self.memory_of = views(self.device_memory)
        self.whole_of = view(self.whole)
        self.used_of = views(self.used)
        self.up = views(self.tree.domain)
        self._used_up = list(zip(self.used_of, self.up, strict=True))
        self.flavor_of = view(self.flavor)
        self.kind_of = view(self.kind)
        self.charged_kind_of = view(self.charged_kind)
        self.layout_of = view(self.layout)
        self.tally_of = views(self.tally)
        self._count_of = views(self._counts)
        self.usage_of = views(self.usage)
        self.fixed_of = views(self.fixed)

    # -- facts ------------------------------------------------------------------------------

    def set_nodes(self, changes: Iterable[Node], gone: Iterable[str] = ()) -> Ints | None:
        """Take nodes in, change or drop them; return the new row of every old one if they moved.

        A dropped node keeps its row, closed, until rows are renumbered for another reason. While a
        node is in use, the flavor that it is charged as and the memory of the devices in use stay.
        """
        changes = list(changes)
        moved = None
        if not all(self._in_place(node) for node in changes):
            moved = self._renumber(changes)
        changes += [self._emptied(name) for name in gone]
        alike: dict[tuple[Any, ...], list[int]] = {}
        for node in changes:
            row = self.row_of[node.name]
            self.nodes[row] = node
            labels = node.labels if self.named_flavors else ()
            key = (node.capacity, node.devices, node.gpu_model, labels)
            alike.setdefault(key, []).append(row)
        for rows in alike.values():
            self._set_facts(np.array(rows, INT), self.nodes[rows[0]])
        for name in gone:
            self.present[self.row_of[name]] = False
        self.widest = int(self.devices.max(initial=0))
        self.epoch += 1
        return moved

    def _emptied(self, name: str) -> Node:
        old = self.nodes[self.row_of[name]]
        return Node(name, gpu_model=old.gpu_model, ready=False, path=old.path)

    def _in_place(self, node: Node) -> bool:
        row = self.row_of.get(node.name)
        if row is None or self.nodes[row].path != node.path:
            return False
        return len(node.devices) <= len(self.share)

    def _renumber(self, changes: list[Node]) -> Ints:
        """Lay the columns anew for another set of rows; return where the old ones are now."""
        # A row that still carries use or a hold must stay, even if its node is gone.
        held = {entry[1] for entries in self.holds.values() for entry in entries}
        merged = {
            node.name: node
            for row, node in enumerate(self.nodes)
            if self.present[row] or self.used_of[-1][row] or row in held
        }
        merged.update({node.name: node for node in changes})
        nodes = list(merged.values())
        for node in nodes:
            for name, _ in node.capacity:
                self._add_resource(name)
        old_row, old = self.row_of, {name: getattr(self, name) for name in _NODE_COLUMNS}
        old_used = self.used[-1]
        tree = Tree(self.topology, nodes)
        self._allocate(tree, [nodes[i] for i in tree.order])
        source = [row for name, row in old_row.items() if name in self.row_of]
        target = [self.row_of[name] for name in old_row if name in self.row_of]
        for name, column in old.items():
            new = getattr(self, name)
            if column.ndim == 1:
                new[target] = column[source]
            else:
                new[: len(column), target] = column[:, source]
        self.used[-1][target] = old_used[source]
        for level in range(tree.leaf_level):
            self.used[level][:] = tree.sums(level, self.used[-1])
        self.tally = [_moved(column, source, target, self.count) for column in self.tally]
        self._counts = [_moved(column, source, target, self.count) for column in self._counts]
        moved = np.full(len(old_row), -1, INT)
        moved[source] = target
        self.holds = {
            owner: [(entry[0], int(moved[entry[1]]), *entry[2:]) for entry in entries]
            for owner, entries in self.holds.items()
        }
        self._bind_views()
        return moved

    def _set_facts(self, rows: Ints, sample: Node) -> None:
        """Make the rows say what `sample` says; what is in use stays in use."""
        for name, _ in sample.capacity:
            self._add_resource(name)
        capacity = np.zeros(len(self.order), INT)
        for r, name in enumerate(self.order.names):
            capacity[r] = of_ports(name)
        capacity[PODS_ROW] = UNLIMITED
        for name, amount in sample.capacity:
            capacity[self.order.row(name)] = amount
        capacity[GPU_ROW] = 0  # devices count themselves, below
        self.open[:, rows] += capacity[:, None] - self.capacity[:, rows]
        self.capacity[:, rows] = capacity[:, None]
        if sample.gpu_model not in self.flavors:
            self.flavors.append(sample.gpu_model)
        self.flavor[rows] = self.flavors.index(sample.gpu_model)
        self.kind[rows] = self._kind(sample)
        unused = rows[self.used[-1][rows] == 0]
        self.charged_kind[unused] = self.kind[unused]
        self._set_devices(rows, sample)
        self.present[rows] = True
        self.touched.extend(rows.tolist())
        self.log_end += len(rows)

    def _kind(self, node: Node) -> int:
        """Return the kind of a node: the named flavors that it has, or else its GPU model."""
        names = flavors_of(node, self.named_flavors)
        if self.plain_anywhere:
            models = {other.gpu_model for other in self.nodes}
            names = _with_plain(node, self.named_flavors, models)
        if names not in self.kinds:
            self.kinds.append(names)
        return self.kinds.index(names)

    def kinds_there(self) -> list[int]:
        """Return the kinds of the nodes that are there, by name."""
        if self._there[0] != self.epoch:
            found = np.unique(self.kind[self.present]).tolist()
            self._there = (self.epoch, sorted(found, key=self.kinds.__getitem__))
        return self._there[1]

    def name_flavors(self, flavors: tuple[Flavor, ...], *, plain_anywhere: bool = False) -> None:
        """Let these flavors have names; what is charged already stays charged as it is.

        Flavors without labels may be those of all nodes, beside their GPU model.
        """
        self.named_flavors = flavors
        self.plain_anywhere = plain_anywhere
        for row, node in enumerate(self.nodes):
            self.kind[row] = self._kind(node)
        unused = self.used[-1] == 0
        self.charged_kind[unused] = self.kind[unused]
        self._bills.clear()
        self.epoch += 1

    def has_flavor(self, code: int) -> Bools:
        """Return the nodes that a code stands for: those of a kind, or those of an assignment."""
        if code >= 0:
            same: Bools = self.kind == code
            return same
        names = {flavor for _, flavor in self.assignments[FIRST_ASSIGNMENT - code]}
        fitting = [i for i, kind in enumerate(self.kinds) if names.issubset(kind)]
        found: Bools = np.isin(self.kind, fitting)
        return found

    def flavor_name(self, code: int) -> str:
        """Return a code in words: the flavor, or `resource=flavor` for each resource."""
        if code >= 0:
            return self.kinds[code][0]
        given = self.assignments[FIRST_ASSIGNMENT - code]
        names = dict.fromkeys(flavor for _, flavor in given)
        if len(names) == 1:
            return next(iter(names))
        return ",".join(f"{resource}={flavor}" for resource, flavor in given)

    def assignment(self, given: Assignment) -> int:
        """Return the code of an assignment."""
        if given not in self.assignments:
            self.assignments.append(given)
        return FIRST_ASSIGNMENT - self.assignments.index(given)

    def _set_devices(self, rows: Ints, sample: Node) -> None:
        self.whole[rows] = 0
        for d in range(len(self.share)):
            device = sample.devices[d] if d < len(sample.devices) else None
            fit = device is not None and device.healthy and not device.mig
            self.sound[d, rows] = fit
            usable = fit & (self.mig_used[d, rows] == 0)  # slices may outlive the MIG mode
            unused = rows[self.share[d, rows] == WHOLE * self.usable[d, rows]]
            self.device_memory[d, unused] = device.memory if device else 0
            changed = self.usable[d, rows] != usable
            self.share[d, rows] += (changed * np.where(usable, WHOLE, -WHOLE)).astype(np.int16)
            self.usable[d, rows] = usable
            self.whole[rows] |= (self.share[d, rows] == WHOLE) * (1 << d)
        self.devices[rows] = self.usable[:, rows].sum(axis=0)
        self.capacity[GPU_ROW, rows] = self.sound[:, rows].sum(axis=0)  # whatever runs
        self.open[GPU_ROW, rows] = (self.share[:, rows] == WHOLE).sum(axis=0)
        layout = tuple((d.island, d.switch, d.numa, d.nic, d.mig) for d in sample.devices)
        if layout not in self.layouts:
            self.layouts.append(layout)
        self.layout[rows] = self.layouts.index(layout)

    def _add_resource(self, name: str) -> None:
        if name in self.order:
            return
        self.order.add(name)
        self._fit_resources()

    def _fit_resources(self) -> None:
        """Give every resource of the order a row; every node has all ports."""
        missing = len(self.order) - len(self.open)
        if not missing:
            return
        rows = np.zeros((missing, self.count), INT)
        for i, name in enumerate(self.order.names[-missing:]):
            rows[i] = of_ports(name)
        self.capacity = np.vstack([self.capacity, rows])
        self.open = np.vstack([self.open, rows])
        self.held = np.vstack([self.held, np.zeros_like(rows)])
        self.releasing = np.vstack([self.releasing, np.zeros_like(rows)])
        self._bind_views()

    # -- shapes, queues, counters -----------------------------------------------------------

    def demand(self, shape: Shape) -> Demand:
        """Return `shape` as the books count it; equal shapes give the same object."""
        known = self._demand_of.get(shape)
        if known is not None:
            return known
        demand = compile_demand(len(self.demands), shape, self.order)
        self._fit_resources()
        self.demands.append(demand)
        self._counters_of.append(tuple(i for i, m in enumerate(self._matches) if m(shape)))
        self._demand_of[shape] = demand
        self.tally.append(np.zeros(self.count, np.int32))
        self.tally_of.append(view(self.tally[-1]))
        return demand

    def queue(self, name: str) -> int:
        """Return the index of a queue."""
        index = self._queue_of.get(name)
        if index is None:
            index = self._queue_of[name] = len(self.queues)
            self.queues.append(name)
        return index

    def keep_usage(
        self,
        paths: list[tuple[int, ...]],
        pairs: list[tuple[str, str]],
        choices: list[dict[str, tuple[str, ...]]],
    ) -> None:
        """Keep the use of these pairs, per queue and all queues on the path above it.

        `choices` says, per queue and resource, which flavors it is charged to, in order.
        """
        self._paths, self.pairs, self._choices = paths, pairs, choices
        self._bills.clear()
        self.usage = np.zeros((len(paths), len(pairs)), INT)
        self.fixed = np.zeros((len(paths), len(pairs)), INT)
        self.usage_of, self.fixed_of = views(self.usage), views(self.fixed)
        for (account, flavor, number), count in self._charges.items():
            self._use(self.demands[number], count, account, flavor)

    def charge_parts(self, memory_of_kind: dict[int, int] | None) -> None:
        """Charge what is asked by memory as a part of such devices, in hundredths.

        The key is the kind of the nodes, or `BY_NODE` where that is not known. A MIG instance is
        then charged as many devices as it has compute slices. None: both as whole devices.
        """
        if memory_of_kind != self._memory_of_kind:
            self._memory_of_kind = memory_of_kind
            self.keep_usage(self._paths, self.pairs, self._choices)

    def _charged_milli(self, demand: Demand, flavor: int) -> int:
        """Return the thousandths of devices that one task is charged."""
        known, shape = self._memory_of_kind, demand.shape
        if known is None or demand.kind not in (DeviceKind.MEMORY, DeviceKind.MIG):
            return demand.weight - 1
        if demand.kind is DeviceKind.MIG:
            return shape.gpus * WHOLE * max(1, compute_slices(shape.mig))
        memory = known.get(flavor, known.get(BY_NODE, 0))
        if not memory:
            return demand.weight - 1
        return shape.gpus * min(WHOLE, -(-shape.gpu_memory * 100 // memory) * (WHOLE // 100))

    def bill(self, demand: Demand, account: int, flavor: int) -> Bill:
        """Return what one task is charged: (pair, amount), for the pairs that are kept."""
        key = (demand.index, account >> 1, flavor)
        known = self._bills.get(key)
        if known is None:
            known = self._bills[key] = self._new_bill(demand, account >> 1, flavor)
        return known

    def _new_bill(self, demand: Demand, queue: int, flavor: int) -> Bill:
        price = {named.name: named.price for named in self.named_flavors}
        found: dict[int, int] = {}
        for r, amount in (*demand.pairs, (GPU_ROW, self._charged_milli(demand, flavor))):
            resource = self.order.names[r]
            name = self._charged_as(queue, resource, flavor)
            for column, (of, what) in enumerate(self.pairs):
                if what != resource or not amount:
                    continue
                if of == ANY_FLAVOR_NAME:
                    worth = price.get(name or "", 1.0) if r == GPU_ROW else 1.0
                    found[column] = round(amount * worth)
                elif of == name:
                    found[column] = amount
        return tuple(found.items())

    def _charged_as(self, queue: int, resource: str, flavor: int) -> str | None:
        """Return the flavor that a resource is charged to; None: it is not known."""
        if flavor == BY_NODE:
            return None
        if flavor <= FIRST_ASSIGNMENT:
            return dict(self.assignments[FIRST_ASSIGNMENT - flavor]).get(resource)
        kind = self.kinds[flavor]
        choices = self._choices[queue].get(resource, ()) if queue < len(self._choices) else ()
        return next((name for name in choices if name in kind), kind[0])

    def counter(self, key: str, match: Callable[[Shape], bool]) -> Counts:
        """Return how many tasks on each node have a shape that matches; kept up from now on."""
        index = self._counters.get(key)
        if index is None:
            index = self._counters[key] = len(self._counts)
            self._matches.append(match)
            self._counts.append(np.zeros(self.count, np.int32))
            self._count_of.append(view(self._counts[-1]))
            for demand in self.demands:
                if match(demand.shape):
                    self._counters_of[demand.index] += (index,)
                    self._counts[index] += self.tally[demand.index]
        return self._counts[index]

    # -- changes ----------------------------------------------------------------------------

    # wide: what a task is, where it is and who pays
    def take(
        self,
        demand: Demand,
        rows: Sequence[int],
        devices: Sequence[int],
        account: int,
        flavor: int = BY_NODE,
    ) -> None:
        """Book tasks: task i on `rows[i]` with `devices[i]`, charged to the account."""
        self._do(self._take, 1, demand, rows, devices, account, flavor)

    # wide: what a task is, where it is and who pays
    def give(
        self,
        demand: Demand,
        rows: Sequence[int],
        devices: Sequence[int],
        account: int,
        flavor: int = BY_NODE,
    ) -> None:
        """Take back what `take` booked."""
        self._do(self._take, -1, demand, rows, devices, account, flavor)

    def begin_release(
        self, demand: Demand, rows: Sequence[int], account: int = 0, flavor: int = BY_NODE
    ) -> None:
        """Move what tasks use to releasing, for which nobody is charged.

        `end_release` must come before `give`.
        """
        self._do(self._release, 1, demand, rows, account, flavor)

    def end_release(
        self, demand: Demand, rows: Sequence[int], account: int = 0, flavor: int = BY_NODE
    ) -> None:
        """Move what `begin_release` moved back to used."""
        self._do(self._release, -1, demand, rows, account, flavor)

    def depart(self, demand: Demand, row: int, devices: int) -> None:
        """Take out a task for which `begin_release` was called: nobody is charged for it."""
        self._do(self._depart, 1, demand, row, devices)

    # wide: what a task is, where it will be and who pays
    def hold(
        self,
        owner: str,
        demand: Demand,
        row: int,
        devices: int,
        account: int = 0,
        flavor: int = BY_NODE,
    ) -> None:
        """Keep free or releasing room for one task of the workload `owner`, which is charged."""
        flavor = self.kind_of[row] if flavor == BY_NODE else flavor
        self._do(self._hold, 1, owner, demand, row, devices, account, flavor)

    def unhold(self, owner: str) -> None:
        """Open all that is held for `owner`."""
        for entry in reversed(self.holds.get(owner, ())):
            self._do(self._hold, -1, owner, *entry)

    def charge(self, demand: Demand, count: int, account: int, flavor: int) -> None:
        """Charge (or, negative, refund) an account for tasks whose place is not known."""
        self._do(self._charge, 1, demand, count, account, flavor)

    def miss(self, spot: tuple[str, str, int], count: int) -> None:
        """Note that a (workload, group, task) is taken out, or put back, while that is tried."""
        self._do(self._miss, 1, spot, count)

    def lend(self, kind: int, leave_s: float, devices: int) -> None:
        """Note (or, negative, take back) that work on devices would leave them so soon."""
        self._do(self._lend, 1, kind, leave_s, devices)

    def devices_charged(self) -> dict[tuple[int, int], int]:
        """Return thousandths of devices that are charged, by queue and code of the flavor."""
        total: dict[tuple[int, int], int] = {}
        for (account, flavor, number), count in self._charges.items():
            if count:
                key = (account >> 1, flavor)
                total[key] = total.get(key, 0) + (self.demands[number].weight - 1) * count
        return total

    def charged(self, queue: str) -> dict[tuple[str, str], int]:
        """Return what a queue is charged, by (flavor, resource); devices in thousandths."""
        index = self.queue(queue)
        total: dict[tuple[str, str], int] = {}
        for (account, flavor, number), count in sorted(self._charges.items()):
            if account >> 1 != index or not count:
                continue
            demand = self.demands[number]
            for r, amount in (*demand.pairs, (GPU_ROW, demand.weight - 1)):
                resource = self.order.names[r]
                key = (self._charged_as(index, resource, flavor) or "", resource)
                total[key] = total.get(key, 0) + amount * count
        return {key: amount for key, amount in total.items() if amount}

    def _miss(self, sign: int, spot: tuple[str, str, int], count: int) -> None:
        self.missing[spot] = self.missing.get(spot, 0) + sign * count
        if not self.missing[spot]:
            del self.missing[spot]

    def checkpoint(self) -> int:
        """Return a mark to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Undo everything since `mark`."""
        undo = self._undo
        while len(undo) > mark:
            change, sign, *args = undo.pop()
            change(-sign, *args)

    def commit(self) -> None:
        """Forget how to undo: what was done stays."""
        self._undo.clear()
        if len(self.touched) > LOG_LIMIT:
            self.trimmed = self.log_end
            self.touched = array("i")

    def _do(self, change: Callable[..., None], sign: int, *args: Any) -> None:
        change(sign, *args)
        self._undo.append((change, sign, *args))

    # Each change below is its own inverse with the other sign.

    # wide: what a task is, where it is and who pays
    def _take(
        self,
        sign: int,
        demand: Demand,
        rows: Sequence[int],
        devices: Sequence[int],
        account: int,
        flavor: int,
    ) -> None:
        if len(rows) == 1:
            row = rows[0]
            if not self.used_of[-1][row]:
                self.charged_kind_of[row] = self.kind_of[row]
            self._take_one(sign, demand, row, devices[0])
            charged = self.charged_kind_of[row] if flavor == BY_NODE else flavor
            self._charge(sign, demand, 1, account, charged)
            return
        many = np.asarray(rows, INT)
        unused = many[self.used[-1][many] == 0]
        self.charged_kind[unused] = self.kind[unused]
        if len(rows) >= VECTOR_FROM and demand.kind <= DeviceKind.WHOLE and not self.holds:
            self._take_many(sign, demand, many, np.asarray(devices, INT))
        else:
            for row, mask in zip(rows, devices, strict=True):
                self._take_one(sign, demand, row, mask)
        if len(rows):
            self._charge_rows(sign, demand, many, account, flavor)

    # wide: what tasks are, where they are and who pays
    def _charge_rows(
        self, sign: int, demand: Demand, rows: Ints, account: int, flavor: int
    ) -> None:
        if flavor != BY_NODE or len(self.kinds) == 1:
            charged = self.charged_kind_of[int(rows[0])] if flavor == BY_NODE else flavor
            self._charge(sign, demand, len(rows), account, charged)
            return
        kinds, counts = np.unique(self.charged_kind[rows], return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            self._charge(sign, demand, count, account, kind)

    def _take_one(self, sign: int, demand: Demand, row: int, devices: int) -> None:
        self._put(-sign, demand, row, devices)
        weight = sign * demand.weight
        for used, up in self._used_up:
            used[up[row]] += weight
        number = demand.index
        self.tally_of[number][row] += sign
        for index in self._counters_of[number]:
            self._count_of[index][row] += sign

    def _take_many(self, sign: int, demand: Demand, rows: Ints, devices: Ints) -> None:
        order = np.argsort(rows, kind="stable")
        rows, devices = rows[order], devices[order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.diff(starts, append=len(rows))
        rows = rows[starts]
        for r, amount in demand.pairs:
            self.open[r, rows] -= sign * amount * counts
        if demand.kind is DeviceKind.WHOLE:
            masks = np.bitwise_or.reduceat(devices, starts)
            set_bits = masks[None, :] >> np.arange(len(self.share))[:, None] & 1
            self.share[:, rows] -= (sign * WHOLE * set_bits).astype(np.int16)
            is_whole = self.share[:, rows] == WHOLE
            powers = (1 << np.arange(len(self.share)))[:, None]
            self.whole[rows] = (is_whole * powers).sum(axis=0)
            self.open[GPU_ROW, rows] = is_whole.sum(axis=0)
        weights = sign * demand.weight * counts
        for used, domain in zip(self.used, self.tree.domain, strict=True):
            np.add.at(used, domain[rows], weights)
        added = (sign * counts).astype(np.int32)
        self.tally[demand.index][rows] += added
        for index in self._counters_of[demand.index]:
            self._counts[index][rows] += added
        self.touched.extend(rows.tolist())
        self.log_end += len(rows)

    def _put(self, sign: int, demand: Demand, row: int, devices: int) -> None:
        """Open (1) or close (-1) the room of one task."""
        columns = self.open_of
        for r, amount in demand.pairs:
            columns[r][row] += sign * amount
        kind = demand.kind
        if kind is DeviceKind.MIG:
            for bit in bits(devices):
                self._put_slice(sign, bit >> 3, row, 1 << (bit & 7))
            self._mind_mig_mode(row, {bit >> 3 for bit in bits(devices)})
        elif kind is not DeviceKind.NONE:
            step = sign * (WHOLE if kind is DeviceKind.WHOLE else 0)
            for d in bits(devices):
                share = self.share_of[d]
                change = step or sign * self.milli(demand, row, d)
                before = share[row]
                share[row] = before + change
                if before == WHOLE:
                    self.whole_of[row] ^= 1 << d
                    columns[GPU_ROW][row] -= 1
                elif before + change == WHOLE:
                    self.whole_of[row] ^= 1 << d
                    columns[GPU_ROW][row] += 1
        self.touched.append(row)
        self.log_end += 1

    def _put_slice(self, sign: int, device: int, row: int, bit: int) -> None:
        """Open or close a memory slice; one that is closed twice is in use and kept for another."""
        once, twice = self.mig_of[device], self._mig_twice_of[device]
        if sign > 0:
            some = twice if twice[row] & bit else once
            some[row] &= ~bit & 0xFF
        elif once[row] & bit:
            twice[row] |= bit
        else:
            once[row] |= bit

    def has_devices(self, demand: Demand, row: int, devices: int) -> bool:
        """Return whether one task could have exactly these devices now."""
        there = self.nodes[row].devices
        if demand.kind is DeviceKind.MIG:
            for bit in bits(devices):
                d = bit >> 3
                if d >= len(there) or not there[d].mig or not there[d].healthy:
                    return False
                if self.mig_of[d][row] >> (bit & 7) & 1:
                    return False
            return True
        return all(
            self.share_of[d][row]
            >= (WHOLE if demand.kind is DeviceKind.WHOLE else self.milli(demand, row, d))
            for d in bits(devices)
        )

    def _mind_mig_mode(self, row: int, touched: set[int]) -> None:
        """Close devices that have left MIG mode while instances run there, or open them again."""
        devices = self.nodes[row].devices
        if any(d >= len(devices) or not devices[d].mig for d in touched):
            self._set_devices(np.array([row], INT), self.nodes[row])

    def milli(self, demand: Demand, row: int, device: int) -> int:
        """Return how many thousandths of that device one task takes."""
        shape = demand.shape
        if not shape.gpu_memory:
            return shape.milli
        memory = self.memory_of[device][row]
        if shape.gpu_memory > memory:
            return WHOLE + 1
        return -(-shape.gpu_memory * WHOLE // memory)

    # wide: what tasks are, where they are and who pays
    def _release(
        self, sign: int, demand: Demand, rows: Sequence[int], account: int, flavor: int
    ) -> None:
        if len(rows) == 1:
            row = rows[0]
            for r, amount in demand.pairs:
                self.releasing_of[r][row] += sign * amount
            charged = self.charged_kind_of[row] if flavor == BY_NODE else flavor
            self._charge(-sign, demand, 1, account, charged)
        elif len(rows):
            many = np.asarray(rows, INT)
            for r, amount in demand.pairs:
                np.add.at(self.releasing[r], many, sign * amount)
            self._charge_rows(-sign, demand, many, account, flavor)

    def _depart(self, sign: int, demand: Demand, row: int, devices: int) -> None:
        for r, amount in demand.pairs:
            self.releasing_of[r][row] -= sign * amount
        self._take_one(-sign, demand, row, devices)

    # wide: what a task is, where it will be and who pays
    def _hold(
        self,
        sign: int,
        owner: str,
        demand: Demand,
        row: int,
        devices: int,
        account: int,
        flavor: int,
    ) -> None:
        self._put(-sign, demand, row, devices)
        for r, amount in demand.pairs:
            self.held[r, row] += sign * amount
        entries = self.holds.setdefault(owner, [])
        entry = (demand, row, devices, account, flavor)
        if sign > 0:
            entries.append(entry)
        else:
            entries.remove(entry)
        if not entries:
            del self.holds[owner]
        self._charge(sign, demand, 1, account, flavor)

    def _lend(self, sign: int, kind: int, leave_s: float, devices: int) -> None:
        key = (kind, leave_s)
        total = self.lent.pop(key, 0) + sign * devices
        if total:
            self.lent[key] = total

    # wide: what tasks are and who pays
    def _charge(self, sign: int, demand: Demand, count: int, account: int, flavor: int) -> None:
        key = (account, flavor, demand.index)
        self._charges[key] = self._charges.get(key, 0) + sign * count
        if self.pairs:
            self._use(demand, sign * count, account, flavor)

    def _use(self, demand: Demand, count: int, account: int, flavor: int) -> None:
        """Let a queue and all above it use more or less."""
        queue = account >> 1
        bill = self.bill(demand, account, flavor)
        if queue >= len(self._paths):
            return
        for above in self._paths[queue]:
            row = self.usage_of[above]
            for column, amount in bill:
                row[column] += count * amount
            if account & 1:
                row = self.fixed_of[above]
                for column, amount in bill:
                    row[column] += count * amount

    # -- copies -----------------------------------------------------------------------------

    def copy(self) -> Books:
        """Return books that change on their own from here."""
        new = object.__new__(Books)
        new.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray | list | dict | array):
                new.__dict__[name] = value[:] if isinstance(value, array) else value.copy()
        new.order = self.order.copy()
        new.used = [column.copy() for column in self.used]
        new.tally = [column.copy() for column in self.tally]
        new._counts = [column.copy() for column in self._counts]
        new.holds = {owner: list(entries) for owner, entries in self.holds.items()}
        new._undo = []
        new._bind_views()
        return new


def account_of(queue: int, *, fixed: bool) -> int:
    """Return the account of a queue for work that is preemptible, or (fixed) for what is not."""
    return queue << 1 | fixed


def flavors_of(node: Node, named: Iterable[Flavor]) -> tuple[str, ...]:
    """Return the named flavors that a node has, or else its GPU model."""
    has = set(node.labels)
    names = tuple(
        flavor.name
        for flavor in named
        if (has.issuperset(flavor.labels) if flavor.labels else _is_plain(node, flavor))
    )
    return names or (node.gpu_model,)


def _with_plain(node: Node, named: Iterable[Flavor], models: set[str]) -> tuple[str, ...]:
    """Return the named flavors of a node, also those without labels, and its GPU model."""
    has = set(node.labels)
    names = [
        flavor.name
        for flavor in named
        if (has.issuperset(flavor.labels) if flavor.labels else flavor.name not in models)
        or node.gpu_model == flavor.name
    ]
    own = [node.gpu_model] if node.gpu_model or not names else []
    return tuple(dict.fromkeys([*names, *own]))


def _is_plain(node: Node, flavor: Flavor) -> bool:
    """Return whether a node has a flavor that asks for no labels: by its GPU model, if any."""
    return node.gpu_model in ("", flavor.name)


def _moved(column: Counts, source: list[int], target: list[int], count: int) -> Counts:
    new = np.zeros(count, np.int32)
    new[target] = column[source]
    return new

"""Placements of running workloads, and whether all of them fit on the nodes together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.config.reader import ReadError, nearest
from mooring.config.schema import KEYS
from mooring.config.units import instant, name, whole
from mooring.model import mig
from mooring.model.cluster import WHOLE, Node
from mooring.model.events import Adopted
from mooring.model.resources import GPU, PODS, UNLIMITED, of_ports
from mooring.model.workload import Placement, PodGroup, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.config.reader import Cursor, Fields
    from mooring.model.workload import Workload


@dataclass
class Use:
    """What running tasks use of each node and device."""

    nodes: dict[str, Node | None]
    """None: there is such a node, but it has mistakes of its own."""
    _capacity: dict[str, dict[str, int]] = field(default_factory=dict)
    _used: dict[tuple[str, str], int] = field(default_factory=dict)
    _milli: dict[tuple[str, int], int] = field(default_factory=dict)
    _slices: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, cursor: Cursor, node: Node, shape: Shape) -> None:
        """Count all but the devices of one task; the cursor is where its node is named."""
        capacity = self._capacity.setdefault(node.name, {PODS: UNLIMITED, **dict(node.capacity)})
        for resource, amount in ((PODS, 1), *shape.amounts, *shape.port_amounts):
            has = of_ports(resource) or capacity.get(resource, 0)
            before = self._used.get((node.name, resource), 0)
            self._used[node.name, resource] = before + amount
            if before <= has < before + amount:
                most = "there is" if of_ports(resource) else f"the {has} it has"
                fix = f"run it elsewhere: more {resource} is used there than {most}"
                cursor.wrong(fix)

    def add_share(self, node: Node, device: int, shape: Shape) -> None:
        """Count a whole device, or a part of one."""
        facts, milli = node.devices[device], shape.milli
        if facts.mig:
            raise ReadError(f"give another device: {device} takes MIG profiles only")
        if shape.gpu_memory:
            if shape.gpu_memory > facts.memory:
                raise ReadError(f"give another device: {device} has only {facts.memory}Mi")
            milli = -(-shape.gpu_memory * WHOLE // facts.memory)
        used = self._milli.get((node.name, device), 0) + milli
        self._milli[node.name, device] = used
        if used > WHOLE:
            raise ReadError(
                f"give another device: more of device {device} of {node.name} is used than there is"
            )

    def add_instance(self, node: Node, device: int, start: int, profile: str) -> int:
        """Count a MIG instance; return the memory slices that it covers."""
        geometry = mig.GEOMETRIES.get(node.devices[device].mig)
        starts = mig.starts(geometry, profile) if geometry else ()
        if geometry is None or not starts:
            raise ReadError(f"give another device: {device} has no profile {profile}")
        if start not in starts:
            raise ReadError(f"give a slice where {profile} may begin: {_words(starts)}")
        bits = mig.bits(geometry, profile, start)
        used = self._slices.get((node.name, device), 0)
        self._slices[node.name, device] = used | bits
        if used & bits:
            where = f"device {device} of {node.name}"
            raise ReadError(f"give another slice: part of it is given twice on {where}")
        return bits


def _words(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


TASKS_MOST = 1 << 20
"""Numbers of tasks are below this; after edits they may be above the size of the group."""

Tasks = tuple[str, tuple[int, ...]]


def read_running(fields: Fields, workload: Workload, use: Use) -> Adopted:
    """Read where a running workload is, and what of it is done; nothing: it may be anywhere.

    Fewer tasks than the minimum are a fair moment: a gang may have lost some.
    """
    leaves = {leaf.name: leaf for leaf in workload.leaves()}
    tasks: dict[str, set[int]] = {leaf: set() for leaf in leaves}
    read = [_read_placement(cursor, leaves, tasks, use) for cursor in fields.items("placements")]
    placed = {leaf: set(some) for leaf, some in tasks.items()}
    done = [_read_some(cursor, leaves, tasks, _read_tasks) for cursor in fields.items("finished")]
    due = [_read_some(cursor, leaves, placed, _read_placed) for cursor in fields.items("starting")]
    out = [_read_some(cursor, leaves, placed, _read_placed) for cursor in fields.items("releasing")]
    return Adopted(
        workload,
        tuple(found for found in read if found),
        fields.take("started_at", instant, 0.0),
        tuple(found for found in done if found),
        tuple(found for found in out if found),
        _read_flavors(fields, leaves),
        anywhere="placements" not in fields and "finished" not in fields,
        starting=tuple(found for found in due if found),
        running_since=fields.take("running_since", instant, None),
    )


def _read_flavors(
    fields: Fields, leaves: dict[str, PodGroup]
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Read what a running workload is charged to: a flavor, or one for each resource, by group."""
    if "flavors" not in fields:
        return ()
    at = fields.at("flavors")
    if isinstance(at.value, str):
        flavor = at.take(name, "")
        found = [(leaf, dict.fromkeys(_resources(group), flavor)) for leaf, group in leaves.items()]
    else:
        by_resource = dict(fields.pairs("flavors", _flavor_or_map))
        nested = {key: value for key, value in by_resource.items() if isinstance(value, dict)}
        for key in nested:
            if key not in leaves:
                fields.wrong("flavors", f"give groups of the workload{nearest(key, leaves)}")
        flat = {key: value for key, value in by_resource.items() if isinstance(value, str)}
        found = [
            (leaf, {r: f for r, f in nested.get(leaf, flat).items() if r in _resources(group)})
            for leaf, group in leaves.items()
        ]
    return tuple((leaf, tuple(sorted(each.items()))) for leaf, each in found if each)


def _flavor_or_map(value: object) -> str | dict[str, str]:
    if isinstance(value, dict):
        return {name(key): name(flavor) for key, flavor in value.items()}
    return name(value)


def _resources(group: PodGroup) -> tuple[str, ...]:
    """Return the resources that a group is charged for."""
    shape = group.shape
    amounts = tuple(resource for resource, _ in shape.amounts)
    return (*amounts, PODS, *((GPU,) if shape.gpus else ()))


def _read_group(fields: Fields, leaves: dict[str, PodGroup]) -> PodGroup | None:
    group_name = fields.take("group", name, "main")
    group = leaves.get(group_name)
    if group is None:
        fix = f"give a group of the workload that has tasks{nearest(group_name, leaves)}"
        fields.wrong("group", fix)
    return group


def _read_some(
    cursor: Cursor,
    leaves: dict[str, PodGroup],
    tasks: dict[str, set[int]],
    read: Callable[[Fields, PodGroup, set[int]], tuple[int, ...]],
) -> Tasks | None:
    """Read some tasks of one group."""
    fields = cursor.fields(KEYS["some_tasks"])
    group = _read_group(fields, leaves)
    if group is None:
        return None
    if not fields.items("tasks"):
        fields.wrong("tasks", "give at least one task")
    return group.name, read(fields, group, tasks[group.name])


def _read_placement(
    cursor: Cursor, leaves: dict[str, PodGroup], tasks: dict[str, set[int]], use: Use
) -> Placement | None:
    fields = cursor.fields(KEYS["placement"])
    group = _read_group(fields, leaves)
    if group is None:
        return None
    nodes = fields.items("nodes")
    if not nodes:
        fields.wrong("nodes", "give the node of each task")
    for key in ("tasks", "devices"):
        given = fields.values.get(key)
        if isinstance(given, list) and len(given) != len(nodes):
            fields.wrong(key, f"give as many as there are nodes: {len(nodes)}")
            return None
    return Placement(
        group.name,
        _read_tasks(fields, group, tasks[group.name], len(nodes)),
        tuple(node.take(name, "") for node in nodes),
        _read_use(fields, nodes, group.shape, use),
    )


def _read_placed(fields: Fields, group: PodGroup, placed: set[int]) -> tuple[int, ...]:
    """Read indices of tasks that have a place, each once."""

    def task(value: object) -> int:
        index = whole(0, TASKS_MOST - 1)(value)
        if index not in placed:
            raise ReadError("give a task that one of the placements has, and each once")
        placed.remove(index)
        return index

    return fields.each("tasks", task)


def _read_tasks(
    fields: Fields, group: PodGroup, seen: set[int], node_count: int = 0
) -> tuple[int, ...]:
    """Read the indices of the tasks, each once."""

    def task(value: object) -> int:
        index = whole(0, TASKS_MOST - 1)(value)
        if index in seen:
            raise ReadError("give each task once")
        if len(seen) >= group.most:
            raise ReadError(f"give at most {group.most} tasks: the group has no more")
        seen.add(index)
        return index

    if "tasks" in fields:
        return fields.each("tasks", task)
    indices = range(node_count)
    if node_count > group.most:
        fields.wrong("nodes", f"give at most {group.most} nodes: the group has no more tasks")
    elif seen.intersection(indices):
        fields.wrong("tasks", "give the tasks: without them they are the first ones, placed before")
    seen.update(indices)
    return tuple(indices)


def _read_use(fields: Fields, nodes: list[Cursor], shape: Shape, use: Use) -> tuple[int, ...]:
    """Read the devices of each task as masks, and count all that the tasks use."""
    devices = fields.items("devices")
    masks = [0] * len(nodes)
    for i, cursor in enumerate(nodes):
        if not isinstance(cursor.value, str):
            continue
        if cursor.value not in use.nodes:
            cursor.wrong(f"give a node that exists{nearest(cursor.value, use.nodes)}")
            continue
        node = use.nodes[cursor.value]
        if node is None:
            continue
        use.add(cursor, node, shape)
        if devices:
            masks[i] = _read_mask(devices[i], node, shape, use)
    return tuple(masks)


def _read_mask(cursor: Cursor, node: Node, shape: Shape, use: Use) -> int:
    """Read the devices of one task."""
    items = cursor.items()
    if isinstance(cursor.value, list) and len(items) != shape.gpus:
        cursor.wrong(f"give {shape.gpus} devices: so many each task asks for")
        return 0
    mask = 0

    def device(value: object) -> int:
        nonlocal mask
        if not node.devices:
            raise ReadError(f"give another node: {node.name} has no devices")
        if shape.mig:
            index, start = _pair(value)
            _check_device(index, node)
            return use.add_instance(node, index, start, shape.mig) << 8 * index
        index = whole()(value)
        _check_device(index, node)
        if mask >> index & 1:
            raise ReadError(f"give each device once: device {index} of {node.name} is given twice")
        use.add_share(node, index, shape)
        return 1 << index

    for item in items:
        mask |= item.take(device, 0)
    return mask


def _check_device(index: int, node: Node) -> None:
    if index >= len(node.devices):
        fix = f"give a device of {node.name}: it has {len(node.devices)}, the first is 0"
        raise ReadError(fix)


def _pair(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ReadError("give a pair for MIG: [device, first memory slice]")
    return whole()(value[0]), whole()(value[1])

"""Nodes of a scenario: listed one by one, or generated from a count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from mooring.config.forms import EFFECTS
from mooring.config.reader import Fields
from mooring.config.schema import DEVICES_MOST, KEYS, NODES_MOST
from mooring.config.units import flag, mebibytes, name, one_of, read_amounts, text, whole
from mooring.model.cluster import Device, Node, Taint
from mooring.model.mig import GEOMETRIES
from mooring.model.resources import CPU, MEMORY, PODS, amounts

if TYPE_CHECKING:
    from mooring.config.reader import Cursor

_EACH_DEVICE = ("gpu_memory", "mig")
_SIZES = ("island_size", "switch_size", "numa_size")


@dataclass
class Cluster:
    """The nodes of the file, and what a workload may ask of them."""

    nodes: list[Node] = field(default_factory=list)
    by_name: dict[str, Node | None] = field(default_factory=dict)
    """None: the node is there, but has mistakes."""
    resources: set[str] = field(default_factory=set)
    models: dict[str, None] = field(default_factory=dict)
    """GPU models, in order."""


@dataclass
class _Plan:
    """One entry of the file, before domains are numbered."""

    fields: Fields
    template: Node
    count: int
    per: tuple[int, ...]
    """Nodes per domain of each level, outermost first; empty: the template has the path."""
    is_right: bool


def read_nodes(fields: Fields, levels: tuple[str, ...]) -> Cluster:
    """Read the list at `nodes`."""
    cluster = Cluster()
    plans = [_read_plan(cursor, levels, cluster) for cursor in fields.items("nodes")]
    domains = [0] * len(levels)
    """Per level, how many domains are generated in all; their numbers go on from plan to plan."""
    widths = [
        _digits(sum(-(-plan.count // plan.per[i]) for plan in plans if plan.per))
        for i in range(len(levels))
    ]
    for plan in plans:
        room = NODES_MOST - len(cluster.by_name)
        if plan.count > room:
            plan.fields.wrong("count", f"give fewer nodes: at most {NODES_MOST} in all")
            continue
        _add_nodes(plan, cluster, [_Domains(*d) for d in zip(levels, domains, widths, strict=True)])
        for i, size in enumerate(plan.per):
            domains[i] += -(-plan.count // size)
    return cluster


@dataclass(frozen=True, slots=True)
class _Domains:
    """How the generated domains of a level are named."""

    level: str
    first: int
    width: int

    def name(self, index: int) -> str:
        return f"{self.level}-{self.first + index:0{self.width}}"


def _digits(count: int) -> int:
    """Return how wide numbers below `count` are written: one more than needed, to grow into."""
    return len(str(max(count - 1, 0))) + 1


def _add_nodes(plan: _Plan, cluster: Cluster, domains: list[_Domains]) -> None:
    """Make the nodes of one entry."""
    pattern, is_listed = plan.template.name, "count" not in plan.fields
    if not pattern:
        return
    if not is_listed and plan.count > 1 and "{i}" not in pattern:
        plan.fields.wrong("name", "give a pattern with {i}, which becomes the number of the node")
        return
    width = _digits(plan.count)
    for i in range(plan.count):
        node_name = pattern if is_listed else pattern.replace("{i}", f"{i:0{width}}")
        if node_name in cluster.by_name:
            fix = f"give another name: there is already a node {node_name!r}"
            plan.fields.wrong("name", fix)
            return
        path = plan.template.path
        if plan.per:
            path = tuple(d.name(i // size) for d, size in zip(domains, plan.per, strict=True))
        node = replace(plan.template, name=node_name, path=path)
        cluster.nodes.append(node)
        cluster.by_name[node_name] = node if plan.is_right else None


def _read_plan(cursor: Cursor, levels: tuple[str, ...], cluster: Cluster) -> _Plan:
    """Read one entry of `nodes`."""
    mistakes = len(cursor.notes.mistakes)
    fields = cursor.fields(KEYS["node"])
    is_listed = "count" not in fields
    count = fields.take("count", whole(1, NODES_MOST), 1)
    take_name = fields.need if is_listed else fields.take
    cluster.resources |= _resource_names(fields)
    template = Node(
        take_name("name", name, "" if is_listed else "node-{i}"),
        capacity=_capacity(fields),
        labels=fields.pairs("labels", text),
        taints=tuple(read_taint(item) for item in fields.items("taints")),
        ready=fields.take("ready", flag, True),
        gpu_model=fields.take("gpu_model", name, ""),
        devices=_read_devices(fields),
        path=fields.each("path", text),
    )
    if template.gpu_model:
        cluster.models[template.gpu_model] = None
    per: tuple[int, ...] = ()
    if "per" in fields and is_listed:
        fields.wrong("per", "remove it, or give `count` too: one node has a `path`")
    elif "per" in fields:
        per = _read_per(fields, levels)
    elif len(template.path) != len(levels):
        fix = f"give the name of its domain at each level ({', '.join(levels)})"
        fields.wrong("path", fix if levels else "remove it: the topology has no levels")
    is_right = len(cursor.notes.mistakes) == mistakes
    return _Plan(fields, template, count, per, is_right)


def _capacity(fields: Fields) -> tuple[tuple[str, int], ...]:
    pods = fields.take("pods", whole(1, 1 << 40), 0)
    return amounts({**dict(read_amounts(fields)), PODS: pods})


def _resource_names(fields: Fields) -> set[str]:
    """Return what a node has, even if how much is a mistake."""
    other = fields.values.get("resources")
    names = set(other) if isinstance(other, dict) else set()
    return names | {key for key in (CPU, MEMORY) if key in fields}


def _read_per(fields: Fields, levels: tuple[str, ...]) -> tuple[int, ...]:
    """Read how many nodes each domain of each level has; nothing if there is a mistake."""
    if "path" in fields:
        fields.wrong("path", "remove it: `per` says where the nodes are")
    mistakes = len(fields.cursor.notes.mistakes)
    per = fields.at("per").fields(levels)
    sizes = tuple(per.need(level, whole(1), 1) for level in levels)
    if len(fields.cursor.notes.mistakes) != mistakes:
        return ()
    for outer, inner, level in zip(sizes, sizes[1:], levels, strict=False):
        if outer % inner:
            per.wrong(level, f"give a multiple of {inner}, the nodes of a domain one level below")
    return sizes if len(fields.cursor.notes.mistakes) == mistakes else ()


def read_taint(cursor: Cursor) -> Taint:
    """Read a taint of a node or of a flavor."""
    fields = cursor.fields(KEYS["taint"])
    return Taint(
        fields.need("key", name, ""),
        fields.take("value", text, ""),
        fields.take("effect", one_of(EFFECTS), "NoSchedule"),
    )


def _read_devices(fields: Fields) -> tuple[Device, ...]:
    """Read `gpus` (so many equal ones) or `devices` (one by one)."""
    each = Device(
        memory=fields.take("gpu_memory", mebibytes, 0),
        mig=fields.take("mig", one_of(GEOMETRIES), ""),
    )
    sizes = tuple(fields.take(key, whole(1), DEVICES_MOST) for key in _SIZES)
    if "devices" in fields:
        for key in ("gpus", *_SIZES):
            if key in fields:
                fields.wrong(key, "remove it: `devices` lists the devices one by one")
        cursors = fields.items("devices")
        if len(cursors) > DEVICES_MOST:
            fields.wrong("devices", f"give at most {DEVICES_MOST} devices")
        return tuple(_read_device(item, each) for item in cursors[:DEVICES_MOST])
    if "gpus" not in fields:
        for key in (*_EACH_DEVICE, *_SIZES):
            if key in fields:
                fields.wrong(key, "give `gpus` or `devices` too: the node has none")
    count = fields.take("gpus", whole(0, DEVICES_MOST), 0)
    return equal_devices(count, each, sizes)


@lru_cache(maxsize=256)
def equal_devices(count: int, each: Device, sizes: tuple[int, ...]) -> tuple[Device, ...]:
    """Return devices that differ only in island, switch and NUMA node, so many to each."""
    island, switch, numa = sizes
    return tuple(
        replace(each, island=i // island, switch=i // switch, numa=i // numa) for i in range(count)
    )


def _read_device(cursor: Cursor, each: Device) -> Device:
    fields = cursor.fields(KEYS["device"])
    return Device(
        memory=fields.take("memory", mebibytes, each.memory),
        healthy=fields.take("healthy", flag, True),
        island=fields.take("island", whole(), 0),
        switch=fields.take("switch", whole(), 0),
        numa=fields.take("numa", whole(), 0),
        nic=fields.take("nic", whole(), 0),
        mig=fields.take("mig", one_of(GEOMETRIES), each.mig),
    )

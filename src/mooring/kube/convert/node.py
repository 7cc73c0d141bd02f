"""A node as the engine sees it: what it has, who may use it, and where it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.kube.convert import quantity
from mooring.kube.convert.gpus import DEVICES, INSTANCES, MODEL, told
from mooring.kube.convert.layout import DEVICES_MOST, LAYOUT, lay_out
from mooring.kube.convert.notes import Notes, entry
from mooring.kube.convert.selectors import labels_of
from mooring.model.cluster import Device, Node, Taint
from mooring.model.mig import GEOMETRIES
from mooring.model.resources import GPU, PODS, PORT, PORT_AT, amounts

if TYPE_CHECKING:
    from mooring.kube import objects
    from mooring.kube.problems import Problems
    from mooring.model.mig import Geometry
    from mooring.model.topology import Topology

Levels = tuple[tuple[str, str], ...]
"""(name of the level, node label that names its domains), outermost first."""

CUSTOMARY = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    **{
        name: f"network.topology.nvidia.com/{name}"
        for name in ("datacenter", "core", "spine", "block", "leaf", "accelerator")
    },
}
"""Labels of levels whose topology names none; of any other level it is `OWN` and its name."""
OWN = "topology.mooring.dev/"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PRODUCT, MEMORY_LABEL, COUNT_LABEL = (
    f"nvidia.com/gpu.{word}" for word in ("product", "memory", "count")
)
ALLOCATABLE = "status.allocatable"


def levels_of(topology: Topology) -> Levels:
    """Return the node labels that name the domains of each level of a topology."""
    return tuple(
        (level.name, level.label or CUSTOMARY.get(level.name, OWN + level.name))
        for level in topology.levels
    )


def node(given: objects.Node, levels: Levels = ()) -> Node | Problems:
    """Return a node of the model, or all that cannot be understood of it."""
    notes, metadata = Notes(), given.metadata
    has = _allocatable(given, notes)
    devices = _devices(given, has, notes)
    model = told(metadata, MODEL)[0] or metadata.labels.get(PRODUCT, "")
    plain = {name: amount for name, amount in has.items() if name != DEVICES}
    found = Node(
        metadata.name,
        capacity=amounts(plain),
        labels=labels_of(metadata.labels),
        taints=_taints(given, notes),
        ready=_is_ready(given) and plain.get(PODS, 0) > 0,
        gpu_model=model if devices else "",
        devices=tuple(devices),
        path=_path(metadata, levels),
    )
    return notes.problems() if notes else found


def _is_ready(given: objects.Node) -> bool:
    """Return whether nothing is said against a node; one of which nothing is known is ready."""
    return all(one.status == "True" for one in given.status.conditions if one.type == "Ready")


def _path(metadata: objects.ObjectMeta, levels: Levels) -> tuple[str, ...]:
    """Return the domains of a node.

    Where the labels of the inner levels are missing, nobody knows who is beside it: it is alone.
    """
    named = [metadata.labels.get(label, "") for _, label in levels]
    known = max((i for i, name in enumerate(named) if name), default=-1)
    return tuple(name if i <= known else f"?{metadata.name}" for i, name in enumerate(named))


def _allocatable(given: objects.Node, notes: Notes) -> dict[str, int]:
    """Return what pods may use of a node; left out, that is all it has."""
    found: dict[str, int] = {}
    for name, written in (given.status.allocatable or given.status.capacity).items():
        exact = quantity.parse(written)
        if exact is None or exact < 0:
            notes.wrong(entry(ALLOCATABLE, name), written, quantity.FORM)
        elif name == GPU or name.startswith((PORT, PORT_AT)):
            notes.wrong(entry(ALLOCATABLE, name), written, "give a resource that nodes can have")
        else:
            found[name] = min(quantity.given(name, exact), quantity.MOST)
    return found


def _taints(given: objects.Node, notes: Notes) -> tuple[Taint, ...]:
    found: list[Taint] = []
    for i, one in enumerate(given.spec.taints):
        notes.one_of(f"spec.taints[{i}].effect", one.effect, EFFECTS)
        found.append(Taint(one.key, one.value, one.effect))
    cordoned = Taint(UNSCHEDULABLE, "", EFFECTS[0])
    if given.spec.unschedulable and cordoned not in found:
        found.append(cordoned)
    return tuple(dict.fromkeys(found))


def _devices(given: objects.Node, has: dict[str, int], notes: Notes) -> list[Device]:
    """Return the devices of a node; as many are healthy as may be used."""
    labels = given.metadata.labels
    usable = has.get(DEVICES, 0)
    instances = {
        name.removeprefix(INSTANCES): count
        for name, count in has.items()
        if name.startswith(INSTANCES) and count
    }
    written = given.status.capacity.get(DEVICES, 0)
    there = max(usable, _count(written, "status.capacity", notes))
    listed = _label_number(labels, COUNT_LABEL, notes)
    memory = _label_number(labels, MEMORY_LABEL, notes)
    geometry = _geometry(instances, memory, labels, notes) if instances else None
    if geometry is not None:
        cut = max(listed - there, _fewest(geometry, instances))
    else:
        cut = 0
        there = max(there, 0 if instances else listed)
    if there + cut > DEVICES_MOST:
        fix = f"give fewer: at most {DEVICES_MOST} devices of a node are counted"
        notes.wrong(entry(ALLOCATABLE, DEVICES), there + cut, fix)
        return []
    devices = [Device(memory) for _ in range(there)]
    if geometry is not None:
        devices += [Device(memory, mig=geometry.name)] * cut
    layout, field = told(given.metadata, LAYOUT)
    if layout is not None:
        devices = lay_out(devices, layout, field, notes)
    return _without_surplus(devices, usable)


def _without_surplus(devices: list[Device], usable: int) -> list[Device]:
    """Return devices of which no more that are whole are healthy than may be used.

    Nobody says which one went bad: the last ones, so that none is given that may not be there.
    """
    healthy = [i for i, device in enumerate(devices) if device.healthy and not device.mig]
    for i in healthy[usable:]:
        devices[i] = replace(devices[i], healthy=False)
    return devices


def _count(written: objects.Quantity, field: str, notes: Notes) -> int:
    exact = quantity.parse(written)
    if exact is None or exact < 0:
        notes.wrong(entry(field, DEVICES), written, quantity.FORM)
        return 0
    return min(quantity.given(DEVICES, exact), quantity.MOST)


def _label_number(labels: objects.Texts, key: str, notes: Notes) -> int:
    """Return the number in a label; 0: there is none."""
    word = labels.get(key, "0")
    if word.isascii() and word.isdigit() and len(word) < 10:
        return int(word)
    notes.wrong(entry("metadata.labels", key), word, "give a whole number")
    return 0


def _geometry(
    instances: dict[str, int], memory: int, labels: objects.Texts, notes: Notes
) -> Geometry | None:
    """Return the geometry that has all these profiles: called as the product, of its memory."""
    product = labels.get(PRODUCT, "").lower()
    known = [one for one in GEOMETRIES.values() if set(instances) <= set(one.profiles)]
    if known:
        return min(known, key=lambda one: (_name(one) not in product, _is_off(one, memory)))
    for profile, count in instances.items():
        fix = "cut the devices into profiles that are known, of one kind of device"
        notes.wrong(entry(ALLOCATABLE, INSTANCES + profile), count, fix)
    return None


def _name(geometry: Geometry) -> str:
    return geometry.name.partition("-")[0]


def _is_off(geometry: Geometry, memory: int) -> int:
    """Return by how much the memory of a device differs from that of a geometry, in MiB."""
    size = int(geometry.name.partition("-")[2].removesuffix("gb"))
    return abs(size * 1024 - memory)


def _fewest(geometry: Geometry, instances: dict[str, int]) -> int:
    """Return the fewest devices that could have so many instances."""
    known = [(geometry.profiles[name], count) for name, count in instances.items()]
    slices = sum(profile.width * count for profile, count in known)
    compute = sum(profile.compute * count for profile, count in known)
    return max(-(-slices // geometry.slices), -(-compute // geometry.compute))

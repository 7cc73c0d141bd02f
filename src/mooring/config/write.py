"""Scenarios as text: what `read_scenario` reads back as the same value.

Only what differs from its default is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.config.emit import emit
from mooring.config.nodes import equal_devices
from mooring.config.schema import DEVICES_MOST
from mooring.config.units import NEVER_WORD, say_cores, say_duration, say_mebibytes
from mooring.config.workloads import ONLY_GROUP
from mooring.config.write_policy import Data, policy_data, queue_data, topology_data
from mooring.model import mig
from mooring.model.cluster import WHOLE, Device, Node
from mooring.model.codec import encode
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.resources import CPU, MEMORY, PODS
from mooring.model.topology import Topology
from mooring.model.workload import Placement, PodGroup, Shape, TopologyRequest, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.model.events import Adopted
    from mooring.model.memory import Memory, TaskType
    from mooring.model.resources import Amounts
    from mooring.model.scenario import Scenario
    from mooring.model.workload import SpreadTerm, TaskTerm


def dump_scenario(scenario: Scenario) -> str:
    """Return the scenario as YAML."""
    nodes = {node.name: node for node in scenario.nodes}
    data: Data = {"now": scenario.now}
    if scenario.topology != Topology():
        data["topology"] = topology_data(scenario.topology)
    data["nodes"] = [_node(node) for node in scenario.nodes]
    if scenario.queues != (DEFAULT_QUEUE,):
        data["queues"] = [queue_data(queue) for queue in scenario.queues]
    data["policy"] = policy_data(scenario.policy)
    classes = dict(scenario.policy.priority_classes)
    data["workloads"] = [
        *(_adopted(adopted, nodes, classes) for adopted in scenario.running),
        *(_workload(workload, classes) for workload in scenario.waiting),
    ]
    data["memory"] = _memory(scenario.memory)
    written = {key: value for key, value in data.items() if value or key in ("now", "queues")}
    return emit(written)


def _sparse(**data: object) -> Data:
    """Return what is not nothing."""
    return {key: value for key, value in data.items() if value or value is False}


def _amounts(amounts: Amounts) -> Data:
    given = dict(amounts)
    named = _sparse(
        cpu=say_cores(given.pop(CPU, 0)),
        memory=say_mebibytes(given.pop(MEMORY, 0)),
        pods=given.pop(PODS, 0),
    )
    return {**named, **_sparse(resources=given)}


def _node(node: Node) -> Data:
    return {
        "name": node.name,
        **_sparse(path=list(node.path)),
        **_amounts(node.capacity),
        **_devices(node.devices),
        **_sparse(
            gpu_model=node.gpu_model,
            labels=dict(node.labels),
            taints=[encode(taint) for taint in node.taints],
        ),
        **({} if node.ready else {"ready": False}),
    }


def _devices(devices: tuple[Device, ...]) -> Data:
    """Return devices as a number and sizes if that says it all, else one by one."""
    if not devices:
        return {}
    first = devices[0]
    sizes = {
        "island_size": _run_length([device.island for device in devices]),
        "switch_size": _run_length([device.switch for device in devices]),
        "numa_size": _run_length([device.numa for device in devices]),
    }
    each = Device(memory=first.memory, mig=first.mig)
    if devices != equal_devices(len(devices), each, tuple(sizes.values())):
        return {"devices": [_device(device) for device in devices]}
    needed = {key: size for key, size in sizes.items() if size < len(devices)}
    memory = _sparse(gpu_memory=say_mebibytes(first.memory), mig=first.mig)
    return {"gpus": len(devices), **memory, **needed}


def _run_length(values: list[int]) -> int:
    """Return how many values from the start are equal."""
    return next((i for i, value in enumerate(values) if value != values[0]), DEVICES_MOST)


def _device(device: Device) -> Data:
    data: Data = dict(encode(device))
    if device.memory:
        data["memory"] = say_mebibytes(device.memory)
    return data


def _adopted(adopted: Adopted, nodes: dict[str, Node], classes: Mapping[str, int]) -> Data:
    shapes = {leaf.name: leaf.shape for leaf in adopted.workload.leaves()}
    placements = [_placement(p, shapes.get(p.group, Shape()), nodes) for p in adopted.placements]
    is_charge = not (adopted.anywhere or placements or adopted.finished)
    since = adopted.running_since
    return {
        **_workload(adopted.workload, classes),
        "running": True,
        **({"placements": []} if is_charge else {}),
        **({} if since is None else {"running_since": since}),
        **_sparse(
            started_at=adopted.started_at,
            placements=placements,
            finished=_some_tasks(adopted.finished),
            starting=_some_tasks(adopted.starting),
            releasing=_some_tasks(adopted.releasing),
            flavors={group: dict(flavors) for group, flavors in adopted.flavors},
        ),
    }


def _some_tasks(groups: Iterable[tuple[str, tuple[int, ...]]]) -> list[Data]:
    return [{"group": group, "tasks": list(tasks)} for group, tasks in groups]


def _placement(placement: Placement, shape: Shape, nodes: dict[str, Node]) -> Data:
    task_count = len(placement.nodes)
    devices = [
        _mig_pairs(mask, shape.mig, nodes.get(node)) if shape.mig else _bits(mask)
        for mask, node in zip(placement.devices, placement.nodes, strict=True)
    ]
    is_first = placement.tasks == tuple(range(task_count))
    return {
        "group": placement.group,
        **({} if is_first else {"tasks": list(placement.tasks)}),
        "nodes": list(placement.nodes),
        **({"devices": devices} if any(devices) else {}),
    }


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _mig_pairs(mask: int, profile: str, node: Node | None) -> list[list[int]]:
    """Return [device, first memory slice] of every instance in the mask."""
    pairs = []
    while mask:
        low = (mask & -mask).bit_length() - 1
        device, start = divmod(low, 8)
        devices = node.devices if node else ()
        geometry = mig.GEOMETRIES.get(devices[device].mig) if device < len(devices) else None
        known = geometry.profiles.get(profile) if geometry else None
        width = known.width if known else 1
        mask &= ~((1 << width) - 1 << low)
        pairs.append([device, start])
    return pairs


def _workload(workload: Workload, classes: Mapping[str, int]) -> Data:
    data: Data = {"name": workload.name}
    if workload.queue != "default":
        data["queue"] = workload.queue
    if workload.priority_class in classes:
        data["priority_class"] = workload.priority_class
    else:
        data |= _sparse(priority=workload.priority)
    data |= _sparse(
        namespace=workload.namespace, user=workload.user, submitted_at=workload.submitted_at
    )
    flags = {
        **({"service": True} if workload.service else {}),
        **({} if workload.preemptible else {"preemptible": False}),
        **({"semi_preemptible": True} if workload.semi_preemptible else {}),
        **({} if workload.active else {"active": False}),
    }
    data |= {**flags, **_times(workload)}
    groups = workload.groups
    is_single = len(groups) == 1 and groups[0].name == ONLY_GROUP and not groups[0].groups
    if is_single and workload.topology == TopologyRequest():
        return {**data, **_leaf(groups[0])}
    return {**data, **_topology(workload.topology), "groups": [_group(group) for group in groups]}


def _times(workload: Workload) -> Data:
    durations = {
        "run_limit": workload.run_limit_s,
        "estimate": workload.estimate_s,
        "minimum_run": workload.minimum_run_s or None,
        "restart_cost": workload.restart_cost_s,
        "preemption_delay": workload.preemption_delay_s or None,
        "leave": workload.leave_s,
        "checkpoint_every": workload.checkpoint_every_s,
    }
    instants = {"checkpoint_at": workload.checkpoint_at, "deadline_at": workload.deadline_at}
    data: Data = {k: say_duration(value) for k, value in durations.items() if value is not None}
    data |= {key: value for key, value in instants.items() if value is not None}
    if workload.grace_s is not None:
        data["grace"] = NEVER_WORD if workload.grace_s < 0 else say_duration(workload.grace_s)
    return data


def _group(group: PodGroup) -> Data:
    if not group.groups:
        return {"name": group.name, **_leaf(group)}
    inner = [_group(one) for one in group.groups]
    asked = {**_topology(group.topology), **_sparse(needed=group.needed)}
    return {"name": group.name, **asked, "groups": inner}


def _leaf(group: PodGroup) -> Data:
    counts = {"min": group.min, "max": group.max} if group.max else {"tasks": group.min}
    partial = _sparse(partial=group.partial)
    return {**counts, **partial, **_shape(group.shape), **_topology(group.topology)}


def _topology(topology: TopologyRequest) -> Data:
    return _sparse(
        required=topology.required,
        preferred=topology.preferred,
        slices=[encode(one) for one in topology.slices],
        volume=say_mebibytes(topology.volume),
    )


def _shape(shape: Shape) -> Data:
    return {
        **_amounts(shape.amounts),
        **_sparse(gpus=shape.gpus, milli=shape.milli if shape.milli != WHOLE else 0),
        **_sparse(
            gpu_memory=say_mebibytes(shape.gpu_memory),
            mig=shape.mig,
            gpu_models=list(shape.gpu_models),
            selector=dict(shape.selector),
            affinity=[[encode(clause) for clause in one] for one in shape.affinity],
            preferences=[encode(preference) for preference in shape.preferences],
            tolerations=[encode(toleration) for toleration in shape.tolerations],
            labels=dict(shape.labels),
            near=_terms(shape.near),
            apart=_terms(shape.apart),
            spread=_terms(shape.spread),
            ports=list(shape.ports),
            host_ports=[encode(port) for port in shape.host_ports],
        ),
    }


def _terms(terms: Iterable[TaskTerm | SpreadTerm]) -> list[Data]:
    return [{**encode(term), "labels": dict(term.labels)} for term in terms]


def _memory(memory: Memory) -> Data:
    """Return the memory as in the journal, all but the mix; a new field needs nothing here."""
    data: Data = dict(encode(memory))
    if memory.mix:
        data["mix"] = [_task_type(kind, count) for kind, count in memory.mix]
    return data


def _task_type(kind: TaskType, count: float) -> Data:
    return {
        "count": count,
        **_amounts(kind.amounts),
        **_sparse(gpus=kind.gpus),
        "milli": kind.milli,
        **_sparse(gpu_models=list(kind.gpu_models)),
    }

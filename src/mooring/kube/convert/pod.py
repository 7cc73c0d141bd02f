"""A pod as the engine sees it: a shape, a priority, and whether it waits at a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from mooring.kube.convert.gpus import MARKS, read_gpus
from mooring.kube.convert.notes import Notes
from mooring.kube.convert.requests import ALWAYS, total_requests
from mooring.kube.convert.selectors import (
    NAMESPACE,
    is_whole,
    labels_of,
    preferred_nodes,
    required_nodes,
)
from mooring.kube.convert.terms import Reader
from mooring.model.workload import HostPort, Shape, Toleration
from mooring.policy.placing.constraints import TOLERATION_OPERATORS

if TYPE_CHECKING:
    from mooring.kube.objects import Pod, Volume
    from mooring.kube.problems import Problems
    from mooring.model.cluster import Labels
    from mooring.model.workload import SpreadTerm, TaskTerm

PER_POD = frozenset(
    (
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "controller-revision-hash",
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-group-index",
        "jobset.sigs.k8s.io/job-key",
        "jobset.sigs.k8s.io/jobset-uid",
        "jobset.sigs.k8s.io/restart-attempt",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
        "leaderworkerset.sigs.k8s.io/subgroup-index",
        "leaderworkerset.sigs.k8s.io/subgroup-key",
        "training.kubeflow.org/replica-index",
    )
)
"""Labels that differ between pods of one template, or say which run it is: they would make a shape
of every pod. They are left out unless a term of the pod itself names them, whatever others do."""
PROTOCOLS = ("", "TCP", "UDP", "SCTP")
EVERYWHERE = ("", "0.0.0.0")
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
POLICIES = ("", "PreemptLowerPriority", "Never")
PORT_MOST = 65_535
PRIORITY_MOST = (1 << 31) - 1
_encode = msgspec.msgpack.Encoder().encode
NOT_YET = "use none of these with this scheduler: they are not supported yet"


@dataclass(frozen=True, slots=True)
class Around:
    """What must be known besides the pod itself to understand it."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of every namespace."""
    keys: frozenset[str] | None = None
    """Labels that some term names (see `seen_keys`): a shape has no others; None: all."""


_KNOWN: dict[tuple[bytes, Labels], Shape | Problems] = {}
"""What was found for pods that ask for the same: those of one template do."""
_KNOWN_MOST = 1 << 14


def shape(pod: Pod, around: Around | None = None) -> Shape | Problems:
    """Return what a pod asks for and where it may go, or all that cannot be understood of it."""
    around = around or Around()
    template = None if _looks_at_others(pod) else _template(pod)
    if template is None:
        return _shape(pod, around)
    key = template, _labels(pod, around, set())
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= _KNOWN_MOST:
            _KNOWN.clear()
        found = _KNOWN[key] = _shape(pod, around)
    return found


def _looks_at_others(pod: Pod) -> bool:
    """Return whether it depends on other pods, or on namespaces, where a pod may go."""
    spec, affinity = pod.spec, pod.spec.affinity
    return bool(
        spec.topology_spread_constraints
        or (affinity and (affinity.pod_affinity or affinity.pod_anti_affinity))
    )


def _template(pod: Pod) -> bytes | None:
    """Return all that a shape is made of, but labels and what is said of others; None: too odd."""
    spec, meta = pod.spec, pod.metadata
    if spec.node_name:
        spec = msgspec.structs.replace(spec, node_name="")
    marks = [texts.get(key) for texts in (meta.annotations, meta.labels) for key in MARKS]
    try:
        return _encode((spec, marks))
    except (OverflowError, UnicodeEncodeError):
        return None


def _shape(pod: Pod, around: Around) -> Shape | Problems:
    notes = Notes()
    _check(pod, notes)
    amounts, gpus = read_gpus(pod, total_requests(pod.spec, notes), notes)
    ports, host_ports = _ports(pod, notes)
    found = Shape(
        amounts=amounts,
        gpus=gpus.count,
        milli=gpus.milli,
        gpu_memory=gpus.memory,
        mig=gpus.mig,
        gpu_models=gpus.models,
        selector=labels_of(pod.spec.node_selector),
        tolerations=_tolerations(pod, notes),
        ports=ports,
        host_ports=host_ports,
    )
    found = _social(pod, _choosy(pod, found, notes), around, notes)
    return notes.problems() if notes else _same(found)


def seen(pod: Pod, around: Around | None = None, *, claims: bool = False) -> Shape:
    """Return what is understood of a pod that has its place already, whoever gave it that.

    What it takes counts, and who it keeps away; where it might have gone does not matter any more.
    Parts of devices count only with `claims`: anybody can write that his pod has some.
    """
    around, notes = around or Around(), Notes()
    amounts, gpus = read_gpus(pod, total_requests(pod.spec, Notes()), notes, claims=claims)
    found = Shape(amounts)
    if not notes:
        found = replace(
            found, gpus=gpus.count, milli=gpus.milli, gpu_memory=gpus.memory, mig=gpus.mig
        )
    notes = Notes()
    ports, host_ports = _ports(pod, notes)
    if not notes:
        found = replace(found, ports=ports, host_ports=host_ports)
    notes = Notes()
    social = _social(pod, Shape(), around, notes)
    apart = () if notes else tuple(term for term in social.apart if not term.weight)
    return _same(replace(found, labels=social.labels, apart=apart))


@lru_cache(maxsize=1 << 14)
def _same(one: Shape) -> Shape:
    """Return one object for all equal shapes."""
    return one


def priority(pod: Pod) -> int:
    """Return the priority that the server has given a pod."""
    return pod.spec.priority or 0


def may_preempt(pod: Pod) -> bool:
    """Return whether others may be made to leave for a pod."""
    return pod.spec.preemption_policy != "Never"


def is_gated(pod: Pod) -> bool:
    """Return whether a pod must not be scheduled yet."""
    return bool(pod.spec.scheduling_gates)


def term_keys(pod: Pod) -> frozenset[str]:
    """Return the labels of other pods, and `@namespace`, that the terms of a pod name."""
    if not _looks_at_others(pod):
        return frozenset()
    found = _social(pod, Shape(), Around(), Notes())
    return frozenset(_named(found))


def seen_keys(pod: Pod) -> frozenset[str]:
    """Return the labels that shapes of other pods must have for the terms of this one."""
    return term_keys(pod) - PER_POD


def _named(shape: Shape) -> set[str]:
    terms: tuple[TaskTerm | SpreadTerm, ...] = (*shape.near, *shape.apart, *shape.spread)
    named = {key for term in terms for key, _ in term.labels}
    return named | {clause.key for term in terms for clause in term.clauses}


def _choosy(pod: Pod, found: Shape, notes: Notes) -> Shape:
    """Return a shape with the node affinity of a pod."""
    affinity = pod.spec.affinity
    nodes = affinity.node_affinity if affinity else None
    if nodes is None:
        return found
    where = "spec.affinity.nodeAffinity"
    return replace(
        found,
        affinity=required_nodes(nodes, where, notes),
        preferences=preferred_nodes(nodes, where, notes),
    )


def _social(pod: Pod, found: Shape, around: Around, notes: Notes) -> Shape:
    """Return a shape with the terms of a pod about others, and the labels that others see."""
    affinity = pod.spec.affinity
    reader = Reader(pod, around.namespaces, notes)
    near = affinity.pod_affinity if affinity else None
    apart = affinity.pod_anti_affinity if affinity else None
    if near or apart or pod.spec.topology_spread_constraints:
        found = replace(
            found,
            near=reader.near(near, "spec.affinity.podAffinity") if near else (),
            apart=reader.apart(apart, "spec.affinity.podAntiAffinity") if apart else (),
            spread=reader.spread(),
        )
    return replace(found, labels=_labels(pod, around, _named(found)))


def _labels(pod: Pod, around: Around, named: set[str]) -> Labels:
    """Return the labels of a pod that others see, and those that its own terms name."""
    seen = around.keys
    labels = {**pod.metadata.labels, NAMESPACE: pod.metadata.namespace}
    return labels_of(
        {
            key: value
            for key, value in labels.items()
            if key in named or (key not in PER_POD and (seen is None or key in seen))
        }
    )


def _tolerations(pod: Pod, notes: Notes) -> tuple[Toleration, ...]:
    found: list[Toleration] = []
    for i, one in enumerate(pod.spec.tolerations):
        where = f"spec.tolerations[{i}]"
        operator = one.operator or "Equal"
        notes.one_of(f"{where}.operator", operator, TOLERATION_OPERATORS)
        notes.one_of(f"{where}.effect", one.effect, EFFECTS)
        if not one.key and operator != "Exists":
            notes.wrong(f"{where}.key", one.key, "give a key, or the operator Exists")
        if operator in ("Lt", "Gt") and not is_whole((one.value,)):
            notes.wrong(f"{where}.value", one.value, "give a whole number")
        if operator == "Exists" and one.value:
            notes.wrong(f"{where}.value", one.value, "remove it: Exists takes none")
        found.append(Toleration(one.key, operator, one.value, one.effect))
    return tuple(dict.fromkeys(found))


def _ports(pod: Pod, notes: Notes) -> tuple[tuple[int, ...], tuple[HostPort, ...]]:
    """Return the host ports of what runs together: plain ones, and others."""
    plain: set[int] = set()
    others: set[HostPort] = set()
    groups = (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers))
    every = [
        (f"spec.{name}[{i}].ports[{j}]", port)
        for name, containers in groups
        for i, container in enumerate(containers)
        for j, port in enumerate(container.ports)
        if port.host_port and (name == "containers" or container.restart_policy == ALWAYS)
    ]
    for where, port in every:
        if not 1 <= port.host_port <= PORT_MOST:
            fix = f"give a port from 1 to {PORT_MOST}"
            notes.wrong(f"{where}.hostPort", port.host_port, fix)
        notes.one_of(f"{where}.protocol", port.protocol, PROTOCOLS)
        address = "" if port.host_ip in EVERYWHERE else port.host_ip
        if address or port.protocol not in PROTOCOLS[:2]:
            others.add(HostPort(port.host_port, port.protocol or "TCP", address))
        else:
            plain.add(port.host_port)
    ordered = sorted(others, key=lambda port: (port.port, port.protocol, port.address))
    return tuple(sorted(plain)), tuple(ordered)


def _check(pod: Pod, notes: Notes) -> None:
    """Check what is no part of a shape."""
    spec = pod.spec
    if not spec.containers:
        notes.wrong("spec.containers", [], "give at least one container")
    notes.one_of("spec.preemptionPolicy", spec.preemption_policy, POLICIES)
    if spec.priority is not None and abs(spec.priority) > PRIORITY_MOST:
        notes.wrong("spec.priority", spec.priority, f"give at most {PRIORITY_MOST}")
    for i, volume in enumerate(spec.volumes):
        source = _bound_source(volume)
        if source:
            notes.wrong(f"spec.volumes[{i}].{source}", volume.name, NOT_YET)
    for i, claim in enumerate(spec.resource_claims):
        notes.wrong(f"spec.resourceClaims[{i}]", claim.name, NOT_YET)


_SOURCES = {
    "persistent_volume_claim": "persistentVolumeClaim",
    "ephemeral": "ephemeral",
    "gce_persistent_disk": "gcePersistentDisk",
    "aws_elastic_block_store": "awsElasticBlockStore",
    "azure_disk": "azureDisk",
    "cinder": "cinder",
    "vsphere_volume": "vsphereVolume",
    "portworx_volume": "portworxVolume",
    "rbd": "rbd",
    "iscsi": "iscsi",
    "fc": "fc",
    "flex_volume": "flexVolume",
}


def _bound_source(volume: Volume) -> str:
    """Return the source of a volume that is not to be had on every node; empty: it has none."""
    return next((key for name, key in _SOURCES.items() if getattr(volume, name) is not None), "")

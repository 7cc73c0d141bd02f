"""Objects of the Kubernetes API: only the fields that are used, typed.

Nothing missing is a mistake here: every field has a default. `read` takes what the server sends,
also with nulls and with values of the wrong type, and never raises.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from mooring.kube.problems import Problem, show

Quantity = str | int | float
"""As written: `500m`, `64Gi`, 8."""
Texts = dict[str, str]


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """A piece of an object. Nothing here can be part of a cycle, so no collector looks at it."""


class OwnerReference(_Part, frozen=True):
    """Who made an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(_Part, frozen=True):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Texts = {}
    annotations: Texts = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    generation: int = 0


class Requirement(_Part, frozen=True):
    """One expression of a selector; also of labels."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(_Part, frozen=True):
    """Which labels are meant."""

    match_labels: Texts = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(_Part, frozen=True):
    """One alternative of a node affinity."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(_Part, frozen=True):
    """The alternatives of a required node affinity."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(_Part, frozen=True):
    """A node affinity that is only a wish."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(_Part, frozen=True):
    """Which nodes a pod must and would like to have."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class PodTerm(_Part, frozen=True):
    """A term about other pods."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodTerm(_Part, frozen=True):
    """A term about other pods that is only a wish."""

    weight: int = 0
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(_Part, frozen=True):
    """Terms about other pods: to be near them, or apart from them."""

    required_during_scheduling_ignored_during_execution: tuple[PodTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodTerm, ...] = ()


class Affinity(_Part, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(_Part, frozen=True):
    """Lets a pod on to tainted nodes."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(_Part, frozen=True):
    """How evenly pods must be spread over domains."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class ResourceClaimName(_Part, frozen=True):
    """A claim that a container uses."""

    name: str = ""


class Resources(_Part, frozen=True):
    """What a container, or a pod as a whole, asks for and may use at most."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    claims: tuple[ResourceClaimName, ...] = ()


class ContainerPort(_Part, frozen=True):
    """A port; only those on the host matter."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""
    container_port: int = 0


class Container(_Part, frozen=True):
    """One container, or init container."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()


class Source(_Part, frozen=True):
    """Where a volume comes from: that it is there is all that is asked."""


class ClaimSource(_Part, frozen=True):
    """A persistent volume claim."""

    claim_name: str = ""


class Volume(_Part, frozen=True):
    """A volume, with the sources that bind a pod to some nodes; the others go with any node."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Source | None = None
    gce_persistent_disk: Source | None = None
    aws_elastic_block_store: Source | None = None
    azure_disk: Source | None = None
    cinder: Source | None = None
    vsphere_volume: Source | None = None
    portworx_volume: Source | None = None
    rbd: Source | None = None
    iscsi: Source | None = None
    fc: Source | None = None
    flex_volume: Source | None = None


class PodResourceClaim(_Part, frozen=True):
    """A claim on devices that are allocated dynamically."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class Gate(_Part, frozen=True):
    """Something that a pod still waits for before it may be scheduled."""

    name: str = ""


class SchedulingGroup(_Part, frozen=True):
    """The upstream pod group that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(_Part, frozen=True):
    """What a pod asks for."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_gates: tuple[Gate, ...] = ()
    node_selector: Texts = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, Quantity] = {}
    resources: Resources | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool = False
    runtime_class_name: str = ""


class Condition(_Part, frozen=True):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(_Part, frozen=True):
    """What became of a pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str = ""
    reason: str = ""


class Pod(_Part, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(_Part, frozen=True):
    """Keeps pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(_Part, frozen=True):
    """What is asked of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(_Part, frozen=True):
    """What a node has, and how it is."""

    allocatable: dict[str, Quantity] = {}
    capacity: dict[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()


class Node(_Part, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodDisruptionBudgetSpec(_Part, frozen=True):
    """Whose disruption is bounded."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(_Part, frozen=True):
    """How many may be disrupted now."""

    disruptions_allowed: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(_Part, frozen=True):
    """A bound on how many pods may be evicted at once."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class Namespace(_Part, frozen=True):
    """A namespace; its labels are what selectors of namespaces see."""

    metadata: ObjectMeta = ObjectMeta()


class PartialObject(_Part, frozen=True):
    """Any object, of which only the metadata is known (`PartialObjectMetadata`)."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


T = TypeVar("T", bound=_Part)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object with values of the wrong type; `rest` is what can be read of it."""

    problems: tuple[Problem, ...]
    rest: Any
    metadata: ObjectMeta = field(default=ObjectMeta())

    @property
    def name(self) -> str:
        """Return the object's name, empty where that cannot be read either."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Return the object's namespace."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """Return the object's uid."""
        return self.metadata.uid

    @property
    def problem(self) -> str:
        """Return everything that is wrong, in words."""
        return "; ".join(map(str, self.problems))


MOST_PROBLEMS = 20
"""An object with more wrong values than this is not looked at further."""
_WRONG = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
_AT = re.compile(r"^(.*) - at `(?:key in )?\$(.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def read(kind: type[T], raw: bytes | str | msgspec.Raw | dict[str, Any]) -> T | Unreadable:
    """Return an object that the server sent, or what is wrong with it."""
    try:
        if isinstance(raw, dict):
            return msgspec.convert(raw, kind)
        return msgspec.json.decode(raw, type=kind)
    except _WRONG:
        return _read_what_can_be(kind, raw)


def read_pod(raw: bytes | str | msgspec.Raw | dict[str, Any]) -> Pod | Unreadable:
    """Return a pod that the server sent, or what is wrong with it."""
    return read(Pod, raw)


def read_node(raw: bytes | str | msgspec.Raw | dict[str, Any]) -> Node | Unreadable:
    """Return a node that the server sent, or what is wrong with it."""
    return read(Node, raw)


def _read_what_can_be(
    kind: type[T], raw: bytes | str | msgspec.Raw | dict[str, Any]
) -> T | Unreadable:
    """Read again without nulls, then without one wrong value after the other."""
    try:
        tree = raw if isinstance(raw, dict) else json.loads(_bytes(raw))
        tree = _without_nulls(tree)
    except _WRONG as error:
        return Unreadable((Problem("object", "", f"send valid JSON: {show(str(error))}"),), kind())
    if not isinstance(tree, dict):
        return Unreadable((Problem("object", show(tree), "send an object"),), kind())
    problems: list[Problem] = []
    while len(problems) < MOST_PROBLEMS:
        try:
            found = msgspec.convert(tree, kind)
        except _WRONG as error:
            problems.append(_take_out(tree, str(error)))
            continue
        if not problems:
            return found
        return Unreadable(tuple(problems), found, cast("Pod", found).metadata)
    return Unreadable(tuple(problems), kind())


def _bytes(raw: bytes | str | msgspec.Raw) -> bytes:
    return raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else bytes(raw)


def _without_nulls(tree: Any) -> Any:
    """Return the same without entries that are null: to the server they are as good as absent."""
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [_without_nulls(value) for value in tree if value is not None]
    return tree


def _take_out(tree: Any, error: str) -> Problem:
    """Remove the value that an error of msgspec tells of."""
    found = _AT.match(error)
    words, path = found.groups() if found else (error, "")
    at: Any = tree
    last: Any = None
    above: Any = None
    for step in _STEP.finditer(path):
        name, index = step.groups()
        if index == "...":  # somewhere in a map: all of it goes
            break
        key: Any = name if name is not None else int(index)
        above, last, at = at, key, at[key]
    if above is None:
        tree.clear()
    elif isinstance(above, list):
        above[last] = {}
    else:
        del above[last]
    return Problem(path.removeprefix(".") or "object", show(at), f"give another value: {words}")

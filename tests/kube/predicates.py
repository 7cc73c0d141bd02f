"""Random cases in which one predicate decides whether a pod has a place: made in pairs.

A case is a few nodes, pods on them, and one pod more. On one node, the stage, everything is in
order but for the predicate in question: in one case of a pair it lets the pod in, in the other it
does not, and nothing else differs. The other nodes are there to be domains; most have no room.
All labels and topology keys are the case's own, so that cases do not see each other.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.kube.api import Object
from tests.kube.plane import node, pod

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = "node.kubernetes.io/unschedulable"
SEAT = "example.com/seat"
"""What every pod asks for, and nothing else decides about: nodes without it have no room."""
NARROW = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"}
ROOM = {**NARROW, SEAT: "1"}
RESOURCES = (
    *(("cpu", "m"), ("memory", "Mi"), ("ephemeral-storage", "Mi"), ("hugepages-2Mi", "Mi")),
    *(("example.com/thing", ""), ("nvidia.com/gpu", "")),
)


@dataclass
class Case:
    """One pod, and what is there when it comes."""

    name: str
    namespaces: tuple[str, str]
    """Its own, and another one, which alone has the label team: blue."""
    nodes: list[Object] = field(default_factory=list)
    there: list[Object] = field(default_factory=list)
    pod: Object = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)
    turn: int = 0
    """Which of its ways a predicate is tried in."""

    @property
    def stage(self) -> Object:
        """Return the node that matters."""
        return self.nodes[0]

    @property
    def spec(self) -> Object:
        """Return the spec of the pod."""
        spec: Object = self.pod["spec"]
        return spec

    @property
    def labels(self) -> Object:
        """Return the labels of the pod."""
        labels: Object = self.pod["metadata"]["labels"]
        return labels

    def add(self, where: Object, namespace: int = 0, **more: Any) -> Object:
        """Put a pod on a node."""
        one = pod(
            f"{self.name}-{next(self.numbers)}",
            namespace=self.namespaces[namespace],
            scheduler="nobody",
            nodeName=where["metadata"]["name"],
            tolerations=[{"operator": "Exists"}],
            **{"requests": {"cpu": "0", "memory": "0"}, **more},
        )
        self.there.append(one)
        return one

    def affinity(self, kind: str) -> Object:
        """Return a part of the affinity of the pod, to be filled in."""
        part: Object = self.spec.setdefault("affinity", {}).setdefault(kind, {})
        return part


def new_case(name: str, by: random.Random, namespaces: tuple[str, str]) -> Case:
    """Return a case that nothing is in the way of: a stage and two other nodes."""
    case = Case(name, namespaces)
    for index, zone in enumerate(("z0", "z0", "z1")):
        labels = {"case": name, f"zone-{name}": zone}
        has = ROOM if not index or by.random() < 0.04 else NARROW
        case.nodes.append(node(f"{name}-n{index}", 0, labels, amounts=has))
    case.pod = pod(
        name,
        namespace=namespaces[0],
        scheduler="default-scheduler",
        labels={"judged": "yes"},
        requests={"cpu": "100m", "memory": "64Mi"},
        nodeSelector={"case": name},
    )
    _set(case.spec["containers"][0], SEAT, "1")
    return case


# -- taints ---------------------------------------------------------------------------------


def taints(case: Case, by: random.Random, allows: bool) -> None:
    """Taints, cordons and tolerations."""
    key, spec = f"taint-{case.name}", case.stage["spec"]
    value, effect = by.choice(("v", "")), by.choice(("NoSchedule", "NoExecute"))
    soft = {"key": f"soft-{case.name}", "effect": "PreferNoSchedule"}
    right: list[Object] = [
        {"key": key, "operator": "Exists"},
        {"key": key, "operator": "Exists", "effect": effect},
        {"key": key, "value": value},
        {"key": key, "operator": "Equal", "value": value, "effect": effect},
        {"operator": "Exists"},
        {"operator": "Exists", "effect": effect},
    ]
    other = "NoExecute" if effect == "NoSchedule" else "NoSchedule"
    wrong: list[Object] = [
        {"key": key, "value": f"{value}z", "effect": effect},
        {"key": key, "operator": "Exists", "effect": other},
        {"key": f"{key}-not", "operator": "Exists"},
        {"operator": "Exists", "effect": other},
    ]
    given = [by.choice(right if allows else wrong)]
    if by.random() < 0.2:
        spec["unschedulable"] = True
        given = [{"key": CORDON, "operator": "Exists"}] if allows else given[:0]
    else:
        spec["taints"] = [{"key": key, "value": value, "effect": effect}, soft]
    case.spec.setdefault("tolerations", []).extend(given)


# -- node affinity --------------------------------------------------------------------------


def nodes(case: Case, by: random.Random, allows: bool) -> None:
    """Node selectors and required node affinity."""
    key = f"key-{case.name}"
    case.stage["metadata"]["labels"][key] = "5"
    if by.random() < 0.2:
        case.spec["nodeSelector"][key] = "5" if allows else "6"
        return
    good, bad = _node_clauses(case, key)
    terms = case.affinity("nodeAffinity").setdefault(REQUIRED, {})
    one, other = by.choice(good if allows else bad), by.choice(good)
    match by.randint(0, 3):
        case 0:
            terms["nodeSelectorTerms"] = [_term(one)]
        case 1:
            terms["nodeSelectorTerms"] = [_term(by.choice(bad)), _term(one)]
        case 2:
            terms["nodeSelectorTerms"] = [_term(other, one)]
        case _:
            terms["nodeSelectorTerms"] = [{}, _term(one)]


def _node_clauses(case: Case, key: str) -> tuple[list[Object], list[Object]]:
    """Return clauses that the stage meets, and clauses that it does not."""
    name = case.stage["metadata"]["name"]

    def clause(operator: str, *values: str, at: str = key) -> Object:
        return {"key": at, "operator": operator, **({"values": list(values)} if values else {})}

    field_ = "metadata.name"
    good = [
        clause("In", "4", "5"),
        clause("NotIn", "4"),
        clause("NotIn", "4", at=f"{key}-none"),
        clause("Exists"),
        clause("DoesNotExist", at=f"{key}-none"),
        clause("Gt", "4"),
        clause("Lt", "6"),
        clause("In", name, at=field_),
        clause("NotIn", "other", at=field_),
    ]
    bad = [
        clause("In", "4", "6"),
        clause("In", "5", at=f"{key}-none"),
        clause("NotIn", "5"),
        clause("Exists", at=f"{key}-none"),
        clause("DoesNotExist"),
        clause("Gt", "5"),
        clause("Lt", "5"),
        clause("Gt", "1", at=HOST),
        clause("In", "other", at=field_),
        clause("NotIn", name, at=field_),
    ]
    return good, bad


def _term(*clauses: Object) -> Object:
    fields = [one for one in clauses if one["key"] == "metadata.name"]
    others = [one for one in clauses if one["key"] != "metadata.name"]
    return {
        **({"matchFields": fields} if fields else {}),
        **({"matchExpressions": others} if others else {}),
    }


# -- terms about other pods -----------------------------------------------------------------


def _selector(by: random.Random, labels: Object) -> Object:
    """Return a selector of pods with these labels, in one of several ways."""
    (key, value), *_ = labels.items()

    def clause(operator: str, *values: str, at: str = key) -> Object:
        return {"key": at, "operator": operator, **({"values": list(values)} if values else {})}

    ways: list[Object] = [
        {"matchLabels": labels},
        {"matchExpressions": [clause("In", "none", value)]},
        {"matchExpressions": [clause("Exists"), clause("NotIn", "none")]},
        {"matchLabels": labels, "matchExpressions": [clause("DoesNotExist", at=f"{key}-not")]},
    ]
    return by.choice(ways)


def _term_about(case: Case, by: random.Random, labels: Object, other: bool) -> Object:
    """Return a term about pods with labels, in the pod's namespace or in the other one."""
    term: Object = {
        "topologyKey": by.choice((HOST, f"zone-{case.name}")),
        "labelSelector": _selector(by, labels),
    }
    if other:
        ways: list[Object] = [
            {"namespaces": [case.namespaces[1]]},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "blue"}}},
        ]
        term |= by.choice(ways)
    return term


def _inside(case: Case, by: random.Random, key: str) -> Object:
    """Return a node in the stage's domain."""
    return case.stage if key == HOST else by.choice(case.nodes[:2])


def _outside(case: Case, by: random.Random, key: str) -> Object:
    """Return a node in another domain."""
    return by.choice(case.nodes[1:] if key == HOST else case.nodes[2:])


def near(case: Case, by: random.Random, allows: bool) -> None:
    """Required pod affinity."""
    labels = {f"near-{case.name}": "x"}
    other = by.random() < 0.3
    term = _term_about(case, by, labels, other)
    key, terms = term["topologyKey"], [term]
    case.affinity("podAffinity")[REQUIRED] = terms
    match case.turn % 5:
        case 0:  # the first of a flock, wherever it likes, but not beside nobody
            case.labels.update(labels)
            term |= {"namespaces": list(case.namespaces)}
            if not allows:
                case.add(_outside(case, by, key), int(other), labels=labels)
        case 1:  # the first of a flock, if it is in a domain at all
            case.labels.update(labels)
            term |= {"namespaces": list(case.namespaces)}
            term["topologyKey"] = key if allows else f"none-{case.name}"
        case 2:  # two terms that one pod must meet
            second = {f"too-{case.name}": "x"}
            terms.append({**term, "labelSelector": _selector(by, second)})
            where = _inside(case, by, key)
            case.add(where, int(other), labels={**labels, **(second if allows else {})})
            case.add(where, int(other), labels=second)
        case 3 if not allows:
            _miss(case, by, labels, term, other)
        case _:
            where = _inside(case, by, key) if allows else _outside(case, by, key)
            case.add(where, int(other), labels=labels)


def _miss(case: Case, by: random.Random, labels: Object, term: Object, other: bool) -> None:
    """Put a pod beside the stage that a term does not mean."""
    match by.randint(0, 2):
        case 0:
            case.add(_inside(case, by, term["topologyKey"]), labels={next(iter(labels)): "none"})
        case 1 if not other:
            case.add(_inside(case, by, term["topologyKey"]), 1, labels=labels)
        case _:
            term["topologyKey"] = f"none-{case.name}"
            case.add(case.stage, int(other), labels=labels)


def apart(case: Case, by: random.Random, allows: bool) -> None:
    """Required pod anti-affinity of the pod itself."""
    labels = {f"apart-{case.name}": "x"}
    other = by.random() < 0.3
    term = _term_about(case, by, labels, other)
    case.affinity("podAntiAffinity")[REQUIRED] = [term]
    if allows and by.random() < 0.5:
        _miss(case, by, labels, term, other)
        return
    key = term["topologyKey"]
    where = _outside(case, by, key) if allows else _inside(case, by, key)
    case.add(where, int(other), labels=labels)


def rivals(case: Case, by: random.Random, allows: bool) -> None:
    """Required pod anti-affinity of a pod that is there."""
    labels = {f"rival-{case.name}": "x"}
    case.labels.update(labels)
    key = by.choice((HOST, f"zone-{case.name}"))
    other = by.random() < 0.3
    term: Object = {"topologyKey": key, "labelSelector": _selector(by, labels)}
    where = _inside(case, by, key)
    if other:
        ways: list[Object] = [{"namespaces": [case.namespaces[0]]}, {"namespaceSelector": {}}]
        term |= by.choice(ways)
    if allows:
        match by.randint(0, 3):
            case 0:
                term["labelSelector"] = {"matchLabels": {next(iter(labels)): "none"}}
            case 1:
                term["topologyKey"] = f"none-{case.name}"
            case 2:
                term |= {"namespaces": [case.namespaces[1]]}
                term.pop("namespaceSelector", None)
            case _:
                where = _outside(case, by, key)
    case.add(
        where,
        int(other),
        affinity={"podAntiAffinity": {REQUIRED: [term]}},
    )


# -- spread ---------------------------------------------------------------------------------


def spread(case: Case, by: random.Random, allows: bool) -> None:
    """Topology spread, in a way that depends on the turn."""
    key, labels = f"spread-{case.name}", {f"even-{case.name}": "x"}
    for one, zone in zip(case.nodes, ("s0", "s1", "s2"), strict=True):
        one["metadata"]["labels"][key] = zone
    term: Object = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector(by, labels),
    }
    case.spec["topologySpreadConstraints"] = [term]
    case.add(case.stage, 1, labels=labels)  # of another namespace: it does not count
    counts = (1, 1, 0)
    case.labels.update(labels)
    match case.turn % 6:
        case 0:  # the last domain has none, and cannot be had by who does not tolerate it
            case.nodes[2]["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
            term["nodeTaintsPolicy"] = "Honor" if allows else by.choice(("Ignore", None))
        case 1:  # nor by who does not select it
            for one in case.nodes[:2]:
                one["metadata"]["labels"][f"{key}-on"] = "yes"
            case.spec["nodeSelector"][f"{key}-on"] = "yes"
            term["nodeAffinityPolicy"] = by.choice(("Honor", None)) if allows else "Ignore"
        case 2:  # the stage has no such label
            counts = (0, 0, 0)
            if not allows:
                del case.stage["metadata"]["labels"][key]
        case 3:  # there must be one more domain, so that the emptiest counts as empty
            counts = (1, 1, 1)
            term["minDomains"] = 3 if allows else 4
        case 4:  # only like versions count
            counts = (0, 0, 0)
            case.labels["version"] = "2"
            version = "1" if allows else "2"
            case.add(case.stage, labels={**labels, "version": version})
            term["matchLabelKeys"] = ["version", "not-there"]
        case _:
            counts = _counts(case, by, labels, term, allows)
    for where, number in zip(case.nodes, counts, strict=True):
        for _ in range(number):
            case.add(where, labels=labels)


# wide: all that the rule depends on
def _counts(
    case: Case, by: random.Random, labels: Object, term: Object, allows: bool
) -> tuple[int, int, int]:
    """Draw counts until the rule says what is wanted."""
    if by.random() < 0.3:
        for key in labels:
            del case.labels[key]
    itself = int(next(iter(labels)) in case.labels)
    while True:
        term["maxSkew"] = by.randint(1, 2)
        first, second, third = (by.randint(0, 3) for _ in range(3))
        above = first + itself - min(first, second, third)
        if (above <= term["maxSkew"]) == allows:
            return first, second, third


# -- ports and amounts ----------------------------------------------------------------------


def ports(case: Case, by: random.Random, allows: bool) -> None:
    """Host ports, with protocol and address."""
    free = [
        ((80, "TCP", ""), (81, "TCP", "")),
        ((80, "TCP", ""), (80, "UDP", "")),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", "127.0.0.2")),
        ((80, "UDP", "127.0.0.1"), (80, "TCP", "")),
    ]
    taken = [
        ((80, "TCP", ""), (80, "TCP", "")),
        ((80, "UDP", ""), (80, "UDP", "0.0.0.0")),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", "")),
        ((80, "TCP", "0.0.0.0"), (80, "TCP", "127.0.0.1")),
        ((80, "SCTP", "127.0.0.1"), (80, "SCTP", "127.0.0.1")),
    ]
    mine, other = by.choice(free if allows else taken)
    there = case.add(case.stage)
    for spec, (number, protocol, address) in ((case.spec, mine), (there["spec"], other)):
        opened: Object = {"containerPort": number, "hostPort": number, "protocol": protocol}
        spec["containers"][0]["ports"] = [{**opened, **({"hostIP": address} if address else {})}]


def amounts(case: Case, by: random.Random, allows: bool) -> None:
    """Amounts: one more than there is, or just as much."""
    resource, unit = by.choice(RESOURCES)
    step = 2 if resource.startswith("hugepages") else 1
    used, mine, first, beside = (step * by.randint(1, 4) for _ in range(4))
    _set(case.add(case.stage)["spec"]["containers"][0], resource, f"{used}{unit}")
    way = case.turn % 4 if unit and step == 1 else 0
    needed = _ask_for(case, resource, unit, (mine, first, beside)) if way else mine
    if not way:
        _set(case.spec["containers"][0], resource, f"{mine}{unit}")
    if way == 3 and resource in ("cpu", "memory"):
        needed = 100 + mine + first + beside
        case.spec["resources"] = {"requests": {resource: f"{needed}{unit}"}}
    has = used + needed - (0 if allows else step)
    for kind in ("allocatable", "capacity"):
        case.stage["status"][kind] = {**case.stage["status"][kind], resource: f"{has}{unit}"}


def _set(container: Object, resource: str, amount: str) -> None:
    resources = container.setdefault("resources", {})
    resources.setdefault("requests", {})[resource] = amount
    if resource not in ("cpu", "memory", "ephemeral-storage"):
        resources.setdefault("limits", {})[resource] = amount


def _ask_for(case: Case, resource: str, unit: str, sizes: tuple[int, int, int]) -> int:
    """Let a container, an init container and a sidecar ask; return what they need together."""
    mine, first, beside = sizes
    _set(case.spec["containers"][0], resource, f"{mine}{unit}")
    sidecar: Object = {"name": "side", "image": "x", "restartPolicy": "Always"}
    early: Object = {"name": "first", "image": "x"}
    _set(sidecar, resource, f"{beside}{unit}")
    _set(early, resource, f"{first}{unit}")
    case.spec["initContainers"] = [sidecar, early]
    return max(mine + beside, first + beside)


PREDICATES: dict[str, Callable[[Case, random.Random, bool], None]] = {
    "taints": taints,
    "nodes": nodes,
    "near": near,
    "apart": apart,
    "rivals": rivals,
    "spread": spread,
    "ports": ports,
    "amounts": amounts,
}


def pairs(number: int, namespaces: tuple[str, str]) -> list[tuple[str, Case, Case]]:
    """Return so many pairs for each predicate: its name, the case with a place, and without."""
    found: list[tuple[str, Case, Case]] = []
    for predicate in PREDICATES:
        for index in range(number):
            both = [
                _one(f"{predicate}-{index}-{'yn'[way]}", f"{predicate}-{index}", way, namespaces)
                for way in range(2)
            ]
            found.append((predicate, *both))  # type: ignore[arg-type]
    return found


def _one(name: str, seed: str, way: int, namespaces: tuple[str, str]) -> Case:
    """Return one case: its predicate decides, up to three others are in order."""
    target = seed.rpartition("-")[0]
    by = random.Random(seed)
    case = new_case(name, by, namespaces)
    others = by.sample([other for other in PREDICATES if other != target], by.randint(0, 2))
    for predicate in (*others, target):
        allows = predicate != target or not way
        way_by = random.Random(f"{seed}-{predicate}")
        case.turn = int(seed.rpartition("-")[2]) if predicate == target else way_by.randint(0, 99)
        PREDICATES[predicate](case, way_by, allows)
    return case

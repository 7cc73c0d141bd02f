"""Manifests with random mistakes: never an exception, always a shape or a list of problems.

What is understood in spite of the mistake is something that the engine takes.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from mooring.engine import Engine
from mooring.engine.check import check_groups
from mooring.kube.convert import Problems, node, seen, shape
from mooring.kube.convert.pod import _KNOWN
from mooring.kube.objects import Node, Pod, Unreadable, read_node, read_pod
from mooring.model.cluster import Node as ModelNode
from mooring.model.events import NodeJoined, Submitted
from mooring.model.topology import Level, Topology
from mooring.model.workload import PodGroup, Shape, Workload
from tests.kube.convert.manifests import (
    PREFERRED,
    REQUIRED,
    Object,
    container,
    machine,
    pod,
)

CASES = 1000
ZONES = Topology((Level("zone"),))
BATCHES = 10

_TERM = {
    "topologyKey": "zone",
    "labelSelector": {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}],
    },
    "namespaceSelector": {"matchLabels": {"team": "red"}},
    "namespaces": ["lab"],
    "matchLabelKeys": ["app"],
}
_NODES = {
    "matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}
POD = pod(
    {
        **container(cpu="500m", memory="1.5Gi", gpu="2"),
        "ports": [{"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}],
    },
    {"name": "b", "resources": {"limits": {"ephemeral-storage": "1e9"}}},
    labels={"app": "x", "batch.kubernetes.io/job-completion-index": "1"},
    annotations={"mooring.dev/gpu-model": "H100, A100"},
    initContainers=[{**container(cpu="1"), "restartPolicy": "Always"}, container(cpu="2")],
    overhead={"cpu": "10m"},
    resources={"requests": {"memory": "4Gi"}},
    priority=10,
    preemptionPolicy="Never",
    schedulingGates=[{"name": "wait"}],
    nodeSelector={"disk": "ssd"},
    tolerations=[{"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"}],
    topologySpreadConstraints=[
        {
            "maxSkew": 1,
            "minDomains": 2,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ],
    affinity={
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [_NODES]},
            PREFERRED: [{"weight": 5, "preference": _NODES}],
        },
        "podAffinity": {REQUIRED: [_TERM]},
        "podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": _TERM}]},
    },
    volumes=[{"name": "v", "emptyDir": {}}],
    terminationGracePeriodSeconds=30,
)
SHARED = pod(
    container(cpu="1"),
    annotations={"mooring.dev/gpu-fraction": "0.5", "mooring.dev/gpu-count": "2"},
)
NODE = machine(
    {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "14", "rdma/hca": "8"},
    {
        "zone": "a",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.count": "8",
    },
    {"mooring.dev/device-layout": "island=8 switch=2 numa=4 unhealthy=3"},
    taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}],
    unschedulable=True,
)
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 1.5, 1e300, 10**30, -(10**30), 2**63, [], {}, [None], [[]]),
    *("", " ", "x", "-1", "0", "1e999", "9" * 400, "1Ki", "½", "\u0000", "\U0001f680" * 50),
    *("In", "Exists", "Always", "NoSchedule", "a" * 5000, "nan", "../..", "{}", "[1, 2", "\u202e"),
    *({"a": 1}, {"": ""}, {"key": "k"}, ["x"], [1, "x", None], {"x": {"y": {"z": []}}}),
]


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a manifest."""
    inside: list[tuple[Any, ...]] = []
    if isinstance(tree, dict):
        inside = [place for key in tree for place in places(tree[key], (*path, key))]
    elif isinstance(tree, list):
        inside = [place for i, item in enumerate(tree) for place in places(item, (*path, i))]
    return [path, *inside] if path else inside


def mutate(manifest: Object, by: random.Random) -> Object:
    """Return a manifest with one to three values changed, removed or doubled."""
    changed = copy.deepcopy(manifest)
    for _ in range(by.randint(1, 3)):
        every = places(changed)
        if not every:
            break
        *above, last = by.choice(every)
        at: Any = changed
        for step in above:
            at = at[step]
        match by.randint(0, 5):
            case 0:
                del at[last]
            case 1 if isinstance(at, list):
                at.append(copy.deepcopy(at[last]))
            case 2 if isinstance(at, dict):
                at[str(by.choice(ODD))[:50]] = at.pop(last)
            case 3 if isinstance(at[last], str):
                text = at[last]
                cut = by.randint(0, len(text))
                at[last] = text[:cut] + by.choice(("x", "-", "é", "", "0", "\n")) + text[cut + 1 :]
            case _:
                at[last] = copy.deepcopy(by.choice(ODD))
    return changed


def tell(problems: Problems) -> None:
    """Check that problems say where they are and what to do, in a few printable words."""
    assert problems.problems
    for problem in problems.problems:
        assert problem.field
        assert problem.fix
        assert str(problem).isprintable()
        assert len(str(problem)) < 1000


def check_pod(given: Object) -> Shape | None:
    """Read a pod; return its shape if it is understood."""
    found = read_pod(json.dumps(given).encode())
    if isinstance(found, Unreadable):
        tell(Problems(found.problems))
        found = found.rest
        assert isinstance(found, Pod)
        shape(found)
        taken = seen(found)
        check_groups(Workload("w", (PodGroup("main", taken),)))
        return None
    made = shape(found)
    check_groups(Workload("w", (PodGroup("main", seen(found)),)))
    if isinstance(made, Problems):
        tell(made)
        return None
    return made


@pytest.mark.parametrize("seed", range(BATCHES))
def test_pods_with_mistakes(seed: int) -> None:
    by = random.Random(seed)
    engine = Engine(ZONES)
    engine.observe(NodeJoined(plain_node()))
    understood = 0
    for number in range(CASES // BATCHES):
        made = check_pod(mutate(by.choice((POD, POD, SHARED)), by))
        if made is not None:
            understood += 1
            engine.observe(Submitted(Workload(f"w{number}", (PodGroup("main", made),))))
    engine.decide(0.0)
    assert 0 < understood < CASES // BATCHES


def test_what_is_remembered_of_a_template_is_what_would_be_found_anew() -> None:
    by = random.Random(6)
    template = copy.deepcopy(POD)
    for key in ("podAffinity", "podAntiAffinity"):
        del template["spec"]["affinity"][key]
    del template["spec"]["topologySpreadConstraints"]
    read = [read_pod(mutate(by.choice((template, SHARED)), by)) for _ in range(500)]
    pods = [each.rest if isinstance(each, Unreadable) else each for each in read]
    remembered = [shape(each) for each in pods]
    for each, found in zip(pods, remembered, strict=True):
        _KNOWN.clear()
        assert shape(each) == found
    assert len(set(map(repr, remembered))) > 100


def plain_node() -> ModelNode:
    found = read_node(NODE)
    assert isinstance(found, Node)
    made = node(found, (("zone", "zone"),))
    assert isinstance(made, ModelNode)
    return made


@pytest.mark.parametrize("seed", range(BATCHES))
def test_nodes_with_mistakes(seed: int) -> None:
    by = random.Random(seed)
    engine = Engine(ZONES)
    understood = 0
    for number in range(CASES // BATCHES):
        given = mutate(NODE, by)
        found = read_node(json.dumps(given).encode())
        if isinstance(found, Unreadable):
            tell(Problems(found.problems))
            continue
        made = node(found, (("zone", "zone"),))
        if isinstance(made, Problems):
            tell(made)
            continue
        understood += 1
        if number % 10 == 0 and made.name:
            engine = Engine(ZONES)
            engine.observe(NodeJoined(made))
            engine.decide(0.0)
    assert 0 < understood < CASES // BATCHES


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"spec": 1e9999}', b"[" * 9999]
)
def test_what_is_no_object(raw: bytes) -> None:
    found = read_pod(raw)
    assert isinstance(found, Unreadable)
    tell(Problems(found.problems))


def test_the_manifests_themselves_are_understood() -> None:
    for given in (POD, SHARED):
        assert check_pod(given) is not None
    assert plain_node().devices

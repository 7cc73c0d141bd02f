"""Pods and nodes as the server sends them, with quiet defaults."""

from __future__ import annotations

from typing import Any

from mooring.kube.convert import Around, node, shape
from mooring.kube.objects import Node, Pod, read_node, read_pod
from mooring.kube.problems import Problem, Problems
from mooring.model.cluster import Node as ModelNode
from mooring.model.workload import Shape

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def container(**requests: str) -> Object:
    """Return a container; `gpu` is the resource of NVIDIA's plugin."""
    names = {"gpu": "nvidia.com/gpu"}
    return {
        "name": "main",
        "resources": {"requests": {names.get(key, key): value for key, value in requests.items()}},
    }


def pod(
    *containers: Object,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a pod in the namespace `lab`."""
    return {
        "metadata": {
            "name": "p",
            "namespace": "lab",
            "uid": "u",
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"containers": list(containers) or [{"name": "main"}], **spec},
    }


def machine(
    allocatable: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a node."""
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", **(allocatable or {})}
    return {
        "metadata": {"name": "n", "labels": labels or {}, "annotations": annotations or {}},
        "spec": spec,
        "status": {
            "allocatable": has,
            "capacity": has,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def read(given: Object) -> Pod:
    """Return a manifest as a pod that can be read."""
    found = read_pod(given)
    assert isinstance(found, Pod), found
    return found


def shaped(given: Object, around: Around | None = None) -> Shape:
    """Return the shape of a pod that is understood."""
    found = shape(read(given), around)
    assert isinstance(found, Shape), str(found)
    return found


def wrong(given: Object) -> tuple[Problem, ...]:
    """Return the problems of a pod that is not."""
    found = shape(read(given))
    assert isinstance(found, Problems), found
    return found.problems


def noded(given: Object, levels: tuple[tuple[str, str], ...] = ()) -> ModelNode:
    """Return a node that is understood."""
    found = read_node(given)
    assert isinstance(found, Node), found
    model = node(found, levels)
    assert isinstance(model, ModelNode), str(model)
    return model


def node_wrong(given: Object) -> tuple[Problem, ...]:
    """Return the problems of a node that is not."""
    found = read_node(given)
    assert isinstance(found, Node), found
    model = node(found)
    assert isinstance(model, Problems), model
    return model.problems

"""The nodes as the API server tells of them, less what pods take that no scheduler places.

Pods of a DaemonSet and those that a kubelet runs by itself (mirror pods) come with their node: they
make it smaller, and are no workloads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from mooring.kube.convert import levels_of, seen
from mooring.kube.convert import node as convert_node
from mooring.kube.objects import ObjectMeta
from mooring.kube.problems import Problems
from mooring.model.cluster import Node as ModelNode
from mooring.model.events import NodeChanged, NodeJoined, NodeLeft
from mooring.model.resources import PODS, amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.kube.objects import Node, Pod
    from mooring.model.events import Event
    from mooring.model.resources import Amounts
    from mooring.model.topology import Topology

MIRROR = "kubernetes.io/config.mirror"


class Estate:
    """All nodes, and what comes with them."""

    def __init__(self, topology: Topology) -> None:
        self.levels = levels_of(topology)
        self.problems: dict[str, Problems] = {}
        """Of nodes that cannot be understood: they get nothing new."""
        self._objects: dict[str, Node] = {}
        self._staff: dict[str, dict[str, Amounts]] = {}
        """By node and uid: what the pods take that come with it."""
        self._told: dict[str, ModelNode] = {}
        self._changed: dict[str, None] = {}
        self._alive: dict[str, bool] = {}
        self._overfull: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._told

    def is_alive(self, name: str) -> bool:
        """Return whether a node is there and ready."""
        return name in self._told and self._alive.get(name, False)

    def set_overfull(self, names: Iterable[str]) -> None:
        """Say on which nodes there is more than they have: these get nothing new."""
        before, self._overfull = self._overfull, dict.fromkeys(names)
        self._changed |= {name: None for name in (*before, *self._overfull)
                          if (name in before) != (name in self._overfull)}  # fmt: skip

    def put(self, node: Node) -> None:
        """Take in a node, or what is new about it."""
        name = node.metadata.name
        before = self._objects.get(name)
        self._objects[name] = node
        if before is None or _facts(before) != _facts(node):
            self._changed[name] = None

    def drop(self, name: str) -> None:
        """Take in that a node is gone."""
        if self._objects.pop(name, None) is not None:
            self._changed[name] = None

    def settle_in(self, pod: Pod) -> None:
        """Take in a pod that comes with its node."""
        needs = {PODS: 1, **dict(seen(pod).amounts)}
        staff = self._staff.setdefault(pod.spec.node_name, {})
        if staff.get(pod.metadata.uid) != (taken := amounts(needs)):
            staff[pod.metadata.uid] = taken
            self._changed[pod.spec.node_name] = None

    def move_out(self, uid: str, node: str) -> None:
        """Take in that a pod is gone that came with its node."""
        if self._staff.get(node, {}).pop(uid, None) is not None:
            self._changed[node] = None

    def forget_told(self) -> None:
        """Let everything be told again, to another engine."""
        self._told.clear()
        self._changed = dict.fromkeys(sorted(self._objects))

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield what is new about nodes, each with the node's name."""
        changed, self._changed = self._changed, {}
        for name in changed:
            node, told = self._present(name), self._told.get(name)
            if node == told:
                continue
            if node is None:
                del self._told[name]
                yield name, NodeLeft(name)
                continue
            self._told[name] = node
            yield name, NodeJoined(node) if told is None else NodeChanged(node)

    def _present(self, name: str) -> ModelNode | None:
        """Return a node as the engine should see it; None: it is not there.

        One that cannot be understood any more is as it was, or as far as it is understood; it
        gets nothing new, and what is there stays.
        """
        given = self._objects.get(name)
        if given is None:
            self.problems.pop(name, None)
            self._alive.pop(name, None)
            return None
        node = convert_node(given, self.levels)
        if isinstance(node, Problems):
            self.problems[name] = node
            self._alive[name] = False
            return replace(self._told.get(name) or self._guess(given), ready=False)
        self.problems.pop(name, None)
        self._alive[name] = node.ready
        left = dict(node.capacity)
        for taken in self._staff.get(name, {}).values():
            for resource, amount in taken:
                if resource in left:
                    left[resource] = max(0, left[resource] - amount)
        is_full = left.get(PODS, 1) <= 0  # no amount would be read as no limit
        is_ready = node.ready and name not in self._overfull and not is_full
        return replace(node, capacity=amounts(left), ready=is_ready)

    def _guess(self, given: Node) -> ModelNode:
        """Return what is understood of a node: without what is written on it, or its name."""
        meta = given.metadata
        bare = ObjectMeta(name=meta.name)
        plain = msgspec.structs.replace(bare, labels=meta.labels)
        for node in (msgspec.structs.replace(given, metadata=each) for each in (plain, bare)):
            found = convert_node(node, self.levels)
            if not isinstance(found, Problems):
                return found
        return ModelNode(meta.name, path=tuple(f"?{meta.name}" for _ in self.levels))


def comes_with_node(pod: Pod) -> bool:
    """Return whether a pod belongs to its node and no scheduler places it."""
    meta = pod.metadata
    return MIRROR in meta.annotations or any(
        owner.controller and owner.kind == "DaemonSet" for owner in meta.owner_references
    )


def _facts(node: Node) -> tuple[object, ...]:
    """Return what is asked of a node, without heartbeats."""
    conditions = [(each.type, each.status) for each in node.status.conditions]
    meta, status = node.metadata, node.status
    return meta.labels, meta.annotations, node.spec, status.allocatable, status.capacity, conditions

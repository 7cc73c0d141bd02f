"""Taints, affinity, spread, ports and amounts as a real kube-scheduler judges them."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from mooring.engine import Engine
from mooring.kube.convert import Around, node, seen, shape
from mooring.kube.objects import Namespace, Node, Pod, read
from mooring.model.cluster import Node as ModelNode
from mooring.model.events import Adopted, NodeJoined
from mooring.model.topology import Topology
from mooring.model.workload import Placement, PodGroup, Shape, Workload
from mooring.policy.placing.fit import Fits
from tests.kube.conftest import fresh_namespace
from tests.kube.predicates import PREDICATES, Case, pairs

if TYPE_CHECKING:
    from tests.kube.api import Object
    from tests.kube.plane import Plane

PAIRS = 24
LEAST = 20


def test_verdicts_are_those_of_kube_scheduler(plane: Plane, namespace: str) -> None:
    """Every pod has a place for us just if it has one for kube-scheduler, and that is one of ours.

    A pair counts as decided by its predicate if kube-scheduler places one pod and not the other.
    """
    other = fresh_namespace(plane, "other")
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": other, "labels": {"team": "blue"}},
        }
    )
    made = pairs(PAIRS, (namespace, other))
    cases = [case for _, *both in made for case in both]
    try:
        plane.api.create_all(one for case in cases for one in case.nodes)
        plane.api.create_all(one for case in cases for one in case.there)
        world = World(plane)
        plane.api.create_all(case.pod for case in cases)
        theirs = verdicts(plane, namespace, cases)
        judged = plane.pods(namespace, labelSelector="judged=yes")
        asked = {one["metadata"]["name"]: one for one in judged}
        ours = {case.name: world.places(asked[case.name]) for case in cases}
    finally:
        plane.wipe(other)
    wrong = [
        f"{case.name}: kube-scheduler {theirs[case.name] or 'refuses'}, we {ours[case.name]}\n"
        f"  {case.pod}\n  there: {case.there}\n  stage: {case.stage}"
        for case in cases
        if (theirs[case.name] not in ours[case.name] if theirs[case.name] else ours[case.name])
    ]
    assert not wrong, "\n".join(wrong[:5])
    decided = Counter(
        predicate for predicate, yes, no in made if theirs[yes.name] and not theirs[no.name]
    )
    assert {name: decided[name] for name in PREDICATES if decided[name] < LEAST} == {}
    assert len(cases) >= 300


def verdicts(plane: Plane, namespace: str, cases: list[Case]) -> dict[str, str]:
    """Return the node that kube-scheduler gives each pod; empty: it says that there is none."""

    def settled() -> dict[str, str] | None:
        found = {
            one["metadata"]["name"]: one["spec"].get("nodeName", "")
            for one in plane.pods(namespace, labelSelector="judged=yes")
            if "nodeName" in one["spec"] or refused(one)
        }
        return found if len(found) == len(cases) else None

    plane.add("kube-scheduler")  # only now: it sees everything before it judges anything
    try:
        result: dict[str, str] = plane.wait_for(settled, 60, "all are judged")
        return result
    finally:
        plane.signal("kube-scheduler", signal.SIGKILL)


def refused(pod: Object) -> bool:
    """Return whether kube-scheduler has said that there is no place for a pod."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one.get("reason") == "Unschedulable" for one in conditions)


class World:
    """What the server has, as our engine sees it."""

    def __init__(self, plane: Plane) -> None:
        labels = {}
        for given in plane.api.items("/api/v1/namespaces"):
            found = read(Namespace, given)
            assert isinstance(found, Namespace)
            labels[found.metadata.name] = found.metadata.labels
        self.around = Around(labels)
        self.engine = Engine(Topology())
        for given in plane.api.items("/api/v1/nodes"):
            facts = read(Node, given)
            assert isinstance(facts, Node)
            known = node(facts)
            assert isinstance(known, ModelNode), str(known)
            self.engine.observe(NodeJoined(known))
        for given in plane.pods():
            there = read(Pod, given)
            assert isinstance(there, Pod)
            name, where = there.metadata.name, there.spec.node_name
            group = PodGroup("main", seen(there, self.around))
            placement = Placement("main", (0,), (where,), (0,))
            self.engine.observe(Adopted(Workload(name, (group,)), (placement,)))
        self.engine.decide(0.0)
        self.fits = Fits(self.engine.books)

    def places(self, given: Object) -> list[str]:
        """Return the nodes on which we would put a pod."""
        found = read(Pod, given)
        assert isinstance(found, Pod)
        wanted = shape(found, self.around)
        assert isinstance(wanted, Shape), str(wanted)
        books = self.engine.books
        rows = np.flatnonzero(self.fits.of(books.demand(wanted)).slots[-1])
        return [books.nodes[row].name for row in rows.tolist()]

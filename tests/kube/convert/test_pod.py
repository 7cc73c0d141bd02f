"""Where a pod may go, and what others see of it: each field, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.convert import NAMESPACE, Around, is_gated, may_preempt, priority, seen, term_keys
from mooring.model.cluster import NODE_NAME
from mooring.model.workload import (
    HostPort,
    NodePreference,
    Requirement,
    SpreadTerm,
    TaskTerm,
    Toleration,
)
from tests.kube.convert.manifests import PREFERRED, REQUIRED, container, pod, read, shaped, wrong

HOST = "kubernetes.io/hostname"
IN_LAB = Requirement(NAMESPACE, "In", ("lab",))
NOBODY = Requirement(NAMESPACE, "DoesNotExist")


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


# -- nodes ----------------------------------------------------------------------------------


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def test_node_selector() -> None:
    assert shaped(pod(nodeSelector={"b": "2", "a": "1"})).selector == (("a", "1"), ("b", "2"))


def test_required_node_affinity_is_any_of_its_terms() -> None:
    first = {"matchExpressions": [expression("zone", "In", "a", "b"), expression("x", "Exists")]}
    second = {"matchFields": [expression("metadata.name", "In", "n1")]}
    assert shaped(pod(affinity=node_affinity(first, {}, second))).affinity == (
        (Requirement("zone", "In", ("a", "b")), Requirement("x", "Exists")),
        (Requirement(NODE_NAME, "In", ("n1",)),),
    )


@pytest.mark.parametrize("terms", [[], [{}]], ids=["no terms", "an empty one"])
def test_required_node_affinity_of_nothing_means_no_node(terms: list[dict[str, Any]]) -> None:
    assert shaped(pod(affinity=node_affinity(*terms))).affinity == (
        (Requirement(NODE_NAME, "DoesNotExist"),),
    )


def test_preferred_node_affinity() -> None:
    wish = {"weight": 7, "preference": {"matchExpressions": [expression("cores", "Gt", "8")]}}
    empty = {"weight": 3, "preference": {}}
    found = shaped(pod(affinity={"nodeAffinity": {PREFERRED: [wish, empty]}}))
    assert found.preferences == (NodePreference(7, (Requirement("cores", "Gt", ("8",)),)),)


def test_tolerations() -> None:
    given = [
        {"operator": "Exists"},
        {"key": "a", "value": "1", "effect": "NoSchedule"},
        {"key": "n", "operator": "Lt", "value": "5"},
    ]
    assert shaped(pod(tolerations=given)).tolerations == (
        Toleration("", "Exists"),
        Toleration("a", "Equal", "1", "NoSchedule"),
        Toleration("n", "Lt", "5"),
    )


def test_host_ports_of_what_runs_together() -> None:
    """An init container has ended before the others run; a sidecar has not."""

    def at(*ports: dict[str, Any], **more: str) -> dict[str, Any]:
        return {"name": "c", "ports": list(ports), **more}

    found = shaped(
        pod(
            at({"hostPort": 80}, {"hostPort": 22, "hostIP": "0.0.0.0", "protocol": "TCP"}),
            at({"hostPort": 80}, {"hostPort": 53, "protocol": "UDP"}, {"containerPort": 9}),
            initContainers=[
                at({"hostPort": 1}),
                at({"hostPort": 80, "hostIP": "10.0.0.1"}, restartPolicy="Always"),
            ],
        )
    )
    assert found.ports == (22, 80)
    assert found.host_ports == (HostPort(53, "UDP"), HostPort(80, "TCP", "10.0.0.1"))


# -- terms about others ---------------------------------------------------------------------


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return pod(labels={"app": "me", "v": "1"}, affinity={"podAffinity": {REQUIRED: list(terms)}})


NEAR: dict[str, tuple[dict[str, Any], TaskTerm]] = {
    "labels, in its own namespace": (
        term(),
        TaskTerm("label/zone", (("app", "x"),), clauses=(IN_LAB,)),
    ),
    "expressions": (
        term(labelSelector={"matchExpressions": [expression("app", "NotIn", "y")]}),
        TaskTerm("label/zone", (), clauses=(IN_LAB, Requirement("app", "NotIn", ("y",)))),
    ),
    "an empty selector means all": (
        term(labelSelector={}),
        TaskTerm("label/zone", (), clauses=(IN_LAB,)),
    ),
    "no selector means none": (
        {"topologyKey": "zone"},
        TaskTerm("label/zone", (), clauses=(IN_LAB, NOBODY)),
    ),
    "other namespaces": (
        term(namespaces=["b", "a"]),
        TaskTerm("label/zone", (("app", "x"),), 0, (Requirement(NAMESPACE, "In", ("a", "b")),)),
    ),
    "all namespaces": (
        term(namespaceSelector={}),
        TaskTerm("label/zone", (("app", "x"),)),
    ),
    "namespaces by label, and by name": (
        term(namespaceSelector={"matchLabels": {"team": "red"}}, namespaces=["z"]),
        TaskTerm(
            "label/zone", (("app", "x"),), 0, (Requirement(NAMESPACE, "In", ("r1", "r2", "z")),)
        ),
    ),
    "namespaces that do not exist": (
        term(namespaceSelector={"matchLabels": {"team": "green"}}),
        TaskTerm("label/zone", (("app", "x"),), 0, (NOBODY,)),
    ),
    "labels like its own, and unlike": (
        term(matchLabelKeys=["v", "not-there"], mismatchLabelKeys=["app"]),
        TaskTerm(
            "label/zone",
            (("app", "x"),),
            0,
            (IN_LAB, Requirement("v", "In", ("1",)), Requirement("app", "NotIn", ("me",))),
        ),
    ),
}
AROUND = Around({"r1": {"team": "red"}, "r2": {"team": "red"}, "b": {"team": "blue"}, "lab": {}})


@pytest.mark.parametrize(("given", "expected"), NEAR.values(), ids=NEAR)
def test_terms_of_affinity(given: dict[str, Any], expected: TaskTerm) -> None:
    assert shaped(near(given), AROUND).near == (expected,)


def test_terms_of_anti_affinity_and_wishes() -> None:
    wish = {"weight": 9, "podAffinityTerm": term(topologyKey=HOST)}
    found = shaped(pod(affinity={"podAntiAffinity": {REQUIRED: [term()], PREFERRED: [wish]}}))
    assert found.apart == (
        TaskTerm("label/zone", (("app", "x"),), 0, (IN_LAB,)),
        TaskTerm(f"label/{HOST}", (("app", "x"),), 9, (IN_LAB,)),
    )


def test_company_is_only_who_all_terms_of_an_affinity_mean() -> None:
    other = term(topologyKey=HOST, labelSelector={"matchLabels": {"tier": "db"}})
    app, db = Requirement("app", "In", ("x",)), Requirement("tier", "In", ("db",))
    assert shaped(near(term(), other)).near == (
        TaskTerm("label/zone", (("app", "x"),), 0, (IN_LAB, db)),
        TaskTerm(f"label/{HOST}", (("tier", "db"),), 0, (IN_LAB, app)),
    )


def test_spread() -> None:
    given = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    more = {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    soft = {"whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["v"], "labelSelector": None}
    found = shaped(
        pod(
            labels={"v": "1"},
            topologySpreadConstraints=[given, {**given, **more}, {**given, **soft}],
        )
    )
    mine = Requirement("v", "In", ("1",))
    assert found.spread == (
        SpreadTerm("label/zone", (("app", "x"),), 2, True, (IN_LAB,), 0, True, False),
        SpreadTerm("label/zone", (("app", "x"),), 2, True, (IN_LAB,), 3, False, True),
        SpreadTerm("label/zone", (), 2, False, (IN_LAB, NOBODY, mine), 0, True, False),
    )


# -- labels ---------------------------------------------------------------------------------

INDEX = "batch.kubernetes.io/job-completion-index"


def test_pods_of_one_template_have_one_shape() -> None:
    first, second = (shaped(pod(labels={"app": "x", INDEX: index})) for index in "01")
    assert first is second
    assert first.labels == ((NAMESPACE, "lab"), ("app", "x"))


def test_a_label_that_a_term_of_the_pod_names_stays() -> None:
    given = near(term(labelSelector={"matchExpressions": [expression(INDEX, "Exists")]}))
    given["metadata"]["labels"] = {INDEX: "3"}
    assert (INDEX, "3") in shaped(given).labels
    assert term_keys(read(given)) == {NAMESPACE, INDEX}


def test_labels_that_no_term_names_can_be_left_out() -> None:
    given = pod(labels={"app": "x", "job-name": "j17"})
    assert shaped(given, Around(keys=frozenset())).labels == ()
    assert shaped(given, Around(keys=frozenset({"app"}))).labels == (("app", "x"),)


# -- the rest -------------------------------------------------------------------------------


def test_priority_preemption_and_gates() -> None:
    plain, odd = read(pod()), read(pod(priority=-5, preemptionPolicy="Never", schedulingGates=[{}]))
    assert (priority(plain), may_preempt(plain), is_gated(plain)) == (0, True, False)
    assert (priority(odd), may_preempt(odd), is_gated(odd)) == (-5, False, True)


def test_volumes_that_go_with_any_node() -> None:
    kinds = ("emptyDir", "configMap", "secret", "hostPath", "projected", "downwardAPI", "nfs")
    volumes = [{"name": kind, kind: {"x": [1]}} for kind in kinds]
    assert shaped(pod(volumes=volumes)) == shaped(pod())


def test_of_a_pod_that_has_its_place_what_is_understood_counts() -> None:
    """A volume that is not understood does not make its cores free."""
    given = pod(
        {**container(cpu="2", gpu="1", memory="x"), "ports": [{"hostPort": 80}]},
        labels={"app": "x"},
        nodeSelector={"a": "b"},
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        affinity={"podAntiAffinity": {REQUIRED: [term()]}},
    )
    assert len(wrong(given)) == 2
    found = seen(read(given))
    assert (found.amounts, found.gpus, found.ports) == ((("cpu", 2000),), 1, (80,))
    assert found.labels == ((NAMESPACE, "lab"), ("app", "x"))
    assert found.apart
    assert not found.selector


def spread(**more: Any) -> dict[str, Any]:
    given = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **more}
    return pod(topologySpreadConstraints=[given])


def matching(expression_: dict[str, Any]) -> dict[str, Any]:
    return pod(affinity=node_affinity({"matchExpressions": [expression_]}))


def port(**more: Any) -> dict[str, Any]:
    return pod({"name": "c", "ports": [{"hostPort": 80, **more}]})


_NODES = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
_NEAR = f"spec.affinity.podAffinity.{REQUIRED}[0]"
_SPREAD = "spec.topologySpreadConstraints[0]"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an operator": (matching(expression("a", "Near", "b")), f"{_NODES}.operator"),
    "no values": (matching(expression("a", "In")), f"{_NODES}.values"),
    "values of Exists": (matching(expression("a", "Exists", "b")), f"{_NODES}.values"),
    "no number": (matching(expression("a", "Gt", "b")), f"{_NODES}.values"),
    "two numbers": (matching(expression("a", "Lt", "1", "2")), f"{_NODES}.values"),
    "no key": (matching(expression("", "Exists")), f"{_NODES}.key"),
    "a field of nodes": (
        pod(affinity=node_affinity({"matchFields": [expression("metadata.uid", "In", "x")]})),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].key",
    ),
    "a number for labels of pods": (
        near(term(labelSelector={"matchExpressions": [expression("a", "Gt", "1")]})),
        f"{_NEAR}.labelSelector.matchExpressions[0].operator",
    ),
    "no topology key": (near(term(topologyKey="")), f"{_NEAR}.topologyKey"),
    "a selector of namespaces": (
        near(term(namespaceSelector={"matchExpressions": [expression("a", "Odd")]})),
        f"{_NEAR}.namespaceSelector.matchExpressions[0].operator",
    ),
    "a weight": (
        pod(affinity={"podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": term()}]}}),
        f"spec.affinity.podAffinity.{PREFERRED}[0].weight",
    ),
    "a skew": (spread(maxSkew=0), f"{_SPREAD}.maxSkew"),
    "what to do": (spread(whenUnsatisfiable="Cry"), f"{_SPREAD}.whenUnsatisfiable"),
    "domains": (spread(minDomains=0), f"{_SPREAD}.minDomains"),
    "a policy": (spread(nodeTaintsPolicy="Maybe"), f"{_SPREAD}.nodeTaintsPolicy"),
    "a toleration": (
        pod(tolerations=[{"key": "a", "operator": "Like"}]),
        "spec.tolerations[0].operator",
    ),
    "a toleration of nothing": (pod(tolerations=[{"value": "x"}]), "spec.tolerations[0].key"),
    "an effect": (
        pod(tolerations=[{"key": "a", "effect": "Never"}]),
        "spec.tolerations[0].effect",
    ),
    "a port": (port(hostPort=70_000), "spec.containers[0].ports[0].hostPort"),
    "a protocol": (port(protocol="IPX"), "spec.containers[0].ports[0].protocol"),
    "a claim": (
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        "spec.volumes[0].persistentVolumeClaim",
    ),
    "a volume of its own": (
        pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]),
        "spec.volumes[0].ephemeral",
    ),
    "a disk": (pod(volumes=[{"name": "v", "rbd": {}}]), "spec.volumes[0].rbd"),
    "devices by claim": (pod(resourceClaims=[{"name": "g"}]), "spec.resourceClaims[0]"),
    "a preemption policy": (pod(preemptionPolicy="Always"), "spec.preemptionPolicy"),
    "a priority": (pod(priority=1 << 40), "spec.priority"),
}


@pytest.mark.parametrize(("manifest", "field"), WRONG.values(), ids=WRONG)
def test_what_is_not_understood_is_told(manifest: dict[str, Any], field: str) -> None:
    (problem,) = wrong(manifest)
    assert problem.field == field
    assert problem.fix


def test_no_containers() -> None:
    given = pod()
    given["spec"]["containers"] = []
    (problem,) = wrong(given)
    assert problem.field == "spec.containers"

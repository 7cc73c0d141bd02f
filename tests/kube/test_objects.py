"""Objects as the server sends them: nulls, unknown fields, and values of the wrong type."""

from __future__ import annotations

import pytest

from mooring.kube.objects import (
    Container,
    ContainerPort,
    Node,
    Pod,
    PodDisruptionBudget,
    Unreadable,
    read,
    read_pod,
)


def test_nothing_missing_is_a_mistake() -> None:
    assert read_pod(b"{}") == Pod()
    assert read(Node, {}) == Node()


def test_unknown_fields_do_not_matter() -> None:
    assert read_pod(b'{"metadata": {"managedFields": [{"x": 1}]}, "new": {}}') == Pod()


def test_null_is_as_good_as_absent() -> None:
    spec = b'{"containers": [null], "priority": null}'
    found = read_pod(b'{"metadata": {"labels": null, "name": "a"}, "spec": ' + spec + b"}")
    assert isinstance(found, Pod)
    assert found.metadata.name == "a"
    assert found.spec.containers == ()


def test_names_are_those_of_the_server() -> None:
    ports = b'[{"hostPort": 80, "hostIP": "::1"}]'
    found = read_pod(b'{"spec": {"containers": [{"ports": ' + ports + b'}], "nodeName": "n"}}')
    assert isinstance(found, Pod)
    assert found.spec.node_name == "n"
    assert found.spec.containers == (Container(ports=(ContainerPort(80, "::1"),)),)


def test_every_wrong_value_is_told_and_the_rest_is_read() -> None:
    found = read_pod(
        b'{"metadata": {"name": "a", "namespace": "lab", "uid": "u", "labels": {"x": 1}},'
        b' "spec": {"priority": "high", "nodeName": "n", "containers": [{"name": 3}, 7]}}'
    )
    assert isinstance(found, Unreadable)
    assert [(problem.field, problem.value) for problem in found.problems] == [
        ("metadata.labels[...]", "{'x': 1}"),
        ("spec.priority", "high"),
        ("spec.containers[0].name", "3"),
        ("spec.containers[1]", "7"),
    ]
    assert (found.namespace, found.name, found.uid) == ("lab", "a", "u")
    assert found.rest.spec.node_name == "n"
    assert "spec.priority: high" in found.problem


@pytest.mark.parametrize("raw", [b"[]", b"7", b"{", b"\xff"])
def test_what_is_no_object_is_told(raw: bytes) -> None:
    found = read_pod(raw)
    assert isinstance(found, Unreadable)
    assert found.rest == Pod()


def test_a_budget() -> None:
    found = read(PodDisruptionBudget, b'{"status": {"disruptionsAllowed": 2}}')
    assert isinstance(found, PodDisruptionBudget)
    assert found.status.disruptions_allowed == 2
    assert found.spec.selector is None

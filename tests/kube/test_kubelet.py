"""The fake kubelet notices what a scheduler does wrong."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.kubelet import Kubelet, devices_wrong, over_committed, quantity, requests
from tests.kube.plane import node, pod

if TYPE_CHECKING:
    from tests.kube.plane import Plane


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", 2),
        ("500m", Fraction(1, 2)),
        ("2Gi", 2 << 30),
        ("1k", 1000),
        ("1e3", 1000),
        ("0.5", 0.5),
    ],
)
def test_amounts_are_read(text: str, amount: float) -> None:
    assert quantity(text) == amount


def test_a_pod_needs_the_most_of_starting_and_running() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    sidecar = container("1", restartPolicy="Always")
    spec: dict[str, Any] = {"containers": [container("1"), container("1")]}
    assert requests({"spec": spec}) == {"cpu": 2}
    spec["initContainers"] = [container("5"), sidecar, container("3")]
    assert requests({"spec": spec}) == {"cpu": 5}
    spec["initContainers"] = [sidecar, container("5")]
    assert requests({"spec": spec}) == {"cpu": 6}
    spec["overhead"] = {"cpu": "500m"}
    assert requests({"spec": spec}) == {"cpu": Fraction(13, 2)}
    spec["resources"] = {"requests": {"cpu": "9"}}
    assert requests({"spec": spec}) == {"cpu": Fraction(19, 2)}


def given(name: str, devices: str, gpus: int = 0, fraction: str = "") -> dict[str, Any]:
    notes = {"mooring.dev/devices": devices} | ({FRACTION: fraction} if fraction else {})
    return pod(name, gpus, annotations={key: value for key, value in notes.items() if value})


FRACTION = "mooring.dev/gpu-fraction"

DEVICES = {
    "each its own": ([given("a", "0,1", 2), given("b", "2", 1)], ""),
    "halves of one": ([given("a", "0", 0, "0.5"), given("b", "0", 0, "0.5")], ""),
    "one twice": ([given("a", "0", 1), given("b", "0", 1)], "device 0 is given 2 times"),
    "too much of one": (
        [given("a", "1", 0, "0.5"), given("b", "1", 0, "0.6")],
        "device 1 is given 1.1 times",
    ),
    "whole and shared": ([given("a", "1", 0, "0.5"), given("b", "1", 1)], "device 1 is given 1.5"),
    "one that is not there": ([given("a", "4", 1)], "device 4 does not exist"),
    "too few": ([given("a", "0", 2)], "asks for 2 devices and was given 1"),
    "a share of nothing": ([given("a", "", 0, "0.5")], "it is not said which"),
    "slices of one": ([given("a", "0.0"), given("b", "0.1")], ""),
    "a slice twice": ([given("a", "0.0"), given("b", "0.0")], "device 0.0 is given 2 times"),
    "a slice of one that is whole": (
        [given("a", "0.0"), given("b", "0", 1)],
        "device 0 is given whole and in parts",
    ),
    "named and unnamed": (
        [given("a", "0", 0, "0.5"), pod("b", 4)],
        "4 devices and those named ['0'] are more than 4",
    ),
}


@pytest.mark.parametrize(("pods", "said"), DEVICES.values(), ids=DEVICES)
def test_devices_given_twice_are_noticed(pods: list[dict[str, Any]], said: str) -> None:
    problems = list(devices_wrong(pods, node("n", 4)))
    assert len(problems) == bool(said)
    assert said in "".join(problems)


def test_too_many_pods_are_noticed() -> None:
    room = {"cpu": Fraction(2), "memory": Fraction(8 << 30), "pods": Fraction(2)}
    assert list(over_committed([pod("a"), pod("b")], room)) == []
    three = [pod(name) for name in "abc"]
    assert list(over_committed(three, room)) == ["cpu: 3 asked of 2", "pods: 3 asked of 2"]


def test_an_overfull_node_fails_the_test(plane: Plane, namespace: str) -> None:
    plane.nodes(1, gpus=2)
    with Kubelet(plane) as kubelet:
        for name in ("a", "b"):
            plane.api.create(pod(name, 1, namespace=namespace, nodeName="node-0"))
        plane.wait_for(lambda: len(kubelet.ran) == 2, what="both run")
        kubelet.check()
        plane.api.create(pod("c", 1, namespace=namespace, nodeName="node-0"))
        plane.wait_for(lambda: kubelet.violations, what="it is noticed")
        with pytest.raises(AssertionError, match=r"node-0: nvidia.com/gpu: 3 asked of 2; there"):
            kubelet.check()


def test_a_pod_takes_its_time_to_stop(plane: Plane, namespace: str, kubelet: Kubelet) -> None:
    plane.nodes(1)
    for name, seconds in (("quick", "0"), ("slow", "1")):
        plane.api.create(
            pod(
                name,
                namespace=namespace,
                nodeName="node-0",
                annotations={"test/stop-seconds": seconds},
            )
        )
    plane.wait_for(lambda: len(kubelet.ran) == 2, what="both run")
    plane.api.delete(f"/api/v1/namespaces/{namespace}/pods")
    plane.wait_for(lambda: len(plane.pods(namespace)) == 1, what="quick is gone")
    assert "deletionTimestamp" in plane.pod("slow", namespace)["metadata"]
    plane.wait_for(lambda: not plane.pods(namespace), what="slow is gone")


def test_a_paused_kubelet_goes_on_later(plane: Plane, namespace: str, kubelet: Kubelet) -> None:
    plane.nodes(1)
    kubelet.paused = True
    plane.api.create(pod("a", namespace=namespace, nodeName="node-0"))
    time.sleep(0.3)
    assert not kubelet.ran
    kubelet.paused = False
    plane.wait_for(lambda: kubelet.ran == {f"{namespace}/a": "node-0"}, what="a runs")

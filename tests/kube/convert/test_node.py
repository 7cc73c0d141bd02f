"""Nodes: what they have, who may use them, their devices, and where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.convert import budget_matches, levels_of
from mooring.kube.objects import PodDisruptionBudget
from mooring.kube.objects import read as read_object
from mooring.model.cluster import Device, Taint
from mooring.model.topology import Level, Topology
from tests.kube.convert.manifests import machine, node_wrong, noded, pod, read

GPU = "nvidia.com/gpu"
A100 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.count": "8",
}


def test_what_a_node_has() -> None:
    found = noded(machine({"cpu": "7910m", "memory": "1025Ki", "rdma/hca": "4"}))
    assert dict(found.capacity) == {"cpu": 7910, "memory": 1, "pods": 110, "rdma/hca": 4}
    assert found.ready
    assert not found.devices
    assert not found.gpu_model


def test_without_allocatable_it_is_all_it_has() -> None:
    given = machine()
    given["status"]["allocatable"] = {}
    assert dict(noded(given).capacity)["cpu"] == 64_000


def test_a_node_that_takes_no_pods_is_not_ready() -> None:
    assert not noded(machine({"pods": "0"})).ready


@pytest.mark.parametrize(
    ("conditions", "is_ready"),
    [
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "False"}], True),
    ],
)
def test_ready(conditions: list[dict[str, str]], is_ready: bool) -> None:
    given = machine()
    given["status"]["conditions"] = conditions
    assert noded(given).ready == is_ready


def test_taints_and_cordon() -> None:
    taints = [{"key": "a", "value": "b", "effect": "NoExecute"}]
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    assert noded(machine(taints=taints)).taints == (Taint("a", "b", "NoExecute"),)
    assert noded(machine(unschedulable=True)).taints == (cordon,)
    told = [{"key": cordon.key, "effect": cordon.effect}]
    assert noded(machine(unschedulable=True, taints=told)).taints == (cordon,)


# -- devices --------------------------------------------------------------------------------


def test_devices_of_the_gpu_operator() -> None:
    found = noded(machine({GPU: "8"}, A100))
    assert found.devices == (Device(81_920),) * 8
    assert found.gpu_model == "NVIDIA-A100-SXM4-80GB"
    assert GPU not in dict(found.capacity)


def test_own_name_of_the_model() -> None:
    assert noded(machine({GPU: "1"}, {**A100, "mooring.dev/gpu-model": "A100"})).gpu_model == "A100"


def test_fewer_devices_than_there_are() -> None:
    """Nobody says which are bad: the last ones."""
    given = machine({GPU: "6"}, A100)
    given["status"]["capacity"] = {GPU: "8"}
    assert [device.healthy for device in noded(given).devices] == [True] * 6 + [False] * 2


def test_devices_without_a_plugin_cannot_be_used() -> None:
    assert [device.healthy for device in noded(machine(labels=A100)).devices] == [False] * 8


def layout(text: str, count: str = "4") -> dict[str, Any]:
    return machine({GPU: count}, annotations={"mooring.dev/device-layout": text})


def test_layout_in_short() -> None:
    found = noded(layout("island=4 switch=2 numa=2 nic=1 unhealthy=3"))
    assert found.devices == (
        Device(switch=0, numa=0, nic=0),
        Device(switch=0, numa=0, nic=1),
        Device(switch=1, numa=1, nic=2),
        Device(switch=1, numa=1, nic=3, healthy=False),
    )


def test_layout_in_full() -> None:
    text = '[{"island": 1, "memory": "40Gi"}, {"healthy": false, "nic": 2}, {"numa": 1}]'
    given = layout(text, "2")
    given["status"]["capacity"] = {GPU: "3"}
    assert noded(given).devices == (
        Device(40_960, island=1),
        Device(healthy=False, nic=2),
        Device(numa=1),
    )


def test_mig_beside_whole_devices() -> None:
    """Four devices are whole; the other four are cut, whichever way, into fourteen instances."""
    found = noded(machine({GPU: "4", "nvidia.com/mig-1g.10gb": "14"}, A100))
    assert [device.mig for device in found.devices] == [""] * 4 + ["a100-80gb"] * 4
    assert dict(found.capacity)["nvidia.com/mig-1g.10gb"] == 14


@pytest.mark.parametrize(
    ("product", "memory", "profiles", "geometry", "devices"),
    [
        ("NVIDIA-A100-SXM4-40GB", "40960", {"1g.5gb": "7"}, "a100-40gb", 1),
        ("NVIDIA-A100-SXM4-40GB", "40960", {"1g.10gb": "4"}, "a100-40gb", 1),
        ("NVIDIA-A100-SXM4-80GB", "81920", {"1g.10gb": "15"}, "a100-80gb", 3),
        ("NVIDIA-H100-80GB-HBM3", "81559", {"3g.40gb": "2", "1g.10gb": "2"}, "h100-80gb", 2),
        ("NVIDIA-H200", "143771", {"7g.141gb": "8"}, "h200-141gb", 8),
        ("NVIDIA-A30", "24576", {"1g.6gb": "4"}, "a30-24gb", 1),
    ],
)
def test_mig_geometry(
    product: str, memory: str, profiles: dict[str, str], geometry: str, devices: int
) -> None:
    has = {f"nvidia.com/mig-{name}": count for name, count in profiles.items()}
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
    found = noded(machine(has, labels))
    assert [device.mig for device in found.devices] == [geometry] * devices


# -- topology -------------------------------------------------------------------------------


def test_labels_of_levels() -> None:
    topology = Topology((Level("zone"), Level("leaf"), Level("rack"), Level("row", label="my/row")))
    assert levels_of(topology) == (
        ("zone", "topology.kubernetes.io/zone"),
        ("leaf", "network.topology.nvidia.com/leaf"),
        ("rack", "topology.mooring.dev/rack"),
        ("row", "my/row"),
    )


LEVELS = (("zone", "z"), ("rack", "r"))


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        ({"z": "z1", "r": "r1"}, ("z1", "r1")),
        ({"z": "z1"}, ("z1", "?n")),
        ({"r": "r1"}, ("", "r1")),
        ({}, ("?n", "?n")),
    ],
    ids=["known", "rack unknown: alone in its zone", "zone unknown", "alone"],
)
def test_path(labels: dict[str, str], path: tuple[str, ...]) -> None:
    assert noded(machine(labels=labels), LEVELS).path == path


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an amount": (machine({"cpu": "x"}), "status.allocatable.cpu"),
    "a taint": (machine(taints=[{"key": "a", "effect": "Odd"}]), "spec.taints[0].effect"),
    "too many devices": (machine({GPU: "63"}), "status.allocatable[nvidia.com/gpu]"),
    "memory": (
        machine({GPU: "1"}, {"nvidia.com/gpu.memory": "80GB"}),
        "metadata.labels[nvidia.com/gpu.memory]",
    ),
    "profiles of two kinds": (
        machine({"nvidia.com/mig-1g.9gb": "1"}),
        "status.allocatable[nvidia.com/mig-1g.9gb]",
    ),
    "a word of the layout": (
        layout("island=4 rack=2"),
        "metadata.annotations[mooring.dev/device-layout]",
    ),
    "a size of the layout": (
        layout("island=0"),
        "metadata.annotations[mooring.dev/device-layout]",
    ),
    "a device that is not there": (
        layout("unhealthy=4"),
        "metadata.annotations[mooring.dev/device-layout]",
    ),
    "JSON": (layout("[{"), "metadata.annotations[mooring.dev/device-layout]"),
    "too few devices": (layout("[{}]"), "metadata.annotations[mooring.dev/device-layout]"),
    "a key of a device": (
        layout('[{}, {"rack": 1}, {}, {}]'),
        "metadata.annotations[mooring.dev/device-layout][1].rack",
    ),
    "a value of a device": (
        layout('[{}, {}, {"numa": -1}, {}]'),
        "metadata.annotations[mooring.dev/device-layout][2].numa",
    ),
}


@pytest.mark.parametrize(("manifest", "field"), WRONG.values(), ids=WRONG)
def test_what_is_not_understood_is_told(manifest: dict[str, Any], field: str) -> None:
    (problem,) = node_wrong(manifest)
    assert problem.field == field


# -- budgets --------------------------------------------------------------------------------

BUDGETS: dict[str, tuple[str, object, bool]] = {
    "its labels": ("lab", {"matchLabels": {"app": "x"}}, True),
    "other labels": ("lab", {"matchLabels": {"app": "y"}}, False),
    "another namespace": ("web", {"matchLabels": {"app": "x"}}, False),
    "everybody": ("lab", {}, True),
    "nobody": ("lab", None, False),
    "an expression": (
        "lab",
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]},
        True,
    ),
    "both": (
        "lab",
        {
            "matchLabels": {"app": "x"},
            "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}],
        },
        False,
    ),
    "an operator that nobody knows": (
        "lab",
        {"matchExpressions": [{"key": "app", "operator": "Like"}]},
        False,
    ),
}


@pytest.mark.parametrize(("namespace", "selector", "is_meant"), BUDGETS.values(), ids=BUDGETS)
def test_whom_a_budget_is_about(namespace: str, selector: object, is_meant: bool) -> None:
    given = {"metadata": {"namespace": namespace}, "spec": {"selector": selector}}
    budget = read_object(PodDisruptionBudget, given)
    assert isinstance(budget, PodDisruptionBudget)
    assert budget_matches(budget, read(pod(labels={"app": "x"}))) == is_meant

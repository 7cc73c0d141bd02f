"""What a file means: units, shorthands, generated nodes, YAML as far as it is taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from mooring.config import load_scenario, read_scenario
from mooring.config.parse import _Builder, parse
from mooring.config.units import cores, duration, mebibytes, units
from mooring.model.cluster import Device, Node, Taint
from mooring.model.events import Adopted
from mooring.model.memory import Memory, TaskType
from mooring.model.queues import Queue
from mooring.model.scenario import Scenario
from mooring.model.topology import Level, Topology
from mooring.model.workload import (
    NodePreference,
    Placement,
    PodGroup,
    Requirement,
    Shape,
    Slice,
    SpreadTerm,
    TaskTerm,
    Toleration,
    TopologyRequest,
    Workload,
)

if TYPE_CHECKING:
    from pathlib import Path


def one_workload(text: str) -> Workload:
    (workload,) = read_scenario(f"workloads: [{{name: w, {text}}}]").waiting
    return workload


def one_shape(text: str) -> Shape:
    return one_workload(text).groups[0].shape


@pytest.mark.parametrize(
    ("given", "millicores"),
    [
        (8, 8000),
        (0.5, 500),
        ("500m", 500),
        ("8", 8000),
        ("1.5", 1500),
        (0.0001, 1),
        ("2k", 2_000_000),
        (0, 0),
        ("100u", 1),
        (1e-07, 1),
    ],
)
def test_cores_are_millicores_rounded_up(given: object, millicores: int) -> None:
    assert cores(given) == millicores


@pytest.mark.parametrize(
    ("given", "mib"),
    [
        ("64Gi", 65_536),
        ("512Mi", 512),
        (1 << 30, 1024),
        (1, 1),
        ("1Ki", 1),
        ("1G", 954),
        ("1e9", 954),
        ("0.5Gi", 512),
        ("2Ti", 2 << 20),
        (0, 0),
    ],
)
def test_bytes_are_mib_rounded_up(given: object, mib: int) -> None:
    assert mebibytes(given) == mib


def test_other_amounts_are_exact() -> None:
    assert (units(8), units("1Gi"), units("2k")) == (8, 1 << 30, 2000)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(90, 90), (0.5, 0.5), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d12h", 129_600), ("0s", 0)],
)
def test_durations_are_seconds(given: object, seconds: float) -> None:
    assert duration(given) == seconds


def test_what_is_left_out_has_its_default() -> None:
    assert read_scenario("{}") == Scenario()
    assert read_scenario("now: 0") == Scenario()


def test_a_listed_node() -> None:
    scenario = read_scenario(
        """
        topology: {levels: [superpod, {name: leaf, bandwidth: 400}]}
        nodes:
          - name: a
            path: [s1, l1]
            cpu: 64
            memory: 512Gi
            pods: 110
            resources: {rdma: 8, none: 0}
            gpus: 4
            gpu_model: H100
            gpu_memory: 80Gi
            island_size: 2
            numa_size: 3
            labels: {zone: x, arch: y}
            taints: [{key: k, value: v}]
            ready: false
        """
    )
    assert scenario.topology == Topology((Level("superpod"), Level("leaf", 400.0)))
    assert scenario.nodes == (
        Node(
            "a",
            capacity=(("cpu", 64_000), ("memory", 524_288), ("pods", 110), ("rdma", 8)),
            labels=(("arch", "y"), ("zone", "x")),
            taints=(Taint("k", "v", "NoSchedule"),),
            ready=False,
            gpu_model="H100",
            devices=(
                Device(81_920, island=0, numa=0),
                Device(81_920, island=0, numa=0),
                Device(81_920, island=1, numa=0),
                Device(81_920, island=1, numa=1),
            ),
            path=("s1", "l1"),
        ),
    )


def test_devices_one_by_one_take_what_the_node_says_of_each() -> None:
    (node,) = read_scenario(
        "nodes: [{name: a, gpu_memory: 1Gi, devices: [{}, {memory: 2Gi, healthy: false, nic: 3}]}]"
    ).nodes
    assert node.devices == (Device(1024), Device(2048, healthy=False, nic=3))


def test_generated_nodes_sort_by_name_and_lie_in_numbered_domains() -> None:
    nodes = read_scenario(
        """
        topology: {levels: [superpod, leaf]}
        nodes: [{count: 1000, name: "node-{i}", per: {leaf: 16, superpod: 256}, gpus: 8}]
        """
    ).nodes
    assert [nodes[i].name for i in (0, 1, 999)] == ["node-0000", "node-0001", "node-0999"]
    assert [node.name for node in nodes] == sorted(node.name for node in nodes)
    assert nodes[0].path == ("superpod-00", "leaf-000")
    assert nodes[999].path == ("superpod-03", "leaf-062")
    assert len(nodes[0].devices) == 8


def test_generated_entries_share_no_domain() -> None:
    nodes = read_scenario(
        """
        topology: {levels: [leaf]}
        nodes:
          - {count: 5, name: "a{i}", per: {leaf: 2}}
          - {name: odd, path: [leaf-00]}
          - {count: 20, name: "b{i}", per: {leaf: 2}}
        """
    ).nodes
    leaves = [node.path[0] for node in nodes]
    assert leaves[:7] == [
        "leaf-000",
        "leaf-000",
        "leaf-001",
        "leaf-001",
        "leaf-002",
        "leaf-00",
        "leaf-003",
    ]
    assert leaves[-1] == "leaf-012"


def test_generated_nodes_may_stand_in_one_domain() -> None:
    nodes = read_scenario("topology: {levels: [leaf]}\nnodes: [{count: 3, path: [x]}]").nodes
    assert [(node.name, node.path) for node in nodes] == [(f"node-0{i}", ("x",)) for i in range(3)]


def test_one_generated_node_needs_no_number() -> None:
    assert [node.name for node in read_scenario("nodes: [{count: 1, name: a}]").nodes] == ["a"]


def test_queues() -> None:
    scenario = read_scenario("queues: [{name: team, parent: root}, root]")
    assert scenario.queues == (Queue("team", "root"), Queue("root"))


def test_a_single_group_stands_on_the_workload() -> None:
    workload = one_workload("tasks: 4, gpus: 8, cpu: 500m, required: node, volume: 1Gi")
    shape = Shape((("cpu", 500),), gpus=8)
    request = TopologyRequest(required="node", volume=1024)
    assert workload == Workload("w", (PodGroup("main", shape, 4, topology=request),))


def test_topology_beside_groups_is_for_all_of_them() -> None:
    workload = one_workload(
        "preferred: node, slices: [{level: node, size: 3}],"
        " groups: [{name: a}, {name: b, required: node, groups: [{name: c, min: 2, max: 5}]}]"
    )
    inner = PodGroup("c", min=2, max=5)
    assert workload.groups == (
        PodGroup("a"),
        PodGroup("b", groups=(inner,), topology=TopologyRequest("node")),
    )
    assert workload.topology == TopologyRequest("", "node", (Slice("node", 3),))


def test_counts() -> None:
    groups = [one_workload(text).groups[0] for text in ("tasks: 3", "max: 3", "min: 0, max: 3")]
    assert [(group.min, group.max) for group in groups] == [(3, 0), (1, 3), (0, 3)]


def test_devices_may_be_asked_for_in_parts() -> None:
    assert one_shape("gpus: 2, milli: 500") == Shape(gpus=2, milli=500)
    assert one_shape("milli: 500") == Shape(gpus=1, milli=500)
    assert one_shape("gpu_memory: 20Gi") == Shape(gpus=1, gpu_memory=20_480)
    assert one_shape("mig: 1g.10gb") == Shape(gpus=1, mig="1g.10gb")


def test_constraints_of_a_shape() -> None:
    assert one_shape(
        """
        gpu_models: [H100, A100], selector: {b: x, a: y}, labels: {app: z}, ports: [80, 22],
        affinity: [[{key: k, values: [v]}], [{key: l, operator: Gt, values: ["3"]}]],
        preferences: [{weight: 5, clauses: [{key: m, operator: Exists}]}],
        tolerations: [{key: t, operator: Exists, effect: NoExecute}, {}],
        near: [{level: node, labels: {app: z}}], apart: [{level: cluster, labels: {}, weight: 7}],
        spread: [{level: node, labels: {app: z}, skew: 2, required: false}]
        """
    ) == Shape(
        gpu_models=("H100", "A100"),
        selector=(("a", "y"), ("b", "x")),
        labels=(("app", "z"),),
        ports=(80, 22),
        affinity=((Requirement("k", "In", ("v",)),), (Requirement("l", "Gt", ("3",)),)),
        preferences=(NodePreference(5, (Requirement("m", "Exists"),)),),
        tolerations=(Toleration("t", "Exists", effect="NoExecute"), Toleration()),
        near=(TaskTerm("node", (("app", "z"),)),),
        apart=(TaskTerm("cluster", (), 7),),
        spread=(SpreadTerm("node", (("app", "z"),), 2, False),),
    )


def test_times_of_a_workload() -> None:
    workload = one_workload(
        "submitted_at: -5, run_limit: 2h, estimate: 90, minimum_run: 30m, restart_cost: 1m,"
        " checkpoint_at: 7, checkpoint_every: 30m, service: true, preemptible: false, priority: -3"
    )
    assert workload == Workload(
        "w",
        (PodGroup("main"),),
        priority=-3,
        submitted_at=-5.0,
        service=True,
        preemptible=False,
        run_limit_s=7200.0,
        estimate_s=90.0,
        minimum_run_s=1800.0,
        checkpoint_at=7.0,
        checkpoint_every_s=1800.0,
        restart_cost_s=60.0,
    )


RUNNING = """
nodes: [{name: a, gpus: 8, cpu: 4}, {name: b, gpus: 2, mig: a100-40gb, cpu: 4}]
workloads:
  - name: w
    %s
    running: true
    started_at: -100
    placements: [%s]
"""


@pytest.mark.parametrize(
    ("shape", "placement", "expected"),
    [
        (
            "{tasks: 2, gpus: 4}",
            "{tasks: [1, 0], nodes: [a, a], devices: [[0, 1, 2, 3], [7, 6, 5, 4]]}",
            Placement("main", (1, 0), ("a", "a"), (0x0F, 0xF0)),
        ),
        (
            "{milli: 500, tasks: 2}",
            "{group: main, nodes: [a, a], devices: [[3], [3]]}",
            Placement("main", (0, 1), ("a", "a"), (8, 8)),
        ),
        (
            "{mig: 2g.10gb, gpus: 2}",
            "{nodes: [b], devices: [[[0, 4], [1, 0]]]}",
            Placement("main", (0,), ("b",), (0b11 << 4 | 0b11 << 8,)),
        ),
        ("{cpu: 1}", "{nodes: [b]}", Placement("main", (0,), ("b",), (0,))),
        ("{cpu: 1}", "{nodes: [b], devices: [[]]}", Placement("main", (0,), ("b",), (0,))),
    ],
    ids=["whole", "shared", "mig", "none", "none, written out"],
)
def test_devices_become_bits(shape: str, placement: str, expected: Placement) -> None:
    (adopted,) = read_scenario(RUNNING % (f"<<: {shape}", placement)).running
    assert adopted.placements == (expected,)
    assert adopted.started_at == -100.0


def test_without_placements_running_work_may_be_anywhere() -> None:
    scenario = read_scenario("workloads: [{name: w, gpus: 1, running: true}]")
    workload = Workload("w", (PodGroup("main", Shape(gpus=1)),))
    assert scenario.running == (Adopted(workload, anywhere=True),)


def test_with_an_empty_list_of_placements_only_the_charge_is_known() -> None:
    scenario = read_scenario("workloads: [{name: w, gpus: 1, running: true, placements: []}]")
    assert scenario.running == (Adopted(Workload("w", (PodGroup("main", Shape(gpus=1)),))),)


@pytest.mark.parametrize(
    "said", ["spot", "{gpu: spot, cpu: spot, pods: spot}", "{main: {gpu: spot, cpu: spot}}"]
)
def test_what_running_work_is_charged_to(said: str) -> None:
    text = "workloads: [{name: w, gpus: 1, cpu: 1, running: true, flavors: FLAVORS}]"
    flavors = dict(read_scenario(text.replace("FLAVORS", said)).running[0].flavors)["main"]
    assert {pair for pair in flavors if pair[0] != "pods"} == {("cpu", "spot"), ("gpu", "spot")}


def test_memory() -> None:
    memory = read_scenario(
        """
        memory:
          mix: [{count: 2.5, cpu: 1, gpus: 2, gpu_models: [H100]}, {count: 1}, {count: 1, milli: 5}]
          arrivals: 7
          mix_at: 3
        """
    ).memory
    assert memory == Memory(
        mix=(
            (TaskType((("cpu", 1000),), 2, 1000, ("H100",)), 2.5),
            (TaskType((), 0, 0, ()), 1.0),
            (TaskType((), 0, 5, ()), 1.0),
        ),
        arrivals=7,
        mix_at=3.0,
    )


def test_json_is_read_too() -> None:
    data = {"now": 5, "nodes": [{"name": "a", "gpus": 2}], "queues": ["default"]}
    assert read_scenario(json.dumps(data)) == read_scenario(yaml.safe_dump(data))


def test_yaml_in_braces_is_yaml() -> None:
    assert read_scenario("{now: 5, queues: [default,]}").now == 5.0


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("now: 5", encoding="utf-8-sig")
    assert load_scenario(file).now == load_scenario(str(file)).now == 5.0
    assert read_scenario("\ufeffnow: 5").now == 5.0


def test_plain_scalars_are_those_of_json() -> None:
    text = "[1, -2, +3, 007, 1.5, .5, 1., 1e3, true, False, null, ~]"
    assert parse(text) == [1, -2, 3, 7, 1.5, 0.5, 1.0, 1000.0, True, False, None, None]
    text = "[yes, 0x1f, 1:30, '1', 2024-01-01, 1_0]"
    assert parse(text) == ["yes", "0x1f", "1:30", "1", "2024-01-01", "1_0"]
    assert parse("[!!str 1, ! 2, '']") == ["1", "2", ""]


def test_keys_are_always_text() -> None:
    assert parse("{1: a, true: b, null: c, &k d: 1, e: *k}") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "d": 1,
        "e": "d",
    }


def test_merge_keys_fill_in_what_is_not_there() -> None:
    text = "[&a {x: 1, y: 2}, &b {y: 3, z: 4}, {<<: [*a, *b], x: 0}, {<<: *b}, {'<<': 5}]"
    assert parse(text)[2:] == [{"x": 0, "y": 2, "z": 4}, {"y": 3, "z": 4}, {"<<": 5}]  # type: ignore[index]


def test_a_mapping_may_merge_itself_and_gains_nothing() -> None:
    assert parse("&a {x: 1, <<: *a}") == {"x": 1}


def test_both_yaml_parsers_build_the_same() -> None:
    """Without the C library the pure one is used."""
    text = "a: &x [1, 'b', {c: *x2}]\nd: *x\n".replace("*x2", "~")
    builders = []
    for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        builder = _Builder()
        for event in yaml.parse(text, Loader=loader):
            builder.observe(event)
        builders.append(builder.root)
    assert builders[0] == builders[1] == {"a": [1, "b", {"c": None}], "d": [1, "b", {"c": None}]}

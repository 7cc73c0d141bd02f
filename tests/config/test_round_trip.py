"""What is written reads back as the same value, here and in any YAML reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.config import (
    PolicyFile,
    dump_policy,
    dump_scenario,
    load_policy,
    read_policy,
    read_scenario,
)
from mooring.config.emit import WIDTH, emit
from mooring.config.parse import parse
from mooring.config.units import (
    bound,
    cores,
    duration,
    mebibytes,
    say_bound,
    say_cores,
    say_duration,
    say_mebibytes,
)
from mooring.model.cluster import Device, Node
from mooring.model.events import Adopted
from mooring.model.memory import Memory, Past
from mooring.model.queues import Flavor, Queue, Quota
from mooring.model.scenario import Scenario
from mooring.model.settings import Eviction, Policy
from mooring.model.workload import Placement, PodGroup, Shape, Workload
from tests.strategies import AWKWARD, durations, instants, policy_files, texts, whole_scenarios

if TYPE_CHECKING:
    from pathlib import Path

amounts = st.integers(0, 1 << 40)


@given(whole_scenarios())
def test_a_scenario_comes_back_the_same(scenario: Scenario) -> None:
    text = dump_scenario(scenario)
    assert read_scenario(text) == scenario
    assert yaml.safe_load(text) == parse(text)


@given(policy_files())
def test_a_policy_comes_back_the_same(policy: PolicyFile) -> None:
    text = dump_policy(policy)
    assert read_policy(text) == policy
    assert yaml.safe_load(text) == parse(text)


def test_a_policy_file_comes_back_the_same(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(dump_policy(PolicyFile()), "utf-8")
    assert load_policy(tmp_path / "policy.yaml") == PolicyFile()


@given(st.sampled_from(("gpu", "cpu", "memory", "pods", "rdma")), st.none() | amounts)
def test_quotas_come_back_the_same(resource: str, amount: int | None) -> None:
    assert bound(resource)(say_bound(resource, amount)) == amount


@given(amounts)
def test_amounts_come_back_the_same(amount: int) -> None:
    assert cores(say_cores(amount)) == amount
    assert mebibytes(say_mebibytes(amount)) == amount


@given(durations)
def test_durations_come_back_the_same(seconds: float) -> None:
    assert duration(say_duration(seconds)) == seconds


@given(
    st.recursive(
        texts | instants | amounts | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6),
    )
)
def test_any_values_come_back_the_same(value: object) -> None:
    text = emit({"value": value})
    assert parse(text) == yaml.safe_load(text) == {"value": value}


def test_awkward_texts_come_back_as_text() -> None:
    values = {"texts": list(AWKWARD), "keys": dict.fromkeys(AWKWARD, 0)}
    text = emit(values)
    assert parse(text) == yaml.safe_load(text) == values


def test_short_things_stand_on_one_line_and_long_ones_on_several() -> None:
    node = Node("a", (("cpu", 500), ("memory", 1024)), devices=(Device(40_960),) * 8)
    labelled = Node("b", labels=tuple((f"key-{i}", "x" * 20) for i in range(5)))
    text = dump_scenario(Scenario(nodes=(node, labelled)))
    assert text.splitlines() == [
        "now: 0",
        "nodes:",
        "  - {name: a, cpu: 500m, memory: 1Gi, gpus: 8, gpu_memory: 40Gi}",
        "  - name: b",
        "    labels:",
        *(f"      key-{i}: {'x' * 20}" for i in range(5)),
    ]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_devices_that_differ_are_listed() -> None:
    node = Node("a", devices=(Device(1024, island=1), Device(1024, healthy=False)))
    assert dump_scenario(Scenario(nodes=(node,))).splitlines()[2:] == [
        "  - {name: a, devices: [{memory: 1Gi, island: 1}, {memory: 1Gi, healthy: false}]}"
    ]


def test_sizes_say_which_devices_belong_together() -> None:
    devices = tuple(Device(island=i // 2, numa=i // 4) for i in range(8))
    text = dump_scenario(Scenario(nodes=(Node("a", devices=devices),)))
    assert "{name: a, gpus: 8, island_size: 2, numa_size: 4}" in text


def test_instances_are_written_by_device_and_first_slice() -> None:
    node = Node("a", devices=(Device(mig="a100-40gb"),) * 2)
    workload = Workload("w", (PodGroup("main", Shape(gpus=3, mig="2g.10gb")),))
    mask = 0b111100 | 0b11 << 8
    running = Adopted(workload, (Placement("main", (0,), ("a",), (mask,)),))
    scenario = Scenario(nodes=(node,), running=(running,))
    text = dump_scenario(scenario)
    assert "devices: [[[0, 2], [0, 4], [1, 0]]]" in text
    assert read_scenario(text) == scenario


def test_what_cannot_be_read_back_is_written_as_it_is() -> None:
    """A place on a node that is gone is no reason not to write the rest."""
    workload = Workload("w", (PodGroup("main", Shape(gpus=1, mig="1g.5gb")),))
    running = Adopted(workload, (Placement("main", (0,), ("gone",), (0b11,)),))
    assert "nodes: [gone], devices: [[[0, 0], [0, 1]]]" in dump_scenario(
        Scenario(running=(running,))
    )


def test_queues_are_written_in_few_words() -> None:
    """Only what is said: devices and not thousandths, durations and not seconds."""
    quotas = Quota("gpu", "H100", 64_000, 128_000), Quota("memory", quota=None), Quota("cpu")
    policy = PolicyFile(
        queues=(
            Queue("org", stop="hold"),
            Queue("a", "org", quotas, run_limit_s=172_800.0),
            Queue("b"),
        ),
        policy=Policy(
            profile="kai",
            flavors=(Flavor("H100"), Flavor("slow", (("tier", "2"),), price=0.5)),
            eviction=Eviction(minimum_run_s=(("leximin", 1800.0), ("quota", 60.0))),
        ),
    )
    assert dump_policy(policy).splitlines() == [
        "queues:",
        "  - {name: org, stop: hold}",
        "  - name: a",
        "    parent: org",
        "    quotas:",
        "      - {resource: gpu, flavor: H100, quota: 64, limit: 128}",
        "      - {resource: memory, quota: unlimited}",
        "      - {resource: cpu}",
        "    run_limit: 2d",
        "  - b",
        "policy:",
        "  profile: kai",
        '  flavors: [H100, {name: slow, labels: {tier: "2"}, price: 0.5}]',
        "  eviction: {minimum_run: {fair-share: 0, move: 0, quantum: 0, quota: 1m}}",
    ]
    assert read_policy(dump_policy(policy)) == policy


def test_a_class_that_the_policy_has_not_is_written_as_a_priority() -> None:
    workload = Workload("w", (PodGroup("main"),), priority=7, priority_class="gone")
    text = dump_scenario(Scenario(waiting=(workload,)))
    assert "{name: w, priority: 7, tasks: 1}" in text
    assert read_scenario(text).waiting[0].priority == 7


def test_a_memory_that_nobody_told_the_reader_of_comes_back() -> None:
    """Whatever its fields are: see `memories`, which draws them by their types."""
    memory = Memory(arrivals=3, pasts=(("w", Past(failures=2, evicted_at=-1.5)),))
    text = dump_scenario(Scenario(memory=memory))
    assert "pasts: [[w, {failures: 2, evicted_at: -1.5}]]" in text
    assert read_scenario(text).memory == memory

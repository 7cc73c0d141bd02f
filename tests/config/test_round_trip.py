"""What is written reads back as the same value, here and in any YAML reader."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.config import dump_scenario, read_scenario
from mooring.config.emit import WIDTH, emit
from mooring.config.parse import parse
from mooring.config.units import (
    cores,
    duration,
    mebibytes,
    say_cores,
    say_duration,
    say_mebibytes,
)
from mooring.model.cluster import Device, Node
from mooring.model.events import Adopted
from mooring.model.scenario import Scenario
from mooring.model.workload import Placement, PodGroup, Shape, Workload
from tests.strategies import AWKWARD, durations, instants, scenarios, texts

amounts = st.integers(0, 1 << 40)


@given(scenarios())
def test_a_scenario_comes_back_the_same(scenario: Scenario) -> None:
    text = dump_scenario(scenario)
    assert read_scenario(text) == scenario
    assert yaml.safe_load(text) == parse(text)


@given(amounts)
def test_amounts_come_back_the_same(amount: int) -> None:
    assert cores(say_cores(amount)) == amount
    assert mebibytes(say_mebibytes(amount)) == amount


@given(durations)
def test_durations_come_back_the_same(seconds: float) -> None:
    assert duration(say_duration(seconds)) == seconds


@given(
    st.recursive(
        texts | instants | amounts | st.booleans(),
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

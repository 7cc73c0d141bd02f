"""The schema is published, agrees with the reader, and covers the model."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from mooring.config import NAMES, dump_scenario, scenario_schema
from mooring.config.parse import parse
from mooring.config.schema import KEYS
from mooring.model.cluster import Device, Node, Taint
from mooring.model.memory import Memory, TaskType
from mooring.model.queues import Queue
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
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
from mooring.policy.profile import BY_DOMAIN
from mooring.policy.score import SCORES
from tests.strategies import scenarios

PUBLISHED = Path(__file__).parents[2] / "docs" / "scenario.schema.json"
VALIDATOR = Draft202012Validator(scenario_schema())


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(scenario_schema())


def test_the_published_schema_is_this_one() -> None:
    """If not: python -m mooring.config > docs/scenario.schema.json"""
    assert json.loads(PUBLISHED.read_text("utf-8")) == scenario_schema()


def test_the_schema_is_published_by_one_command() -> None:
    command = [sys.executable, "-m", "mooring.config"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.decode("utf-8") == PUBLISHED.read_text("utf-8")


def test_nobody_can_change_the_schema() -> None:
    scenario_schema()["$defs"].clear()
    assert scenario_schema()["$defs"]


@given(scenarios())
def test_what_is_written_is_valid(scenario: Scenario) -> None:
    VALIDATOR.validate(parse(dump_scenario(scenario)))


@pytest.mark.parametrize(
    "text",
    [
        "nodez: []",
        "now: soon",
        "nodes: [{cpu: -1}]",
        "nodes: [{memory: 64GB}]",
        "workloads: [{tasks: 1}]",
        "workloads: [{name: w, groups: [{name: a, gpsu: 1}]}]",
        "workloads: [{name: w, estimate: long}]",
        "policy: {small: nothing}",
    ],
)
def test_an_editor_sees_simple_mistakes(text: str) -> None:
    assert not VALIDATOR.is_valid(parse(text))


def test_a_policy_may_name_what_there_is() -> None:
    assert set(NAMES) == {*SCORES, *BY_DOMAIN}


LEAF = {"tasks", "cpu", "memory", "resources"}
"""Keys of a leaf that stand for `min` and for `amounts`."""

MODEL: list[tuple[str, type, set[str], set[str]]] = [
    # kind in the schema, class of the model, fields without a key, keys without a field
    ("topology", Topology, set(), set()),
    ("level", Level, set(), set()),
    (
        "node",
        Node,
        {"capacity"},
        {
            *("count", "per", "cpu", "memory", "pods", "resources", "gpus", "gpu_memory", "mig"),
            *("island_size", "switch_size", "numa_size"),
        },
    ),
    ("device", Device, set(), set()),
    ("taint", Taint, set(), set()),
    ("queue", Queue, set(), set()),
    ("policy", Policy, set(), set()),
    ("requirement", Requirement, set(), set()),
    ("preference", NodePreference, set(), set()),
    ("toleration", Toleration, set(), set()),
    ("term", TaskTerm, set(), set()),
    ("spread_term", SpreadTerm, set(), set()),
    ("slice", Slice, set(), set()),
    ("placement", Placement, set(), set()),
    ("memory", Memory, set(), set()),
    ("task_type", TaskType, {"amounts"}, {"count", "cpu", "memory", "resources"}),
    (
        "scenario",
        Scenario,
        {"waiting", "running"},
        {"workloads"},
    ),
]


@pytest.mark.parametrize(
    ("kind", "class_", "hidden", "added"), MODEL, ids=[row[0] for row in MODEL]
)
def test_every_field_of_the_model_has_a_key(
    kind: str, class_: type, hidden: set[str], added: set[str]
) -> None:
    """A field added to the model must be added to the format too."""
    names = {field.name for field in fields(class_)}
    assert names - hidden == set(KEYS[kind]) - added


def names_of(*classes: type) -> set[str]:
    return {f.name for class_ in classes for f in fields(class_) if not f.name.startswith("_")}


def test_every_field_of_groups_and_workloads_has_a_key() -> None:
    leaf = names_of(Shape, TopologyRequest) - {"amounts"} | LEAF | {"min", "max"}
    assert set(KEYS["group"]) == leaf | names_of(PodGroup) - {"shape", "topology"}
    own = {name.removesuffix("_s") for name in names_of(Workload) - {"topology"}}
    assert set(KEYS["workload"]) == leaf | own | {"running", "started_at", "placements", "finished"}

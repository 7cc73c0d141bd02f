"""The schema is published, agrees with the reader, and covers the model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from mooring.config import (
    NAMES,
    PolicyFile,
    dump_policy,
    dump_scenario,
    policy_schema,
    read_scenario,
    scenario_schema,
)
from mooring.config.parse import parse
from mooring.config.schema import KEYS
from mooring.config.write_policy import key_of
from mooring.model.cluster import Device, Node, Taint
from mooring.model.events import Adopted
from mooring.model.memory import TaskType
from mooring.model.queues import (
    EvictionRules,
    Flavor,
    Fungibility,
    Queue,
    Quota,
    ResourceGroup,
)
from mooring.model.scenario import Scenario
from mooring.model.settings import (
    Backfill,
    Defragmentation,
    Eviction,
    Failure,
    Fairness,
    Headroom,
    Policy,
)
from mooring.model.topology import Level, Topology
from mooring.model.workload import (
    HostPort,
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
from mooring.policy.placing.profile import BY_DOMAIN
from mooring.policy.placing.score import SCORES
from tests.strategies import policy_files, whole_scenarios

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = {"scenario": scenario_schema, "policy": policy_schema}
VALIDATOR = Draft202012Validator(scenario_schema())
POLICY_VALIDATOR = Draft202012Validator(policy_schema())


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_is_one(kind: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind]())


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_published_schema_is_this_one(kind: str) -> None:
    """If not: make docs"""
    published = (DOCS / f"{kind}.schema.json").read_text("utf-8")
    assert json.loads(published) == SCHEMAS[kind]()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_is_published_by_one_command(kind: str) -> None:
    command = [sys.executable, "-m", "mooring.config", *(["policy"] if kind == "policy" else [])]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.decode("utf-8") == (DOCS / f"{kind}.schema.json").read_text("utf-8")


def test_nobody_can_change_the_schema() -> None:
    scenario_schema()["$defs"].clear()
    assert scenario_schema()["$defs"]


@given(whole_scenarios())
def test_what_is_written_is_valid(scenario: Scenario) -> None:
    VALIDATOR.validate(parse(dump_scenario(scenario)))


@given(policy_files())
def test_a_policy_that_is_written_is_valid_and_a_scenario_too(policy: PolicyFile) -> None:
    data = parse(dump_policy(policy))
    POLICY_VALIDATOR.validate(data)
    VALIDATOR.validate(data)
    scenario = read_scenario(dump_policy(policy))
    assert PolicyFile(scenario.topology, scenario.queues, scenario.policy) == policy


def test_every_reference_of_a_schema_leads_somewhere() -> None:
    for schema in (make() for make in SCHEMAS.values()):
        text = json.dumps(schema)
        assert set(re.findall(r'"#/\$defs/(\w+)"', text)) == set(schema["$defs"])


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
        "policy: {profile: kuueue}",
        "policy: {fairness: {strategies: [initial-share, final-share]}}",
        "policy: {eviction: {minimum_run: {whim: 1h}}}",
        "queues: [{name: q, quotas: [{quota: 3}]}]",
        "queues: [{name: q, quotas: [{resource: gpu, quota: -2}]}]",
        "queues: [{name: q, weight: -1}]",
        "workloads: [{name: w, grace: -2}]",
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
    ("quota", Quota, set(), set()),
    ("resource_group", ResourceGroup, set(), set()),
    ("fungibility", Fungibility, set(), set()),
    ("eviction_rules", EvictionRules, set(), set()),
    ("policy", Policy, set(), {"mix_half_life_s", "gang_grace_s"}),
    ("flavor", Flavor, set(), set()),
    ("fairness", Fairness, set(), set()),
    ("eviction", Eviction, set(), set()),
    ("backfill", Backfill, set(), set()),
    ("failure", Failure, set(), set()),
    ("defragmentation", Defragmentation, set(), set()),
    ("headroom", Headroom, set(), set()),
    ("policy_file", PolicyFile, set(), set()),
    ("requirement", Requirement, set(), set()),
    ("preference", NodePreference, set(), set()),
    ("toleration", Toleration, set(), set()),
    ("term", TaskTerm, set(), set()),
    ("spread_term", SpreadTerm, set(), set()),
    ("host_port", HostPort, set(), set()),
    ("slice", Slice, set(), set()),
    ("placement", Placement, set(), set()),
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
    names = {key_of(field.name) for field in fields(class_)}
    assert names - hidden == set(KEYS[kind]) - added


def names_of(*classes: type) -> set[str]:
    return {f.name for class_ in classes for f in fields(class_) if not f.name.startswith("_")}


def test_every_field_of_groups_and_workloads_has_a_key() -> None:
    """The memory needs no keys: its fields are read and written by their types."""
    leaf = names_of(Shape, TopologyRequest) - {"amounts"} | LEAF | {"min", "max", "partial"}
    assert set(KEYS["group"]) == leaf | names_of(PodGroup) - {"shape", "topology"}
    own = {key_of(name) for name in names_of(Workload) - {"topology"}}
    runs = names_of(Adopted) - {"workload", "anywhere"} | {"running"}
    assert set(KEYS["workload"]) == leaf | own | runs

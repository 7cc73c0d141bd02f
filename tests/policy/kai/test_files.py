"""The same through files and the command line: `mooring decide FILE [--settle] -o json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mooring.cli import main
from mooring.config import ConfigError, dump_scenario, read_scenario
from tests.policy.kai.test_allocate import case as allocate_cases
from tests.policy.kai.test_reclaim import case as reclaim_cases
from tests.policy.kai.test_topology import case as topology_cases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.policy.kai.cases import Case

RECLAIM = """
now: 1000
nodes: [{name: n, gpus: 2, gpu_model: H100}]
queues:
  - {name: a, quotas: [{resource: gpu, quota: 1}]}
  - {name: b, quotas: [{resource: gpu, quota: 1}], created_at: 1}
policy: {profile: kai}
workloads:
  - {name: a1, queue: a, gpus: 1, running: true, placements: [{nodes: [n], devices: [[0]]}]}
  - {name: a2, queue: a, gpus: 1, running: true, placements: [{nodes: [n], devices: [[1]]}]}
  - {name: b1, queue: b, gpus: 1}
"""

DEPARTMENTS = """
now: 1000
nodes: [{name: n, gpus: 4, gpu_model: H100}]
queues:
  - {name: red, quotas: [{resource: gpu, quota: 2}]}
  - {name: blue, quotas: [{resource: gpu, quota: 2}]}
  - {name: red-1, parent: red, quotas: [{resource: gpu, quota: unlimited}]}
  - {name: blue-1, parent: blue, quotas: [{resource: gpu, quota: 2, limit: 3, weight: 2}]}
policy: {profile: kai}
workloads:
  - {name: r, queue: red-1, min: 1, max: 4, gpus: 1, running: true,
     placements: [{nodes: [n, n, n, n], devices: [[0], [1], [2], [3]]}]}
  - {name: b, queue: blue-1, tasks: 2, gpus: 1, preemptible: false}
"""

RACKS = """
now: 1000
topology: {levels: [zone, rack]}
nodes:
  - {name: a, path: [z1, r1], gpus: 4}
  - {name: b, path: [z1, r2], gpus: 4}
  - {name: c, path: [z2, r3], gpus: 4}
  - {name: d, path: [z2, r4], gpus: 4}
queues: [{name: q, quotas: [{resource: gpu, quota: 16}]}]
policy: {profile: kai}
workloads:
  - {name: x, queue: q, gpus: 2, preemptible: false, running: true,
     placements: [{nodes: [a], devices: [[0, 1]]}]}
  - name: job
    queue: q
    required: zone
    groups:
      - {name: left, tasks: 4, gpus: 1, required: rack}
      - {name: right, tasks: 4, gpus: 1, required: rack}
"""

OPTIONAL = """
now: 1000
nodes: [{name: n, gpus: 3}]
queues: [q]
policy: {profile: kai}
workloads:
  - name: job
    queue: q
    groups:
      - name: replicas
        needed: 1
        groups:
          - {name: one, tasks: 2, gpus: 1}
          - {name: two, tasks: 2, gpus: 1}
"""

SHARES = """
now: 1000
nodes: [{name: n, gpus: 2, gpu_memory: 40Gi}]
queues: [{name: q, quotas: [{resource: gpu, quota: 2}]}]
policy: {profile: kai}
workloads:
  - {name: half, queue: q, milli: 500}
  - {name: other-half, queue: q, milli: 500}
  - {name: ten, queue: q, gpu_memory: 10Gi}
  - {name: whole, queue: q, gpus: 1}
"""

LIMITS = """
now: 1000
nodes: [{name: n, gpus: 4, cpu: 8}]
queues:
  - {name: q, quotas: [{resource: gpu, quota: 1, limit: 2}, {resource: cpu, quota: -1, limit: 4}]}
policy: {profile: kai}
workloads:
  - {name: first, queue: q, gpus: 1, cpu: 3}
  - {name: second, queue: q, gpus: 1, cpu: 2}
  - {name: third, queue: q, gpus: 2}
  - {name: fourth, queue: q, gpus: 1, preemptible: false}
"""

WAITS_A_WHILE = """
now: 1000
nodes: [{name: n, gpus: 1}]
queues:
  - {name: a, reclaim_minimum_run: 10m}
  - {name: b, quotas: [{resource: gpu, quota: 1}]}
policy: {profile: kai, eviction: {reclaim_minimum_run: 0}}
workloads:
  - {name: a1, queue: a, gpus: 1, running: true, started_at: 900,
     placements: [{nodes: [n], devices: [[0]]}]}
  - {name: b1, queue: b, gpus: 1, preemption_delay: 30s, submitted_at: 990}
"""

ORPHANS = """
now: 1000
nodes: [{name: n, gpus: 4}]
queues:
  - {name: dept, parent: nobody, quotas: [{resource: gpu, quota: 4}]}
  - {name: a, parent: dept, quotas: [{resource: gpu, quota: 4}]}
  - {name: b, quotas: [{resource: gpu, quota: 1}]}
policy: {profile: kai}
workloads:
  - {name: stays, queue: a, gpus: 1, running: true}
  - {name: a1, queue: a, gpus: 1}
  - {name: b1, queue: b, gpus: 1}
  - {name: b2, queue: b, gpus: 3}
"""
"""The orphan and what is below it are out: nothing of theirs starts, nor must it leave."""

INNER = """
now: 1000
nodes: [{name: n, gpus: 4}]
queues: [{name: dept, quotas: [{resource: gpu, quota: 4}]}, {name: a, parent: dept}]
policy: {profile: kai}
workloads:
  - {name: x, queue: dept, gpus: 1}
  - {name: y, queue: nowhere, gpus: 1}
  - {name: z, queue: a, gpus: 1}
"""
"""Work runs in leaves, and in queues that there are."""

MANY_MOVERS = """
now: 1000
nodes: [{name: a, gpus: 20}, {name: b, gpus: 18}]
queues: [{name: q, quotas: [{resource: gpu, quota: 38}]}]
policy: {profile: kai, eviction: {movers: MOST}}
workloads:
  - {name: whole, queue: q, gpus: 20, submitted_at: 100}
""" + "".join(
    f"  - {{name: m{i}, queue: q, gpus: 1, running: true, placements: [{{nodes: [a]}}]}}\n"
    for i in range(18)
)


@pytest.fixture
def decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Return a function that lets the command line decide."""

    def decide(text: str, *options: str) -> dict[str, Any]:
        path = tmp_path / "scenario.yaml"
        path.write_text(text, "utf-8")
        assert main(["decide", str(path), "-o", "json", *options]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return decide


def _running(found: dict[str, Any]) -> dict[str, int]:
    return {
        each["workload"]: sum(group["tasks"] for group in each["groups"])
        for each in found["running"]
    }


def _waiting(found: dict[str, Any]) -> list[str]:
    return [each["workload"] for each in found["waiting"]]


@pytest.mark.parametrize(
    ("text", "running", "waiting"),
    [
        (RECLAIM, {"a1": 1, "b1": 1}, ["a2"]),
        (DEPARTMENTS, {"r": 2, "b": 2}, ["r"]),
        (RACKS, {"x": 1, "job": 8}, []),
        (OPTIONAL, {"job": 2}, ["job"]),
        (SHARES, {"half": 1, "other-half": 1, "ten": 1}, ["whole"]),
        (LIMITS, {"first": 1, "fourth": 1}, ["second", "third"]),
        (WAITS_A_WHILE, {"a1": 1}, ["b1"]),
        (ORPHANS, {"stays": 1, "b1": 1}, ["a1", "b2"]),
        (INNER, {"z": 1}, ["x", "y"]),
    ],
    ids=[
        *("reclaim", "departments", "racks", "optional", "shares", "limits", "waits"),
        *("orphans", "inner"),
    ],
)
def test_files_end_as_they_must(
    decide: Callable[..., dict[str, Any]], text: str, running: dict[str, int], waiting: list[str]
) -> None:
    found = decide(text, "--settle")
    assert found["settled"]
    assert _running(found) == running
    assert _waiting(found) == waiting


@pytest.mark.parametrize(
    ("text", "workload", "what", "name"),
    [
        (ORPHANS, "a1", "parent queue", "nobody"),
        (INNER, "x", "leaf queue", "dept"),
        (INNER, "y", "queue", "nowhere"),
    ],
)
def test_who_is_in_a_queue_that_is_out_is_told_so(
    decide: Callable[..., dict[str, Any]], text: str, workload: str, what: str, name: str
) -> None:
    waiting = {each["workload"]: each["reasons"] for each in decide(text)["waiting"]}
    assert waiting[workload] == [{"kind": "unknown", "group": "", "what": what, "name": name}]


@pytest.mark.parametrize("text", [ORPHANS, INNER])
def test_other_profiles_take_such_queues_for_mistakes(text: str) -> None:
    with pytest.raises(ConfigError, match=r"queues\[0\].parent|workloads\[0\].queue"):
        read_scenario(text.replace("profile: kai", "profile: default"))


def test_one_cycle_evicts_and_keeps_the_room(decide: Callable[..., dict[str, Any]]) -> None:
    found = decide(RECLAIM)
    kinds = [next(iter(each)) for each in found["decisions"]]
    assert _running(found) == {"a1": 1}
    assert _waiting(found) == ["b1"]
    assert len(kinds) == 2


@pytest.mark.parametrize(("most", "moves"), [("16", False), ("-1", True)])
def test_as_many_move_as_the_policy_says(
    decide: Callable[..., dict[str, Any]], most: str, moves: bool
) -> None:
    """Eighteen must go to the other node; of sixteen, KAI looks at seventeen."""
    text = MANY_MOVERS.replace("MOST", most)
    found = decide(text, "--settle")
    assert ("whole" in _running(found)) == moves
    assert len(_running(found)) == 18 + moves


def test_racks_are_told(decide: Callable[..., dict[str, Any]]) -> None:
    job = next(e for e in decide(RACKS, "--settle")["running"] if e["workload"] == "job")
    racks = {group["group"]: group["domains"]["rack"] for group in job["groups"]}
    assert racks == {"left": ["z2/r3"], "right": ["z2/r4"]}


@pytest.mark.parametrize(
    "each",
    [
        each
        for table in (allocate_cases, reclaim_cases, topology_cases)
        for each in table.cases
        if "without a rack" not in each.name
    ][::4],
    ids=lambda each: each.name,
)
def test_a_case_written_to_a_file_ends_the_same(each: Case) -> None:
    assert read_scenario(dump_scenario(each.scenario)) == each.scenario

"""The same through files and the command line: `mooring decide FILE [--settle] -o json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mooring.cli import main
from mooring.config import dump_scenario, read_scenario
from tests.policy.kueue import test_classical, test_fair, test_flavors, test_topology
from tests.policy.kueue.cases import Case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Decide = Callable[..., dict[str, Any]]

TEAMS = """
now: 100
policy:
  profile: kueue
  flavors:
    - {name: on-demand, labels: {type: on-demand}}
    - {name: spot, labels: {type: spot}, taints: [{key: spot}]}
  priority_classes: {low: -10, high: 10}
queues:
  - {name: company, quotas: [{resource: cpu, flavor: on-demand, quota: 2}]}
  - name: a
    parent: company
    quotas:
      - {resource: cpu, flavor: on-demand, quota: 6}
      - {resource: cpu, flavor: spot, quota: 4}
    groups: [{resources: [cpu], flavors: [on-demand, spot]}]
    eviction: {reclaim: any, within_queue: lower-priority}
  - {name: users, parent: a, local: true}
  - name: b
    parent: company
    order: strict
    quotas: [{resource: cpu, flavor: on-demand, quota: 4, borrowing_limit: 6}]
nodes:
  - {name: d1, cpu: 64, labels: {type: on-demand}}
  - {name: s1, cpu: 64, labels: {type: spot}, taints: [{key: spot}]}
workloads:
  - {name: b-run, queue: b, cpu: 2, tasks: 5, running: true, started_at: 1,
     placements: [{nodes: [d1, d1, d1, d1, d1]}]}
"""

# b uses 10 of 12: 4 of its own, 2 of the company, 4 of a.
RECLAIMS = f"{TEAMS}  - {{name: w, queue: users, cpu: 6}}\n"
# 2 are left on demand, and spot is tainted; with a toleration it is the next flavor.
TOLERANT = f"{TEAMS}  - {{name: w, queue: users, cpu: 4, tolerations: [{{key: spot}}]}}\n"
STRICT = f"""{TEAMS}
  - {{name: x, queue: b, cpu: 1, priority_class: high}}
  - {{name: y, queue: a, cpu: 2}}
  - {{name: z, queue: b, cpu: 1}}
"""

RACKS = """
policy: {profile: kueue, flavors: [default]}
topology: {levels: [rack]}
nodes:
  - {name: x1, path: [r1], gpus: 4, cpu: 64}
  - {name: x2, path: [r1], gpus: 4, cpu: 64}
  - {name: y1, path: [r2], gpus: 8, cpu: 64}
queues:
  - name: q
    quotas:
      - {resource: gpu, flavor: default, quota: 12}
      - {resource: pods, flavor: default, quota: 4}
    eviction: {within_queue: lower-priority}
workloads:
  - {name: old, queue: q, gpus: 4, running: true,
     placements: [{nodes: [y1], devices: [[0, 1, 2, 3]]}]}
  - {name: gang, queue: q, gpus: 2, tasks: 3, required: rack}
  - {name: late, queue: q, gpus: 1, submitted_at: 1}
"""

PLAIN = """
policy: {profile: kueue}
queues: [{name: q, quotas: [{resource: gpu, quota: 3}]}]
nodes: [{name: n, gpus: 8, gpu_model: H100, cpu: 8}]
workloads:
  - {name: w1, queue: q, gpus: 2, submitted_at: 1}
  - {name: w2, queue: q, gpus: 2, submitted_at: 2}
  - {name: w3, queue: q, gpus: 1, submitted_at: 3}
"""


@pytest.fixture
def decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Decide:
    def run(text: str, *options: str) -> dict[str, Any]:
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        assert main(["decide", str(file), *options, "-o", "json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


def done(result: dict[str, Any], kind: str) -> list[str]:
    return sorted({d["workload"] for d in result["decisions"] if d["kind"] == kind})


def runs(result: dict[str, Any]) -> str:
    return " ".join(sorted(each["workload"] for each in result["running"]))


class TestTeams:
    def test_quota_is_taken_back(self, decide: Decide) -> None:
        result = decide(RECLAIMS)
        assert done(result, "evict") == ["b-run"]
        assert done(result, "bind") == []

    def test_and_given_to_its_owner(self, decide: Decide) -> None:
        result = decide(RECLAIMS, "--settle")
        assert runs(result) == "w"
        assert result["running"][0]["groups"][0]["flavors"] == ["on-demand"]

    def test_spot_is_for_the_tolerant(self, decide: Decide) -> None:
        result = decide(TOLERANT)
        assert done(result, "evict") == []
        group = {each["workload"]: each["groups"][0] for each in result["running"]}["w"]
        assert (group["flavors"], group["nodes"]) == (["spot"], ["s1"])

    def test_a_strict_queue_at_its_limit(self, decide: Decide) -> None:
        # b may have 10 and has them; x blocks z; y starts on what is a's.
        result = decide(STRICT)
        assert runs(result) == "b-run y"
        reasons = {each["workload"]: each["reasons"][0]["kind"] for each in result["waiting"]}
        assert reasons == {"x": "over-quota", "z": "blocked"}


class TestRacks:
    def test_the_tightest_rack_and_the_count_of_tasks(self, decide: Decide) -> None:
        result = decide(RACKS)
        groups = {each["workload"]: each["groups"][0] for each in result["running"]}
        # r1 takes 4 tasks of 2 devices, r2 only 2; old and gang are 4 tasks, so late waits.
        assert groups["gang"]["domains"] == {"rack": ["r1"]}
        assert groups["gang"]["nodes"] == ["x1", "x2"]
        assert [each["workload"] for each in result["waiting"]] == ["late"]


class TestPlain:
    def test_quota_of_all_flavors_together(self, decide: Decide) -> None:
        assert runs(decide(PLAIN)) == "w1 w3"


TABLES: list[Case] = [
    *[Case(*row[:3]) for row in list(test_classical.CASES.values())[::6]],
    *[Case(*row[:3], fair=row[3]) for row in list(test_fair.CASES.values())[::6]],
    *[Case(*row[:3]) for row in list(test_flavors.CHOICES.values())[::6]],
    *[
        Case(
            test_topology.QUEUES,
            "",
            f"w a cpu=1 {asks}",
            nodes=test_topology.nodes_of(picture),
            levels=test_topology.LEVELS[picture.split(":")[0].count("/") + 1],
        )
        for picture, asks, _ in list(test_topology.PLACES.values())[::6]
    ],
]


@pytest.mark.parametrize("case", TABLES)
def test_a_case_as_a_file_ends_alike(case: Case, decide: Decide) -> None:
    scenario = case.scenario()
    text = dump_scenario(scenario)
    assert read_scenario(text) == scenario
    end, result = case.settle(), decide(text, "--settle")
    assert runs(result) == end.runs
    assert done(result, "evict") == [each.split(":")[0] for each in end.evicts.split()]


def test_reasons_are_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(STRICT)
    main(["decide", str(file)])
    out = capsys.readouterr().out
    assert "may be charged 0 more on-demand cpu" in " ".join(out.split())

"""What becomes of a gang that has lost a node: a new place inside its domain, or a new start."""

from __future__ import annotations

import pytest

from mooring.config import read_scenario
from mooring.model.plan import Evict
from mooring.sim.settle import settle
from tests.policy.kueue.cases import End

BROKEN = """
policy: {{profile: kueue, flavors: [{{name: default, labels: {{f: x}}}}], gang_grace: {grace}}}
topology: {{levels: [rack]}}
nodes: [{nodes}]
queues:
  - name: a
    quotas: [{{resource: cpu, flavor: default, quota: 100}}]
    groups: [{{resources: [cpu], flavors: [default]}}]
    eviction: {{within_queue: lower-priority}}
workloads:
  - {{name: gang, queue: a, priority: 1, cpu: 2, tasks: {tasks}, running: true, {asks},
     placements: [{placements}]}}
{more}
"""
LEFT = "{tasks: [1], nodes: [left]}"
LOW = "  - {name: low, queue: a, cpu: 2, running: true, placements: [{nodes: [spare]}]}"


def end_of(nodes: str, grace: str = "0", more: str = "", **other: str) -> End:
    """Return how it ends; `left=r1:2`: a node, its rack and its cores."""
    found = []
    for word in nodes.split():
        name, _, rest = word.partition("=")
        rack, _, cpu = rest.partition(":")
        found.append(f"{{name: {name}, path: [{rack}], cpu: {cpu}, labels: {{f: x}}}}")
    gang = {"tasks": "2", "asks": "required: rack", "placements": LEFT} | other
    result = settle(
        read_scenario(BROKEN.format(nodes=", ".join(found), grace=grace, more=more, **gang))
    )
    assert result.is_settled
    return End(result.engine, result.decisions)


ENDS = {
    # name: (nodes, what else runs, where the gang ends)
    "in its rack, although another has more room": (
        "left=r1:2 spare=r1:2 far=r2:9",
        "",
        "left=1 spare=1",
    ),
    "no room in its rack: all of it elsewhere": ("left=r1:2 far=r2:9", "", "far=2"),
    "nobody leaves for a replacement": ("left=r1:2 spare=r1:2 far=r2:9", LOW, "far=2"),
}


@pytest.mark.parametrize(("nodes", "more", "where"), ENDS.values(), ids=ENDS)
def test_a_gang_that_has_lost_a_node(nodes: str, more: str, where: str) -> None:
    end = end_of(nodes, more=more)
    assert end.nodes("gang") == where
    assert [d.workload for d in end.decisions if isinstance(d, Evict)] in ([], ["gang"])


def test_with_grace_it_waits_for_room_in_its_rack() -> None:
    end = end_of("left=r1:2 far=r2:9", grace="60")
    assert (end.nodes("gang"), end.evicts) == ("left=1", "")


def test_a_broken_slice_is_mended_in_its_own_rack() -> None:
    end = end_of(
        "left=r1:2 spare=r1:2 far=r2:9 near=r2:2",
        tasks="4",
        asks="slices: [{level: rack, size: 2}]",
        placements="{tasks: [1], nodes: [left]}, {tasks: [2, 3], nodes: [far, far]}",
    )
    assert end.nodes("gang") == "far=2 left=1 spare=1"

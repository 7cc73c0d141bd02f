"""Topology: which domain, tightest level first, and the groups of a workload inside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload
from tests.build import near_by
from tests.policy.kai.cases import Case, Table

case = Table()
RACKS = "r1: a0=4 a1=4 | r2: b0=4 b1=4"
ZONES = "z1/r1: a=4 | z1/r2: b=4 | z2/r3: c=4 | z2/r4: d=4"


def group(name: str, size: str = "1x1", *groups: PodGroup, **facts: str | int) -> PodGroup:
    """Return a group: `2x3` of devices and tasks, `level`, `prefers`, `needed`."""
    each, _, count = size.partition("x")
    least, _, most = count.partition("..")
    topology = TopologyRequest(str(facts.get("level", "")), str(facts.get("prefers", "")))
    if groups:
        needed = int(facts.get("needed", 0))
        return PodGroup(name, topology=topology, groups=groups, needed=needed)
    return PodGroup(
        name,
        Shape(gpus=int(each)),
        int(least),
        int(most or 0),
        topology,
    )


def workload(name: str, queue: str, *groups: PodGroup, **facts: str) -> Workload:
    """Return a workload of several groups; `level` and `prefers` are those of all together."""
    topology = near_by(facts.get("level", ""), facts.get("prefers", ""))
    return Workload(name, groups, queue, topology=topology)


# -- required -------------------------------------------------------------------------------

case(
    "required: all in one domain",
    nodes=RACKS,
    queues="A gpu=16",
    running="x A 4 @a0",
    waiting="a A 4x2 level=rack",
    ends="x a@b0,b1",
)
case(
    "the domain that it fills the most",
    nodes=RACKS,
    queues="A gpu=16",
    running="x A 2 @b0",
    waiting="a A 1x4 level=rack",
    ends="x a@b0,b0,b1,b1",
)
case(
    "of equals the first by name",
    nodes="r2: b0=4 | r1: a0=4",
    queues="A gpu=16",
    waiting="a A 1x2 level=rack",
    ends="a@a0,a0",
)
case(
    "no domain holds it",
    nodes=RACKS,
    queues="A gpu=16",
    running="x A 1 @a0 fixed | y A 1 @b0 fixed",
    waiting="a A 4x2 level=rack",
    ends="x y | waits a",
)
case(
    "a domain is made whole by a move",
    nodes=RACKS,
    queues="A gpu=16",
    running="x A 1 @a0 | y A 1 @b0",
    waiting="a A 4x2 level=rack",
    ends="x@a0 y@a0 a@b0,b1",
    moved="y",
)
case(
    "enough devices in all, but not for each task",
    nodes="r1: a0=3 a1=3 | r2: b0=4 b1=2",
    queues="A gpu=16",
    waiting="a A 2x3 level=rack",
    ends="a@b0,b0,b1",
)
case(
    "what limits is what it has least of",
    # Both racks have 8 devices free; CPU is scarcer in the second, so it would be fuller there.
    nodes="r1: a0=4:cpu=8000 a1=4:cpu=8000 | r2: b0=4:cpu=4000 b1=4:cpu=4000",
    queues="A gpu=16",
    waiting="a A 1x2 cpu=2000 level=rack",
    ends="a@b0,b0",
)
case(
    "nodes without a rack are out",
    nodes="r1: a0=2 | x=8",
    queues="A gpu=16",
    waiting="a A 1x3 level=rack | b A 1x3",
    ends="b@a0,a0,x | waits a",
)
case(
    "more tasks stay in the domain",
    nodes=RACKS,
    queues="A gpu=16",
    running="a A 4x1..3 level=rack @a0 | x A 4 @b0",
    ends="a@a0,a1 x",
)
case(
    "what a node is asked for by: one node for all",
    nodes="r1: a0=2 a1=4",
    queues="A gpu=16",
    waiting="a A 1x3 level=node",
    ends="a@a1,a1,a1",
)

# -- preferred ------------------------------------------------------------------------------

case(
    "preferred: one domain if there is one",
    nodes=RACKS,
    queues="A gpu=16",
    running="x A 4 @a0",
    waiting="a A 4x2 prefers=rack",
    ends="x a@b0,b1",
)
case(
    "else as many as it takes, the freer ones first",
    nodes="r1: a0=4 | r2: b0=4 b1=4",
    queues="A gpu=16",
    running="x A 2 @b0",
    waiting="a A 2x5",
    ends="x a",
)
case(
    "preferred, and more than any domain has: freer domains first",
    nodes="r1: a0=4 a1=4 | r2: b0=4 b1=4",
    queues="A gpu=16",
    running="x A 4 @a0",
    waiting="a A 4x3 prefers=rack",
    ends="x a@a1,b0,b1",
)
case(
    "preferred rack inside a required zone",
    nodes=ZONES,
    queues="A gpu=16",
    running="x A 2 @a",
    waiting="a A 1x4 level=zone prefers=rack",
    ends="x a@b,b,b,b",
)
case(
    "the zone if no rack holds it",
    nodes=ZONES,
    queues="A gpu=16",
    running="x A 2 @a",
    waiting="a A 1x6 level=zone prefers=rack",
    # The first zone has just six left and would be full: rack r2, the freer one, first.
    ends="x a@b,b,b,b,a,a",
)
case(
    "the fuller zone first, and its racks before those of others",
    nodes=ZONES,
    queues="A gpu=16",
    running="x A 2 @c",
    waiting="a A 1x2 prefers=rack",
    ends="x a@c,c",
)

# -- making room in a domain ----------------------------------------------------------------

case(
    "reclaim inside one domain",
    nodes="r1: a0=2 a1=2 | r2: b0=2 b1=2",
    queues="A | B gpu=4",
    running="a1 A 2 @a0 s=1 | a2 A 2 @b0 s=2 | a3 A 2 @a1 s=3 | a4 A 2 @b1 s=4",
    waiting="b B 2x2 level=rack",
    ends="a1@a0 a3@a1 b@b0,b1 | waits a2 a4",
    evicted="a2 a4",
)
case(
    "consolidation makes a domain free",
    nodes="r1: a0=2 a1=2 | r2: b0=2 b1=2",
    queues="A gpu=8",
    running="a1 A 2 @a0 | a2 A 2 @b0",
    waiting="b A 2x2 level=rack",
    ends="a1 a2 b",
    moved="a2",
)
case(
    "preempt inside one domain",
    nodes="r1: a0=2 a1=2 | r2: b0=2 b1=2",
    queues="A gpu=8",
    running="a1 A 2 @a0 p=1 | a2 A 2 @a1 p=9 | a3 A 2 @b0 p=1 | a4 A 2 @b1 p=1",
    waiting="b A 2x2 p=5 level=rack",
    ends="a1 a2 b@b0,b1 | waits a3 a4",
    evicted="a3 a4",
)

# -- groups ---------------------------------------------------------------------------------

case(
    "groups start together",
    nodes="n=3",
    queues="A gpu=8",
    more=(workload("a", "A", group("head"), group("work", "1x2")),),
    ends="a:3",
)
case(
    "or not at all",
    nodes="n=2",
    queues="A gpu=8",
    more=(workload("a", "A", group("head"), group("work", "1x2")),),
    ends="| waits a",
)
case(
    "each group in a rack of its own choice",
    nodes="r1: a0=2 a1=2 | r2: b0=2 b1=2",
    queues="A gpu=8",
    more=(workload("a", "A", group("p", "2x2", level="rack"), group("q", "2x2", level="rack")),),
    ends="a@a0,a1,b0,b1",
)
case(
    "all groups in one zone, each in a rack",
    nodes="z1/r1: a=4 | z1/r2: b=2 | z2/r3: c=4 | z2/r4: d=4",
    queues="A gpu=16",
    more=(
        workload(
            "a",
            "A",
            group("p", "1x4", level="rack"),
            group("q", "1x4", level="rack"),
            level="zone",
        ),
    ),
    ends="a@c,c,c,c,d,d,d,d",
)
case(
    "no looking back: a first choice that leaves no room for the second fails the domain",
    # p could be in either rack and takes the first, with the only node that q could be on.
    nodes="r1: a0=2 | r2: b0=1 b1=1",
    queues="A gpu=8",
    more=(workload("a", "A", group("p", "1x2", level="rack"), group("q", "1x2", level="node")),),
    ends="| waits a",
)
case(
    "a group grows in the rack that it is in, though all together would like one with more room",
    nodes="r1: a=2 | r2: b=2",
    queues="A gpu=8",
    busy=(
        (
            workload("a", "A", group("p"), group("q", "1x1..2", level="rack"), prefers="rack"),
            "a,a",
        ),
    ),
    ends="a@a,a",
)
case(
    "as many groups as are needed",
    nodes="n=2",
    queues="A gpu=8",
    more=(workload("a", "A", group("all", "", group("p", "1x2"), group("q", "1x2"), needed=1)),),
    ends="a:2",
)
case(
    "further groups whole, when there is room",
    nodes="n=4",
    queues="A gpu=8",
    more=(workload("a", "A", group("all", "", group("p", "1x2"), group("q", "1x2"), needed=1)),),
    ends="a:4",
)
case(
    "not by halves",
    nodes="n=3",
    queues="A gpu=8",
    more=(workload("a", "A", group("all", "", group("p", "1x2"), group("q", "1x2"), needed=1)),),
    ends="a:2",
)
case(
    "a surplus group leaves whole",
    nodes="n=4",
    queues="A | B gpu=1",
    busy=(
        (
            workload("a", "A", group("all", "", group("p", "1x2"), group("q", "1x2"), needed=1)),
            "n,n,n,n",
        ),
    ),
    waiting="b B 1",
    ends="a:2 b",
    evicted="a",
)
case(
    "surplus tasks before surplus groups",
    nodes="n=5",
    queues="A | B gpu=1",
    busy=(
        (
            workload("a", "A", group("all", "", group("p", "1x2..3"), group("q", "1x2"), needed=1)),
            "n,n,n,n,n",
        ),
    ),
    waiting="b B 1",
    ends="a:4 b",
    evicted="a",
)
case(
    "and in the end all of it",
    nodes="n=2",
    queues="A | B gpu=1",
    busy=((workload("a", "A", group("p"), group("q")), "n,n"),),
    waiting="b B 1",
    ends="b | waits a",
    evicted="a",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_topology(each: Case) -> None:
    each.check()


def test_slices_are_groups_of_their_own() -> None:
    """Runs of two tasks, each in one rack."""
    table = Table()
    leaf = group("main", "2x4")
    leaf = replace(leaf, topology=near_by("", "", ("rack", 2)))
    table(
        "slices",
        nodes="r1: a0=4 a1=2 | r2: b0=2 b1=2",
        queues="A gpu=16",
        running="x A 1 @a1",
        more=(Workload("a", (leaf,), "A"),),
        ends="x a@a0,a0,b0,b1",
    )
    table.cases[0].check()


def test_a_slice_stays_in_its_rack_though_its_group_prefers_one_with_room() -> None:
    """The second run has begun in a rack that is full now: the rest of it waits."""
    table = Table()
    leaf = replace(group("main", "1x2..4"), topology=near_by("", "rack", ("rack", 2)))
    table(
        "growth",
        nodes="r1: a=3 | r2: b=3",
        queues="A gpu=8",
        busy=((Workload("a", (leaf,), "A"), "a,a,a"),),
        ends="a@a,a,a",
    )
    table.cases[0].check()

"""Reclaim: from other queues, by quota and by fair share; whom, how far, and when not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.model.settings import Eviction
from tests.policy.kai.cases import KAI, Case, Table

case = Table()
FOUR = "a1 A 1 @n | a2 A 1 @n | a3 A 1 @n | a4 A 1 @n"

# -- quota and fair share -------------------------------------------------------------------

case(
    "a queue takes back its quota",
    nodes="n=2",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1",
    ends="a1 b1 | waits a2",
    evicted="a2:quota",
)
case(
    "not from one that is within its own",
    nodes="n=2",
    queues="A gpu=2 | B gpu=1",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1",
    ends="a1 a2 | waits b1",
)
case(
    "beyond quota, by fair share",
    # B wants 1 of 4, so A's share is 3, and it has 4.
    nodes="n=4",
    queues="A | B",
    running=FOUR,
    waiting="b1 B 1",
    ends="a1 a2 a3 b1 | waits a4",
    evicted="a4:fair-share",
)
case(
    "until both have the same",
    nodes="n=4",
    queues="A | B",
    running=FOUR,
    waiting="b1 B 1 | b2 B 1 | b3 B 1",
    ends="a1 a2 b1 b2 | waits a3 a4 b3",
    evicted="a3 a4",
)
case(
    "by weight",
    # 1 : 3 of 4.
    nodes="n=4",
    queues="A w=1 | B w=3",
    running=FOUR,
    waiting="b1 B 1 | b2 B 1 | b3 B 1 | b4 B 1",
    ends="a1 b1 b2 b3 | waits a2 a3 a4 b4",
    evicted="a2 a3 a4",
)
case(
    "by the priority of the queue",
    # All that is left over is B's first.
    nodes="n=4",
    queues="A p=1 | B p=2",
    running=FOUR,
    waiting="b1 B 1 | b2 B 1 | b3 B 1 | b4 B 1 | b5 B 1",
    ends="b1 b2 b3 b4 | waits a1 a2 a3 a4 b5",
    evicted="a1 a2 a3 a4",
)
case(
    "a queue without weight and quota takes nothing",
    nodes="n=4",
    queues="A | B w=0",
    running=FOUR,
    waiting="b1 B 1",
    ends="a1 a2 a3 a4 | waits b1",
)
case(
    "and loses everything",
    nodes="n=2",
    queues="A w=0 | B",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1 | b2 B 1",
    ends="b1 b2 | waits a1 a2",
    evicted="a1 a2",
)
case(
    "the gate: with the workload the queue must stay within its fair share",
    # Shares 2 and 2; b1 asks for 3.
    nodes="n=4",
    queues="A | B",
    running=FOUR,
    waiting="b1 B 1x3",
    ends="a1 a2 a3 a4 | waits b1",
)
case(
    "a quota larger than the cluster is still a claim",
    nodes="n=2",
    queues="A gpu=2 | B gpu=2",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1",
    ends="a1 a2 | waits b1",
)
case(
    "one at quota exactly is not above it",
    nodes="n=3",
    queues="A gpu=2 | B gpu=1 | C",
    running="a1 A 1x2 @n | c1 C 1 @n",
    waiting="b1 B 1",
    ends="a1 b1 | waits c1",
    evicted="c1",
)
case(
    "priority of workloads does not matter between queues",
    nodes="n=2",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1 @n p=90 | a2 A 1 @n p=95",
    waiting="b1 B 1 p=1",
    ends="a2 b1 | waits a1",
    evicted="a1",
)

# -- who leaves -----------------------------------------------------------------------------

case(
    "the youngest of the lowest priority",
    nodes="n=4",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1 @n p=5 s=1 | a2 A 1 @n p=1 s=2 | a3 A 1 @n p=1 s=3 | a4 A 1 @n p=5 s=4",
    waiting="b1 B 1",
    ends="a1 a2 a4 b1 | waits a3",
    evicted="a3",
)
case(
    "of the queue that has most of its share",
    # Shares: quota 1 each and one more for A and for B; A has 3 of 2, B 2 of 2.
    nodes="n=5",
    queues="A gpu=1 | B gpu=1 | C gpu=1",
    running="a1 A 1 @n | a2 A 1 @n | a3 A 1 @n | b1 B 1 @n | b2 B 1 @n",
    waiting="c1 C 1",
    ends="a1 a2 b1 b2 c1 | waits a3",
    evicted="a3",
)
case(
    "one after the other from the fullest",
    # A has 4, B 3; C takes two: a4 first (A 3 of 2.., B 3), then again by what is left.
    nodes="n=7",
    queues="A gpu=1 | B gpu=1 | C gpu=2",
    running="a1 A 1 @n | a2 A 1 @n | a3 A 1 @n | a4 A 1 @n | b1 B 1 @n | b2 B 1 @n | b3 B 1 @n",
    waiting="c1 C 1x2",
    ends="a1 a2 a3 b1 b2 c1 | waits a4 b3",
    evicted="a4 b3",
)
case(
    "what may not be evicted stays",
    nodes="n=2",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1 @n | a2 A 1 fixed @n",
    waiting="b1 B 1",
    ends="a2 b1 | waits a1",
    evicted="a1",
)
case(
    "even if nothing else can be had",
    nodes="n=2",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1 fixed @n | a2 A 1 fixed @n",
    waiting="b1 B 1",
    ends="a1 a2 | waits b1",
)
case(
    "a gang leaves whole, also below its quota",
    nodes="n=4",
    queues="A gpu=3 | B gpu=1",
    running="a1 A 1x4 @n",
    waiting="b1 B 1",
    ends="b1 | waits a1",
    evicted="a1:quota",
)
case(
    "but a smaller one goes first, if it is younger",
    nodes="n=4",
    queues="A gpu=3 | B gpu=1",
    running="a1 A 1x3 @n | a2 A 1 @n",
    waiting="b1 B 1",
    ends="a1 b1 | waits a2",
    evicted="a2",
)
case(
    "only those are taken whose going makes the room",
    # The youngest is on the other node, and too small: its node has no room for two either.
    nodes="n0=2 n1=2",
    queues="A gpu=2 | B gpu=2",
    running="a1 A 1 @n0 s=1 | a2 A 1 @n0 s=2 | x A 1 fixed @n1 s=3 | a3 A 1 @n1 s=4",
    waiting="b1 B 2",
    ends="a3 b1@n0 x | waits a1 a2",
    evicted="a1 a2",
)
case(
    "a gang of victims over two nodes goes whole",
    nodes="n0=2 n1=2",
    queues="A | B gpu=2",
    running="a1 A 1x4 @n0,n0,n1,n1",
    waiting="b1 B 1x2",
    ends="b1 | waits a1",
    evicted="a1",
)

# -- for gangs ------------------------------------------------------------------------------

case(
    "a gang takes what it needs, node by node",
    nodes="n0=2 n1=2 n2=2",
    queues="A | B gpu=4",
    running="a1 A 2 @n0 | a2 A 2 @n1 | a3 A 2 @n2",
    waiting="b1 B 2x2",
    ends="a1@n0 b1@n1,n2 | waits a2 a3",
    evicted="a2 a3",
)
case(
    "free room first",
    nodes="n0=2 n1=2",
    queues="A | B gpu=4",
    running="a1 A 2 @n0",
    waiting="b1 B 2x2",
    ends="b1@n0,n1 | waits a1",
    evicted="a1",
)
case(
    "all of it or nobody leaves",
    nodes="n0=2 n1=2",
    queues="A | B gpu=6",
    running="a1 A 2 @n0 | a2 A 2 @n1",
    waiting="b1 B 2x3",
    ends="a1 a2 | waits b1",
)
case(
    "many small ones on one node for one big one",
    nodes="n0=4 n1=4",
    queues="A gpu=4 | B gpu=4",
    running="a1 A 1 @n0 s=1 | a2 A 1 @n0 s=2 | a3 A 1 @n0 s=3 | a4 A 1 @n0 s=4 | "
    "c1 A 1 @n1 s=5 | c2 A 1 @n1 s=6 | c3 A 1 @n1 s=7 | c4 A 1 @n1 s=8",
    waiting="b1 B 4",
    ends="a1 a2 a3 a4 b1@n1 | waits c1 c2 c3 c4",
    evicted="c1 c2 c3 c4",
)

# -- one that may not be evicted itself -----------------------------------------------------

case(
    "within quota it may take",
    nodes="n=2",
    queues="A | B gpu=1",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1 fixed",
    ends="a1 b1 | waits a2",
    evicted="a2",
)
case(
    "beyond quota it may not",
    nodes="n=2",
    queues="A | B",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1 fixed",
    ends="a1 a2 | waits b1",
)
case(
    "nor beyond the quota of a queue above",
    nodes="n=2",
    queues="A | dept gpu=0 | B <dept gpu=1",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1 fixed",
    ends="a1 a2 | waits b1",
)

# -- levels ---------------------------------------------------------------------------------

case(
    "between departments what counts is their quota",
    nodes="n=4",
    queues="d1 gpu=2 | d2 gpu=2 | A <d1 gpu=4 | C <d2",
    running=FOUR,
    waiting="c1 C 1",
    ends="a1 a2 a3 c1 | waits a4",
    evicted="a4:quota",
)
case(
    "inside a department that of its queues",
    nodes="n=4",
    queues="d1 gpu=4 | A <d1 gpu=2 | B <d1 gpu=2",
    running=FOUR,
    waiting="b1 B 1",
    ends="a1 a2 a3 b1 | waits a4",
    evicted="a4",
)
case(
    "a department within its quota keeps all, whatever its queues have",
    nodes="n=4",
    queues="d1 gpu=4 | d2 | A <d1 | C <d2 gpu=4",
    running=FOUR,
    waiting="c1 C 1",
    ends="a1 a2 a3 a4 | waits c1",
)
case(
    "inside it the fullest queue loses",
    # d1 has 4 of 2: inside, A has 3 of its 1, B 1 of 1.
    nodes="n=4",
    queues="d1 gpu=2 | d2 gpu=2 | A <d1 gpu=1 | B <d1 gpu=1 | C <d2 gpu=2",
    running="a1 A 1 @n | a2 A 1 @n | a3 A 1 @n | b1 B 1 @n",
    waiting="c1 C 1",
    ends="a1 a2 b1 c1 | waits a3",
    evicted="a3",
)
case(
    "three levels deep",
    nodes="n=2",
    queues="o gpu=2 | d1 <o gpu=1 | d2 <o gpu=1 | A <d1 gpu=1 | B <d2 gpu=1",
    running="a1 A 1 @n | a2 A 1 @n",
    waiting="b1 B 1",
    ends="a1 b1 | waits a2",
    evicted="a2",
)

# -- saturation -----------------------------------------------------------------------------

SATURATED: dict[str, Any] = {
    # Department 1 has a share of 1 (no weight), but its queue a quota of 3: a2 would make it twice
    # as full as its share. Department 2 has 4 of its share of 3.
    "nodes": "n=4",
    "queues": "d1 gpu=1 w=0 | d2 gpu=1 | A <d1 gpu=3 | C <d2",
    "running": "c1 C 2 @n | c2 C 2 @n",
    "waiting": "a1 A 2",
}
case(
    "a department does not end up fuller than the one it takes from",
    **SATURATED,
    ends="c1 c2 | waits a1",
)
case(
    "a single device is within its share",
    nodes="n=4",
    queues="d1 gpu=1 w=0 | d2 gpu=1 | A <d1 gpu=3 | C <d2",
    running="c1 C 2 @n | c2 C 2 @n",
    waiting="a1 A 1",
    ends="c1 a1 | waits c2",
    evicted="c2",
)

# -- with moves -----------------------------------------------------------------------------

case(
    "a victim that finds another place is moved, and nothing is reclaimed",
    nodes="n0=2 n1=2",
    queues="A | B gpu=2",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="b1 B 2 fixed",
    ends="a1@n0 a2@n0 b1@n1",
    moved="a2",
)
case(
    "also where its queue could not lose it",
    nodes="n0=2 n1=2",
    queues="A gpu=2 | B gpu=2",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="b1 B 2 fixed",
    ends="a1@n0 a2@n0 b1@n1",
    moved="a2",
)

# -- other resources ------------------------------------------------------------------------

case(
    "CPU is taken back like devices",
    nodes="n=0:cpu=2000",
    queues="A cpu=1000 | B cpu=1000",
    running="a1 A 0 cpu=1000 @n | a2 A 0 cpu=1000 @n",
    waiting="b1 B 0 cpu=1000",
    ends="a1 b1 | waits a2",
    evicted="a2:quota",
)
case(
    "the reclaimer must be within quota in everything",
    # In devices it would be, in CPU it is not: then A must be beyond its share, and it is not.
    nodes="n=2:cpu=4000",
    queues="A gpu=1 cpu=4000 | B gpu=1 cpu=0 cpu.weight=0",
    running="a1 A 1 cpu=1000 @n | a2 A 1 cpu=1000 @n",
    waiting="b1 B 1 cpu=1000",
    ends="a1 a2 | waits b1",
)

# -- several at once ------------------------------------------------------------------------

case(
    "two queues take from the third",
    nodes="n=4",
    queues="A | B gpu=1 | C gpu=1",
    running=FOUR,
    waiting="b1 B 1 | c1 C 1",
    ends="a1 a2 b1 c1 | waits a3 a4",
    evicted="a3 a4",
)
case(
    "the same ask is not tried twice, a smaller one is",
    nodes="n0=1 n1=1",
    queues="A | B gpu=2",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="b1 B 2 | b2 B 2 | b3 B 1",
    ends="a1 b3 | waits a2 b1 b2",
    evicted="a2",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_reclaim(each: Case) -> None:
    each.check()


def test_a_saturation_below_one_counts_as_one() -> None:
    table = Table()
    policy = replace(KAI, eviction=Eviction(saturation=0.1))
    table("below one", **SATURATED, ends="c1 c2 | waits a1", policy=policy)
    table.cases[0].check()

"""Preempt: from lower priorities of a queue. Consolidation: everybody moves, nobody goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.settings import Eviction
from tests.policy.kai.cases import KAI, Case, Table

case = Table()

# -- preempt --------------------------------------------------------------------------------

case(
    "higher priority takes the place of lower",
    nodes="n=1",
    queues="A gpu=1",
    running="a1 A 1 p=1 @n",
    waiting="a2 A 1 p=2",
    ends="a2 | waits a1",
    evicted="a1:preempt",
)
case(
    "equal priority does not",
    nodes="n=1",
    queues="A gpu=1",
    running="a1 A 1 p=2 @n",
    waiting="a2 A 1 p=2",
    ends="a1 | waits a2",
)
case(
    "nor one of another queue",
    nodes="n=1",
    queues="A gpu=1 | B",
    running="a1 A 1 p=1 @n",
    waiting="b1 B 1 p=99",
    ends="a1 | waits b1",
)
case(
    "what may not be evicted stays",
    nodes="n=2",
    queues="A gpu=2",
    running="a1 A 1 p=1 fixed @n | a2 A 1 p=1 @n",
    waiting="a3 A 1 p=5 | a4 A 1 p=5",
    ends="a1 a3 | waits a2 a4",
    evicted="a2",
)
case(
    "the lowest priority first",
    nodes="n=3",
    queues="A gpu=3",
    running="a1 A 1 p=3 @n | a2 A 1 p=1 @n | a3 A 1 p=2 @n",
    waiting="a4 A 1 p=9",
    ends="a1 a3 a4 | waits a2",
    evicted="a2",
)
case(
    "then the youngest",
    nodes="n=3",
    queues="A gpu=3",
    running="a1 A 1 s=3 @n | a2 A 1 s=9 @n | a3 A 1 s=5 @n",
    waiting="a4 A 1 p=9 s=20",
    ends="a1 a3 a4 | waits a2",
    evicted="a2",
)
case(
    "a gang leaves whole",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1x4 @n0,n0,n1,n1",
    waiting="a2 A 1 p=9",
    ends="a2 | waits a1",
    evicted="a1",
)
case(
    "for a gang several leave",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n0 | a3 A 1 @n1 | a4 A 1 @n1",
    waiting="a5 A 2x2 p=9",
    ends="a5 | waits a1 a2 a3 a4",
    evicted="a1 a2 a3 a4",
)
case(
    "nobody leaves in vain",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 p=9 @n0 | a3 A 1 @n1 | a4 A 1 p=9 @n1",
    waiting="a5 A 2 p=9",
    ends="a1 a2 a3 a4 | waits a5",
)
case(
    "only what is in the way",
    nodes="n0=1 n1=2",
    queues="A gpu=3",
    running="a1 A 1 s=9 @n0 | a2 A 2 s=1 @n1",
    waiting="a3 A 2 p=9",
    ends="a1@n0 a3@n1 | waits a2",
    evicted="a2",
)
case(
    "what is free is used first",
    nodes="n=4",
    queues="A gpu=4",
    running="a1 A 1 @n s=1 | a2 A 1 @n s=2 | a3 A 1 @n s=3",
    waiting="a4 A 1x2 p=9",
    ends="a1 a2 a4 | waits a3",
    evicted="a3",
)
case(
    "a limit is made room under as well",
    nodes="n=4",
    queues="A gpu=2 gpu.limit=2",
    running="a1 A 2 p=1 @n",
    waiting="a2 A 2 p=5",
    ends="a2 | waits a1",
    evicted="a1",
)
case(
    "one that may not be evicted stays within quota",
    nodes="n=2",
    queues="A gpu=1",
    running="a1 A 2 @n",
    waiting="a2 A 2 p=9 fixed",
    ends="a1 | waits a2",
)
case(
    "and within it it preempts",
    nodes="n=2",
    queues="A gpu=2",
    running="a1 A 2 @n",
    waiting="a2 A 2 p=9 fixed",
    ends="a2 | waits a1",
    evicted="a1:preempt",
)
case(
    "reclaim comes before: what another queue owes is asked for first",
    nodes="n=2",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1 @n p=1 | b1 B 1 @n p=1 | x A 0 cpu=1 @n",
    waiting="a2 A 1 p=9",
    ends="a2 b1 x | waits a1",
    evicted="a1:preempt",
)
case(
    "beyond quota and share too: preempt asks for no share",
    nodes="n=2",
    queues="A | B gpu=1",
    running="a1 A 1 @n p=1 | b1 B 1 @n",
    waiting="a2 A 1 p=9",
    ends="a2 b1 | waits a1",
    evicted="a1:preempt",
)

case(
    "a victim that finds another place is moved",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 p=1 | a2 A 1 @n1 p=1",
    waiting="a3 A 2 p=9 fixed",
    ends="a1@n0 a2@n0 a3@n1",
    moved="a2",
)
case(
    "what would start and be evicted at once does not start",
    # a2 does not fit beside a1; a3 does, but then a2 takes the room of both.
    nodes="n=2",
    queues="A gpu=2",
    running="a1 A 1 @n p=1",
    waiting="a2 A 2 p=9 | a3 A 1 p=1",
    ends="a2 | waits a1 a3",
    evicted="a1",
    first="",
)

# -- consolidation --------------------------------------------------------------------------

case(
    "one moves so that the room lies together",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="a3 A 2",
    ends="a1@n0 a2@n0 a3@n1",
    moved="a2",
)
case(
    "also one of another queue",
    nodes="n0=2 n1=2",
    queues="A gpu=2 | B gpu=2",
    running="a1 A 1 @n0 | b1 B 1 @n1",
    waiting="a3 A 2",
    ends="a1@n0 b1@n0 a3@n1",
    moved="b1",
)
case(
    "also one of higher priority",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 p=9 | a2 A 1 @n1 p=9",
    waiting="a3 A 2 p=1",
    ends="a1@n0 a2@n0 a3@n1",
    moved="a2",
)
case(
    "not what may not be evicted",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 fixed | a2 A 1 @n1 fixed",
    waiting="a3 A 2",
    ends="a1@n0 a2@n1 | waits a3",
)
case(
    "another one then",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1 fixed",
    waiting="a3 A 2",
    ends="a1@n1 a2@n1 a3@n0",
    moved="a1",
)
case(
    "not for one that may not be evicted itself",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="a3 A 2 fixed",
    ends="a1@n0 a2@n1 | waits a3",
)
case(
    "not where there is not enough free in all",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1 | a4 A 1 @n1",
    waiting="a3 A 2",
    ends="a1 a2 a4 | waits a3",
)
case(
    "nor where a mover would have no place",
    nodes="n0=3 n1=3",
    queues="A gpu=6",
    running="a1 A 2 @n0 | a2 A 2 @n1",
    waiting="a3 A 2",
    ends="a1 a2 | waits a3",
)
case(
    "several move",
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="a1 A 1 @n0 | a2 A 1 @n0 | a3 A 1 @n1 | a4 A 1 @n1",
    waiting="a5 A 4",
    ends="a1@n0 a2@n0 a3@n0 a4@n0 a5@n1",
    moved="a3 a4",
)
case(
    "for a gang",
    nodes="n0=2 n1=2 n2=2 n3=2",
    queues="A gpu=8",
    running="a1 A 1 @n0 | a2 A 1 @n1 | a3 A 1 @n2 | a4 A 1 @n3",
    waiting="a5 A 2x2",
    ends="a1 a2 a3 a4 a5",
    moved="a3 a4",
)
case(
    "of a gang only the task moves that has to",
    # The older a1 is seated before a3, on the node that is fuller then.
    nodes="n0=3 n1=3",
    queues="A gpu=6",
    running="a1 A 1x2 @n0,n1 | a2 A 1 @n1",
    waiting="a3 A 3",
    ends="a1@n1,n1 a2@n1 a3@n0",
    moved="a1",
)
case(
    "not when work is spread",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="a3 A 2",
    policy=replace(KAI, small="spread", gang="spread"),
    ends="a1@n0 a2@n1 | waits a3",
)
case(
    "not when nobody may be moved",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="a3 A 2",
    policy=replace(KAI, eviction=Eviction(movers=0)),
    ends="a1@n0 a2@n1 | waits a3",
)
case(
    "only the first to leave are looked at",
    # Two may be looked at: the youngest, and they do not help.
    nodes="n0=2 n1=2 n2=1 n3=1",
    queues="A gpu=6",
    running="a1 A 1 @n0 s=1 | a2 A 1 @n1 s=2 | x A 1 @n2 s=8 | y A 1 @n3 s=9",
    waiting="a3 A 2",
    policy=replace(KAI, eviction=Eviction(movers=1)),
    ends="a1@n0 a2@n1 x y | waits a3",
)
case(
    "a gang that starts in the same cycle waits whole for room that one of its tasks is moved to",
    # Only n1 has CPU enough for e. For m there is room where the gang was to start.
    nodes="n0=4:cpu=1000 n1=3:cpu=8000",
    queues="A gpu=7",
    running="m A 3 @n1 s=2",
    waiting="e A 1 cpu=4000 s=1 | gang A 1x2 s=3",
    first="",
    moved="m",
    ends="e@n1 m@n0 gang@n0,n1",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_preempt_and_consolidation(each: Case) -> None:
    each.check()

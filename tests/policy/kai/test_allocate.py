"""Allocate: who starts on what is free, in which order, and on which node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policy.kai.cases import KAI, Case, Table

case = Table()
SPREAD = replace(KAI, small="spread", gang="spread")

# -- starting -------------------------------------------------------------------------------

case("one task starts", nodes="n=2", queues="A gpu=1", waiting="a A 1", ends="a@n")
case("no room", nodes="n=1", queues="A gpu=4", waiting="a A 2", ends="| waits a")
case(
    "a gang starts whole",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    waiting="a A 2x2",
    ends="a@n0,n1",
)
case(
    "or not at all",
    nodes="n0=2 n1=1",
    queues="A gpu=4",
    waiting="a A 2x2",
    ends="| waits a",
)
case(
    "nobody keeps room for the first in line: a smaller one takes it",
    nodes="n=2",
    queues="A gpu=4",
    waiting="big A 1x3 | small A 1x2",
    ends="small | waits big",
)
case(
    "room on several nodes does not help a task",
    nodes="n0=1 n1=1",
    queues="A gpu=4",
    waiting="a A 2",
    ends="| waits a",
)
case(
    "not on nodes that are not ready",
    nodes="n0=4:ready=no n1=1",
    queues="A gpu=4",
    waiting="a A 1 | b A 1",
    ends="a@n1 | waits b",
)

# -- order inside a queue -------------------------------------------------------------------

case(
    "higher priority first",
    nodes="n=1",
    queues="A gpu=1",
    waiting="low A 1 p=1 | high A 1 p=9",
    ends="high | waits low",
)
case(
    "then who came first",
    nodes="n=1",
    queues="A gpu=1",
    waiting="late A 1 s=20 | early A 1 s=10",
    ends="early | waits late",
)
case(
    "then the order of coming",
    nodes="n=1",
    queues="A gpu=1",
    waiting="x A 1 s=10 | b A 1 s=10",
    ends="x | waits b",
)

# -- limits and quotas ----------------------------------------------------------------------

case(
    "a limit is a ceiling",
    nodes="n=4",
    queues="A gpu=1 gpu.limit=2",
    waiting="a A 1 | b A 1 | c A 1",
    ends="a b | waits c",
)
case(
    "a gang counts whole against a limit",
    nodes="n=4",
    queues="A gpu=1 gpu.limit=2",
    waiting="a A 1x3 | b A 1x2",
    ends="b | waits a",
)
case(
    "a limit of nothing",
    nodes="n=4",
    queues="A gpu=4 gpu.limit=0",
    waiting="a A 1",
    ends="| waits a",
)
case(
    "the limit of a queue above",
    nodes="n=4",
    queues="dept gpu.limit=2 | A <dept | B <dept",
    waiting="a1 A 1 | a2 A 1 | b1 B 1",
    ends="a1 b1 | waits a2",
)
case(
    "a limit in CPU",
    nodes="n=4",
    queues="A cpu=none cpu.limit=5000 gpu=4",
    waiting="a A 1 cpu=4000 | b A 1 cpu=2000 | c A 1 cpu=1000",
    ends="a c | waits b",
)
case(
    "who may be evicted may use more than its quota",
    nodes="n=4",
    queues="A gpu=1",
    waiting="a A 1 | b A 2",
    ends="a b",
)
case(
    "who may not is bound to the quota",
    nodes="n=4",
    queues="A gpu=1",
    waiting="a A 1 fixed | b A 1 fixed | c A 1",
    ends="a c | waits b",
)
case(
    "only what may not be evicted counts for that",
    nodes="n=4",
    queues="A gpu=2",
    running="a A 1x2 @n",
    waiting="b A 1x2 fixed",
    ends="a b",
)
case(
    "the quota of a queue above binds too",
    nodes="n=4",
    queues="dept gpu=1 | A <dept gpu=4",
    waiting="a A 2 fixed | b A 1 fixed",
    ends="b | waits a",
)
case(
    "no quota, no work that may not be evicted",
    nodes="n=4",
    queues="A gpu=0",
    waiting="a A 1 fixed | b A 1",
    ends="b | waits a",
)
case(
    "quota without bound",
    nodes="n=4",
    queues="A gpu=none",
    waiting="a A 4 fixed",
    ends="a",
)
case(
    "quota in CPU counts where a queue names it",
    nodes="n=4",
    queues="A gpu=4 cpu=1000",
    waiting="a A 1 cpu=2000 fixed | b A 1 cpu=1000 fixed",
    ends="b | waits a",
)

# -- which queues run work ------------------------------------------------------------------

case(
    "only the lowest queues run work",
    nodes="n=4",
    queues="dept gpu=4 | A <dept gpu=4",
    waiting="x dept 1 | a A 1",
    ends="a | waits x",
)
case(
    "a queue whose parent is missing is out",
    nodes="n=4",
    queues="A <nobody gpu=4 | B gpu=1",
    waiting="a A 1 | b B 1",
    ends="b | waits a",
)
case(
    "and all below it",
    nodes="n=4",
    queues="dept <nobody gpu=4 | A <dept gpu=4 | B gpu=1",
    waiting="a A 1 | b B 1",
    ends="b | waits a",
)
case(
    "a queue that does not exist",
    nodes="n=4",
    queues="B gpu=1",
    waiting="a A 1 | b B 1",
    ends="b | waits a",
)

# -- which node -----------------------------------------------------------------------------

case(
    "the fullest node that does",
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="x A 1 @n0 | y A 2 @n1",
    waiting="a A 1",
    ends="x y a@n1",
)
case(
    "not a fuller one that does not",
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="x A 1 @n0 | y A 2 @n1",
    waiting="a A 3",
    ends="x y a@n0",
)
case("of equals the first by name", nodes="b=4 a=4", queues="A", waiting="x A 1", ends="x@a")
case(
    "free devices count, not the part in use",
    nodes="big=8 small=2",
    queues="A",
    running="x A 1x4 @big",
    waiting="a A 1",
    ends="x a@small",
)
case(
    "a gang fills one node after the other",
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="x A 2 @n1",
    waiting="a A 1x5",
    ends="x a@n1,n1,n0,n0,n0",
)
case(
    "a task without devices goes to a node without",
    nodes="g=4 c=0",
    queues="A",
    waiting="a A 0 cpu=1000",
    ends="a@c",
)
case(
    "if there is room",
    nodes="g=4 c=0:cpu=500",
    queues="A",
    waiting="a A 0 cpu=1000",
    ends="a@g",
)
case(
    "tasks without devices are packed by CPU",
    nodes="c0=0:cpu=8000 c1=0:cpu=6000",
    queues="A",
    waiting="a A 0 cpu=1000",
    ends="a@c1",
)
case(
    "spread: the node with the greatest part free",
    nodes="n0=4 n1=4",
    queues="A",
    running="x A 1 @n0",
    waiting="a A 1",
    policy=SPREAD,
    ends="x a@n1",
)
case(
    "spread: a gang one by one",
    nodes="n0=4 n1=4",
    queues="A",
    waiting="a A 1x4",
    policy=SPREAD,
    ends="a@n0,n0,n1,n1",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_allocate(each: Case) -> None:
    each.check()

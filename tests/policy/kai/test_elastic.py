"""Elastic workloads: the minimum first, then one by one; and leaving the other way round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policy.kai.cases import Case, Table, read_workload

case = Table()

case("as many as fit", nodes="n=2", queues="A gpu=2", waiting="a A 1x1..3", ends="a:2")
case("no more than it can use", nodes="n=4", queues="A gpu=4", waiting="a A 1x1..3", ends="a:3")
case("not below its minimum", nodes="n=1", queues="A", waiting="a A 1x2..3", ends="| waits a")
case(
    "one that needs nothing takes what there is",
    nodes="n=2",
    queues="A",
    waiting="a A 1x0..3",
    ends="a:2",
)
case(
    "a running one grows",
    nodes="n=3",
    queues="A gpu=3",
    running="a A 1x1..3 @n",
    ends="a:3",
)
case(
    "minimums come before more",
    nodes="n=3",
    queues="A gpu=3",
    waiting="a A 1x1..3 s=1 | b A 1x2 s=2",
    ends="a:1 b:2",
)
case(
    "they take turns",
    nodes="n=4",
    queues="A gpu=4",
    waiting="a A 1x1..4 s=1 | b A 1x1..4 s=2",
    ends="a:2 b:2",
)
case(
    "the first one has the odd one",
    nodes="n=3",
    queues="A gpu=3",
    waiting="a A 1x1..4 s=1 | b A 1x1..4 s=2",
    ends="a:2 b:1",
)
case(
    "priority comes before the minimum of another",
    nodes="n=3",
    queues="A gpu=3",
    waiting="a A 1x1..4 p=9 | b A 1x1..4 p=1",
    ends="a:3 | waits b",
)
case(
    "a limit ends growth",
    nodes="n=4",
    queues="A gpu=1 gpu.limit=2",
    waiting="a A 1x1..4",
    ends="a:2",
)
case(
    "quota ends the growth of one that may not be evicted",
    nodes="n=4",
    queues="A gpu=3",
    waiting="a A 1x1..4 fixed",
    ends="a:3",
)
case(
    "queues take turns too",
    nodes="n=4",
    queues="A | B",
    waiting="a A 1x1..4 | b B 1x1..4",
    ends="a:2 b:2",
)

# -- leaving --------------------------------------------------------------------------------

case(
    "reclaim takes one task",
    nodes="n=4",
    queues="A gpu=1 | B gpu=1",
    running="a A 1x1..4 @n,n,n,n",
    waiting="b B 1",
    ends="a:3 b:1",
    evicted="a:quota",
)
case(
    "or several",
    nodes="n=4",
    queues="A gpu=1 | B gpu=3",
    running="a A 1x1..4 @n,n,n,n",
    waiting="b B 1x3",
    ends="a:1 b:3",
    evicted="a",
)
case(
    "and all if it must",
    nodes="n=4",
    queues="A | B gpu=4",
    running="a A 1x2..4 @n,n,n,n",
    waiting="b B 1x3",
    ends="b:3 | waits a",
    evicted="a",
)
case(
    "what is above a minimum goes before younger ones at theirs",
    nodes="n=4",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 1x1..3 @n,n,n s=1 | a2 A 1 @n s=2",
    waiting="b B 1",
    ends="a1:2 a2 b",
    evicted="a1",
)
case(
    "fair share is reached task by task",
    nodes="n=4",
    queues="A | B",
    running="a A 1x1..4 @n,n,n,n",
    waiting="b B 1x1..4",
    ends="a:2 b:2",
    evicted="a:fair-share",
)
case(
    "preempt takes the surplus",
    nodes="n=3",
    queues="A gpu=3",
    running="a A 1x1..3 @n,n,n p=1",
    waiting="b A 1 p=9",
    ends="a:2 b",
    evicted="a:preempt",
)
case(
    "one that runs preempts to grow",
    nodes="n=3",
    queues="A gpu=3",
    running="a A 1x1..3 @n p=9 | b A 1 @n p=1 | c A 1 @n p=1",
    ends="a:3 | waits b c",
    evicted="c",
)
case(
    "or reclaims to grow, up to its share",
    # Shares 2 and 2.
    nodes="n=4",
    queues="A | B",
    running="a A 1x1..4 @n | b1 B 1 @n | b2 B 1 @n | b3 B 1 @n",
    ends="a:2 b1 b2 | waits b3",
    evicted="b3",
)
case(
    "the last tasks leave first",
    nodes="n0=2 n1=2",
    queues="A | B gpu=2",
    running="a A 1x1..4 @n0,n0,n1,n1",
    waiting="b B 2",
    ends="a@n0,n0 b@n1",
    evicted="a",
)

case(
    "only what is above its minimum, where that is all that may be evicted",
    nodes="n=3",
    queues="A gpu=3 | B gpu=3",
    busy=((replace(read_workload("a A 1x1..3")[0], semi_preemptible=True), "n,n,n"),),
    waiting="b B 1x2",
    ends="a:3 | waits b",
)
case(
    "beyond its quota it loses that",
    nodes="n=3",
    queues="A gpu=1 | B gpu=3",
    busy=((replace(read_workload("a A 1x1..3")[0], semi_preemptible=True), "n,n,n"),),
    waiting="b B 1x2",
    ends="a:1 b:2",
    evicted="a",
)
case(
    "and no more",
    nodes="n=3",
    queues="A | B gpu=3",
    busy=((replace(read_workload("a A 1x1..3")[0], semi_preemptible=True), "n,n,n"),),
    waiting="b B 1x3",
    ends="a:3 | waits b",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_elastic(each: Case) -> None:
    each.check()

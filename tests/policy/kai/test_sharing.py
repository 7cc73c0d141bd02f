"""Shares of devices: by part and by memory; which device, and what queues are charged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.model.workload import PodGroup, Shape, Workload
from tests.policy.kai.cases import KAI, Case, Table

case = Table()

# -- places ---------------------------------------------------------------------------------

case(
    "two halves share a device",
    nodes="n=2",
    queues="A gpu=2",
    waiting="a A 0.5 | b A 0.5 | c A 1",
    ends="a b c",
)
case(
    "a whole one needs a device that nobody shares",
    nodes="n=1",
    queues="A gpu=2",
    running="x A 0.25 @n",
    waiting="a A 1",
    ends="x | waits a",
)
case(
    "a device that is shared already comes first, on whatever node",
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="x A 0.5 @n1 | y A 3 @n0",
    waiting="a A 0.5",
    ends="x y a@n1",
)
case(
    "if it has enough left",
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="x A 0.75 @n1 | y A 3 @n0",
    waiting="a A 0.5",
    ends="x y a@n0",
)
case(
    "a device in use counts as used: the node is packed",
    # n1 has three whole devices left, n0 four.
    nodes="n0=4 n1=4",
    queues="A gpu=8",
    running="x A 0.5 @n1",
    waiting="a A 1",
    ends="x a@n1",
)
case(
    "shares of two devices each",
    nodes="n=2",
    queues="A gpu=4",
    waiting="a A 0.5 devices=2 | b A 0.5 devices=2 | c A 0.5",
    ends="a b | waits c",
)
case(
    "a part is not put together from two devices",
    nodes="n=2",
    queues="A gpu=4",
    running="x A 0.75 @n/0 | y A 0.75 @n/1",
    waiting="a A 0.5",
    ends="x y | waits a",
)
case(
    "spread: an untouched device first",
    nodes="n=2",
    queues="A gpu=4",
    running="x A 0.5 @n",
    waiting="a A 0.5 | b A 1",
    policy=replace(KAI, small="spread", gang="spread"),
    ends="x a | waits b",
)

# -- charges --------------------------------------------------------------------------------

case(
    "parts are charged as parts",
    nodes="n=4",
    queues="A gpu=1",
    waiting="a A 0.5 fixed | b A 0.5 fixed | c A 0.25 fixed",
    ends="a b | waits c",
)
case(
    "a limit in parts",
    nodes="n=4",
    queues="A gpu=1 gpu.limit=1.5",
    waiting="a A 0.5 | b A 0.75 | c A 0.25 | d A 0.25",
    ends="a b c | waits d",
)
case(
    "reclaim between parts",
    nodes="n=1",
    queues="A gpu=0.5 | B gpu=0.5",
    running="a1 A 0.5 @n | a2 A 0.5 @n",
    waiting="b B 0.5",
    ends="a1 b | waits a2",
    evicted="a2:quota",
)
case(
    "all sharers of a device leave for a whole one",
    nodes="n=1",
    queues="A | B gpu=1",
    running="a1 A 0.5 @n | a2 A 0.5 @n",
    waiting="b B 1",
    ends="b | waits a1 a2",
    evicted="a1 a2",
)
case(
    "of two devices the one that costs less",
    # The youngest stands alone on the second device.
    nodes="n=2",
    queues="A gpu=1 | B gpu=1",
    running="a1 A 0.5 @n/0 s=1 | a2 A 0.5 @n/0 s=2 | a3 A 0.5 @n/1 s=3",
    waiting="b B 1",
    ends="a1 a2 b | waits a3",
    evicted="a3",
)
case(
    "a sharer moves to another shared device",
    nodes="n=2",
    queues="A gpu=2",
    running="a1 A 0.5 @n/0 | a2 A 0.5 @n/1",
    waiting="b A 1",
    ends="a1 a2 b",
    moved="a2",
)
case(
    "preempt between parts",
    nodes="n=1",
    queues="A gpu=1",
    running="a1 A 0.5 @n p=1 | a2 A 0.5 @n p=2",
    waiting="b A 0.5 p=9",
    ends="a2 b | waits a1",
    evicted="a1",
)

# -- by memory ------------------------------------------------------------------------------

case(
    "by memory: a part of the device",
    nodes="n=1:gpumem=10000",
    queues="A gpu=1",
    waiting="a A 1 gpumem=6000 | b A 1 gpumem=4000 | c A 1 gpumem=1000",
    ends="a b | waits c",
)
case(
    "too much for any device",
    nodes="n=1:gpumem=10000",
    queues="A gpu=1",
    waiting="a A 1 gpumem=12000",
    ends="| waits a",
)
case(
    "charged as a part of the device, in hundredths",
    # 3330 of 10000 are 0.34: three times that is more than 1.
    nodes="n=2:gpumem=10000",
    queues="A gpu=1",
    waiting="a A 1 gpumem=3330 fixed | b A 1 gpumem=3330 fixed | c A 1 gpumem=3330 fixed",
    ends="a b | waits c",
)
case(
    "against a limit it counts by the largest device",
    # 5000 of 20000 is a quarter.
    nodes="big=1:gpumem=20000 small=1:gpumem=10000",
    queues="A gpu.limit=0.3",
    waiting="a A 1 gpumem=5000",
    ends="a",
)
case(
    "beyond that it is out",
    nodes="big=1:gpumem=20000 small=1:gpumem=10000",
    queues="A gpu.limit=0.3",
    waiting="a A 1 gpumem=7000",
    ends="| waits a",
)
case(
    "each of them counts",
    # Two of a quarter are a half, three are too much; all are on the small device, or the large.
    nodes="big=1:gpumem=20000",
    queues="A gpu.limit=0.6",
    waiting="a A 1x1..3 gpumem=5000",
    ends="a:2",
)
case(
    "one that waits counts by the smallest device",
    # 5000 is half of the small one: the queue has 0.5.
    nodes="big=1:gpumem=20000 small=1:gpumem=10000",
    queues="A gpu=0.5",
    waiting="a A 1 gpumem=5000 fixed",
    ends="a",
)
case(
    "more than half of it is more than the quota",
    nodes="big=1:gpumem=20000 small=1:gpumem=10000",
    queues="A gpu=0.5",
    waiting="a A 1 gpumem=5500 fixed",
    ends="| waits a",
)
case(
    "reclaim by memory",
    nodes="n=1:gpumem=10000",
    queues="A gpu=0.5 | B gpu=0.5",
    running="a1 A 1 gpumem=5000 @n | a2 A 1 gpumem=5000 @n",
    waiting="b B 1 gpumem=5000",
    ends="a1 b | waits a2",
    evicted="a2:quota",
)

# -- instances ------------------------------------------------------------------------------


def _instance(name: str, queue: str, profile: str, **facts: Any) -> Workload:
    group = PodGroup("main", Shape(gpus=1, mig=profile))
    return Workload(name, (group,), queue, **facts)


def _mig(ends: str, *workloads: Workload, queues: str) -> Case:
    table = Table()
    table("instances", nodes="n=1", queues=queues, more=workloads, ends=ends)
    each = table.cases[0]
    nodes = tuple(
        replace(n, devices=tuple(replace(d, mig="a100-40gb") for d in n.devices))
        for n in each.scenario.nodes
    )
    return replace(each, scenario=replace(each.scenario, nodes=nodes))


def test_an_instance_counts_as_many_devices_as_it_has_compute_slices() -> None:
    """Seven slices: a quota of 3 has room for a 2g and a 1g, and no more."""
    asked = [
        _instance("two", "A", "2g.10gb", preemptible=False),
        _instance("also-two", "A", "2g.10gb", preemptible=False),
        _instance("one", "A", "1g.5gb", preemptible=False),
    ]
    _mig("two one | waits also-two", *asked, queues="A gpu=3").check()


def test_what_is_left_of_instances_is_shared_out() -> None:
    """Seven slices, weights 1 : 1; five instances of 1g each: four for the older queue."""
    asked = [_instance(f"{q}{i}", q.upper(), "1g.5gb") for i in range(5) for q in "ab"]
    _mig("a0 a1 a2 a3 b0 b1 b2 | waits a4 b3 b4", *asked, queues="A | B").check()


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_sharing(each: Case) -> None:
    each.check()

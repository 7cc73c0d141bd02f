"""Which queue is next: all keys of the order, and the fair shares behind them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policy.kai.cases import Case, Table, read_workload

case = Table()

case(
    "a queue over its fair share in everything comes later",
    nodes="n=4:cpu=4000:memory=4096",
    # A: 2 devices, 2 cores, 2 GiB of 1 each; B nothing. One more place.
    queues="A gpu=1 cpu=1000 memory=1024 gpu.weight=0 cpu.weight=0 memory.weight=0 | "
    "B gpu=0 cpu=0 memory=0 p=-5",
    running="x A 1x2 cpu=1000 mem=1 @n | y B 1 cpu=1000 mem=1 @n",
    waiting="a A 1 cpu=1000 mem=1 | b B 1 cpu=1000 mem=1",
    ends="x y b | waits a",
)
case(
    "in quota before beyond quota",
    nodes="n=1",
    queues="A p=9 | B gpu=1",
    waiting="a A 1 | b B 1",
    ends="b | waits a",
)
case(
    "the workload counts: one that would leave the quota is not in it",
    nodes="n=2",
    queues="A gpu=1 | B gpu=2",
    waiting="a A 2 | b B 2",
    ends="b | waits a",
)
case(
    "higher priority of the queue",
    nodes="n=1",
    queues="A p=1 | B p=5",
    waiting="a A 1 | b B 1",
    ends="b | waits a",
)
case(
    "one without any share comes later",
    nodes="n=2",
    # A has weight 0 and no quota: its share is nothing.
    queues="A w=0 | B",
    waiting="a A 2 | b B 2",
    ends="b | waits a",
)
case(
    "one without any share runs on what nobody else wants",
    nodes="n=2",
    queues="A w=0 | B",
    waiting="a A 1 | b B 1",
    ends="a b",
)
case(
    "lower dominant share",
    # A has 2 of 4, B 1 of 4 (both may have 4): the last device is B's.
    nodes="n=4",
    queues="A gpu=4 | B gpu=4",
    running="x A 1x2 @n | y B 1 @n",
    waiting="a A 1 | b B 1",
    ends="x y b | waits a",
)
case(
    "the share is that of what it has most of",
    # With the next one A has 2 of 4 devices; B would have 1 of 4, but has 3 of 4 cores.
    nodes="n=2:cpu=8000",
    queues="A gpu=4 cpu=4000 | B gpu=4 cpu=4000",
    running="x A 1 @n | y B 0 cpu=3000 @n",
    waiting="a A 1 | b B 1",
    ends="x y a | waits b",
)
case(
    "turns are taken, by shares",
    # Total 3: A and B want 2 each, 1.5 each, the older gets the odd one: A 2, B 1.
    nodes="n=3",
    queues="A | B",
    running="x A 1 @n",
    waiting="a A 1 | b1 B 1 | b2 B 1",
    ends="x a b1 | waits b2",
)
case(
    "the smaller share first where all else is equal",
    # Nobody has anything and both want all of theirs: 2 of 2, and 1 of 1.
    nodes="n=2",
    queues="A gpu=2 | B gpu=1",
    waiting="a A 2 | b B 1",
    ends="b | waits a",
)
case(
    "the older queue where all else is equal",
    nodes="n=1",
    queues="A born=7 | B born=3",
    waiting="a A 1 | b B 1",
    ends="b | waits a",
)
case(
    "weights divide what is left over",
    # 6 devices, weights 2 : 1, everybody wants 6: A 4, B 2.
    nodes="n=6",
    queues="A w=2 | B w=1",
    waiting="a1 A 1 | a2 A 1 | a3 A 1 | a4 A 1 | a5 A 1 | a6 A 1 | "
    "b1 B 1 | b2 B 1 | b3 B 1 | b4 B 1 | b5 B 1 | b6 B 1",
    ends="a1 a2 a3 a4 b1 b2 | waits a5 a6 b3 b4 b5 b6",
)
case(
    "quota first, then weight",
    # A has 4 of its quota, and the two left over are divided 1 : 1.
    nodes="n=6",
    queues="A gpu=4 | B",
    waiting="a1 A 1 | a2 A 1 | a3 A 1 | a4 A 1 | a5 A 1 | a6 A 1 | b1 B 1 | b2 B 1 | b3 B 1",
    ends="a1 a2 a3 a4 a5 b1 | waits a6 b2 b3",
)
case(
    "higher priority has all that is left over first",
    nodes="n=4",
    queues="A p=2 | B p=1",
    waiting="a1 A 1 | a2 A 1 | a3 A 1 | b1 B 1 | b2 B 1",
    ends="a1 a2 a3 b1 | waits b2",
)
case(
    "a limit keeps a share for the others",
    nodes="n=4",
    queues="A gpu.limit=1 | B",
    waiting="a1 A 1 | a2 A 1 | b1 B 1 | b2 B 1 | b3 B 1 | b4 B 1",
    ends="a1 b1 b2 b3 | waits a2 b4",
)
case(
    "who wants less leaves the rest to the others",
    nodes="n=4",
    queues="A | B",
    waiting="a1 A 1 | b1 B 1 | b2 B 1 | b3 B 1 | b4 B 1",
    ends="a1 b1 b2 b3 | waits b4",
)
case(
    "three levels: departments first, then their queues",
    # Departments 2 : 2. Inside the first A and B have one each.
    nodes="n=4",
    queues="d1 | d2 | A <d1 | B <d1 | C <d2",
    waiting="a1 A 1 | a2 A 1 | b1 B 1 | b2 B 1 | c1 C 1 | c2 C 1 | c3 C 1",
    ends="a1 b1 c1 c2 | waits a2 b2 c3",
)
case(
    "departments are compared by their best workload",
    # d2 is in quota with c1, d1 is not with anything.
    nodes="n=1",
    queues="d1 | d2 gpu=1 | A <d1 gpu=1 | C <d2",
    waiting="a1 A 1 | c1 C 1",
    ends="c1 | waits a1",
)
case(
    "a hopeless head holds a queue back only in the order",
    nodes="n=2",
    queues="A gpu=4 | B gpu=4",
    waiting="a1 A 4 | a2 A 1 | b1 B 1 | b2 B 1",
    ends="b1 b2 | waits a1 a2",
)

case(
    "who is switched off claims nothing",
    # B has nothing that could start: all four are A's.
    nodes="n=4",
    queues="A | B | C gpu=1",
    running="a1 A 1 @n | a2 A 1 @n | a3 A 1 @n | c1 C 1 @n",
    more=(replace(read_workload("b1 B 1x2")[0], active=False),),
    ends="a1 a2 a3 c1 | waits b1",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_queues(each: Case) -> None:
    each.check()

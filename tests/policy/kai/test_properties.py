"""What must hold in any small world under profile kai, whatever happens there."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.books import bits
from mooring.model.events import NodeJoined, Submitted
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, Reserve
from mooring.model.scenario import Scenario
from mooring.model.workload import TaskState
from mooring.sim.loop import Loop
from mooring.sim.settle import settle
from tests.policy.kai.cases import KAI, on_its_way, read_nodes, read_queues, read_workload

if TYPE_CHECKING:
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload

UNTIL = 60.0


def _nodes(draw: Random) -> str:
    racks = draw.random() < 0.5
    parts = []
    for i in range(draw.randint(1, 5)):
        cores = draw.choice(["", "", ":cpu=1000", ":cpu=4000"])
        rack = f"r{draw.randint(1, 2)}: " if racks else ""
        parts.append(f"{rack}n{i}={draw.choice([0, 1, 2, 2, 4])}{cores}")
    return " | ".join(parts)


def _queues(draw: Random) -> tuple[str, list[str]]:
    found, leaves = [], []
    for d in range(draw.randint(1, 2)):
        deep = draw.random() < 0.5
        if deep:
            found.append(f"d{d} gpu={draw.choice([0, 1, 2, 4, 'none'])} p={draw.randint(0, 1)}")
        for q in range(draw.randint(1, 2)):
            leaves.append(f"q{d}{q}")
            words = [leaves[-1], f"<d{d}" if deep else "", f"gpu={draw.choice([0, 0, 1, 2, 4])}"]
            words += [f"w={draw.choice([0, 1, 1, 2])}", f"p={draw.randint(0, 1)}"]
            words += [f"gpu.limit={draw.randint(0, 4)}"] if draw.random() < 0.2 else []
            words += [f"cpu={draw.choice([0, 1000, 2000])}"] if draw.random() < 0.2 else []
            words += [f"reclaim={draw.choice([0, 50])}"] if draw.random() < 0.2 else []
            found.append(" ".join(words))
    return " | ".join(found), leaves


def _workload(draw: Random, name: str, queues: list[str], *, racks: bool) -> str:
    size = draw.choice(["0", "1", "1", "1", "2", "0.5", "0.25"])
    least = draw.choice([0, 1, 1, 1, 2, 3])
    words = [name, draw.choice(queues), f"{size}x{least}..{max(1, least + draw.randint(0, 2))}"]
    words += [f"cpu={draw.choice([500, 1000])}"] if size == "0" or draw.random() < 0.3 else []
    words += [f"p={draw.randint(0, 2)}"] if draw.random() < 0.5 else []
    words += ["fixed"] if draw.random() < 0.2 else []
    words += [draw.choice(["level=rack", "prefers=rack", "level=node"])] if racks else []
    words += [f"delay={draw.choice([10, 2000])}"] if draw.random() < 0.2 else []
    return " ".join([*words, f"s={draw.randint(0, 5)}"])


def _play(seed: int) -> tuple[Engine, list[Plan]]:
    """Let a world run for a while; return its engine and all plans."""
    draw = Random(seed)
    topology, nodes = read_nodes(_nodes(draw))
    text, leaves = _queues(draw)
    engine = Engine(topology, KAI, queues=read_queues(text))
    for node in nodes:
        engine.observe(NodeJoined(node))
    plans: list[Plan] = []
    loop = Loop(engine, listeners=[lambda now, events, plan: plans.append(plan)])
    at = 0.0
    for i in range(draw.randint(1, 9)):
        racks = bool(topology.levels) and draw.random() < 0.4
        loop.at(at, Submitted(read_workload(_workload(draw, f"w{i}", leaves, racks=racks))[0]))
        at += draw.choice([0.0, 1.0, 1.0])
    for _ in range(100):
        if loop.next_at > UNTIL:
            break
        loop.step()
        _check(engine)
    return engine, plans


def _check(engine: Engine) -> None:
    """Check that books, gangs and quotas are as they must be."""
    books = engine.books
    share = books.usable.astype(np.int64) * 1000
    for name, entry in engine.entries().items():
        for members in entry.members.values():
            for task in members.holding():
                for device in bits(members.devices[task]):
                    row = members.rows[task]
                    share[device, row] -= books.milli(members.demand, row, device)
            active = len(members.staying())
            leaves = TaskState.RELEASING in members.states or name in engine.desk.holds
            assert not active or leaves or active >= members.group.min, f"half a gang: {name}"
    assert (share >= 0).all(), "a device is given twice"
    tree, used, fixed = engine.desk.tree, books.usage_of, books.fixed_of
    for queue in range(tree.count):
        for pair in range(len(tree.pairs)):
            assert used[queue][pair] <= tree.limit[queue][pair]
            if tree.pairs[pair][1] == "gpu":
                assert fixed[queue][pair] <= tree.quota[queue][pair]


def _check_evictions(engine: Engine, plans: list[Plan]) -> None:
    """Check that who leaves for another may leave, and that the other has its place kept."""
    for plan in plans:
        served = {d.workload for d in plan.decisions if isinstance(d, Bind | Reserve)}
        bound = {spot for d in plan.decisions if isinstance(d, Bind) for spot in d.spots}
        gone = [spot for d in plan.decisions if isinstance(d, Evict) for spot in d.spots]
        assert not bound & set(gone), "it comes and leaves in one plan"
        assert len(gone) == len(set(gone)), "it leaves twice"
        for each in plan.decisions:
            if isinstance(each, Evict) and each.beneficiary:
                victim = engine.entries()[each.workload].workload
                winner = engine.entries()[each.beneficiary].workload
                assert victim.preemptible
                assert each.beneficiary in served
                if each.cause == "preempt":
                    assert victim.queue == winner.queue
                    assert victim.priority < winner.priority
                elif each.cause != "move":
                    assert victim.queue != winner.queue


@given(st.integers(0, 1 << 32))
def test_nothing_breaks_and_nobody_leaves_without_right(seed: int) -> None:
    engine, plans = _play(seed)
    _check_evictions(engine, plans)


@given(st.integers(0, 1 << 32))
def test_in_a_world_that_some_leave_nobody_leaves_in_vain(seed: int) -> None:
    """Fair shares of several resources may keep two queues busy with each other; that is so there.

    All others come to rest.
    """
    draw = Random(seed)
    text = _nodes(draw)
    topology, nodes = read_nodes(text)
    queues, leaves = _queues(draw)

    def some(letter: str) -> tuple[Workload, ...]:
        names = [f"{letter}{i}" for i in range(draw.randint(1, 7))]
        words = [_workload(draw, name, leaves, racks="r1" in text) for name in names]
        return tuple(read_workload(each)[0] for each in words)

    start = Scenario(
        1000.0, topology, tuple(nodes), read_queues(queues), KAI, waiting=some("a")
    )  # fmt: skip
    then = settle(start).engine.snapshot(5000.0)
    running = tuple(on_its_way(a) if draw.random() < 0.4 else a for a in then.running)
    after = replace(then, running=running, waiting=(*then.waiting, *some("b")), memory=Memory())
    result = settle(after)
    assert result.is_settled or result.repeats
    owed: dict[str, None] = {}
    for each in result.decisions:
        if isinstance(each, Bind):
            owed.pop(each.workload, None)
        elif isinstance(each, Evict) and each.beneficiary:
            owed[each.beneficiary] = None
    assert not (result.is_settled and owed)


@given(st.integers(0, 1 << 32))
def test_the_same_world_goes_the_same_way(seed: int) -> None:
    _, one = _play(seed)
    _, other = _play(seed)
    assert one == other


@given(st.integers(0, 1 << 32))
def test_a_fork_decides_like_the_engine(seed: int) -> None:
    engine, _ = _play(seed)
    fork = engine.fork()
    for workload in ("new q00 1 p=9", "more q00 1x1..2 fixed"):
        event = Submitted(read_workload(workload)[0])
        engine.observe(event)
        fork.observe(event)
    assert engine.decide(UNTIL + 1).decisions == fork.decide(UNTIL + 1).decisions

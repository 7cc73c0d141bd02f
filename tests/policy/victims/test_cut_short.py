"""A search that is cut short goes on in the next cycle, until it is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.engine import Engine
from mooring.model.events import Adopted, NodeJoined, Submitted
from mooring.model.plan import CutShort
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Eviction, Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement
from tests.build import evicts, gang, group, node, task, workload

if TYPE_CHECKING:
    from mooring.model.plan import Plan

NOW = 100_000.0
MANY = 20_000
RACKS = Topology((Level("rack"),))


def crowded(steps: int, *wanted: int) -> Engine:
    """Return two racks of two nodes with four GPUs, borrowed by eight others, and one that waits.

    It wants parts of so many GPUs in one rack, or two of four: a whole rack must be empty, so that
    most sets will not do.
    """
    policy = Policy(eviction=Eviction(steps=steps, consolidates=False))
    queues = (Queue("own", quotas=(Quota("gpu", quota=8000),)), Queue("borrow"))
    engine = Engine(RACKS, policy, queues=queues)
    names = ("a1", "a2", "b1", "b2")
    for name in names:
        engine.observe(NodeJoined(node(name, 4, name[0])))
    elastic = replace(gang("e", tasks=1, most=3, gpus=1, queue="borrow"), checkpoint_at=NOW)
    engine.observe(Adopted(elastic, (Placement("main", (0, 1, 2), names[:3], (8, 8, 8)),)))
    for i in range(7):
        where, device = names[i % 4], 1 << i // 4
        since = 1000.0 * (1 + i * 7 % 10)
        work = replace(task(f"v{i}", queue="borrow"), checkpoint_at=NOW - since)
        engine.observe(Adopted(work, (Placement("main", (0,), (where,), (device,)),)))
    parts = [group(f"g{i}", gpus=gpus) for i, gpus in enumerate(wanted or (4, 4))]
    waits = workload("p", *parts, level="rack")
    engine.observe(Submitted(replace(waits, queue="own", submitted_at=NOW)))
    return engine


def settled(engine: Engine, pause_s: float = 0.0, most: int = 2000) -> list[Plan]:
    """Decide again as long as the engine asks for it at once; return all plans."""
    now = NOW
    plans = [engine.decide(now)]
    while not plans[-1].decisions and plans[-1].wake_at is not None:
        if plans[-1].wake_at > now:
            break
        now += pause_s
        plans.append(engine.decide(now))
        assert len(plans) < most
    return plans


@pytest.mark.parametrize("steps", [1, 3, 7])
@pytest.mark.parametrize("pause_s", [0.0, 1.0])
def test_a_cut_search_goes_on_until_it_finds_what_an_uncut_one_finds(
    steps: int, pause_s: float
) -> None:
    """Nothing happens meanwhile: the engine asks to be called again, and goes on from there."""
    (at_once,) = settled(crowded(MANY))
    assert evicts(at_once)

    plans = settled(crowded(steps), pause_s)

    assert len(plans) > 3
    assert evicts(plans[-1]) == evicts(at_once)


def test_it_says_that_it_was_cut_short_and_goes_on() -> None:
    engine = crowded(3)

    plan = engine.decide(NOW)

    assert plan.wake_at == NOW
    assert CutShort(3, goes_on=True) in engine.reasons("p")


def test_a_search_that_comes_to_nothing_comes_to_rest() -> None:
    """Two parts of three leave one GPU on either node. When everything was tried, that is told."""
    engine = crowded(1, 3, 3, 2)
    plans = settled(engine)

    assert len(plans) > 1
    assert plans[-1].wake_at is None
    assert not any(isinstance(reason, CutShort) for reason in engine.reasons("p"))
    assert engine.decide(NOW + 1).decisions == ()


def test_a_fork_goes_on_as_its_original_does() -> None:
    engine = crowded(3)
    engine.decide(NOW)
    engine.decide(NOW)

    fork = engine.fork()

    here, there = settled(engine), settled(fork)
    assert len(here) == len(there) > 1
    assert here[-1] == there[-1]


def test_what_changes_meanwhile_begins_the_search_anew() -> None:
    """One of those in the way is over: what was found before no longer holds."""
    engine = crowded(3)
    for _ in range(4):
        assert engine.decide(NOW).decisions == ()
    other = crowded(MANY)
    for each in (engine, other):
        each.observe(NodeJoined(node("c1", 1, "c")))

    (at_once,) = settled(other)
    plans = settled(engine)

    assert evicts(plans[-1]) == evicts(at_once)

"""The court itself: bounds that are told, quiet cycles, and reasons for all who wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.engine import Engine
from mooring.model.events import PolicyChanged, QueuesChanged, Submitted
from mooring.model.plan import (
    Behind,
    Bind,
    CutShort,
    Evict,
    Impossible,
    NoRoom,
    OverQuota,
    Stopped,
    Unknown,
)
from mooring.model.settings import Eviction
from tests.policy.kai.cases import KAI, Table, read_queues, read_workload


def engine_of(**facts: Any) -> Engine:
    """Return an engine at a moment, which has not decided yet."""
    table = Table()
    table("now", ends="", **facts)
    scenario = table.cases[0].scenario
    engine = Engine(scenario.topology, scenario.policy, scenario.memory, scenario.queues)
    for event in scenario.events():
        engine.observe(event)
    return engine


def test_a_search_that_is_cut_short_says_so() -> None:
    engine = engine_of(
        nodes="n=1",
        queues="A | B gpu=1",
        running="a A 1 @n",
        waiting="b B 1",
        policy=replace(KAI, eviction=Eviction(steps=5)),
    )
    assert engine.decide(1000.0).decisions == ()
    assert any(isinstance(reason, CutShort) for reason in engine.reasons("b"))


def test_nothing_is_done_while_nothing_happens() -> None:
    engine = engine_of(nodes="n=1", queues="A", running="a A 1 @n", waiting="b A 1 | c A 1")
    first = engine.decide(1000.0)
    assert first.decisions == ()
    assert {each.workload for each in first.waiting} == {"b", "c"}
    for later in range(1, 4):
        plan = engine.decide(1000.0 + later)
        assert (plan.decisions, plan.waiting) == ((), ())
    assert not engine._court.stirs


@pytest.mark.parametrize(
    ("waiting", "kind"),
    [
        ("x A 2", NoRoom),
        ("x A 8", Impossible),
        ("x L 2", OverQuota),
        ("x A 1 fixed", OverQuota),
        ("x D 1", Unknown),
        ("x nobody 1", Unknown),
        ("x A 1x2 level=rack", Unknown),
        ("x S 1", Stopped),
    ],
)
def test_everybody_who_waits_is_told_why(waiting: str, kind: type) -> None:
    queues = "D | A <D gpu=0 | L gpu.limit=1 | S"
    engine = engine_of(nodes="n=2", queues=queues, running="a A 1 @n", waiting=waiting)
    stopped = [replace(q, stop="hold") if q.name == "S" else q for q in engine.queues]
    engine.observe(QueuesChanged(tuple(stopped)))
    engine.decide(1000.0)
    assert isinstance(engine.reasons("x")[0], kind)
    assert engine.waiting() == ["x"]


def test_who_asks_for_the_same_stands_behind() -> None:
    engine = engine_of(nodes="n=1", queues="A", running="a A 1 @n", waiting="b A 1 | c A 1")
    engine.decide(1000.0)
    assert isinstance(engine.reasons("b")[0], NoRoom)
    assert engine.reasons("c") == (Behind("b"),)


def test_edited_queues_count_at_once() -> None:
    engine = engine_of(nodes="n=1", queues="A | B", running="a A 1 @n", waiting="b B 1")
    assert engine.decide(1000.0).decisions == ()
    engine.observe(QueuesChanged(read_queues("A | B gpu=1")))
    plan = engine.decide(1001.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Evict)] == ["a"]


def test_another_profile_takes_over() -> None:
    engine = engine_of(nodes="n=2", queues="A gpu=2", waiting="a A 1", policy=replace(KAI))
    engine.decide(1000.0)
    engine.observe(PolicyChanged(replace(KAI, profile="default")))
    engine.observe(Submitted(read_workload("b A 1")[0]))
    plan = engine.decide(1001.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Bind)] == ["b"]
    engine.observe(PolicyChanged(KAI))
    engine.observe(Submitted(read_workload("c A 1 p=9")[0]))
    plan = engine.decide(1002.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Evict)] == ["b"]

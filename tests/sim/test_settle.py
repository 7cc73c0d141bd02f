"""A scenario is decided once, or until it rests; what does not rest is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.engine import Engine
from mooring.model.events import Adopted, TasksChanged
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, NoRoom, Notice
from mooring.model.queues import Queue
from mooring.model.scenario import Scenario
from mooring.model.settings import Fairness, Policy
from mooring.model.workload import Placement, TaskState
from mooring.sim import settle as module
from mooring.sim.settle import MOST_CYCLES, decide_once, settle, standings_of
from tests.build import decided, gang, nodes, picture, task

if TYPE_CHECKING:
    import pytest

    from mooring.model.plan import Plan
    from mooring.model.workload import Workload


def scenario(text: str, *waiting: Workload, policy: Policy = Policy()) -> Scenario:
    topology, found = picture(text)
    return Scenario(100.0, topology, tuple(found), policy=policy, waiting=waiting)


def test_one_cycle_assumes_and_explains() -> None:
    plan, engine = decide_once(scenario("a=8 b=8", gang("g", tasks=2, gpus=8), task("t")))

    assert decided(plan) == [("bind", "g", (0, 1))]
    assert nodes(plan) == {"a", "b"}
    assert engine.waiting() == ["t"]
    assert engine.entries()["g"].started_at == 100.0


def test_what_fits_runs_when_it_has_settled() -> None:
    result = settle(scenario("a=8 b=8", gang("g", tasks=2, gpus=8), task("t")))

    assert (result.is_settled, result.cycles, result.repeats) == (True, 2, 0)
    assert bytes(result.engine.entries()["g"].members["main"].states) == bytes(
        [TaskState.RUNNING] * 2
    )
    assert isinstance(result.engine.reasons("t")[0], NoRoom)


def test_nothing_to_do_settles_in_one_cycle() -> None:
    result = settle(scenario("a=8"))

    assert (result.is_settled, result.cycles, result.decisions) == (True, 1, ())


def test_a_notice_is_no_change() -> None:
    """It starts, and is told at once that it must leave soon; nothing else is to come."""
    short = replace(task("short"), run_limit_s=100.0)
    settled = settle(scenario("a=8", short))
    assert settled.is_settled
    assert [type(each) for each in settled.decisions] == [Bind, Notice]


def test_what_is_evicted_waits_again() -> None:
    """Half a gang that was found running is undone, and makes room for the rest of the line."""
    half = Adopted(gang("g", tasks=2, gpus=8), (Placement("main", (0,), ("a",), (255,)),), 50.0)
    start = replace(scenario("a=8", task("t", 8), policy=Policy(gang_grace_s=0.0)), running=(half,))

    result = settle(start)

    verbs = [(type(d).__name__, d.workload) for d in result.decisions]
    assert verbs == [("Evict", "g"), ("Bind", "t")]
    assert result.is_settled
    assert result.engine.waiting() == ["g"]


def test_time_stands_still() -> None:
    """A gang that may be incomplete for a while is left alone: its time is not up."""
    half = Adopted(gang("g", tasks=2, gpus=8), (Placement("main", (0,), ("a",), (255,)),), 50.0)

    result = settle(replace(scenario("a=8"), running=(half,)))

    assert (result.is_settled, result.decisions) == (True, ())
    assert "g" in result.engine.entries()


def test_the_first_cycle_sees_what_is_on_its_way_out() -> None:
    """On `a` there will be room soon, on `b` there is room now: `t` does not wait for it."""
    places = (Placement("main", (0,), ("a",), (3,)),)
    leaves = Adopted(task("old", 2), places, 50.0, releasing=(("main", (0,)),))
    policy = Policy(profile="kai")
    start = replace(scenario("a=2 b=4", task("t", 2), policy=policy), running=(leaves,))

    plan, _ = decide_once(start)
    result = settle(start)

    assert nodes(plan) == {"b"}
    binds = [(d.workload, d.placement.nodes) for d in result.decisions if isinstance(d, Bind)]
    assert binds == [("t", ("b",)), ("old", ("a",))]
    assert result.is_settled


def test_what_is_on_its_way_out_goes_even_if_nothing_is_decided_before() -> None:
    """Both devices are needed, one is still in use by one who leaves."""
    places = (Placement("main", (0,), ("a",), (1,)),)
    leaves = Adopted(task("old"), places, 50.0, releasing=(("main", (0,)),))
    start = replace(scenario("a=2", gang("g", tasks=2, gpus=1)), running=(leaves,))

    result = settle(start)

    assert result.is_settled
    assert not result.engine.entries()["old"].members["main"].is_releasing


def test_standings_know_what_was_used() -> None:
    """Two queues want all four devices; one of them has had them all the time so far."""
    past = Memory(
        usage_steps=(("old", "", "gpu", ((0.0, 4000.0),)),),
        capacity_steps=(("", "gpu", ((0.0, 4000.0),)),),
    )
    waiting = (
        replace(gang("a", tasks=4, gpus=1), queue="old"),
        replace(gang("b", tasks=4, gpus=1), queue="new"),
    )
    policy = Policy(profile="kai", fairness=Fairness(history_weight=1.0))
    start = scenario("a=4", *waiting, policy=policy)
    start = replace(start, queues=(Queue("old"), Queue("new")), memory=past)

    found = standings_of(start)

    assert found["old", "", "gpu"] == (0, 0)
    assert found["new", "", "gpu"] == (0, 4000)


class Restless(Engine):
    """An engine that takes back what it did."""

    def decide(self, now: float) -> Plan:
        plan = super().decide(now)
        if plan.decisions:
            return plan
        evicts = []
        for name, entry in list(self.entries().items()):
            tasks = tuple(entry.members["main"].staying())
            if tasks:
                self.observe(TasksChanged(name, "main", tasks, TaskState.RELEASING))
                evicts.append(Evict(name, "main", tasks, "whim", "me"))
        return replace(plan, decisions=tuple(evicts))


def test_what_comes_back_to_where_it_was_does_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Engine", Restless)

    result = settle(scenario("a=8", task("t")))

    assert not result.is_settled
    assert result.repeats == 2
    assert result.cycles == 3


def test_what_goes_on_and_on_does_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Engine", Restless)
    monkeypatch.setattr(module, "_state", lambda engine: object())

    result = settle(scenario("a=8", task("t")))

    assert (result.is_settled, result.cycles, result.repeats) == (False, MOST_CYCLES, 0)

"""What time has to do with it: minimum run times, delays, gangs that stay incomplete, history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.engine import Engine
from mooring.model.events import Adopted, Ended, TasksChanged
from mooring.model.memory import Memory
from mooring.model.plan import Bind, Evict, Leaving, Protected, Reserve
from mooring.model.settings import Eviction, Fairness
from mooring.model.workload import Placement, TaskState
from mooring.sim.settle import decide_once
from tests.policy.kai.cases import KAI, Case, Table, places_of, read_workload

case = Table()

# -- minimum run time: preempt (now is 1000) ------------------------------------------------

case(
    "one that has not run long enough is not preempted",
    nodes="n=1",
    queues="A gpu=1 preempt=60",
    running="a1 A 1 @n t=950",
    waiting="a2 A 1 p=9",
    ends="a1 | waits a2",
)
case(
    "one that has is",
    nodes="n=1",
    queues="A gpu=1 preempt=60",
    running="a1 A 1 @n t=940",
    waiting="a2 A 1 p=9",
    ends="a2 | waits a1",
    evicted="a1",
)
case(
    "the queue above says so, where the queue does not",
    nodes="n=1",
    queues="d gpu=1 preempt=60 | A <d gpu=1",
    running="a1 A 1 @n t=950",
    waiting="a2 A 1 p=9",
    ends="a1 | waits a2",
)
case(
    "the nearest queue counts",
    nodes="n=1",
    queues="d gpu=1 preempt=600 | A <d gpu=1 preempt=0",
    running="a1 A 1 @n t=950",
    waiting="a2 A 1 p=9",
    ends="a2 | waits a1",
    evicted="a1",
)
case(
    "or the policy",
    nodes="n=1",
    queues="A gpu=1",
    running="a1 A 1 @n t=950",
    waiting="a2 A 1 p=9",
    policy=replace(KAI, eviction=Eviction(preempt_minimum_run_s=60)),
    ends="a1 | waits a2",
)
case(
    "another victim instead",
    nodes="n=2",
    queues="A gpu=2 preempt=60",
    running="a1 A 1 @n t=900 s=1 | a2 A 1 @n t=990 s=2",
    waiting="a3 A 1 p=9",
    ends="a2 a3 | waits a1",
    evicted="a1",
)
case(
    "what is above a minimum is not protected",
    nodes="n=3",
    queues="A gpu=3 preempt=60",
    running="a1 A 1x1..3 @n,n,n t=990",
    waiting="a2 A 1x2 p=9",
    ends="a1:1 a2",
    evicted="a1",
)
case(
    "the minimum of an elastic one is",
    nodes="n=3",
    queues="A gpu=3 preempt=60",
    running="a1 A 1x1..3 @n,n,n t=990",
    waiting="a2 A 1x3 p=9",
    ends="a1:3 | waits a2",
)

# -- minimum run time: reclaim --------------------------------------------------------------

case(
    "one that has not run long enough is not reclaimed",
    nodes="n=1",
    queues="A reclaim=60 | B gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    ends="a1 | waits b1",
)
case(
    "the minimum for preemption does not protect from reclaim",
    nodes="n=1",
    queues="A preempt=60 | B gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    ends="b1 | waits a1",
    evicted="a1",
)
case(
    "between departments that of the department counts, not that of the queue",
    nodes="n=1",
    queues="d1 | d2 gpu=1 | A <d1 reclaim=600 | B <d2 gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    ends="b1 | waits a1",
    evicted="a1",
)
case(
    "that of the department protects",
    nodes="n=1",
    queues="d1 reclaim=600 | d2 gpu=1 | A <d1 reclaim=0 | B <d2 gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    ends="a1 | waits b1",
)
case(
    "inside a department that of the queue counts, then upwards",
    nodes="n=1",
    queues="d gpu=1 reclaim=600 | A <d | B <d gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    ends="a1 | waits b1",
)
case(
    "by the queue itself, if the policy says so",
    nodes="n=1",
    queues="d1 | d2 gpu=1 | A <d1 reclaim=600 | B <d2 gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    policy=replace(KAI, eviction=Eviction(minimum_run_by="queue")),
    ends="a1 | waits b1",
)
case(
    "or the policy, where no queue says anything",
    nodes="n=1",
    queues="A | B gpu=1",
    running="a1 A 1 @n t=950",
    waiting="b1 B 1",
    policy=replace(KAI, eviction=Eviction(reclaim_minimum_run_s=60)),
    ends="a1 | waits b1",
)
case(
    "an elastic one loses what is above its minimum",
    nodes="n=3",
    queues="A reclaim=600 | B gpu=2",
    running="a1 A 1x1..3 @n,n,n t=950",
    waiting="b1 B 1x2",
    ends="a1:1 b1",
    evicted="a1",
)
case(
    "no more",
    nodes="n=3",
    queues="A reclaim=600 | B gpu=3",
    running="a1 A 1x2..3 @n,n,n t=950",
    waiting="b1 B 1x2",
    ends="a1:3 | waits b1",
)

# -- preemption delay -----------------------------------------------------------------------

case(
    "one that came just now makes nobody leave",
    nodes="n=1",
    queues="A | B gpu=1",
    running="a1 A 1 @n",
    waiting="b1 B 1 s=970 delay=60",
    ends="a1 | waits b1",
)
case(
    "later it does",
    nodes="n=1",
    queues="A | B gpu=1",
    running="a1 A 1 @n",
    waiting="b1 B 1 s=940 delay=60",
    ends="b1 | waits a1",
    evicted="a1",
)
case(
    "nor does it have anybody moved",
    nodes="n0=2 n1=2",
    queues="A gpu=4",
    running="a1 A 1 @n0 | a2 A 1 @n1",
    waiting="a3 A 2 s=970 delay=60",
    ends="a1 a2 | waits a3",
)
case(
    "nor preempted",
    nodes="n=1",
    queues="A gpu=1",
    running="a1 A 1 @n",
    waiting="a2 A 1 p=9 s=970 delay=60",
    ends="a1 | waits a2",
)
case(
    "it starts on free room all the same",
    nodes="n=1",
    queues="A gpu=1",
    waiting="a1 A 1 s=970 delay=60",
    ends="a1",
)
case(
    "others behind it do not wait for it",
    nodes="n=1",
    queues="A | B gpu=1",
    running="a1 A 1 @n",
    waiting="b1 B 1 s=970 delay=60 p=9 | b2 B 1 s=980",
    ends="b2 | waits a1 b1",
    evicted="a1",
)

# -- gangs that stay incomplete -------------------------------------------------------------

case(
    "a gang that lost a task gets it back",
    nodes="n=2",
    queues="A gpu=2",
    running="a1 A 1x2 @n,",
    ends="a1:2",
)
case(
    "or takes it back from others",
    nodes="n=2",
    queues="A gpu=2",
    busy=((read_workload("g A 1x2 p=9")[0], "n,"),),
    running="x A 1 p=1 @n",
    ends="g:2 | waits x",
    evicted="x:preempt",
)


@pytest.mark.parametrize("each", case.cases, ids=lambda each: each.name)
def test_time(each: Case) -> None:
    each.check()


def _engine(**facts: object) -> Engine:
    """Return an engine at a moment, which has not decided yet."""
    table = Table()
    table("now", ends="", **facts)  # type: ignore[arg-type]
    scenario = table.cases[0].scenario
    engine = Engine(scenario.topology, scenario.policy, scenario.memory, scenario.queues)
    for event in scenario.events():
        engine.observe(event)
    return engine


def _broken(grace: str) -> Engine:
    """Return an engine with a gang of two of which one is there, and no room for the other."""
    engine = _engine(nodes="n=2", queues="A gpu=2", running="x A 1 fixed @n/1")
    gang = read_workload(f"g A 1x2 {grace}")[0]
    engine.observe(Adopted(gang, (Placement("main", (0,), ("n",), (1,)),)))
    return engine


@pytest.mark.parametrize(
    ("grace", "at"),
    [("grace=0", 0.0), ("", 60.0), ("grace=30", 30.0)],
)
def test_an_incomplete_gang_is_undone_after_its_grace(grace: str, at: float) -> None:
    engine = _broken(grace)
    if at:
        plan = engine.decide(1000.0)
        assert plan.decisions == ()
        assert plan.wake_at == 1000.0 + at
        assert engine.decide(1000.0 + at - 1).decisions == ()
    plan = engine.decide(1000.0 + at)
    assert [(d.workload, d.tasks) for d in plan.decisions if isinstance(d, Evict)] == [("g", (0,))]


def test_never_if_its_grace_is_negative() -> None:
    engine = _broken("grace=-1")
    for later in (0.0, 60.0, 1e6):
        assert engine.decide(1000.0 + later).decisions == ()


def test_a_gang_with_finished_tasks_is_never_stale() -> None:
    engine = _engine(nodes="n=3", queues="A gpu=3", running="x A 1 fixed @n/2 | y A 1 fixed @n/1")
    gang = read_workload("g A 1x3 grace=0")[0]
    placed = (Placement("main", (0,), ("n",), (1,)),)
    engine.observe(Adopted(gang, placed, finished=(("main", (1,)),)))
    assert engine.decide(1000.0).decisions == ()


def test_a_gang_is_completed_before_its_grace_is_over() -> None:
    engine = _broken("grace=30")
    engine.decide(1000.0)
    engine.observe(Ended("x"))
    plan = engine.decide(1010.0)
    assert [d.placement.tasks for d in plan.decisions if isinstance(d, Bind)] == [(1,)]
    assert engine.decide(1100.0).decisions == ()


# -- when to look again ---------------------------------------------------------------------


def test_protection_ends_and_then_it_happens() -> None:
    engine = _engine(
        nodes="n=1",
        queues="A gpu=1 preempt=60",
        running="a1 A 1 @n t=950",
        waiting="a2 A 1 p=9",
    )
    plan = engine.decide(1000.0)
    assert plan.decisions == ()
    assert plan.wake_at == 1010.0
    assert engine.decide(1009.0).decisions == ()
    plan = engine.decide(1010.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Evict)] == ["a1"]


def test_a_delay_ends_and_then_it_happens() -> None:
    engine = _engine(
        nodes="n=1",
        queues="A | B gpu=1",
        running="a1 A 1 @n",
        waiting="b1 B 1 s=970 delay=60",
    )
    plan = engine.decide(1000.0)
    assert plan.wake_at == 1030.0
    assert Protected(1030.0) in engine.reasons("b1")
    plan = engine.decide(1030.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Evict)] == ["a1"]


def test_after_an_eviction_the_delay_begins_again() -> None:
    """Evicted at 1000, a1 makes nobody leave before 1060."""
    engine = _engine(
        nodes="n=1",
        queues="A gpu=1",
        running="a1 A 1 @n p=1 s=1 delay=60",
        waiting="a2 A 1 p=9",
    )
    plan = engine.decide(1000.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Evict)] == ["a1"]
    engine.observe(TasksChanged("a1", "main", (0,), TaskState.PENDING))
    engine.decide(1001.0)
    assert Protected(1060.0) in engine.reasons("a1")


# -- room that others are leaving -----------------------------------------------------------


def test_room_of_one_on_its_way_out_is_kept_for_the_next() -> None:
    engine = _engine(nodes="n=1", queues="A gpu=1", running="a1 A 1 @n", waiting="a2 A 1")
    engine.observe(TasksChanged("a1", "main", (0,), TaskState.RELEASING))
    plan = engine.decide(1000.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Reserve)] == ["a2"]
    assert engine.reasons("a2") == (Leaving(("a1",)),)
    engine.observe(Ended("a1"))
    plan = engine.decide(1005.0)
    assert [d.workload for d in plan.decisions if isinstance(d, Bind)] == ["a2"]


def test_free_room_is_taken_before_room_that_is_being_left() -> None:
    engine = _engine(nodes="n0=2 n1=4", queues="A gpu=6", running="a1 A 2 @n0", waiting="a2 A 1x2")
    engine.observe(TasksChanged("a1", "main", (0,), TaskState.RELEASING))
    engine.decide(1000.0)
    assert places_of(engine)["a2"] == {"n1": 2}


def test_a_gang_of_which_one_task_must_wait_waits_whole() -> None:
    engine = _engine(
        nodes="n0=1 n1=1", queues="A gpu=6", running="a1 A 1 @n0", waiting="a2 A 1x2 | a3 A 1"
    )
    engine.observe(TasksChanged("a1", "main", (0,), TaskState.RELEASING))
    plan = engine.decide(1000.0)
    assert [type(d).__name__ for d in plan.decisions] == ["Reserve"]
    assert "a3" not in places_of(engine)
    engine.observe(Ended("a1"))
    engine.decide(1001.0)
    assert places_of(engine)["a2"] == {"n0": 1, "n1": 1}


def test_room_on_its_way_out_spares_others_their_eviction() -> None:
    engine = _engine(
        nodes="n=2", queues="A | B gpu=1", running="a1 A 1 @n | a2 A 1 @n", waiting="b1 B 1"
    )
    engine.observe(TasksChanged("a1", "main", (0,), TaskState.RELEASING))
    plan = engine.decide(1000.0)
    assert [type(d).__name__ for d in plan.decisions] == ["Reserve"]


# -- history --------------------------------------------------------------------------------


def _used(queue: str, devices: float, capacity: float = 4.0) -> Memory:
    """Return a memory in which a queue has used so many devices for the last 900 s."""
    return Memory(
        usage_steps=((queue, "", "gpu", ((100.0, devices * 1000),)),),
        capacity_steps=(("", "gpu", ((100.0, capacity * 1000),)),),
    )


HISTORY = replace(KAI, fairness=Fairness(history_weight=1.0))


def test_who_has_used_more_gets_less() -> None:
    """Weights 1 : 1 of 4 devices; A has used all of them so far, B none.

    W' = 1/2 each, U = 1 and 0: P = max(0, 1/2 + 1 · (1/2 − 1)) = 0 for A, 1 for B.
    """
    waiting = " | ".join(f"{name}{i} {name.upper()} 1" for i in range(4) for name in "ab")
    table = Table()
    for policy, ends in (
        (KAI, "a0 a1 b0 b1 | waits a2 a3 b2 b3"),
        (HISTORY, "b0 b1 b2 b3 | waits a0 a1 a2 a3"),
    ):
        table(
            "history",
            nodes="n=4",
            queues="A | B",
            waiting=waiting,
            policy=policy,
            memory=_used("A", 4),
            ends=ends,
        )
    for each in table.cases:
        each.check()


def test_quota_comes_before_history() -> None:
    table = Table()
    table(
        "quota",
        nodes="n=4",
        queues="A gpu=2 | B",
        waiting="a1 A 1 | a2 A 1 | a3 A 1 | b1 B 1 | b2 B 1 | b3 B 1",
        policy=HISTORY,
        memory=_used("A", 4),
        ends="a1 a2 b1 b2 | waits a3 b3",
    )
    table.cases[0].check()


def test_history_lets_one_reclaim() -> None:
    """A has 2 of 4 and has had all for long, B has 2 and wants more: all is B's now."""
    table = Table()
    table(
        "reclaim",
        nodes="n=4",
        queues="A | B",
        running="a1 A 1 @n | a2 A 1 @n | b1 B 1 @n | b2 B 1 @n",
        waiting="b3 B 1",
        policy=HISTORY,
        memory=_used("A", 4),
        ends="a1 b1 b2 b3 | waits a2",
        evicted="a2",
    )
    table.cases[0].check()


def test_the_end_is_the_same_by_one_decision_or_by_many() -> None:
    table = Table()
    table("once", nodes="n=2", queues="A", waiting="a A 1x1..2", ends="a:2")
    plan, engine = decide_once(table.cases[0].scenario)
    assert len(plan.decisions) == 2
    assert engine.fork().decide(1000.0).decisions == ()

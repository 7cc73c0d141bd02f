"""The loop: instants in order, one cycle each, and effects that come in time or not at all."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.journal import Journal
from mooring.model.events import (
    Adopted,
    BindRefused,
    Ended,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    Submitted,
    TasksChanged,
    WorkloadChanged,
)
from mooring.model.plan import Bind, Evict, Plan, Record, Reserve
from mooring.model.queues import DEFAULT_QUEUE
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.workload import Placement, TaskState, Workload
from mooring.sim.loop import Loop
from mooring.sim.mixes import Options, make_load
from mooring.sim.mixes.cluster import TOPOLOGY
from mooring.sim.replay import replay
from tests.build import gang, group, node, picture, task, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from mooring.model.events import Event

PENDING, RUNNING, RELEASING = TaskState.PENDING, TaskState.RUNNING, TaskState.RELEASING


class Life:
    """A loop over a cluster, and what was heard of it."""

    def __init__(
        self,
        text: str,
        run_s: Callable[[Workload], float | None] = lambda workload: None,
        *,
        start_s: float = 0.0,
        grace_s: float = 0.0,
        limits_end: bool = False,
        policy: Policy = Policy(),
    ) -> None:
        topology, nodes = picture(text)
        self.engine = Engine(topology, policy)
        for each in nodes:
            self.engine.observe(NodeJoined(each))
        self.heard: list[tuple[float, tuple[Event, ...], Plan]] = []
        self.loop = Loop(
            self.engine,
            run_s,
            [self.hear],
            start_s=start_s,
            grace_s=grace_s,
            limits_end=limits_end,
        )

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        self.heard.append((now, tuple(events), plan))

    def at(self, time: float, *events: Event) -> Life:
        for event in events:
            self.loop.at(time, event)
        return self

    def submit(self, time: float, *workloads: Workload) -> Life:
        return self.at(time, *(Submitted(replace(each, submitted_at=time)) for each in workloads))

    def run(self, until: float = inf) -> Life:
        self.loop.run(until)
        return self

    def states(self, name: str) -> list[TaskState]:
        members = self.engine.entries()[name].members
        return [TaskState(s) for each in members.values() for s in each.states]

    def story(self) -> list[tuple[float, str, str]]:
        """Return what happened to workloads: when, what, which; confirmations left out."""
        told: list[tuple[float, str, str]] = []
        for now, events, plan in self.heard:
            told += [(now, "end", e.workload) for e in events if isinstance(e, Ended)]
            for decision in plan.decisions:
                told.append((now, type(decision).__name__.lower(), decision.workload))
        return told


# -- instants -------------------------------------------------------------------------------


def test_an_instant_is_ends_then_nodes_then_work_and_one_cycle() -> None:
    """What ends makes room, and nodes are there, before the work of the same instant is seen."""
    life = Life("a=8").submit(0, task("old", 8)).run()
    new, other = task("new", 8), task("other", 8)

    life.submit(5, new, other).at(5, NodeJoined(node("b"))).at(5, Ended("old")).run()

    kinds = [type(event).__name__ for event in life.heard[-1][1]]
    assert kinds == ["TasksChanged", "Ended", "NodeJoined", "Submitted", "Submitted"]
    assert life.story() == [
        (0, "bind", "old"),
        (5, "end", "old"),
        *[(5, "bind", n) for n in ("new", "other")],
    ]
    assert life.loop.cycles == 2


def test_facts_of_one_kind_keep_their_order() -> None:
    life = Life("a=8").submit(1, *(task(name) for name in "cab")).run()

    assert [name for _, _, name in life.story()] == ["c", "a", "b"]


def test_instants_come_in_order_of_time() -> None:
    life = Life("a=8").submit(2, task("late")).submit(1, task("early")).run()

    assert [(now, name) for now, _, name in life.story()] == [(1, "early"), (2, "late")]


def test_a_step_is_an_instant() -> None:
    life = Life("a=8").submit(1, task("a"), task("b")).submit(2, task("c"))

    assert [life.loop.step(), life.loop.now, life.loop.next_at] == [True, 1, 2]
    assert [life.loop.step(), life.loop.now, life.loop.next_at] == [True, 2, inf]
    assert not life.loop.step()


def test_a_run_stops_after_the_time_it_is_given() -> None:
    life = Life("a=8").submit(1, task("a")).submit(2, task("b")).submit(3, task("c"))

    life.run(2)

    assert [now for now, *_ in life.heard] == [1, 2]
    assert life.loop.next_at == 3


@pytest.mark.parametrize("time", [4.0, -1.0, inf, nan])
def test_nothing_happens_in_the_past_or_never(time: float) -> None:
    life = Life("a=8").submit(5, task("a")).run()

    with pytest.raises(ValueError, match="nothing can happen"):
        life.at(time, Ended("a"))


def test_a_listener_may_add_facts_to_the_present_instant() -> None:
    """One that does not fit can be sent away at once, by who listens."""
    life = Life("a=8")

    def send_away(now: float, events: Sequence[Event], plan: Plan) -> None:
        for waiting in plan.waiting:
            life.at(now, Ended(waiting.workload))

    life.loop.listen(send_away)
    life.submit(1, task("big", 9)).submit(2, task("small", 8)).run()

    assert life.story() == [(1, "end", "big"), (2, "bind", "small")]
    assert life.engine.waiting() == []


# -- start and end --------------------------------------------------------------------------


def test_what_is_bound_runs_at_once_without_another_cycle() -> None:
    life = Life("a=8").submit(0, gang("g", tasks=2)).run()

    assert life.states("g") == [RUNNING, RUNNING]
    assert life.loop.cycles == 1


def test_a_workload_ends_its_run_time_after_its_start() -> None:
    life = Life("a=8", lambda workload: 10.0).submit(0, task("a", 8), task("b", 8)).run()

    assert life.story() == [(0, "bind", "a"), (10, "end", "a"), (10, "bind", "b"), (20, "end", "b")]
    assert life.engine.entries() == {}


@pytest.mark.parametrize("run_s", [None, inf])
def test_what_has_no_run_time_and_what_does_not_fit_stays(run_s: float | None) -> None:
    life = Life("a=8", lambda workload: run_s).submit(0, task("serves", 8), task("waits", 8)).run()

    assert list(life.engine.entries()) == ["serves", "waits"]
    assert life.engine.waiting() == ["waits"]


def test_a_run_of_no_time_ends_in_the_same_instant() -> None:
    life = Life("a=8", lambda workload: 0.0).submit(3, task("a")).run()

    assert life.story() == [(3, "bind", "a"), (3, "end", "a")]


def test_tasks_take_a_while_to_start_and_the_run_time_counts_from_there() -> None:
    life = Life("a=8", lambda workload: 10.0, start_s=5).submit(0, gang("g", tasks=2)).run(4)
    assert life.states("g") == [TaskState.ASSUMED] * 2

    assert life.run().story() == [(0, "bind", "g"), (15, "end", "g")]


def test_the_run_begins_when_every_group_has_its_minimum() -> None:
    """Of two groups that start together neither ends the workload alone."""
    both = workload("w", group("leader"), group("worker", tasks=3))
    life = Life("a=8", lambda workload: 10.0).submit(0, both).run()

    assert life.story() == [(0, "bind", "w"), (0, "bind", "w"), (10, "end", "w")]


def test_growth_does_not_begin_the_run_anew() -> None:
    life = Life("a=8", lambda workload: {"e": 10.0, "x": 4.0}[workload.name])
    life.submit(0, task("x", 6), gang("e", tasks=2, most=8)).run()

    grown = [now for now, what, name in life.story() if (what, name) == ("bind", "e")]
    assert grown == [0, 4, 4, 4, 4, 4, 4]
    assert life.story()[-1] == (10, "end", "e")


def test_work_without_a_minimum_ends_too() -> None:
    life = Life("a=8", lambda workload: 10.0)
    life.submit(0, Workload("w", (replace(group("main", most=2), min=0),))).run()

    assert life.story()[-1] == (10, "end", "w")


def test_adopted_work_has_a_part_of_its_run_behind_it() -> None:
    place = Placement("main", (0,), ("a",), (255,))
    life = Life("a=8 b=8", lambda workload: 30.0)
    life.at(100, Adopted(task("old", 8), (place,), started_at=80))
    life.at(100, Adopted(task("due", 8), (replace(place, nodes=("b",)),), started_at=10))
    life.at(100, Adopted(task("somewhere", 8), (), started_at=90)).run()

    assert life.story() == [(100, "end", "due"), (110, "end", "old"), (120, "end", "somewhere")]


def test_what_was_ended_from_outside_does_not_end_twice() -> None:
    """Not even if one of the same name runs by then."""
    life = Life("a=8", lambda workload: 10.0).submit(0, task("a")).at(4, Ended("a"))
    life.submit(7, task("a")).run()

    assert [entry for entry in life.story() if entry[1] == "end"] == [
        (4, "end", "a"),
        (17, "end", "a"),
    ]


# -- runs that break off --------------------------------------------------------------------


def test_the_end_of_a_run_that_was_evicted_does_not_come() -> None:
    """A gang loses a node, is undone after its grace, and runs anew when it fits again."""
    life = Life("a=8 b=8", lambda workload: 100.0, policy=Policy(gang_grace_s=20.0))
    life.submit(0, gang("g", tasks=2, gpus=8)).at(50, NodeLeft("b")).run(110)

    assert life.story() == [(0, "bind", "g"), (70, "evict", "g")]
    assert life.states("g") == [PENDING, PENDING]

    life.at(200, NodeJoined(node("c"))).run()
    assert life.story()[2:] == [(200, "bind", "g"), (300, "end", "g")]


def test_a_mended_gang_begins_its_run_anew() -> None:
    life = Life("a=8 b=8 c=8", lambda workload: 100.0)
    life.submit(0, gang("g", tasks=2, gpus=8)).at(50, NodeLeft("b")).run()

    assert life.story() == [(0, "bind", "g"), (50, "bind", "g"), (150, "end", "g")]


def test_evicted_tasks_are_released_after_their_grace_and_wait_again() -> None:
    life = Life("a=8 b=8", grace_s=30.0, policy=Policy(gang_grace_s=0.0))
    life.submit(0, gang("g", tasks=2, gpus=8)).at(10, NodeLeft("b")).run(39)
    assert life.states("g") == [RELEASING, PENDING]

    life.run()
    assert life.states("g") == [PENDING, PENDING]
    assert life.loop.now == 40
    assert life.engine.waiting() == ["g"]


def test_a_task_that_is_evicted_before_it_started_does_not_start() -> None:
    life = Life("a=8 b=8", start_s=30.0, policy=Policy(gang_grace_s=0.0))
    life.submit(0, gang("g", tasks=2, gpus=8)).at(10, NodeLeft("b")).run()

    assert life.states("g") == [PENDING, PENDING]


def test_a_task_that_was_bound_again_starts_after_its_second_bind() -> None:
    """The effects of the first bind are overtaken."""
    life = Life("a=8", lambda workload: 100.0, start_s=30.0)
    life.submit(0, task("a")).at(10, TasksChanged("a", "main", (0,), TaskState.FAILED)).run()

    assert life.story() == [(0, "bind", "a"), (10, "bind", "a"), (140, "end", "a")]


def test_a_release_is_overtaken_by_a_lost_node() -> None:
    life = Life("a=8 b=8", grace_s=30.0, policy=Policy(gang_grace_s=0.0))
    life.submit(0, gang("g", tasks=2, gpus=8)).at(10, NodeLeft("b")).at(20, NodeLeft("a")).run()

    assert life.states("g") == [PENDING, PENDING]


def test_effects_of_what_is_gone_do_not_come() -> None:
    life = Life("a=8", start_s=10.0).submit(0, task("a")).at(5, Ended("a")).run()

    assert life.story() == [(0, "bind", "a"), (5, "end", "a")]
    assert life.loop.cycles == 2


def test_a_refused_bind_breaks_the_run() -> None:
    life = Life("a=8 b=8", lambda workload: 100.0, start_s=10.0)
    life.submit(0, task("a")).at(4, BindRefused("a", "main", (0,))).run()

    assert life.story() == [(0, "bind", "a"), (4, "bind", "a"), (114, "end", "a")]


def test_an_edit_may_make_the_minimum_run() -> None:
    """A gang that lost a task runs again when it is content with what it has."""
    life = Life("a=8 b=8", lambda workload: 100.0, policy=Policy(gang_grace_s=1000.0))
    whole, less = gang("g", tasks=2, gpus=8), gang("g", tasks=1, most=2, gpus=8)
    life.submit(0, whole).at(50, NodeLeft("b")).at(60, WorkloadChanged(less)).run()

    assert life.story() == [(0, "bind", "g"), (160, "end", "g")]


# -- limits of time -------------------------------------------------------------------------


def limited(name: str) -> Workload:
    """Return work on a whole node that may run for 50 s."""
    return replace(task(name, 8), run_limit_s=50.0)


def test_an_owner_may_leave_what_has_run_as_long_as_it_may_waiting() -> None:
    life = Life("a=8").submit(0, limited("a")).run()

    assert life.story() == [(0, "bind", "a"), (0, "notice", "a"), (50, "evict", "a")]
    assert life.engine.waiting() == ["a"]


def test_what_its_limit_has_ended_can_be_submitted_again() -> None:
    """The second one is ended at 80, before it has run for so long."""
    life = Life("a=8", limits_end=True, grace_s=5.0).submit(0, limited("a"))
    life.at(57, Ended("a")).submit(60, limited("a")).at(80, Ended("a")).run()

    assert [at for at, what, _ in life.story() if what == "end"] == [55, 80]


def test_who_does_not_leave_at_its_limit_is_over_when_it_has_left() -> None:
    """At 52 it is told that it stays; a minute after it was told to leave it is told again."""
    stays = TasksChanged("a", "main", (0,), RUNNING)
    life = Life("a=8", limits_end=True, grace_s=5.0).submit(0, limited("a")).at(52, stays).run()

    assert life.story()[-2:] == [(110, "evict", "a"), (115, "end", "a")]


# -- timers ---------------------------------------------------------------------------------


class Scripted:
    """An engine that says what it is told to say."""

    def __init__(self, *plans: Plan) -> None:
        self.plans: Iterator[Plan] = iter(plans)
        self.decided_at: list[float] = []

    def observe(self, event: Event) -> None:
        pass

    def decide(self, now: float) -> Plan:
        self.decided_at.append(now)
        return next(self.plans, Plan())

    def entries(self) -> dict[str, object]:
        return {}


def scripted(*plans: Plan) -> Scripted:
    engine = Scripted(*plans)
    loop = Loop(engine)  # type: ignore[arg-type]
    loop.at(0, PolicyChanged(Policy()))
    loop.at(5, PolicyChanged(Policy()))
    loop.run()
    return engine


def test_the_engine_is_woken_when_it_asks() -> None:
    assert scripted(Plan(wake_at=3.0)).decided_at == [0, 3, 5]


def test_only_the_last_wish_to_be_woken_counts() -> None:
    assert scripted(Plan(wake_at=8.0), Plan(wake_at=9.0)).decided_at == [0, 5, 9]
    assert scripted(Plan(wake_at=8.0)).decided_at == [0, 5]


def test_a_wish_for_the_past_is_for_now() -> None:
    assert scripted(Plan(wake_at=-1.0)).decided_at == [0, 0, 5]


def test_reservations_have_no_effect_yet() -> None:
    assert scripted(Plan((Reserve("w", (), 9.0),))).decided_at == [0, 5]


def test_one_may_be_woken_from_outside() -> None:
    life = Life("a=8")
    life.loop.wake(7)
    assert life.run().heard == [(7, (), Plan())]


# -- the whole ------------------------------------------------------------------------------


def stream(life: Life, seed: int) -> Life:
    """Let work arrive for a while, and let some nodes leave and come back."""
    rng = np.random.default_rng(seed)
    load = make_load("lab", seed, Options(gpus=320, days=1 / 24, load=1.5))
    nodes = load.nodes
    for each in nodes:
        life.at(0, NodeJoined(each))
    for arrival in load.arrivals:
        life.at(arrival.at, Submitted(replace(arrival.workload, queue=DEFAULT_QUEUE.name)))
    for each in rng.choice(len(nodes), 12, replace=False).tolist():
        lost_at = rng.uniform(600, 4000)
        life.at(lost_at, NodeLeft(nodes[each].name))
        life.at(lost_at + rng.uniform(0, 900), NodeJoined(nodes[each]))
    return life


def lively(seed: int, start_s: float, grace_s: float) -> Life:
    life = Life(
        "", lambda workload: 900.0 + hash_of(workload.name), start_s=start_s, grace_s=grace_s
    )
    life.engine = life.loop.engine = Engine(TOPOLOGY, Policy(gang_grace_s=30.0))
    return stream(life, seed).run()


def hash_of(name: str) -> float:
    return sum(map(ord, name)) % 97 * 20.0


@given(st.integers(0, 1000), st.sampled_from([0.0, 7.0, 400.0]), st.sampled_from([0.0, 9.0, 300.0]))
def test_a_stream_of_work_runs_dry(seed: int, start_s: float, grace_s: float) -> None:
    """Whatever nodes are lost, in the end all has run or waits for what is not there."""
    life = lively(seed, start_s, grace_s)

    books = life.engine.books
    assert [life.engine.reasons(name) for name in life.engine.entries()] == [
        life.engine.reasons(name) for name in life.engine.waiting()
    ]
    assert not books.used[0].any()
    assert (books.open == books.capacity).all()


def test_a_life_recorded_by_a_listener_replays(tmp_path: Path) -> None:
    life = lively(2, 7.0, 9.0)
    decisions = [decision for *_, plan in life.heard for decision in plan.decisions]
    assert any(isinstance(decision, Evict) for decision in decisions)
    start = Scenario(topology=TOPOLOGY, policy=Policy(gang_grace_s=30.0))
    with Journal.create(tmp_path / "j", start) as journal:
        journal.append_many(Record(*heard) for heard in life.heard)
        result = replay(journal, Engine)

    assert result.is_same
    assert result.decisions == len(decisions) > 100
    assert sum(isinstance(decision, Bind) for decision in decisions) > 100


def test_work_that_takes_long_to_start_runs_since_it_did() -> None:
    """Not since the cycle before: minimum run times and limits count from then."""
    life = Life("a=8", start_s=30.0).submit(10.0, task("t")).run(100.0)

    assert life.engine.entries()["t"].running_since == 40.0

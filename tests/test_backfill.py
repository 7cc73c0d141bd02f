"""Backfill under the eyes of a shadow: whose turn it is, and that nobody delays it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.events import Ended, NodeLeft, PolicyChanged, QueuesChanged, Submitted
from mooring.model.memory import Memory, ShadowRun
from mooring.model.plan import Bind, Blocked, Evict
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Backfill, Eviction, Policy
from mooring.model.workload import Placement, TaskState
from mooring.policy.default.starts import Starts
from mooring.policy.default.waking import Waking
from mooring.policy.placing.helped import Helped
from mooring.sim.loop import Loop
from tests.build import (
    World,
    by_group,
    cluster,
    evicts,
    gang,
    group,
    node,
    picture,
    task,
    workload,
)
from tests.plain_backfill import Cluster, Shadow, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.entry import Entry
    from mooring.model.events import Event
    from mooring.model.plan import Plan, Reason
    from mooring.model.workload import Workload
    from mooring.policy.queues.lines import Line

BACKFILL = (Queue("default", order="backfill"),)


class Played:
    """A loop that notes who starts, ends and is evicted when."""

    def __init__(self, text: str, works: Sequence[Work], queues: tuple[Queue, ...]) -> None:
        topology, nodes = picture(text)
        self.run_of = {work.name: work.run for work in works}
        self.starts: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self.evicted: list[tuple[float, str, str]] = []
        self.turns: dict[str, float] = {}
        self.engine = Engine(topology, Policy(), queues=queues)
        self.loop = Loop(
            self.engine,
            run_time=lambda workload: self.run_of[workload.name],
            listeners=[self.listen],
        )
        for each in nodes:
            self.engine.observe(_joined(each))
        for work in works:
            self.loop.at(work.submit, Submitted(as_workload(work)))

    def listen(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        for event in events:
            if isinstance(event, Ended):
                self.ends[event.workload] = now
        for decision in plan.decisions:
            match decision:
                case Bind(name, _, _):
                    self.starts[name] = now
                case Evict(name, _, _, cause, _):
                    self.evicted.append((now, name, cause))
                case _:
                    pass
        shadow = self.engine.shadow_starts()
        for name, at in shadow.items():
            self.turns.setdefault(name, at)


def _joined(node: object) -> Event:
    from mooring.model.events import NodeJoined

    return NodeJoined(node)  # type: ignore[arg-type]


def as_workload(work: Work) -> Workload:
    """Return a work of the plain twin as the engine knows it."""
    plain = gang(
        work.name,
        tasks=work.tasks,
        gpus=work.gpus,
        submitted_at=work.submit,
        priority=work.priority,
    )
    return replace(plain, estimate_s=work.longest, preemptible=work.preemptible)


def works_of(rows: Sequence[tuple[int, int, int]]) -> list[Work]:
    """Return works from (wait before it comes, GPUs, run time)."""
    at, found = 0.0, []
    for number, (gap, gpus, run) in enumerate(rows):
        at += gap
        found.append(Work(f"w{number:02}", at, 1, gpus, float(run)))
    return found


rows = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 4), st.integers(1, 200)), min_size=2, max_size=14
)


@given(rows)
def test_one_node_is_served_as_the_plain_shadow_serves_it(
    given_rows: list[tuple[int, int, int]],
) -> None:
    """Where places cannot differ, everybody has the same turn, and ends no later."""
    works = works_of(given_rows)
    twin = Shadow(Cluster(1, 4), list(works))
    story = twin.play()
    played = Played("a=4", works, BACKFILL)
    played.engine._turns.forgets = False  # as the twin

    played.loop.run()

    assert played.ends == pytest.approx(story.ends)


def test_an_endless_stream_does_not_delay_a_giant() -> None:
    """The giant starts at the same instant, however long the stream of small ones lasts."""
    found = []
    for length in (100, 300):
        stream = [Work(f"s{i:03}", 7.0 * i, 1, 1, 100.0 + 37 * (i % 5)) for i in range(length)]
        played = Played("a=8 b=8", [*stream, Work("giant", 200.0, 2, 8, 50.0)], BACKFILL)
        played.loop.run()
        found.append(played.starts["giant"])

    assert found[0] == found[1]


TOGETHER = [(0, 2, 105), (1, 3, 1), (1, 2, 99), (1, 1, 3), *[(0, 1, 1)] * 5, (1, 1, 1), (1, 1, 2)]
"""Two start at one instant, and not in the order of coming: one is to leave for one who is due."""


@given(rows, st.integers(1, 10))
@example(TOGETHER, 10)
def test_a_restart_changes_nothing(given_rows: list[tuple[int, int, int]], at: int) -> None:
    """An engine that takes over with the memory of the first one goes on as that would have."""
    works = works_of(given_rows)
    whole = Played("a=4", works, BACKFILL)
    whole.loop.run()
    first = Played("a=4", works, BACKFILL)
    for _ in range(at):
        first.loop.step()
    now = first.loop.now
    scenario = first.engine.snapshot(now)

    second = Played("a=4", [work for work in works if work.submit > now], BACKFILL)
    second.run_of = whole.run_of
    second.engine = Engine(scenario.topology, scenario.policy, scenario.memory, scenario.queues)
    second.loop = Loop(
        second.engine,
        run_time=lambda workload: whole.run_of[workload.name],
        listeners=[second.listen],
    )
    for event in scenario.events():
        second.loop.at(now, event)
    for work in works:
        if work.submit > now:
            second.loop.at(work.submit, Submitted(as_workload(work)))
    second.loop.run()

    assert first.ends | second.ends == pytest.approx(whole.ends)


def test_who_runs_before_its_turn_leaves_for_one_whose_turn_has_come() -> None:
    topology, nodes = picture("a=2")
    world = World(Engine(topology, queues=BACKFILL)).join(*nodes)
    world.run(task("first", 1), now=0)
    world.run(task("second", 2, submitted_at=1), now=1)  # has no room: its turn is when first ends
    world.run(task("third", 1, submitted_at=2), now=2)  # starts before its turn

    plan = world.end("first").cycle(10)

    assert [(one.workload, one.cause, one.beneficiary) for one in evicts(plan)] == [
        ("third", "overtaker", "second")
    ]
    plan = world.confirm(plan).cycle(11)
    assert [bind.workload for bind in plan.decisions if isinstance(bind, Bind)] == ["second"]
    world.confirm(plan).settles()


def test_what_cannot_be_asked_to_leave_does_not_overtake() -> None:
    topology, nodes = picture("a=2")
    world = World(Engine(topology, queues=BACKFILL)).join(*nodes)
    world.run(task("first", 1), now=0)
    world.run(task("second", 2, submitted_at=1), now=1)
    fixed = replace(task("third", 1, submitted_at=2), preemptible=False)

    assert world.submit(fixed).cycle(2).decisions == ()


def checkpointing(name: str, gpus: int, at: float, saved_at: float = 0.0) -> Workload:
    return replace(task(name, gpus, submitted_at=at), checkpoint_at=saved_at)


def waiting_for_its_turn() -> World:
    """Return a world where one runs before its turn and others wait."""
    topology, nodes = picture("a=2")
    world = World(Engine(topology, queues=BACKFILL)).join(*nodes)
    world.run(task("first", 1), now=0)
    world.run(task("second", 2, submitted_at=1), now=1)
    return world.run(checkpointing("third", 1, 2.0), now=2)


def test_who_had_much_lets_one_by_who_had_nothing() -> None:
    """Neither's turn has come; after four hours a workload that checkpoints may be asked."""
    world = waiting_for_its_turn()
    plan = world.submit(checkpointing("fourth", 1, 3.0)).cycle(3)
    assert plan.decisions == ()
    assert plan.wake_at == 2 + 4 * 3600

    world.edit(checkpointing("third", 1, 2.0, saved_at=14_000))
    plan = world.cycle(2 + 4 * 3600)

    assert [(one.workload, one.cause, one.beneficiary) for one in evicts(plan)] == [
        ("third", "quantum", "fourth")
    ]


def test_who_does_not_checkpoint_stays_until_a_turn_comes() -> None:
    topology, nodes = picture("a=2")
    world = World(Engine(topology, queues=BACKFILL)).join(*nodes)
    world.run(task("first", 1), now=0)
    world.run(task("second", 2, submitted_at=1), now=1)
    world.run(task("third", 1, submitted_at=2), now=2)

    plan = world.submit(checkpointing("fourth", 1, 3.0)).cycle(10 * 3600)

    assert plan.decisions == ()


def test_who_lost_its_place_is_no_overtaker_when_it_starts_by_its_rank() -> None:
    """It started before its turn, on a node that is lost; then it outranks one who runs."""
    topology, nodes = picture("a=2 b=1")
    world = World(Engine(topology, queues=BACKFILL)).join(*nodes)
    world.run(task("first", 2), now=0)
    world.run(task("second", 2, submitted_at=1), now=1)
    world.run(checkpointing("third", 1, 2.0), now=2)
    assert world.engine.snapshot(2).memory.overtakers == ("third",)

    world.see(NodeLeft("b")).edit(replace(checkpointing("third", 1, 2.0), priority=1))
    plan = world.cycle(3)

    assert [(one.workload, one.cause, one.beneficiary) for one in evicts(plan)] == [
        ("first", "preempt", "third")
    ]
    assert world.engine.snapshot(3).memory.overtakers == ()
    world.confirm(plan).run(checkpointing("fourth", 1, 4.0), now=4)
    assert evicts(world.cycle(10 * 3600)) == []


def test_a_fork_lets_groups_of_one_workload_grow_in_the_same_order() -> None:
    """Both are expected to be done at the same time, before one who waits to start."""
    topology, nodes = picture("a=2")
    world = World(Engine(topology, queues=BACKFILL)).join(*nodes)
    both = [group(name, gpus=1, tasks=1, most=2) for name in ("x", "y")]
    world.run(replace(workload("wide", *both), estimate_s=100.0), now=0)
    world.submit(replace(task("huge", 9, submitted_at=1), estimate_s=1000.0)).cycle(1)
    world.see(PolicyChanged(Policy(gang_grace_s=5.0))).join(node("b", 2))
    fork = world.engine.fork()

    plan = world.cycle(2)

    assert by_group(plan) == {"x": ["b"], "y": ["b"]}
    assert fork.decide(2) == plan


def test_a_turn_that_comes_with_other_queues_is_judged_by_them() -> None:
    """The queues count something more from now on; the next one is due in the same cycle."""
    topology, nodes = picture("a=2")
    quotas = (Quota("gpu", quota=2000), Quota("cpu", quota=1000))
    before, after = (Queue("default", order="backfill", quotas=quotas[:n]) for n in (1, 2))
    world = World(Engine(topology, queues=(before, Queue("x")))).join(*nodes)
    world.run(task("first", 1), task("second", 1), now=0.0)
    world.submit(task("big", 2, submitted_at=1.0)).cycle(1.0)
    small = task("small", 1, submitted_at=2.0)
    world.end("first").run(small, task("huge", 8, queue="x"), now=2.0)

    plan = world.end("second").see(QueuesChanged((after, Queue("x")))).cycle(3.0)

    assert [(each.workload, each.beneficiary) for each in evicts(plan)] == [("small", "big")]


def test_a_shadow_outlives_devices_that_it_ran_on() -> None:
    """What ran there on a device that is gone gets another place, and keeps its turn."""
    topology, nodes = picture("a=2")
    busy = task("busy", 1)
    there = Placement("main", (0,), ("a",), (0b1000,))
    runs = (ShadowRun(busy, 0.0, (there,)), ShadowRun(task("next", 2, submitted_at=1.0)))
    world = World(Engine(topology, memory=Memory(shadow=runs), queues=BACKFILL)).join(*nodes)
    world.adopt(busy, {"a": [0b1]}).submit(task("next", 2, submitted_at=1.0))

    world.cycle(10.0)

    assert world.engine.shadow_starts() == {"busy": 0.0}
    assert world.end("busy").cycle(20.0).decisions
    assert world.engine.running() == ["next"]


def test_what_a_shadow_has_done_of_a_run_outlives_a_restart() -> None:
    """It ran 100 s, 40 of them in the shadow before it had to leave there: 60 are left."""
    topology, nodes = picture("a=2")
    there = Placement("main", (0,), ("a",), (0b11,))
    runs = (ShadowRun(task("over", 2), 10.0, (there,), ran_s=100.0, done_s=40.0),)
    world = World(Engine(topology, memory=Memory(shadow=runs), queues=BACKFILL)).join(*nodes)
    world.submit(task("next", 2), task("last", 2, submitted_at=1.0))

    plan = world.cycle(20.0)

    assert plan.wake_at == 70.0
    world.cycle(70.0)
    assert world.engine.shadow_starts() == {"next": 70.0}


def test_a_shadow_does_not_look_for_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody moves there, so that who waits is not tried again while what is free is in crumbs."""
    tried: list[str] = []
    attempt = Starts.attempt

    def note(self: Starts, entry: Entry, line: Line, reasons: list[Reason]) -> bool:
        if self.hall.is_shadow:
            tried.append(entry.workload.name)
        return attempt(self, entry, line, reasons)

    monkeypatch.setattr(Starts, "attempt", note)
    world = cluster("a=4 b=4").see(QueuesChanged(BACKFILL))
    world.adopt(task("x", 2), {"a": [0b11]}).adopt(task("y", 1), {"a": [0b100]})
    world.adopt(task("z", 2), {"b": [0b11]}).run(task("big", 4, submitted_at=1.0), now=1.0)
    assert tried.count("big") == 1

    world.end("y").run(now=2.0)
    assert tried.count("big") == 1
    assert world.end("x").run(now=3.0).engine.running() == ["z", "big"]
    assert tried.count("big") == 2


def test_who_would_have_room_on_reserved_nodes_is_told_for_whom_they_are() -> None:
    world = cluster("a=1")
    world.engine.desk.reserved["big"] = ("a",)

    world.submit(task("small", 1)).cycle(1.0)

    assert world.engine.reasons("small") == (Blocked("big"),)


def closed_for_big() -> World:
    """Return a node that is kept for a due workload, until an overtaker may be asked to leave.

    The rest of it is free, and a small workload waits for that, behind one that has no room.
    """
    eviction = Eviction(minimum_run_s=(("overtaker", 100.0),), consolidates=False)
    world = cluster("a=4 b=1", policy=Policy(eviction=eviction)).see(QueuesChanged(BACKFILL))
    world.adopt(task("x", 2), {"a": [0b11]}).adopt(task("y", 1), {"a": [0b100]})
    world.adopt(task("other", 1), {"b": [0b1]}).run(task("big", 4, submitted_at=1.0), now=1.0)
    world.run(task("early", 1, submitted_at=2.0), now=2.0)
    world.end("x").run(now=3.0).end("y").run(now=4.0)
    assert world.engine.desk.reserved == {"big": ("a",)}
    world.run(gang("next", tasks=5, gpus=1, submitted_at=4.5), now=4.5)
    return world.run(task("small", 1, submitted_at=5.0), now=5.0)


def test_who_waits_for_closed_nodes_starts_when_they_are_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where its search for others to leave rests, as on a busy cluster."""
    monkeypatch.setattr(Waking, "_wake_rivals", lambda self, *, is_shorter: None)
    world = closed_for_big()
    assert world.engine.reasons("small") == (Blocked("big"),)

    world.end("big").run(now=6.0)

    assert world.engine.running() == ["other", "early", "small"]


def test_room_on_closed_nodes_helps_nobody_for_whom_they_are_closed() -> None:
    desk = closed_for_big().engine.desk
    ask = desk.ask_of(desk.entries["small"])

    assert Helped(desk.fits, [0])(ask)
    assert not Helped(desk.fits, [0])(ask, closed=("a",))
    assert not Helped(desk.fits, [1])(ask, closed=("a",))


def test_those_whose_turns_came_together_are_served_in_the_order_of_their_turns() -> None:
    """Whoever lost its place first, and in a fork, which does not know that, too."""
    world = cluster("a=4").see(QueuesChanged(BACKFILL)).run(task("w", 4))
    world.run(task("x", 2), task("y", 2), task("z", 4), now=1.0)
    world.end("w").run(now=2.0).run(task("last", 4), now=2.5)
    assert {name: world.engine.shadow_starts()[name] for name in "xy"} == {"x": 2.0, "y": 2.0}

    world.tasks("y", TaskState.FAILED).tasks("x", TaskState.FAILED)
    fork = world.engine.fork()
    plan = world.cycle(3.0)

    assert [each.workload for each in plan.decisions] == ["x", "y"]
    assert fork.decide(3.0) == plan


def test_in_strict_order_a_turn_does_not_go_before_those_who_rank_higher() -> None:
    """Nor are nodes reserved for it: one who is before it might need just those."""
    queues = (Queue("fills", order="backfill"), Queue("strict", order="strict"))
    world = cluster("a=4 b=4").see(QueuesChanged(queues))
    world.run(replace(task("keeps", 4), queue="fills"), replace(task("late", 4), queue="strict"))
    world.run(replace(task("waits", 4), queue="fills"), now=1.0)
    assert set(world.engine.shadow_starts()) == {"keeps", "late"}
    first = replace(gang("first", tasks=2, gpus=4), queue="strict", deadline_at=1000.0)

    world.run(first, now=2.0).tasks("late", TaskState.FAILED).run(now=3.0)

    assert world.engine.reasons("late") == (Blocked("first"),)
    assert world.engine.desk.reserved == {}


def test_who_lost_its_start_in_the_shadow_is_there_as_one_that_comes_anew() -> None:
    """Without a minimum it would wait there to grow, after all who wait to start."""
    world = cluster("a=1 b=1").see(QueuesChanged(BACKFILL))
    world.run(replace(task("runs"), run_limit_s=500.0), gang("idle", tasks=0, most=1), now=0.0)
    world.run(now=1.0).submit(task("big", 2)).cycle(2.0)

    world.leave("b").cycle(3.0)

    assert dict(world.engine.memory().latest_starts) == {"idle": 500.0}


def test_who_may_not_start_has_no_turn_that_others_wait_for() -> None:
    """Its limit is over, though nobody has ended it: it ran on for ever in the shadow."""
    world = cluster("a=2").see(QueuesChanged(BACKFILL))
    world.run(replace(task("over", 2), run_limit_s=10.0), now=0.0)
    world.run(replace(task("next", 2), preemptible=False), now=1.0)

    world.run(now=10.0).run(now=11.0)

    assert world.engine.running() == ["next"]


def test_who_may_not_start_is_not_told_when_it_does() -> None:
    """It overtook, until its limit was over; in the shadow its turn was yet to come."""
    policy = Policy(backfill=Backfill(reservations=2))
    world = cluster("a=2", policy=policy).see(QueuesChanged(BACKFILL))
    world.run(*(replace(task(n), run_limit_s=s) for n, s in (("runs", 500.0), ("ends", 9.0))))
    world.run(task("big", 2), now=1.0).run(now=9.0)
    world.run(replace(task("over"), run_limit_s=10.0), now=10.0)
    assert world.engine.running() == ["runs", "over"]

    world.run(now=20.0).run(now=21.0)

    assert dict(world.engine.memory().latest_starts) == {"big": 500.0}


def test_who_may_start_again_waits_for_its_turn_again() -> None:
    world = cluster("a=2").see(QueuesChanged(BACKFILL)).run(task("paused", 2), now=0.0)
    fixed = [replace(task(name, 2), preemptible=False) for name in ("next", "last")]
    world.run(*fixed, now=1.0).edit(replace(task("paused", 2), active=False))
    world.run(now=2.0).run(now=3.0)
    assert world.engine.running() == ["next"]

    world.edit(task("paused", 2)).run(now=4.0).end("next").run(now=5.0)

    assert world.engine.running() == ["paused"]
    assert world.engine.shadow_starts() == {"paused": 5.0}


def test_nodes_are_closed_only_for_queues_that_backfill() -> None:
    """In others a turn is no promise: who is covered by quota may ask for that room."""
    own = Queue("own", quotas=(Quota("gpu", quota=2000),))
    queues = (Queue("fills", order="backfill"), Queue("plain"), own)
    world = cluster("a=2").see(QueuesChanged(queues)).run(task("late", 2, queue="plain"), now=0.0)
    world.run(task("waits", 2, queue="fills"), now=1.0).tasks("late", TaskState.FAILED)
    world.run(task("keeps", 2, queue="plain", priority=1), now=2.0).run(now=3.0)
    assert world.engine.running() == ["keeps"]

    plan = world.submit(task("covered", 2, queue="own")).cycle(4.0)

    assert [(each.workload, each.beneficiary) for each in evicts(plan)] == [("keeps", "covered")]

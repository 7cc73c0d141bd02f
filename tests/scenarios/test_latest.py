"""Order `backfill` with limits: who is blocked is told when it starts at the latest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.cluster import WHOLE
from mooring.model.events import QueuesChanged, WorkloadChanged
from mooring.model.plan import Delays, Reserved
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Backfill, Policy
from tests.build import cluster, gang, task
from tests.scenarios.story import Story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload

HOUR = 3600.0


def lasting(seconds: float, workload: Workload) -> Workload:
    """Return a workload with a limit."""
    return replace(workload, run_limit_s=seconds)


def story(text: str, deep: int = 1, grace_s: float = 0.0) -> Story:
    policy = Policy(backfill=Backfill(reservations=deep))
    return Story(text, Queue("default", order="backfill"), policy=policy, grace_s=grace_s)


def latest(tale: Story, name: str) -> list[float]:
    """Return when one starts at the latest, if it is told."""
    return [reason.at for reason in tale.why(name) if isinstance(reason, Reserved)]


def test_the_blocked_head_has_a_latest_start() -> None:
    tale = story("a=4").at(0, lasting(HOUR, task("runs", 2))).at(1, lasting(HOUR, task("big", 4)))
    tale.go(10)
    assert tale.why("big")[-1] == Reserved(HOUR, 1)
    tale.rests()


def test_nothing_is_promised_where_nobody_knows() -> None:
    tale = story("a=4").at(0, task("endless", 2)).at(1, lasting(HOUR, task("big", 4))).go(10)
    assert latest(tale, "big") == []


def test_an_estimate_is_as_good() -> None:
    tale = story("a=4").at(0, replace(task("runs", 2), estimate_s=100.0)).at(1, task("big", 4))
    assert latest(tale.go(10), "big") == [100.0]


def test_limits_that_go_and_come_again_are_looked_at_anew() -> None:
    """Somebody was told a start, then nobody had a limit, and then somebody has one again."""
    world = cluster("a=4 b=8").see(QueuesChanged((Queue("default", order="backfill"),)))
    world.run(task("stays", 8), now=0.0).run(lasting(500.0, task("runs", 4)), now=0.5)
    world.run(task("big", 4), now=2.0)
    assert [type(r) for r in world.engine.reasons("big")][-1] is Reserved
    world.run(task("next", 4), task("huge", 8), now=2.5)
    world.end("runs").run(now=3.0).run(task("other", 1), now=5.0)
    world.run(lasting(50.0, task("timed", 1)), now=6.0)
    assert set(world.engine.waiting()) == {"next", "huge", "other", "timed"}


def test_several_deep() -> None:
    """They start in order: the third is not told, or it would have to be 3 hours."""
    tale = story("a=4", deep=2).at(0, lasting(HOUR, task("runs", 2)))
    for at in (1, 2, 3):
        tale.at(at, lasting(HOUR, task(f"big-{at}", 4)))
    tale.go(10)
    assert [latest(tale, f"big-{at}") for at in (1, 2, 3)] == [[HOUR], [2 * HOUR], []]


def test_those_who_come_later_do_not_move_it_even_if_they_run_for_ever() -> None:
    """They fill what is free as overtakers, and leave when the turn of `big` has come."""
    tale = story("a=4").at(0, lasting(HOUR, task("runs", 2)), runs=HOUR)
    tale.at(1, lasting(HOUR, task("big", 4)))
    tale.at(2, *(task(f"small-{i}", 1) for i in range(4)))
    tale.go(100)
    assert latest(tale, "big") == [HOUR]
    assert tale.running() == ["runs", "small-0", "small-1"]

    tale.go(HOUR + 1)

    assert tale.starts("big") == [HOUR]


@pytest.mark.parametrize(("least", "starts"), [(0.0, [HOUR - 60]), (2 * HOUR, [2 * HOUR])])
def test_who_must_run_for_some_time_does_not_overtake(least: float, starts: list[float]) -> None:
    """It could not be asked to leave when the turn of `big` has come, which was told when."""
    tale = story("a=4").at(0, lasting(HOUR, task("runs", 2)), runs=HOUR)
    tale.at(1, lasting(HOUR, task("big", 4)), runs=HOUR)
    late = replace(task("late", 2, priority=-1), minimum_run_s=least)
    tale.at(HOUR - 60, late, runs=4 * HOUR).go(HOUR - 30)
    assert latest(tale, "big") == [HOUR]

    tale.go(2 * HOUR + 1)

    assert tale.starts("big") == [HOUR]
    assert tale.starts("late")[:1] == starts


def test_it_moves_earlier_when_somebody_ends_early() -> None:
    tale = story("a=4").at(0, lasting(HOUR, task("runs", 2)))
    tale.at(0, lasting(9 * HOUR, task("long", 2)), runs=600)
    tale.at(1, lasting(HOUR, task("big", 4))).go(10)
    assert latest(tale, "big") == [9 * HOUR]
    assert latest(tale.go(700), "big") == [HOUR]


def test_it_moves_later_only_for_who_ranks_higher() -> None:
    tale = story("a=4").at(0, replace(lasting(HOUR, task("runs", 2)), preemptible=False))
    tale.at(1, lasting(HOUR, task("big", 4))).at(100, lasting(HOUR, task("urgent", 4, priority=1)))
    tale.go(200)
    assert latest(tale, "urgent") == [HOUR]
    lower = lasting(HOUR, task("urgent", 4, priority=-1))
    tale.tell(300, WorkloadChanged(lower)).go(310)
    assert latest(tale, "big") == [HOUR]


@pytest.mark.parametrize(("text", "limit"), [("a=4", None), ("a=8", 4 * WHOLE)])
def test_one_that_can_never_start_is_in_nobodys_way(text: str, limit: int | None) -> None:
    """Strict order lets others by: what was told holds, though two of a kind rank higher."""
    tale = Story(text, Queue("default", quotas=(Quota("gpu", limit=limit),), order="backfill"))
    tale.at(0, lasting(HOUR, task("runs", 2))).at(1, lasting(HOUR, task("big", 4))).go(10)
    assert latest(tale, "big") == [HOUR]
    tale.at(100, *(lasting(HOUR, task(f"never-{i}", 5, priority=1)) for i in range(2)))

    told = [latest(tale.go(at), "big") for at in (110, 200)]

    assert tale.waiting() == ["big", "never-0", "never-1"]
    assert told == [[HOUR]] * 2
    assert latest(tale, "never-0") == []


@pytest.mark.parametrize("at", [30, 100])
def test_who_ranks_higher_is_told_within_a_minute(at: float) -> None:
    """Also who comes right after the last look, and even if nothing happens after that."""
    tale = story("a=4").at(0, replace(lasting(HOUR, task("runs", 2)), preemptible=False))
    tale.at(1, lasting(HOUR, task("big", 4)))
    tale.at(at, lasting(HOUR, task("urgent", 4, priority=1))).go(at + 60)

    assert latest(tale, "urgent") == [HOUR]
    assert latest(tale, "big") == []


def test_what_was_told_holds_while_one_before_has_its_turn_and_overtakers_leave() -> None:
    """`first` was told to start after an hour at the latest, and may be as late as that."""
    tale = story("a=4", deep=2, grace_s=100.0)
    tale.at(0, lasting(HOUR, task("runs", 2)), runs=600)
    tale.at(1, lasting(HOUR, task("first", 4))).at(2, lasting(HOUR, task("second", 4)))
    tale.at(3, task("small", 2)).at(620, task("late", 1)).go(500)
    assert latest(tale, "second") == [2 * HOUR]

    told = [latest(tale.go(at), "second") for at in (601, 630, 690)]

    assert tale.waiting() == ["first", "late", "second"]
    assert told == [[2 * HOUR]] * 3
    assert latest(tale.go(710), "second") == [700 + HOUR]


@pytest.mark.parametrize("deep", [1, 2])
def test_it_is_taken_back_at_once_when_the_turn_of_another_queue_is_in_the_way(deep: int) -> None:
    """`endless` waits for nobody of the first queue. How many are to be told is no matter."""
    queues = Queue("default", order="backfill"), Queue("other")
    tale = Story("a=4", *queues, policy=Policy(backfill=Backfill(reservations=deep)))
    tale.at(0, lasting(HOUR, task("runs", 2)))
    tale.at(0, lasting(HOUR, task("first", 2, queue="other")), runs=600)
    tale.at(1, lasting(HOUR, task("big", 4))).at(590, task("endless", 2, queue="other"))
    assert latest(tale.go(599), "big") == [HOUR]

    tale.go(601)

    assert tale.running() == ["endless", "runs"]
    assert latest(tale, "big") == []


def test_nothing_is_told_while_one_before_is_later_than_it_was_told() -> None:
    """When `first` ends is not known before it starts: told, it would be later all the time."""
    tale = story("a=4", deep=2, grace_s=100.0).at(0, lasting(HOUR, task("runs", 2)), runs=HOUR)
    tale.at(1, lasting(HOUR, task("first", 4))).at(2, lasting(HOUR, task("second", 4)))
    tale.at(3, task("small", 2)).at(HOUR + 20, task("late", 1))

    told = [latest(tale.go(HOUR + after), "second") for after in (1, 30, 90)]

    assert tale.waiting() == ["first", "late", "second"]
    assert told == [[], [], []]
    assert latest(tale.go(HOUR + 110), "second") == [HOUR + 100 + HOUR]


def test_a_latest_start_behind_held_room_does_not_slip_while_others_leave() -> None:
    """Room is held for `urgent` for two minutes at most; `late` makes all be looked at anew."""
    tale = Story("a=4", Queue("default", order="easy"), grace_s=60.0)
    tale.at(0, task("old", 4, priority=-1)).at(10, lasting(HOUR, task("urgent", 4, priority=1)))
    tale.at(11, lasting(HOUR, task("big", 4))).at(30, task("late", 4, priority=-1))

    told = [latest(tale.go(at), "big") for at in (20, 40, 80)]

    assert tale.starts("urgent") == [70]
    assert told == [[130 + HOUR], [130 + HOUR], [70 + HOUR]]


@pytest.mark.parametrize("at", [3, 4])
@pytest.mark.parametrize("queue", ["timed", "other"])
@pytest.mark.parametrize("order", ["easy", "conservative"])
def test_a_turn_by_the_shadow_is_no_reason_to_delay_who_is_booked(
    order: str, queue: str, at: float
) -> None:
    """The shadow knows no limits: there `small` passes `big`, whether they come together or not.

    Its queue stands behind if it is the other one, which uses more.
    """
    rules = Queue("default", order="backfill"), Queue("timed", order=order), Queue("other")
    tale = Story("a=4 b=4 c=4", *rules).at(0, task("keeps", 4), task("used", 4, queue="other"))
    tale.at(1, task("never", 8))
    tale.at(2, lasting(HOUR, task("runs", 2, queue="timed")))
    tale.at(3, lasting(HOUR, task("big", 4, queue="timed")))
    tale.at(at, lasting(2 * HOUR, task("small", 2, queue=queue, priority=-1))).go(10)

    assert "small" in tale.engine.shadow_starts()
    assert latest(tale, "big") == [2 + HOUR]
    assert Delays("big") in tale.why("small")
    tale.rests()


def test_one_waits_for_the_flavor_that_it_needs() -> None:
    """Who runs for ever on the other node is no matter."""
    tale = Story("h=4 a=2", Queue("default", order="backfill"))
    tale.at(0, lasting(HOUR, task("h", 3)), task("a", 2)).at(1, lasting(HOUR, task("big", 4)))
    assert latest(tale.go(10), "big") == [HOUR]


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[float, float, Workload]]:
    """Return submissions of one priority, how long each really runs, and its limit."""
    found, at = [], 0.0
    for number in range(draw(st.integers(2, 12))):
        at += draw(st.sampled_from((0, 1, 5)))
        run = draw(st.integers(1, 12))
        limit = float(run + draw(st.sampled_from((0, 0, 4))))
        size = draw(st.sampled_from((1, 2, 4)))
        work = gang(f"w{number:02}", tasks=draw(st.integers(1, 4 // size)), gpus=size)
        found.append((at, float(run), lasting(limit, work)))
    return found


@pytest.mark.parametrize("deep", [1, 3])
@given(streams())
def test_a_latest_start_never_slips_and_is_kept(
    deep: int, stream: list[tuple[float, float, Workload]]
) -> None:
    """On one node, where it does not matter which devices are free."""
    tale, told = story("a=4", deep), dict[str, list[float]]()

    def listen(now: float, events: Sequence[Event], plan: Plan) -> None:
        for waiting in plan.waiting:
            said = [r.at for r in waiting.reasons if isinstance(r, Reserved)]
            told.setdefault(waiting.workload, []).extend(said)

    tale.loop.listen(listen)
    for at, run, work in stream:
        tale.at(at, work, runs=run)
    tale.go(500)

    for name, instants in told.items():
        assert instants == sorted(instants, reverse=True)
        assert not instants or tale.starts(name)[0] <= instants[-1]

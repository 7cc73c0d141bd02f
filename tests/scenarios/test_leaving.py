"""Leaving: who has to go, when, and with how much notice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mooring.model.events import QueuesChanged, WorkloadChanged
from mooring.model.plan import Exhausted, Notice
from mooring.model.settings import Eviction, Policy
from tests.build import gang, on, service, task
from tests.scenarios.story import Left, Story, minimum_runs, queue

if TYPE_CHECKING:
    from mooring.model.events import Event

DAY = 86_400.0
RACKS = "rack-1: a=8 b=8 | rack-2: c=8 d=8 | rack-3: e=8 f=8"


# -- whom it costs least ------------------------------------------------------------------------


def test_a_whole_rack_gang_gets_one_rack_freed() -> None:
    """Small work is everywhere; all of one rack leaves, and nobody of another."""
    story = Story(RACKS)
    story.at(0, *(task(f"small-{i:02}", 2) for i in range(24)))
    story.at(10, gang("big", tasks=4, gpus=4, level="rack", priority=1))
    story.go(20)

    rack = {"a": "ab", "c": "cd", "e": "ef"}[min(story.nodes("big"))]
    assert sorted(story.nodes("big")) == [rack[0], rack[0], rack[1], rack[1]]
    assert len(story.left()) == 8
    assert {(each.cause, each.beneficiary) for each in story.left()} == {("preempt", "big")}
    assert len(story.running()) == 17
    story.rests()


def test_the_rack_that_loses_least_is_freed() -> None:
    """The work of the second rack is the youngest; there is twice as much of it as on the first."""
    story = Story(RACKS, facts=[on("c d", model="A10"), on("e f", model="L4")])
    story.at(0, task("h", 8, models=["H100"]))
    story.at(0, *(task(f"l{i}", 8, models=["L4"]) for i in range(2)))
    story.at(5000, *(task(f"a{i}", 8, models=["A10"]) for i in range(2))).go(5000)
    assert len(story.running()) == 5

    story.at(6000, gang("big", tasks=2, gpus=8, level="rack", priority=1)).go(6010)

    assert sorted(each.workload for each in story.left()) == ["a0", "a1"]
    story.rests()


def test_a_two_day_old_training_is_spared_where_a_two_minute_old_one_suffices() -> None:
    """Though the old one is smaller: two days on four GPUs are more than two minutes on eight."""
    story = Story("a=4 b=8", facts=[on("a", model="A10")])
    story.at(0, task("old", 4, models=["A10"]))
    story.at(2 * DAY - 120, task("young", 8, models=["H100"]))
    story.at(2 * DAY, task("urgent", 4, priority=1))
    story.go(2 * DAY + 10)

    assert story.left() == [Left(2 * DAY, "young", "preempt", "urgent")]
    assert story.running() == ["old", "urgent"]
    story.rests()


def test_a_checkpoint_makes_the_old_one_cheaper() -> None:
    """Two days of work that were saved a minute ago are worth less than two hours that were not."""
    story = Story("a=8 b=8")
    old = task("old", 8)
    story.at(0, old)
    story.at(2 * DAY - 7200, task("young", 8))
    story.tell(2 * DAY - 60, WorkloadChanged(replace(old, checkpoint_at=2 * DAY - 60)))
    story.at(2 * DAY, task("urgent", 8, priority=1))
    story.go(2 * DAY + 10)

    assert story.left() == [Left(2 * DAY, "old", "preempt", "urgent")]
    story.rests()


def test_a_service_has_no_work_to_lose_however_old_it_is() -> None:
    """A month of serving is done; three days of training that were not saved would be lost."""
    story = Story("a=8 b=8")
    story.at(0, service("web", 1, gpus=8))
    story.at(27 * DAY, task("train", 8))
    story.at(30 * DAY, task("urgent", 8, priority=1))
    story.go(30 * DAY + 10)

    assert story.left() == [Left(30 * DAY, "web", "preempt", "urgent")]
    story.rests()


@pytest.mark.parametrize(("cost_s", "leaves"), [(0.0, "old"), (None, "young"), (600.0, "young")])
def test_a_restart_that_costs_nothing_costs_nothing(cost_s: float | None, leaves: str) -> None:
    """Both saved their work lately; where nothing is said a restart costs a minute."""
    story = Story("a=8 b=8")
    old = replace(task("old", 8), restart_cost_s=cost_s)
    story.at(0, old).at(DAY - 30, replace(task("young", 8), restart_cost_s=20.0))
    story.tell(DAY - 40, WorkloadChanged(replace(old, checkpoint_at=DAY - 40)))
    story.at(DAY, task("urgent", 8, priority=1)).go(DAY + 10)

    assert [each.workload for each in story.left()] == [leaves]


# -- room that is on its way --------------------------------------------------------------------


def test_nobody_is_evicted_for_room_that_is_on_its_way() -> None:
    """The first is at its limit and takes a minute to leave: the urgent one waits for it."""
    story = Story("a=8 b=8", grace_s=60)
    story.at(0, replace(task("done", 8), run_limit_s=100.0), task("other", 8))
    story.at(110, task("urgent", 8, priority=9))
    story.go(400)

    assert story.left() == [Left(100, "done", "run-limit", "")]
    assert story.starts("urgent") == [160]
    assert story.running() == ["other", "urgent"]
    story.rests()


def test_only_what_is_still_missing_is_taken_from_others() -> None:
    """Half of what it needs is on its way; it starts when both halves are free."""
    story = Story("a=8 b=8", grace_s=60)
    story.at(0, replace(task("done", 8), run_limit_s=100.0))
    story.at(0, task("o1", 4), task("o2", 4))
    story.at(110, gang("urgent", tasks=3, gpus=4, priority=9))
    story.go(400)

    ours = [each for each in story.left() if each.workload != "done"]
    assert [(each.at, each.cause, each.beneficiary) for each in ours] == [
        (110, "preempt", "urgent")
    ]
    assert story.starts("urgent") == [170]
    assert len(story.running()) == 2
    story.rests()


def test_who_does_not_leave_in_time_is_not_waited_for() -> None:
    """It was told two minutes ago and is still there: somebody else is asked."""
    story = Story("a=8 b=8", grace_s=1000)
    story.at(0, replace(task("stuck", 8), run_limit_s=100.0), task("other", 8))
    story.at(110, task("urgent", 8, priority=9))
    story.go(3000)

    assert [(each.at, each.workload) for each in story.left()] == [(100, "stuck"), (220, "other")]
    assert story.starts("urgent") != []
    assert "urgent" in story.running()
    story.rests()


# -- minimum run times --------------------------------------------------------------------------


def test_quota_is_given_back_at_once() -> None:
    """Nobody is sure of what it borrowed, not for a minute."""
    story = Story("a=8", queue("owner", 8), queue("guest"))
    story.at(0, task("g", 8, queue="guest"))
    story.at(1, task("o", 8, queue="owner"))
    story.go(10)

    assert story.left() == [Left(1, "g", "quota", "o")]
    assert story.running() == ["o"]
    story.rests()


def test_a_fair_share_is_given_back_after_a_quarter_of_an_hour() -> None:
    """Not a second later: the engine asks to be woken then."""
    story = Story("a=8", queue("first"), queue("second"))
    story.at(0, task("f1", 4, queue="first"), task("f2", 4, queue="first"))
    story.at(60, task("s", 4, queue="second"))
    story.go(899)
    assert story.left() == []
    assert story.waiting() == ["s"]

    story.go(2000)

    (gone,) = story.left()
    assert gone == Left(900, "f2", "fair-share", "s")
    assert story.starts("s") == [900]
    story.rests()


def test_a_quarter_of_an_hour_is_counted_from_the_last_start() -> None:
    """Who was evicted and came back is protected anew."""
    story = Story("a=8", queue("first"), queue("second"))
    story.at(0, task("f1", 4, queue="first"), task("f2", 4, queue="first"))
    story.at(500, task("urgent", 4, queue="first", priority=1), runs=100)
    story.at(550, task("s", 4, queue="second"))
    story.go(3000)

    assert story.left("f1", "f2")[0].at == 500
    (back,) = {each.workload for each in story.left() if each.at == 500}
    (spared,) = {"f1", "f2"} - {back}
    assert story.starts("s") == [600]
    assert story.running() == sorted([spared, "s"])
    story.rests()


@pytest.mark.parametrize("of", ["workload", "queue", "policy"])
def test_a_minimum_run_of_workload_queue_or_policy_protects(of: str) -> None:
    """Each of them lets the low one run ten minutes first."""
    low = task("low", 8, queue="team")
    rules: dict[str, Any] = {"preempt_minimum_run_s": 600.0} if of == "queue" else {}
    policy = Policy(eviction=Eviction(**minimum_runs(preempt=600.0))) if of == "policy" else None
    story = Story("a=8", queue("team", 8, **rules), policy=policy or Policy())
    story.at(0, replace(low, minimum_run_s=600.0) if of == "workload" else low)
    story.at(60, task("high", 8, queue="team", priority=1))
    story.go(1000)

    assert story.left() == [Left(600, "low", "preempt", "high")]
    assert story.starts("high") == [600]
    story.rests()


# -- limits of time -----------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["workload", "queue", "queue above"])
def test_a_run_limit_is_enforced_after_notice(of: str) -> None:
    """An hour, told five minutes before; what is waiting starts then, and the first never again."""
    org = queue("org", run_limit_s=3600.0 if of == "queue above" else None)
    team = queue("team", 8, parent="org", run_limit_s=3600.0 if of == "queue" else None)
    story = Story("a=8", org, team)
    first = task("first", 8, queue="team")
    story.at(100, replace(first, run_limit_s=3600.0) if of == "workload" else first)
    story.at(200, task("next", 8, queue="team"), runs=60)
    story.go(10_000)

    assert story.tale.notices == [(3400, Notice("first", "run-limit", 3700))]
    assert story.left() == [Left(3700, "first", "run-limit", "")]
    assert story.starts("next") == [3700]
    assert story.waiting() == ["first"]
    assert story.why("first") == (Exhausted(0),)
    story.rests()


@pytest.mark.parametrize(("saves", "over_at"), [(None, 4500), (240.0, 4020)])
def test_of_two_limits_the_tighter_holds_and_work_thrown_away_does_not_count(
    saves: float | None, over_at: float
) -> None:
    """It ran ten minutes, of which eight were saved or none; it starts again at fifteen."""
    story = Story("a=8", queue("team", 8, run_limit_s=7200.0))
    limited = replace(task("long", 8, queue="team"), run_limit_s=3600.0)
    story.at(0, replace(limited, checkpoint_every_s=saves))
    story.at(600, task("urgent", 8, queue="team", priority=1), runs=300)
    story.go(10_000)

    assert story.left() == [
        Left(600, "long", "preempt", "urgent"),
        Left(over_at, "long", "run-limit", ""),
    ]
    assert story.tale.notices == [(over_at - 300, Notice("long", "run-limit", over_at))]
    story.rests()


@pytest.mark.parametrize("profile", ["default", "kai", "kueue"])
@pytest.mark.parametrize("of", ["workload", "queue"])
def test_who_has_used_up_its_limit_goes_on_when_that_is_raised(of: str, profile: str) -> None:
    """It has saved its hour, so it runs for one more; a limit that is lowered is no help."""

    def limit(hours: float) -> Event:
        if of == "queue":
            return QueuesChanged((queue("team", 8, run_limit_s=hours * 3600.0),))
        return WorkloadChanged(replace(saving, run_limit_s=hours * 3600.0))

    saving = replace(task("long", 8, queue="team"), checkpoint_every_s=60.0)
    story = Story("a=8", queue("team", 8), policy=Policy(profile=profile))
    story.at(0, saving).tell(1, limit(1)).tell(5000, limit(0.5)).go(6000)
    assert story.why("long") == (Exhausted(0),)

    story.tell(6000, limit(2)).go(20_000)

    assert story.starts("long") == [0, 6000]
    assert [(left.at, left.cause) for left in story.left()] == [
        (3600, "run-limit"),
        (9600, "run-limit"),
    ]
    story.rests()


def test_a_limit_that_is_raised_is_told_again() -> None:
    """It is told of its end at 3600 s, gets another hour, and is told of that end too."""
    story = Story("a=8", queue("team", 8))
    short = replace(task("long", 8, queue="team"), run_limit_s=3600.0)
    story.at(0, short)
    story.loop.at(3400, WorkloadChanged(replace(short, run_limit_s=7200.0)))
    story.go(10_000)

    ends = [(at, notice.at) for at, notice in story.tale.notices]
    assert ends == [(3300, 3600), (6900, 7200)]
    assert story.left() == [Left(7200, "long", "run-limit", "")]
    story.rests()

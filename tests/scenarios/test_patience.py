"""Patience: nobody is starved, however many come later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.config import dump_scenario, read_scenario
from mooring.model.events import Ended
from mooring.model.plan import Blocked
from tests.build import gang, on, task
from tests.scenarios.story import Story, queue

RACKS = " ".join(f"n{i:02}=8" for i in range(64))
"""512 devices."""


# -- backfill -----------------------------------------------------------------------------------


def giant_among_small(hours: int, limited: bool = False, order: str = "backfill") -> Story:
    """Return how a gang that needs everything fares in a stream of small work that lasts so long.

    More comes every minute than there is room for, some of it short, some of it long.
    """
    story = Story(RACKS, queue("team", order=order))
    for i in range(60 * hours):
        for size, runs in ((8, 2400.0), (8, 4800.0), (4, 600.0)):
            small = task(f"s{i:04}-{size}-{runs:.0f}", size, queue="team")
            limit = 2 * runs if limited else None
            story.at(60 * i, replace(small, run_limit_s=limit), runs=runs)
    story.at(3600, gang("giant", tasks=64, gpus=8, queue="team"), runs=600)
    return story.go(3600 * hours + 20_000)


@pytest.mark.parametrize("limited", [False, True], ids=["no limits", "limits"])
def test_a_512_gpu_gang_is_not_starved_by_an_endless_stream(limited: bool) -> None:
    """It starts at the same time whether the stream ends soon or goes on."""
    short, long = (giant_among_small(hours, limited) for hours in (2, 4))

    (start,) = short.starts("giant")
    assert long.starts("giant") == [start]
    assert {each.cause for each in long.left()} == {"overtaker"}
    assert long.left("giant") == []
    assert long.waiting() == []
    long.rests()


def test_it_waits_no_longer_than_in_strict_order_and_the_others_not_so_long() -> None:
    """First come, first served would make everybody wait; whoever fits, the giant for ever."""
    backfill, strict, greedy = (
        giant_among_small(2, order=order) for order in ("backfill", "strict", "best-effort")
    )

    assert backfill.starts("giant")[0] <= strict.starts("giant")[0] < greedy.starts("giant")[0]
    assert _mean_start(backfill) < _mean_start(strict)
    assert giant_among_small(4, order="best-effort").starts("giant")[0] > 4 * 3600


def _mean_start(story: Story) -> float:
    starts = [times[0] for name, times in story.tale.starts.items() if name != "giant"]
    return sum(starts) / len(starts)


# -- bounded bypass -----------------------------------------------------------------------------


def bypassed(limit: int | None) -> Story:
    """Return a head that needs four devices behind two, and ten later ones that need one."""
    story = Story("a=4", queue("team", 4, bypass_limit=limit))
    story.at(0, task("first", 2, queue="team"))
    story.at(1, task("head", 4, queue="team"))
    for i in range(10):
        story.at(10 + i, task(f"t{i}", 1, queue="team"), runs=15)
    return story


@pytest.mark.parametrize(("limit", "passes"), [(0, 0), (1, 1), (3, 3), (None, 10)])
def test_only_so_many_pass_one_that_waits(limit: int | None, passes: int) -> None:
    """Then nobody does, until it has started."""
    story = bypassed(limit).go(400)

    assert sum(bool(story.starts(f"t{i}")) for i in range(10)) == passes
    assert story.waiting() == ["head", *(f"t{i}" for i in range(passes, 10))]
    if limit is not None:
        assert story.why(f"t{passes}") == (Blocked("head"),)
    story.rests()

    story.tell(500, Ended("first")).go(600)
    assert story.running() == ["head"]
    story.tell(700, Ended("head")).go(2000)
    assert story.running() == []
    assert all(len(story.starts(f"t{i}")) == 1 for i in range(10))
    story.rests()


def test_the_bound_is_about_the_flavors_that_it_needs() -> None:
    """The head waits for H100s; on A10s they pass it as they like."""
    story = Story(
        "h=4 a=4",
        queue("team", {"H100": 4, "A10": 4}, bypass_limit=1),
        facts=[on("a", model="A10")],
    )
    story.at(0, task("first", 1, queue="team", models=["H100"]))
    story.at(1, task("head", 4, queue="team", models=["H100"]))
    story.at(10, *(task(f"a{i}", 1, queue="team", models=["A10"]) for i in range(3)))
    story.at(20, task("h0", 1, queue="team", models=["H100"]))
    story.go(30)

    assert story.running() == ["a0", "a1", "a2", "first"]
    assert story.why("h0") == (Blocked("head"),)
    story.rests()


def test_a_higher_priority_is_no_bypass() -> None:
    """Who ranks before it does not pass it, and is not kept back by it."""
    story = Story("a=4", queue("team", 4, bypass_limit=1))
    story.at(0, replace(task("first", 2, queue="team"), preemptible=False))
    story.at(1, task("head", 4, queue="team"))
    story.at(10, *(task(f"t{i}", 1, queue="team", priority=1) for i in range(2)))
    story.go(20)

    assert story.running() == ["first", "t0", "t1"]
    assert story.engine.entries()["head"].past.bypassed == 0
    story.rests()


def test_bypasses_are_counted_over_a_restart() -> None:
    """Two of three had passed it; only one more does afterwards."""
    before = bypassed(3).go(12)
    assert [before.starts(f"t{i}") for i in range(3)] == [[10], [11], []]
    memory = read_scenario(dump_scenario(before.engine.snapshot(12))).memory

    after = Story("a=4", queue("team", 4, bypass_limit=3), memory=memory)
    after.at(20, task("first", 2, queue="team"))
    after.at(21, replace(task("head", 4, queue="team")))
    after.at(30, *(task(f"u{i}", 1, queue="team") for i in range(3)))
    after.go(40)

    assert after.running() == ["first", "u0"]
    assert after.why("u1") == (Blocked("head"),)
    after.rests()


# -- order --------------------------------------------------------------------------------------


def test_deadlines_go_first_among_equal_priority() -> None:
    """The earlier deadline, then none; a higher priority goes before all of them."""
    story = Story("a=8")
    story.at(0, task("runs", 8), runs=100)
    story.at(1, task("none", 8), runs=100)
    story.at(2, replace(task("late", 8), deadline_at=9000.0), runs=100)
    story.at(3, replace(task("soon", 8), deadline_at=5000.0), runs=100)
    story.go(1000)

    order = sorted(("none", "late", "soon"), key=lambda name: story.starts(name))
    assert order == ["soon", "late", "none"]
    assert story.left() == []
    story.rests()


def test_a_withdrawn_head_of_a_strict_queue_lets_the_others_by() -> None:
    story = Story("a=8", queue("team", 8, order="strict"))
    story.at(0, task("first", 4, queue="team"))
    story.at(1, task("head", 8, queue="team")).at(2, task("small", 4, queue="team"))
    story.go(10)
    assert story.why("small") == (Blocked("head"),)

    story.tell(20, Ended("head")).go(30)

    assert story.starts("small") == [20]
    story.rests()

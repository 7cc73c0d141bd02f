"""What queues use against what they have a right to, computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.metrics.fairness import Queues
from mooring.model.cluster import WHOLE
from mooring.model.queues import Queue, Quota
from mooring.model.resources import GPU

if TYPE_CHECKING:
    from mooring.metrics.summary import QueueUse

ALL = 12 * WHOLE
X, Y = Queue("x"), Queue("y")


def asks(queues: Queues, queue: str, gpus: int, sign: int = 1) -> None:
    queues.ask(queue, sign * gpus * WHOLE)


def has(queues: Queues, queue: str, gpus: int) -> None:
    queues.hold(queue, gpus * WHOLE)


def uses(queues: Queues) -> dict[str, QueueUse]:
    return {use.queue: use for use in queues.summary().queues}


def test_while_there_is_enough_for_all_it_does_not_matter_how_short_a_job_is() -> None:
    """One has 4 GPUs for 1000 s; another comes a second later, and has 8 for 40 s."""
    queues = Queues((X, Y))
    asks(queues, "x", 4)
    has(queues, "x", 4)
    queues.pass_time(0.0, 1.0, ALL)
    asks(queues, "y", 8)
    has(queues, "y", 8)
    queues.pass_time(1.0, 41.0, ALL)
    asks(queues, "y", 8, -1)
    has(queues, "y", -8)
    queues.pass_time(41.0, 1000.0, ALL)

    fairness, found = queues.summary(), uses(queues)

    assert (found["y"].gpu_hours, found["y"].fair_gpu_hours) == pytest.approx((8 / 90, 8 / 90))
    assert (found["x"].ratio, found["y"].ratio) == pytest.approx((1.0, 1.0))
    assert (fairness.jain, fairness.least) == pytest.approx((1.0, 1.0))


def test_who_waits_a_short_time_on_a_quiet_cluster_has_had_less_for_so_long() -> None:
    """It asks for 4 of 12 GPUs for 30 s before it has them, for 60 s: two thirds of its right."""
    queues = Queues((X,))
    queues.pass_time(0.0, 1.0, ALL)
    asks(queues, "x", 4)
    queues.pass_time(1.0, 31.0, ALL)
    has(queues, "x", 4)
    queues.pass_time(31.0, 91.0, ALL)

    assert uses(queues)["x"].ratio == pytest.approx(60 / 90)


def both_ask(gpus: int) -> Queues:
    """Return two queues of which each has asked for something before, and asks for so much now."""
    queues = Queues((X, Y))
    for queue in "xy":
        asks(queues, queue, 1)
        asks(queues, queue, 1, -1)
        asks(queues, queue, gpus)
    return queues


def test_rights_are_divided_anew_when_a_minute_is_over_though_nothing_happens() -> None:
    """x asks for all and has all; y does from 30 s on and has nothing.

    The half that is due to y in any case counts at once, what x has lost by it from 60 s on.
    """
    queues = both_ask(0)
    asks(queues, "x", 24)
    has(queues, "x", 12)
    queues.pass_time(0.0, 30.0, ALL)
    asks(queues, "y", 24)
    queues.pass_time(30.0, 3600.0, ALL)

    fairness, found = queues.summary(), uses(queues)

    assert found["x"].fair_gpu_hours == pytest.approx((12 * 60 + 6 * 3540) / 3600)
    assert found["y"].fair_gpu_hours == pytest.approx(6 * 3570 / 3600)
    assert found["x"].ratio == pytest.approx(12 * 3600 / (12 * 60 + 6 * 3540))
    assert found["y"].ratio == 0.0
    assert (fairness.jain, fairness.least) == pytest.approx((0.5, 0.0))


def test_who_comes_between_two_divisions_has_a_right_while_it_is_there() -> None:
    """x asks for more than there is; y asks for 4 GPUs for 40 s and has them: no more, no less."""
    queues = both_ask(0)
    asks(queues, "x", 24)
    has(queues, "x", 8)
    queues.pass_time(0.0, 10.0, ALL)
    asks(queues, "y", 4)
    has(queues, "y", 4)
    queues.pass_time(10.0, 50.0, ALL)
    asks(queues, "y", 4, -1)
    has(queues, "y", -4)
    queues.pass_time(50.0, 60.0, ALL)

    found = uses(queues)

    assert found["y"].gpu_hours == found["y"].fair_gpu_hours == pytest.approx(4 * 40 / 3600)
    assert (found["x"].ratio, found["y"].ratio) == pytest.approx((8 / 12, 1.0))


def test_who_needs_its_share_no_more_has_a_right_to_what_it_needs() -> None:
    """Both ask for all and have half; from 10 s on x asks for 3 GPUs, as it has ended the rest."""
    queues = both_ask(12)
    has(queues, "x", 6)
    has(queues, "y", 6)
    queues.pass_time(0.0, 10.0, ALL)
    asks(queues, "x", 9, -1)
    has(queues, "x", -3)
    queues.pass_time(10.0, 60.0, ALL)

    found = uses(queues)

    assert found["x"].fair_gpu_hours == pytest.approx((6 * 10 + 3 * 50) / 3600)
    assert (found["x"].ratio, found["y"].ratio) == pytest.approx((1.0, 1.0))


def test_what_moves_between_queues_is_counted_to_the_second() -> None:
    """Both ask for all. At 10 s x gives all to y, at 50 s y gives it back, at 80 s x gives half."""
    queues = both_ask(12)
    has(queues, "x", 12)
    queues.pass_time(0.0, 10.0, ALL)
    for begin, end, moved in ((10.0, 50.0, -12), (50.0, 80.0, 12), (80.0, 180.0, -6)):
        has(queues, "x", moved)
        has(queues, "y", -moved)
        queues.pass_time(begin, end, ALL)

    found = uses(queues)

    assert found["x"].ratio == pytest.approx((12 * 10 + 12 * 30 + 6 * 100) / (6 * 180))
    assert found["y"].ratio == pytest.approx((12 * 40 + 6 * 100) / (6 * 180))


def test_a_queue_that_is_new_makes_a_division_due() -> None:
    """x asks for all; y asks for something for the first time 10 s later: half is due to it."""
    queues = Queues((X, Y))
    asks(queues, "x", 24)
    queues.pass_time(0.0, 10.0, ALL)
    asks(queues, "y", 24)
    queues.pass_time(10.0, 60.0, ALL)

    found = uses(queues)

    assert found["x"].fair_gpu_hours == pytest.approx((12 * 10 + 6 * 50) / 3600)
    assert found["y"].fair_gpu_hours == pytest.approx(6 * 50 / 3600)


@pytest.mark.parametrize(
    ("queue", "right"),
    [
        (replace(X, quotas=(Quota(GPU, limit=4 * WHOLE),)), 4),
        (replace(X, quotas=(Quota(GPU, quota=2 * WHOLE),), weight=0.0), 2),
        (replace(X, quotas=(Quota(GPU, quota=None),), weight=0.0), 8),
    ],
    ids=["limit", "no weight", "no weight, all is its quota"],
)
def test_a_limit_is_one_also_where_there_is_enough(queue: Queue, right: int) -> None:
    """It asks for 8 of 12 GPUs and has none."""
    queues = Queues((queue,))
    asks(queues, "x", 8)
    queues.pass_time(0.0, 3600.0, ALL)

    assert uses(queues)["x"].fair_gpu_hours == pytest.approx(right)


AMOUNT = st.none() | st.integers(0, 8).map(lambda gpus: gpus * WHOLE)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    """Draw up to six queues, each perhaps below one before it."""
    names = "abcdef"[: draw(st.integers(1, 6))]
    return tuple(
        Queue(
            name,
            draw(st.sampled_from(["", *names[:index]])),
            (Quota(GPU, quota=draw(AMOUNT), limit=draw(AMOUNT)),),
            weight=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
            priority=draw(st.integers(0, 2)),
        )
        for index, name in enumerate(names)
    )


@given(trees(), st.data())
def test_who_needs_no_division_has_what_a_division_would_give(
    given_queues: tuple[Queue, ...], data: st.DataObject
) -> None:
    """Whether there is enough is told without one, after every change."""
    plain, divided = Queues(given_queues), Queues(given_queues)
    divided._is_enough = lambda: False  # type: ignore[method-assign]
    for at in range(4):
        name = data.draw(st.sampled_from([*(queue.name for queue in given_queues), "other"]))
        gpus, capacity = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 16)) * WHOLE
        for queues in (plain, divided):
            asks(queues, name, gpus)
            queues.pass_time(at * 60.0, at * 60.0 + 60.0, capacity)

    one, other = uses(plain), uses(divided)

    assert {name: use.fair_gpu_hours for name, use in one.items()} == pytest.approx(
        {name: use.fair_gpu_hours for name, use in other.items()}
    )

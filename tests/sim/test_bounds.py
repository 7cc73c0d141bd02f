"""The fluid, by hand: what so many GPUs can do at most of what is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sim.bounds import Demand


def demand(*asked: tuple[float, float, float]) -> Demand:
    """Return what (begin, GPUs, seconds) ask for together."""
    made = Demand()
    for each in asked:
        made.add(*each)
    return made


def test_what_fits_is_done_when_it_is_asked_for() -> None:
    served = demand((0, 4, 10), (5, 4, 10)).serve(8, 0, 100)

    assert (served.asked, served.done, served.left, served.behind) == (80, 80, 0, 0)


def test_what_does_not_fit_is_stored_and_done_later() -> None:
    """16 GPUs for 10 s on 8: 80 GPU-seconds are stored at 10 s, and gone at 20 s."""
    work = demand((0, 16, 10))

    assert work.serve(8, 0, 10).left == 80
    assert work.serve(8, 0, 15).done == 120
    late = work.serve(8, 0, 100)
    assert (late.done, late.left) == (160, 0)
    assert late.behind == 10 * 80 / 2 + 10 * 80 / 2


def test_idle_time_does_not_come_back() -> None:
    """Nothing to do until 10 s, and then twice as much as can be done."""
    served = demand((10, 16, 10)).serve(8, 0, 20)

    assert served.done == 80  # not 160, though 20 s of 8 GPUs have passed
    assert served.left == 80


def test_work_is_not_done_faster_than_it_can_run() -> None:
    """One GPU for 100 s keeps one of eight busy, and the rest idle."""
    assert demand((0, 1, 100)).serve(8, 0, 50).done == 50


def test_a_window_begins_with_what_it_inherits() -> None:
    """Asked for before is asked for at its beginning: 4 GPUs that last until 30 s."""
    served = demand((5, 4, 25), (20, 8, 100)).serve(8, 20, 40)

    assert served.asked == 4 * 10 + 8 * 20
    assert served.done == 8 * 20


def test_services_beyond_the_cluster_are_not_stored() -> None:
    services = Demand()
    for at, more in ((0.0, 4.0), (10.0, 12.0), (20.0, -14.0)):
        services.step(at, more)

    cut = services.cut(8)
    assert services.serve(8, 0, 30).done == 40 + 80 + 80
    assert cut.serve(8, 0, 30).done == 40 + 80 + 20
    assert cut.median(0, 30) == 4
    assert cut.median(0, 22) == 8 - 4
    assert cut.joined(demand((20, 100, 10))).serve(8, 0, 30).done == 40 + 80 + 80


ASKED = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 12), st.integers(1, 40)), max_size=12)


@given(ASKED, st.integers(1, 12))
def test_no_greedy_schedule_does_more(asked: list[tuple[int, int, int]], capacity: int) -> None:
    """Seconds are stepped through; each GPU of a job is a piece of its own, the oldest first."""
    end, done, behind, before = 60, 0, 0.0, 0
    left = [[begin, gpus, seconds] for begin, gpus, seconds in sorted(asked)]
    for now in range(end):
        free = capacity
        for job in left:
            begin, gpus, seconds = job
            if begin <= now and seconds and gpus <= free:
                job[2] -= 1
                free -= gpus
        done += capacity - free
        without_end = sum(
            gpus * min(max(now + 1 - begin, 0), seconds) for begin, gpus, seconds in asked
        )
        behind += (before + without_end - done) / 2  # both grow evenly within a second
        before = without_end - done

    served = demand(*asked).serve(capacity, 0, end)

    assert done <= served.done + 1e-6
    assert served.done <= capacity * end + 1e-6
    assert served.left >= -1e-6
    assert served.behind <= behind + 1e-6


def test_nothing_asked_for() -> None:
    served = Demand().serve(8, 0, 10)

    assert (served.asked, served.done, served.behind) == (0, 0, 0)
    assert Demand().median(0, 10) == pytest.approx(0)

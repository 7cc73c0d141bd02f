"""What becomes free by itself, and how long one waits for it."""

from __future__ import annotations

from math import inf

import pytest

from mooring.policy.queues.flow import HALF_LIFE_S, MEAN_S, MOST_KNOWN, Flow

H100, A10 = "H100", "A10"


def learnt(*ends: tuple[float, str, int, int]) -> Flow:
    """Return what is known after tasks ended: when, on which flavor, of what size, how many."""
    flow = Flow()
    for at, flavor, milli, tasks in ends:
        flow.free(flavor, milli, tasks)
        flow.learn(at)
    return flow


def test_who_has_seen_nothing_expects_nothing() -> None:
    assert Flow().wait_s([H100], 1000, 1, 0.0) == inf
    assert learnt((0.0, H100, 0, 9)).wait_s([H100], 1000, 1, 0.0) == inf


@pytest.mark.parametrize(
    ("flavors", "milli", "tasks", "weight"),
    [
        ([H100], 8000, 1, 3),  # small tasks that end make no node free
        ([H100], 8000, 6, 0.5),
        ([H100], 1000, 1, 15),
        ([H100, A10], 1000, 1, 20),
        ([A10], 8000, 1, 0),
        ([], 1000, 1, 0),
    ],
)
def test_only_tasks_at_least_as_large_on_its_flavors_count(
    flavors: list[str], milli: int, tasks: int, weight: float
) -> None:
    flow = learnt((5.0, H100, 8000, 3), (5.0, H100, 1000, 12), (5.0, A10, 1000, 5))
    expected = MEAN_S / weight if weight else inf
    assert flow.wait_s(flavors, milli, tasks, 5.0) == pytest.approx(expected)


def test_steady_ends_are_their_rate() -> None:
    """One task a minute, for a day."""
    flow = learnt(*((60.0 * i, H100, 1000, 1) for i in range(1440)))
    assert flow.wait_s([H100], 1000, 5, 86_340.0) == pytest.approx(300.0, rel=0.02)


def test_old_ends_count_for_less() -> None:
    flow = learnt((0.0, H100, 1000, 4), (HALF_LIFE_S, H100, 1000, 1))
    assert flow.wait_s([H100], 1000, 3, HALF_LIFE_S) == pytest.approx(MEAN_S)
    assert flow.wait_s([H100], 1000, 3, 2 * HALF_LIFE_S) == pytest.approx(2 * MEAN_S)


def test_what_was_learnt_goes_on_in_another_life_and_apart_in_a_fork() -> None:
    flow = learnt((7.0, H100, 1000, 4), (9.0, A10, 8000, 1))
    later, fork = Flow(), flow.copy()
    later.load(flow.dump())
    assert later.dump() == flow.dump() == ((H100, 1000, 7.0, 4.0), (A10, 8000, 9.0, 1.0))

    fork.free(H100, 1000, 1)
    fork.learn(7.0)

    assert fork.dump()[-1] == (H100, 1000, 7.0, 5.0)
    assert later.dump() == flow.dump()


def test_of_many_sizes_those_that_ended_last_are_known() -> None:
    flow = learnt(*((float(i), H100, i + 1, 1) for i in range(MOST_KNOWN + 2)))
    sizes = [milli for _, milli, _, _ in flow.dump()]
    assert sizes == list(range(3, MOST_KNOWN + 3))

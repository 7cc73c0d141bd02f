"""Run times: what is learnt from ends, how long the rest is expected to be, what is kept."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.codec import decode, encode
from mooring.model.memory import Memory
from mooring.policy.backfill.runtimes import BINS, EDGES, LESSON, MOST_GROUPS, RunTimes

GPU = 1000
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0

run_times_s = st.floats(0.0, 30 * DAY)
learnt = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from((1, 8)), run_times_s))


def taught(*ends: tuple[str, int, float]) -> RunTimes:
    run_times = RunTimes()
    for queue, size, run_s in ends:
        run_times.ended(queue, size, run_s)
    return run_times


def plain_residual(ends: list[tuple[str, int, float]], queue: str, size: int, age: float) -> float:
    """Return the same by summing survival over thin slices of time, all counted anew."""
    edges = [0.0, *EDGES]

    def bin_of(run_s: float) -> int:
        return max(at for at, edge in enumerate(edges) if edge <= run_s)

    def counts(runs: list[float], decay: float) -> tuple[list[float], list[float]]:
        weights = [decay**back for back in range(len(runs) - 1, -1, -1)]
        ended, reached = [0.0] * BINS, [0.0] * BINS
        for run_s, weight in zip(runs, weights, strict=True):
            ended[bin_of(run_s)] += weight
            for at in range(bin_of(run_s) + 1):
                reached[at] += weight
        return ended, reached

    over_all = [run_s for _, _, run_s in ends]
    read = len(over_all) - len(over_all) % LESSON  # all together are read at lessons
    if len(over_all) < LESSON:
        read = max((n for n in (1, 2, 4, 8, 16, 32) if n <= len(over_all)), default=0)
    e_all, r_all = counts(over_all[:read], 0.999)
    e, r = counts([run_s for q, s, run_s in ends if (q, s) == (queue, size)], 0.98)
    h0 = [(e_all[at] + 0.3) / (r_all[at] + 1.0) for at in range(BINS)]
    h = [(e[at] + 2.0 * h0[at]) / (r[at] + 2.0) for at in range(BINS)]

    def survival(time: float) -> float:
        at, share = bin_of(time), 1.0
        for before in range(at):
            share *= 1.0 - h[before]
        if at == BINS - 1:
            return share
        width = edges[at + 1] - edges[at]
        return share * (1.0 - h[at] * (time - edges[at]) / width)

    area, times = 0.0, sorted({age, *(edge for edge in edges if edge > age)})
    for begin, end in pairwise(times):  # survival is straight in between
        area += (survival(begin) + survival(end * (1.0 - 1e-12))) / 2 * (end - begin)
    return (area + survival(EDGES[-1]) * EDGES[-1]) / survival(age)


@given(learnt, st.floats(0.0, 100 * DAY))
def test_the_residual_is_the_area_below_the_survival(
    ends: list[tuple[str, int, float]], age: float
) -> None:
    found = taught(*ends).residual("a", 1, age)
    assert found == pytest.approx(plain_residual(ends, "a", 1, age), rel=1e-3)


@given(learnt, st.floats(0.0, 1e10))
def test_a_residual_is_a_positive_number(ends: list[tuple[str, int, float]], age: float) -> None:
    residual = taught(*ends).residual("a", 1, age)
    assert 0.0 < residual <= EDGES[-1]


def test_bins_are_half_octaves() -> None:
    assert [b / a for a, b in pairwise(EDGES)] == pytest.approx([sqrt(2.0)] * (len(EDGES) - 1))


def test_a_group_that_always_runs_an_hour_is_expected_to_run_an_hour() -> None:
    run_times = taught(*[("a", GPU, HOUR)] * 300)
    assert run_times.residual("a", GPU, 0.0) == pytest.approx(HOUR, rel=0.3)
    assert run_times.residual("a", GPU, HOUR / 2) == pytest.approx(HOUR / 2, rel=0.6)


def test_short_groups_come_before_long_ones() -> None:
    """The same queue with other sizes, and another queue with the same size, learn apart."""
    run_times = RunTimes()
    for _ in range(20):
        run_times.ended("a", GPU, MINUTE)
        run_times.ended("a", 8 * GPU, DAY)
        run_times.ended("b", GPU, HOUR)
    keys = [run_times.residual(q, s, 0.0) for q, s in (("a", GPU), ("b", GPU), ("a", 8 * GPU))]
    assert keys == sorted(keys)
    assert keys[0] < keys[1] / 2 < keys[2] / 8


def test_who_has_outlived_the_short_ones_is_a_long_one() -> None:
    """Most end at once, a few run for days: after an hour it must be one of the few."""
    run_times = taught(*([("a", GPU, 30.0)] * 9 + [("a", GPU, 3 * DAY)]) * 10)
    fresh, old = (run_times.residual("a", GPU, age) for age in (0.0, HOUR))
    assert fresh < DAY
    assert old > 2 * DAY


def test_a_new_group_is_like_all_others() -> None:
    run_times = taught(*[("a", GPU, HOUR)] * 64)
    assert run_times.residual("new", 2 * GPU, 0.0) == pytest.approx(HOUR, rel=0.5)


def test_a_group_moves_away_from_all_others_as_it_learns() -> None:
    """One short end among long ones counts a third, ten count nearly all."""
    run_times = taught(*[("a", GPU, 10 * HOUR)] * 128)
    keys = []
    for _ in range(10):
        run_times.ended("b", GPU, MINUTE)
        keys.append(run_times.residual("b", GPU, 0.0))
    assert keys == sorted(keys, reverse=True)
    assert HOUR < keys[0] < 10 * HOUR
    assert keys[-1] < 2 * HOUR + 0.2 * keys[0]


def test_a_group_forgets() -> None:
    """After many short ends nothing is left of the long ones, not even their bins."""
    run_times = taught(*[("a", GPU, DAY)] * 50, *[("a", GPU, MINUTE)] * 1000)
    (group,) = run_times.dump().run_times
    assert len(group[4]) == 1
    assert run_times.mean("a", GPU) == pytest.approx(MINUTE)


def test_nothing_is_known_at_first() -> None:
    """Then the one that has run longer is expected to run longer."""
    run_times = RunTimes()
    residuals = [run_times.residual("a", GPU, age) for age in (0.0, MINUTE, HOUR, DAY)]
    assert residuals == sorted(residuals)
    assert residuals[0] < HOUR
    assert run_times.mean("a", GPU) == 0.0


def test_odd_numbers_do_no_harm() -> None:
    run_times = taught(("a", GPU, 0.0), ("a", GPU, -5.0), ("a", GPU, 1e12))
    assert run_times.residual("a", GPU, -1.0) == run_times.residual("a", GPU, 0.0)
    assert run_times.residual("a", GPU, 1e12) == EDGES[-1]


# -- the simple key -------------------------------------------------------------------------


def test_the_mean_takes_a_tenth_of_every_end() -> None:
    run_times = taught(("a", GPU, 100.0), ("a", GPU, 200.0), ("b", GPU, 1.0), ("a", GPU, 0.0))
    assert run_times.mean("a", GPU) == pytest.approx((100.0 + 0.1 * 100.0) * 0.9)
    assert run_times.mean("b", GPU) == 1.0


def test_the_mean_of_an_unknown_group_is_that_of_all() -> None:
    run_times = taught(("a", GPU, 100.0), ("b", GPU, 200.0))
    assert run_times.mean("c", GPU) == pytest.approx(110.0)


# -- when keys change -----------------------------------------------------------------------


@given(learnt.filter(bool))
def test_keys_change_only_with_the_version(ends: list[tuple[str, int, float]]) -> None:
    run_times = RunTimes()
    groups = [("a", 1), ("a", 8), ("b", 1), ("new", 1)]
    seen: dict[tuple[str, int, int], float] = {}
    for queue, size, run_s in ends:
        before = run_times.version(queue, size)
        run_times.ended(queue, size, run_s)
        assert run_times.version(queue, size) > before
        for group in groups:
            key = (*group, run_times.version(*group))
            residual = run_times.residual(*group, 100.0)
            assert seen.setdefault(key, residual) == residual


def test_a_group_does_not_learn_from_every_end_of_others() -> None:
    """All together are read at 1, 2, 4, … 64, 128, 192, 256 ends."""
    run_times, read_at = RunTimes(), []
    for end in range(1, 300):
        version = run_times.version("a", GPU)
        run_times.ended("b", GPU, float(end))
        if run_times.version("a", GPU) != version:
            read_at.append(end)
    assert read_at == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]


# -- what is kept ---------------------------------------------------------------------------


@given(learnt, learnt)
def test_run_times_outlive_a_restart(
    before: list[tuple[str, int, float]], after: list[tuple[str, int, float]]
) -> None:
    """Who was loaded from a file has the same keys to the last bit, now and later."""
    run_times, restarted = taught(*before), taught(("x", 1, 5.0))
    memory = run_times.dump(Memory(arrivals=3))
    assert memory.arrivals == 3
    restarted.load(decode(Memory, encode(memory)))
    for queue, size, run_s in [*after, ("a", 1, 1.0)]:
        for age in (0.0, 77.0, 1e5):
            assert restarted.residual("a", 1, age) == run_times.residual("a", 1, age)
        assert restarted.version("a", 1) == run_times.version("a", 1)
        assert restarted.mean("a", 8) == run_times.mean("a", 8)
        restarted.ended(queue, size, run_s)
        run_times.ended(queue, size, run_s)
    assert restarted.dump() == run_times.dump()


def test_a_memory_without_run_times_is_a_new_beginning() -> None:
    run_times = taught(("a", GPU, 1.0))
    run_times.load(Memory())
    assert run_times.dump() == RunTimes().dump() == Memory()
    assert run_times.residual("a", GPU, 0.0) == RunTimes().residual("a", GPU, 0.0)


def test_a_copy_goes_its_own_way() -> None:
    run_times = taught(("a", GPU, 100.0))
    key, dump = run_times.residual("a", GPU, 0.0), run_times.dump()
    twin = run_times.copy()
    assert twin.residual("a", GPU, 0.0) == key
    twin.ended("a", GPU, 1e6)
    twin.ended("b", GPU, 1e6)
    assert twin.residual("a", GPU, 0.0) != key
    assert run_times.residual("a", GPU, 0.0) == key
    assert run_times.dump() == dump


def test_the_group_that_learnt_longest_ago_is_dropped() -> None:
    run_times = RunTimes()
    for number in range(MOST_GROUPS):
        run_times.ended(f"q{number}", GPU, HOUR)
    run_times.ended("q0", GPU, HOUR)
    stale = run_times.residual("q1", GPU, 0.0)
    run_times.ended("new", GPU, MINUTE)
    kept = [row[0] for row in run_times.dump().run_times]
    assert len(kept) == MOST_GROUPS
    assert kept[0] == "q2"
    assert kept[-2:] == ["q0", "new"]
    assert run_times.residual("q1", GPU, 0.0) != stale
    assert run_times.residual("q1", GPU, 0.0) == run_times.residual("never", GPU, 0.0)


def test_what_is_kept_stays_small() -> None:
    """However much ends, a group is a few dozen numbers at most."""
    run_times = RunTimes()
    for end in range(3000):
        run_times.ended("a", GPU, exp(log(1e7) * ((end * 37 % 1000) / 1000)))
    (group,) = run_times.dump().run_times
    assert len(group[4]) <= BINS

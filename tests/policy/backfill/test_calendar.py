"""The calendar: who ends when, and promises that only move earlier."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from mooring.model.codec import decode, encode
from mooring.model.memory import Memory
from mooring.policy.backfill.calendar import Ends, LatestStarts

NAMES = st.sampled_from("abcdef")
TIMES = st.sampled_from((*(float(t) for t in range(10)), inf))


def noted(**end_at: float) -> Ends:
    ends = Ends()
    for workload, at in end_at.items():
        ends.put(workload, at)
    return ends


def test_ends_come_in_order() -> None:
    ends = noted(late=30.0, b=20.0, a=20.0, early=10.0)
    assert ends.after(5.0) == [(10.0, "early"), (20.0, "a"), (20.0, "b"), (30.0, "late")]


def test_who_is_overdue_is_expected_now() -> None:
    """An estimate that was too short does not hide a workload from those that wait for it."""
    ends = noted(overdue=10.0, more=12.0, now=15.0, later=20.0)
    assert ends.after(15.0) == [(15.0, "overdue"), (15.0, "more"), (15.0, "now"), (20.0, "later")]


def test_an_end_can_move_and_go() -> None:
    ends = noted(a=10.0, b=20.0)
    ends.put("a", 30.0)
    ends.drop("b")
    ends.drop("never there")
    assert ends.after(0.0) == [(30.0, "a")]


def test_who_has_no_limit_never_ends() -> None:
    ends = noted(a=10.0)
    ends.put("service", inf)
    ends.put("a", inf)
    assert len(ends) == 0
    assert "a" not in ends


@given(st.lists(st.tuples(NAMES, TIMES | st.none())), st.floats(0.0, 10.0))
def test_ends_are_what_was_noted_last(edits: list[tuple[str, float | None]], now: float) -> None:
    ends, plain = Ends(), dict[str, float]()
    for name, at in edits:
        plain.pop(name, None)
        if at is None:
            ends.drop(name)
        else:
            ends.put(name, at)
            plain[name] = at
    known = {name: max(at, now) for name, at in plain.items() if at < inf}
    found = ends.after(now)
    assert [at for at, _ in found] == sorted(known.values())
    assert {name: at for at, name in found} == known
    assert len(ends) == len(known)


def test_a_copy_of_the_ends_goes_its_own_way() -> None:
    ends = noted(a=10.0)
    ends.copy().drop("a")
    assert "a" in ends


def test_a_promise_only_moves_earlier() -> None:
    latest = LatestStarts()
    assert latest.of("w") == inf
    assert [latest.promise("w", at) for at in (50.0, 70.0, 40.0, inf)] == [50.0, 50.0, 40.0, 40.0]
    assert latest.of("w") == 40.0


def test_a_promise_that_was_kept_is_forgotten() -> None:
    latest = LatestStarts()
    latest.promise("w", 50.0)
    latest.drop("w")
    latest.drop("w")
    assert latest.promise("w", 70.0) == 70.0


def test_never_is_no_promise() -> None:
    latest = LatestStarts()
    assert latest.promise("w", inf) == inf
    assert len(latest) == 0


def test_promises_outlive_a_restart() -> None:
    latest, restarted = LatestStarts(), LatestStarts()
    latest.promise("b", 50.0)
    latest.promise("a", 20.0)
    memory = latest.dump(Memory(arrivals=3))
    assert memory.arrivals == 3
    restarted.load(decode(Memory, encode(memory)))
    assert restarted.dump(Memory(arrivals=3)) == memory
    assert restarted.promise("b", 60.0) == 50.0


def test_a_copy_of_the_promises_goes_its_own_way() -> None:
    latest = LatestStarts()
    latest.promise("w", 50.0)
    latest.copy().promise("w", 40.0)
    assert latest.of("w") == 50.0

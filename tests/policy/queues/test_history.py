"""History of use: integrals that are exact, samples that keep to their grid, both over restarts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import floor, inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.codec import decode, encode
from mooring.model.events import PolicyChanged
from mooring.model.memory import Memory
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Fairness, Policy
from mooring.policy.queues.history import BUCKETS, FORGOTTEN, SampledUsage, UsageHistory, slot_at
from mooring.policy.queues.tree import QueueTree
from tests.build import World, binds, picture, task

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIR = ("h100", "gpu")
SERIES = ("a", *PAIR)
HAS = {PAIR: 8.0}
WINDOW_S = 168.0
"""Buckets of a second."""


@given(st.integers(-9, 10_000), st.floats(0.001, 1e6), st.floats(0.0, 1.0))
def test_slots_begin_at_multiples(number: int, width: float, part: float) -> None:
    """Also where dividing by the width would round to the next."""
    assert slot_at(number * width, width) == number
    at = number * width + part * width
    assert slot_at(at, width) * width <= at < (slot_at(at, width) + 1) * width


Changes = list[tuple[float, float]]
"""When, and how much is used from then on."""


def told(history: UsageHistory, changes: Changes, capacity: float = 8.0) -> UsageHistory:
    """Tell a history how much of a fixed capacity was used, from 0 on."""
    history.advance(0.0, {}, {PAIR: capacity})
    for at, level in changes:
        history.advance(at, {SERIES: level}, {PAIR: capacity})
    return history


# -- use against capacity -------------------------------------------------------------------------


def test_use_is_measured_against_capacity() -> None:
    """Half of it for ten seconds, all of it for ten: three quarters."""
    history = told(UsageHistory(WINDOW_S), [(0.0, 4.0), (10.0, 8.0)])
    assert history.share(20.0, "a", PAIR) == 0.75
    assert history.share(10.0, "a", PAIR) == 0.5
    assert history.share(20.0, "b", PAIR) == 0.0
    assert history.share(20.0, "a", ("a10", "gpu")) == 0.0


def test_nothing_has_been_used_before_time_has_passed() -> None:
    assert told(UsageHistory(WINDOW_S), [(0.0, 4.0)]).share(0.0, "a", PAIR) == 0.0


def test_capacity_may_change_too() -> None:
    history = UsageHistory(WINDOW_S)
    history.advance(0.0, {SERIES: 4}, {PAIR: 4})
    history.advance(10.0, {SERIES: 4}, {PAIR: 12})
    assert history.share(20.0, "a", PAIR) == 80 / 160


def test_what_is_long_past_counts_for_less() -> None:
    """All of it until a half-life ago: (1/2 - 1/4) of (1 - 1/4)."""
    history = told(UsageHistory(1e6, 100.0), [(0.0, 8.0), (100.0, 0.0)])
    assert history.share(200.0, "a", PAIR) == pytest.approx(1 / 3)


def test_steady_use_is_what_it_is_however_fast_it_fades() -> None:
    for half_life in (None, 1e-3, 1.0, 1e9):
        history = told(UsageHistory(WINDOW_S, half_life), [(0.0, 2.0)])
        assert history.share(160.0, "a", PAIR) == pytest.approx(0.25)


def test_what_left_the_window_is_forgotten() -> None:
    """168 s: at 178 the first ten are out, at 188 all of the use."""
    history = told(UsageHistory(WINDOW_S), [(0.0, 8.0), (20.0, 0.0)])
    assert history.share(178.0, "a", PAIR) == 10 / 168
    assert history.share(188.0, "a", PAIR) == 0.0


def test_a_queue_without_use_in_the_window_is_not_kept() -> None:
    history = told(UsageHistory(WINDOW_S), [(0.0, 8.0), (20.0, 0.0), (187.0, 0.0)])
    assert history.dump(Memory()).usage_steps
    history.advance(188.0, {}, HAS)
    assert not history.dump(Memory()).usage_steps


def test_all_queues_at_once() -> None:
    tree = QueueTree(["a", "b"], [Queue("a"), Queue("b")], [PAIR, ("a10", "gpu")])
    history = told(UsageHistory(WINDOW_S, 50.0), [(0.0, 4.0), (10.0, 8.0)])
    assert history.table(30.0, tree) == [[history.share(30.0, "a", PAIR), 0.0], [0.0, 0.0]]


def test_several_changes_at_one_instant_are_the_last() -> None:
    once = told(UsageHistory(WINDOW_S), [(5.0, 2.0), (9.0, 3.0)])
    often = told(
        UsageHistory(WINDOW_S), [(5.0, 1.0), (5.0, 2.0), (9.0, 7.0), (9.0, 2.0), (9.0, 3.0)]
    )
    assert often.dump(Memory()) == once.dump(Memory())
    back = told(UsageHistory(WINDOW_S), [(5.0, 2.0), (9.0, 3.0), (9.0, 2.0)])
    assert back.dump(Memory()) == told(UsageHistory(WINDOW_S), [(5.0, 2.0)]).dump(Memory())


def test_time_does_not_run_backwards() -> None:
    history = told(UsageHistory(WINDOW_S), [(10.0, 4.0), (5.0, 8.0)])
    assert history.share(20.0, "a", PAIR) == 0.5


def test_a_thousand_changes_in_a_bucket_are_one_step() -> None:
    """What is kept is bounded by the number of buckets, and adds up all the same."""
    history = UsageHistory(WINDOW_S)
    for step in range(50_000):
        history.advance(step / 250, {SERIES: step % 8}, HAS)
    ((*_, steps),) = history.dump(Memory()).usage_steps
    assert len(steps) <= BUCKETS + 3
    assert history.share(200.0, "a", PAIR) == pytest.approx(3.5 / 8, rel=1e-3)


@pytest.mark.parametrize(("window", "half_life"), [(0.0, None), (inf, None), (1.0, 0.0)])
def test_settings_must_make_sense(window: float, half_life: float | None) -> None:
    with pytest.raises(ValueError, match="positive"):
        UsageHistory(window, half_life)


def test_a_copy_goes_its_own_way() -> None:
    history = told(UsageHistory(WINDOW_S, 60.0), [(0.0, 4.0)])
    before = history.dump(Memory())
    twin = history.copy()
    twin.advance(10.0, {}, HAS)
    assert history.dump(Memory()) == before
    assert twin.share(20.0, "a", PAIR) < history.share(20.0, "a", PAIR)


@st.composite
def lines(draw: st.DrawFn) -> Changes:
    """Draw changes on a grid of eighths of a second: many of them fall into one bucket."""
    gap = st.integers(1, 5) | st.integers(1, 60)
    drawn = draw(st.lists(st.tuples(gap, st.integers(0, 8)), min_size=1, max_size=16))
    times = accumulate(gap / 8 for gap, _ in drawn)
    return [(at, float(level)) for at, (_, level) in zip(times, drawn, strict=True)]


changes = lines()
half_lives = st.sampled_from([None, 3.0, 40.0, 1000.0])


def textbook(changes: Changes, now: float, window: float, half_life: float | None) -> Fraction:
    """Integrate use over the window; where it fades, in thin slices."""
    total = Fraction(0)
    for i, (since, level) in enumerate(changes):
        until = changes[i + 1][0] if i + 1 < len(changes) else now
        start, end = max(since, now - window), min(until, now)
        if start >= end:
            continue
        faded = 1.0
        if half_life:
            ages = (now - start - (end - start) * (part + 0.5) / 512 for part in range(512))
            faded = sum(0.5 ** (age / half_life) for age in ages) / 512
        total += Fraction(level) * (Fraction(end) - Fraction(start)) * Fraction(faded)
    return total


@given(changes, st.integers(0, 40) | st.integers(250, 350))
def test_integrals_are_those_of_the_textbook(drawn: Changes, later: int) -> None:
    """Only a bucket that the far end of the window cuts through may be out, by its contents."""
    now = drawn[-1][0] + later / 2
    slack = 8.0 if now > WINDOW_S else 0.0
    for half_life, accuracy in ((None, 1e-12), (30.0, 1e-4), (1000.0, 1e-6)):
        use = textbook(drawn, now, WINDOW_S, half_life)
        has = float(textbook([(0.0, 8.0)], now, WINDOW_S, half_life))
        share = told(UsageHistory(WINDOW_S, half_life), drawn).share(now, "a", PAIR)
        assert share * has == pytest.approx(float(use), rel=accuracy, abs=slack)


@given(changes, half_lives, st.lists(st.floats(0.0, 60.0), max_size=20))
def test_how_often_it_is_told_does_not_matter(
    drawn: Changes, half_life: float | None, wakes: list[float]
) -> None:
    """The same to the last bit, whenever the engine wakes in between."""
    calm, busy = UsageHistory(20.0, half_life), UsageHistory(20.0, half_life)
    busy.advance(0.0, {}, HAS)
    level = 0.0
    last = dict(drawn)
    for at in sorted({*last, *wakes}):
        level = last.get(at, level)
        busy.advance(at, {SERIES: level}, HAS)
        busy.share(at, "a", PAIR)
    told(calm, list(last.items()))
    assert busy.share(70.0, "a", PAIR) == calm.share(70.0, "a", PAIR)
    calm.advance(70.0, {}, HAS)
    busy.advance(70.0, {}, HAS)
    assert busy.dump(Memory()) == calm.dump(Memory())


@given(changes, half_lives, st.integers(0, 12))
def test_it_outlives_a_restart(drawn: Changes, half_life: float | None, at: int) -> None:
    history = told(UsageHistory(WINDOW_S, half_life), drawn[:at])
    restarted = UsageHistory(WINDOW_S, half_life)
    restarted.load(decode(Memory, encode(history.dump(Memory(arrivals=3)))))
    for each in (history, restarted):
        for when, level in drawn[at:]:
            each.advance(when, {SERIES: level}, HAS)
    assert restarted.dump(Memory()) == history.dump(Memory())
    assert history.dump(Memory(arrivals=3)).arrivals == 3


# -- sampled usage --------------------------------------------------------------------------------

USE = ("team", "gpu")
SAMPLING_S, HALF_LIFE_S = 10.0, 40.0
ALPHA = 1 - 0.5 ** (SAMPLING_S / HALF_LIFE_S)


def sampled(changes: Sequence[tuple[float, float]] = ()) -> SampledUsage:
    usage = SampledUsage(SAMPLING_S, HALF_LIFE_S)
    for at, level in changes:
        usage.advance(at, {USE: level})
    return usage


def test_a_sample_is_a_mean_of_what_was_and_what_is() -> None:
    usage = sampled([(0.0, 8.0)])
    assert usage.consumed(9.9, *USE) == 0.0
    assert usage.consumed(10.0, *USE) == pytest.approx(8 * ALPHA)
    assert usage.consumed(20.0, *USE) == pytest.approx(8 * ALPHA + (1 - ALPHA) * 8 * ALPHA)
    assert usage.consumed(40.0, *USE) == pytest.approx(4.0)


def test_a_sample_takes_what_was_in_force_before_it() -> None:
    """What starts after one sample and ends before the next is not seen."""
    usage = sampled([(11.0, 8.0), (19.0, 0.0)])
    assert usage.consumed(100.0, *USE) == 0.0
    usage = sampled([(11.0, 8.0), (20.0, 0.0)])
    assert usage.consumed(20.0, *USE) == pytest.approx(8 * ALPHA)


@given(changes, st.integers(0, 300))
def test_samples_are_those_of_the_textbook(drawn: Changes, later: int) -> None:
    now = drawn[-1][0] + later
    consumed = 0.0
    for sample in range(1, floor(now / SAMPLING_S) + 1):
        before = [level for at, level in drawn if at < sample * SAMPLING_S]
        consumed = (1 - ALPHA) * consumed + ALPHA * (before[-1] if before else 0.0)
    assert sampled(drawn).consumed(now, *USE) == pytest.approx(consumed, abs=1e-12)


@given(changes, st.lists(st.floats(0.0, 60.0), max_size=20))
def test_samples_do_not_depend_on_how_often_the_engine_wakes(
    drawn: Changes, wakes: list[float]
) -> None:
    busy, level = sampled(), 0.0
    last = dict(drawn)
    for at in sorted({*last, *wakes}):
        level = last.get(at, level)
        busy.advance(at, {USE: level})
        busy.usage(at, "team")
    assert busy.dump(Memory()) == sampled(list(last.items())).dump(Memory())


def test_samples_do_not_run_backwards() -> None:
    usage = sampled([(0.0, 8.0), (40.0, 4.0), (20.0, 0.0)])
    assert usage.consumed(30.0, *USE) == usage.consumed(40.0, *USE) == pytest.approx(4.0)
    assert usage.consumed(80.0, *USE) == pytest.approx(2.0)


def test_who_is_let_in_is_charged_beforehand_once() -> None:
    """Charged again, the charge is replaced, also in another queue; taken back, it is gone."""
    usage = sampled()
    usage.enter("w", "team", {"gpu": 4})
    usage.enter("w", "team", {"gpu": 8})
    usage.enter("v", "team", {"gpu": 1})
    assert usage.usage(0.0, "team") == pytest.approx(9 * ALPHA)
    usage.enter("w", "other", {"gpu": 8})
    assert usage.usage(0.0, "team") == pytest.approx(ALPHA)
    assert usage.usage(0.0, "other") == pytest.approx(8 * ALPHA)
    usage.withdraw("w")
    usage.withdraw("v")
    usage.withdraw("nobody")
    assert usage.dump(Memory()) == Memory()


def test_a_settled_charge_fades_like_all_history() -> None:
    usage = sampled([(0.0, 8.0)])
    usage.enter("w", "team", {"gpu": 2, "cpu": 3})
    assert usage.consumed(41.0, *USE) == pytest.approx(4.0)
    usage.settle(41.0, "w")
    usage.settle(41.0, "w")
    assert usage.consumed(41.0, *USE) == pytest.approx(4.0 + 2 * ALPHA)
    assert usage.consumed(80.0, *USE) == pytest.approx(6.0 + ALPHA)
    assert usage.consumed(80.0, "team", "cpu") == pytest.approx(1.5 * ALPHA)


def test_resources_are_added_by_weight_and_divided_by_the_queues() -> None:
    usage = SampledUsage(SAMPLING_S, HALF_LIFE_S)
    usage.advance(0.0, {USE: 8, ("team", "memory"): 64_000})
    assert usage.usage(40.0, "team") == pytest.approx(32_004.0)
    assert usage.usage(40.0, "team", 2.0, {"memory": 0.001}) == pytest.approx(18.0)
    assert usage.usage(40.0, "stranger") == 0.0


def test_measured_by_capacity_memory_does_not_swamp_devices() -> None:
    usage = SampledUsage(SAMPLING_S, HALF_LIFE_S)
    usage.advance(0.0, {("a", "gpu"): 8, ("b", "memory"): 64_000})
    has = {"gpu": 16.0, "memory": 1_000_000.0}
    assert usage.usage(40.0, "a") < usage.usage(40.0, "b")
    assert usage.usage(40.0, "a", capacity=has) == pytest.approx(0.25)
    assert usage.usage(40.0, "b", capacity=has) == pytest.approx(0.032)
    assert usage.usage(40.0, "b", capacity={"gpu": 16.0}) == 0.0


@pytest.mark.parametrize("weight", [0.0, -1.0])
def test_without_weight_a_queue_is_last_even_if_it_used_nothing(weight: float) -> None:
    assert sampled().usage(0.0, "team", weight) == inf


def test_a_half_life_of_nothing_is_no_history() -> None:
    usage = SampledUsage(SAMPLING_S, 0.0)
    usage.advance(0.0, {USE: 8.0})
    usage.enter("w", "team", {"gpu": 8})
    usage.settle(5.0, "w")
    assert usage.usage(100.0, "team") == 0.0
    usage.load(sampled([(0.0, 8.0)]).dump(Memory()))
    assert usage.usage(100.0, "team") == 0.0


def test_a_long_half_life_does_not_round_to_nothing() -> None:
    """One device, seen for one sample of five minutes, a half-life of ten years."""
    usage = SampledUsage(300.0, 10 * 365 * 86_400.0)
    usage.advance(0.0, {USE: 1.0})
    assert usage.usage(300.0, "team") == pytest.approx(6.594e-7, rel=1e-3)


def test_what_has_faded_away_is_dropped_and_was_nothing_before() -> None:
    usage = sampled([(0.0, 8.0), (40.0, 0.0)])
    over = 40.0 + (FORGOTTEN + 1) * HALF_LIFE_S
    assert usage.consumed(over - 2 * HALF_LIFE_S, *USE) > 0
    assert usage.consumed(over, *USE) == 0.0
    usage.advance(over, {USE: 0.0})
    assert usage.dump(Memory()) == Memory()


def test_other_settings_leave_what_was_counted() -> None:
    usage = sampled([(0.0, 8.0)])
    usage.enter("w", "team", {"gpu": 2})
    other = usage.retuned(40.0, 5.0, 80.0)
    assert other.usage(40.0, "team") == usage.usage(40.0, "team") == pytest.approx(4 + 2 * ALPHA)
    assert other.consumed(120.0, *USE) == pytest.approx(6.0)
    assert usage.retuned(40.0, 5.0, 0.0).usage(40.0, "team") == 0.0


def test_samples_need_an_interval() -> None:
    with pytest.raises(ValueError, match="positive"):
        SampledUsage(0.0, 1.0)


@given(changes, st.integers(0, 12))
def test_samples_outlive_a_restart(drawn: Changes, at: int) -> None:
    usage = sampled(drawn[:at])
    for name in ("w", "v"):
        usage.enter(name, "team", {"gpu": 1, "cpu": 2})
    restarted = SampledUsage(SAMPLING_S, HALF_LIFE_S)
    restarted.load(decode(Memory, encode(usage.dump(Memory()))))
    copied = usage.copy()
    for each in (usage, restarted, copied):
        for when, level in drawn[at:]:
            each.advance(when, {USE: level})
        each.settle(60.0, "v")
    assert restarted.dump(Memory()) == usage.dump(Memory()) == copied.dump(Memory())
    assert restarted.usage(70.0, "team") == usage.usage(70.0, "team") > 0


def test_a_copy_of_samples_goes_its_own_way() -> None:
    usage = sampled([(0.0, 8.0)])
    usage.enter("w", "team", {"gpu": 1})
    before = usage.dump(Memory())
    twin = usage.copy()
    twin.withdraw("w")
    twin.advance(50.0, {})
    assert usage.dump(Memory()) == before


def test_a_new_kind_of_nodes_has_a_history_at_once() -> None:
    """The next look at history is not due yet; a fork knows the same of it."""
    topology, (h, a) = picture("h=1 a=1")
    policy = Policy(fairness=Fairness(half_life_s=100.0, history_weight=1.0))
    world = World(Engine(topology, policy, queues=(Queue("q"), Queue("x")))).join(h)
    world.run(task("q1", 1, queue="q"), task("x1", 1, queue="x"), now=0.0)

    world.join(replace(a, gpu_model="A10"))
    world.submit(task("q2", 1, queue="q"), task("x2", 1, queue="x"))
    fork = world.engine.fork()

    assert [each.workload for each in binds(world.cycle(2.0))] == ["q2"]
    assert fork.decide(2.0) == world.plans[-1]


def test_history_takes_turns_though_nothing_happens() -> None:
    """Two who each want all run in turn; the plan says when to look, and no event is needed."""
    topology, nodes = picture("a=2")
    policy = Policy(fairness=Fairness(half_life_s=500.0, window_s=2000.0, history_weight=2.0))
    queues = [Queue(name, quotas=(Quota("gpu", quota=0),)) for name in ("x", "y")]
    world = World(Engine(topology, policy, queues=queues)).join(*nodes)
    world.run(task("of-x", 2, queue="x"), now=0.0).run(task("of-y", 2, queue="y"), now=1.0)

    for _ in range(10):
        wake_at = world.plans[-1].wake_at
        assert wake_at is not None
        world.run(now=wake_at)

    started = [each.workload for plan in world.plans for each in binds(plan)]
    assert started == ["of-x", "of-y", "of-x", "of-y", "of-x"]


def test_history_that_changes_no_more_wakes_nobody() -> None:
    """Once what runs has filled the window, all looks at it are the same."""
    topology, nodes = picture("a=2")
    policy = Policy(fairness=Fairness(window_s=2000.0, history_weight=1.0))
    queues = [Queue("default", quotas=(Quota("gpu", quota=0),))]
    world = World(Engine(topology, policy, queues=queues)).join(*nodes)
    world.run(task("runs", 2), task("waits", 2), now=0.0)

    looked = []
    while (wake_at := world.plans[-1].wake_at) is not None:
        looked.append(wake_at)
        world.run(now=wake_at)

    assert looked == [900.0, 1800.0, 2700.0]


def test_another_policy_looks_at_history_as_if_it_had_been_there_from_the_start() -> None:
    def history(first: Fairness, then: Fairness) -> list[list[float]]:
        topology, nodes = picture("a=4")
        queues = (Queue("q"), Queue("x"))
        world = World(Engine(topology, Policy(fairness=first), queues=queues)).join(*nodes)
        world.run(task("long", 1, queue="q"), task("short", 2, queue="x"), now=0.0)
        world.end("short").run(now=100.0)
        world.see(PolicyChanged(Policy(fairness=then))).run(task("new", 4), now=200.0)
        return world.engine.desk.usage.table()

    short, long = (
        Fairness(half_life_s=half, history_weight=1.0, usage_half_life_s=half)
        for half in (50.0, 5000.0)
    )
    assert history(long, short) == history(short, short) != history(long, long)

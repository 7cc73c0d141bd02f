"""The plain twins themselves: small stories worked out by hand, and what must always hold."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.policy.backfill.runtimes import RunTimes
from tests.plain_backfill import (
    HOUR,
    Cluster,
    Conservative,
    Easy,
    Fifo,
    Run,
    Shadow,
    Timed,
    Work,
    best_fit,
    rank,
)

ONE_NODE = Cluster(1, 4)


def gang(name: str, submit: float, gpus: int, run: float, limit: float = 0.0) -> Work:
    """Return a work of so many tasks of one GPU."""
    return Work(name, submit, gpus, 1, run, limit)


@st.composite
def worlds(draw: st.DrawFn, *, whole: bool = True, limits: bool = True) -> Shown:
    """Return a cluster and works for it; `whole`: tasks of several GPUs, so that gaps matter."""
    cluster = Cluster(draw(st.integers(1, 3)), draw(st.sampled_from((1, 2, 4))))
    works = []
    for number in range(draw(st.integers(1, 8))):
        gpus = draw(st.integers(1, cluster.gpus)) if whole else 1
        most = cluster.nodes * (cluster.gpus // gpus)
        run = draw(st.integers(1, 12))
        works.append(
            Work(
                name=f"w{number}",
                submit=float(draw(st.integers(0, 8))),
                tasks=draw(st.integers(1, most)),
                gpus=gpus,
                run=float(run),
                limit=float(run + draw(st.integers(0, 5))) if limits else 0.0,
                priority=draw(st.sampled_from((0, 0, 0, 1))),
                preemptible=draw(st.sampled_from((True, True, False))),
                checkpoint=draw(st.sampled_from((inf, 2.0))),
            )
        )
    return cluster, works


Shown = tuple[Cluster, list[Work]]


# -- placement ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "tasks", "gpus", "seats"),
    [
        ([4, 2, 3], 1, 2, [(1, 2)]),
        ([4, 2, 2], 1, 2, [(1, 2)]),
        ([4, 2, 3], 2, 2, [(1, 2), (2, 2)]),
        ([4, 2, 3], 5, 2, None),
        ([4, 0, 3], 3, 2, [(2, 2), (0, 2), (0, 2)]),
    ],
)
def test_a_task_goes_where_least_is_free(
    free: list[int], tasks: int, gpus: int, seats: list[tuple[int, int]] | None
) -> None:
    assert best_fit(free, Work("w", 0.0, tasks, gpus, 1.0)) == seats


# -- FIFO, EASY, conservative ---------------------------------------------------------------

# Four GPUs.      0    5    10   15   20   25   30
#   runs (2)      ████████
#   wide (4)      waits   ██████████
#   short (2)     EASY: fits beside `runs` and ends in time
#   long (2)      fits too, but would keep `wide` waiting
STORY = [
    gang("runs", 0.0, 2, 10.0),
    gang("wide", 1.0, 4, 10.0),
    gang("long", 2.0, 2, 20.0),
    gang("short", 3.0, 2, 5.0),
]


def test_easy_beats_fifo_without_keeping_the_head_waiting() -> None:
    fifo, easy = Fifo(ONE_NODE, STORY).play(), Easy(ONE_NODE, STORY).play()
    assert fifo.starts == {"runs": 0.0, "wide": 10.0, "long": 20.0, "short": 20.0}
    assert easy.starts == {"runs": 0.0, "wide": 10.0, "long": 20.0, "short": 3.0}
    assert easy.mean_wait(STORY) < fifo.mean_wait(STORY)


def test_easy_lets_pass_who_leaves_the_reservation_possible() -> None:
    """`wide` needs three of four GPUs: the long one may run on the fourth."""
    works = [gang("runs", 0.0, 2, 10.0), gang("wide", 1.0, 3, 10.0), gang("long", 2.0, 1, 99.0)]
    assert Easy(ONE_NODE, works).play().starts == {"runs": 0.0, "wide": 10.0, "long": 2.0}


def test_easy_counts_nodes_not_only_gpus() -> None:
    """Two GPUs stay free beside `long`, but not on one node."""
    works = [
        Work("a", 0.0, 1, 1, 10.0),
        Work("b", 0.0, 1, 2, 10.0),
        Work("wide", 1.0, 2, 2, 5.0),
        Work("long", 2.0, 1, 1, 99.0),
    ]
    assert Easy(Cluster(2, 2), works).play().starts["wide"] == 10.0
    assert Easy(Cluster(2, 2), works).play().starts["long"] == 15.0


def test_a_limit_that_is_too_long_keeps_a_short_one_waiting() -> None:
    works = [*STORY[:3], gang("short", 3.0, 2, 5.0, limit=8.0)]
    assert Easy(ONE_NODE, works).play().starts["short"] == 20.0


@pytest.mark.parametrize("order", [Easy, Conservative])
def test_an_early_end_is_used_at_once(order: type[Timed]) -> None:
    works = [gang("runs", 0.0, 2, 4.0, limit=10.0), gang("wide", 1.0, 4, 10.0)]
    story = order(ONE_NODE, works).play()
    assert (1.0, "wide", 10.0) in story.reservations
    assert story.starts["wide"] == 4.0


def test_conservative_protects_the_second_in_line_too() -> None:
    """Under EASY `long` delays `second` by starting before it; here it may not."""
    works = [
        gang("runs", 0.0, 3, 10.0),
        gang("head", 1.0, 2, 10.0),
        gang("second", 2.0, 4, 10.0),
        gang("long", 3.0, 1, 30.0),
    ]
    easy, conservative = Easy(ONE_NODE, works).play(), Conservative(ONE_NODE, works).play()
    assert (easy.starts["long"], easy.starts["second"]) == (3.0, 33.0)
    assert (conservative.starts["long"], conservative.starts["second"]) == (30.0, 20.0)


def test_conservative_fills_gaps_between_reservations() -> None:
    works = [*STORY, gang("later", 4.0, 2, 20.0)]
    story = Conservative(ONE_NODE, works).play()
    assert story.starts == {"runs": 0.0, "wide": 10.0, "long": 20.0, "short": 3.0, "later": 20.0}


@pytest.mark.parametrize("order", [Easy, Conservative])
@given(world=worlds())
def test_a_reservation_never_slips(order: type[Timed], world: Shown) -> None:
    """Each one computed for a work is at most the one before, and it starts by the last one."""
    cluster, works = world
    works = [Work(w.name, w.submit, w.tasks, w.gpus, w.run, w.limit) for w in works]
    story = order(cluster, works).play()
    promised: dict[str, float] = {}
    for _, name, at in story.reservations:
        assert at <= promised.get(name, inf)
        promised[name] = at
    assert all(story.starts[name] <= at for name, at in promised.items())


@given(worlds(limits=False))
def test_with_exact_limits_conservative_starts_when_it_said_first(world: Shown) -> None:
    cluster, works = world
    works = [Work(w.name, w.submit, w.tasks, w.gpus, w.run) for w in works]
    story = Conservative(cluster, works).play()
    first: dict[str, float] = {}
    for _, name, at in story.reservations:
        first.setdefault(name, at)
    assert story.starts == first


@given(worlds())
def test_fifo_starts_in_order(world: Shown) -> None:
    cluster, works = world
    works = [Work(w.name, w.submit, w.tasks, w.gpus, w.run) for w in works]
    starts = Fifo(cluster, works).play().starts
    in_order = [starts[work.name] for work in sorted(works, key=rank)]
    assert in_order == sorted(in_order)


# -- the shadow -----------------------------------------------------------------------------


def shadow(cluster: Cluster, works: list[Work], *, quantum: bool = False) -> Shadow:
    """Return a shadow that has been played."""
    played = Shadow(cluster, works, quantum=quantum)
    played.play()
    return played


def test_the_shadow_needs_no_limits_to_fill_and_none_to_keep_its_word() -> None:
    """`long` starts at once, since nobody knows how long it runs, and leaves when `wide` is due."""
    played = shadow(ONE_NODE, STORY)
    assert played.shadow_starts == Fifo(ONE_NODE, STORY).play().starts
    assert played.story.evictions == [(10.0, "long", "wide", "overtaker")]
    assert played.story.starts == {"runs": 0.0, "wide": 10.0, "long": 20.0, "short": 20.0}


def test_who_checkpoints_goes_on_where_it_was() -> None:
    works = [*STORY[:2], Work("long", 2.0, 2, 1, 20.0, checkpoint=3.0)]
    played = shadow(ONE_NODE, works)
    assert played.story.evictions == [(10.0, "long", "wide", "overtaker")]
    assert played.story.starts["long"] == 20.0
    assert played.story.ends["long"] == 34.0, "six of the eight seconds were saved"


def test_the_fill_takes_the_shortest_first() -> None:
    works = [
        gang("runs", 0.0, 2, 10.0),
        gang("wide", 1.0, 4, 10.0),
        gang("long", 2.0, 2, 5.0),
        gang("short", 2.0, 2, 3.0),
    ]
    starts = shadow(ONE_NODE, works).story.starts
    assert starts == {"runs": 0.0, "wide": 10.0, "short": 2.0, "long": 5.0}


def test_who_ended_early_still_runs_in_the_shadow() -> None:
    """`short` has really been and gone; beside reality it starts at 20 and keeps `last` out."""
    works = [*STORY[:2], gang("short", 2.0, 3, 5.0), gang("last", 3.0, 4, 1.0)]
    works[0] = gang("runs", 0.0, 1, 10.0)
    played = shadow(ONE_NODE, works)
    assert played.story.ends["short"] == 7.0
    assert played.shadow_starts["short"] == 20.0
    assert played.shadow_starts["last"] == 25.0
    assert played.story.starts["last"] == 20.0, "it need not wait for a shadow"


def test_who_has_reached_its_shadow_start_is_firm() -> None:
    """`early` overtook, its shadow start came at 10: after that `last` cannot make it leave."""
    works = [
        gang("runs", 0.0, 2, 10.0),
        gang("head", 1.0, 3, 2.0),
        gang("early", 2.0, 1, 30.0),
        gang("last", 3.0, 4, 5.0),
    ]
    played = shadow(ONE_NODE, works)
    assert played.story.starts["early"] == 2.0
    assert played.shadow_starts["early"] == 10.0
    assert played.story.evictions == []
    assert played.story.starts["last"] == 32.0


def test_the_cheapest_go() -> None:
    """`wide` needs one GPU more than comes free: `old` has more to lose than `young`."""
    works = [
        gang("runs", 0.0, 2, 100.0),
        gang("wide", 1.0, 3, 10.0),
        gang("old", 2.0, 1, 500.0),
        gang("young", 50.0, 1, 500.0),
    ]
    assert shadow(ONE_NODE, works).story.evictions == [(100.0, "young", "wide", "overtaker")]


def test_who_cannot_be_asked_to_leave_does_not_overtake() -> None:
    works = [*STORY[:2], Work("short", 3.0, 2, 1, 5.0, preemptible=False)]
    played = shadow(ONE_NODE, works)
    assert played.story.starts["short"] == played.shadow_starts["short"] == 20.0


def test_higher_priority_is_due_first() -> None:
    works = [*STORY[:2], Work("urgent", 2.0, 4, 1, 10.0, priority=1)]
    assert shadow(ONE_NODE, works).story.starts == {"runs": 0.0, "urgent": 10.0, "wide": 20.0}


def with_firm(cluster: Cluster, works: list[Work], firm: list[tuple[int, Work, float]]) -> Shadow:
    """Return a shadow, not yet played, with firm work: (node, work, what it is expected to run).

    In the shadow all of it lies on the first nodes.
    """
    expected = {work.name: run for _, work, run in firm}
    played = Shadow(cluster, works, lambda work, age: expected.get(work.name, work.run) - age)
    for node, work, _ in firm:
        played.running[work.name] = Run(work, [(node, work.gpus)], 0.0, work.run)
        played.free[node] -= work.gpus
        seats = best_fit(played.shadow_free, work)
        assert seats is not None
        played.shadow_free[seats[0][0]] -= work.gpus
        played.shadow_runs[work.name] = work, seats
        played.shadow_starts[work.name] = 0.0
    return played


def test_firm_work_in_the_way_is_waited_for_on_reserved_nodes() -> None:
    """`pair` is due at 10 but finds one GPU on each node; b drains before a, so b's is closed.

    `small` takes the GPU beside a; `z` may not take the one beside b.
    """
    played = with_firm(
        Cluster(2, 2),
        [Work("pair", 10.0, 1, 2, 5.0), Work("small", 11.0, 1, 1, 3.0), Work("z", 12.0, 1, 1, 9.0)],
        [(0, Work("a", 0.0, 1, 1, 30.0), 30.0), (1, Work("b", 0.0, 1, 1, 18.0), 18.0)],
    )
    story = played.play()
    assert played.shadow_starts["pair"] == 10.0
    assert story.reservations == [(10.0, "pair", 10.0)]
    assert played.firm_on_reserved == {"pair": {"b"}}
    assert {name: story.starts[name] for name in ("pair", "small", "z")} == {
        "pair": 18.0,
        "small": 11.0,
        "z": 14.0,
    }


def test_a_reserved_node_is_swapped_only_for_one_without_firm_work() -> None:
    """c, expected last, is gone at 12: its node is closed instead of a's, so `big` has to wait.

    b's node stays closed. `two` starts when b ends.
    """
    played = with_firm(
        Cluster(3, 4),
        [Work("two", 10.0, 2, 4, 5.0), Work("big", 13.0, 1, 4, 1.0)],
        [
            (0, Work("a", 0.0, 1, 1, 30.0), 15.0),
            (1, Work("b", 0.0, 1, 1, 20.0), 16.0),
            (2, Work("c", 0.0, 1, 1, 12.0), 99.0),
        ],
    )
    story = played.play()
    assert played.firm_on_reserved == {"two": {"a", "b"}}
    assert story.starts["two"] == 20.0
    assert story.starts["big"] == 25.0


def test_who_is_due_first_may_still_evict_who_is_due_at_the_same_instant() -> None:
    """`b` and `pair` get their turn at 8; `b` overtook and is in the way of `pair`."""
    works = [
        Work("short", 0.0, 1, 1, 5.0),
        Work("a", 1.0, 2, 1, 7.0),
        Work("pair", 2.0, 1, 2, 9.0),
        Work("b", 3.0, 2, 1, 7.0),
    ]
    played = shadow(Cluster(2, 2), works)
    assert played.story.evictions == [(8.0, "b", "pair", "overtaker")]
    assert played.story.starts == played.shadow_starts


def test_long_runs_let_others_by() -> None:
    """Rule 5: after four hours `long` makes room, since it has saved what it did."""
    works = [
        gang("runs", 0.0, 2, 20 * HOUR),
        gang("wide", 1.0, 4, HOUR),
        Work("long", 2.0, 2, 1, 10 * HOUR, checkpoint=60.0),
        gang("short", HOUR, 2, 600.0),
    ]
    assert shadow(ONE_NODE, works).story.starts["short"] == 2.0 + 10 * HOUR
    let_by = shadow(ONE_NODE, works, quantum=True)
    assert let_by.story.evictions[0] == (4 * HOUR + HOUR, "long", "short", "quantum")
    assert let_by.story.ends["long"] < 11 * HOUR


@pytest.mark.parametrize("streams", [(10, 60, 300)])
def test_an_endless_stream_does_not_delay_a_giant(streams: tuple[int, ...]) -> None:
    """The giant needs every GPU. Its start is the same for streams of any length."""
    starts = []
    for count in streams:
        stream = [Work(f"s{n:03}", 1.0 + n, 1, 1, 7.0 + n % 5) for n in range(count)]
        first = [Work("first", 0.0, 3, 2, 40.0)]
        giant = [Work("giant", 2.5, 4, 2, 50.0)]
        played = shadow(Cluster(4, 2), [*first, *giant, *stream])
        assert played.shadow_starts["giant"] == played.story.starts["giant"]
        starts.append(played.story.starts["giant"])
    assert starts == [40.0] * len(streams)


def test_run_times_learnt_are_a_key() -> None:
    """What has ended is the only source: the size that ended soon goes first from then on."""
    run_times = RunTimes()
    works = [gang("runs", 0.0, 1, 1000.0), gang("wide", 1.0, 4, 10.0)]
    works += [gang("first a", 2.0, 1, 60.0), gang("first b", 2.0, 2, 5.0)]
    works += [gang(f"a{number}", 70.0, 1, 60.0) for number in range(5)]
    works += [gang(f"b{number}", 70.0, 2, 5.0) for number in range(5)]
    played = Shadow(
        ONE_NODE,
        works,
        lambda work, age: run_times.residual("q", work.size, age),
        lambda work: run_times.ended("q", work.size, work.run),
    )
    starts = played.play().starts
    assert max(starts[f"b{n}"] for n in range(5)) < starts["a1"]


# -- what always holds of the shadow --------------------------------------------------------


@given(worlds(), st.booleans())
def test_everything_ends_and_the_word_is_kept(world: Shown, quantum: bool) -> None:
    """The bound: who had nodes reserved starts when all that was firm on them has ended."""
    cluster, works = world
    played = shadow(cluster, works, quantum=quantum)
    story, due = played.story, played.shadow_starts
    assert set(story.ends) == set(due) == {work.name for work in works}
    assert played.free == played.shadow_free == cluster.empty()
    for at, victim, beneficiary, cause in story.evictions:
        assert at <= due[victim], "firm work is never evicted"
        assert cause == "quantum" or at >= due[beneficiary]
    reserved_at = {name: at for at, name, _ in story.reservations}
    for name, at in reserved_at.items():
        firm = [story.ends[other] for other in played.firm_on_reserved.get(name, ())]
        assert story.starts[name] <= max([at, *firm])
    for work in works:
        assert work.preemptible or story.starts[work.name] >= due[work.name]
        if work.size == cluster.nodes * cluster.gpus:
            assert story.starts[work.name] <= due[work.name], "F = 0 for the whole cluster"


@given(worlds(whole=False))
def test_without_gaps_nobody_ends_later_than_under_fifo(world: Shown) -> None:
    """Tasks of one GPU fit wherever there is room: then strict order beside reality is FIFO."""
    cluster, works = world
    fifo, played = Fifo(cluster, works).play(), shadow(cluster, works)
    assert played.shadow_starts == fifo.starts
    assert all(played.story.ends[name] <= end for name, end in fifo.ends.items())


@given(worlds(whole=False))
def test_without_gaps_later_work_never_moves_a_shadow_start(world: Shown) -> None:
    """For every work: without all that came later and does not rank higher it is the same."""
    cluster, works = world
    after = shadow(cluster, works).shadow_starts
    for work in works:
        others = [o for o in works if o.submit < work.submit or rank(o) <= rank(work)]
        assert shadow(cluster, others).shadow_starts[work.name] == after[work.name]


def test_with_gaps_later_work_can_move_a_shadow_start() -> None:
    """What the rules do not promise: places in reality are not those of the shadow.

    At 6 `b` goes beside the overtaker `late`, so onto both nodes; `late` leaves for `c`, but now
    the firm `b` is in its way. `c` ends later, and `d` starts later even in the shadow.
    """
    works = [
        Work("a", 0.0, 3, 1, 6.0),
        Work("b", 1.0, 2, 1, 4.0),
        Work("c", 2.0, 1, 2, 2.0),
        Work("d", 3.0, 1, 2, 11.0),
    ]
    late = Work("late", 4.0, 1, 1, 6.0)
    assert shadow(Cluster(2, 2), works).shadow_starts["d"] == 8.0
    assert shadow(Cluster(2, 2), [*works, late]).shadow_starts["d"] == 10.0

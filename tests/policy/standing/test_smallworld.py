"""Small worlds from everywhere: no loop, nothing in vain, nobody starved; mistakes are found."""

from __future__ import annotations

import sys
from functools import cache
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.smallworld import (
    RIGHT,
    Checker,
    Exchange,
    Gang,
    Mistakes,
    Scene,
    Share,
    Tally,
    World,
    exhaustive,
    fit,
    look_at,
    sample,
    scenes,
    with_marks,
    worlds,
)

if TYPE_CHECKING:
    from tests.smallworld import Judge

BLOCKS = 40


@cache
def some() -> list[World]:
    return sample(Random(7), 120)


def tell(capsys: pytest.CaptureFixture[str], what: str, tally: Tally) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {tally.told()}\n")


def nothing_wrong(tally: Tally) -> bool:
    assert not tally.counts, tally.examples
    return tally.exchanges > 0 and tally.legal > 0


# -- all is well ----------------------------------------------------------------------------------


def test_no_loop_no_vain_eviction_nobody_starved(capsys: pytest.CaptureFixture[str]) -> None:
    tally = look_at(some())
    tell(capsys, "small worlds", tally)
    assert nothing_wrong(tally)


def test_nor_with_overtakers_quanta_and_fixed_gangs(capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(8)
    tally = look_at(with_marks(random, world) for world in some())
    tell(capsys, "small worlds with marks", tally)
    assert nothing_wrong(tally)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
def test_everything(block: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = look_at(islice(worlds(), block, None, BLOCKS))
    tell(capsys, f"small worlds, block {block}", tally)
    assert nothing_wrong(tally)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
def test_everything_with_marks(block: int, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(block)
    every = islice(worlds(), block, None, BLOCKS)
    tally = look_at(with_marks(random, world) for world in every)
    tell(capsys, f"small worlds with marks, block {block}", tally)
    assert nothing_wrong(tally)


# -- the check can fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistakes", "kinds"),
    [
        (Mistakes(shares_before=True), {"loop", "word"}),
        (Mistakes(ties=True), {"loop", "word"}),
        (Mistakes(no_hold=True), {"vain"}),
    ],
    ids=["shares before the exchange", "ties", "no hold"],
)
def test_mistakes_are_found(
    mistakes: Mistakes, kinds: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tally = look_at(some()[:50], mistakes)
    tell(capsys, str(mistakes), tally)
    assert kinds <= set(tally.counts)


def test_two_gangs_evict_each_other_for_ever_if_shares_are_compared_before() -> None:
    world = World(1, (Share(0), Share(0)), (Gang(0, 1, 2), Gang(1, 1, 2)))
    assert look_at([world], Mistakes(shares_before=True)).counts["loop"]
    assert look_at([world], Mistakes(ties=True)).counts["loop"]
    assert not look_at([world]).counts


def test_the_loop_of_three_needs_the_line() -> None:
    gangs = (Gang(0, 2, 2, 1), Gang(0, 1, 2), Gang(2, 2, 2), Gang(1, 2, 1))
    world = World(2, (Share(0, 2), Share(0), Share(1, 2)), gangs)
    assert look_at([world], Mistakes(shares_before=True)).counts["loop"]
    assert not look_at([world]).counts


def test_a_poor_search_is_found_out() -> None:
    def lazy(judge: Judge, scene: Scene, gang: int) -> Exchange | None:
        where = fit(judge.world, scene.places, gang)
        return None if where is None else Exchange((), where)

    def greedy(judge: Judge, scene: Scene, gang: int) -> Exchange | None:
        found = exhaustive(judge, scene, gang)
        everybody = tuple(n for n in scene.order if judge.verdict(scene, gang, (n,)))
        if found is None or not judge.verdict(scene, gang, everybody):
            return found
        places = tuple(() if n in everybody else p for n, p in enumerate(scene.places))
        where = fit(judge.world, places, gang)
        return found if where is None else Exchange(everybody, where)

    def lawless(judge: Judge, scene: Scene, gang: int) -> Exchange | None:
        where = fit(judge.world, ((),) * len(scene.places), gang)
        return None if where is None else Exchange(scene.order, where)

    worlds_ = some()[:20]
    assert set(look_at(worlds_, RIGHT, exhaustive).counts) == set()
    assert "missed" in look_at(worlds_, RIGHT, lazy).counts
    assert "starved" in look_at(worlds_, RIGHT, lazy).counts
    assert "dear" in look_at(worlds_, RIGHT, greedy).counts
    assert "illegal" in look_at(worlds_, RIGHT, lawless).counts


# -- the worlds are what they should be -----------------------------------------------------------


def test_worlds_are_counted_once() -> None:
    two = list(worlds(nodes=(2,), most_gangs=2))
    # One queue: 3 quotas x (4 lines of one gang + 32 of two). Two queues of one gang: 24 kinds,
    # 300 pairs, without the 78 in which both weights are 2.
    assert len(two) == 3 * (4 + 32) + 300 - 78
    assert len(set(two)) == len(two)


def test_scenes_are_every_placement_and_every_order() -> None:
    world = World(2, (Share(0),), (Gang(0, 1, 1), Gang(0, 1, 1)))
    seen = [(scene.places, scene.order) for scene in scenes(world)]
    assert len(seen) == 1 + 2 + 2 * 2, "nobody, one of them, both on one node or on two"
    assert (((0,), (1,)), (1, 0)) in seen


def test_the_first_in_service_order_goes_first() -> None:
    """q1 has quota, so it goes before the older gang of q0, which then borrows what is left."""
    world = World(1, (Share(0), Share(1)), (Gang(0, 1, 1), Gang(1, 1, 1), Gang(0, 1, 1)))
    checker = Checker(world, Tally())
    empty = next(iter(scenes(world)))
    assert checker.waiting(empty) == [1, 0, 2]

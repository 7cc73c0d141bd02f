"""Small worlds from everywhere: no loop, nothing in vain, nobody starved; mistakes are found."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest

from mooring.policy.standing.case import Case
from mooring.policy.standing.line import Line
from mooring.policy.victims import hunt
from tests.smallproduct import PROMPT, ask, let_live
from tests.smallworld import (
    RIGHT,
    Checker,
    Exchange,
    Gang,
    Mistakes,
    Scene,
    Share,
    Tally,
    Ties,
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
    from collections.abc import Iterable, Iterator

    from mooring.policy.standing.item import Item, Key
    from tests.smallworld import Judge

BLOCKS = 40
ONE_IN, PARTS = 61, 6
"""So many worlds are left to the rules for one that is also tried in the product."""


@cache
def some() -> list[World]:
    return sample(Random(7), 120)


def tell(capsys: pytest.CaptureFixture[str], what: str, tally: Tally) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {tally.told()}\n")


def lives(some: Iterable[World]) -> Iterator[tuple[World, Scene]]:
    """Yield worlds with each of their scenes."""
    return ((world, scene) for world in some for scene in scenes(world))


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


# -- in the product -------------------------------------------------------------------------------


def test_product_displaces_whom_the_rules_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody exactly where the exhaustive search finds somebody, legal, and none too many."""
    tally = look_at(some()[:25], RIGHT, ask, moves=False)
    tell(capsys, "small worlds, asked of the product", tally)
    assert nothing_wrong(tally)


def test_product_asks_overtakers_as_the_rules_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of queues without quota: elsewhere it spares whom quota covers, the rules do not."""
    random = Random(9)

    def marked(world: World) -> World:
        early = [
            not world.queues[gang.queue].quota and random.random() < 0.5 for gang in world.gangs
        ]
        pairs = zip(world.gangs, early, strict=True)
        return replace(world, gangs=tuple(gang._replace(early=mark) for gang, mark in pairs))

    def ask_if_due(judge: Judge, scene: Scene, gang: int) -> Exchange | None:
        find = exhaustive if judge.world.gangs[gang].early else ask
        return find(judge, scene, gang)

    tally = look_at([marked(world) for world in some()[45:65]], RIGHT, ask_if_due, moves=False)
    tell(capsys, "small worlds with overtakers, asked of the product", tally)
    assert nothing_wrong(tally)


@pytest.mark.parametrize("slow", [False, True], ids=["at once", "a cycle later"])
def test_product_comes_to_rest_by_itself(slow: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody goes in circles or leaves in vain, and nobody is left waiting who could start."""
    tally = let_live(lives(some()[25:45]), slow=slow)
    tell(capsys, "small worlds, alive", tally)
    assert not tally.counts, tally.examples
    assert tally.exchanges > 100


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_product_displaces_whom_the_rules_say_in_many_worlds(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = look_at(islice(worlds(), ONE_IN * part, None, ONE_IN * PARTS), RIGHT, ask, moves=False)
    tell(capsys, f"small worlds, asked of the product, part {part}", tally)
    assert nothing_wrong(tally)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_product_comes_to_rest_by_itself_in_many_worlds(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ONE_IN * part + ONE_IN // 2
    every = islice(worlds(), first, None, ONE_IN * PARTS)
    tally = let_live(lives(every), slow=bool(part % 2))
    tell(capsys, f"small worlds, alive, part {part}", tally)
    assert not tally.counts, tally.examples


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


def test_product_that_keeps_no_room_is_found_out() -> None:
    """What is freed for one, who must wait until it is free, is anybody's meanwhile."""
    policy = replace(PROMPT, eviction=replace(PROMPT.eviction, hold_s=0.0))
    assert let_live(lives(some()[:5]), policy, slow=True).counts["vain"]


def test_product_that_does_not_ask_the_line_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gangs as large as the cluster evict each other for ever, if equals may be evicted."""

    def everybody(line: Line, place: object) -> Iterator[tuple[Item, Key]]:
        return ((item, line.key(item.name)) for item in line.items())

    monkeypatch.setattr(hunt.Hunt, "search", lambda *_, **__: hunt.UNSURE)
    monkeypatch.setattr(Line, "behind", everybody)
    monkeypatch.setattr(Case, "claims", Ties.claims)
    world = World(1, (Share(0), Share(0)), (Gang(0, 1, 2), Gang(1, 1, 2)))
    assert let_live(lives([world])).counts["loop"]


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

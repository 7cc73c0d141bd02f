"""Choosing domains, against a plain twin that looks at every set of nodes."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.cluster import Node
from mooring.model.topology import Level, Topology, Tree
from mooring.policy.placing.room import PARTS, Room, evenly, fewest, holding, reaching

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

LEVELS = Topology((Level("superpod"), Level("leaf")))


def room_of(slots: list[list[list[int]]]) -> Room:
    """Return the room of superpods of leaves of nodes with so many slots."""
    nodes, flat = [], []
    for s, leaves in enumerate(slots):
        for i, leaf in enumerate(leaves):
            for n, units in enumerate(leaf):
                nodes.append(Node(f"n{s}{i}{n}", path=(f"s{s}", f"l{i}")))
                flat.append(units)
    tree = Tree(LEVELS, nodes)
    leaf_units = np.array([flat[i] for i in tree.order], np.int32)
    per_level = [tree.sums(level, leaf_units) for level in range(tree.leaf_level)] + [leaf_units]
    return Room(tree, per_level, [np.zeros(len(units), np.int64) for units in per_level])


def numbers(room: Room, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many domains of each level below the cluster some rows are in."""
    tree = room.tree
    return tuple(len({int(tree.domain[level][r]) for r in rows}) for level in range(1, 4))


def least(room: Room, count: int) -> tuple[int, ...]:
    """Return the fewest domains per level, upper levels first, over all sets of nodes."""
    slots = room.units[-1]
    sets = (s for size in range(1, len(slots) + 1) for s in combinations(range(len(slots)), size))
    return min(numbers(room, rows) for rows in sets if slots[list(rows)].sum() >= count)


leaves = st.lists(st.integers(0, 4), min_size=1, max_size=2)
trees = st.lists(st.lists(leaves, min_size=1, max_size=2), min_size=1, max_size=3)


@given(trees, st.data())
def test_a_gang_takes_the_fewest_domains_at_every_level(
    slots: list[list[list[int]]], data: DataObject
) -> None:
    room = room_of(slots)
    total = int(room.units[0][0])
    if not total:
        return
    count = data.draw(st.integers(1, total))

    found, chosen = fewest(room, 0, 0, count)

    assert found == least(room, count) == numbers(room, tuple(row for row, _ in chosen))
    assert sum(units for _, units in chosen) == count
    assert all(0 < units <= room.units[-1][row] for row, units in chosen)


def test_the_first_choice_is_given_up_for_fewer_leaves() -> None:
    """The two biggest superpods hold six, but in five leaves; another pair needs only two."""
    room = room_of([[[1], [1], [1], [1]], [[3]], [[3]]])

    assert fewest(room, 0, 0, 6)[0] == (2, 2, 2)


@given(st.lists(st.integers(1, 6), max_size=8), st.integers(1, 5), st.integers(0, 20))
def test_sets_that_hold_all_come_in_the_order_of_combinations(
    some: list[int], number: int, count: int
) -> None:
    units = sorted(some, reverse=True)
    plain = [
        list(places)
        for places in combinations(range(len(units)), number)
        if sum(units[place] for place in places) >= count
    ]

    assert list(reaching(units, number, count)) == plain


def test_sets_that_do_not_hold_all_are_not_gone_through() -> None:
    """Of 10^11 sets of 20 superpods only one holds the gang: it was searched for hours."""
    room = room_of([[[2], [2]]] * 20 + [[[3]]] * 20)

    assert fewest(room, 0, 0, 80)[0] == (20, 40, 40)


def test_tightest_domain_comes_first() -> None:
    room = room_of([[[4, 4], [3, 1], [2, 2]]])

    assert list(holding(room, 2, (0, 3), 4)) == [1, 2, 0]


@given(trees, st.data())
def test_even_spread_is_as_level_as_room_allows(
    slots: list[list[list[int]]], data: DataObject
) -> None:
    """No superpod could give one to another that has at least two fewer and room."""
    room = room_of(slots)
    total = int(room.units[0][0])
    if not total:
        return
    count = data.draw(st.integers(1, total))

    chosen = evenly(room, 0, 0, count, None)

    given_to = np.zeros(len(room.units[1]), int)
    for row, units in chosen:
        given_to[room.tree.domain[1][row]] += units
    assert given_to.sum() == count
    for full in np.flatnonzero(given_to):
        for other in range(len(given_to)):
            if given_to[other] < room.units[1][other]:
                assert given_to[full] - given_to[other] <= 1


@given(trees, st.data())
def test_a_node_has_more_than_its_part_only_where_the_leaf_has_no_room(
    slots: list[list[list[int]]], data: DataObject
) -> None:
    """Then no node of its leaf with room has less than one below it; nobody who is there moves."""
    room = room_of(slots)
    total = int(room.units[0][0])
    if not total:
        return
    count = data.draw(st.integers(1, total))
    rows = len(room.units[-1])
    present = np.array(data.draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows)))

    given_to = np.zeros(rows, int)
    for row, units in evenly(room, 0, 0, count, present):
        given_to[row] += units

    assert given_to.sum() == count
    assert (given_to <= room.units[-1]).all()
    after, most = present + given_to, -(-(count + present.sum()) // PARTS)
    leaf = room.tree.domain[2]
    for row in np.flatnonzero(given_to).tolist():
        if after[row] > most:
            spare = (leaf == leaf[row]) & (given_to < room.units[-1])
            assert (after[spare] >= after[row] - 1).all()


def test_nodes_in_use_are_filled_up_to_their_part_first() -> None:
    """A ninth to a sixteenth replica may be the second of its node."""
    room = room_of([[[8] * 9]])
    room.used[-1][:] = [0, 0, 3, 0, 0, 5, 0, 0, 0]

    assert evenly(room, 0, 0, 9, None) == [(0, 2), (1, 2), (2, 2), (3, 1), (5, 2)]
    assert evenly(room, 0, 0, 1, np.array([1, 2, 2, 1, 0, 2, 0, 0, 0])) == [(0, 1)]

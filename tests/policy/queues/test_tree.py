"""The queue tree: who is above whom, where two queues part, and what each has of every pair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.queues import Queue, Quota
from mooring.policy.queues.tree import NO_BOUND, NOBODY, QueueTree

#   lab ── vision ── ann          shop
#       │         └─ bob
#       └─ sound
LAB = (
    Queue("ann", "vision"),
    Queue("lab"),
    Queue("vision", "lab"),
    Queue("bob", "vision"),
    Queue("shop"),
    Queue("sound", "lab"),
)


def tree_of(*queues: Queue, pairs: tuple[tuple[str, str], ...] = ()) -> QueueTree:
    return QueueTree([queue.name for queue in queues], queues, pairs)


def named(tree: QueueTree, indices: tuple[int, ...] | list[int]) -> list[str]:
    return [tree.names[index] for index in indices]


def test_a_path_leads_from_the_queue_to_its_root() -> None:
    tree = tree_of(*LAB)
    assert named(tree, tree.path[tree.index_of["ann"]]) == ["ann", "vision", "lab"]
    assert named(tree, tree.path[tree.index_of["shop"]]) == ["shop"]
    assert named(tree, tree.roots) == ["lab", "shop"]


def test_a_local_queue_is_served_as_the_queue_in_whose_line_its_work_stands() -> None:
    """Whatever it says itself: there is one line, and one way to serve it."""
    above = Queue("above", order="backfill")
    blue, green = Queue("blue", "above", order="strict", local=True), Queue("green", "above")
    assert tree_of(above, blue, green).order == ["backfill"] * 3


def test_children_stand_in_order_of_index() -> None:
    tree = tree_of(*LAB)
    assert named(tree, tree.children[tree.index_of["vision"]]) == ["ann", "bob"]
    assert named(tree, tree.children[tree.index_of["lab"]]) == ["vision", "sound"]
    assert [name for name in tree.names if tree.is_leaf(tree.index_of[name])] == [
        "ann", "bob", "shop", "sound",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "sides"),
    [
        ("ann", "bob", ("ann", "bob")),
        ("ann", "sound", ("vision", "sound")),
        ("ann", "shop", ("lab", "shop")),
        ("lab", "shop", ("lab", "shop")),
        ("ann", "ann", ("ann", "ann")),
        ("lab", "lab", ("lab", "lab")),
        ("ann", "vision", ("ann", "vision")),
        ("ann", "lab", ("vision", "lab")),
    ],
)
def test_where_two_queues_part(one: str, other: str, sides: tuple[str, str]) -> None:
    tree = tree_of(*LAB)
    a, b = tree.index_of[one], tree.index_of[other]
    assert tuple(named(tree, tree.common(a, b))) == sides
    assert tuple(named(tree, tree.common(b, a))) == sides[::-1]


def test_a_queue_that_is_gone_is_a_root_without_quota() -> None:
    """Something is still charged to it; its children have become roots."""
    tree = QueueTree(["gone", "left"], [Queue("left", "gone")], [("", "cpu")])
    assert tree.exists == [False, True]
    assert tree.parent == [NOBODY, NOBODY]
    assert tree.quota[0] == [0]
    assert not tree.names_pair[0][0]


def test_columns_say_what_a_queue_says_of_each_pair() -> None:
    gpu, cpu, other = ("H100", "gpu"), ("", "cpu"), ("", "memory")
    queue = Queue(
        "q",
        weight=2.0,
        quotas=(
            Quota("gpu", "H100", 4000, 8000, 3.0, 1000, 500),
            Quota("cpu", quota=None),
            Quota("disk", quota=7),  # nobody asked for this pair
        ),
    )
    tree = tree_of(queue, pairs=(gpu, cpu, other))
    assert tree.names_pair == [[True, True, False]]
    assert tree.quota == [[4000, NO_BOUND, 0]]
    assert tree.limit == [[8000, NO_BOUND, NO_BOUND]]
    assert tree.weight == [[3.0, 2.0, 2.0]]
    assert tree.borrowing_limit == [[1000, NO_BOUND, NO_BOUND]]
    assert tree.lending_limit == [[500, NO_BOUND, NO_BOUND]]


def test_no_amount_is_larger_than_no_bound() -> None:
    tree = tree_of(Queue("q", quotas=(Quota("cpu", quota=NO_BOUND * 8),)), pairs=(("", "cpu"),))
    assert tree.quota == [[NO_BOUND]]


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """Draw up to eight queues in any order, each below an earlier one or below none."""
    count = draw(st.integers(1, 8))
    parents = [draw(st.integers(-1, i - 1)) for i in range(count)]
    queues = [Queue(f"q{i}", f"q{p}" if p >= 0 else "") for i, p in enumerate(parents)]
    return tree_of(*draw(st.permutations(queues)))


def test_queues_that_are_above_themselves_have_nobody_above_them() -> None:
    below = Queue("left", "right"), Queue("right", "left"), Queue("leaf", "left")
    tree = tree_of(*below, Queue("own", "own"), Queue("root"), Queue("fine", "root"))
    cyclic = [name for name, is_so in zip(tree.names, tree.is_cyclic, strict=True) if is_so]
    assert cyclic == ["left", "right", "own"]
    ways = {tree.names[path[0]]: [tree.names[q] for q in path] for path in tree.path}
    assert ways["leaf"] == ["leaf", "left"]
    assert ways["fine"] == ["fine", "root"]
    assert all(ways[name] == [name] for name in cyclic)


@given(trees())
def test_order_and_paths_agree_with_parents(tree: QueueTree) -> None:
    order = tree.above()
    assert sorted(order) == list(range(tree.count))
    for queue, parent in enumerate(tree.parent):
        if parent == NOBODY:
            assert tree.path[queue] == (queue,)
        else:
            assert order.index(queue) < order.index(parent)
            assert tree.path[queue] == (queue, *tree.path[parent])
            assert queue in tree.children[parent]


@given(trees(), st.data())
def test_queues_part_right_below_their_lowest_common_ancestor(
    tree: QueueTree, data: st.DataObject
) -> None:
    any_queue = st.integers(0, tree.count - 1)
    one, other = data.draw(any_queue), data.draw(any_queue)
    shared = [queue for queue in tree.path[one] if queue in tree.path[other]]
    meeting = shared[0] if shared else NOBODY
    for queue, side in zip((one, other), tree.common(one, other), strict=True):
        if queue == meeting:
            assert side == queue
        else:
            assert side in tree.path[queue]
            assert tree.parent[side] == meeting

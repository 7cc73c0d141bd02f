"""May a queue be charged: by hand, as properties, and against a plain recursive twin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.model.columns import INT, views
from mooring.model.queues import Queue, Quota
from mooring.policy.queues.quota import BORROWING, LIMIT, QUOTA, Ledger, Shortage
from mooring.policy.queues.tree import NO_BOUND, NOBODY, QueueTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.policy.queues.quota import Table

GPU = 0
CPU = 1
PAIRS = (("H100", "gpu"), ("", "cpu"))
Usage = list[list[int]]


def queue(name: str, parent: str = "", quota: int | None = 0, **bounds: int) -> Queue:
    """Return a queue that has a quota of GPUs."""
    return Queue(name, parent, (Quota("gpu", "H100", quota, **bounds),))


class World:
    """A ledger, asked by names of queues, for GPUs."""

    def __init__(self, *queues: Queue, capacity: Sequence[int] | None = None) -> None:
        self.tree = QueueTree([queue.name for queue in queues], queues, PAIRS)
        self.ledger = Ledger(self.tree, capacity)
        self.usage: Usage = [[0, 0] for _ in queues]

    def use(self, **amounts: int) -> World:
        """Let queues use so much more; return the same world."""
        for name, amount in amounts.items():
            add(self.tree, self.usage, self[name], GPU, amount)
        return self

    def __getitem__(self, name: str) -> int:
        return self.tree.index_of[name]

    def available(self, *names: str) -> list[int]:
        return [self.ledger.available(self[name], GPU, self.usage) for name in names]

    def potential(self, *names: str) -> list[int]:
        return [self.ledger.potential(self[name], GPU) for name in names]

    def drawn(self, *names: str) -> list[int]:
        return [self.ledger.drawn(self[name], GPU, self.usage) for name in names]

    def distance(self, name: str, amount: int) -> int:
        return self.ledger.distance(self[name], {GPU: amount}, self.usage)

    def borrows(self, name: str, extra: int = 0) -> bool:
        return self.ledger.borrows(self[name], GPU, self.usage, extra)

    def blocker(self, name: str, **amounts: int) -> Shortage | None:
        request = {{"gpu": GPU, "cpu": CPU}[what]: amount for what, amount in amounts.items()}
        return self.ledger.blocker(self[name], request, self.usage)


def add(tree: QueueTree, usage: Usage, at: int, pair: int, amount: int) -> None:
    for above in tree.path[at]:
        usage[above][pair] += amount


# -- a flat cohort --------------------------------------------------------------------------


def flat(**of_b: int) -> World:
    return World(queue("all"), queue("a", "all", 4), queue("b", "all", 6, **of_b))


def test_what_nobody_uses_may_be_borrowed() -> None:
    world = flat().use(a=3, b=2)
    assert world.potential("a", "b", "all") == [10, 10, 10]
    assert world.available("a", "b", "all") == [5, 5, 5]


def test_a_queue_borrows_from_its_quota_on() -> None:
    world = flat().use(a=3)
    assert not world.borrows("a", 1)
    assert world.borrows("a", 2)
    assert world.ledger.borrowed(world["a"], GPU, world.use(a=4).usage) == 3


def test_lent_quota_is_not_there_for_its_owner() -> None:
    """Under quota, and yet nothing left: it is for eviction to bring it back."""
    world = flat().use(a=9)
    assert world.available("b") == [1]
    assert not world.borrows("b", 6)
    assert world.blocker("b", gpu=6) == Shortage(world["all"], GPU, 6, 1, QUOTA)


def test_quota_beyond_the_lending_limit_is_private() -> None:
    world = flat(lending_limit=2)
    assert world.potential("a", "b") == [6, 10]
    assert world.ledger.private[world["b"]][GPU] == 4
    world.use(a=6)
    assert world.available("a", "b") == [0, 4]
    world.use(b=3)
    assert world.drawn("all") == [6]
    assert world.available("a", "b") == [0, 1]


def test_private_quota_is_used_first() -> None:
    world = flat(lending_limit=2).use(b=5)
    assert world.drawn("b", "all") == [5, 1]
    assert world.available("a", "b") == [5, 5]


def test_a_lending_limit_above_quota_lends_it_all() -> None:
    world = flat(lending_limit=100)
    assert world.potential("a", "b") == [10, 10]


def test_nothing_is_borrowed_beyond_the_borrowing_limit() -> None:
    world = flat(borrowing_limit=1).use(b=5)
    assert world.potential("a", "b") == [10, 7]
    assert world.available("a", "b") == [5, 2]
    assert world.blocker("b", gpu=2) is None
    assert world.blocker("b", gpu=3) == Shortage(world["b"], GPU, 3, 2, BORROWING)


def test_a_borrowing_limit_counts_from_quota_not_from_what_is_lent() -> None:
    world = flat(borrowing_limit=1, lending_limit=2).use(b=5)
    assert world.potential("b") == [7]
    assert world.available("b") == [2]


def test_a_root_alone_has_its_quota_whatever_it_may_borrow_or_lend() -> None:
    world = World(queue("a", quota=4, borrowing_limit=9, lending_limit=1), queue("b", quota=9))
    world.use(a=3)
    assert world.potential("a") == [4]
    assert world.available("a") == [1]
    assert world.distance("a", 2) == 0  # there is nobody to borrow from
    assert world.borrows("a", 2)


def test_over_admitted_work_leaves_nothing_for_a_leaf_and_less_for_those_above() -> None:
    """Quota was cut, or the queue moved, after the work had started."""
    world = flat().use(a=13)
    assert world.available("all", "a", "b") == [-3, 0, 0]
    assert world.blocker("b", gpu=1) == Shortage(world["all"], GPU, 1, 0, QUOTA)


# -- three levels, quota at each -------------------------------------------------------------

DEEP = (
    queue("org", quota=5),
    queue("east", "org", 2, borrowing_limit=3, lending_limit=4),
    queue("west", "org"),
    queue("e1", "east", 4),
    queue("e2", "east", 4, lending_limit=1),
    queue("w1", "west", 6),
)


def test_quota_adds_up_by_what_is_lent() -> None:
    world = World(*DEEP)
    subtree = {name: world.ledger.subtree[world[name]][GPU] for name in world.tree.names}
    private = {name: world.ledger.private[world[name]][GPU] for name in world.tree.names}
    assert subtree == {"org": 15, "east": 7, "west": 6, "e1": 4, "e2": 4, "w1": 6}
    assert private == {"org": 0, "east": 3, "west": 0, "e1": 0, "e2": 3, "w1": 0}
    assert world.ledger.nominal(world["east"], GPU) == 2


@pytest.mark.parametrize(
    ("use", "drawn", "available"),
    [  #                           org east  org east  e1  e2  w1
        ({}, [0, 0], [15, 10, 10, 13, 15]),
        ({"e1": 2}, [0, 2], [15, 8, 8, 11, 15]),
        ({"e1": 5, "e2": 4, "w1": 8}, [11, 6], [4, 4, 4, 4, 4]),
        ({"e1": 10}, [7, 10], [8, 0, 0, 3, 8]),
        ({"e1": 10, "e2": 3}, [7, 10], [8, 0, 0, 0, 8]),
        ({"east": 4}, [1, 4], [14, 6, 6, 9, 14]),  # directly, by nobody below
        ({"org": 9}, [9, 0], [6, 9, 9, 12, 6]),
        ({"w1": 15}, [15, 0], [0, 3, 3, 6, 0]),
        ({"w1": 16}, [16, 0], [-1, 2, 2, 5, 0]),
        ({"e1": 5, "e2": 1, "w1": 14}, [16, 5], [-1, -1, 0, 1, 0]),  # debt eats private quota
    ],
)
def test_three_levels(use: dict[str, int], drawn: list[int], available: list[int]) -> None:
    world = World(*DEEP).use(**use)
    assert world.potential("org", "east", "e1", "e2", "w1") == [15, 10, 10, 13, 15]
    assert world.drawn("org", "east") == drawn
    assert world.available("org", "east", "e1", "e2", "w1") == available


@pytest.mark.parametrize(
    ("name", "amount", "distance", "holder"),
    [
        ("e2", 1, 1, "east"),  # it has 4 of 4
        ("e1", 1, 1, "east"),  # 5 + 1 > 4, but 6 + 1 <= 7
        ("e1", 2, 2, "org"),  # 6 + 2 > 7, but 11 + 2 <= 15
        ("w1", 1, 2, "org"),
        ("w1", 99, 2, "org"),  # nobody holds that: as far as it goes
        ("east", 1, 0, "east"),
        ("east", 2, 2, "org"),
        ("org", 99, 0, "org"),
    ],
)
def test_the_distance_is_the_height_of_what_holds_it(
    name: str, amount: int, distance: int, holder: str
) -> None:
    world = World(*DEEP).use(e1=5, e2=4, w1=8)
    assert world.distance(name, amount) == distance
    assert world.ledger.holder(world[name], GPU, amount, world.usage) == world[holder]
    assert world.borrows(name, amount) == (distance > 0 or name == "org")


def test_private_quota_of_those_below_does_not_shorten_the_way() -> None:
    """Only what goes beyond private quota is looked for further up."""
    world = World(*DEEP).use(e1=4)
    assert world.distance("e2", 4) == 0
    assert world.distance("e2", 6) == 1  # 3 of them private, 4 + 3 <= 7
    assert world.distance("e2", 7) == 2


def test_the_height_of_an_uneven_tree_is_that_of_its_longest_way() -> None:
    world = World(queue("root", quota=50), queue("a", "root"), queue("b", "root"), queue("b1", "b"))
    assert world.distance("a", 1) == 2
    assert world.distance("b1", 1) == 2


def test_the_farthest_pair_decides() -> None:
    world = World(*DEEP, Queue("x", "west", (Quota("gpu", "H100", 1), Quota("cpu", quota=8))))
    x, usage = world["x"], world.usage
    assert world.ledger.distance(x, {GPU: 1, CPU: 8}, usage) == 0
    assert world.ledger.distance(x, {GPU: 2, CPU: 8}, usage) == 1
    assert world.ledger.distance(x, {GPU: 2, CPU: 9}, usage) == 2
    assert world.ledger.distance(x, {GPU: 0}, world.use(x=9).usage) == 0  # it asks for nothing


# -- limits, no bounds, pairs that nobody names ----------------------------------------------


def test_limits_bound_at_every_level() -> None:
    world = World(queue("top", quota=20, limit=12), queue("a", "top", limit=7), queue("b", "top"))
    assert world.potential("a", "b") == [7, 12]
    world.use(a=4)
    assert world.available("a", "b") == [3, 8]
    world.use(b=6)
    assert world.available("a", "b") == [2, 2]
    assert world.blocker("a", gpu=3) == Shortage(world["top"], GPU, 3, 2, LIMIT)
    assert world.use(b=5).available("top", "a") == [-3, 0]


def test_the_tightest_bound_is_named() -> None:
    world = World(queue("top", quota=5, limit=9), queue("a", "top", 1, limit=8, borrowing_limit=3))
    assert world.blocker("a", gpu=9) == Shortage(world["a"], GPU, 9, 4, BORROWING)
    world.use(top=3)
    assert world.blocker("a", gpu=9) == Shortage(world["top"], GPU, 9, 3, QUOTA)


def test_of_equal_bounds_quota_is_named_before_a_limit() -> None:
    world = World(queue("top", quota=4, limit=5), queue("a", "top", 1))
    assert world.blocker("a", gpu=6) == Shortage(world["top"], GPU, 6, 5, QUOTA)


def test_quota_without_bound() -> None:
    world = World(queue("top"), queue("rich", "top", None), queue("poor", "top", 1)).use(rich=99)
    assert world.available("top", "rich", "poor") == [NO_BOUND] * 3
    assert world.potential("top", "rich", "poor") == [NO_BOUND] * 3
    assert not world.borrows("rich", 10**12)
    assert world.borrows("poor", 2)
    assert world.distance("poor", 2) == 1
    assert world.blocker("poor", gpu=10**15) is None


def test_the_rich_may_keep_their_wealth_private() -> None:
    world = World(queue("top"), queue("rich", "top", None, lending_limit=3), queue("poor", "top"))
    world.use(rich=10**9)
    assert world.drawn("top") == [0]
    assert world.available("top", "rich", "poor") == [3, NO_BOUND, 3]
    world.use(poor=5)
    assert world.available("rich") == [NO_BOUND]  # not even debts above touch it


def test_no_bound_above_does_not_lift_a_borrowing_limit() -> None:
    world = World(queue("top", quota=None), queue("a", "top", 4, borrowing_limit=2)).use(a=1)
    assert world.potential("a") == [6]
    assert world.available("a", "top") == [5, NO_BOUND]


def test_many_without_bound_are_still_without_bound() -> None:
    world = World(queue("top"), *(queue(f"q{i}", "top", None) for i in range(20))).use(q0=7)
    assert world.available("top", "q0") == [NO_BOUND, NO_BOUND]
    assert world.ledger.subtree[world["top"]][GPU] == NO_BOUND


def test_a_long_chain_of_private_wealth_does_not_overflow() -> None:
    chain = [queue("q0", quota=None)]
    chain += [queue(f"q{i}", f"q{i - 1}", None, lending_limit=1) for i in range(1, 12)]
    world = World(*chain).use(q11=7)
    usage = np.array(world.usage, INT)
    assert world.ledger.available(11, GPU, usage) == NO_BOUND
    assert world.ledger.available(0, GPU, usage) == NO_BOUND
    assert not world.ledger.borrows(11, GPU, usage, 10**12)


def test_pairs_that_nobody_on_the_path_names_are_not_counted() -> None:
    world = World(queue("top"), queue("a", "top", 4), Queue("free")).use(free=50)
    assert world.available("free") == [NO_BOUND]
    assert world.potential("free") == [NO_BOUND]
    assert not world.borrows("free", 9)
    assert world.distance("free", 9) == 0
    assert world.blocker("free", gpu=9) is None
    assert world.ledger.available(world["a"], CPU, world.usage) == NO_BOUND
    assert not world.ledger.counts(world["a"], CPU)


def test_a_pair_named_above_is_counted() -> None:
    world = World(queue("top", quota=4), Queue("a", "top"))
    assert world.available("a") == [4]
    assert world.distance("a", 1) == 1


def test_a_local_queue_uses_the_quota_above() -> None:
    """It neither borrows from the queue above nor makes the tree higher."""
    mine = (Quota("gpu", "H100", 50, borrowing_limit=0, lending_limit=1),)  # which it cannot have
    world = World(*DEEP, Queue("me", "e1", mine, local=True), Queue("you", "e1", local=True))
    world.use(me=2, you=3, e2=4, w1=8)
    assert world.available("me", "e1") == [4, 4]
    assert world.distance("me", 1) == 1
    assert world.distance("w1", 1) == 2
    assert world.borrows("me")
    assert not world.borrows("me", -1)
    assert world.ledger.nominal(world["me"], GPU) == 4
    assert world.use(w1=9).available("e1", "me") == [0, 0]


def test_what_a_local_queue_names_does_not_count() -> None:
    world = World(Queue("a"), Queue("me", "a", queue("", quota=3).quotas, local=True)).use(me=9)
    assert world.available("me") == [NO_BOUND]
    assert world.distance("me", 1) == 0


def test_a_request_for_nothing_is_never_short() -> None:
    world = flat().use(a=13)
    assert world.blocker("a", gpu=0) is None
    assert world.blocker("a") is None


def test_the_first_pair_that_is_short_is_named() -> None:
    both = Queue("a", "", (Quota("gpu", "H100", 2), Quota("cpu", quota=8)))
    world = World(both)
    assert world.blocker("a", gpu=2, cpu=8) is None
    assert world.blocker("a", gpu=2, cpu=9) == Shortage(0, CPU, 9, 8, QUOTA)
    assert world.blocker("a", cpu=9, gpu=3) == Shortage(0, CPU, 9, 8, QUOTA)
    assert world.blocker("a", gpu=3, cpu=9) == Shortage(0, GPU, 3, 2, QUOTA)


# -- capacity: the roots below one imaginary queue --------------------------------------------


def test_capacity_beyond_all_quotas_is_for_everybody() -> None:
    world = World(queue("a", quota=3), queue("b", quota=2, borrowing_limit=4), capacity=(10, 0))
    assert world.potential("a", "b") == [10, 6]
    world.use(a=5)
    assert world.available("a", "b") == [5, 5]
    assert world.distance("a", 1) == 1
    assert world.ledger.holder(world["a"], GPU, 1, world.usage) == NOBODY
    assert world.use(b=3).blocker("a", gpu=3) == Shortage(NOBODY, GPU, 3, 2, QUOTA)


def test_a_queue_is_named_before_the_capacity_where_both_are_in_the_way() -> None:
    """More nodes would be no help."""
    world = World(queue("top", quota=8, limit=8), queue("a", "top", 4), capacity=(8, 0))
    world.use(a=8)
    assert world.blocker("a", gpu=1) == Shortage(world["top"], GPU, 1, 0, LIMIT)
    scarce = World(queue("top", quota=4, limit=8), queue("a", "top"), capacity=(6, 0))
    scarce.use(a=6)
    assert scarce.blocker("a", gpu=2) == Shortage(NOBODY, GPU, 2, 0, QUOTA)
    assert scarce.blocker("a", gpu=3) == Shortage(scarce["top"], GPU, 3, 0, LIMIT)


def test_private_quota_is_kept_from_others_even_if_capacity_is_scarce() -> None:
    world = World(queue("a", quota=5, lending_limit=0), queue("b"), capacity=(10, 0))
    assert world.potential("a", "b") == [10, 5]
    assert world.use(b=5).available("a", "b") == [5, 0]
    assert world.use(a=5).available("a", "b") == [0, 0]


def test_private_quota_deep_inside_is_kept_too() -> None:
    world = World(*DEEP, queue("other"), capacity=(25, 0))
    # Of 21 in quotas 6 are private (3 of e2, 3 of east): 15 lent, 4 beyond all quotas.
    assert world.potential("other", "org", "w1") == [19, 19, 19]
    assert world.use(other=19).available("other", "org", "east", "e1", "e2") == [0, 0, 3, 3, 6]


def test_who_names_nothing_may_not_take_what_is_private_either() -> None:
    kept = World(queue("a", quota=5, lending_limit=1), Queue("x"), capacity=(10, 0))
    assert kept.available("x") == [6]
    assert kept.distance("x", 1) == 1
    lent = World(queue("a", quota=5), Queue("x"), capacity=(10, 0))
    assert lent.available("x") == [NO_BOUND]  # room alone decides
    assert lent.use(x=4).available("a") == [6]


def test_quotas_above_capacity_stay_promised() -> None:
    world = World(queue("a", quota=6), queue("b", quota=6, lending_limit=2), capacity=(7, 0))
    assert world.potential("a", "b") == [8, 12]
    assert world.use(b=6).available("a") == [6]


def test_capacity_without_bound_bounds_nobody() -> None:
    world = World(queue("a", quota=3, lending_limit=1), queue("b"), capacity=(NO_BOUND, 0))
    assert world.use(b=99).available("a", "b") == [NO_BOUND, NO_BOUND]


def test_capacity_changes_and_the_old_ledger_stays() -> None:
    world = World(queue("a", quota=3), capacity=(10, 0)).use(a=2)
    grown = world.ledger.with_capacity((12, 0))
    assert grown.available(0, GPU, world.usage) == 10
    assert world.available("a") == [8]
    alone = World(queue("a", quota=3)).use(a=2)
    assert alone.ledger.with_capacity((12, 0)).available(0, GPU, alone.usage) == 10
    assert alone.available("a") == [1]


# -- limits and fixed work as in KAI ----------------------------------------------------------

KAI = (
    Queue("dept", "", (Quota("gpu", "H100", 4, 8), Quota("cpu", quota=None))),
    Queue("one", "dept", (Quota("gpu", "H100", 2, None), Quota("cpu", quota=9, limit=20))),
    Queue("two", "dept", (Quota("gpu", "H100", None, 5),)),
)


@pytest.mark.parametrize(
    ("name", "request_", "broken"),
    [
        ("one", {GPU: 1}, None),
        ("one", {GPU: 2}, ("dept", GPU)),
        ("one", {GPU: 3}, ("one", GPU)),
        ("one", {GPU: 3, CPU: 10}, ("one", GPU)),
        ("one", {CPU: 9}, None),
        ("two", {GPU: 1}, None),
        ("two", {GPU: 2}, ("dept", GPU)),
        ("two", {CPU: 1}, ("two", CPU)),  # it says nothing of CPU, so it has none
    ],
)
def test_fixed_work_only_uses_quota(
    name: str, request_: dict[int, int], broken: tuple[str, int] | None
) -> None:
    world = World(*KAI).use(two=3)
    found = world.ledger.over_quota_fixed(world[name], request_, world.usage)
    assert found == (None if broken is None else (world[broken[0]], broken[1]))


def test_fixed_work_of_pairs_that_nobody_names_and_of_local_queues() -> None:
    world = World(queue("a", quota=2), Queue("me", "a", local=True))
    assert world.ledger.over_quota_fixed(world["me"], {GPU: 2, CPU: 5}, world.usage) is None
    assert world.ledger.over_quota_fixed(world["me"], {GPU: 3}, world.usage) == (world["a"], GPU)


@pytest.mark.parametrize("capacity", [None, (25, 0)])
def test_any_kind_of_table_will_do(capacity: tuple[int, int] | None) -> None:
    world = World(*DEEP, capacity=capacity).use(e1=5, e2=4, w1=8)
    ledger, request = world.ledger, {GPU: 5, CPU: 1}
    array = np.array(world.usage, INT)
    for table in (array, views(array)):
        assert ledger.table(table) == ledger.table(world.usage)
        for at in range(world.tree.count):
            left = ledger.available(at, GPU, table)
            assert left == ledger.available(at, GPU, world.usage)
            assert type(left) is int
            for ask in (ledger.blocker, ledger.distance):
                assert ask(at, request, table) == ask(at, request, world.usage)


# -- random trees ----------------------------------------------------------------------------

amounts = st.integers(0, 8)
maybe = st.none() | amounts


@st.composite
def quotas(draw: st.DrawFn) -> tuple[Quota, ...]:
    """Draw what a queue says of each pair, often nothing of one."""
    return tuple(
        Quota(
            resource,
            flavor,
            draw(amounts | amounts | amounts | st.none()),
            draw(st.none() | st.none() | st.integers(0, 20)),
            None,
            draw(maybe),
            draw(maybe),
        )
        for flavor, resource in PAIRS
        if draw(st.integers(0, 3))
    )


@st.composite
def worlds(draw: st.DrawFn, *, limits: bool = True) -> World:
    """Draw a forest of queues, some of them local, with capacities or without."""
    queues: list[Queue] = []
    for i in range(draw(st.integers(1, 6))):
        above = [""] + [queue.name for queue in queues if not queue.local]
        parent = draw(st.sampled_from(above[-4:]))
        if parent and draw(st.integers(0, 5)) == 0:
            queues.append(Queue(f"q{i}", parent, local=True))
            continue
        own = draw(quotas())
        if not limits:
            own = tuple(replace(quota, limit=None) for quota in own)
        queues.append(Queue(f"q{i}", parent, own))
    bounds = st.integers(0, 40) | st.just(NO_BOUND)
    capacity = draw(st.none() | st.tuples(bounds, bounds))
    return World(*queues, capacity=capacity)


@st.composite
def charges(draw: st.DrawFn, world: World) -> list[tuple[int, int, int]]:
    """Draw charges (queue, pair, amount), and refunds of some of them in any order."""
    whom = st.tuples(st.integers(0, world.tree.count - 1), st.integers(0, 1), st.integers(1, 12))
    made: list[tuple[int, int, int]] = []
    steps: list[tuple[int, int, int]] = []
    for step in draw(st.lists(whom, min_size=1, max_size=12)):
        if made and draw(st.integers(0, 2)) == 0:
            at, pair, amount = made.pop(draw(st.integers(0, len(made) - 1)))
            steps.append((at, pair, -amount))
        else:
            made.append(step)
            steps.append(step)
    return steps


@st.composite
def used_worlds(draw: st.DrawFn) -> World:
    """Draw a world in which something was charged, perhaps more than may be."""
    world = draw(worlds())
    for at, pair, amount in draw(charges(world)):
        add(world.tree, world.usage, at, pair, amount)
    return world


def everywhere(world: World) -> Iterator[tuple[int, int]]:
    return ((q, pair) for q in range(world.tree.count) for pair in range(len(PAIRS)))


# -- the twin: the text of the arithmetic, by recursion, with usage of its own -----------------


@dataclass(eq=False)
class Node:
    """A queue of the twin, for one pair; without bound is infinite."""

    own: float = 0
    borrowing: float | None = None
    lending: float | None = None
    limit: float = inf
    named: bool = False
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    usage: float = 0
    """As pushed up from below."""
    total: float = 0
    """As charged here and below."""

    def subtree_quota(self) -> float:
        return self.own + sum(child.visible() for child in self.children)

    def local_quota(self) -> float:
        return 0 if self.lending is None else max(0, self.subtree_quota() - self.lending)

    def visible(self) -> float:
        hidden = self.local_quota()
        if hidden == inf:
            assert self.lending is not None
            return self.lending
        return self.subtree_quota() - hidden

    def local_available(self) -> float:
        return max(0, self.local_quota() - self.usage)

    def add(self, amount: float) -> None:
        up = amount - self.local_available()
        self.usage += amount
        if self.parent is not None and up > 0:
            self.parent.add(up)

    def remove(self, amount: float) -> None:
        stored_above = self.usage - self.local_quota()
        self.usage -= amount
        if self.parent is not None and stored_above > 0:
            self.parent.remove(min(amount, stored_above))

    def available(self) -> float:
        if self.parent is None:
            return self.subtree_quota() - self.usage
        above = self.parent.available()
        if self.borrowing is not None:
            used_above = max(0, self.usage - self.local_quota())
            above = min(above, self.borrowing + self.visible() - used_above)
        return self.local_available() + above

    def potential(self) -> float:
        if self.parent is None:
            return self.subtree_quota()
        above = self.parent.potential()
        if self.borrowing is not None:
            above = min(above, self.borrowing + self.visible())
        return self.local_quota() + above

    def height(self) -> int:
        return max((child.height() + 1 for child in self.children), default=0)

    def distance(self, amount: float) -> int:
        if self.parent is None or self.usage + amount <= self.subtree_quota():
            return 0
        return self.parent.distance_up(amount - self.local_available())

    def distance_up(self, amount: float) -> int:
        if self.parent is None or self.usage + amount <= self.subtree_quota():
            return self.height()
        return self.parent.distance_up(amount - self.local_available())

    def line(self) -> list[Node]:
        return [self] + (self.parent.line() if self.parent else [])


class Twin:
    """One pair of a world, told again."""

    def __init__(self, world: World, pair: int) -> None:
        self.everybody: Node | None = None
        nodes: dict[str, Node] = {}
        self.node_of: list[Node] = []
        for queue in world.tree.queues:
            if queue.local:  # its work is that of the queue above
                self.node_of.append(nodes[queue.parent])
                nodes[queue.name] = nodes[queue.parent]
                continue
            node = nodes[queue.name] = Node(parent=nodes.get(queue.parent))
            self.node_of.append(node)
            if node.parent is not None:
                node.parent.children.append(node)
            for quota in queue.quotas:
                if (quota.flavor, quota.resource) == PAIRS[pair]:
                    node.named = True
                    node.own = inf if quota.quota is None else quota.quota
                    node.limit = inf if quota.limit is None else quota.limit
                    node.borrowing, node.lending = quota.borrowing_limit, quota.lending_limit

    def crown(self, capacity: int) -> None:
        """Put all roots below one that owns what the capacity has beyond all quotas."""
        nodes = list(dict.fromkeys(self.node_of))
        beyond = (inf if capacity == NO_BOUND else capacity) - sum(node.own for node in nodes)
        self.everybody = Node(own=beyond if beyond > 0 else inf if capacity == NO_BOUND else 0)
        for node in nodes:
            if node.parent is None:
                node.parent = self.everybody
                self.everybody.children.append(node)

    def charge(self, at: int, amount: int) -> None:
        node = self.node_of[at]
        node.add(amount) if amount > 0 else node.remove(-amount)
        for above in node.line():
            above.total += amount

    def is_counted(self, at: int) -> bool:
        if any(node.named for node in self.node_of[at].line()):
            return True
        return self.everybody is not None and any(node.local_quota() for node in self.node_of)

    def available(self, at: int) -> float:
        node = self.node_of[at]
        left = min(above.limit - above.total for above in node.line())
        if self.is_counted(at):
            left = min(left, node.available())
        return left if node.children else max(0, left)

    def potential(self, at: int) -> float:
        node = self.node_of[at]
        most = min(above.limit for above in node.line())
        return min(most, node.potential()) if self.is_counted(at) else most


def twins_of(world: World, capacity: Sequence[int] | None) -> list[Twin]:
    twins = [Twin(world, pair) for pair in range(len(PAIRS))]
    if capacity is not None:
        for twin, amount in zip(twins, capacity, strict=True):
            twin.crown(amount)
    return twins


def plain(amount: float) -> int:
    return NO_BOUND if amount == inf else int(amount)


def same_everywhere(world: World, twins: list[Twin], usage: Table, drawn: Usage) -> None:
    ledger = world.ledger
    for at, pair in everywhere(world):
        twin = twins[pair]
        node = twin.node_of[at]
        left = plain(twin.available(at))
        assert ledger.counts(at, pair) == twin.is_counted(at)
        assert ledger.available(at, pair, usage) == left
        assert ledger.available(at, pair, usage, drawn) == left
        assert ledger.potential(at, pair) == plain(twin.potential(at))
        if not world.tree.queues[at].local:
            assert ledger.drawn(at, pair, usage) == drawn[at][pair] == node.usage
            assert ledger.subtree[at][pair] == plain(node.subtree_quota())
            assert ledger.private[at][pair] == plain(node.local_quota())
        for amount in (1, 3, 9):
            counted = twin.is_counted(at)
            far = node.distance(amount) if counted else 0
            above = counted and node.usage + amount > node.subtree_quota()
            assert ledger.distance(at, {pair: amount}, usage) == far
            assert ledger.distance(at, {pair: amount}, usage, drawn) == far
            assert ledger.borrows(at, pair, usage, amount) == above
            assert ledger.borrows(at, pair, usage, amount, drawn) == above


@given(worlds(), st.data())
def test_the_twin_agrees_after_every_charge_and_refund(world: World, data: st.DataObject) -> None:
    """Charges are not asked for first: the twins agree on what is over-admitted as well."""
    capacity = data.draw(st.none() | st.tuples(*[st.integers(0, 40) | st.just(NO_BOUND)] * 2))
    world.ledger = Ledger(world.tree, capacity)
    twins, drawn = twins_of(world, capacity), world.ledger.table(world.usage)
    for at, pair, amount in data.draw(charges(world)):
        add(world.tree, world.usage, at, pair, amount)
        world.ledger.charge(drawn, at, pair, amount)
        twins[pair].charge(at, amount)
        same_everywhere(world, twins, world.usage, drawn)
    assert drawn == world.ledger.table(world.usage)


# -- properties ------------------------------------------------------------------------------


def admit(world: World, data: st.DataObject) -> None:
    """Charge what may be charged, in any order, each time any part of what is available."""
    for at, pair, amount in data.draw(charges(world)):
        if amount > 0 and world.ledger.counts(at, pair):
            amount = min(amount, world.ledger.available(at, pair, world.usage))
            add(world.tree, world.usage, at, pair, max(0, amount))


@given(worlds(), st.data())
def test_what_is_admitted_breaks_no_bound(world: World, data: st.DataObject) -> None:
    admit(world, data)
    tree, ledger = world.tree, world.ledger
    for at, pair in everywhere(world):
        assert world.usage[at][pair] <= tree.limit[at][pair]
        assert ledger.available(at, pair, world.usage) >= 0
        alone = tree.parent[at] == NOBODY and ledger.holder(at, pair, 1 << 50, world.usage) == at
        if ledger.counts(at, pair) and not tree.queues[at].local and not alone:
            bound = tree.borrowing_limit[at][pair]
            assert ledger.borrowed(at, pair, world.usage) <= bound


@given(worlds(limits=False), st.data())
def test_what_is_admitted_leaves_private_quota_to_its_owner(
    world: World, data: st.DataObject
) -> None:
    admit(world, data)
    ledger = world.ledger
    for at, pair in everywhere(world):
        spare = ledger.private[at][pair] - ledger.drawn(at, pair, world.usage)
        if ledger.counts(at, pair) and world.tree.parent[at] != NOBODY:
            assert ledger.available(at, pair, world.usage) >= spare


@given(worlds(limits=False), st.integers(0, 60), st.data())
def test_capacity_is_never_promised_twice(world: World, capacity: int, data: st.DataObject) -> None:
    """What is used, and what is kept for its owner, fit the larger of capacity and quotas."""
    world.ledger = ledger = Ledger(world.tree, (capacity, capacity))
    admit(world, data)
    tree = world.tree
    for pair in range(len(PAIRS)):
        promised = sum(row[pair] for row in tree.quota)
        if promised < NO_BOUND:
            used = sum(world.usage[root][pair] for root in tree.roots)
            kept = sum(
                max(0, ledger.private[at][pair] - ledger.drawn(at, pair, world.usage))
                for at in range(tree.count)
            )
            assert used + kept <= max(capacity, promised)


@given(worlds(), st.data())
def test_more_use_never_leaves_more(world: World, data: st.DataObject) -> None:
    ledger = world.ledger
    before = {key: ledger.potential(*key) for key in everywhere(world)}
    for at, pair, amount in data.draw(charges(world)):
        if amount > 0:
            add(world.tree, world.usage, at, pair, amount)
        now = {key: ledger.available(*key, world.usage) for key in everywhere(world)}
        assert all(now[key] <= before[key] for key in now)
        before = now


@given(worlds(), st.data())
def test_refunds_undo_charges_in_any_order(world: World, data: st.DataObject) -> None:
    steps = [step for step in data.draw(charges(world)) if step[2] > 0]
    drawn = world.ledger.table(world.usage)
    for at, pair, amount in steps:
        world.ledger.charge(drawn, at, pair, amount)
    for at, pair, amount in data.draw(st.permutations(steps)):
        world.ledger.charge(drawn, at, pair, -amount)
    assert drawn == world.ledger.table(world.usage)
    assert not any(map(any, drawn))


@given(used_worlds(), st.integers(0, 9), st.integers(0, 9))
@example(World(queue("a", borrowing_limit=1), capacity=(0, 0)), 0, 2)
def test_the_blocker_is_there_exactly_where_too_little_is_available(
    world: World, cpu: int, gpu: int
) -> None:
    ledger, drawn = world.ledger, world.ledger.table(world.usage)
    request = {CPU: cpu, GPU: gpu}
    for at in range(world.tree.count):
        found = ledger.blocker(at, request, world.usage)
        assert found == ledger.blocker(at, request, world.usage, drawn)
        left = {pair: max(0, ledger.available(at, pair, world.usage)) for pair in request}
        short = [pair for pair in request if request[pair] > left[pair]]
        if not short:
            assert found is None
            continue
        assert found is not None
        assert (found.pair, found.wanted) == (short[0], request[short[0]])
        assert found.left == left[short[0]]
        assert found.queue in (*world.tree.path[at], NOBODY)

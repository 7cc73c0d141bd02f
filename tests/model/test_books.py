"""The books: every change can be taken back bit for bit, and what is counted is what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.books import VECTOR_FROM, Books, account_of, bits
from mooring.model.cluster import WHOLE, Device, Node
from mooring.model.demand import Demand, DeviceKind
from mooring.model.topology import Level, Topology
from tests.build import gpus, node, shape

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

    from mooring.model.workload import Shape

ARRAYS = (
    *("capacity", "open", "held", "releasing", "share", "usable", "mig_used", "device_memory"),
    *("whole", "devices", "flavor", "layout", "present"),
)
SHAPES = (
    shape(gpus=1),
    shape(gpus=2, cpu=1000),
    shape(gpus=1, milli=300, memory=500),
    shape(gpus=2, milli=450),
    shape(gpus=1, gpu_memory=20_000),
    shape(gpus=1, mig="2g.10gb"),
    shape(gpus=0, cpu=500, ports=[80]),
    shape(gpus=0, cpu=1),
)


def pictured(books: Books) -> dict[str, Any]:
    """Return all that the books say, as plain values."""
    found: dict[str, Any] = {name: getattr(books, name).tolist() for name in ARRAYS}
    found["used"] = [column.tolist() for column in books.used]
    found["tally"] = [column.tolist() for column in books.tally]
    found["counts"] = [column.tolist() for column in books._counts]
    found["charges"] = {q: books.charged(q) for q in list(books.queues)}
    found["usage"] = books.usage.tobytes() + books.fixed.tobytes()
    found["holds"] = {owner: list(entries) for owner, entries in books.holds.items()}
    return found


def small_books() -> Books:
    """Return books of five nodes of three kinds in two racks."""
    books = Books(Topology((Level("rack"),)))
    books.set_nodes(
        [
            node("a", 4, "r1"),
            node("b", 4, "r1", model="A100", devices=gpus(4, memory=40_000)),
            node("c", 2, "r2", devices=(*gpus(2, mig="a100-40gb"), *gpus(1))),
            node("d", 12, "r2"),
            node("e", 0, "r2", cpu=4000),
        ]
    )
    books.counter("everything", lambda _: True)
    books.counter("whole", lambda each: each.is_whole)
    for queue in ("one", "two"):
        books.queue(queue)
    pairs = [("", "gpu"), ("H100", "gpu"), ("H100", "cpu"), ("", "pods")]
    books.keep_usage([(0, 1), (1,)], pairs, [{}, {}])
    return books


@dataclass
class Tasks:
    """What a test has taken, so that it gives back only that."""

    taken: list[tuple[Demand, list[int], list[int], int]]
    leaving: list[tuple[Demand, list[int], list[int], int]]


def masks_for(data: DataObject, books: Books, demand: Demand, row: int) -> int | None:
    """Draw devices for one task, free or not: the books do not judge; None: the row has none."""
    if demand.kind is DeviceKind.NONE:
        return 0
    there = books.nodes[row].devices
    if demand.kind is DeviceKind.MIG:
        free = [
            8 * d + s
            for d, device in enumerate(there)
            if device.mig
            for s in range(8)
            if not books.mig_used[d, row] >> s & 1
        ]
    else:
        free = [d for d, device in enumerate(there) if not device.mig]
        if demand.kind is DeviceKind.WHOLE:
            free = [d for d in free if books.share[d, row] == WHOLE]
        else:
            free = [d for d in free if books.share[d, row] >= books.milli(demand, row, d)]
    if len(free) < demand.shape.gpus:
        return None
    return sum(1 << d for d in data.draw(st.permutations(free))[: demand.shape.gpus])


def take_some(data: DataObject, books: Books, tasks: Tasks) -> None:
    """Take one task, or so many that vectors are used."""
    demand = books.demand(data.draw(st.sampled_from(SHAPES)))
    queue = data.draw(st.integers(0, 1))
    count = data.draw(st.sampled_from((1, 2, VECTOR_FROM, VECTOR_FROM + 3)))
    rows: list[int] = []
    masks: list[int] = []
    mark = books.checkpoint()
    for _ in range(count):
        row = data.draw(st.integers(0, books.count - 1))
        mask = masks_for(data, books, demand, row)
        if mask is not None:
            books.take(demand, (row,), (mask,), queue)
            rows.append(row)
            masks.append(mask)
    books.rollback(mark)
    if rows:
        books.take(demand, rows, masks, queue)
        tasks.taken.append((demand, rows, masks, queue))


def change(data: DataObject, books: Books, tasks: Tasks) -> None:
    """Do one random thing to the books."""
    verb = data.draw(
        st.sampled_from(("take", "take", "give", "hold", "unhold", "out", "back", "charge"))
    )
    if verb == "take":
        take_some(data, books, tasks)
    elif verb == "give" and tasks.taken:
        books.give(*tasks.taken.pop(data.draw(st.integers(0, len(tasks.taken) - 1))))
    elif verb == "out" and tasks.taken:
        moved = tasks.taken.pop()
        books.begin_release(moved[0], moved[1], moved[3])
        tasks.leaving.append(moved)
    elif verb == "back" and tasks.leaving:
        moved = tasks.leaving.pop()
        books.end_release(moved[0], moved[1], moved[3])
        tasks.taken.append(moved)
    elif verb == "hold":
        demand = books.demand(data.draw(st.sampled_from(SHAPES)))
        row = data.draw(st.integers(0, books.count - 1))
        mask = masks_for(data, books, demand, row)
        if mask is not None:
            owner = data.draw(st.sampled_from(("x", "y")))
            books.hold(owner, demand, row, mask, data.draw(st.integers(0, 3)))
    elif verb == "unhold":
        books.unhold(data.draw(st.sampled_from(("x", "y", "nobody"))))
    elif verb == "charge":
        demand = books.demand(data.draw(st.sampled_from(SHAPES)))
        flavor = data.draw(st.integers(-1, len(books.flavors) - 1))
        books.charge(demand, data.draw(st.integers(-2, 3)), data.draw(st.integers(0, 3)), flavor)


@given(st.data())
def test_rollback_restores_bit_for_bit(data: DataObject) -> None:
    """To the outer mark and to the inner one, over any mix of changes."""
    books, tasks = small_books(), Tasks([], [])
    for each in SHAPES:
        books.demand(each)
    for _ in range(data.draw(st.integers(0, 4))):
        change(data, books, tasks)
    outer, before = books.checkpoint(), pictured(books)
    for _ in range(data.draw(st.integers(0, 6))):
        change(data, books, tasks)
    inner, between = books.checkpoint(), pictured(books)
    for _ in range(data.draw(st.integers(1, 6))):
        change(data, books, tasks)

    books.rollback(inner)
    assert pictured(books) == between
    books.rollback(outer)
    assert pictured(books) == before


@given(st.data())
def test_whole_mask_count_and_sums_follow_from_the_shares(data: DataObject) -> None:
    """What is derived is always what one would derive."""
    books, tasks = small_books(), Tasks([], [])
    books.demand(SHAPES[0])
    for _ in range(data.draw(st.integers(1, 12))):
        change(data, books, tasks)

    whole = books.share == WHOLE
    powers = 1 << np.arange(len(books.share))
    assert books.whole.tolist() == (whole * powers[:, None]).sum(axis=0).tolist()
    assert books.open[2].tolist() == whole.sum(axis=0).tolist()
    for level, used in enumerate(books.used):
        assert used.tolist() == books.tree.sums(level, books.used[-1]).tolist()
    assert books._counts[0].tolist() == np.sum(books.tally, axis=0).tolist()


@given(st.data())
def test_giving_everything_back_leaves_the_books_as_they_were(data: DataObject) -> None:
    books, tasks = small_books(), Tasks([], [])
    for each in SHAPES:
        books.demand(each)
    before = pictured(books)
    for _ in range(data.draw(st.integers(1, 12))):
        take_some(data, books, tasks)

    for index in data.draw(st.permutations(range(len(tasks.taken)))):
        books.give(*tasks.taken[index])

    assert pictured(books) == before


@given(st.data())
def test_copy_goes_its_own_way(data: DataObject) -> None:
    books, tasks = small_books(), Tasks([], [])
    for _ in range(data.draw(st.integers(0, 4))):
        change(data, books, tasks)
    before, copied = pictured(books), books.copy()
    assert pictured(copied) == before

    others = Tasks(list(tasks.taken), list(tasks.leaving))
    for _ in range(data.draw(st.integers(1, 6))):
        change(data, copied, others)
    copied.set_nodes([node("new", 16, "r0"), node("a", 2, "r1")])

    assert pictured(books) == before


def test_hold_may_lie_on_room_that_is_being_released() -> None:
    """Free, used, releasing and held stay apart; the device is below nothing until it is free."""
    books = small_books()
    demand = books.demand(shape(gpus=1, cpu=1000))
    row = books.row_of["a"]
    books.take(demand, (row,), (1,), 0)
    books.begin_release(demand, (row,))

    books.hold("next", demand, row, 1)
    assert books.share[0, row] == -WHOLE
    assert books.held[0, row] == books.releasing[0, row] == 1000
    assert books.whole[row] == 0b1110

    books.end_release(demand, (row,))
    books.give(demand, (row,), (1,), 0)
    assert books.share[0, row] == 0
    books.unhold("next")
    assert books.share[0, row] == WHOLE
    assert books.whole[row] == 0b1111
    assert books.open[:, row].tolist() == books.capacity[:, row].tolist()


def test_unhold_opens_all_of_one_owner_and_nothing_else() -> None:
    books = small_books()
    demand = books.demand(shape(gpus=2))
    row = books.row_of["d"]
    for owner, mask in (("x", 0b11), ("y", 0b1100), ("x", 0b110000)):
        books.hold(owner, demand, row, mask)

    books.unhold("x")

    assert bits(int(books.whole[row])) == (0, 1, *range(4, 12))
    assert list(books.holds) == ["y"]


def test_holds_follow_their_rows_when_nodes_join() -> None:
    books = small_books()
    demand = books.demand(shape(gpus=1))
    books.hold("x", demand, books.row_of["d"], 1)

    books.set_nodes([node("0", 8, "r0")])

    assert books.holds["x"] == [(demand, books.row_of["d"], 1, 0, 0)]
    books.unhold("x")
    assert books.share[:12, books.row_of["d"]].tolist() == [WHOLE] * 12


def test_hold_on_a_node_that_leaves_never_opens_another_node() -> None:
    """The row may be gone by the time that the hold is given up."""
    books = small_books()
    demand = books.demand(shape(gpus=1))
    books.hold("x", demand, books.row_of["a"], 1)
    books.set_nodes([], gone=["a"])
    books.set_nodes([node("0", 8, "r0")])

    books.unhold("x")

    present = books.present
    assert (books.share[:, present] <= WHOLE).all()
    assert (books.open[:, present] <= books.capacity[:, present]).all()
    assert not books.held.any()


def test_charges_are_by_flavor_and_resource() -> None:
    books = small_books()
    one = account_of(books.queue("one"), fixed=False)
    whole, part = books.demand(shape(gpus=2, cpu=1000)), books.demand(shape(gpus=1, milli=300))
    a, b = books.row_of["a"], books.row_of["b"]

    books.take(whole, (a, b, b), (3, 3, 12), one)
    books.take(part, (a,), (4,), one)
    books.charge(whole, 2, one, -1)

    assert books.charged("one") == {
        ("", "cpu"): 2000,
        ("", "gpu"): 4000,
        ("", "pods"): 2,
        ("A100", "cpu"): 2000,
        ("A100", "gpu"): 4000,
        ("A100", "pods"): 2,
        ("H100", "cpu"): 1000,
        ("H100", "gpu"): 2300,
        ("H100", "pods"): 2,
    }
    assert books.charged("two") == {}


def test_charges_without_a_place_add_to_those_of_nodes_without_a_model() -> None:
    books = small_books()
    demand = books.demand(shape(gpus=0, cpu=500))
    books.take(demand, (books.row_of["e"],), (0,), account_of(books.queue("one"), fixed=False))
    books.charge(demand, 2, account_of(books.queue("one"), fixed=False), -1)

    assert books.charged("one") == {("", "cpu"): 1500, ("", "pods"): 3}


def test_charges_of_many_tasks_at_once_equal_those_of_one_by_one() -> None:
    books, other = small_books(), small_books()
    demand, twin = books.demand(shape(gpus=0, cpu=7)), other.demand(shape(gpus=0, cpu=7))
    rows = [row % books.count for row in range(3 * VECTOR_FROM)]

    books.take(demand, rows, [0] * len(rows), 0)
    for row in rows:
        other.take(twin, (row,), (0,), 0)

    assert pictured(books) == pictured(other)


@pytest.mark.parametrize("count", [1, VECTOR_FROM])
def test_memory_shares_differ_by_device(count: int) -> None:
    """A share of so much memory is more thousandths of a smaller device, rounded up."""
    books = small_books()
    demand = books.demand(shape(gpus=1, gpu_memory=20_000))

    assert books.milli(demand, books.row_of["a"], 0) == -(-20_000 * WHOLE // 81_920)
    assert books.milli(demand, books.row_of["b"], 0) == 500
    assert books.milli(demand, books.row_of["e"], 0) == WHOLE + 1
    books.take(demand, [books.row_of["d"]] * count, [1 << i % 12 for i in range(count)], 0)
    assert int((books.share[:, books.row_of["d"]] < WHOLE).sum()) == min(count, 12)


@given(st.data())
def test_facts_may_change_under_what_is_in_use(data: DataObject) -> None:
    """Nodes change in any way while tasks run; when all is given back, all is free."""
    books, tasks = small_books(), Tasks([], [])
    for _ in range(data.draw(st.integers(1, 4))):
        take_some(data, books, tasks)
    for _ in range(data.draw(st.integers(1, 4))):
        moved = books.set_nodes(*_drawn_changes(data, books))
        if moved is not None:
            tasks.taken = [
                (d, [int(moved[r]) for r in rows], m, q) for d, rows, m, q in tasks.taken
            ]

    for given_back in tasks.taken:
        books.give(*given_back)

    here = books.present
    assert books.open[:2, here].tolist() == books.capacity[:2, here].tolist()
    assert books.share[:, here].tolist() == (books.usable[:, here] * WHOLE).tolist()
    assert not books.used[-1].any()
    assert not books.mig_used.any()
    assert books.charged("one") == books.charged("two") == {}


def _drawn_changes(data: DataObject, books: Books) -> tuple[list[Node], list[str]]:
    name = data.draw(st.sampled_from(("0", "a", "b", "d", "z")))
    if name in books.row_of and data.draw(st.booleans()):
        return [], [name]
    count = data.draw(st.sampled_from((0, 2, 4, 13)))
    rack = data.draw(st.sampled_from(("r0", "r1", "r2")))
    memory = data.draw(st.sampled_from((40_000, 81_920)))
    bad = data.draw(st.sets(st.integers(0, 3), max_size=2))
    model = data.draw(st.sampled_from(("H100", "A100", "")))
    changed = node(name, count, rack, model=model, devices=gpus(count, memory=memory, bad=[*bad]))
    return [changed], []


def test_unhealthy_device_in_use_is_below_nothing_until_given_back() -> None:
    books = small_books()
    demand = books.demand(SHAPES[2])
    row = books.row_of["a"]
    books.take(demand, (row,), (1,), 0)

    books.set_nodes([node("a", 4, "r1", devices=gpus(4, bad=[0]))])
    assert books.share[0, row] == -300
    assert books.open[2, row] == books.devices[row] == 3
    books.give(demand, (row,), (1,), 0)
    assert books.share[0, row] == 0
    books.set_nodes([node("a", 4, "r1")])
    assert books.whole[row] == 0b1111


def test_equal_shapes_are_one_demand() -> None:
    books = small_books()
    first: Shape = shape(gpus=1, labels={"a": "b"})

    assert books.demand(first) is books.demand(shape(gpus=1, labels={"a": "b"}))
    assert books.demand(first) is not books.demand(shape(gpus=1))
    assert Device() == Device()

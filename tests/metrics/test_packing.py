"""How few nodes and leaves would do."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given

from mooring.metrics.cluster import Cluster
from mooring.metrics.packing import Need, Stock, need_of, room_of
from mooring.model.books import Books
from mooring.model.topology import Topology
from mooring.policy.placing.fit import EVERY_ROW, copies
from tests.build import gpus, node, shape
from tests.strategies import nodes, shapes

if TYPE_CHECKING:
    from mooring.model.cluster import Node
    from mooring.model.workload import Shape

MIG = "h100-80gb"


def stock(*some: Node, depth: int = 1) -> Stock:
    cluster = Cluster()
    for each in some:
        cluster.set(each)
    return Stock(cluster, depth)


def needs(**tasks: int) -> dict[Need, int]:
    """Return so many tasks of `g2`, two GPUs, and so on; `h` is half of one."""
    return {
        need_of(shape(milli=500) if name == "h" else shape(gpus=int(name[1:]))): count
        for name, count in tasks.items()
    }


@given(nodes(Topology()), shapes())
def test_a_node_holds_as_many_as_the_scheduler_would_put_there(given: Node, of: Shape) -> None:
    """Which nodes are allowed by labels and taints is not asked, but the model of GPU is."""
    assume(of.gpus)
    assume(not of.gpu_memory or all(device.memory for device in given.devices))
    assume(not of.gpu_models or given.gpu_model in of.gpu_models)
    books = Books(Topology())
    books.set_nodes([given])
    assert room_of(of, given) == int(copies(books, books.demand(of), EVERY_ROW)[0])


def test_unequal_nodes_and_leaves_are_filled_largest_first() -> None:
    """Of 8, 4 | 4, 4, 4 GPUs: six tasks of 2 fit in two nodes and, as 12 are in each, one leaf."""
    sizes = {"a": 8, "b": 4, "c": 4, "d": 4, "e": 4}
    found = stock(*(node(n, size, "r1" if n in "ab" else "r2") for n, size in sizes.items()))

    assert found.fewest(needs(g2=4)) == (1, 1)
    assert found.fewest(needs(g2=6)) == (2, 1)
    assert found.fewest(needs(g2=7)) == (3, 2)
    assert found.fewest(needs(g2=13)) == (inf, inf)
    two = next(iter(needs(g2=1)))
    assert [found.lowest(two, count) for count in (4, 6, 7, 99)] == [2, 1, 0, 0]


def test_different_tasks_share_nodes() -> None:
    """One of 6 GPUs, two of one, and four halves are one node of 8 GPUs and a half of the next."""
    found = stock(node("a", 8, "r1"), node("b", 8, "r2"))
    assert found.fewest(needs(g6=1, g1=2)) == (1, 1)
    assert found.fewest(needs(g6=1, h=4)) == (1, 1)
    assert found.fewest(needs(g6=1, g1=2, h=1)) == (2, 2)


def test_different_instances_share_a_device() -> None:
    """Beside an instance of four slices there is room for four of one, or for one like it."""
    cut = node("a", 1, "r1", devices=gpus(1, mig=MIG))
    half, seventh = (need_of(shape(mig=each)) for each in ("3g.40gb", "1g.10gb"))
    found = stock(cut, replace(cut, name="b"))
    assert found.fewest({half: 1, seventh: 4}) == (1, 1)
    assert found.fewest({half: 1, seventh: 5}) == (2, 1)
    assert found.fewest({half: 3, seventh: 4}) == (2, 1)
    assert found.fewest({half: 2, seventh: 7}) == (2, 1)


def test_parts_by_memory_share_with_thousandths() -> None:
    """A quarter and three quarters are a device."""
    found = stock(node("a", 1, "r1", devices=gpus(1, memory=80)), node("b", 0, "r1"))
    quarter, most = need_of(shape(gpu_memory=20)), need_of(shape(milli=750))
    assert found.fewest({quarter: 1, most: 1}) == (1, 1)
    assert found.fewest({quarter: 2, most: 1}) == (inf, inf)


@pytest.mark.parametrize("is_known", [True, False])
def test_nodes_are_counted_anew_when_one_changes(*, is_known: bool) -> None:
    cluster = Cluster()
    for name in "ab":
        cluster.set(node(name, 8, "r1"))
    found, want = Stock(cluster, 1), needs(g4=2)
    if is_known:
        assert found.fewest(want) == (1, 1)
    cluster.set(node("a", 4, "r1"))
    cluster.set(node("b", 4, "r2"))
    assert found.fewest(want) == (2, 2)
    cluster.set(node("b", 4, "r2", ready=False))
    assert found.fewest(want) == (inf, inf)
    cluster.drop("a")
    assert found.lowest(next(iter(want)), 1) == 0


def test_what_was_found_once_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stock(node("a", 8, "r1"), node("b", 8, "r2"))
    first = found.fewest(needs(g4=2)), found.lowest(next(iter(needs(g4=1))), 2)
    monkeypatch.setattr(Stock, "_pack", None)
    monkeypatch.setattr(Stock, "_room", None)
    assert (found.fewest(needs(g4=2)), found.lowest(next(iter(needs(g4=1))), 2)) == first

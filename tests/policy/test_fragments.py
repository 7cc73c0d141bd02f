"""What counts as allocated, over which nodes: GAR and GFR of the books."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from mooring.policy.fragments import gpu_columns, gpu_node_fragmentation_ratio
from mooring.sim.settle import settle
from tests.build import World, cluster, gang, gpus, on, share, task
from tests.strategies import scenarios

if TYPE_CHECKING:
    from mooring.model.books import Books
    from mooring.model.columns import Ints
    from mooring.model.scenario import Scenario


def gpu_allocation_ratio(allocated: Ints, installed: Ints) -> float:
    return int(allocated.sum()) / max(int(installed.sum()), 1)


def ratios(world: World) -> tuple[float, float]:
    world.cycle()
    columns = gpu_columns(world.engine.books)
    return gpu_allocation_ratio(*columns), gpu_node_fragmentation_ratio(*columns)


def test_an_empty_cluster_has_nothing_allocated() -> None:
    assert ratios(cluster("a=8 b=8")) == (0.0, 0.0)


def test_without_gpus_both_are_nothing() -> None:
    assert ratios(cluster("a=0")) == (0.0, 0.0)
    assert ratios(cluster("")) == (0.0, 0.0)


def test_devices_are_counted_over_all_nodes_and_broken_nodes_too() -> None:
    """Six of 24 devices are taken; one of three nodes is neither free nor full."""
    assert ratios(cluster("a=8 b=8 c=8").busy("a=6")) == (6 / 24, 1 / 3)


def test_a_full_node_is_not_fragmented() -> None:
    assert ratios(cluster("a=8 b=8").busy("a=8")) == (0.5, 0.0)


def test_nodes_without_gpus_do_not_count() -> None:
    assert ratios(cluster("a=8 cpu=0").busy("a=4")) == (0.5, 1.0)


def test_shares_count_in_thousandths() -> None:
    assert ratios(cluster("a=1 b=1").submit(share("s", 250))) == (0.125, 0.5)


def test_a_share_by_memory_counts_the_thousandths_it_takes() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, memory=1000)))
    assert ratios(world.submit(gang("m", gpu_memory=300))) == (0.15, 1.0)


def test_mig_counts_memory_slices() -> None:
    world = cluster("a=2", on("a", devices=gpus(2, mig="a100-40gb")))
    assert ratios(world.submit(gang("m", mig="3g.20gb"))) == (0.25, 1.0)


@pytest.mark.parametrize("facts", [on("b", ready=False), on("b", devices=gpus(8, bad=range(8)))])
def test_what_is_not_healthy_does_not_count(facts: object) -> None:
    world = cluster("a=8 b=8", facts).busy("a=2")  # type: ignore[arg-type]
    assert ratios(world) == (0.25, 1.0)


def test_a_node_that_is_gone_does_not_count() -> None:
    assert ratios(cluster("a=8 b=8").busy("a=2").leave("b")) == (0.25, 1.0)


def test_what_is_on_its_way_out_is_still_allocated() -> None:
    world = cluster("a=8").run(gang("g", tasks=2, most=4, gpus=2))
    world.edit(gang("g", tasks=2, gpus=2))

    assert ratios(world) == (1.0, 0.0)


def test_what_is_held_for_somebody_is_not_allocated() -> None:
    world = cluster("a=8").busy("a=2")
    books: Books = world.engine.books
    books.hold("w", books.demand(task("t", 3).groups[0].shape), 0, 0b111_00)

    assert ratios(world) == (0.25, 1.0)


@given(scenarios())
def test_ratios_are_ratios(scenario: Scenario) -> None:
    """Between 0 and 1, and idle GPUs of broken nodes are idle: the GPU-weighted GFR fits."""
    allocated, installed = gpu_columns(settle(scenario).engine.books)

    assert (allocated >= 0).all()
    assert (allocated <= installed).all()
    gar = gpu_allocation_ratio(allocated, installed)
    assert 0 <= gar <= 1
    assert 0 <= gpu_node_fragmentation_ratio(allocated, installed) <= 1
    broken = (allocated > 0) & (allocated < installed)
    idle = int(((installed - allocated) * broken).sum())
    assert idle <= (1 - gar) * int(installed.sum()) + 1e-6

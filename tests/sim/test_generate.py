"""Made-up clusters and streams are what they claim to be, and the same for the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from mooring.model.topology import Tree
from mooring.sim.generate import NODE_GPUS, TOPOLOGY, make_arrivals, make_nodes

if TYPE_CHECKING:
    from mooring.sim.load import Arrival

HOUR = 3600.0


def arrivals(
    seed: int = 0, gpus: int = 8000, hours: float = 50, load: float = 1.0
) -> list[Arrival]:
    return list(make_arrivals(np.random.default_rng(seed), gpus, hours * HOUR, load))


def gpus_of(arrival: Arrival) -> float:
    (group,) = arrival.workload.groups
    return group.min * group.shape.gpus * group.shape.milli / 1000


def test_nodes_stand_in_leaves_of_16_and_superpods_of_256() -> None:
    tree = Tree(TOPOLOGY, make_nodes(600))

    assert np.diff(tree.first[1]).tolist() == [256, 256, 88]
    assert np.diff(tree.first[2]).tolist() == [16] * 37 + [8]


def test_the_same_seed_gives_the_same_stream() -> None:
    assert arrivals(1, hours=2) == arrivals(1, hours=2) != arrivals(2, hours=2)


def test_names_are_unique_and_times_ascend_until_the_end() -> None:
    found = arrivals(hours=5)
    times = [arrival.at for arrival in found]

    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 5 * HOUR
    assert len({arrival.workload.name for arrival in found}) == len(found)
    assert all(arrival.workload.submitted_at == arrival.at for arrival in found)


@pytest.mark.parametrize("load", [0.5, 1.0])
def test_the_stream_asks_for_the_load_it_is_given(load: float) -> None:
    asked = sum(gpus_of(arrival) * arrival.run_s for arrival in arrivals(load=load))

    assert asked / (8000 * 50 * HOUR) == pytest.approx(load, rel=0.1)


def test_there_are_shares_single_nodes_and_gangs() -> None:
    sizes = {gpus_of(arrival) for arrival in arrivals(hours=10)}

    assert {0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512} >= sizes >= {0.5, 1, 8, 16, 64, 128}


@pytest.mark.parametrize("nodes", [1, 2, 40])
def test_no_workload_is_too_large_for_a_small_cluster(nodes: int) -> None:
    found = arrivals(gpus=nodes * NODE_GPUS, hours=200)

    assert found
    assert max(map(gpus_of, found)) <= max(nodes, 1)

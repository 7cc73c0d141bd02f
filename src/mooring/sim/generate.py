"""Made-up clusters and streams of work, from a random generator that is handed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.model.cluster import Device, Node
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.topology import Level, Topology
from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload
from mooring.sim.load import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPERPOD, LEAF = "superpod", "leaf"
LEAF_NODES = 16
SUPERPOD_NODES = 256
NODE_GPUS = 8
TOPOLOGY = Topology((Level(SUPERPOD, 25.0), Level(LEAF, 50.0)))

_GPUS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Sizes of workloads; half a GPU is a share of one."""
_PARTS = (0.10, 0.34, 0.11, 0.11, 0.15, 0.07, 0.05, 0.04, 0.02, 0.008, 0.002)
"""How many of the workloads have each size."""
_MEDIAN_S, _SPREAD = 2400.0, 1.0
"""Run times are log-normal."""
_SHORTEST_S, _LONGEST_S = 60.0, 86_400.0
_LARGEST_PART = 1 / 8
"""No workload asks for more of the cluster."""


def make_nodes(count: int) -> list[Node]:
    """Return equal nodes in leaves and superpods."""
    capacity = amounts({CPU: 128_000, MEMORY: 2 << 20})
    devices = (Device(memory=80 << 10),) * NODE_GPUS
    return [
        Node(
            f"node-{number:04d}",
            capacity,
            gpu_model="H100",
            devices=devices,
            path=(
                f"superpod-{number // SUPERPOD_NODES:02d}",
                f"leaf-{number % SUPERPOD_NODES // LEAF_NODES:02d}",
            ),
        )
        for number in range(count)
    ]


def make_arrivals(
    rng: np.random.Generator, gpu_count: int, until_s: float, load: float = 1.0
) -> Iterator[Arrival]:
    """Yield workloads that together ask for `load` times the GPUs, until then.

    They come as a Poisson process; sizes and run times do not depend on each other.
    """
    sizes = np.array(_GPUS)
    parts = np.array(_PARTS) * (sizes <= max(gpu_count * _LARGEST_PART, 1))
    parts /= parts.sum()
    mean_run_s = _MEDIAN_S * np.exp(_SPREAD**2 / 2)
    gap_s = float(parts @ sizes) * mean_run_s / (load * gpu_count)
    at, number = 0.0, 0
    while (at := at + rng.exponential(gap_s)) < until_s:
        gpus = float(rng.choice(sizes, p=parts))
        run_s = float(np.clip(rng.lognormal(np.log(_MEDIAN_S), _SPREAD), _SHORTEST_S, _LONGEST_S))
        yield Arrival(at, _workload(number, gpus, at, bound=rng.random() < 1 / 2), run_s)
        number += 1


def _workload(number: int, gpus: float, at: float, *, bound: bool) -> Workload:
    """Return a workload of that size; a bound gang must stay in one domain, another should."""
    if gpus <= NODE_GPUS:
        whole = max(int(gpus), 1)
        milli = round(1000 * min(gpus, 1))
        asked = amounts({CPU: 12_000 * whole, MEMORY: whole << 17})
        group = PodGroup("task", Shape(asked, whole, milli))
        return Workload(f"job-{number:05d}", (group,), submitted_at=at)
    tasks = int(gpus) // NODE_GPUS
    level = LEAF if tasks <= LEAF_NODES else SUPERPOD
    request = TopologyRequest(required=level) if bound else TopologyRequest(preferred=level)
    shape = Shape(amounts({CPU: 96_000, MEMORY: 1 << 20}), NODE_GPUS)
    group = PodGroup("worker", shape, tasks, topology=request)
    return Workload(f"gang-{number:05d}", (group,), submitted_at=at)

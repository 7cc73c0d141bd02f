"""Inference services: replicas that follow the hour of the day, roll, come and go.

Sizes follow a month of a recommendation cluster (`dlrm-inference-2025`): so many replicas at the
given parts of all services, between them even on a log scale. Some ask for a part of a GPU, as in
`openb-2023`; large models are gangs of several GPUs each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import merge
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.events import Ended, Event, WorkloadChanged
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.workload import PodGroup, Shape, Workload
from mooring.sim.load import Arrival
from mooring.sim.mixes.training import HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.columns import Floats

REPLICAS = ((0.0, 1.0), (0.10, 2.5), (0.25, 5.0), (0.50, 15.0), (0.75, 59.0), (0.90, 125.0))
"""(part of services, replicas); the largest follow."""
LARGEST = ((0.99, 328.0), (1.0, 660.0))
SHARES = ((810, 0.35), (470, 0.24), (320, 0.11), (650, 0.08), (230, 0.05), (460, 0.04), (100, 0.13))
"""Thousandths of a GPU, and how many of those that ask for a part ask for that."""
BY_HOUR = tuple(1 + 0.35 * np.sin(2 * np.pi * (hour - 9) / 24) for hour in range(24))
"""Requests by hour of the day, as parts of the mean."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What services are like."""

    shared: float = 0.2
    """Part of services whose replicas ask for a part of a GPU."""
    large: float = 0.05
    """Part of services whose replicas ask for 2, 4 or 8 GPUs each."""
    lasting: float = 0.7
    """Part of services that are there from the beginning to the end."""
    noise: float = 0.05
    """How much replicas move beside the hour of the day."""


USUAL = Serving()


@dataclass(frozen=True, slots=True)
class Services:
    """Services that come, and all that happens to them."""

    arrivals: list[Arrival]
    changes: list[tuple[float, Event]]


def draw_services(
    rng: np.random.Generator, gpus: float, until_s: float, queue: str, kind: Serving = USUAL
) -> Services:
    """Return services that together ask for about so many GPUs in the mean."""
    services = Services([], [])
    histories: list[Iterator[tuple[float, Event]]] = []
    asked, number = 0.0, 0
    while asked < gpus:
        shape = _shape(rng, kind)
        each = shape.gpus * shape.milli / 1000
        mean = _replicas(rng.random())
        mean = max(min(mean, (gpus - asked) / each), 1.0)
        begin, end = 0.0, np.inf
        if rng.random() >= kind.lasting:
            begin, end = np.sort(rng.random(2) * until_s).tolist()
        asked += mean * each * (min(end, until_s) - begin) / until_s
        name = f"service-{number:03d}"
        number += 1
        counts = _counts(rng, mean, begin, min(end, until_s), kind.noise)
        first = _service(name, queue, shape, counts[0][1], begin)
        services.arrivals.append(Arrival(begin, first))
        histories.append(_history(first, counts[1:], end))
    services.arrivals.sort(key=lambda arrival: arrival.at)
    services.changes.extend(merge(*histories, key=lambda change: change[0]))
    return services


def _replicas(quantile: float) -> float:
    parts, counts = zip(*REPLICAS, *LARGEST, strict=True)
    return float(np.exp(np.interp(quantile, parts, np.log(counts))))


def _shape(rng: np.random.Generator, kind: Serving) -> Shape:
    draw = rng.random()
    if draw < kind.large:
        gpus = int(rng.choice((2, 4, 8)))
        return Shape(amounts({CPU: 12_000 * gpus, MEMORY: gpus << 17}), gpus)
    usual = amounts(
        {CPU: int(rng.choice((8, 12, 16), p=(0.86, 0.10, 0.04))) * 1000, MEMORY: 40 << 10}
    )
    if draw < kind.large + kind.shared:
        milli, parts = zip(*SHARES, strict=True)
        return Shape(usual, 1, int(rng.choice(milli, p=parts)))
    return Shape(usual, 1)


def _counts(
    rng: np.random.Generator, mean: float, begin: float, end: float, noise: float
) -> list[tuple[float, int]]:
    """Return how many replicas are wanted from when on, hour by hour."""
    hours = np.arange(int(begin // HOUR), int(end // HOUR) + 1)
    wanted: Floats = mean * np.array(BY_HOUR)[hours % 24] * rng.lognormal(0, noise, len(hours))
    found: list[tuple[float, int]] = []
    for hour, count in zip(hours.tolist(), np.maximum(wanted.round(), 1).astype(int), strict=True):
        at = begin if not found else hour * HOUR + float(rng.random()) * HOUR / 4
        if (not found or count != found[-1][1]) and at <= end:
            found.append((at, int(count)))
    return found


def _service(name: str, queue: str, shape: Shape, count: int, at: float) -> Workload:
    """Return a service that runs with one replica and wants so many."""
    group = PodGroup("replica", shape, 1, count)
    return Workload(name, (group,), queue, submitted_at=at, service=True)


def _history(
    first: Workload, counts: list[tuple[float, int]], end: float
) -> Iterator[tuple[float, Event]]:
    for at, count in counts:
        group = replace(first.groups[0], max=count)
        yield at, WorkloadChanged(replace(first, groups=(group,)))
    if end < np.inf:
        yield end, Ended(first.name)

"""The simulator: how long whole traces take, from the first job to the last."""

from __future__ import annotations

import os
from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

from bench.measure import Result, watch
from mooring.sim.live import Live
from mooring.sim.load import Arrival, Load
from mooring.sim.mixes import Options, make_load
from mooring.sim.philly import ORDERS, PLACEMENT, load_of
from mooring.sim.run import Run
from mooring.sim.study import NAMED, Source, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRACES = os.environ.get("MOORING_TRACES") or "../shared/traces"
"""Where the traces are; what needs one that is not there is left out."""


LAB_GPUS, DAY_S = 8_000, 86_400.0
SMALL_GPUS, SMALL_LOAD, ROUND_DAYS, ROUNDS = 256, 0.5, 4, 25
STRETCH = 10
"""Rounds that are compared: the last, with those before them."""


def run(prefixes: Sequence[str] = ()) -> Iterator[Result]:
    """Yield the results whose names begin with one of the prefixes; none: all."""
    name = "sim.philly"
    if os.path.isdir(TRACES) and (not prefixes or name.startswith(tuple(prefixes))):
        note = "82,247 jobs on 96 nodes, backfill without run times"
        yield Result(name, philly(), "s", "lower", 20.0, note)
    name = "sim.lab"
    if not prefixes or name.startswith(tuple(prefixes)):
        note = "a day of 8,000 GPUs at load 0.9, full policy, with all metrics"
        first, second = lab()
        yield Result(name, first, "s", "lower", 30.0, note)
        yield Result(f"{name}.second", second, "s", "lower", 30.0, "the day after it")
    name = "sim.growth"
    if not prefixes or name.startswith(tuple(prefixes)):
        note = "the same 4 days of 256 GPUs 25 times: CPU of the last 10 over that of the 10 before"
        yield Result(name, growth(), "", "lower", 1.1, note)


def philly() -> float:
    """Return the seconds that the Philly jobs take on 96 nodes with backfill."""
    load = load_of(TRACES, 96, ORDERS["default"])
    with watch() as taken:
        Run(load, PLACEMENT).run()
    return taken.seconds


def lab() -> tuple[float, float]:
    """Return the seconds that two days of the lab mix take; the first begins with no work."""
    trial = Trial(Source("lab", Options(LAB_GPUS, 2.0, 0.9)), NAMED["default"], 1)
    with watch() as first:
        live = Live(trial, lambda passed: None)
        live.go(DAY_S)
        live.metrics.summary()
    with watch() as second:
        live.go(2 * DAY_S)
        live.metrics.summary()
    return first.seconds, second.seconds


def growth() -> float:
    """Return what a job costs late in a long run, over what it costs early.

    The same days come again and again, so that what differs is only what the run has behind it. The
    first five rounds do not count: they begin with an empty cluster, and jobs last up to nine days.
    """
    run = Run(NAMED["default"].applied(_again_and_again()), NAMED["default"].policy)
    taken = []
    for number in range(1, ROUNDS + 1):
        began = process_time()
        run.run(number * ROUND_DAYS * DAY_S)
        taken.append(process_time() - began)
    return sum(taken[-STRETCH:]) / sum(taken[-2 * STRETCH : -STRETCH])


def _again_and_again() -> Load:
    """Return the same work time after time."""
    load = make_load("lab", 1, Options(SMALL_GPUS, float(ROUND_DAYS), SMALL_LOAD))
    some = list(load.arrivals)
    return replace(load, arrivals=[_later(each, n) for n in range(ROUNDS) for each in some])


def _later(arrival: Arrival, number: int) -> Arrival:
    at = arrival.at + number * ROUND_DAYS * DAY_S
    name = f"{arrival.workload.name}-{number}"
    workload = replace(arrival.workload, name=name, submitted_at=at)
    return Arrival(at, workload, arrival.run_s)

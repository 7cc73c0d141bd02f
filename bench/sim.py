"""The simulator: how long whole traces take, from the first job to the last."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench.measure import Result, watch
from mooring.sim.mixes import Options
from mooring.sim.philly import ORDERS, PLACEMENT, load_of
from mooring.sim.run import Run
from mooring.sim.study import NAMED, Source, Trial, run_trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRACES = os.environ.get("MOORING_TRACES") or "../shared/traces"
"""Where the traces are; what needs one that is not there is left out."""


LAB_GPUS, DAY_S = 8_000, 86_400.0


def run(prefixes: Sequence[str] = ()) -> Iterator[Result]:
    """Yield the results whose names begin with one of the prefixes; none: all."""
    name = "sim.philly"
    if os.path.isdir(TRACES) and (not prefixes or name.startswith(tuple(prefixes))):
        note = "82,247 jobs on 96 nodes, backfill without run times"
        yield Result(name, philly(), "s", "lower", 20.0, note)
    name = "sim.lab"
    if not prefixes or name.startswith(tuple(prefixes)):
        note = "a day of 8,000 GPUs at load 0.9, full policy, with all metrics"
        yield Result(name, lab(), "s", "lower", 30.0, note)


def philly() -> float:
    """Return the seconds that the Philly jobs take on 96 nodes with backfill."""
    load = load_of(TRACES, 96, ORDERS["default"])
    with watch() as taken:
        Run(load, PLACEMENT).run()
    return taken.seconds


def lab() -> float:
    """Return the seconds that a day of the lab mix takes."""
    source = Source("lab", Options(LAB_GPUS, 1.0, 0.9))
    trial = Trial(source, NAMED["default"], 1, until_s=DAY_S)
    with watch() as taken:
        run_trial(trial, lambda passed: None)
    return taken.seconds

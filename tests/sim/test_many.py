"""A million jobs on 10,000 nodes in bounded memory; how long every tenth takes is printed."""

from __future__ import annotations

import resource
import sys
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from mooring.metrics import Metrics
from mooring.sim.mixes import Options, make_load
from mooring.sim.run import Run
from mooring.sim.study import NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan

GPUS, JOBS = 80_000, 1_000_000
GIB = 1 << 20
"""In KiB, as the system tells it."""


class Ends:
    """Notes how long every tenth of the jobs took."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.count = 0
        self.times = [monotonic()]

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Hear of a cycle."""
        before = self.count // self.every
        self.count += sum(type(event).__name__ == "Ended" for event in events)
        if self.count // self.every > before:
            self.times.append(monotonic())


@pytest.mark.soak
def test_a_million_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    load = make_load("lab", 1, Options(GPUS, 30.0, 0.8))
    load = NAMED["default"].applied(replace(load, arrivals=islice(load.arrivals, JOBS)))
    run = Run(load, NAMED["default"].policy)
    metrics, ends = Metrics(run.start), Ends(JOBS // 10)
    run.loop.listen(metrics.hear)
    run.loop.listen(ends.hear)

    run.run()

    summary, peak = metrics.summary(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tenths = [b - a for a, b in zip(ends.times, ends.times[1:], strict=False)]
    with capsys.disabled():
        told = ", ".join(f"{each:.0f}" for each in tenths)
        sys.stdout.write(
            f"\n{summary.ended:,} jobs in {ends.times[-1] - ends.times[0]:.0f} s "
            f"(by tenths: {told} s), {peak / GIB:.1f} GiB\n"
        )
    assert summary.ended == JOBS
    assert peak < 2 * GIB

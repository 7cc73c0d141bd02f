"""The Philly queueing table: the jobs of a research cluster on one cluster of equal nodes.

Everybody waits in one line and is placed by one rule, so that only the order makes a difference: up
to 8 GPUs go to the one node with the least free GPUs that fits, more to whole free nodes, with what
is left over on the node with the most free GPUs. A wait is completion − submission − duration, so
that work done twice counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.events import Ended
from mooring.model.plan import Evict
from mooring.model.queues import Queue
from mooring.model.settings import Eviction, Policy
from mooring.sim import parallel
from mooring.sim.run import Run
from mooring.sim.traces.intake import Arrivals, Options
from mooring.sim.traces.registry import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.model.workload import Workload
    from mooring.sim.load import Load
    from mooring.sim.run import Work

TRACE = "philly-jobs"
NODES = (96, 64)
LINE = "philly"
PLACEMENT = Policy(
    small="binpack",
    rest="spread",
    gang="e-binpack",
    devices="lowest",
    mix_learns=False,
    eviction=Eviction(consolidates=False),
)
"""The rule of the table; nobody is moved to another place."""
CHECKPOINT_S = 1800.0
TICK = 1000
"""Ends between two signs of life."""


def _nobody(done: int) -> None:
    """Hear nothing."""


@dataclass(frozen=True, slots=True)
class Order:
    """How the line is served."""

    queue: Queue
    known: bool = False
    """Whether run times are known beforehand."""
    checkpoint_s: float | None = None


ORDERS = {
    "fifo": Order(Queue(LINE, order="strict")),
    "sjf": Order(Queue(LINE, order="strict", by="estimate"), known=True),
    "easy": Order(Queue(LINE, order="easy"), known=True),
    "default": Order(Queue(LINE, order="backfill"), checkpoint_s=CHECKPOINT_S),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; waits in seconds."""

    nodes: int
    policy: str
    mean_wait: float
    p90: float
    p99: float
    max_wait: float
    evictions: int
    jobs: int


def load_of(folder: str, nodes: int, order: Order, first: int | None = None) -> Load:
    """Return the trace on so many nodes, in one line, perhaps only its first jobs."""
    load, arrivals = _read(folder, nodes, order.known)

    def edit(workload: Workload) -> Workload:
        """Let a job wait in the one line; its virtual cluster is only whose it is."""
        return replace(
            workload,
            queue=LINE,
            namespace=workload.queue,
            checkpoint_every_s=order.checkpoint_s,
        )

    some = arrivals.edited(edit)
    some = some if first is None else some.first(first)
    return replace(load, arrivals=some, queues=(order.queue,))


@lru_cache(maxsize=4)
def _read(folder: str, nodes: int, known: bool) -> tuple[Load, Arrivals]:
    load = find(TRACE, folder).read(Options(nodes=nodes, known=known)).load
    assert isinstance(load.arrivals, Arrivals)
    return load, load.arrivals


# wide: which row, of how much of the trace, and who hears how far it is
def run_one(
    folder: str,
    nodes: int,
    policy: str,
    first: int | None = None,
    tick: Callable[[int], None] = _nobody,
) -> Row:
    """Run the trace once. `tick` hears of jobs as they are done."""
    waits = Waits(tick)
    run = Run(load_of(folder, nodes, ORDERS[policy], first), PLACEMENT, [waits])
    waits.work = run.work
    run.run()
    return waits.row(nodes, policy)


def job_count(folder: str) -> int:
    """Return how many jobs the trace has."""
    return len(_read(folder, NODES[0], ORDERS["fifo"].known)[1])


def run_all(
    folder: str, runs: Sequence[tuple[int, str]], jobs: int, tick: Callable[[int], None]
) -> Iterator[Row]:
    """Yield the row of every (nodes, policy) as it is done, in so many processes."""
    tasks = [(folder, nodes, policy) for nodes, policy in runs]
    yield from parallel.run_all(_work, tasks, jobs, tick)


def _work(task: tuple[str, int, str], tick: Callable[[int], None]) -> Row:
    folder, nodes, policy = task
    return run_one(folder, nodes, policy, tick=tick)


class Waits:
    """Listens to a run: how long everybody waited, and who had to leave."""

    def __init__(self, tick: Callable[[int], None]) -> None:
        self.evictions = 0
        self.work: Work | None = None
        self._tick = tick
        self._waits: list[float] = []

    def __call__(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Take one cycle in."""
        assert self.work is not None
        for event in events:
            if isinstance(event, Ended):
                known = self.work.progress[event.workload]
                self._waits.append(now - known.submitted_at - known.run_s)
                if not len(self._waits) % TICK:
                    self._tick(TICK)
        if plan.decisions:
            evicted = {each.workload for each in plan.decisions if isinstance(each, Evict)}
            self.evictions += len(evicted)

    def row(self, nodes: int, policy: str) -> Row:
        """Return what came of it; quantiles by linear interpolation."""
        waits = np.array(self._waits)
        p90, p99 = np.quantile(waits, (0.9, 0.99)).tolist()
        mean, most = float(waits.mean()), float(waits.max())
        return Row(nodes, policy, mean, p90, p99, most, self.evictions, len(waits))

"""A made-up cluster alive: the loop, a stream of work, and what there is to see of it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.engine import Engine
from mooring.metrics import gpu_allocation_ratio, gpu_columns, gpu_node_fragmentation_ratio
from mooring.model.cluster import WHOLE
from mooring.model.events import Ended, NodeJoined, Submitted
from mooring.model.plan import Behind, Bind, Reason
from mooring.model.workload import Workload
from mooring.sim.generate import NODE_GPUS, TOPOLOGY, make_arrivals, make_nodes
from mooring.sim.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan

LAST = 20
"""Decisions that are remembered."""


@dataclass(frozen=True, slots=True)
class Started:
    """One workload that was placed."""

    at: float
    workload: Workload
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Superpod:
    """A part of the cluster."""

    name: str
    leaves: tuple[tuple[int, ...], ...]
    """Per leaf and node, how many GPUs are taken, wholly or partly."""


@dataclass(frozen=True, slots=True)
class View:
    """What there is to see at one moment."""

    now: float
    superpods: tuple[Superpod, ...]
    gpu_count: int
    gpu_allocation_ratio: float
    gpu_node_fragmentation_ratio: float
    placed: int
    ended: int
    waiting: int
    reason: Reason | None
    """The most common reason of those that wait."""
    reason_count: int
    last: tuple[Started, ...]
    """Newest first."""


class Demo:
    """A cluster of so many nodes, and work for it until then."""

    def __init__(self, node_count: int, until_s: float, seed: int) -> None:
        self.until_s = until_s
        self._engine = Engine(TOPOLOGY)
        self._run_s: dict[str, float] = {}
        self._placed = self._ended = 0
        self._last: deque[Started] = deque(maxlen=LAST)
        self.loop = Loop(self._engine, self._run_time, [self._hear])
        for node in make_nodes(node_count):
            self.loop.at(0.0, NodeJoined(node))
        rng = np.random.default_rng(seed)
        for arrival in make_arrivals(rng, node_count * NODE_GPUS, until_s):
            self._run_s[arrival.workload.name] = arrival.run_s
            self.loop.at(arrival.at, Submitted(arrival.workload))

    def _run_time(self, workload: Workload) -> float:
        return self._run_s[workload.name]

    def _hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        self._ended += sum(isinstance(event, Ended) for event in events)
        for decision in plan.decisions:
            if isinstance(decision, Bind):
                self._placed += 1
                workload = self._engine.entries()[decision.workload].workload
                self._last.appendleft(Started(now, workload, decision.placement.nodes))

    def view(self) -> View:
        """Return what there is to see now."""
        books, engine = self._engine.books, self._engine
        allocated, installed = gpu_columns(books)
        waiting = engine.waiting()
        reason, count = _main_reason(engine, waiting)
        return View(
            max(self.loop.now, 0.0),
            self._superpods(),
            int(installed.sum()) // WHOLE,
            gpu_allocation_ratio(allocated, installed),
            gpu_node_fragmentation_ratio(allocated, installed),
            self._placed,
            self._ended,
            len(waiting),
            reason,
            count,
            tuple(self._last),
        )

    def _superpods(self) -> tuple[Superpod, ...]:
        books = self._engine.books
        tree = books.tree
        taken = (books.share < WHOLE).sum(axis=0).tolist()
        found = []
        for superpod, name in enumerate(tree.names[1]):
            first, last = tree.inside(1, superpod, 2)
            leaves = [tuple(taken[tree.rows(2, leaf)]) for leaf in range(first, last)]
            found.append(Superpod(name, tuple(leaves)))
        return tuple(found)


def _main_reason(engine: Engine, waiting: Sequence[str]) -> tuple[Reason | None, int]:
    """Return the most common first reason of those that wait, and how many have it.

    Reasons of one kind at one level are the same; who waits behind another shares its reason.
    """
    kinds: Counter[tuple[type, str]] = Counter()
    example: dict[tuple[type, str], Reason] = {}
    for name in waiting:
        reason = next(iter(engine.reasons(name)), None)
        while isinstance(reason, Behind):
            reason = next(iter(engine.reasons(reason.workload)), None)
        if reason is not None:
            kind = type(reason), getattr(reason, "level", "")
            kinds[kind] += 1
            example.setdefault(kind, reason)
    if not kinds:
        return None, 0
    kind, count = kinds.most_common(1)[0]
    return example[kind], count

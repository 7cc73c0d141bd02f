"""The openb study: arrivals only, on the cluster and the pod files of the FGD paper (ATC 2023).

Each pod is placed at once or refused for good; the outcome is the part of the GPUs in use as the
load that has arrived grows. Orders of arrival and of nodes are those of the paper's own program, so
its policies must give its published numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mooring.engine import Engine
from mooring.model.cluster import WHOLE, Node
from mooring.model.events import Ended, NodeJoined, Submitted
from mooring.model.memory import Memory
from mooring.model.settings import Eviction, Policy
from mooring.model.topology import Topology
from mooring.model.workload import Workload
from mooring.policy.placing.mix import task_type
from mooring.sim import parallel
from mooring.sim.errors import StudyError
from mooring.sim.loop import Loop
from mooring.sim.traces.openb import NODE_FORM, NODES, POD_FORM, PODS, Pod, node_of, pod_of
from mooring.sim.traces.rows import COUNT, Cells, Faults, Form, TraceError, name, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan

T = TypeVar("T")

POLICIES = {
    "fgd": "fgd",
    "best-fit": "best-fit",
    "dot-prod": "dot-prod",
    "gpu-packing": "gpu-packing",
    "gpu-clustering": "gpu-clustering",
    "first-fit": "first-fit",
    "potential": "potential",
    "potential-known": "potential",
    "default": "",
}
"""Policies of the study, and the score that each uses for everything; none: as a user gets it."""
KNOWN_MIX = ("fgd", "potential-known")
"""Policies that know the mix of the pod file beforehand."""
LOADS = range(131)
"""Arrived load in percent of the cluster."""
TICK = 1000
"""Arrivals between two signs of life."""

_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Run:
    """One policy on one file with one order of arrival."""

    file: str
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Curve:
    """What came of a run."""

    run: Run
    gar: tuple[float, ...]
    """GPU allocation ratio in percent at each of `LOADS`."""
    arrivals: int
    placed: int


class Traces:
    """Where the files of the study are."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise StudyError(f"{folder}: there is no such folder")

    def files(self) -> list[str]:
        """Return the pod files that have an order of arrival, by name."""
        names = {
            path.name.removeprefix(PODS).partition(".")[0]
            for place in self._places()
            for path in place.glob(f"{PODS}*.csv*")
        }
        return sorted(name for name in names if self._find(f"arrivals_{order_of(name)}"))

    def read(self, name: str, make: Callable[[Cells], T], form: Form) -> list[T]:
        """Return what `make` makes of every row of a file."""
        path = self._find(name)
        if path is None:
            raise StudyError(f"{self.folder}: there is no file {name}.csv or {name}.csv.gz")
        try:
            return [made for _, made in read_rows(path, make, form, Faults())]
        except TraceError as error:
            raise StudyError(_in_words(error)) from error

    def _places(self) -> list[Path]:
        return [self.folder / part for part in ("", "openb-2023", "fgd-arrivals")]

    def _find(self, name: str) -> Path | None:
        found = (place / f"{name}.csv{end}" for place in self._places() for end in ("", ".gz"))
        return next((path for path in found if path.is_file()), None)


def _in_words(error: TraceError) -> str:
    """Return the first mistake of a file in one line."""
    first, count = error.mistakes[0], len(error.mistakes)
    if not first.path.startswith("line"):
        return f"{error.source}: {first.fix}"
    line, _, column = first.path.partition(", ")
    broken = f"{error.source}: {line} is not as it should be"
    more = f" (and {count - 1} more)" if count > 1 else ""
    return f"{': '.join(filter(None, [broken, column, first.value, first.fix]))}{more}"


def order_of(file: str) -> str:
    """Return the file whose orders of arrival and of nodes a pod file uses."""
    return _DEFAULT if file.startswith("gpuspec") else file


# ── files ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that the runs on one pod file need."""

    nodes: tuple[Node, ...]
    pods: dict[str, Pod]
    arrivals: dict[int, list[str]]
    """Per seed, the pods in order."""
    ranks: dict[int, dict[str, int]]
    """Per seed, the place of every node in the order that breaks ties."""


@lru_cache(maxsize=2)
def load(folder: str, file: str) -> Inputs:
    """Read all that the runs on one pod file need."""
    traces = Traces(folder)
    order = order_of(file)
    nodes = tuple(traces.read(NODES, node_of, NODE_FORM))
    pods = dict(traces.read(f"{PODS}{file}", _pod, POD_FORM))
    arrivals: dict[int, list[str]] = {}
    for seed, pod in traces.read(f"arrivals_{order}", _arrival, Form(("seed", "pod"))):
        if pod not in pods:
            raise StudyError(f"{folder}: arrivals_{order} names {pod}, which {file} has not")
        arrivals.setdefault(seed, []).append(pod)
    ranks: dict[int, dict[str, int]] = {}
    for seed, node, rank in traces.read(f"noderank_{order}", _rank, Form(("seed", "node", "rank"))):
        ranks.setdefault(seed, {})[node] = rank
    if any(rank.keys() != {node.name for node in nodes} for rank in ranks.values()):
        raise StudyError(f"{folder}: noderank_{order} does not name the same nodes as {NODES}")
    return Inputs(nodes, pods, arrivals, ranks)


def _pod(cells: Cells) -> tuple[str, Pod]:
    return cells.need("name", name), pod_of(cells)


def _arrival(cells: Cells) -> tuple[int, str]:
    return cells.need("seed", COUNT), cells.need("pod", name)


def _rank(cells: Cells) -> tuple[int, str, int]:
    return cells.need("seed", COUNT), cells.need("node", name), cells.need("rank", COUNT)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


def run_one(folder: str, run: Run, tick: Callable[[int], None] = lambda done: None) -> Curve:
    """Place the arrivals of one seed by one policy. `tick` hears of arrivals as they are done."""
    inputs = load(folder, run.file)
    if run.seed not in inputs.arrivals or run.seed not in inputs.ranks:
        raise StudyError(f"{folder}: there is no order of {run.file} for seed {run.seed}")
    engine = _engine(inputs, run.policy)
    ranks = inputs.ranks[run.seed]
    for node in inputs.nodes:
        engine.observe(NodeJoined(replace(node, name=f"{ranks[node.name]:04d}/{node.name}")))
    arrivals = [inputs.pods[name] for name in inputs.arrivals[run.seed]]
    loop = Loop(engine)
    meter = _Meter(arrivals, sum(len(node.devices) for node in inputs.nodes) * WHOLE, loop, tick)
    loop.listen(meter)
    for number, pod in enumerate(arrivals):
        loop.at(number, Submitted(Workload(str(number), pod.groups, submitted_at=number)))
    loop.run()
    return Curve(run, meter.curve(), len(arrivals), meter.placed)


def _engine(inputs: Inputs, name: str) -> Engine:
    score, known = POLICIES[name], name in KNOWN_MIX
    policy = Policy(eviction=Eviction(consolidates=False))  # in the study nobody is moved
    if score:
        policy = replace(
            policy,
            small=score,
            gang=score,
            service=score,
            devices="lowest",
            mix_half_life_s=inf,
            mix_learns=not known,
        )
    return Engine(Topology(), policy, _mix(inputs) if known else Memory())


def _mix(inputs: Inputs) -> Memory:
    """Return the memory of one who has seen the whole pod file."""
    kinds = [task_type(pod.groups[0].shape) for pod in inputs.pods.values()]
    counts = Counter(kind for kind in kinds if kind is not None)
    mix = tuple((kind, float(count)) for kind, count in counts.items())
    return Memory(mix, arrivals=len(kinds))


def run_all(
    folder: str, runs: Sequence[Run], jobs: int, tick: Callable[[int], None] = lambda done: None
) -> Iterator[Curve]:
    """Yield the curve of every run as it is done, in so many processes."""
    yield from parallel.run_all(_work, [(folder, run) for run in runs], jobs, tick)


def _work(task: tuple[str, Run], tick: Callable[[int], None]) -> Curve:
    return run_one(*task, tick)


class _Meter:
    """Listens to a run: adds up what arrived and what was placed, sends refused pods away."""

    def __init__(
        self, arrivals: Sequence[Pod], capacity: int, loop: Loop, tick: Callable[[int], None]
    ) -> None:
        self.placed = 0
        self._arrivals = arrivals
        self._capacity = capacity
        self._loop = loop
        self._tick = tick
        self._number = 0
        self._arrived = self._used = 0
        self._sums = [0.0] * len(LOADS)
        self._counts = [0] * len(LOADS)

    def __call__(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Take one cycle in."""
        if not isinstance(events[-1], Submitted):
            return
        milli = self._arrivals[self._number].milli
        self._arrived += milli
        if plan.decisions:
            self._used += milli
            self.placed += 1
        else:
            self._loop.at(now, Ended(str(self._number)))
        load = round(100 * self._arrived / self._capacity)
        if load in LOADS:
            self._sums[load] += round(100 * self._used / self._capacity, 2)
            self._counts[load] += 1
        self._number += 1
        if self._number % TICK == 0 or self._number == len(self._arrivals):
            self._tick((self._number - 1) % TICK + 1)

    def curve(self) -> tuple[float, ...]:
        """Return the mean ratio at every load; where none arrived, that of the load before."""
        curve: list[float] = []
        for total, count in zip(self._sums, self._counts, strict=True):
            before = curve[-1] if curve else 0.0
            curve.append(round(total / count, 2) if count else before)
        return tuple(curve)

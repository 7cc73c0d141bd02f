"""What every reader of traces needs: options, rows as drafts, and the load made of them.

A draft is small: a name, times and a workload that it shares with others that ask for the same. The
workloads themselves are made one by one as the arrivals are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mooring.config.reader import Mistake, nearest
from mooring.model.cluster import WHOLE, Device, Node
from mooring.model.events import Ended, Event
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.topology import Topology
from mooring.model.workload import PodGroup, Shape, Workload
from mooring.sim.load import Arrival, Load
from mooring.sim.release import digest_of
from mooring.sim.traces.rows import Cells, Faults, Form, TraceError, read_rows
from mooring.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

ANY_QUEUE = "*"
"""In a mapping of queues: all that are not named."""
NODE_GPUS = 8
ONLY_GROUP = "main"
_SPARE = 2.0
"""Where a trace has no nodes, it gets so many times the GPUs that it uses in the mean."""
NODES_MOST = 200_000
"""However much a trace asks for."""
_CAPACITY = amounts({CPU: 128_000, MEMORY: 2 << 20})
"""Of nodes that no trace describes."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to read a trace. Every reader takes all of them."""

    nodes: int = 0
    """How many nodes; of a trace that has nodes, the first of them. 0: as many as it needs."""
    gpus: int = NODE_GPUS
    """GPUs of each node where the trace does not say."""
    since_s: float = 0.0
    """Only what comes from then on, in seconds of the trace; times count from here."""
    until_s: float = inf
    """Only what comes before."""
    queues: tuple[tuple[str, str], ...] = ()
    """Queue in the trace, queue here; `*`: all that are not named."""
    nodes_of: str = ""
    """Name or file of a trace whose nodes are used instead."""
    known: bool = False
    """Tell the scheduler how long everything runs."""
    checkpoint_s: float = 0.0
    """How often work saves what is done, where the trace does not say; 0: never."""
    skip_broken: bool = False
    """Leave out rows that are broken, and count them."""

    def queue(self, given: str, otherwise: str = "") -> str:
        """Return the queue here of a queue in the trace; `otherwise` if no mapping names it."""
        own = otherwise or given or DEFAULT_QUEUE.name
        if not self.queues:
            return own
        mapped = dict(self.queues)
        return mapped.get(given) or mapped.get(ANY_QUEUE) or own


class Draft(NamedTuple):
    """A row: all that makes its workload."""

    at: float
    name: str
    pattern: Workload
    """The workload, without name and time; shared."""
    run_s: float = inf
    ends_at: float = inf
    """When it is ended, whether it has run or not."""
    fails: bool = False
    """It fails at the end of its run."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """What one should know about a load."""

    left_out: int = 0
    """Broken rows."""
    mistakes: tuple[tuple[str, Mistake], ...] = ()
    """The first of them, and the files they are in."""
    notes: tuple[str, ...] = ()
    """What else, in words."""
    files: tuple[tuple[str, str], ...] = ()
    """All that were read, each with a digest of what is in it."""


NOTHING = Remarks()


@dataclass(frozen=True, slots=True)
class Reading:
    """A load that was read, and what was left out of it."""

    load: Load
    rows: int
    """Of the file that it is named by, broken ones included."""
    left_out: int = 0
    """Broken rows."""
    mistakes: tuple[tuple[str, Mistake], ...] = ()
    """The first of them, and the files they are in."""
    notes: tuple[str, ...] = ()
    """What else one should know, in words."""
    drafts: Sequence[Draft] = ()
    """What the arrivals are made of."""
    files: tuple[Path, ...] = ()
    """All that were read."""

    @property
    def remarks(self) -> Remarks:
        """Return what was left out, and of which files as they are now."""
        files = tuple((str(file), digest_of([file])) for file in self.files)
        return Remarks(self.left_out, self.mistakes, self.notes, files)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a load runs on."""

    nodes: tuple[Node, ...]
    topology: Topology = Topology()
    queues: tuple[Queue, ...] = (DEFAULT_QUEUE,)


class Arrivals:
    """Arrivals in order of time, each made when it is taken; they can be taken again."""

    def __init__(self, drafts: Sequence[Draft], *, known: bool = False) -> None:
        self._drafts = drafts
        self._known = known

    def __len__(self) -> int:
        return len(self._drafts)

    def edited(self, edit: Callable[[Workload], Workload]) -> Arrivals:
        """Return the same arrivals with another pattern for each of theirs."""
        new: dict[int, Workload] = {}
        for draft in self._drafts:
            if id(draft.pattern) not in new:
                new[id(draft.pattern)] = edit(draft.pattern)
        drafts = [draft._replace(pattern=new[id(draft.pattern)]) for draft in self._drafts]
        return Arrivals(drafts, known=self._known)

    def first(self, count: int) -> Arrivals:
        """Return only so many of them."""
        return Arrivals(self._drafts[:count], known=self._known)

    def __iter__(self) -> Iterator[Arrival]:
        for at, name, pattern, run_s, _, fails in self._drafts:
            workload = replace(pattern, name=name, submitted_at=at)
            if self._known and run_s < inf:
                workload = replace(workload, estimate_s=run_s)
            yield Arrival(at, workload, run_s, fails)


class Ends:
    """Workloads that are ended at a given time, in order of time; they can be taken again."""

    def __init__(self, drafts: Iterable[Draft]) -> None:
        self._ends = sorted((draft.ends_at, draft.name) for draft in drafts if draft.ends_at < inf)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[tuple[float, Event]]:
        for at, name in self._ends:
            yield at, Ended(name)


class Intake:
    """Reads the rows of one trace, and makes the load of them."""

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self.drafts: list[Draft] = []
        self.notes: list[str] = []
        self._faults = Faults(skip=options.skip_broken)
        self._rows = 0
        self._files: dict[Path, None] = {}
        self._given: dict[str, None] = {}
        """Queues in the trace."""

    def rows(self, path: Path, make: Callable[[Cells], T], form: Form) -> Iterator[tuple[int, T]]:
        """Yield the line of every row, and what `make` makes of it."""
        self._files[path] = None
        is_main = path == next(iter(self._files))
        before = self._faults.count
        for line, made in read_rows(path, make, form, self._faults):
            self._rows += is_main
            yield line, made
        self._rows += (self._faults.count - before) * is_main

    def queue(self, given: str, otherwise: str = "") -> str:
        """Return the queue here of a queue in the trace; `otherwise` if no mapping names it."""
        self._given[given] = None
        return self.options.queue(given, otherwise)

    @property
    def named_queues(self) -> set[str]:
        """Return the queues in which work of the trace is, whatever window of it is read."""
        return {name or DEFAULT_QUEUE.name for name in self._given}

    def _check_queues(self) -> None:
        """Raise an error if a queue is mapped in which no work is."""
        there = [name for name in self._given if name]
        for given, here in self.options.queues:
            if self.drafts and given not in (ANY_QUEUE, *there):
                near = nearest(given, there) or (
                    f"; there are {listed(sorted(there))}" if there else "; it names none: give *"
                )
                problem = f"no work of {self.name} is in queue {given}{near}"
                raise TraceError.about(f"--queue {given}={here}", problem)

    def note(self, count: int, words: str) -> None:
        """Say how many rows are passed over, and why."""
        if count:
            self.notes.append(f"{count:,} {'row' if count == 1 else 'rows'} passed over: {words}")

    def order(self, start: float = 0.0) -> None:
        """Put the drafts in order of time, counted from `start`, and keep those of the window.

        What stands until it is ended and was there before the window comes at its beginning.
        """
        since, until = start + self.options.since_s, start + self.options.until_s
        kept, at_once = [], 0
        for draft in self.drafts:
            at, ends_at = draft.at, draft.ends_at
            if at < since < ends_at < inf or (at < since and ends_at == draft.run_s == inf):
                at = since
            if ends_at <= at:
                at_once += at >= since
            elif since <= at < until:
                moved = since == 0.0 and at == draft.at
                kept.append(
                    draft if moved else draft._replace(at=at - since, ends_at=ends_at - since)
                )
        self.note(at_once, "no time between coming and going")
        self.drafts = sorted(kept, key=attrgetter("at"))

    def queues(self, gpus: dict[str, float] | None = None) -> tuple[Queue, ...]:
        """Return the queues that the drafts name, by name; with weights if GPUs are given."""
        names = sorted({draft.pattern.queue for draft in self.drafts}) or [DEFAULT_QUEUE.name]
        return tuple(Queue(name, weight=(gpus or {}).get(name) or 1.0) for name in names)

    def first(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return as many nodes of the trace as are asked for; it must have them."""
        asked, has = self.options.nodes, len(nodes)
        if asked > has:
            fix = f"give at most {has:,}, or nodes of another trace by --nodes-of"
            problem = f"{self.name} has {counted(has, 'node')}: {fix}"
            if not has:
                problem = f"{self.name} has no nodes: leave it out"
            raise TraceError.about(f"--nodes {asked}", problem)
        return tuple(nodes[: asked or None])

    def reading(self, cluster: Cluster) -> Reading:
        """Return what came of it."""
        self._check_queues()
        return Reading(
            Load(
                self.name,
                cluster.topology,
                cluster.nodes,
                self._arrivals(),
                Ends(self.drafts),
                cluster.queues,
            ),
            self._rows,
            self._faults.count,
            tuple(self._faults.mistakes),
            tuple(self.notes),
            self.drafts,
            tuple(self._files),
        )

    def _arrivals(self) -> Arrivals:
        arrivals = Arrivals(self.drafts, known=self.options.known)
        every_s = self.options.checkpoint_s

        def saving(workload: Workload) -> Workload:
            if workload.checkpoints or workload.service:
                return workload
            return replace(workload, checkpoint_every_s=every_s)

        return arrivals.edited(saving) if every_s else arrivals


# ── workloads and nodes of traces that say only how many GPUs ────────────────────────────────────


@lru_cache(maxsize=4096)
def gang(gpus: int, node_gpus: int) -> tuple[PodGroup, ...]:
    """Return the groups of work on so many GPUs: whole nodes, and one task for what is left."""
    tasks, rest = divmod(gpus, node_gpus)
    if not tasks or not rest:
        return (PodGroup(ONLY_GROUP, Shape(gpus=rest or node_gpus), tasks or 1),)
    whole = PodGroup(ONLY_GROUP, Shape(gpus=node_gpus), tasks)
    return whole, PodGroup("rest", Shape(gpus=rest))


def equal_nodes(count: int, gpus: int, prefix: str = "node-") -> tuple[Node, ...]:
    """Return so many equal nodes; by name they are in order."""
    digits = max(4, len(str(count - 1)))
    devices = (Device(),) * gpus
    return tuple(
        Node(f"{prefix}{number:0{digits}d}", _CAPACITY, devices=devices) for number in range(count)
    )


def milli_of(workload: Workload) -> int:
    """Return how many thousandths of GPUs the minimum of a workload asks for."""
    return sum(leaf.min * leaf.shape.gpus * leaf.shape.milli for leaf in workload.leaves())


def span_of(arrivals: Sequence[Draft]) -> float:
    """Return the seconds between the first and the last that came."""
    return arrivals[-1].at - arrivals[0].at if arrivals else 0.0


def mean_gpus(drafts: Sequence[Draft]) -> float:
    """Return how many GPUs all would use in the mean if nobody ever waited."""
    span = span_of(drafts)
    if not span:
        return 0.0
    end = drafts[-1].at
    lives = (min(draft.run_s, min(draft.ends_at, end) - draft.at) if draft.run_s == inf
             else draft.run_s for draft in drafts)  # fmt: skip
    return sum(
        milli_of(draft.pattern) * life for draft, life in zip(drafts, lives, strict=True)
    ) / (WHOLE * span)


def nodes_for(intake: Intake, count: int = 0) -> tuple[Node, ...]:
    """Return equal nodes for a trace that has none: as many as asked for, or as it needs."""
    options, drafts = intake.options, intake.drafts
    if not (options.nodes or count):
        asked = [milli_of(draft.pattern) / WHOLE for draft in drafts]
        gpus = max(max(asked, default=0), min(_SPARE * mean_gpus(drafts), sum(asked)))
        count = node_count(gpus / options.gpus)
    return equal_nodes(options.nodes or count, options.gpus)


def node_count(needed: float) -> int:
    """Return how many nodes a trace gets that needs so many: at least one, and not too many."""
    return max(ceil(min(needed, NODES_MOST)), 1)

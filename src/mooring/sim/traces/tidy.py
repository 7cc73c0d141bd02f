"""The tidy format, read: a table of workloads, and beside it tables of nodes and of queues.

`week.csv` has the workloads, `week.nodes.csv` the nodes, `week.queues.csv` the queues; the same
with `.jsonl` and `.parquet`. Every column is said once, in `columns`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from mooring.config.reader import nearest
from mooring.model.cluster import Device, Node
from mooring.model.queues import Queue, Quota
from mooring.model.resources import CPU, GPU, MEMORY, Amounts, amounts
from mooring.model.topology import Level, Topology
from mooring.model.workload import PodGroup, Shape, TopologyRequest, Workload
from mooring.sim.traces import columns
from mooring.sim.traces.columns import (
    BANDWIDTH,
    LABEL,
    LEVEL,
    NODES,
    QUEUES,
    RESOURCE,
    SELECTOR,
    WORKLOADS,
)
from mooring.sim.traces.intake import (
    ONLY_GROUP,
    Cluster,
    Draft,
    Intake,
    Options,
    Reading,
    nodes_for,
)
from mooring.sim.traces.rows import CellError, Cells, Names, Tables
from mooring.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mooring.model.cluster import Labels
    from mooring.sim.traces.files import Files

_OF_WORKLOAD = frozenset(Workload.__dataclass_fields__).intersection(WORKLOADS.columns) - {
    "name",
    "queue",
}
"""Columns that are fields of a workload under the same name."""


_TOLD = 5
"""Queues that are told by name."""


def beside(path: Path, table: str) -> Path:
    """Return where the nodes or the queues of a trace are: `week.nodes.csv` for `week.csv`."""
    stem, dot, ends = path.name.partition(".")
    while dot and ends.split(".")[0] not in ("csv", "jsonl", "parquet"):
        more, dot, ends = ends.partition(".")
        stem = f"{stem}.{more}"
    return path.with_name(f"{stem}.{table}.{ends}")


def read(files: Files, intake: Intake) -> Reading:
    """Read a trace in the tidy format."""
    nodes, queues = beside(files.main, "nodes"), beside(files.main, "queues")
    tables, named = Tables(), list[Queue]()
    made: Cluster | None = None
    with tables.reading():
        _Workloads(intake).read(files.main)
    with tables.reading():
        made = _read_nodes(nodes, intake) if nodes.is_file() else None
    with tables.reading():
        rows = intake.rows(queues, QueueRows().read, QUEUES.form) if queues.is_file() else ()
        named += [queue for _, queue in rows]
    tables.settle()
    intake.order()
    made = made or Cluster(nodes_for(intake))
    known = {queue.name for queue in named}
    if named:
        intake.notes += _odd_queues(intake, named, queues.name)
    named += [queue for queue in intake.queues() if queue.name not in known]
    return intake.reading(Cluster(made.nodes, made.topology, tuple(named)))


def read_nodes(files: Files, intake: Intake) -> Reading:
    """Read a table of nodes by itself, without work."""
    return intake.reading(_read_nodes(files.main, intake))


def _odd_queues(intake: Intake, named: Sequence[Queue], table: str) -> Iterator[str]:
    """Yield notes about queues that only the work has, and those that only their table has."""
    counts = Counter(draft.pattern.queue for draft in intake.drafts)
    known = {queue.name: None for queue in named}
    strange = sorted(name for name in counts if name not in known)
    for name in strange[:_TOLD]:
        some = f"queue {name} ({counted(counts[name], 'workload')})"
        yield f"{some} is not in {table}: it has no quota there{nearest(name, known)}"
    if len(strange) > _TOLD:
        more = counted(len(strange) - _TOLD, "more queue")
        yield f"{more} with work {'is' if len(strange) == _TOLD + 1 else 'are'} not in {table}"
    used = {queue.parent for queue in named} | intake.named_queues | set(counts)
    idle = [name for name in known if name not in used]
    if idle:
        rest = [f"{len(idle) - _TOLD:,} more"] if len(idle) > _TOLD else []
        yield f"no work is in {listed([*idle[:_TOLD], *rest])} of {table}"


# ── workloads ────────────────────────────────────────────────────────────────────────────────────


class _Workloads:
    """Makes drafts of rows; rows of one name that follow each other are groups of one workload."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._names = Names()
        self._last = ""
        self._parts = 0
        """Rows of workloads of which another row is broken."""

    def read(self, path: Path) -> None:
        """Read all rows into the intake."""
        for _, made in self._intake.rows(path, self.made, WORKLOADS.form):
            self.put(*made)
        self._intake.note(self._parts, "another row of the same workload is broken")

    def put(self, group: PodGroup, draft: Draft | None) -> None:
        """Take a draft in, or one more group of the last."""
        drafts = self._intake.drafts
        if draft is not None:
            drafts.append(draft)
        else:
            drafts[-1] = _with_group(drafts[-1], group)

    def made(self, cells: Cells) -> tuple[PodGroup, Draft | None]:
        """Return the group of a row, and the draft where a workload begins."""
        name = cells.need("name", WORKLOADS.reader("name"))
        if name != self._last:
            self._last = self._names.take(cells, "name")
            group = _group(cells)
            return group, self._draft(cells, name, group)
        drafts = self._intake.drafts
        if not drafts or drafts[-1].name != name:
            raise cells.wrong("name", "a row before, of the same workload, is broken")
        try:
            return self._next_group(cells, drafts[-1]), None
        except CellError:
            self._parts += len(drafts.pop().pattern.groups)  # it is not whole
            raise

    def _next_group(self, cells: Cells, draft: Draft) -> PodGroup:
        group = _group(cells)
        if "group" not in cells.values:
            fix = "the row before has it: give another, or both rows a group each (column group)"
            raise cells.wrong("name", fix)
        if group.name in {g.name for g in draft.pattern.groups}:
            raise cells.wrong("group", "give every group of a workload its own name")
        return group

    def _draft(self, cells: Cells, name: str, group: PodGroup) -> Draft:
        given = dict(columns.values(cells, WORKLOADS, _OF_WORKLOAD))
        at = cells.need("at", WORKLOADS.reader("at"))
        run_s = cells.take("run_s", WORKLOADS.reader("run_s"), inf)
        ends_at = cells.take("ends_at", WORKLOADS.reader("ends_at"), inf)
        if run_s < inf and ends_at < inf:
            raise cells.wrong("ends_at", "give run_s or ends_at, not both")
        fails = cells.take("fails", WORKLOADS.reader("fails"), False)
        if fails and run_s == inf:
            raise cells.wrong("fails", "give run_s too: it fails at the end of its run")
        if ends_at < at:
            raise cells.wrong("ends_at", f"give a time from {at:g} on: it comes then")
        if "deadline_at" in given:
            given["deadline_at"] -= self._intake.options.since_s
        queue = self._intake.queue(cells.take("queue", WORKLOADS.reader("queue"), ""))
        pattern = _pattern((group,), queue, tuple(given.items()))
        return Draft(at, name, pattern, run_s, ends_at, fails)


def workload_of(rows: Iterable[dict[str, Any]]) -> Workload | None:
    """Return the workload of some rows; None if they are not those of one."""
    intake = Intake("", Options())
    maker = _Workloads(intake)
    for row in rows:
        maker.put(*maker.made(Cells(row)))
    if len(intake.drafts) != 1:
        return None
    draft = intake.drafts[0]
    return replace(draft.pattern, name=draft.name, submitted_at=draft.at)


def _with_group(draft: Draft, group: PodGroup) -> Draft:
    pattern = draft.pattern
    return draft._replace(pattern=replace(pattern, groups=(*pattern.groups, group)))


@lru_cache(maxsize=65_536)
def _pattern(
    groups: tuple[PodGroup, ...], queue: str, given: tuple[tuple[str, Any], ...]
) -> Workload:
    return Workload("", groups, queue, **dict(given))


def _group(cells: Cells) -> PodGroup:
    given = dict(columns.values(cells, WORKLOADS, columns.OF_GROUP))
    least, most = given.get("tasks", 1), given.get("max_tasks", 0)
    if most and most < least:
        raise cells.wrong("max_tasks", f"give at least {least}, or nothing")
    more = tuple((key, value) for key, value in given.items() if key not in ("group", "max_tasks"))
    return _made_group(
        given.get("group", ONLY_GROUP),
        most,
        more,
        columns.prefixed(cells, WORKLOADS, RESOURCE),
        columns.prefixed(cells, WORKLOADS, SELECTOR),
    )


@lru_cache(maxsize=65_536)
def _made_group(
    name: str, most: int, more: tuple[tuple[str, Any], ...], resources: Amounts, selector: Labels
) -> PodGroup:
    given = dict(more)
    shape = Shape(
        _amounts(given, resources),
        given.get("gpus", 0),
        given.get("milli", Shape().milli),
        gpu_models=given.get("gpu_models", ()),
        selector=selector,
    )
    topology = TopologyRequest(given.get("required", ""), given.get("preferred", ""))
    return PodGroup(name, shape, given.get("tasks", 1), most, topology)


def _amounts(given: Mapping[str, Any], resources: Amounts) -> Amounts:
    own = {CPU: given.get("cpu_milli", 0), MEMORY: given.get("memory_mib", 0)}
    return amounts({**dict(resources), **own})


# ── nodes and queues ─────────────────────────────────────────────────────────────────────────────


def _read_nodes(path: Path, intake: Intake) -> Cluster:
    taken = NodeRows()
    nodes = [made for _, made in intake.rows(path, taken.read, NODES.form)]
    return Cluster(intake.first(nodes), taken.topology())


class NodeRows:
    """Makes nodes of rows; their levels are the columns that begin with `level.`, in order."""

    def __init__(self) -> None:
        self._names = Names()
        self._levels: tuple[str, ...] | None = None
        self._bandwidths: dict[str, float] = {}

    def read(self, cells: Cells) -> Node:
        """Return a row as a node."""
        given = dict(columns.values(cells, NODES))
        path = columns.prefixed(cells, NODES, LEVEL, keep_order=True)
        levels = tuple(level for level, _ in path)
        if self._levels is None:
            self._levels = levels
        if levels != self._levels:
            odd = next(iter({*levels} ^ {*self._levels}), "")
            raise cells.wrong(f"{LEVEL}{odd}", "give every node a domain at each level")
        for level, bandwidth in columns.prefixed(cells, NODES, BANDWIDTH):
            if self._bandwidths.setdefault(level, bandwidth) != bandwidth:
                raise cells.wrong(f"{BANDWIDTH}{level}", "give the same for every node")
        device = Device(memory=given.get("gpu_memory_mib", 0))
        return Node(
            self._names.take(cells, "name"),
            _amounts(given, columns.prefixed(cells, NODES, RESOURCE)),
            columns.prefixed(cells, NODES, LABEL),
            gpu_model=given.get("gpu_model", ""),
            devices=(device,) * given.get("gpus", 0),
            path=tuple(domain for _, domain in path),
        )

    def topology(self) -> Topology:
        """Return the levels of all nodes."""
        known = self._bandwidths
        return Topology(tuple(Level(name, known.get(name, 0.0)) for name in self._levels or ()))


class QueueRows:
    """Makes queues of rows; a queue comes after the one above it."""

    def __init__(self) -> None:
        self._names = Names()
        self._known: set[str] = set()

    def read(self, cells: Cells) -> Queue:
        """Return a row as a queue."""
        given = dict(columns.values(cells, QUEUES))
        parent = given.get("parent", "")
        if parent and parent not in self._known:
            raise CellError("parent", parent, "give a queue of a row before")
        quotas: tuple[Quota, ...] = ()
        if "gpus" in given or "gpu_limit" in given:
            milli = {key: round(1000 * given[key]) for key in ("gpus", "gpu_limit") if key in given}
            quotas = (Quota(GPU, quota=milli.get("gpus", 0), limit=milli.get("gpu_limit")),)
        name = self._names.take(cells, "name")
        self._known.add(name)
        return Queue(
            name, parent, quotas,
            weight=given.get("weight", 1.0), priority=given.get("priority", 0),
        )  # fmt: skip

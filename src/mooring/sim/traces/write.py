"""The tidy format, written: what `tidy` reads back as the same load.

Every row is read back as it is written; what the format has no place for is told, not lost.
"""

from __future__ import annotations

import csv
import gzip
import json
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from io import TextIOWrapper
from math import inf
from typing import TYPE_CHECKING, Any

from mooring.config.units import say_number
from mooring.model.cluster import WHOLE, Node
from mooring.model.events import Ended
from mooring.model.queues import DEFAULT_QUEUE, Queue
from mooring.model.resources import CPU, GPU, MEMORY
from mooring.model.workload import PodGroup, Workload
from mooring.sim.traces import parquet
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
from mooring.sim.traces.intake import ONLY_GROUP
from mooring.sim.traces.rows import CellError, Cells, TraceError, kind_of
from mooring.sim.traces.tidy import NodeRows, QueueRows, beside, workload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from mooring.model.resources import Amounts
    from mooring.sim.load import Arrival, Load
    from mooring.sim.traces.columns import Table

Row = dict[str, Any]

_BAR = "|"
_ALIKE_MOST = 10_000


def write_trace(load: Load, path: Path) -> list[Path]:
    """Write a load in the tidy format; return the files, that of the workloads first."""
    kind = kind_of(path)
    if not kind or (kind == "parquet" and path.suffix == ".gz"):
        raise TraceError.about(
            path, "give a name that ends in .csv, .jsonl (or these with .gz) or .parquet"
        )
    arrivals = load.arrivals if hasattr(load.arrivals, "__len__") else list(load.arrivals)
    ends = _ends(load, path)
    tables: list[tuple[Path, Table, Callable[[], Iterable[Row]]]] = [
        (path, WORKLOADS, lambda: _workload_rows(arrivals, ends, path))
    ]
    if load.nodes:
        tables.append((beside(path, "nodes"), NODES, lambda: _node_rows(load, path)))
    if load.queues != (DEFAULT_QUEUE,):
        tables.append((beside(path, "queues"), QUEUES, lambda: _queue_rows(load.queues, path)))
    paths = [made for made, _, _ in tables]
    for made in paths:
        if made.exists():
            raise TraceError.about(made, "there is such a file; remove it, or give another name")
    with _all_or_none(paths) as parts:
        for part, (made, table, rows) in zip(parts, tables, strict=True):
            _write_table(part, made, table, rows)
    return paths


@contextmanager
def _all_or_none(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Give a file to write for each; they get their names when all are written."""
    parts = {path: path.with_name(f".{path.name}.part") for path in paths}
    try:
        yield list(parts.values())
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        first = next(iter(parts))
        raise TraceError.about(
            first, f"this cannot be written: {error.strerror or error}"
        ) from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _ends(load: Load, path: Path) -> dict[str, float]:
    ends: dict[str, float] = {}
    for at, event in load.changes:
        if not isinstance(event, Ended):
            problem = "the tidy format has no place for what happens to nodes and services"
            raise TraceError.about(path, problem, type(event).__name__)
        ends[event.workload] = at
    return ends


def _workload_rows(
    arrivals: Iterable[Arrival], ends: dict[str, float], path: Path
) -> Iterator[Row]:
    alike: set[object] = set()
    """What was read back well: of the others of its kind only name and time are new. Blanks around
    a name would not be read back.
    """
    for arrival in arrivals:
        workload = arrival.workload
        first: Row = {
            "name": workload.name,
            "at": arrival.at,
            "run_s": arrival.run_s if arrival.run_s < inf else None,
            "ends_at": ends.get(workload.name),
            "fails": (arrival.fails and arrival.run_s < inf) or None,
        }
        rows = [
            {**(first | _changed(workload) if not i else {"name": workload.name, "at": arrival.at}),
             **_group_row(group, named=len(workload.groups) > 1)}
            for i, group in enumerate(workload.groups)
        ]  # fmt: skip
        blanks = workload.name != workload.name.strip()
        moved = workload.submitted_at - arrival.at
        kind = blanks, moved, workload.groups, *_changed(workload).items()
        if kind not in alike:
            _check(path, f"workload {workload.name}", workload, partial(workload_of, rows))
            if len(alike) >= _ALIKE_MOST:
                alike.clear()
            alike.add(kind)
        yield from rows


def _check(path: Path, what: str, wanted: object, read: Callable[[], object]) -> None:
    """Raise an error if what is written is not read back as it was."""
    try:
        same = read() == wanted
    except CellError as error:
        fix = f"the tidy format cannot say it: {error.column}: {error.fix}"
        raise TraceError.about(path, fix, what) from None
    if not same:
        raise TraceError.about(path, "the tidy format cannot say all of it", what)


_FIELDS = [(f.name, f.default) for f in fields(Workload) if f.name in WORKLOADS.columns]


def _changed(workload: Workload) -> Row:
    """Return the fields of a workload that have a column and are not as by default."""
    given = ((name, getattr(workload, name), default) for name, default in _FIELDS)
    return {name: value for name, value, default in given if value != default and name != "name"}


def _group_row(group: PodGroup, *, named: bool) -> Row:
    shape, row = group.shape, {}
    if named or group.name != ONLY_GROUP:
        row["group"] = group.name
    sparse = {
        "tasks": group.min if group.min != 1 else 0,
        "max_tasks": group.max,
        "gpus": shape.gpus,
        "milli": shape.milli if shape.milli != WHOLE else 0,
        "gpu_models": list(shape.gpu_models),
        **_amounts(shape.amounts),
        "required": group.topology.required,
        "preferred": group.topology.preferred,
        **{f"{SELECTOR}{key}": value for key, value in shape.selector},
    }
    return row | {key: value for key, value in sparse.items() if value}


def _amounts(given: Amounts) -> Row:
    names = {CPU: "cpu_milli", MEMORY: "memory_mib"}
    return {names.get(name, f"{RESOURCE}{name}"): amount for name, amount in given}


def _node_rows(load: Load, path: Path) -> Iterator[Row]:
    levels, back = load.topology.levels, NodeRows()
    for node in load.nodes:
        row = _node_row(node, [level.name for level in levels])
        row |= {f"{BANDWIDTH}{level.name}": level.bandwidth for level in levels if level.bandwidth}
        _check(path, f"node {node.name}", node, partial(back.read, Cells(row)))
        yield row
    _check(path, "topology", load.topology, back.topology)


def _node_row(node: Node, levels: list[str]) -> Row:
    sparse = {
        "gpus": len(node.devices),
        "gpu_model": node.gpu_model,
        "gpu_memory_mib": node.devices[0].memory if node.devices else 0,
        **_amounts(node.capacity),
        **{f"{LABEL}{key}": value for key, value in node.labels},
        **{f"{LEVEL}{level}": domain for level, domain in zip(levels, node.path, strict=False)},
    }
    return {"name": node.name} | {key: value for key, value in sparse.items() if value}


def _queue_rows(queues: Iterable[Queue], path: Path) -> Iterator[Row]:
    back = QueueRows()
    for queue in queues:
        row: Row = {"name": queue.name}
        row |= {"parent": queue.parent} if queue.parent else {}
        for quota in queue.quotas:
            if quota.resource == GPU and not quota.flavor and quota.quota is not None:
                row["gpus"] = quota.quota / WHOLE
                row |= {} if quota.limit is None else {"gpu_limit": quota.limit / WHOLE}
        row |= {"weight": queue.weight} if queue.weight != 1 else {}
        row |= {"priority": queue.priority} if queue.priority else {}
        _check(path, f"queue {queue.name}", queue, partial(back.read, Cells(row)))
        yield row


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _write_table(part: Path, path: Path, table: Table, rows: Callable[[], Iterable[Row]]) -> None:
    kind = kind_of(path)
    if kind == "jsonl":
        with _open(part, path) as file:
            for row in rows():
                file.write(f"{json.dumps(_plain(row), ensure_ascii=False, allow_nan=False)}\n")
        return
    columns = _columns(table, rows())
    if kind == "csv":
        with _open(part, path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_cell(row.get(key), path) for key in columns] for row in rows())
        return
    types = {key: table.kind(key).arrow for key in columns}
    try:
        parquet.write(part, types, rows())
    except parquet.MissingError as error:
        raise TraceError.about(path, str(error)) from None


@contextmanager
def _open(part: Path, path: Path) -> Iterator[TextIOWrapper]:
    """Open a file to write text; zipped, it is the same whenever it is written."""
    with part.open("wb") as raw:
        if path.suffix != ".gz":
            with TextIOWrapper(raw, "utf-8", newline="") as file:
                yield file
            return
        with (
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped,
            TextIOWrapper(zipped, "utf-8", newline="") as file,
        ):
            yield file


def _columns(table: Table, rows: Iterable[Row]) -> list[str]:
    """Return the columns that are needed or not empty: the known in their order, then others."""
    used: dict[str, None] = dict.fromkeys(table.needs)
    for row in rows:
        used.update(dict.fromkeys(key for key, value in row.items() if value is not None))
    known = [key for key in table.columns if key in used]
    return known + [key for key in used if key not in table.columns]


def _plain(row: Row) -> Row:
    return {
        key: say_number(value) if isinstance(value, float) else value
        for key, value in row.items()
        if value is not None
    }


def _cell(value: Any, path: Path) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(say_number(value))
        case list():
            if any(_BAR in one for one in value):
                raise TraceError.about(
                    path, f"in CSV no name may have a {_BAR}; use .jsonl", str(value)
                )
            return _BAR.join(value)
        case _:
            return str(value)

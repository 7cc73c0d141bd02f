"""`mooring traces`: what traces there are, and traces in the tidy format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.show import Terminal, print_json, progress, table
from mooring.sim.traces import (
    Found,
    Options,
    Summary,
    TraceError,
    find_all,
    read_trace,
    summary_of,
    write_trace,
)
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.sim.traces import Family, Remarks

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class _Listed:
    """A trace that is there: in numbers, or what is wrong with it."""

    found: Found
    summary: Summary | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""


def list_traces(folder: str, *, as_json: bool) -> int:
    """Print what traces are in a folder, and where to get the others; return the exit code."""
    if not Path(folder).is_dir():
        what = (
            "this is a file; give a folder" if Path(folder).exists() else "there is no such folder"
        )
        raise TraceError.about(folder, what)
    there, missing = find_all(folder)
    listed = []
    with progress() as bar:
        task = bar.add_task("reading", total=len(there))
        for found in there:
            listed.append(_look_at(found))
            bar.advance(task)
    if as_json:
        print_json([*map(_as_data, listed), *map(_missing_as_data, missing)])
    else:
        _print_listed(listed, missing)
    return 0


def _look_at(found: Found) -> _Listed:
    try:
        reading = found.read(Options(skip_broken=True))
    except TraceError as error:
        return _Listed(found, problem=error.mistakes[0].fix)
    return _Listed(found, summary_of(reading), reading.notes)


def _as_data(listed: _Listed) -> dict[str, object]:
    found, summary = listed.found, listed.summary
    data: dict[str, object] = {"name": found.name, "found": True, "file": str(found.path)}
    if found.family:
        data["what"] = found.family.what
    if summary is None:
        return data | {"problem": listed.problem}
    own_nodes = found.family is not None and found.family.own_nodes
    return data | {
        "rows": summary.rows,
        "broken_rows": summary.left_out,
        "workloads": summary.workloads,
        "span_s": summary.span_s,
        "nodes": summary.nodes if own_nodes else None,
        "gpus": summary.gpus if own_nodes else None,
        "mean_gpus": round(summary.mean_gpus, 2),
        "notes": list(listed.notes),
    }


def _missing_as_data(family: Family) -> dict[str, object]:
    return {
        "name": family.name,
        "found": False,
        "what": family.what,
        "repository": family.repository,
        "path": family.path,
        "folder": family.folder,
    }


def _print_listed(listed: Sequence[_Listed], missing: Sequence[Family]) -> None:
    console = Terminal()
    heads = ("rows", "span", "nodes", "GPUs", "in use")
    rows = [(one.found.name, *_cells(one)) for one in listed if one.summary]
    if rows:
        console.print(table(("trace", *heads), rows, right=heads))
        console.print("\nIn use: GPUs in the mean, if nobody ever waited.")
    for one in listed:
        if one.summary and one.summary.left_out:
            console.print(f"{one.found.name}: {counted(one.summary.left_out, 'broken row')}.")
        if one.problem:
            console.print(f"{one.found.name}: {one.problem}.")
    if missing:
        console.print("" if listed else "There is no trace that is known.\n")
        places = [(f.name, f"{f.repository}: {f.path}") for f in missing]
        console.print(table(("not here", "where to get it"), places))


def _cells(listed: _Listed) -> tuple[str, ...]:
    found, summary = listed.found, listed.summary
    assert summary
    span = f"{summary.span_s / _DAY_S:,.1f} days" if summary.workloads else ""
    used = f"{summary.mean_gpus:,.0f}" if summary.workloads else ""
    own_nodes = found.family is not None and found.family.own_nodes
    nodes = (f"{summary.nodes:,}", f"{summary.gpus:,}") if own_nodes else ("", "")
    return f"{summary.rows:,}", span, *nodes, used


@dataclass(frozen=True, slots=True)
class Conversion:
    """What to convert: a trace by name or file, where to, and the folder of traces."""

    trace: str
    out: str
    folder: str


def convert(asked: Conversion, options: Options, *, as_json: bool) -> int:
    """Write a trace in the tidy format; return the exit code."""
    reading = read_trace(asked.trace, asked.folder, options)
    paths = write_trace(reading.load, Path(asked.out))
    summary = summary_of(reading)
    if as_json:
        print_json(
            {
                "name": reading.load.name,
                "files": [str(path) for path in paths],
                "workloads": summary.workloads,
                "nodes": summary.nodes,
                "gpus": summary.gpus,
                "queues": len(reading.load.queues),
                "left_out": reading.left_out,
                "notes": list(reading.notes),
            }
        )
        return 0
    console = Terminal()
    size = f"{counted(summary.nodes, 'node')} with {counted(summary.gpus, 'GPU')}"
    queues = counted(len(reading.load.queues), "queue")
    console.print(f"{counted(summary.workloads, 'workload')}, {size}, {queues}.")
    for path in paths:
        console.print(f"Written: {path}", soft_wrap=True)
    tell(reading.remarks, console)
    return 0


def tell(remarks: Remarks, console: Terminal) -> None:
    """Print what was left out of a trace, if anything was."""
    for note in remarks.notes:
        console.print(note if note.endswith("?") else f"{note}.")
    if remarks.left_out:
        shown = "" if remarks.left_out == len(remarks.mistakes) else "; the first of them"
        console.print(f"{counted(remarks.left_out, 'broken row')} left out{shown}:")
        for file, mistake in remarks.mistakes:
            console.print(f"  {file}: {mistake}", soft_wrap=True)

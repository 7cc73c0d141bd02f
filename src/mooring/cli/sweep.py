"""`mooring sweep`: a grid of policies, seeds and loads, a row each."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from mooring.cli.changes import policies_as_data, print_changes
from mooring.cli.numbers import print_headlines
from mooring.cli.rules import rules_of_all
from mooring.cli.show import Terminal, print_json, progress
from mooring.cli.simulate import begin, tell_of_emptiness, trial_of
from mooring.sim.far import LOCAL
from mooring.sim.own import files_of
from mooring.sim.release import digest_of
from mooring.sim.sweep import Cell, Results, run_cells, strangers
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.sim.sweep import Row
    from mooring.sim.traces import Options as TraceOptions


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is to be swept, and how."""

    cells: tuple[Cell, ...]
    out: str
    where: str = LOCAL
    jobs: int = 1
    as_json: bool = False


def sweep(asked: Sweep) -> int:
    """Run the cells that the file has not got; Ctrl-C keeps those that are done."""
    began, is_whole = monotonic(), True
    with closing(Results(asked.out)) as results:
        had = set(results.rows)
        missing = [cell for cell in asked.cells if cell.key not in had]
        try:
            _run(asked, missing, results)
        except KeyboardInterrupt:
            is_whole = False
        keys = dict.fromkeys(cell.key for cell in asked.cells)
        rows = [results.rows[key] for key in keys if key in results.rows]
    done = len(rows) - (len(keys) - len(missing))
    tell_strangers(rows, asked.out)
    if asked.as_json:
        print_json({"is_whole": is_whole, "loads": _loads(rows), "rows": rows})
    else:
        _print(rows)
        left = (
            f" Broken off: {counted(len(keys) - len(rows), 'run')} left; the same command goes on."
        )
        part = "" if is_whole else left
        known = f"; {len(rows) - done:,} were there already" if len(rows) > done else ""
        told = f"{counted(done, 'run')} in {monotonic() - began:.1f} s{known}."
        Terminal().print(f"\n{told}{part}")
        tell_of_emptiness(asked.cells[0].trial, Terminal())
    if not is_whole:
        raise KeyboardInterrupt
    return 0


def tell_strangers(rows: Sequence[Row], file: str) -> None:
    """Say if rows are of other code, whose numbers may differ."""
    count = strangers(rows)
    if count:
        some = f"{counted(count, 'row')} of {file} {'is' if count == 1 else 'are'} of other code"
        Terminal(stderr=True).print(f"{some} than this; another file makes them anew.")


def _run(asked: Sweep, missing: Sequence[Cell], results: Results) -> None:
    with progress() as bar:
        is_near = asked.where == LOCAL
        if is_near:
            task = begin(bar, [cell.trial for cell in missing])
        else:
            task = bar.add_task("runs", total=len(missing))
        rows = run_cells(missing, asked.where, asked.jobs, lambda done: bar.advance(task, done))
        for row in rows:
            results.add(row)
            bar.advance(task, not is_near)


def _groups(rows: Sequence[Row]) -> dict[tuple[object, ...], dict[str, list[Row]]]:
    """Return rows by work, GPUs, load and failures, and by policy."""
    found: dict[tuple[object, ...], dict[str, list[Row]]] = {}
    for row in rows:
        load = row["work"], row["gpus"], row["load"], row.get("node_failures_a_year") or 0.0
        found.setdefault(load, {}).setdefault(str(row["policy"]), []).append(row)
    return found


def _loads(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return means and intervals as data."""
    loads = []
    for (work, gpus, load, failures), by_policy in _groups(rows).items():
        what = {"work": work, "gpus": gpus, "load": load, "node_failures_a_year": failures}
        loads.append({**what, "policies": policies_as_data(list(by_policy.values()))})
    return loads


def _print(rows: Sequence[Row]) -> None:
    terminal = Terminal()
    for number, ((work, gpus, load, failures), by_policy) in enumerate(_groups(rows).items()):
        if number:
            terminal.print("")
        at = "" if load is None else f" at load {load:g}"
        failing = f", each node failing {failures:g} times a year" if failures else ""
        terminal.print(f"{work} on {gpus:,} GPUs{at}{failing}:")
        print_headlines(terminal, list(by_policy.values()))
        print_changes(terminal, list(by_policy.values()))
        left_out = max(int(row.get("left_out") or 0) for some in by_policy.values() for row in some)
        if left_out:
            terminal.print(f"{counted(left_out, 'broken row')} left out.")


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def cells_of(arguments: argparse.Namespace, reading: TraceOptions) -> tuple[Cell, ...]:
    """Return the grid that the options ask for, seed by seed: a part can be compared too."""
    given, cells = vars(arguments), list[Cell]()
    if arguments.trace:
        first = {"mix": "", "load": 0.0, "cluster": 8}
        loads = [first | {"trace": trace} for trace in dict.fromkeys(arguments.trace)]
    else:
        loads = [
            {"mix": mix, "load": load, "cluster": gpus, "trace": ""}
            for mix in dict.fromkeys(arguments.mix or [""])
            for gpus in dict.fromkeys(arguments.cluster)
            for load in dict.fromkeys(arguments.load)
        ]
    often = dict.fromkeys(arguments.node_failures)
    loads = [load | {"node_failures": failures} for load in loads for failures in often]
    every = rules_of_all(arguments.policy)
    for load in loads:
        trial = trial_of(argparse.Namespace(**(given | load)), reading)
        source = trial.source
        read = source.read(0, trial.until_s).files  # mistakes are told here too
        files = [[*read, *files_of(rules.own)] for rules in every]
        digests = [digest_of(some) if some else "" for some in files]
        cells += [
            Cell(replace(trial, rules=rules, seed=seed), files=digest)
            for seed in dict.fromkeys(arguments.seed)
            for rules, digest in zip(every, digests, strict=True)
        ]
    return tuple(cells)

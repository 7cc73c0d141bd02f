"""`mooring experiment philly`: the queueing table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import TYPE_CHECKING

from mooring.cli.files import Place, need_places, write_text
from mooring.cli.show import Terminal, broken_off, print_json, progress, table
from mooring.report.waits_figure import Panel, Waits, draw_waits
from mooring.sim.philly import Row, job_count, run_all
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADS = ("nodes", "policy", "mean wait s", "p90", "p99", "longest", "evictions")


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run."""

    traces: str
    nodes: Sequence[int]
    policies: Sequence[str]
    jobs: int = 1
    figure: str = ""


def philly(choice: Choice, *, as_json: bool) -> int:
    """Run the Philly jobs under every policy and print the table; return the exit code."""
    need_places(Place("--figure", choice.figure, (".svg",)))
    found: list[Row] = []
    runs = [(nodes, policy) for nodes in choice.nodes for policy in choice.policies]
    interrupted = False
    with progress() as bar:
        task = bar.add_task("reading", total=None)
        bar.reset(task, total=job_count(choice.traces) * len(runs), description="jobs")
        began_at = monotonic()
        try:
            found += run_all(choice.traces, runs, choice.jobs, lambda n: bar.advance(task, n))
        except KeyboardInterrupt:
            interrupted = True
    found.sort(key=lambda row: runs.index((row.nodes, row.policy)))
    if choice.figure and found:
        _draw(found, choice.figure)
    if as_json:
        print_json([asdict(row) for row in found])
    else:
        part = broken_off(len(found), len(runs)) if interrupted else ""
        took = f"{counted(len(found), 'run')} in {monotonic() - began_at:.1f} s."
        _print_table(found, took + part)
    if interrupted:
        raise KeyboardInterrupt
    return 0


def _draw(rows: Sequence[Row], path: str) -> None:
    panels = [
        Panel(
            f"{nodes} nodes of 8 GPUs",
            [
                Waits(row.policy, row.mean_wait, row.p90, row.p99, row.max_wait)
                for row in rows
                if row.nodes == nodes
            ],
        )
        for nodes in dict.fromkeys(row.nodes for row in rows)
    ]
    write_text(path, draw_waits("How long the Philly jobs wait, by policy", panels))


def _print_table(rows: Iterable[Row], last: str) -> None:
    shown = [
        (
            str(row.nodes),
            row.policy,
            *(f"{wait:,.0f}" for wait in (row.mean_wait, row.p90, row.p99, row.max_wait)),
            f"{row.evictions:,}",
        )
        for row in rows
    ]
    console = Terminal()
    console.print(table(_HEADS, shown, right=(_HEADS[0], *_HEADS[2:])))
    console.print(f"\n{last}")

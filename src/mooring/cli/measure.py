"""`mooring measure`: what came of a journal, whoever wrote it: a live cluster or a simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.numbers import Output, in_units, print_headlines, print_run, rounded
from mooring.cli.replay import opened
from mooring.cli.show import Terminal, print_json, progress
from mooring.journal import JournalError
from mooring.metrics import Metrics
from mooring.model.plan import Plan
from mooring.report import Run, as_data, headline, write_page
from mooring.sim.errors import StudyError
from mooring.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from mooring.journal import Journal

ABOUT = (
    "Read journals, of `mooring run` or of simulations, and print what came of them: allocation, "
    "occupation, fragmentation, waits by size. The numbers are those of mooring simulate. A "
    "journal may still be written meanwhile. Several stand side by side."
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which part of a journal counts, and what it does not say itself."""

    since_s: float = 0.0
    until_s: float = inf
    """Seconds after its beginning; infinite: its last record."""
    restart_s: float = 0.0


def measure(files: Sequence[str], stretch: Stretch, output: Output) -> int:
    """Print the numbers of journals, one beside the other; return the exit code."""
    output.check()
    names = _names(files)
    runs = [_measured(file, name, stretch) for file, name in zip(files, names, strict=True)]
    data = as_data(runs[0]) if len(runs) == 1 else {"runs": [as_data(run) for run in runs]}
    output.write(runs, data, lambda: write_page(_title(names), _about(runs), runs))
    if output.as_json:
        print_json(data)
    else:
        _print(runs)
    return 0


def _names(files: Sequence[str]) -> list[str]:
    """Return what journals are called: by their file, by their whole path if others are called so.

    The name of a live one ends in a number, so only a known end is cut off.
    """
    if len(set(files)) < len(files):
        raise JournalError(f"{Counter(files).most_common(1)[0][0]}: this was given twice")
    short = [Path(file).name.removesuffix(".journal") for file in files]
    some = Counter(short)
    return [name if some[name] == 1 else file for name, file in zip(short, files, strict=True)]


def _measured(file: str, name: str, stretch: Stretch) -> Run:
    with opened(file) as (source, journal), progress() as bar:
        task = bar.add_task(name, total=len(journal))
        metrics, last = _fold(journal, stretch, lambda done: bar.update(task, completed=done))
        began = journal.header.now
        if last is None:
            raise JournalError(f"{source}: it has no records")
        if last <= began + stretch.since_s:
            there = f"its {counted(len(journal), 'record')} end {last - began:g} s after it began"
            raise JournalError(f"{source}: {there}, so nothing is left to measure")
    return Run(name, rounded(metrics.summary()), metrics.film(), origin=began)


def _fold(
    journal: Journal, stretch: Stretch, tick: Callable[[int], None]
) -> tuple[Metrics, float | None]:
    """Return the numbers of a journal, and up to when they go."""
    began, last = journal.header.now, None
    until = began + stretch.until_s
    metrics = Metrics(journal.header, began + stretch.since_s, restart_s=stretch.restart_s)
    for number, record in enumerate(journal.records(), 1):
        if record.now > until:
            break
        last = record.now
        metrics.hear(record.now, record.events, record.plan)
        tick(number)
    if until < inf and len(journal):
        last = until
        metrics.hear(until, (), Plan())  # nothing happened after the last record
    return metrics, last


def _print(runs: Sequence[Run]) -> None:
    terminal = Terminal()
    if len(runs) == 1:
        print_run(terminal, runs[0])
    else:
        print_headlines(terminal, [[headline(run)] for run in runs])
    terminal.print("")
    for run in runs:
        name = f"{run.name}: " if len(runs) > 1 else ""
        terminal.print(f"{name}{_stretch_of(run)}.")


def _stretch_of(run: Run) -> str:
    summary = run.summary
    work = counted(summary.submitted, "workload")
    return f"{work} in {in_units(summary.end - summary.start)} of {summary.gpus:,.0f} GPUs"


def _title(names: Sequence[str]) -> str:
    return f"Mooring: {names[0] if len(names) == 1 else counted(len(names), 'journal')}"


def _about(runs: Sequence[Run]) -> str:
    return "As recorded: " + "; ".join(_stretch_of(run) for run in runs) + "."


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def check_window(since_s: float, until_s: float) -> None:
    """Raise an error if a window ends before it has begun."""
    if until_s <= since_s:
        told = f"that is {in_units(since_s - until_s)} before" if until_s < since_s else "that is"
        raise StudyError(f"--until: {told} --since: give a later time")


def add_options(
    to: argparse.ArgumentParser,
    duration: Callable[[str], float],
    seconds: Callable[[str], float],
) -> None:
    """Add the options of `stretch_of`, and the files."""
    to.description = ABOUT
    to.add_argument("files", metavar="FILE", nargs="+", help="a journal; - is standard input")
    to.add_argument(
        "--since",
        metavar="TIME",
        type=duration,
        default=0.0,
        help="count from so long after its beginning on, like 2d or 36h",
    )
    to.add_argument(
        "--until", metavar="TIME", type=duration, default=inf, help="and up to then; default all"
    )
    to.add_argument(
        "--restart",
        metavar="S",
        type=seconds,
        default=0.0,
        help="seconds that a restart takes a workload that does not say so; default 0",
    )


def stretch_of(arguments: argparse.Namespace) -> Stretch:
    """Return what the options say."""
    check_window(arguments.since, arguments.until)
    return Stretch(arguments.since, arguments.until, arguments.restart)

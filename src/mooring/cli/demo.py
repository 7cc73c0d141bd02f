"""`mooring demo`: one day of a lab under three policies, as a picture, a table and a page."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from mooring.cli.files import Place, need_places
from mooring.cli.map import PARTLY, TAKEN, cell, clock, cluster_map, curve
from mooring.cli.show import Terminal, broken_off, print_json
from mooring.cli.simulate import comparison_of, run_trials, write_report
from mooring.metrics.frames import FULL
from mooring.report import Run, headline
from mooring.sim.mixes import Options
from mooring.sim.run import Delays
from mooring.sim.study import NAMED, Source, Trial
from mooring.words import counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.metrics import Summary
    from mooring.sim.study import Outcome

POLICIES = ("fifo", "best-effort", "default")
GPUS, LOAD = 256, 0.9
HOUR = 3600.0
WARM_UP_HOURS = 6
"""Before the day that counts, so that it does not begin with an empty cluster."""
REPORT = "mooring-demo.html"
WIDTH = 17
"""Of the column of a policy."""
_BEST = "bold green"
_MEAN = "mean wait"


@dataclass(frozen=True, slots=True)
class Demo:
    """What is to be shown."""

    gpus: int = GPUS
    hours: int = 24
    seed: int = 0
    report: str = REPORT
    opens: bool = True
    jobs: int = 1
    as_json: bool = False

    def trials(self) -> list[Trial]:
        """Return the runs: the same work under every policy."""
        end_h = WARM_UP_HOURS + self.hours
        source = Source("lab", Options(self.gpus, end_h / 24, LOAD))
        times = WARM_UP_HOURS * HOUR, end_h * HOUR, Delays(30.0, 60.0, 10.0)
        return [
            Trial(source, NAMED[name], self.seed, *times, keeps_waits=True) for name in POLICIES
        ]


def demo(asked: Demo) -> int:
    """Run the comparison, print it, write its page and open it; return the exit code.

    Ctrl-C keeps the runs that are done.
    """
    page, began, terminal = Path(asked.report), monotonic(), Terminal()
    need_places(Place("--report", asked.report, (".html", ".htm")))
    is_seen = terminal.is_terminal and not asked.as_json
    if is_seen:
        terminal.print(_title(asked))
    done, is_whole = run_trials(asked.trials()[::-1], asked.jobs)  # the longest run first
    done.reverse()
    if not done:
        raise KeyboardInterrupt
    write_report(done, str(page))
    if asked.as_json:
        print_json(comparison_of(done) | {"is_whole": is_whole})
    else:
        if not is_seen:
            terminal.print(_title(asked))
        took = f"{monotonic() - began:.1f} s."
        _print(terminal, done, took if is_whole else took + broken_off(len(done), len(POLICIES)))
        terminal.print(str(page), style="bold", soft_wrap=True)
    if not is_whole:
        raise KeyboardInterrupt
    if asked.opens and has_display() and not asked.as_json:
        webbrowser.open(page.resolve().as_uri())
    return 0


def _print(terminal: Terminal, done: Sequence[Outcome], took: str) -> None:
    """Print what came of it, up to where its page is."""
    terminal.print(_picture(done, colour=terminal.color_system is not None))
    terminal.print(f"\n{_sentence(done)}\n")
    work = counted(done[0].summary.submitted, "workload")
    told = f"{work} under each policy, simulated in {took}"
    terminal.print(f"{told} The whole report, with a map of the cluster to scrub through:")


def _title(asked: Demo) -> Text:
    day = "one day" if asked.hours == 24 else counted(asked.hours, "hour")
    return Text.assemble(
        ("Mooring", "bold"),
        f"  {day} of a lab with {counted(asked.gpus, 'GPU')} at load {LOAD:g}, ",
        "under three policies\n",
    )


def has_display() -> bool:
    """Return whether a browser can be shown: none that takes the terminal is to be started."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


# ── the picture ──────────────────────────────────────────────────────────────────────────────────


def _picture(done: Sequence[Outcome], *, colour: bool) -> Table:
    """Return a column for each policy: the cluster, curves over the day, numbers."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    made.add_column("", no_wrap=True)
    for outcome in done:
        made.add_column(outcome.trial.rules.name, no_wrap=True, min_width=WIDTH)
    at = _height(done[0].summary)
    maps = [cluster_map(outcome.film, at, colour=colour) for outcome in done]
    made.add_row(_legend(at, colour=colour), *maps)
    made.add_row()
    curves = [outcome.summary.curve for outcome in done]
    most = max((value for found in curves for value in found.waiting_gpus), default=0.0) or 1.0
    for name, style, top, values in (
        ("GAR over the day", TAKEN, 1.0, [found.gar for found in curves]),
        ("GFR over the day", PARTLY[-1], 1.0, [found.gfr for found in curves]),
        ("GPUs waited for", "", most, [found.waiting_gpus for found in curves]),
    ):
        made.add_row(name, *(curve(some, top, WIDTH, style) for some in values))
    made.add_row()
    for row in _rows(done):
        made.add_row(row.name, *row.cells())
    return made


def _height(summary: Summary) -> float:
    """Return when most was waited for; where nobody waits, when most was in use."""
    found = summary.curve
    values = found.waiting_gpus if any(found.waiting_gpus) else found.gar
    if not values:
        return found.start
    return found.start + (values.index(max(values)) + 0.5) * found.step_s


def _legend(at: float, *, colour: bool) -> Text:
    lines = [Text(f"cluster at {clock(at)}")]
    for taken, what in ((FULL, "full node"), (FULL // 2, "in part use"), (0, "free")):
        lines.append(Text.assemble(cell(taken, colour=colour), (f" {what}", "dim")))
    return Text("\n").join(lines)


@dataclass(frozen=True, slots=True)
class _Row:
    """One number of every policy."""

    name: str
    values: tuple[float | None, ...]
    told: Callable[[float], str]
    sign: int = -1
    """1: more is better, -1: less is, 0: it depends."""

    def cells(self) -> list[Text]:
        """Return the numbers, the best of them marked if one can tell, and not all are the best."""
        told = ["–" if value is None else self.told(value) for value in self.values]
        known = [value for value in self.values if value is not None]
        best = told[self.values.index(max(known, key=lambda v: self.sign * v))] if known else ""
        is_marked = self.sign and len(set(told)) > 1
        return [Text(text, _BEST if is_marked and text == best else "") for text in told]


def _rows(done: Sequence[Outcome]) -> list[_Row]:
    heads = [headline(Run(each.trial.rules.name, each.summary)) for each in done]

    def row(name: str, key: str, told: Callable[[float], str], sign: int = -1) -> _Row:
        found = [value if isinstance(value := head[key], int | float) else None for head in heads]
        return _Row(name, tuple(found), told, sign)

    few, most = _ends(done)
    return [
        row("GAR, median", "gar_median", percent, 0),
        row("useful", "sor_useful", percent, 1),
        row("GFR, mean", "gfr", percent),
        row(_MEAN, "mean_wait_s", span),
        _Row(f"p99, {few} GPU", _waits(done, few, "p99"), span),
        _Row(f"longest, {most} GPUs", _waits(done, most, "longest"), span),
        row("waiting at the end", "waiting", "{:,.0f}".format),
        row("broken off", "evictions", "{:,.0f}".format),
        row("GPU-hours lost", "lost_gpu_hours", "{:,.0f}".format),
    ]


def _ends(done: Sequence[Outcome]) -> tuple[str, str]:
    """Return the buckets of the smallest and of the largest work."""
    buckets = [curve.bucket for curve in done[0].summary.waits] or ["1"]
    return buckets[0], buckets[-1]


def _waits(done: Sequence[Outcome], bucket: str, what: str) -> tuple[float | None, ...]:
    """Return one number about the waits of a bucket; None: too many wait still."""
    found: list[float | None] = []
    for outcome in done:
        waits = [each for each in outcome.summary.waits if each.bucket == bucket]
        found.append(getattr(waits[0], what) if waits else None)
    return tuple(found)


def _sentence(done: Sequence[Outcome]) -> str:
    """Return what to look at."""
    _, most = _ends(done)
    names = [outcome.trial.rules.name for outcome in done]
    means = next(row.values for row in _rows(done) if row.name == _MEAN)
    longest = _waits(done, most, "longest")
    parts = [outcome.summary.gfr.mean for outcome in done]
    return (
        f"Look at who waits for whom: under {listed(names)} the mean wait is "
        f"{_told(means, span)}, the longest of the largest work ({most} GPUs) "
        f"{_told(longest, span)}; and of all nodes {_told(parts, percent)} are in part use, where "
        "no large gang fits."
    )


def _told(values: Sequence[float | None], told: Callable[[float], str]) -> str:
    return listed(["not known" if value is None else told(value) for value in values])


def span(seconds: float) -> str:
    """Return a time that passed, in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / HOUR:.1f} h"

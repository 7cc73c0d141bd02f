"""`mooring experiment kant`: clusters of several sizes and kinds, one thing better at a time."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from mooring.cli.files import Place, need_places, write_text
from mooring.cli.show import Terminal, print_json, progress, table
from mooring.cli.simulate import above_0
from mooring.cli.sweep import tell_strangers
from mooring.report.kant import groups_of, verdicts
from mooring.report.kant_figure import draw
from mooring.report.kant_page import write_html, write_markdown
from mooring.sim.errors import StudyError
from mooring.sim.kant import (
    DAYS,
    GPUS,
    KINDS,
    LOADS,
    POLICIES,
    SEEDS,
    WARM_UP_DAYS,
    Setting,
    key_of,
    run_cell,
)
from mooring.sim.parallel import run_all
from mooring.sim.sweep import Results
from mooring.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from mooring.report.kant import Group
    from mooring.sim.sweep import Cell, Row

ABOUT = (
    "Run clusters of several sizes and kinds under strict FIFO with native placement, best-effort "
    "FIFO, backfill, E-Binpack, and all together, and print per cluster and load GAR, SOR, GFR, "
    "JTTED and waits by size, with 95 % confidence intervals over seeds and the change against "
    "the first; then whether what is asked for is so, and what bounds it."
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run, and where results go."""

    setting: Setting
    jobs: int = 1
    rows: str = ""
    report: str = ""
    figure: str = ""
    as_json: bool = False


def kant(choice: Choice) -> int:
    """Run what the file of rows has not got; Ctrl-C keeps and tells what is done."""
    report = Place("--report", choice.report, (".html", ".md"))
    need_places(report, Place("--figure", choice.figure, (".svg",)))
    began, is_whole = monotonic(), True
    cells = {key_of(cell): cell for cell in choice.setting.cells()}
    with closing(_Kept(choice.rows)) as kept:
        missing = [cell for key, cell in cells.items() if key not in kept.rows]
        try:
            _run(missing, choice.jobs, kept.add)
        except KeyboardInterrupt:
            is_whole = False
        rows = [kept.rows[key] for key in cells if key in kept.rows]
    groups = groups_of(rows)
    _write(choice, groups)
    if choice.rows:
        tell_strangers(rows, choice.rows)
    if choice.as_json:
        data = [group.as_data() for group in groups]
        print_json({"is_whole": is_whole, "groups": data, "rows": rows})
    else:
        done = len(rows) - (len(cells) - len(missing))
        part = "" if is_whole else f" Broken off: {counted(len(cells) - len(rows), 'run')} left."
        known = f"; {len(rows) - done:,} were there already" if len(rows) > done else ""
        _print(groups, f"{counted(done, 'run')} in {monotonic() - began:.1f} s{known}.{part}")
    if not is_whole:
        raise KeyboardInterrupt
    return 0


class _Kept:
    """Rows, also in a file where there is one."""

    def __init__(self, path: str) -> None:
        self._file = Results(path) if path else None
        self.rows: dict[str, Row] = {} if self._file is None else dict(self._file.rows)

    def add(self, row: Row) -> None:
        """Keep one more."""
        if self._file is not None:
            self._file.add(row)
        self.rows[str(row["cell"])] = row

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


def _run(missing: Sequence[Cell], jobs: int, add: Callable[[Row], None]) -> None:
    with progress() as bar:
        total = int(sum(cell.trial.until_s for cell in missing))
        task = bar.add_task("seconds of clusters", total=total)
        for row in run_all(run_cell, missing, jobs, lambda done: bar.advance(task, done)):
            add(row)


def _write(choice: Choice, groups: Sequence[Group]) -> None:
    setting = choice.setting
    seeds = counted(len(dict.fromkeys(setting.seeds)), "seed")
    many = len(dict.fromkeys(setting.seeds)) > 1
    means = f"means over {seeds} with 95 % confidence intervals" if many else seeds
    against = f"the change against {POLICIES[0]}{', seed by seed' * many}"
    days = f"{setting.days:g} {'day' if setting.days == 1 else 'days'}"
    about = f"{days} after a warm-up of {setting.warm_up:g}; {means}, in brackets {against}."
    if choice.report:
        write = write_markdown if choice.report.endswith(".md") else write_html
        write_text(choice.report, write(about, groups))
    if choice.figure:
        write_text(choice.figure, draw(groups))


def _print(groups: Sequence[Group], last: str) -> None:
    terminal = Terminal()
    for group in groups:
        head, rows = group.table()
        terminal.print(f"{group.title}:")
        terminal.print(table(head, rows, right=head[1:]))
        told = [(v.asked, v.state, v.found, v.bound) for v in verdicts(group)]
        if told:
            terminal.print(table(("asked for", "", "found", "bound"), told))
        terminal.print("")
    terminal.print(last)


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def add_kant(
    study: argparse.ArgumentParser,
    whole: Callable[[int, int], Callable[[str], int]],
    part: Callable[[str], float],
) -> None:
    """Add the options."""
    study.description = ABOUT

    def many(name: str, of: str, default: Sequence[object], about: str, **more: object) -> None:
        told = " ".join(str(each) for each in default)
        options = {"metavar": of, "nargs": "+", "default": default, **more}
        study.add_argument(name, help=f"{about}default {told}", **options)  # type: ignore[arg-type]

    many("--cluster", "KIND", ("training",), f"of {', '.join(KINDS)}; ", choices=tuple(KINDS))
    many("--gpus", "N", GPUS, "sizes of clusters; ", type=whole(8, 1_000_000))
    many("--load", "PART", LOADS, "GPUs asked for over GPUs there are; ", type=above_0)
    many("--policy", "NAME", POLICIES, "", choices=POLICIES)
    many("--seed", "N", SEEDS, "", type=whole(0, 1 << 32))
    for name, default, about in (
        ("--days", DAYS, "how long"),
        ("--warm-up", WARM_UP_DAYS, "days before that are not counted"),
    ):
        of = "N" if name == "--days" else "DAYS"
        told = f"{about}; default {default:g}"
        study.add_argument(name, metavar=of, type=part, default=default, help=told)
    for name, about in (
        ("--rows", "keep every run here, and do not make again what is there"),
        ("--report", "write tables and verdicts: Markdown by the name, or a page (HTML)"),
        ("--figure", "write the figure (SVG)"),
    ):
        study.add_argument(name, metavar="FILE", default="", help=about)
    study.add_argument(
        "--jobs", metavar="N", type=whole(1, 1024), default=0, help="processes; default one a core"
    )


def choice_of(given: argparse.Namespace) -> Choice:
    """Return what the options ask for."""
    if not given.days > 0:
        raise StudyError("--days 0: there is nothing to count")
    setting = Setting(
        given.cluster,
        given.gpus,
        given.load,
        given.policy,
        given.seed,
        given.days,
        given.warm_up,
    )
    jobs, is_json = given.jobs or os.cpu_count() or 1, given.output == "json"
    return Choice(setting, jobs, given.rows, given.report, given.figure, is_json)

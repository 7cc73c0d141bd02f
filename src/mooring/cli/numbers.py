"""Numbers of runs: tables for the terminal, and files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.files import Place, may_write, need_places, write_text
from mooring.cli.show import GAP, Terminal, table
from mooring.report import Run, Spread, headline, why, write_csv
from mooring.sim.errors import StudyError, each_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from mooring.metrics import Summary
    from mooring.metrics.summary import Waited

    Row = Mapping[str, object]

_DIGITS = 6
"""After the point, of the mean of GPUs that there were."""
_SHOWN_WAITING = 5
"""Of those who have not started, how many are told with the reason."""
SHOWN = (
    ("GAR median", "gar_median", "{:.1%}"),
    ("SOR", "sor", "{:.1%}"),
    ("useful", "sor_useful", "{:.1%}"),
    ("GFR", "gfr", "{:.1%}"),
    ("mean wait", "mean_wait_s", "{:,.0f} s"),
    ("longest", "longest_wait_s", "{:,.0f} s"),
    ("waiting", "waiting", "{:,.0f}"),
    ("JTTED", "jtted", "{:.3f}"),
    ("broken off", "evictions", "{:,.0f}"),
    ("GPU-h lost", "lost_gpu_hours", "{:,.0f}"),
    ("Jain", "jain", "{:.3f}"),
)
FURTHER = (
    *("sor_run", "gfr_gpu", "gfr_demand", "least", "failed", "failed_gpu_hours"),
    *("announced", "announced_kept", "announced_error_s", "announced_error_p90_s"),
)
"""What pages and files tell too."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go."""

    as_json: bool = False
    report: str = ""
    data: str = ""
    """A file for the numbers: JSON, or CSV by the end of its name."""
    folder: str = ""
    """For all of them: report.html, runs.json, runs.csv."""

    def check(self, *more: Place) -> None:
        """See, before anything is run, that there are folders for what is to be written."""
        report = Place("--report", self.report, (".html", ".htm"))
        data = Place("--data", self.data, (".json", ".csv"))
        checks: list[Callable[[], None]] = [partial(need_places, report, data, *more)]
        each_of([*checks, self._make_folder])

    def _make_folder(self) -> None:
        folder = Path(self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise StudyError(f"--out {folder}: this is a file; give a folder") from None
        except OSError as error:
            raise StudyError(f"--out {folder}: {error.strerror}; give another folder") from error
        if self.folder and not may_write(folder):
            raise StudyError(f"--out {folder}: this folder may not be written; give another folder")

    def write(self, runs: Sequence[Run], data: Row, page: Callable[[], str]) -> None:
        """Write the report and the numbers, where they are asked for."""
        folder = Path(self.folder)
        report, files = self.report, [self.data] if self.data else []
        if self.folder:
            report = report or str(folder / "report.html")
            files += [str(folder / "runs.json"), str(folder / "runs.csv")]
        if report:
            write_text(report, page())
        for file in files:
            if file.endswith(".csv"):
                text = write_csv(runs)
            else:
                text = json.dumps(data if "runs" in data else {"runs": [data]}, allow_nan=False)
            write_text(file, text)


def rounded(summary: Summary) -> Summary:
    """Return numbers without the noise in the mean of GPUs that there were."""
    return replace(summary, gpus=round(summary.gpus, _DIGITS))


def spreads_of(rows: Sequence[Row]) -> dict[str, object]:
    """Return the numbers of a policy over its seeds, as data."""
    found: dict[str, object] = {"policy": rows[0]["policy"], "seeds": len(rows)}
    for key in (*(key for _, key, _ in SHOWN), *FURTHER):
        spread = Spread.over(rows, key)
        found[key] = None if spread is None else spread.as_data()
    return found


def print_headlines(terminal: Terminal, every: Sequence[Sequence[Row]]) -> None:
    """Print one column for the rows of every policy: means, and intervals over seeds.

    Those that the terminal is too narrow for stand in a further table, with the first, which all
    are compared with.
    """
    columns = []
    for found in every:
        spreads = [Spread.over(found, key) for _, key, _ in SHOWN]
        told = zip(SHOWN, spreads, strict=True)
        cells = ["–" if each is None else each.told(form) for (_, _, form), each in told]
        columns.append([str(found[0]["policy"]), *cells])
    for number, some in enumerate(_beside(columns, terminal.width)):
        if number:
            terminal.print("")
        names = [column[0] for column in some]
        rows = [
            [name, *(column[1 + at] for column in some)] for at, (name, _, _) in enumerate(SHOWN)
        ]
        terminal.print(table(["", *names], rows, right=names))


def _beside(columns: Sequence[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Yield the columns that stand side by side; the first is in all of them."""
    first, *others = columns
    least = max(len(name) for name, _, _ in SHOWN) + GAP + max(map(len, first))
    some, used = [first], least
    for column in others:
        wide = GAP + max(map(len, column))
        if len(some) > 1 and used + wide > width:
            yield some
            some, used = [first], least
        some.append(column)
        used += wide
    yield some


def print_run(terminal: Terminal, run: Run) -> None:
    """Print one run: the headline, JWTD by size, and who has waited longest and not started."""
    print_headlines(terminal, [[headline(run)]])
    terminal.print("")
    terminal.print(_waits_table(run.summary))
    told = run.summary.not_started[:_SHOWN_WAITING]
    if told:
        terminal.print("\nNot started, longest first:")
        rows = [
            (waited.name, f"{waited.wait_s:,.0f} s", _why(waited, run.origin)) for waited in told
        ]
        terminal.print(table(["workload", "waited", "why"], rows, right=["waited"]))
        more = sum(curve.waiting for curve in run.summary.waits) - len(told)
        if more:
            terminal.print(f"and {more:,} more.")


def _why(waited: Waited, origin: float) -> str:
    return " ".join(why(waited, origin)) or "–"


def _waits_table(summary: Summary) -> Table:
    """Return JWTD by size."""

    def told(seconds: float | None) -> str:
        return "–" if seconds is None else f"{seconds:,.0f} s"

    columns = ("started", "waiting", "mean wait", "p50", "p90", "p99", "longest")
    rows = [
        [
            w.bucket,
            f"{w.started:,}",
            f"{w.waiting:,}",
            *map(told, (w.mean, w.p50, w.p90, w.p99, w.longest)),
        ]
        for w in summary.waits
    ]
    return table(["GPUs", *columns], rows, right=columns)


def in_units(seconds: float) -> str:
    """Return a stretch of time in words."""
    for unit, length, least in (("days", 86_400, 2), ("hours", 3600, 1), ("minutes", 60, 1)):
        if seconds >= least * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"

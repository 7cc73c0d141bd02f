"""Sweeps: a grid of policies, seeds and loads, of which each cell becomes a row of a file.

Rows are appended as cells are done, so that whatever ends a sweep leaves a file that is valid, and
the next call does only what is missing.
"""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import mooring
from mooring.metrics import numbers_of
from mooring.sim.errors import StudyError
from mooring.sim.far import LOCAL, far_of, run_far
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.parallel import run_all
from mooring.sim.release import release
from mooring.sim.study import Trial, run_trial
from mooring.sim.traces import Options as TraceOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from mooring.sim.study import Outcome

Row = dict[str, float | int | str | None]
TEXTS = ("cell", "policy", "work", "code")
"""Columns that are no numbers."""
KEYS = ("cell", "policy", "work", "gpus", "load", "seed")
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep, and the code that must run it."""

    trial: Trial
    code: str = ""
    """Empty: whatever is here."""
    files: str = ""
    """A digest of the files that it depends on: a trace, own functions."""

    @property
    def key(self) -> str:
        """Return a name that only a run of the same work by the same policy and release has."""
        source = replace(self.trial.source, folder="")
        if source.trace:
            source = replace(source, mix="", options=MixOptions())
        else:
            source = replace(source, reading=TraceOptions(queues=source.reading.queues))
        trial = replace(self.trial, source=source, journal="", keeps_waits=False)
        text = f"{mooring.__version__} {trial!r} {self.files}"
        return sha256(text.encode()).hexdigest()[:16]


def run_cell(cell: Cell, tick: Callable[[int], None] = lambda passed: None) -> Row:
    """Run a cell; return its row."""
    if cell.code and cell.code != release():
        raise StudyError(f"a worker has {release()}, and here is {cell.code}: install the same")
    began = monotonic()
    return row_of(cell, run_trial(cell.trial, tick), monotonic() - began)


def row_of(cell: Cell, outcome: Outcome, took_s: float) -> Row:
    """Return the row of a cell that has been run.

    Its GPUs are those of all nodes: how many are healthy in the mean depends on seed and policy.
    """
    trial = cell.trial
    source = trial.source
    return {
        "cell": cell.key,
        "policy": trial.rules.name,
        "work": f"trace {source.trace}" if source.trace else f"mix {source.mix}",
        "gpus": outcome.gpus,
        "load": None if source.trace else source.options.load,
        "seed": trial.seed,
        "days": None if trial.until_s == inf else (trial.until_s - trial.warm_up_s) / DAY_S,
        "warm_up_days": trial.warm_up_s / DAY_S,
        "node_failures_a_year": source.node_failures,
        "start_s": trial.delays.start_s,
        "restart_s": trial.delays.restart_s,
        "grace_s": trial.delays.grace_s,
        "decide_s": trial.delays.decide_s,
        **numbers_of(outcome.summary),
        "left_out": outcome.remarks.left_out,
        "took_s": round(took_s, 3),
        "code": release(),
    }


def run_cells(
    cells: Sequence[Cell], where: str, jobs: int, tick: Callable[[int], None]
) -> Generator[Row, None, None]:
    """Yield the rows of cells as they are done, here or on a cluster."""
    if where == LOCAL:
        yield from run_all(run_cell, cells, jobs, tick)
    else:
        code = release()
        yield from run_far(far_of(where), run_cell, [replace(cell, code=code) for cell in cells])


def strangers(rows: Iterable[Row]) -> int:
    """Return how many rows are not of the code that is here."""
    return sum(row.get("code") != release() for row in rows)


# -- the file -------------------------------------------------------------------------------------


class Results:
    """Rows in a file, JSON lines or CSV by the end of its name; more are appended."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._is_csv = self.path.suffix == ".csv"
        self._columns: list[str] = []
        """Of a CSV file."""
        self.rows: dict[str, Row] = {}
        """By cell."""
        self._is_new = not os.path.exists(self.path)
        try:
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise StudyError(f"{path}: this cannot be written: {error.strerror}") from error
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def add(self, row: Row) -> None:
        """Append a row: all of it, in one piece."""
        head = ""
        if self._is_csv and not self._columns:
            self._columns = list(row)
            head = _csv_line(self._columns)
        if self._is_csv and self._columns != list(row):
            what = "it has other columns than are written here; give a file of another name"
            raise StudyError(f"{self.path}: {what}")
        line = _csv_line(list(row.values())) if self._is_csv else json.dumps(row) + "\n"
        self._file.write((head + line).encode())
        self.rows[str(row["cell"])] = row

    def close(self) -> None:
        """Let go of the file; one that is new and to which nothing came is taken away."""
        is_empty = not os.fstat(self._file.fileno()).st_size
        self._file.close()
        if self._is_new and is_empty:
            self.path.unlink(missing_ok=True)

    def _read(self) -> None:
        self._file.seek(0)
        whole, _, rest = self._file.read().rpartition(b"\n")
        if rest:  # somebody was cut off while writing it
            self._file.truncate(len(whole) + 1 if whole else 0)
        self._file.seek(0, os.SEEK_END)
        lines = whole.decode("utf-8", "replace").split("\n") if whole else []
        self._columns = next(csv.reader(lines[:1]), []) if self._is_csv else []
        first = 2 if self._is_csv else 1
        for number, line in enumerate(lines[first - 1 :], first):
            row = _from_csv(self._columns, line) if self._is_csv else _from_json(line)
            if row is None:
                raise StudyError(f"{self.path}, line {number}: this is no row of a sweep: {line!r}")
            self.rows[str(row["cell"])] = row


def _csv_line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def _from_json(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and all(key in row for key in KEYS)
    return row if is_row else None


def _from_csv(columns: Sequence[str], line: str) -> Row | None:
    cells = next(csv.reader([line]), [])
    if len(cells) != len(columns) or not set(KEYS) <= set(columns):
        return None
    row: Row = {}
    try:
        for name, cell in zip(columns, cells, strict=True):
            row[name] = cell if name in TEXTS else _number(cell)
    except ValueError:
        return None
    return row


def _number(cell: str) -> float | int | None:
    if not cell:
        return None
    return int(cell) if cell.lstrip("-").isdecimal() else float(cell)

"""Rows of a file: CSV, JSON lines or Parquet, the first two gzipped or not.

A row gives its cells by column, through readers that raise `ReadError` with the fix, as those of
scenario files do. What is wrong with a row is written down with file, line, column and value; who
asked for it goes on without the row, everybody else gets all mistakes at once.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.config.reader import (
    NOTHING,
    TEXT_MOST,
    ConfigError,
    Mistake,
    ReadError,
    nearest,
    show,
)
from mooring.config.units import AMOUNT_MOST, COUNT_MOST
from mooring.sim.traces import parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")

LISTED_MOST = 20
"""Broken rows that are told one by one."""


class TraceError(ConfigError):
    """A trace that cannot be used, with its mistakes."""

    of = "trace"

    @classmethod
    def about(cls, source: object, problem: str, what: str = "") -> TraceError:
        """Return the error with one mistake."""
        return cls([Mistake(what, "", problem)], str(source))

    @classmethod
    def together(cls, errors: Sequence[TraceError]) -> TraceError:
        """Return the error with the mistakes of all; of several files each says in which it is."""
        if len(errors) == 1:
            return errors[0]
        return cls(
            replace(mistake, path=": ".join(filter(None, [error.source, mistake.path])))
            for error in errors
            for mistake in error.mistakes
        )


class Tables:
    """Several files, of which all mistakes are told together."""

    def __init__(self) -> None:
        self._errors: list[TraceError] = []

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one of them."""
        try:
            yield
        except TraceError as error:
            self._errors.append(error)

    def settle(self) -> None:
        """Raise what is wrong with any."""
        if self._errors:
            raise TraceError.together(self._errors)


class CellError(Exception):
    """A row that is broken: in which column, by which value, and what to do."""

    def __init__(self, column: str, value: object, fix: str) -> None:
        super().__init__(column, value, fix)
        self.column, self.value, self.fix = column, value, fix


class Faults:
    """The broken rows found so far; `skip`: go on without them."""

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.count = 0
        self.mistakes: list[tuple[str, Mistake]] = []
        """The first of them, and the files they are in."""

    def add(self, path: Path, line: int, errors: Iterable[CellError]) -> None:
        """Write a broken row down; enough of them end the reading."""
        self.count += 1
        if self.count <= LISTED_MOST:
            for error in errors:
                column = f", column {error.column}" if error.column else ""
                mistake = Mistake(f"line {line}{column}", show(error.value), error.fix)
                self.mistakes.append((str(path), mistake))
        elif not self.skip:
            self.settle(path)

    def settle(self, path: Path) -> None:
        """Raise what is wrong with a file, unless its broken rows are to be left out."""
        mistakes = [mistake for file, mistake in self.mistakes if file == str(path)]
        if self.skip or not mistakes:
            return
        if self.count > LISTED_MOST:
            mistakes.append(Mistake("", "", f"more than {LISTED_MOST} rows are broken"))
        raise TraceError(mistakes, str(path))


@dataclass(frozen=True, slots=True)
class Form:
    """The columns of a table."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] | None = None
    """What else there may be; None: anything, of which only the known is read."""
    prefixes: tuple[str, ...] = ()
    """Any column that begins so is taken too."""
    readers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Of columns, so that all mistakes of a row can be told."""
    usual: str = ""
    """The prefix that an unknown column lacks most likely."""

    def others(self, cells: Cells, first: CellError) -> Iterator[CellError]:
        """Yield what is wrong with a row beside the first mistake."""
        for column, read in self.readers.items():
            if column == first.column:
                continue
            try:
                if column in self.needs:
                    cells.need(column, read)
                else:
                    cells.take(column, read, None)
            except CellError as error:
                yield error

    def check(self, columns: Iterable[str]) -> None:
        """Raise `CellError` for a column that is not known."""
        if self.takes is None:
            return
        known = (*self.needs, *self.takes)
        unknown = [
            column
            for column in columns
            if column not in known and not column.startswith(self.prefixes or ("\0",))
        ]
        if unknown:
            first, *others = unknown
            more = f"; unknown too: {', '.join(map(repr, others))}" if others else ""
            near = nearest(first, known)
            if not near and self.usual and "." not in first:
                near = f"; did you mean {self.usual + first!r}?"
            raise CellError(first, first, f"unknown column{near}{more}")


class Cells:
    """One row: its cells by column. An empty cell is none."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def need(self, column: str, read: Callable[[Any], T]) -> T:
        """Return what stands in a column; nothing is a mistake."""
        value = self.values.get(column)
        if value is None or value == "":
            raise CellError(column, NOTHING, "give it: it is needed")
        try:
            return read(value)
        except ReadError as error:
            raise CellError(column, value, str(error)) from None

    def take(self, column: str, read: Callable[[Any], T], default: T) -> T:
        """Return what stands in a column; the default if nothing does."""
        value = self.values.get(column)
        return default if value is None or value == "" else self.need(column, read)

    def wrong(self, column: str, fix: str) -> CellError:
        """Return the error that what stands in a column is a mistake."""
        value = self.values.get(column)
        return CellError(column, NOTHING if value is None or value == "" else value, fix)


class Names:
    """Names that may come only once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def take(self, cells: Cells, column: str) -> str:
        """Return the name in a column; one that was there before is a mistake."""
        found = cells.need(column, name)
        if found in self._seen:
            raise CellError(column, found, "give every name once: it was in a row before")
        self._seen.add(found)
        return found


def read_rows(
    path: Path, make: Callable[[Cells], T], form: Form, faults: Faults
) -> Iterator[tuple[int, T]]:
    """Yield the line of every row of a file, and what `make` makes of it."""
    for line, values in _rows(path, form):
        try:
            if isinstance(values, CellError):
                raise values
            made = make(Cells(values))
        except CellError as error:
            more = () if isinstance(values, CellError) else form.others(Cells(values), error)
            faults.add(path, line, (error, *more))
        else:
            yield line, made
    faults.settle(path)


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def kind_of(path: Path) -> str:
    """Return `csv`, `jsonl` or `parquet`, by the end of the name; else nothing."""
    ends = path.suffixes[-2:]
    if ends and ends[-1] == ".gz":
        ends = ends[:-1]
    kind = ends[-1].removeprefix(".") if ends else ""
    return kind if kind in ("csv", "jsonl", "parquet") else ""


def columns_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a file: of its head, or of the first object."""
    kind = kind_of(path) or "csv"
    with _readable(path):
        if kind == "parquet":
            return tuple(parquet.columns(path))
        if kind == "csv":
            with _open(path) as file:
                return tuple(_head(path, file))
    first = next(_rows(path, Form()), (0, {}))[1]
    return () if isinstance(first, CellError) else tuple(first)


@contextmanager
def _readable(path: Path) -> Iterator[list[int]]:
    """Turn all that can go wrong with a file into a `TraceError`; takes the last line that is read.

    What is wrong with a row is not meant.
    """
    lines = [0]
    try:
        yield lines
    except (FileNotFoundError, NotADirectoryError):
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "this is a folder; give a file"
    except PermissionError:
        problem = "you may not read it: get the right to, or give another file"
    except parquet.MissingError as error:
        problem = str(error)
    except gzip.BadGzipFile:
        problem = "this is not compressed by gzip, as its name says: give it another name"
    except UnicodeError:
        after = f" after line {lines[-1]}" if lines[-1] else ""
        problem = f"this is no text in UTF-8{after}: give a table, as CSV or JSON lines"
    except (OSError, EOFError, csv.Error, zlib.error) as error:
        after = f" after line {lines[-1]}" if lines[-1] else ""
        problem = f"this cannot be read{after}: {getattr(error, 'strerror', None) or error}"
    else:
        return
    raise TraceError.about(path, problem) from None


def _rows(path: Path, form: Form) -> Iterator[tuple[int, dict[str, Any] | CellError]]:
    """Yield every row and its line."""
    with _readable(path) as lines:
        try:
            for line, values in _READERS[kind_of(path) or "csv"](path, form):
                lines[-1] = line
                yield line, values
        except CellError as error:
            mistake = Mistake(error.column and f"column {error.column}", "", error.fix)
            raise TraceError([mistake], str(path)) from None


def _open(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _csv_rows(path: Path, form: Form) -> Iterator[tuple[int, dict[str, Any] | CellError]]:
    """Yield every row; none goes over several lines, so that an open quote ends with its line."""
    with _open(path) as file:
        head = _head(path, file)
        _check_head(head, form)
        width = len(head)
        for line, ended in enumerate(file, 2):
            text = ended.rstrip("\r\n")
            row, is_open = _quoted(text) if '"' in text else (text.split(","), False)
            if is_open:
                yield line, _open_quote(row, head)
            elif not text:
                pass  # an empty line is no row
            elif len(row) == width:
                yield line, dict(zip(head, row, strict=True))
            elif len(row) > width:
                fix = f"give {width} cells: so many columns there are"
                yield line, CellError(f"{width + 1}", row[width], fix)
            else:
                fix = f"give {width} cells: the row ends before this one"
                yield line, CellError(head[len(row)], NOTHING, fix)


def _quoted(text: str) -> tuple[list[str], bool]:
    """Return the cells of a line with quotes, and whether the last is open where it ends."""
    reader = csv.reader((text, "\n"))
    row = next(reader)
    return row, reader.line_num > 1


def _open_quote(row: list[str], head: Sequence[str]) -> CellError:
    """Return the error that the quote of the last cell is not closed."""
    column = head[len(row) - 1] if len(row) <= len(head) else str(len(row))
    value = '"' + row[-1].rstrip("\n")
    return CellError(column, value, "a quote is not closed: close it on the same line")


def _head(path: Path, file: Iterator[str]) -> list[str]:
    text = next(file, "").rstrip("\r\n")
    row, is_open = _quoted(text) if text else ([], False)
    if is_open:
        error = _open_quote(row, ())
        mistake = Mistake(f"line 1, column {error.column}", show(error.value), error.fix)
        raise TraceError([mistake], str(path))
    return [cell.strip() for cell in row]


def _json_rows(path: Path, form: Form) -> Iterator[tuple[int, dict[str, Any] | CellError]]:
    with _open(path) as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                yield line, _json_row(text, form)
            except CellError as error:
                yield line, error


def _json_row(text: str, form: Form) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise CellError("", text.strip(), "give one JSON object on each line") from None
    if not isinstance(values, dict):
        raise CellError("", values, "give an object: {…}")
    form.check(values)
    return values


def _parquet_rows(path: Path, form: Form) -> Iterator[tuple[int, dict[str, Any] | CellError]]:
    _check_head(parquet.columns(path), form)
    yield from enumerate(parquet.rows(path), 1)


_READERS = {"csv": _csv_rows, "jsonl": _json_rows, "parquet": _parquet_rows}


def _check_head(head: list[str], form: Form) -> None:
    if not head:
        raise CellError("", "", "the file is empty: give the names of the columns in the first row")
    lacking = [column for column in form.needs if column not in head]
    if lacking:
        near = nearest(lacking[0], head) if len(lacking) == 1 else ""
        if len(head) == 1 and ";" in head[0]:
            near = "; separate columns by commas"
        what = " or ".join(map(repr, lacking))
        raise CellError("", "", f"there is no column {what}{near}")
    for column in head:
        if head.count(column) > 1:
            raise CellError(column, column, "give every column once")
    form.check(head)


# ── readers of single cells ──────────────────────────────────────────────────────────────────────


def text(value: Any) -> str:
    """Read a text; a number will do."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ReadError("give a text")
    found = str(value)
    if len(found) > TEXT_MOST or not found.isprintable():
        raise ReadError(f"give at most {TEXT_MOST} printable characters")
    return found


def name(value: Any) -> str:
    """Read a name; blanks around it are not of it."""
    found = text(value).strip()
    if not found:
        raise ReadError("give a name that is not empty")
    return found


def names(value: Any) -> tuple[str, ...]:
    """Read names: a list, or a text with bars between them."""
    given = value if isinstance(value, list) else text(value).split("|")
    return tuple(name(one) for one in given if one != "")


def flag(value: Any) -> bool:
    """Read true or false."""
    found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if found is None:
        raise ReadError("give true or false")
    return found


def whole(least: int = 0, most: int = COUNT_MOST) -> Callable[[Any], int]:
    """Make a reader of whole numbers; `8.0` is one."""

    def read(value: Any) -> int:
        found = _whole(value)
        if found is None or not least <= found <= most:
            raise ReadError(f"give a whole number from {least} to {most}")
        return found

    return read


def _whole(value: Any) -> int | None:
    try:
        if isinstance(value, str) and "_" not in value:
            return int(value)
    except ValueError:
        pass
    found = _number(value)
    return int(found) if found is not None and found.is_integer() else None


def number(least: float = 0.0, most: float = AMOUNT_MOST) -> Callable[[Any], float]:
    """Make a reader of numbers."""

    def read(value: Any) -> float:
        found = _number(value)
        if found is None or not least <= found <= most:
            bound = f" to {most:g}" if most < AMOUNT_MOST else ""
            raise ReadError(f"give a number from {least:g}{bound}")
        return found

    return read


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and "_" in value:  # Python would read 1_0 as 10
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def moment(value: Any) -> float:
    """Read a date and time as seconds; without a time zone it is UTC."""
    try:
        found = datetime.fromisoformat(text(value))
    except ValueError:
        raise ReadError("give a date and time, like 2017-10-09 07:01:55") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


COUNT = whole()
AMOUNT = whole(0, AMOUNT_MOST)

"""The journal: every cycle of one engine's life, append-only, in one SQLite file.

It can be read while it is written, and after a crash it holds a prefix of complete records. It
stores what it is given; `sim.replay` compares. `docs/journal.md` shows how to read it with SQL.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mooring.model.codec import decode, encode
from mooring.model.events import Event, PolicyChanged, QueuesChanged
from mooring.model.plan import Plan, Record
from mooring.model.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from mooring.model.entry import Entry

FORMAT = 1
"""Version of what is written. To change a default of the model is a new format too."""

_APPLICATION = int.from_bytes(b"Moor")
_LONGEST_PLAIN = 1024
"""Characters of JSON that are stored as they are; longer text is compressed."""
_PAGE = 64
"""Records fetched at a time, so that a slow reader never holds the file."""

_RULES = (PolicyChanged, QueuesChanged)
"""Events that are written out in full: they must not follow the defaults of a later release."""

_TABLES = (
    "CREATE TABLE header (scenario NOT NULL)",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, now REAL NOT NULL, "
    "events NOT NULL, plan NOT NULL)",
)
"""Of one row, and of one row a record, numbered from 0. JSON is text, or a zlib blob if long."""

_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class JournalError(Exception):
    """A journal cannot be read or written."""


class Journal:
    """Records of one engine's life, after the moment at which it started.

    An append is safe from a crash of the process once its batch is full, or `flush` or `close`
    has returned. `sync` makes it safe from a power cut too. There is one writer and any number of
    readers. A failed write closes the journal: a record after a lost one could not be replayed.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, batch: int) -> None:
        self.path = path
        self._db = db
        self._batch = batch
        self._waiting = 0
        """Records that are not committed yet."""
        self._closed = False
        try:
            self.header = self._read_header()
            """The moment of the start: what it takes to make the same engine again."""
            self._next = len(self)
        except BaseException:
            db.close()
            raise

    @classmethod
    def create(
        cls, path: str | Path, start: Scenario, *, batch: int = 1, sync: bool = False
    ) -> Journal:
        """Make a new journal of an engine that starts at `start`."""
        header = _pack(encode(start, full=True))
        path = Path(path)
        try:
            path.open("xb").close()
        except FileExistsError:
            raise JournalError(f"{path}: there is a file already") from None
        except OSError as error:
            raise JournalError(f"{path}: no file can be made: {error.strerror}") from error
        try:
            db = _connect(path)
            with _closing_on_error(db):
                _set_sync(db, sync)
                _make_tables(db, header)
        except sqlite3.Error as error:
            path.unlink()
            raise JournalError(f"{path}: no journal can be made: {error}") from error
        return cls(path, db, batch)

    @classmethod
    def open(cls, path: str | Path, *, batch: int = 1, sync: bool = False) -> Journal:
        """Open a journal that is there, to read it or to append to it."""
        path = Path(path)
        if not path.is_file():
            raise JournalError(f"{path}: there is no such file")
        try:
            db = _connect(path)
            with _closing_on_error(db):
                (application,) = db.execute("PRAGMA application_id").fetchone()
                (version,) = db.execute("PRAGMA user_version").fetchone()
                _set_sync(db, sync)
        except sqlite3.Error as error:
            raise JournalError(f"{path}: this is not a journal: {error}") from error
        problem = ""
        if application != _APPLICATION:
            problem = "this is not a journal"
        elif version > FORMAT:
            problem = f"its format is {version}, and this release knows formats up to {FORMAT}"
        if problem:
            db.close()
            raise JournalError(f"{path}: {problem}")
        return cls(path, db, batch)

    def append(self, record: Record) -> None:
        """Add a record at the end."""
        self._insert(record)
        if self._waiting >= self._batch:
            self.flush()

    def append_many(self, records: Iterable[Record]) -> None:
        """Add records at the end and flush: faster than one by one."""
        try:
            for record in records:
                self._insert(record)
        finally:
            if not self._closed:
                self.flush()

    def flush(self) -> None:
        """Make everything appended so far outlive a crash."""
        if self._waiting:
            with self._writing():
                self._db.execute("COMMIT")
            self._waiting = 0

    def records(self, first: int = 0) -> Iterator[Record]:
        """Yield the records from index `first` on, up to the last one there is by then."""
        while rows := self._page(first):
            for row in rows:
                yield self._record(first, row)
                first += 1

    def __len__(self) -> int:
        with self._reading("the records"):
            (count,) = self._db.execute("SELECT coalesce(max(id) + 1, 0) FROM records").fetchone()
        return int(count)

    def close(self) -> None:
        """Flush and let go of the file."""
        if not self._closed:
            self.flush()
            self._closed = True
            self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _insert(self, record: Record) -> None:
        events = [encode(e, full=isinstance(e, _RULES)) for e in record.events]
        row = (self._next, record.now, _pack(events), _pack(encode(record.plan)))
        with self._writing():
            if not self._waiting:
                self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)
        self._next += 1
        self._waiting += 1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._closed = True
            self._db.close()
            why = str(error)
            if why.startswith("UNIQUE"):
                why = "it is there already, so somebody else writes this journal"
            raise JournalError(
                f"{self.path}: record {self._next} cannot be written: {why}"
            ) from error

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, zlib.error, ValueError, TypeError, RecursionError) as error:
            raise JournalError(f"{self.path}: {what} cannot be read: {error}") from error

    def _read_header(self) -> Scenario:
        with self._reading("the header"):
            (cell,) = self._db.execute("SELECT scenario FROM header").fetchone()
            return decode(Scenario, _unpack(cell))

    def _page(self, first: int) -> list[tuple[int, float, str | bytes, str | bytes]]:
        query = "SELECT id, now, events, plan FROM records WHERE id >= ? ORDER BY id LIMIT ?"
        with self._reading(f"record {first} or one soon after it"):
            return self._db.execute(query, (first, _PAGE)).fetchall()

    def _record(self, index: int, row: tuple[int, float, str | bytes, str | bytes]) -> Record:
        id_, now, events, plan = row
        if id_ != index:
            raise JournalError(f"{self.path}: record {index} is missing")
        with self._reading(f"record {index}"):
            return Record(
                decode(float, now),
                decode(tuple[Event, ...], _unpack(events)),
                decode(Plan, _unpack(plan)),
            )


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file; where nothing can be written, as one that nobody else writes either."""
    wal = path.with_name(path.name + "-wal")
    fixed = not os.access(path.parent, os.W_OK) and not wal.exists()
    uri = f"{path.absolute().as_uri()}?{'mode=ro&immutable=1' if fixed else 'mode=rw'}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


@contextmanager
def _closing_on_error(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


def _make_tables(db: sqlite3.Connection, header: str | bytes) -> None:
    """Make an empty file a journal, all at once."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        db.execute(statement)
    db.execute("INSERT INTO header VALUES (?)", (header,))
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {FORMAT}")
    db.execute("COMMIT")


def _set_sync(db: sqlite3.Connection, sync: bool) -> None:
    db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")


def _pack(data: object) -> str | bytes:
    text = _to_json(data)
    return text if len(text) <= _LONGEST_PLAIN else zlib.compress(text.encode(), 1)


def _unpack(cell: str | bytes) -> object:
    return json.loads(cell if isinstance(cell, str) else zlib.decompress(cell))


_NOTHING = Plan()


class Recorded(Protocol):
    """What is recorded: an engine."""

    def observe(self, event: Event) -> None:
        """Take in a fact about the world."""

    def decide(self, now: float) -> Plan:
        """Return all that should be done at this instant."""

    def entries(self) -> Mapping[str, Entry]:
        """Return all workloads."""


class Recorder:
    """Stands in for an engine, which must stand at the journal's start, and records every cycle.

    A cycle for which nobody asked, without events and with an empty plan, leaves no record: it must
    leave no trace in the engine either. One that the plan before asked for may count time, and is
    recorded. A cycle that fails is recorded with an empty plan, so that a replay fails too.
    One that goes on where another ended is given what that one had not written yet.
    """

    def __init__(self, engine: Recorded, journal: Journal, pending: Iterable[Event] = ()) -> None:
        self._engine = engine
        self._journal = journal
        self._events: list[Event] = list(pending)
        self._now = journal.header.now
        self._wake_at: float | None = self._now if len(journal) else None
        """When the last plan asked to be called; of a journal that goes on it is not known."""

    @property
    def pending(self) -> tuple[Event, ...]:
        """Return what was observed since the last cycle, which is written with the next one."""
        return tuple(self._events)

    def observe(self, event: Event) -> None:
        """Take in a fact about the world."""
        self._events.append(event)
        try:
            self._engine.observe(event)
        except Exception:
            self._append(_NOTHING)
            raise

    def decide(self, now: float) -> Plan:
        """Return all that should be done at this instant, and write it down."""
        self._now = now
        try:
            plan = self._engine.decide(now)
        except Exception:
            self._append(_NOTHING)
            raise
        is_due = self._wake_at is not None and now >= self._wake_at
        if self._events or plan != _NOTHING or is_due:
            self._append(plan)
        self._wake_at = plan.wake_at
        return plan

    def entries(self) -> Mapping[str, Entry]:
        """Return all workloads of the engine."""
        return self._engine.entries()

    def _append(self, plan: Plan) -> None:
        self._journal.append(Record(self._now, tuple(self._events), plan))
        self._events.clear()

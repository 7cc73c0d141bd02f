"""The journal keeps every record, through crashes and beside readers, and says what is wrong."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from mooring.journal import FORMAT, Journal, JournalError
from mooring.model.cluster import Device, Node
from mooring.model.codec import CodecError
from mooring.model.events import Ended, Event, PolicyChanged, QueuesChanged, Submitted
from mooring.model.memory import Memory, TaskType
from mooring.model.plan import Bind, Plan, Record
from mooring.model.queues import Queue
from mooring.model.scenario import Scenario
from mooring.model.settings import Policy
from mooring.model.topology import Level, Topology
from mooring.model.workload import Placement, PodGroup, Workload

START = Scenario(
    topology=Topology((Level("rack", 50.0),)),
    nodes=(Node("n", devices=(Device(),)),),
    policy=Policy(search_steps=7),
    memory=Memory(mix=((TaskType((("cpu", 1),), 1, 1000, ()), 0.1),), arrivals=3),
)


def record(index: int) -> Record:
    """Return a record that is different for every index; every third one is long."""
    name = f"w-{index}"
    count = 500 if index % 3 == 2 else 1
    events: tuple[Event, ...] = (Submitted(Workload(name, (PodGroup("g", min=count),))),)
    if index % 2:
        events = (*events, Ended(f"w-{index - 1}", failed=True))
    placement = Placement("g", tuple(range(count)), ("n",) * count, (1,) * count)
    return Record(index + 0.1, events, Plan((Bind(name, placement),), wake_at=index + 5.0))


RECORDS = [record(index) for index in range(200)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a journal may be, with a name that is hard on URIs."""
    return tmp_path / "a #1?%41.journal"


@pytest.fixture
def written(path: Path) -> Path:
    """Return a finished journal of ten records."""
    with Journal.create(path, START) as journal:
        journal.append_many(RECORDS[:10])
    return path


def change(path: Path, *statements: str) -> None:
    """Do to the file what no journal does."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize("sync", [False, True], ids=["normal", "full"])
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_what_was_appended_is_there_after_closing(path: Path, batch: int, sync: bool) -> None:
    with Journal.create(path, START, batch=batch, sync=sync) as journal:
        for each in RECORDS[:100]:
            journal.append(each)
        assert list(journal.records()) == RECORDS[:100]
    with Journal.open(path, batch=batch, sync=sync) as journal:
        assert journal.header == START
        assert len(journal) == 100
        journal.append_many(RECORDS[100:])
    with Journal.open(path) as journal:
        assert list(journal.records()) == RECORDS
        assert list(journal.records(first=150)) == RECORDS[150:]
        assert list(journal.records(first=200)) == []


def test_closed_journal_is_one_file(written: Path) -> None:
    assert list(written.parent.iterdir()) == [written]


def test_short_text_is_plain_and_long_text_is_small(written: Path) -> None:
    with contextlib.closing(sqlite3.connect(written)) as db:
        rows = db.execute("SELECT typeof(plan), length(plan) FROM records ORDER BY id").fetchall()
    assert [kind for kind, _ in rows[:3]] == ["text", "text", "blob"]
    assert all(size < 1500 for _, size in rows)


def test_rules_are_written_out_so_that_later_defaults_do_not_change_them(path: Path) -> None:
    changes = PolicyChanged(Policy()), QueuesChanged((Queue("q"),))
    with Journal.create(path, Scenario()) as journal:
        journal.append(Record(0.0, changes, Plan()))
        assert next(journal.records()).events == changes
    with contextlib.closing(sqlite3.connect(path)) as db:
        cells = (
            *db.execute("SELECT events FROM records"),
            *db.execute("SELECT scenario FROM header"),
        )
    for (cell,) in cells:
        text = cell if isinstance(cell, str) else zlib.decompress(cell).decode()
        assert f'"search_steps":{Policy().search_steps}' in text
        assert f'"weight":{Queue("q").weight}' in text


def test_batch_is_seen_by_others_when_full_or_flushed(path: Path) -> None:
    with Journal.create(path, START, batch=3) as writer, Journal.open(path) as reader:
        seen = []
        for each in RECORDS[:7]:
            writer.append(each)
            seen.append(len(reader))
        writer.flush()
        assert [*seen, len(reader)] == [0, 0, 3, 3, 3, 6, 6, 7]
        writer.flush()


def test_reader_sees_a_growing_prefix_while_it_is_written(path: Path) -> None:
    with Journal.create(path, START) as writer, Journal.open(path) as reader:
        reading = reader.records()
        for index, each in enumerate(RECORDS):
            writer.append(each)
            assert next(reading) == each
            assert len(reader) == index + 1
        assert list(reading) == []


def test_slow_reader_does_not_hold_up_the_writer(path: Path) -> None:
    """A reader in the middle of its way holds no lock, and goes on with what came meanwhile."""
    with Journal.create(path, START) as writer, Journal.open(path) as reader:
        writer.append_many(RECORDS[:100])
        reading = reader.records()
        assert next(reading) == RECORDS[0]
        writer.append_many(RECORDS[100:])
        assert list(reading) == RECORDS[1:]


KILLED = """
import sys
sys.path[:0] = sys.argv[3:]
from mooring.journal import Journal
from tests.test_journal import START, record
journal = Journal.create(sys.argv[1], START, batch=int(sys.argv[2]))
index = 0
while True:
    journal.append(record(index))
    index += 1
    print(index, flush=True)
"""


@pytest.mark.parametrize("at", [1, 40, 150])
@pytest.mark.parametrize("batch", [1, 7])
def test_killed_writer_leaves_a_prefix_of_complete_records(path: Path, batch: int, at: int) -> None:
    root = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", KILLED, str(path), str(batch), root, *sys.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        for line in writer.stdout:
            if int(line) == at:
                break
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines()

    with Journal.open(path) as journal:
        found = list(journal.records())
        journal.append(record(len(found)))
    assert writer.returncode == -signal.SIGKILL
    assert len(found) >= at // batch * batch
    assert len(found) <= at + len(rest) + 1
    assert found == [record(index) for index in range(len(found))]


def test_record_that_cannot_be_written_leaves_the_journal_as_it_was(path: Path) -> None:
    with Journal.create(path, START) as journal:
        journal.append(RECORDS[0])
        with pytest.raises(CodecError):
            journal.append(Record(1.0, (), Plan(wake_at=float("nan"))))
        with pytest.raises(CodecError):
            journal.append_many([RECORDS[1], Record(1.0, (), Plan(wake_at=float("nan")))])
        journal.append(RECORDS[2])
        assert list(journal.records()) == RECORDS[:3]


def test_second_writer_is_refused_and_the_first_goes_on(path: Path) -> None:
    with Journal.create(path, START) as first, Journal.open(path) as second:
        first.append(RECORDS[0])
        with pytest.raises(JournalError, match=r"record 0 cannot be written: .* somebody else"):
            second.append_many(RECORDS)
        with pytest.raises(JournalError, match="closed"):
            second.append(RECORDS[1])
        first.append(RECORDS[1])
        assert list(first.records()) == RECORDS[:2]


def test_time_that_is_no_number_is_refused(path: Path) -> None:
    journal = Journal.create(path, START)
    with pytest.raises(JournalError, match=r"record 0 cannot be written: NOT NULL"):
        journal.append(Record(float("nan"), (), Plan()))


def test_closed_journal_can_be_closed_again_but_not_used(written: Path) -> None:
    journal = Journal.open(written)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        list(journal.records())


def test_nothing_is_overwritten(written: Path) -> None:
    with pytest.raises(JournalError, match="there is a file already"):
        Journal.create(written, START)
    with Journal.open(written) as journal:
        assert len(journal) == 10


def test_journal_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no file can be made: No such file or directory"):
        Journal.create(tmp_path / "no" / "journal", START)


def test_journal_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    """A folder in the place of the write-ahead log keeps SQLite from making one."""
    path = tmp_path / "journal"
    (tmp_path / "journal-wal").mkdir()
    with pytest.raises(JournalError, match="no journal can be made"):
        Journal.create(path, START)
    assert not path.exists()


def test_journal_where_nothing_can_be_written_can_be_read(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Journal.open(written) as journal:
        assert list(journal.records()) == RECORDS[:10]
        assert list(written.parent.iterdir()) == [written]
        with pytest.raises(JournalError, match=r"record 10 cannot be written: .*readonly"):
            journal.append(RECORDS[10])


NO_JOURNAL = {
    "no file": (None, "there is no such file"),
    "empty file": (b"", "this is not a journal"),
    "text": (b"now,events,plan\n" * 100, "this is not a journal: file is not a database"),
}


@pytest.mark.parametrize(("content", "said"), NO_JOURNAL.values(), ids=NO_JOURNAL)
def test_file_that_is_no_journal_is_refused(path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JournalError, match=said) as caught:
        Journal.open(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_other_database_is_refused(path: Path) -> None:
    change(path, "CREATE TABLE records (id)")
    with pytest.raises(JournalError, match="this is not a journal"):
        Journal.open(path)


WRONG = {
    "newer format": (
        f"PRAGMA user_version = {FORMAT + 1}",
        f"its format is {FORMAT + 1}, and this release knows formats up to {FORMAT}",
    ),
    "no header": ("DELETE FROM header", "the header cannot be read"),
    "no table": ("DROP TABLE records", "the records cannot be read: no such table"),
    "header of something else": (
        """UPDATE header SET scenario = '{"nodes": [{}]}'""",
        r"the header cannot be read: nodes\[0\]: field 'name' is missing",
    ),
    "lost record": ("DELETE FROM records WHERE id = 4", "record 4 is missing"),
    "half a text": (
        "UPDATE records SET events = substr(events, 1, 20) WHERE id = 4",
        "record 4 cannot be read: ",
    ),
    "half a blob": (
        "UPDATE records SET plan = substr(plan, 1, 20) WHERE id = 5",
        "record 5 cannot be read: Error -5",
    ),
    "text of no known letters": (
        "UPDATE records SET plan = CAST(x'ff' AS TEXT) WHERE id = 4",
        "record 0 or one soon after it cannot be read: ",
    ),
    "not even text": ("UPDATE records SET plan = 5 WHERE id = 4", "record 4 cannot be read: "),
    "no time": ("UPDATE records SET now = 'x' WHERE id = 4", "record 4 cannot be read: expected"),
    "unknown event": (
        """UPDATE records SET events = '[{"kind": "surprise"}]' WHERE id = 4""",
        r"record 4 cannot be read: \[0\]: expected a kind of ",
    ),
    "bottomless": (
        f"UPDATE records SET events = '{'[' * 100_000}' WHERE id = 4",
        "record 4 cannot be read: ",
    ),
}


@pytest.mark.parametrize(("statement", "said"), WRONG.values(), ids=WRONG)
def test_damage_is_said_in_a_sentence(written: Path, statement: str, said: str) -> None:
    change(written, statement)
    found: list[Record] = []
    with pytest.raises(JournalError, match=said) as caught, Journal.open(written) as journal:
        found.extend(journal.records())
    assert str(caught.value).startswith(f"{written}: ")
    assert found == RECORDS[: len(found)]


def test_records_before_the_damage_can_be_read(written: Path) -> None:
    change(written, "UPDATE records SET plan = 5 WHERE id = 4")
    with Journal.open(written) as journal:
        reading = journal.records()
        assert [next(reading) for _ in range(4)] == RECORDS[:4]
        assert list(journal.records(first=5)) == RECORDS[5:10]


def test_examples_of_the_manual_run(written: Path) -> None:
    text = (Path(__file__).parents[1] / "docs/journal.md").read_text()
    for statement in "".join(re.findall(r"```sql\n(.*?)```", text, re.DOTALL)).split(";")[:-1]:
        with contextlib.closing(sqlite3.connect(written)) as db:
            assert db.execute(statement).fetchall()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(code.replace("FILE", str(written)), names)
    assert names["binds"] == [(each.now, each.plan.decisions[0].workload) for each in RECORDS[:10]]
    assert "9.1 2 1" in out.getvalue()

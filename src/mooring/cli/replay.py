"""`mooring replay`: a journal, fed in again."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.cli.show import Terminal, print_json, progress
from mooring.engine import Engine
from mooring.journal import Journal, JournalError
from mooring.sim.replay import MOST_DIFFERENCES, replay
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.sim.replay import Replay


def replay_file(path: str, *, as_json: bool) -> int:
    """Print how a journal replays; return the exit code."""
    with opened(path) as (source, journal), progress() as bar:
        task = bar.add_task("records", total=len(journal))
        try:
            result = replay(journal, Engine, lambda done: bar.update(task, completed=done))
        except JournalError:
            raise
        except Exception as error:
            # The recorded life ended this way too, or the engine that lived it was another one.
            where = ", ".join(getattr(error, "__notes__", ()))
            raise JournalError(f"{source}: the engine failed {where}: {error!r}") from error
    return _show(source, result, as_json=as_json)


@contextmanager
def opened(path: str) -> Iterator[tuple[str, Journal]]:
    """Give what a journal is called and the journal; - is standard input."""
    if path != "-":
        with _journal_at(Path(path)) as journal:
            yield path, journal
        return
    with tempfile.TemporaryDirectory() as folder:
        copy, source = Path(folder, "journal"), "standard input"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            with _journal_at(copy) as journal:
                yield source, journal
        except JournalError as error:
            raise JournalError(str(error).replace(str(copy), source)) from error


def _journal_at(path: Path) -> Journal:
    try:
        if path.is_dir():
            raise JournalError(f"{path}: this is a folder; give a file")
        return Journal.open(path)
    except OSError as error:
        raise JournalError(f"{path}: this cannot be read: {error.strerror}") from error


def _show(source: str, result: Replay, *, as_json: bool) -> int:
    if as_json:
        print_json(_as_data(result))
    else:
        _print_lines(source, result)
    return int(not result.is_same)


def _as_data(result: Replay) -> dict[str, object]:
    return {
        "same": result.is_same,
        "records": result.records,
        "decisions": result.decisions,
        "differences": [
            {"record": each.index, "now": each.now, "lines": list(each.lines)}
            for each in result.differences
        ],
    }


def _print_lines(source: str, result: Replay) -> None:
    console = Terminal()
    for each in result.differences:
        console.print(f"record {each.index}, at {each.now:g}:", style="bold")
        for line in each.lines:
            console.print(f"  {line}", style={"-": "red", "+": "green"}.get(line[0], ""))
    fed = f"{counted(result.records, 'record')}, {counted(result.decisions, 'decision')}"
    if result.is_same:
        console.print(f"{source}: {fed}, every plan as it was.")
        return
    count = len(result.differences)
    more = " or more: the replay ended there" if count == MOST_DIFFERENCES else ""
    console.print(f"{source}: {fed}, {counted(count, 'plan')} came out otherwise{more}.")

"""From a file, or its text, to what a reader makes of it: all mistakes at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mooring.config.parse import FILE_MOST, ParseError, parse
from mooring.config.reader import ConfigError, Cursor, EnoughError, Mistake, Notes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import BinaryIO

T = TypeVar("T")


def read_text(text: str, source: str, read: Callable[[Cursor], T]) -> T:
    """Return what `read` makes of a YAML or JSON text; raise `ConfigError` with all mistakes."""
    notes = Notes()
    try:
        values = parse(text)
        if values is None:
            raise ParseError("the file is empty")
        found = read(Cursor("", values, notes))
    except ParseError as error:
        where = f"line {error.line}" if error.line else ""
        raise ConfigError([Mistake("", where, error.problem)], source) from None
    except EnoughError:
        raise ConfigError(notes.mistakes, source) from None
    if notes.mistakes:
        raise ConfigError(notes.mistakes, source)
    return found


def load(path: str | os.PathLike[str], read: Callable[[Cursor], T]) -> T:
    """Return what `read` makes of a file."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_MOST + 1)
    except (FileNotFoundError, NotADirectoryError):
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "this is a folder; give a file"
    except OSError as error:
        problem = f"this cannot be read: {error.strerror or error}"
    except ValueError:
        problem = "give a path without null characters"
    else:
        return _read_bytes(data, str(path), read)
    raise ConfigError([Mistake("", "", problem)], str(path))


def read_from(file: BinaryIO, source: str, read: Callable[[Cursor], T]) -> T:
    """Return what `read` makes of an open file, of which no more is read than a file may have."""
    return _read_bytes(file.read(FILE_MOST + 1), source, read)


def _read_bytes(data: bytes, source: str, read: Callable[[Cursor], T]) -> T:
    if len(data) > FILE_MOST:
        problem = f"this is larger than {FILE_MOST >> 20} MiB; give less"
        raise ConfigError([Mistake("", "", problem)], source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError([Mistake("", "", "this is not text (UTF-8)")], source) from None
    return read_text(text, source, read)

"""Values that stand in a file as they stand in the journal: plain data, driven by type hints.

So a field that is added to the memory is read and written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.config.parse import DEPTH_MOST
from mooring.config.reader import ReadError
from mooring.config.units import text
from mooring.model.codec import CodecError, decode

if TYPE_CHECKING:
    from mooring.config.reader import Cursor

_DIGITS_MOST = 99


def read_coded(cursor: Cursor, hint: object, default: object) -> Any:
    """Return the value of the type `hint` that stands here; the default if it is a mistake."""
    mistakes = len(cursor.notes.mistakes)
    data: Any = _plain(cursor, 0)
    if len(cursor.notes.mistakes) > mistakes:
        return default
    try:
        return decode(hint, data)
    except CodecError as error:
        for step in reversed(error.steps):
            data = data[step]
        way = error.path if error.path.startswith("[") or not error.path else f".{error.path}"
        fix = error.problem.partition(", found ")[0].replace("expected ", "give ", 1)
        cursor.notes.add(cursor.path + way, data, fix)
        return default


def _plain(cursor: Cursor, depth: int) -> Any:
    """Return what stands here in the classes that JSON has; it may be huge, or contain itself."""
    if depth > DEPTH_MOST:
        cursor.wrong(f"nest lists and mappings at most {DEPTH_MOST} deep")
        return None
    match cursor.value:
        case dict():
            return {key: _plain(at, depth + 1) for at, key in cursor.entries().each_key()}
        case list():
            return [_plain(item, depth + 1) for item in cursor.items()]
        case str():
            return cursor.take(text, "")
        case _:
            return cursor.take(_scalar, None)


def _scalar(value: object) -> object:
    if isinstance(value, int) and abs(value) >= 10**_DIGITS_MOST:
        raise ReadError(f"give a number of at most {_DIGITS_MOST} digits")
    return value

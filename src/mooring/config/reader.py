"""A typed cursor over plain data that collects mistakes instead of stopping at the first.

A reader is a function from a plain value to what it stands for; it raises `ReadError` with the fix
in words. The cursor knows where it is, calls readers, writes mistakes down and goes on with a
default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from mooring.config.parse import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

T = TypeVar("T")

MISTAKES_MOST = 200
VALUES_MOST = 5_000_000
"""How many values are read at most, so that aliases of aliases cannot go on for ever."""


TEXT_MOST = 1000
"""Characters of one key, name, label or other text."""
WORDS_MOST = 2000
"""How many words are compared to find the nearest."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong: where, what is there, and what to do."""

    path: str
    value: str
    fix: str

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.path or "the file", self.value, self.fix]))


class ConfigError(Exception):
    """A file that cannot be used, with all its mistakes."""

    of = "scenario"
    """What it is where no file is named."""

    def __init__(self, mistakes: Iterable[Mistake], source: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.source = source
        super().__init__(self.mistakes, source)

    def __str__(self) -> str:
        count = len(self.mistakes)
        head = f"{self.source or self.of}: {count} mistake{'s' * (count != 1)}"
        return "\n  ".join([head, *map(str, self.mistakes)])


class ReadError(Exception):
    """A value that a reader does not take; carries the fix."""


class EnoughError(Exception):
    """So much is wrong, or so much is there, that reading on is of no use."""


class Notes:
    """The mistakes found so far, and a count of what was read."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._values = 0

    def add(self, path: str, value: object, fix: str) -> None:
        """Write a mistake down."""
        self.mistakes.append(Mistake(path, show(value), fix))
        if len(self.mistakes) >= MISTAKES_MOST:
            raise EnoughError

    def count(self, path: str, values: int) -> None:
        """Count values that are about to be read."""
        self._values += values
        if self._values > VALUES_MOST:
            fix = f"make the file smaller: at most {VALUES_MOST} values are read, aliases expanded"
            self.add(path, self._values, fix)
            raise EnoughError


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the file."""

    path: str
    value: object
    notes: Notes

    def wrong(self, fix: str) -> None:
        """Write down that this value is a mistake."""
        self.notes.add(self.path, self.value, fix)

    def take(self, read: Callable[[object], T], default: T) -> T:
        """Return what `read` makes of the value; the default if it is a mistake."""
        try:
            return read(self.value)
        except ReadError as error:
            self.wrong(str(error))
            return default

    def items(self) -> list[Cursor]:
        """Return a cursor for each item of this list."""
        if not isinstance(self.value, list):
            self.wrong("give a list")
            return []
        self.notes.count(self.path, len(self.value))
        return [Cursor(f"{self.path}[{i}]", v, self.notes) for i, v in enumerate(self.value)]

    def fields(self, keys: Collection[str]) -> Fields:
        """Return the fields of this mapping; keys that are not among `keys` are mistakes."""
        fields = self._mapping()
        for key in fields.values:
            if key not in keys:
                near = nearest(key, keys)
                fields.wrong(key, f"unknown key{near}" if near else "remove it: unknown key")
        return fields

    def entries(self) -> Fields:
        """Return the fields of this mapping, whatever the keys are."""
        fields = self._mapping()
        for key in fields.values:
            if not key or len(key) > TEXT_MOST or not key.isprintable():
                fields.wrong(key, f"give a key of 1 to {TEXT_MOST} printable characters")
        return fields

    def _mapping(self) -> Fields:
        if not isinstance(self.value, Table):
            self.wrong("give a mapping (key: value)")
            return Fields(self, {})
        self.notes.count(self.path, len(self.value))
        fields = Fields(self, self.value)
        for key in self.value.repeated:
            fields.wrong(key, "give the key once: it is here twice")
        return fields


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping in the file, read key by key."""

    cursor: Cursor
    values: dict[str, object]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def each_key(self) -> Iterator[tuple[Cursor, str]]:
        """Yield every key that is there, and its place."""
        return ((self.at(key), key) for key in self.values)

    def pairs(self, key: str, read: Callable[[object], T]) -> tuple[tuple[str, T], ...]:
        """Return the entries of the mapping at `key`, ordered by key, without the mistakes."""
        if key not in self.values:
            return ()
        read_all = [(k, at.take(_some(read), None)) for at, k in self.at(key).entries().each_key()]
        return tuple(sorted((k, value[0]) for k, value in read_all if value is not None))

    def at(self, key: str) -> Cursor:
        """Return the place of a key."""
        return Cursor(_step(self.cursor.path, key), self.values.get(key), self.cursor.notes)

    def wrong(self, key: str, fix: str) -> None:
        """Write down that what stands at `key` is a mistake; of no mapping nothing is missing."""
        if key in self.values:
            self.at(key).wrong(fix)
        elif isinstance(self.cursor.value, Table):
            self.cursor.notes.add(_step(self.cursor.path, key), NOTHING, fix)

    def take(self, key: str, read: Callable[[object], T], default: T) -> T:
        """Return what stands at `key`; the default if nothing does, or a mistake."""
        return self.at(key).take(read, default) if key in self.values else default

    def need(self, key: str, read: Callable[[object], T], default: T) -> T:
        """Return what stands at `key`; nothing is a mistake."""
        if key not in self.values:
            self.wrong(key, "give it: it is needed")
        return self.take(key, read, default)

    def items(self, key: str) -> list[Cursor]:
        """Return a cursor for each item of the list at `key`; none if nothing is there."""
        return self.at(key).items() if key in self.values else []

    def each(self, key: str, read: Callable[[object], T]) -> tuple[T, ...]:
        """Return what `read` makes of each item at `key`, without the mistakes."""
        read_all = (item.take(_some(read), None) for item in self.items(key))
        return tuple(item[0] for item in read_all if item is not None)


def _some(read: Callable[[object], T]) -> Callable[[object], tuple[T] | None]:
    return lambda value: (read(value),)


_WORD = re.compile(r"[\w-]+")


def _step(path: str, key: str) -> str:
    if not _WORD.fullmatch(key):
        return f"{path}[{show(key)}]"
    return f"{path}.{key}" if path else key


class _Nothing:
    """What is shown where nothing stands."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


def show(value: object, depth: int = 2) -> str:
    """Return a value in at most a few words: it may be huge, or contain itself."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= 60 else value[:60] + "…")
        case int() if abs(value) >= 1 << 64:
            return "a huge number"
        case list() | dict() if not value:
            return "[]" if isinstance(value, list) else "{}"
        case list() | dict() if depth == 0:
            return "[…]" if isinstance(value, list) else "{…}"
        case list():
            some = [show(item, depth - 1) for item in value[:4]]
            return f"[{', '.join(some + ['…'] * (len(value) > 4))}]"
        case dict():
            first = islice(value.items(), 4)
            pairs = [f"{show(k)}: {show(v, depth - 1)}" for k, v in first]
            return f"{{{', '.join(pairs + ['…'] * (len(value) > 4))}}}"
        case _:
            return repr(value)


def nearest(word: str, words: Iterable[str]) -> str:
    """Return `; did you mean …?` if one of `words` is close to `word`, else nothing."""
    known = {known.lower(): known for known in islice(words, WORDS_MOST)}
    close = get_close_matches(word[:100].lower(), known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else ""

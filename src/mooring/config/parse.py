"""Text to plain values: JSON, or YAML read safely.

YAML is built from parser events without recursion, by the rules of YAML 1.2: `true`, `false`,
`null` and numbers are what JSON has, everything else is text, and keys are always text. Aliases
share one value, and may make it contain itself; whoever walks the values must bound the walk.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_MOST = 64 << 20
"""Characters (and bytes) in a file."""
DEPTH_MOST = 64
"""Lists and mappings in each other, in YAML."""
REPEATED_MOST = 20
"""Keys given twice that one mapping remembers."""
MERGED_MOST = 1_000_000
"""Keys copied by `<<` in one file."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_WORDS: dict[str, object] = {
    "": None,
    **dict.fromkeys(["~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf"], float("inf")),
    "-.inf": float("-inf"),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
}
_TEXT_TAG = "tag:yaml.org,2002:str"


class ParseError(Exception):
    """Text that is neither JSON nor YAML; line 0: unknown."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


class Table(dict[str, object]):
    """A mapping that remembers keys given more than once."""

    repeated: tuple[str, ...] = ()

    def put(self, key: str, value: object) -> None:
        """Set a key; of two values the first one stays."""
        if key not in self:
            self[key] = value
        elif key not in self.repeated and len(self.repeated) < REPEATED_MOST:
            self.repeated = (*self.repeated, key)


def parse(text: str) -> object:
    """Return the plain values of a JSON or YAML text."""
    if len(text) > FILE_MOST:
        raise ParseError(f"the text is longer than {FILE_MOST >> 20} MiB")
    text = text.removeprefix("\ufeff")
    if not text.lstrip().startswith("{"):
        return _parse_yaml(text)
    try:
        return json.loads(text, object_pairs_hook=_table)
    except json.JSONDecodeError as error:
        return _parse_braces(text, ParseError(f"correct the JSON: {error.msg}", error.lineno))
    except RecursionError:
        raise ParseError("lists and mappings are nested too deeply") from None
    except ValueError:
        raise ParseError("a number has too many digits") from None


def _parse_braces(text: str, error_of_json: ParseError) -> object:
    """Return the values of YAML that looked like JSON; if it is neither, say what JSON said."""
    try:
        return _parse_yaml(text)
    except ParseError:
        raise error_of_json from None


def _table(pairs: list[tuple[str, object]]) -> Table:
    table = Table(pairs)
    if len(table) < len(pairs):
        table.clear()
        for key, value in pairs:
            table.put(key, value)
    return table


def _parse_yaml(text: str) -> object:
    builder = _Builder()
    try:
        for event in _events(text):
            builder.observe(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it is no YAML"
        raise ParseError(f"correct the YAML: {problem}", mark.line + 1 if mark else 0) from None
    except yaml.YAMLError as error:
        raise ParseError(f"correct the YAML: {' '.join(str(error).split())}") from None
    except UnicodeError:
        raise ParseError("the text has characters that are none") from None
    return builder.root


def _events(text: str) -> Iterator[yaml.Event]:
    return iter(yaml.parse(text, Loader=LOADER))


def resolve(text: str) -> object:
    """Return what an unquoted YAML scalar stands for: a number, true, false, null, or text."""
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text) and len(text) < 100:
        return int(text)
    return float(text)


class _Merge(Enum):
    """What an unquoted `<<` is where a key is expected."""

    KEY = 0


class _Builder:
    """Builds values from events. Containers are shared as they are, so aliases cost nothing."""

    def __init__(self) -> None:
        self.root: object = None
        self._documents = 0
        self._anchors: dict[str, object] = {}
        self._open: list[list[object] | Table] = []
        self._keys: list[str | _Merge | None] = []
        """Of each open container, the key that waits for its value."""
        self._merges: list[list[object]] = []
        """Of each open container, what `<<` names."""
        self._merged = 0

    def observe(self, event: yaml.Event) -> None:
        """Take the next event in."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.SequenceStartEvent():
                self._start(event, [])
            case yaml.MappingStartEvent():
                self._start(event, Table())
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end(event)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise _at(event, f"the alias *{event.anchor} has no anchor")
                self._add(event, self._anchors[event.anchor])
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _at(event, "there is a second document; give one")
            case _:  # the ends of documents and of the stream say nothing
                pass

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if event.tag not in (None, "!", _TEXT_TAG):
            raise _at(event, f"the tag {event.tag[:60]!r} is not known; remove it")
        is_key = bool(self._open) and isinstance(self._open[-1], Table) and self._keys[-1] is None
        is_plain = event.implicit[0] and event.tag is None
        value = resolve(event.value) if is_plain and not is_key else event.value
        if is_plain and is_key and value == "<<":
            self._keys[-1] = _Merge.KEY
            return
        if event.anchor:
            self._anchors[event.anchor] = value
        self._add(event, value)

    def _start(self, event: yaml.CollectionStartEvent, container: list[object] | Table) -> None:
        if event.tag not in (None, "!"):
            raise _at(event, f"the tag {event.tag[:60]!r} is not known; remove it")
        if len(self._open) >= DEPTH_MOST:
            raise _at(event, f"lists and mappings are nested more than {DEPTH_MOST} deep")
        if event.anchor:
            self._anchors[event.anchor] = container
        self._add(event, container)
        self._open.append(container)
        self._keys.append(None)
        self._merges.append([])

    def _end(self, event: yaml.Event) -> None:
        table = self._open.pop()
        self._keys.pop()
        for source in self._merges.pop():
            self._merge(event, table, source)

    def _merge(self, event: yaml.Event, table: object, source: object) -> None:
        """Copy keys that are not there yet, as `<<` asks."""
        for one in source if isinstance(source, list) else [source]:
            if not isinstance(one, Table) or not isinstance(table, Table):
                raise _at(event, "give a mapping, or a list of mappings, to <<")
            self._merged += len(one)
            if self._merged > MERGED_MOST:
                raise _at(event, f"<< copies more than {MERGED_MOST} keys")
            for key, value in list(one.items()):
                table.setdefault(key, value)

    def _add(self, event: yaml.Event, value: object) -> None:
        """Put a value where the document stands."""
        if not self._open:
            self.root = value
            return
        container, key = self._open[-1], self._keys[-1]
        if isinstance(container, list):
            container.append(value)
        elif key is None:
            if not isinstance(value, str):
                raise _at(event, "a key must be text")
            self._keys[-1] = value
        else:
            self._keys[-1] = None
            if key is _Merge.KEY:
                self._merges[-1].append(value)
            else:
                container.put(key, value)


def _at(event: yaml.Event, problem: str) -> ParseError:
    return ParseError(problem, event.start_mark.line + 1 if event.start_mark else 0)

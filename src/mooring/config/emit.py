"""Plain values to YAML text: what fits on a line on one line, the rest indented."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from mooring.config.parse import resolve
from mooring.config.units import say_number

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTH = 100
_PLAIN = re.compile(r"\w[\w./-]*", re.ASCII)
_NUMBER_LIKE = re.compile(r"[0-9][0-9_.eE+-]*|0x[0-9a-fA-F_]+|0o[0-7]+")
_BOOLEANS_OF_OLD = frozenset(("y", "n", "yes", "no", "on", "off"))


def emit(sections: Mapping[str, object]) -> str:
    """Return a mapping as a YAML document, each key a section of its own."""
    return "".join(_section(key, value) for key, value in sections.items())


def _section(key: str, value: object) -> str:
    """Return one top-level key; each item of a list begins a line of its own."""
    if not isinstance(value, list | dict) or not value:
        return f"{key}: {_flow(value)}\n"
    return f"{key}:\n" + _block(value, 2)


def _block(value: list[object] | dict[str, object], indent: int) -> str:
    """Return a list or mapping over several lines."""
    space = " " * indent
    if isinstance(value, dict):
        return "".join(f"{space}{_text(k)}:{_below(v, indent, len(k))}" for k, v in value.items())
    return "".join(f"{space}-{_item(item, indent)}" for item in value)


def _item(value: object, indent: int) -> str:
    """Return an item of a list, after its dash."""
    flow = _flow(value)
    if indent + 2 + len(flow) <= WIDTH or not isinstance(value, list | dict):
        return f" {flow}\n"
    return " " + _block(value, indent + 2).lstrip()


def _below(value: object, indent: int, key_width: int) -> str:
    """Return the value of a key, after its colon."""
    flow = _flow(value)
    if indent + key_width + 2 + len(flow) <= WIDTH or not isinstance(value, list | dict):
        return f" {flow}\n"
    return "\n" + _block(value, indent + 2)


def _flow(value: object) -> str:
    """Return a value on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case float():
            return _number(value)
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case dict():
            return f"{{{', '.join(f'{_text(k)}: {_flow(v)}' for k, v in value.items())}}}"
        case _:
            return str(value)


def _number(value: float) -> str:
    """Return a number that older YAML takes for one too: with a point before the exponent."""
    words = str(say_number(value))
    return re.sub(r"^(-?[0-9]+)e", r"\1.0e", words)


def _text(value: str) -> str:
    """Return a text, quoted where YAML, new or old, could take it for something else."""
    is_plain = (
        _PLAIN.fullmatch(value)
        and isinstance(resolve(value), str)
        and not _NUMBER_LIKE.fullmatch(value)
        and value.lower() not in _BOOLEANS_OF_OLD
    )
    return value if is_plain else json.dumps(value, ensure_ascii=False)

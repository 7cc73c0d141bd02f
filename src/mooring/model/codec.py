"""Values of the model as plain JSON data, and back, driven by their type hints.

A dataclass is an object without the fields that equal their default, so that records stay small
and old ones stay readable when a field with a default is added. A class of a closed union carries
its `kind`. A tuple is a list, an enum its name in lower case, an infinite number `"inf"` or
`"-inf"`. What a class needs is worked out once. Pure: turning data into text is for the caller.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from itertools import repeat
from math import isfinite
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from mooring.model.events import Event
from mooring.model.plan import Decision, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import Field

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

T = TypeVar("T")

_KIND = "kind"
_TAGGED = frozenset(member for union in (Event, Decision, Reason) for member in get_args(union))
_INFINITE = {"inf": float("inf"), "-inf": float("-inf")}


class CodecError(ValueError):
    """Data that is not what it should be, and where: `workload.groups[0].min: expected …`."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str | int] = []
        """The way to it, innermost first."""

    @property
    def path(self) -> str:
        """Return where it is; empty: the whole."""
        steps = (f"[{s}]" if isinstance(s, int) else f".{s}" for s in reversed(self.steps))
        return "".join(steps).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.steps else self.problem


def encode(value: object, *, full: bool = False) -> dict[str, Json]:
    """Return a dataclass of the model as plain data; `full`: with the defaults written out."""
    class_: Any = type(value)
    data: dict[str, Json] = _fields(class_, full).encode(value)
    return data


@overload
def decode(type_: type[T], data: object) -> T: ...
@overload
def decode(type_: object, data: object) -> Any: ...  # a union
def decode(type_: object, data: object) -> object:
    """Return the value of `type_` (a class, a union, a tuple of them) that `data` stands for."""
    try:
        return _codec(type_, full=False).decode(data)
    except RecursionError:
        raise CodecError("groups are nested too deeply") from None


class _Codec(NamedTuple):
    """Both ways for one type hint. Without `encode` a value is its own data.

    `Any` here and below: values are of whatever type the hint says, and mypy cannot know.
    """

    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any]


@cache
def _codec(hint: Any, full: bool) -> _Codec:
    """Return the codec of a type hint."""
    origin = get_origin(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        both = _fields(hint, full)
        return _Codec(both.encode, both.decode)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if origin is tuple and get_args(hint)[1:] == (...,):
        return _items(_codec(get_args(hint)[0], full))
    if origin is tuple:
        return _row([_codec(part, full) for part in get_args(hint)])
    if origin in (Union, UnionType):
        return _union(get_args(hint), full)
    raise TypeError(f"the codec knows no {hint}")


def _expected(what: str, data: object) -> CodecError:
    found = repr(data)
    return CodecError(f"expected {what}, found {found if len(found) <= 60 else found[:60] + '…'}")


def _plain(class_: type, what: str) -> _Codec:
    """Make the codec of a class that JSON has too."""

    def decode(data: object) -> object:
        if type(data) is class_:
            return data
        raise _expected(what, data)

    return _Codec(None, decode)


def _encode_float(value: float) -> float | str:
    if isfinite(value):
        return value
    if value != value:
        raise CodecError("nan is no number")
    return "inf" if value > 0 else "-inf"


def _decode_float(data: object) -> float:
    if type(data) is float and isfinite(data):
        return data
    if type(data) is int and abs(data) < 1 << 1023:
        return float(data)
    if type(data) is str and data in _INFINITE:
        return _INFINITE[data]
    raise _expected("a number", data)


_PLAIN: dict[object, _Codec] = {
    int: _plain(int, "a whole number"),
    str: _plain(str, "a text"),
    bool: _plain(bool, "true or false"),
    float: _Codec(_encode_float, _decode_float),
}
_CLASS_OF = {_PLAIN[class_].decode: class_ for class_ in (int, str, bool)}


def _enum(enum: type[Enum]) -> _Codec:
    """Make the codec of an enum: the names in lower case."""
    name_of = {member: member.name.lower() for member in enum}
    member_of = {name: member for member, name in name_of.items()}

    def decode(data: object) -> Enum:
        if type(data) is str and data in member_of:
            return member_of[data]
        raise _expected(f"one of {', '.join(member_of)}", data)

    return _Codec(name_of.__getitem__, decode)


def _items(item: _Codec) -> _Codec:
    """Make the codec of a tuple of any length. Plain items cost nothing each."""
    item_encode, item_decode = item
    class_ = _CLASS_OF.get(item_decode)

    def encode(value: tuple[Any, ...]) -> list[Any]:
        return list(value) if item_encode is None else list(map(item_encode, value))

    def decode(data: object) -> tuple[Any, ...]:
        if type(data) is not list:
            raise _expected("a list", data)
        if class_ and set(map(type, data)) <= {class_}:
            return tuple(data)
        return _decode_each(repeat(item_decode, len(data)), data)

    return _Codec(encode, decode)


def _row(parts: list[_Codec]) -> _Codec:
    """Make the codec of a tuple of fixed length, such as a pair."""
    encodes = [part.encode or _same for part in parts]
    decodes = [part.decode for part in parts]
    is_plain = all(part.encode is None for part in parts)

    def encode(value: tuple[Any, ...]) -> list[Any]:
        return [each(item) for each, item in zip(encodes, value, strict=True)]

    def decode(data: object) -> tuple[Any, ...]:
        if type(data) is not list or len(data) != len(decodes):
            raise _expected(f"a list of {len(decodes)}", data)
        return _decode_each(decodes, data)

    return _Codec(list if is_plain else encode, decode)


def _decode_each(decodes: Iterable[Callable[[Any], Any]], data: list[Any]) -> tuple[Any, ...]:
    """Return every item of `data` decoded by its own decoder."""
    items: list[Any] = []
    try:
        for decode, given in zip(decodes, data, strict=True):
            items.append(decode(given))
    except CodecError as error:
        error.steps.append(len(items))
        raise
    return tuple(items)


def _same(value: Any) -> Any:
    return value


def _union(members: tuple[Any, ...], full: bool) -> _Codec:
    """Make the codec of `X | None`, of a closed union, or of both."""
    some = [member for member in members if member is not NoneType]
    inner = _codec(some[0], full) if len(some) == 1 else _closed_union(some, full)
    if len(some) == len(members):
        return inner
    inner_encode, inner_decode = inner

    def encode(value: Any) -> Any:
        return None if value is None else inner_encode(value) if inner_encode else value

    def decode(data: object) -> Any:
        return None if data is None else inner_decode(data)

    return _Codec(encode, decode)


def _closed_union(members: list[Any], full: bool) -> _Codec:
    """Make the codec of a closed union: the kind says which class it is."""
    if not _TAGGED.issuperset(members):
        raise TypeError(f"{members} belong to no closed union that the codec knows")
    by_class = {class_: _fields(class_, full).encode for class_ in members}
    by_kind = {_kind(class_): _fields(class_, full).decode for class_ in members}

    def encode(value: Any) -> Any:
        return by_class[type(value)](value)

    def decode(data: object) -> Any:
        kind = data.get(_KIND) if type(data) is dict else None
        if type(kind) is not str or kind not in by_kind:
            raise _expected(f"a {_KIND} of {', '.join(by_kind)}", data)
        return by_kind[kind](data)

    return _Codec(encode, decode)


def _kind(class_: type) -> str:
    """Return the tag of a class: NodeJoined is node-joined."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", class_.__name__).lower()


class _Fields:
    """The codec of one dataclass. Its fields are worked out at first use: they may lead back."""

    def __init__(self, class_: type[Any], full: bool) -> None:
        if not is_dataclass(class_):
            raise TypeError(f"{class_} is no dataclass")
        self._class: type[Any] = class_
        self._full = full
        self._kind = _kind(class_) if class_ in _TAGGED else ""

    def encode(self, value: Any) -> dict[str, Any]:
        """Return `value` as an object."""
        data = {_KIND: self._kind} if self._kind else {}
        for name, encode in self._always:
            item = getattr(value, name)
            data[name] = item if encode is None else encode(item)
        for name, default, encode in self._sometimes:
            item = getattr(value, name)
            if item is not default and item != default:
                data[name] = item if encode is None else encode(item)
        return data

    def decode(self, data: object) -> Any:
        """Return the value that the object `data` stands for."""
        if type(data) is not dict:
            raise _expected("an object", data)
        given = {}
        decode_of = self._decode_of
        for name, item in data.items():
            if name not in decode_of:
                raise CodecError(f"unknown field {name!r}")
            try:
                given[name] = decode_of[name](item)
            except CodecError as error:
                error.steps.append(name)
                raise
        missing = [name for name in self._needed if name not in given]
        if missing:
            raise CodecError(f"field {missing[0]!r} is missing")
        if self._kind:
            given.pop(_KIND, None)
        try:
            return self._class(**given)
        except ValueError as error:
            raise CodecError(str(error)) from error

    @cached_property
    def _fields(self) -> list[tuple[str, Any, _Codec]]:
        """Name, default and codec of every public field."""
        hints = get_type_hints(self._class)
        public = [f for f in fields(self._class) if f.init and not f.name.startswith("_")]
        if self._kind and _KIND in hints:
            raise TypeError(f"{self._class} may have no field {_KIND!r}: that is its tag")
        return [(f.name, _default(f), _codec(hints[f.name], self._full)) for f in public]

    @cached_property
    def _always(self) -> list[tuple[str, Callable[[Any], Any] | None]]:
        """Name and encoder of what is written in any case."""
        return [(n, codec.encode) for n, d, codec in self._fields if d is MISSING or self._full]

    @cached_property
    def _sometimes(self) -> list[tuple[str, Any, Callable[[Any], Any] | None]]:
        """Name, default and encoder of what is written if it differs."""
        if self._full:
            return []
        return [(n, d, codec.encode) for n, d, codec in self._fields if d is not MISSING]

    @cached_property
    def _needed(self) -> list[str]:
        return [name for name, default, _ in self._fields if default is MISSING]

    @cached_property
    def _decode_of(self) -> dict[str, Callable[[Any], Any]]:
        decode_of = {name: codec.decode for name, _, codec in self._fields}
        return {_KIND: self._decode_kind, **decode_of} if self._kind else decode_of

    def _decode_kind(self, data: object) -> object:
        if data != self._kind:
            raise _expected(f"{self._kind!r}", data)
        return data


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@cache
def _fields(class_: type[Any], full: bool) -> _Fields:
    """Return the codec of a dataclass, always the same one."""
    return _Fields(class_, full)

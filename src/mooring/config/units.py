"""Readers of single values, and the words that dumps use for them.

Quantities are written as in Kubernetes (`500m`, `64Gi`), durations as `1d12h`, `30m` or seconds.
Each reader takes a plain value and raises `ReadError` with the fix.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from mooring.config.reader import TEXT_MOST, ReadError, nearest, show
from mooring.model.cluster import WHOLE
from mooring.model.resources import CPU, GPU, MEMORY, PODS, PORT, amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mooring.config.reader import Fields
    from mooring.model.resources import Amounts

AMOUNT_MOST = 1 << 40
COUNT_MOST = 1_000_000

MIB = 1 << 20
UNLIMITED_WORD = "unlimited"
NEVER_WORD = "never"
_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
QUANTITY = r"([0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE]([-+]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)"
DURATION = r"([0-9]{1,15}d)?([0-9]{1,15}h)?([0-9]{1,15}m)?([0-9]{1,15}s)?"
_QUANTITY = re.compile(QUANTITY)
_CORES = 'cores, like 8 or "500m"'
_BYTES = 'bytes, like "64Gi" or "512Mi"'
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ReadError("give true or false")
    return value


def text(value: object) -> str:
    """Read a text, which may be empty."""
    if isinstance(value, int) and abs(value) < 1 << 64:
        raise ReadError(f'give a text, in quotes: write "{show(value)}"')
    if isinstance(value, int | float):
        raise ReadError("give a text: put it in quotes")
    if not isinstance(value, str):
        raise ReadError("give a text")
    if len(value) > TEXT_MOST:
        raise ReadError(f"give a shorter text: at most {TEXT_MOST} characters")
    if not value.isprintable():
        raise ReadError("give a text of printable characters on one line")
    return value


def name(value: object) -> str:
    """Read a text that is not empty."""
    if not text(value):
        raise ReadError("give a name that is not empty")
    return text(value)


def one_of(words: Collection[str]) -> Callable[[object], str]:
    """Make a reader of one of these words."""

    def read(value: object) -> str:
        if text(value) not in words:
            known = ", ".join(map(repr, words))
            raise ReadError(f"give one of {known}{nearest(text(value), words)}")
        return text(value)

    return read


def whole(least: int = 0, most: int = COUNT_MOST) -> Callable[[object], int]:
    """Make a reader of a whole number between two bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ReadError("give a whole number")
        if not least <= value <= most:
            raise ReadError(f"give a whole number from {least} to {most}")
        return value

    return read


def number(least: float = -AMOUNT_MOST, most: float = AMOUNT_MOST) -> Callable[[object], float]:
    """Make a reader of a number between two bounds."""

    def read(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ReadError("give a number")
        if not least <= value <= most:
            raise ReadError(f"give a number from {_say_end(least)} to {_say_end(most)}")
        return float(value)

    return read


def _say_end(end: float) -> str:
    """Return an end of a range; the largest amount is told as the manual tells it."""
    if abs(end) != AMOUNT_MOST:
        return f"{end:g}"
    return f"{'-' * (end < 0)}2^{AMOUNT_MOST.bit_length() - 1}"


instant = number()


def duration(value: object) -> float:
    """Read seconds, or a text like `1d12h`, `30m`, `90s`."""
    if value.startswith("-") if isinstance(value, str) else _is_negative(value):
        raise ReadError("give a duration, like 90s or 2h, not negative")
    if not isinstance(value, str):
        return _seconds(value)
    if not value or not re.fullmatch(DURATION, value):
        raise ReadError('give seconds, or a duration like "2h", "30m" or "1d12h"')
    parts = re.findall(r"([0-9]+)([dhms])", value)
    return _seconds(sum(int(count) * _SECONDS[unit] for count, unit in parts))


def positive(value: object) -> float:
    """Read a number above 0."""
    found = number(0)(value)
    if not found:
        raise ReadError("give a number above 0")
    return found


def positive_duration(value: object) -> float:
    """Read a duration longer than nothing."""
    seconds = duration(value)
    if seconds <= 0:
        raise ReadError("give a duration longer than 0")
    return seconds


def grace(value: object) -> float:
    """Read a duration, or -1 or `never` for one without end: negative."""
    if value == NEVER_WORD or (value == -1 and not isinstance(value, bool)):
        return -1.0
    try:
        return duration(value)
    except ReadError as error:
        raise ReadError(f"{error}, or {NEVER_WORD}") from None


def _is_negative(value: object) -> bool:
    return isinstance(value, int | float) and value < 0


def _seconds(value: object) -> float:
    try:
        return number(0)(value)
    except ReadError as error:
        raise ReadError(f"{error}, in seconds") from None


def cores(value: object) -> int:
    """Read CPU cores as millicores, rounded up: `8`, `0.5`, `500m`."""
    return _amount(_quantity(value, _CORES) * 1000)


def mebibytes(value: object) -> int:
    """Read bytes as MiB, rounded up: `64Gi`, `512Mi`, `1000000`."""
    return _amount(_quantity(value, _BYTES) / MIB)


def some_mebibytes(value: object) -> int:
    """Read bytes as MiB, more than none."""
    amount = mebibytes(value)
    if not amount:
        raise ReadError("give more than 0")
    return amount


def units(value: object) -> int:
    """Read a whole amount of any other resource: `8`, `1Gi`."""
    return _amount(_whole_quantity(value))


def _whole_quantity(value: object) -> Fraction:
    amount = _quantity(value, "a whole number, like 8")
    if amount.denominator != 1:
        raise ReadError("give a whole number")
    return amount


def _amount(exact: Fraction) -> int:
    if exact > AMOUNT_MOST:
        raise ReadError("give less: it is more than any node can have")
    return ceil(exact)


def _quantity(value: object, what: str) -> Fraction:
    """Return the exact number that a quantity stands for."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ReadError(f"give {what}")
    if isinstance(value, int) and value >= 0:
        return Fraction(value)
    parts = _QUANTITY.fullmatch(value if isinstance(value, str) else repr(value))
    if not parts:
        is_less = value.startswith("-") if isinstance(value, str) else value < 0
        raise ReadError(f"give {what}{', not less than 0' if is_less else ''}")
    digits, exponent, suffix = parts.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return Fraction(digits) * scale


def bound(resource: str) -> Callable[[object], int | None]:
    """Make a reader of an amount of a resource, rounded down, or of no bound: none.

    CPU is read in cores, memory in bytes, devices in whole ones and parts of them.
    """

    def read(value: object) -> int | None:
        if value == UNLIMITED_WORD or (value == -1 and not isinstance(value, bool)):
            return None
        try:
            amount = _exact(resource, value)
        except ReadError as error:
            raise ReadError(f"{error}; or {UNLIMITED_WORD}") from None
        if amount > AMOUNT_MOST:
            raise ReadError(f"give less, or {UNLIMITED_WORD}: it is more than any cluster can have")
        return floor(amount)

    return read


def _exact(resource: str, value: object) -> Fraction:
    """Return an amount in the unit that it is counted in."""
    if resource == CPU:
        return _quantity(value, _CORES) * 1000
    if resource == MEMORY:
        return _quantity(value, _BYTES) / MIB
    if resource == GPU:
        return _quantity(value, "devices, like 8 or 0.5") * WHOLE
    return _whole_quantity(value)


def say_bound(resource: str, amount: int | None) -> int | float | str:
    """Return an amount as `bound` reads it."""
    if amount is None:
        return UNLIMITED_WORD
    if resource == CPU:
        return say_cores(amount)
    if resource == MEMORY:
        return say_mebibytes(amount)
    return say_number(amount / WHOLE) if resource == GPU else amount


def read_amounts(fields: Fields) -> Amounts:
    """Read `cpu`, `memory` and `resources` of a node or a task."""
    given = {CPU: fields.take("cpu", cores, 0), MEMORY: fields.take("memory", mebibytes, 0)}
    if "resources" not in fields:
        return amounts(given)
    for cursor, resource in fields.at("resources").entries().each_key():
        if resource in (CPU, MEMORY, PODS):
            cursor.wrong(f"remove it here: {resource} is no key of resources, but stands beside it")
        elif resource == GPU or resource.startswith(PORT):
            cursor.wrong(f"remove it here: give `{'gpus' if resource == GPU else 'ports'}`")
        else:
            given[resource] = cursor.take(units, 0)
    return amounts(given)


def say_cores(millicores: int) -> int | str:
    """Return millicores as `cores` reads them."""
    return f"{millicores}m" if millicores % 1000 else millicores // 1000


def say_mebibytes(amount: int) -> int | str:
    """Return MiB as `mebibytes` reads them."""
    for suffix, size in (("Ti", 1 << 20), ("Gi", 1 << 10)):
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return f"{amount}Mi" if amount else 0


def say_number(value: float) -> int | float:
    """Return a number without a needless fraction."""
    return int(value) if value == int(value) else value


def say_duration(seconds: float) -> int | float | str:
    """Return seconds as `duration` reads them."""
    if seconds < 60 or seconds != int(seconds):
        return say_number(seconds)
    words, rest = "", int(seconds)
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        words += f"{count}{unit}" if count else ""
    return words

"""Many names or numbers in few characters: `node-[000-015]`, `0-3,7`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)", re.DOTALL)


def fold_numbers(numbers: Iterable[int], width: int = 0) -> str:
    """Return numbers as ranges, each written with at least `width` digits."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(f"{end:0{width}}" for end in run) for run in runs)


def fold_names(names: Iterable[str]) -> str:
    """Return names as ranges over the last number in them, in order of name and number."""
    families: dict[tuple[str, str], dict[str, int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match:
            families.setdefault((match[1], match[3]), {})[match[2]] = int(match[2])
        else:
            plain.append(name)
    folded = [part for ends, digits in families.items() for part in _family(*ends, digits)]
    return ",".join([*plain, *folded])


def _family(head: str, tail: str, digits: dict[str, int]) -> list[str]:
    """Fold names that differ in one number; padded numbers fold with those of their width."""
    padded = any(text[0] == "0" and len(text) > 1 for text in digits)
    widths = sorted({len(text) for text in digits}) if padded else [0]
    parts = []
    for width in widths:
        numbers = [number for text, number in digits.items() if width in (0, len(text))]
        ranges = fold_numbers(numbers, width)
        parts.append(f"{head}{ranges if len(numbers) == 1 else f'[{ranges}]'}{tail}")
    return parts

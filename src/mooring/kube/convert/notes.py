"""Where mistakes are written down while an object is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mooring.kube.problems import Problem, Problems, show

if TYPE_CHECKING:
    from collections.abc import Collection

MOST = 50
"""More problems than this of one object are not told."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class Notes:
    """The problems found so far."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def wrong(self, field: str, value: object, fix: str) -> None:
        """Write a problem down."""
        if len(self._found) < MOST:
            self._found.append(Problem(field, show(value), fix))

    def one_of(self, field: str, value: str, words: Collection[str]) -> bool:
        """Return whether a value is one of these words; if not, that is a problem."""
        if value in words:
            return True
        self.wrong(field, value, f"give one of {', '.join(word for word in words if word)}")
        return False

    @property
    def all(self) -> tuple[Problem, ...]:
        """Return all problems."""
        return tuple(self._found)

    def problems(self) -> Problems:
        """Return all problems as one value."""
        return Problems(self.all)


def entry(field: str, key: str) -> str:
    """Return the path of an entry of a map."""
    return f"{field}.{key}" if _PLAIN.fullmatch(key) else f"{field}[{show(key)}]"

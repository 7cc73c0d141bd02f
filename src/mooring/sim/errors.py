"""What is wrong with what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class StudyError(Exception):
    """What cannot be run as it was asked for: all mistakes, a line each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def each_of(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Return what calls return; raise the mistakes of all together if any makes some."""
    found, mistakes = list[T](), list[object]()
    for call in calls:
        try:
            found.append(call())
        except StudyError as error:
            mistakes += error.args
    if mistakes:
        raise StudyError(*mistakes)
    return found

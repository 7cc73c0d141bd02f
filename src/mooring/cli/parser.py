"""Arguments: all their mistakes together, a line each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from mooring.config.reader import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Broken:
    """Stands for a value that could not be read."""


class Parser(argparse.ArgumentParser):
    """Tells all mistakes, an option that there is not with the nearest that there is."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._mistakes: list[str] = []

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Return the arguments; unlike in the class above, all must be known."""
        self._mistakes = []
        found, unknown = super().parse_known_args(args, namespace)
        self._mistakes += [self._nothing(words) for words in _by_option(map(str, unknown))]
        if self._mistakes:
            self._end()
        return found, unknown

    def _nothing(self, words: list[str]) -> str:
        """Say that an option with its values is not known, and which one there is."""
        near = nearest(words[0].partition("=")[0], self._option_string_actions)
        return f"{' '.join(words)}: this means nothing here{near}"

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            self._mistakes.append(str(error))
            return _Broken()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(value, _Broken):
            return
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = nearest(str(value), map(str, action.choices or ()))
            if isinstance(action, argparse._SubParsersAction):
                raise argparse.ArgumentError(action, f"{error.message}{near}") from None
            self._mistakes.append(f"{error}{near}")

    def error(self, message: str) -> NoReturn:
        """Tell a mistake, after those before it, and end."""
        self._mistakes.append(message)
        self._end()

    def _end(self) -> NoReturn:
        """Tell all mistakes and end."""
        lines = [mistake + ("" if mistake.endswith("?") else ".") for mistake in self._mistakes]
        told = "".join(f"{self.prog}: {line}\n" for line in lines[:-1])
        self.exit(2, f"{told}{self.prog}: {lines[-1]} All options: {self.prog} --help\n")


def _by_option(words: Iterable[str]) -> list[list[str]]:
    """Return words in groups that begin with an option each."""
    groups: list[list[str]] = []
    for word in words:
        if not groups or word.startswith("-"):
            groups.append([])
        groups[-1].append(word)
    return groups

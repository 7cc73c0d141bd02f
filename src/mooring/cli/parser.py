"""Arguments, with mistakes in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from mooring.config.reader import nearest


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, an option that there is not with the nearest that there is."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Return the arguments; unlike in the class above, all must be known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            first = str(unknown[0])
            near = nearest(first.partition("=")[0], self._option_string_actions)
            self.error(f"{' '.join(map(str, unknown))}: this means nothing here{near}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Tell a mistake and end."""
        dot = "" if message.endswith("?") else "."
        self.exit(2, f"{self.prog}: {message}{dot} All options: {self.prog} --help\n")

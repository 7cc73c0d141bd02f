"""Where output goes: a console, tables, JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.progress import Task


class Terminal(Console):
    """Standard output or standard error; colours only where somebody sees them."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)

    def on_broken_pipe(self) -> None:
        """Let `main` deal with it."""
        raise BrokenPipeError


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> Table:
    """Return rows under a head; columns named in `right` are aligned to the right."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(Text(name), overflow="fold")
        if name in right:
            made.columns[-1].justify = "right"
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def print_json(data: object) -> None:
    """Print data as JSON: the items of the outermost lists and objects on lines of their own."""
    sys.stdout.write(_lines(data, "", 2) + "\n")


def _lines(data: object, indent: str, depth: int) -> str:
    if not depth or not data or not isinstance(data, list | dict):
        return json.dumps(data, allow_nan=False)
    inner = f"\n{indent} "
    if isinstance(data, list):
        items = [_lines(item, indent + " ", depth - 1) for item in data]
        return f"[{inner}{f',{inner}'.join(items)}\n{indent}]"
    pairs = [(json.dumps(key), _lines(item, indent + " ", depth - 1)) for key, item in data.items()]
    joined = f",{inner}".join(": ".join(pair) for pair in pairs)
    return f"{{{inner}{joined}\n{indent}}}"


def progress() -> Progress:
    """Return a bar with rate and time left, on standard error; silent where nobody looks."""
    console = Terminal(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


class _Rate(ProgressColumn):
    """How many are done in a second."""

    def render(self, task: Task) -> Text:
        """Return the rate."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")

"""Where output goes: a console, tables, JSON."""

from __future__ import annotations

import json
import re
import sys
from operator import gt
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
    """Return rows under a head; columns named in `right` are aligned to the right.

    What is too wide for the terminal goes on in the next line, between words or after a `-` or `.`.
    """
    cells = [list(columns), *map(list, rows)]
    widths = _widths(list(zip(*cells, strict=True)), Terminal().width)
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        made.add_column(Text(_wrapped(name, width)), overflow="fold")
        if name in right:
            made.columns[-1].justify = "right"
    for row in cells[1:]:
        made.add_row(*(Text(_wrapped(*cell)) for cell in zip(row, widths, strict=True)))
    return made


GAP = 3
"""Room between two columns of a table."""
_NARROW = 12
"""Columns up to this width give way last."""
_PIECE = re.compile(r"\[[^\]]*\]|[^-./_,:\[]*[-./_,:]+|[^-./_,:\[]+|\[")


def pieces(word: str) -> list[str]:
    """Return the parts of a name between which it may be broken."""
    return _PIECE.findall(word)


def _widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return how wide columns are: the widest give way, between words, then inside of them."""
    found = [max(len(line) for cell in cells for line in cell.split("\n")) for cells in columns]
    words = [[word for cell in cells for word in cell.split()] for cells in columns]
    whole = [max(map(len, some), default=0) for some in words]
    least = [max((len(p) for word in some for p in pieces(word)), default=0) for some in words]
    over = sum(found) + GAP * (len(found) - 1) - width
    narrow = [max(_NARROW, bound) for bound in least]
    for bounds in ([max(2 * _NARROW, bound) for bound in whole], narrow, least):
        while over > 0 and any(map(gt, found, bounds)):
            at = max((i for i, most in enumerate(found) if most > bounds[i]), key=found.__getitem__)
            found[at] -= 1
            over -= 1
    return found


def _wrapped(cell: str, width: int) -> str:
    """Return a cell in lines of this width, if its words and their pieces allow."""
    return "\n".join(new for line in cell.split("\n") for new in _lines_of(line, width))


def _lines_of(line: str, width: int) -> list[str]:
    lines, wanted = [""], [line] if len(line) <= width else line.split(" ")
    for word in wanted:
        some = pieces(word) if len(word) > width else [word]
        for i, piece in enumerate(some):
            gap = " " * bool(lines[-1] and i == 0)
            if lines[-1] and len(lines[-1] + gap + piece) > width:
                lines.append(piece)
            else:
                lines[-1] += gap + piece
    return lines


def broken_off(done: int, runs: int) -> str:
    """Return a sentence that says how many runs are done, to stand after another one."""
    return f" Broken off: {done:,} of {runs:,} runs are done."


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

"""The Kant setting to read: Markdown for the manual, or one HTML page with the figure in it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mooring.report.kant import verdicts
from mooring.report.kant_figure import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.report.kant import Group

TITLE = "The Kant setting"
_HEAD = ("asked for", "", "found", "bound")
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --bad: #c62f2f; --good: #1c8a4c }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
.wide { overflow-x: auto } svg { max-width: 100%; min-width: 46rem; height: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right }
.verdicts { margin-top: 1.2rem } th { font-weight: 600 } td { white-space: nowrap }
th:first-child, td:first-child, .verdicts th, .verdicts td { text-align: left; white-space: normal }
.holds { color: var(--good) } .missed { color: var(--bad) }
.forbidden, .untold { color: var(--soft) }
""".strip()


def write_markdown(about: str, groups: Sequence[Group]) -> str:
    """Return tables and verdicts as Markdown."""
    parts = [f"# {TITLE}: results", about]
    for group in groups:
        head, rows = group.table()
        parts += [f"## {group.title}", _marked(head, rows)]
        told = [[v.asked, v.state, v.found, v.bound] for v in verdicts(group)]
        if told:
            parts.append(_marked(list(_HEAD), told))
    return "\n\n".join(parts) + "\n"


def _marked(head: list[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def write_html(about: str, groups: Sequence[Group]) -> str:
    """Return a page that needs nothing else."""
    parts = [
        f"<h1>{TITLE}</h1>",
        f"<p>{escape(about)}</p>",
        f'<div class="wide">{draw(groups)}</div>',
    ]
    for group in groups:
        head, rows = group.table()
        parts += [f"<h2>{escape(group.title)}</h2>", _html(head, rows)]
        told = "".join(
            f'<tr><td>{escape(v.asked)}</td><td class="{v.state}">{v.state}</td>'
            f"<td>{escape(v.found)}</td><td>{escape(v.bound)}</td></tr>"
            for v in verdicts(group)
        )
        if told:
            tops = "".join(f"<th>{name}</th>" for name in _HEAD)
            found = f'<table class="verdicts"><tr>{tops}</tr>{told}</table>'
            parts.append(f'<div class="wide">{found}</div>')
    viewport = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    top = f'<!doctype html><html lang="en"><meta charset="utf-8">{viewport}<title>{TITLE}</title>'
    return f"{top}<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"


def _html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    tops = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{tops}</tr>{lines}</table></div>'

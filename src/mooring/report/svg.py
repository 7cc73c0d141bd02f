"""What all figures are made of: a sheet with a style, and words on it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def sheet(width: float, height: float, style: str, parts: Iterable[str]) -> str:
    """Return a figure; a style has a class for its paper."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    top = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    paper = f'<rect class="paper" width="{width:g}" height="{height:g}"/>'
    return "\n".join([top, f"<style>{style}</style>", paper, *parts, "</svg>\n"])


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    """Return words at a place, perhaps in a style; an anchor is what of them is there."""
    style = f' class="{kind}"' if kind else ""
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{style} x="{x:g}" y="{y:g}"{where}>{escape(text)}</text>'

"""What a policy changes, seed by seed: the same work under both, so less is left to chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.cli.numbers import FURTHER, SHOWN, spreads_of
from mooring.report import Spread
from mooring.words import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.cli.show import Terminal

    Row = Mapping[str, object]


def policies_as_data(every: Sequence[Sequence[Row]]) -> list[dict[str, object]]:
    """Return the numbers of policies over their seeds, and what all but the first change."""
    first = every[0] if every else []
    return [
        spreads_of(rows) | {"change": {} if rows is first else changes_as_data(first, rows)}
        for rows in every
    ]


def changes_as_data(first: Sequence[Row], rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return what is different from the first policy, in the mean over their common seeds."""
    found = {key: _change(first, rows, key) for key in (*(key for _, key, _ in SHOWN), *FURTHER)}
    return {key: spread.as_data() for key, spread in found.items() if spread is not None}


def print_changes(terminal: Terminal, every: Sequence[Sequence[Row]]) -> None:
    """Say of every policy but the first what is surely different, if there are several seeds."""
    first, *others = every
    for rows in others:
        told, seeds = [], len(_pairs(first, rows))
        for name, key, form in SHOWN:
            spread = _change(first, rows, key)
            if spread is not None and abs(spread.mean) > spread.half:
                told.append(f"{name} {_signed(spread, form)}")
        if seeds < 2:
            continue
        who = f"{rows[0]['policy']} against {first[0]['policy']}, on the same work"
        rest = f"the rest cannot be told apart with {seeds} seeds"
        what = f"{listed(told)} (95 %); {rest}" if told else f"with {seeds} seeds nothing is sure"
        terminal.print(f"\n{who}: {what}.")


def _pairs(first: Sequence[Row], rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of both for every seed that both have."""
    of_first = {row["seed"]: row for row in first}
    return [(of_first[row["seed"]], row) for row in rows if row["seed"] in of_first]


def _change(first: Sequence[Row], rows: Sequence[Row], key: str) -> Spread | None:
    """Return the change of one number; None: fewer than two seeds have it under both."""
    changes = [
        after - before
        for a, b in _pairs(first, rows)
        if isinstance(before := a.get(key), int | float)
        and isinstance(after := b.get(key), int | float)
    ]
    return Spread.of(changes) if len(changes) > 1 else None


def _signed(spread: Spread, form: str) -> str:
    """Return a change in words: of parts in points."""
    if form.endswith("%}"):
        text = f"{100 * spread.mean:+.1f} ± {100 * spread.half:.1f} points"
    else:
        signed = form.replace("{:", "{:+").format(spread.mean).removesuffix(" s")
        text = f"{signed} ± {form.format(spread.half)}"
    return text.replace("-", "−")

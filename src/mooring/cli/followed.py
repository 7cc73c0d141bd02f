"""What became of workloads that are followed: when they started, and what they waited for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mooring.cli.show import table
from mooring.config.reader import nearest
from mooring.report import sentences, waited_as_data, why
from mooring.words import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.cli.show import Terminal
    from mooring.sim.live import Waits
    from mooring.sim.study import Outcome

_COMES_UP = "It had its place, and was about to start."
_MOST_WHYS = 3
"""Of what one waited for, that are printed."""


def followed_as_data(outcome: Outcome) -> list[dict[str, Any]]:
    """Return what became of those that are followed, as data; one that never came is not there."""
    assert outcome.waits is not None
    told = outcome.waits.told
    found = waited_as_data([told[name] for name in outcome.trial.follow if name in told])
    return [each | {"waited_for": _waited_for(outcome.waits, each["name"])} for each in found]


def print_followed(outcome: Outcome, terminal: Terminal) -> None:
    """Print a table of those that are followed, if any are."""
    if not outcome.trial.follow or outcome.waits is None:
        return
    rows = []
    for name in outcome.trial.follow:
        waited = outcome.waits.told.get(name)
        if waited is None:
            near = _near(name, sorted(outcome.waits.whys.came))
            rows.append((name, "–", "–", f"no workload of that name came and was counted{near}"))
            continue
        starts = "starts " + clock(waited.submitted_at + waited.wait_s)
        what = " ".join(why(waited)) or "–" if waited.is_waiting else starts
        came, how_long = clock(waited.submitted_at), f"{waited.wait_s:,.0f} s"
        rows.append((name, came, how_long, what))
        some = _waited_for(outcome.waits, name)[:_MOST_WHYS]
        rows += [("", "", f"{each['seconds']:,.0f} s", " ".join(each["why"])) for each in some]
    terminal.print("")
    terminal.print(table(["followed", "comes", "waits", ""], rows, right=["waits"]))


def _near(name: str, came: Sequence[str]) -> str:
    """Return `; did you mean …?`, of the same numbers if there is one, if it did not come."""
    if name in came:
        return ""
    same = [other for other in came if _short(other) == _short(name)]
    return f"; did you mean {same[0]!r}?" if same else nearest(name, came)


def _short(name: str) -> str:
    """Return a name without zeros before its numbers: `job-12` for `job-000012`."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", name)


def _waited_for(waits: Waits, name: str) -> list[dict[str, Any]]:
    """Return what one waited for, longest first, as data."""
    return [
        {
            "seconds": round(each.seconds, 3),
            "why": sentences(each.reasons) or [_COMES_UP],
        }
        for each in waits.whys.of(name)
    ]

"""Numbers of runs into a page, and into plain data with the same numbers."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from mooring.metrics import numbers_of
from mooring.metrics.frames import Film
from mooring.metrics.summary import Summary, Waited
from mooring.words import cause_in_words, clock, sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.model.plan import Reason

    Row = dict[str, float | int | str | None]

_PLACE = "/*DATA*/null"
_COLOURS = 8
"""That the page has."""
_WHOLE = 10_000
"""Numbers from here on are whole, to the last digit."""
_HEADLINE = (
    *("gar_median", "sor", "sor_useful", "gfr", "mean_wait_s", "longest_wait_s", "started"),
    *("waiting", "jtted", "evictions", "lost_gpu_hours", "jain"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: what was tried, and what came of it."""

    name: str
    summary: Summary
    film: Film | None = None
    seed: int = 0
    origin: float = 0.0
    """When its clock began, which the page counts from."""


def as_data(run: Run) -> dict[str, Any]:
    """Return the numbers of a run as plain data."""
    summary = run.summary
    waits = {
        "worst": waited_as_data(summary.worst, run.origin),
        "not_started": waited_as_data(summary.not_started, run.origin),
    }
    return {"name": run.name, "seed": run.seed, **asdict(summary), **waits}


def waited_as_data(those: Sequence[Waited], origin: float = 0.0) -> list[dict[str, Any]]:
    """Return how long some waited, and why they wait still, as plain data."""
    return [
        {name: value for name, value in asdict(waited).items() if name != "reasons"}
        | {"why": why(waited, origin)}
        for waited in those
    ]


def why(waited: Waited, origin: float = 0.0) -> list[str]:
    """Return why one has not started, in sentences; clock times count from `origin`."""
    if waited.has_place:
        return ["It has its place, and is about to start."]
    return sentences(waited.reasons, origin)


def sentences(reasons: Sequence[Reason], origin: float = 0.0) -> list[str]:
    """Return the reasons of a workload in words."""
    return [sentence(each, is_alone=True, time=lambda at: clock(at - origin)) for each in reasons]


def headline(run: Run) -> Row:
    """Return one row of the table that comes first."""
    row = full_row(run)
    return {key: row[key] for key in ("policy", "seed", *_HEADLINE)}


def full_row(run: Run) -> Row:
    """Return all single numbers of a run, those of the headline first."""
    numbers = numbers_of(run.summary)
    first = {key: numbers[key] for key in _HEADLINE}
    return {"policy": run.name, "seed": run.seed, **first, **numbers}


def write_csv(runs: Sequence[Run]) -> str:
    """Return a row for each run as CSV."""
    rows = [full_row(run) for run in runs]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_page(
    title: str, about: str, runs: Sequence[Run], more: Mapping[str, object] | None = None
) -> str:
    """Return the page of one run for each policy.

    Of several seeds, `more` has the means and intervals (`policies`, in the order of the runs) and
    who waits longer than under the first policy (`worse`).
    """
    data = {
        **(more or {}),
        "title": title,
        "about": about,
        "queues": _queues(runs),
        "causes": _causes(runs),
        "runs": [
            as_data(_from_0(run)) | {"numbers": full_row(run), "film": _film(run)} for run in runs
        ],
    }
    text = json.dumps(_short(data), separators=(",", ":"), allow_nan=False)
    page = resources.files("mooring.report").joinpath("page.html").read_text("utf-8")
    return page.replace(_PLACE, text.replace("<", "\\u003c"))


def _queues(runs: Sequence[Run]) -> list[str]:
    """Return queues with a colour of their own: those that use most, over all runs."""
    used: dict[str, float] = {}
    for run in runs:
        curve = run.summary.curve
        for name, gpus in curve.queues:
            used[name] = used.get(name, 0.0) + sum(gpus) * curve.step_s
    names = sorted(used, key=lambda name: (-used[name], name))
    return names if len(names) <= _COLOURS else names[: _COLOURS - 1]


def _causes(runs: Sequence[Run]) -> dict[str, str]:
    """Return why tasks were evicted, in words."""
    found = {cause for run in runs for cause, _ in run.summary.evictions.by_cause}
    return {cause: cause_in_words(cause) for cause in sorted(found)}


def _from_0(run: Run) -> Run:
    """Return a run in which all the times of the page count from when its clock began."""
    if not run.origin:
        return run
    summary, at = run.summary, run.origin
    curve = replace(summary.curve, start=summary.curve.start - at)

    def moved(those: Sequence[Waited]) -> tuple[Waited, ...]:
        return tuple(replace(one, submitted_at=one.submitted_at - at) for one in those)

    worst, not_started = moved(summary.worst), moved(summary.not_started)
    return replace(run, summary=replace(summary, curve=curve, worst=worst, not_started=not_started))


def _film(run: Run) -> dict[str, Any] | None:
    """Return the pictures, with the nodes gathered by their domains."""
    if run.film is None or not run.film.places:
        return None
    groups: list[dict[str, Any]] = []
    for place in run.film.places:
        path = "/".join(place.path)
        if not groups or groups[-1]["path"] != path:
            groups.append({"path": path, "nodes": []})
        groups[-1]["nodes"].append(place.name)
    frames = [(at - run.origin, digits) for at, digits in run.film.frames]
    return {"groups": groups, "frames": frames}


def _short(value: Any) -> Any:
    """Return data with numbers to five digits, moments to the second: a page is to look at."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if abs(value) < _WHOLE else round(value)
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    return value

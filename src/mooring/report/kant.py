"""The Kant setting in numbers: rows of runs into tables by cluster and load, and into verdicts.

Every number is a mean over seeds with its 95 % confidence interval; changes are taken seed by seed,
against the first policy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mooring.metrics.waits import BUCKETS
from mooring.report.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Row = Mapping[str, float | int | str | None]

BASE, FULL = "fifo", "default"
"""Strict FIFO with native placement, and all together."""
GAR_GAIN, SOR_GAIN, GFR_CUT = 0.07, 0.08, 0.5
"""What is asked for at a load above 1, relative to strict FIFO; the cut at every load."""
HOLDS, MISSED, FORBIDDEN, UNTOLD = "holds", "missed", "forbidden", "untold"
_SAME = 1e-9
_JTTED = "jtted"
_NOTHING = f"{BASE} has none to compare with"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the tables."""

    name: str
    key: str
    form: str
    changes: bool = True
    """Whether its change against the first policy says something."""


NUMBERS = (
    Line("GAR median", "gar_median", "{:.1%}"),
    Line("SOR", "sor", "{:.1%}"),
    Line("SOR useful", "sor_useful", "{:.1%}"),
    Line("GFR", "gfr", "{:.1%}"),
    Line("JTTED", "jtted", "{:.3f}"),
    Line("nodes / fewest", "jtted_nodes", "{:.3f}"),
    Line("leaves / fewest", "jtted_leaves", "{:.3f}"),
)
COSTS = (
    Line("broken off", "evictions", "{:,.0f}", changes=False),
    Line("GPU-h lost", "lost_gpu_hours", "{:,.0f}", changes=False),
    Line("delay by work", "delay_s", "{:,.0f} s"),
)
BOUNDS = (
    Line("load inherited", "inherited", "{:.1%}", changes=False),
    Line("load offered by jobs", "offered", "{:.1%}", changes=False),
    Line("GAR at most", "gar_most", "{:.1%}", changes=False),
    Line("SOR at most", "sor_most", "{:.1%}", changes=False),
    Line("GFR at least", "gfr_least", "{:.2%}", changes=False),
    Line("delay at least", "delay_least_s", "{:,.0f} s", changes=False),
)
WAITS = tuple(
    Line(f"{part} of {bucket}", f"{part}_{bucket}_s", "{:,.0f} s")
    for part in ("p50", "p99")
    for bucket in BUCKETS
)
LINES = (*NUMBERS, *WAITS, *COSTS, *BOUNDS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something that was asked for is so."""

    asked: str
    state: str
    """holds, missed, forbidden (no policy could), untold (too many wait still)."""
    found: str
    bound: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """All runs on one kind of cluster at one load."""

    work: str
    gpus: int
    load: float
    by_policy: dict[str, list[Row]]

    @property
    def title(self) -> str:
        """Return what was run."""
        return f"{self.work} on {self.gpus:,} GPUs at load {self.load:g}"

    def values(self, policy: str, key: str) -> dict[int, float]:
        """Return a number by seed; infinite: so many wait still that it cannot be told."""
        found: dict[int, float] = {}
        for row in self.by_policy.get(policy, ()):
            value, is_there = _number(row, key), row.get(f"submitted_{_bucket(key)}", 1)
            if value is not None or (is_there and not key.startswith(_JTTED)):
                found[int(row["seed"] or 0)] = inf if value is None else float(value)
        return found

    def spread(self, policy: str, key: str) -> Spread | None:
        """Return mean and interval; None where a seed has no number."""
        values = list(self.values(policy, key).values())
        return None if not values or inf in values else Spread.of(values)

    def change(self, policy: str, key: str) -> Spread | None:
        """Return the change against the first policy, relative to it, over seeds both have."""
        before, after = self.values(BASE, key), self.values(policy, key)
        pairs = [(before[seed], after[seed]) for seed in before if seed in after]
        if policy == BASE or not pairs or any(inf in pair or not pair[0] for pair in pairs):
            return None
        return Spread.of([new / old - 1 for old, new in pairs])

    def lines(self) -> list[Line]:
        """Return the lines of which there are numbers."""
        rows = [row for rows in self.by_policy.values() for row in rows]
        return [line for line in LINES if any(_number(row, line.key) is not None for row in rows)]

    def cell(self, policy: str, line: Line) -> str:
        """Return one cell of the table."""
        spread = self.spread(policy, line.key)
        if spread is None:
            return "–"
        change = self.change(policy, line.key) if line.changes else None
        return spread.told(line.form) + ("" if change is None else f" ({change.mean:+.1%})")

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return head and rows: a line each, a column for every policy."""
        policies = list(self.by_policy)
        rows = [[line.name, *(self.cell(name, line) for name in policies)] for line in self.lines()]
        return ["", *policies], rows

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        policies = [
            {
                "policy": policy,
                "seeds": len(rows),
                "numbers": {line.key: _data(self.spread(policy, line.key)) for line in LINES},
                "changes": {
                    line.key: _data(self.change(policy, line.key)) for line in LINES if line.changes
                },
            }
            for policy, rows in self.by_policy.items()
        ]
        of = {"work": self.work, "gpus": self.gpus, "load": self.load}
        return {**of, "policies": policies, "verdicts": [asdict(each) for each in verdicts(self)]}


def _number(row: Row, key: str) -> float | int | str | None:
    """Return a number of a row; rows of before have 1 as JTTED where there were no gangs."""
    return None if key.startswith(_JTTED) and not row["jtted_gangs"] else row[key]


def _bucket(key: str) -> str:
    """Return the size that a wait is of."""
    return key.split("_")[1] if key[:1] == "p" else ""


def _data(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else spread.as_data()


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """Return the runs by kind of cluster, size and load."""
    found: dict[tuple[str, int, float], Group] = {}
    for row in rows:
        key = str(row["work"]), int(row["gpus"] or 0), float(row["load"] or 0.0)
        group = found.setdefault(key, Group(*key, {}))
        group.by_policy.setdefault(str(row["policy"]), []).append(row)
    return list(found.values())


# -- verdicts -------------------------------------------------------------------------------------


def verdicts(group: Group) -> list[Verdict]:
    """Return what came of all that is asked for; nothing where one of the two was not run."""
    if not {BASE, FULL} <= group.by_policy.keys():
        return []
    found: list[Verdict] = []
    if group.load > 1:
        found += _gain(group, "median GAR", ("gar_median", "gar_most"), GAR_GAIN)
        found += _gain(group, "SOR", ("sor", "sor_most"), SOR_GAIN)
    found += _halved(group)
    for part in ("p50", "p99"):
        found += _waits(group, part)
    for name, key in (
        ("JTTED", "jtted"),
        ("nodes over fewest", "jtted_nodes"),
        ("leaves over fewest", "jtted_leaves"),
    ):
        found += _lower(group, name, key)
    return found


def _gain(group: Group, name: str, keys: tuple[str, str], goal: float) -> Iterator[Verdict]:
    """Ask for a value that is so much higher."""
    key, most = keys
    before, change = group.spread(BASE, key), group.change(FULL, key)
    bound, asked = group.spread(FULL, most), f"{name} at least {goal:+.0%}"
    if before is None or change is None or bound is None:
        yield Verdict(asked, UNTOLD, _NOTHING)
        return
    needed = before.mean * (1 + goal)
    state = HOLDS if change.mean >= goal else FORBIDDEN if needed > bound.mean else MISSED
    told = f"at most {bound.mean:.1%}, {needed:.1%} is asked for"
    yield Verdict(asked, state, _changed(change), told)


def _halved(group: Group) -> Iterator[Verdict]:
    before, change = group.spread(BASE, "gfr"), group.change(FULL, "gfr")
    least, asked = group.spread(FULL, "gfr_least"), "GFR halved"
    if before is None or change is None or least is None:
        yield Verdict(asked, UNTOLD, _NOTHING)
        return
    needed = before.mean * (1 - GFR_CUT)
    state = HOLDS if change.mean <= -GFR_CUT else FORBIDDEN if needed < least.mean else MISSED
    told = f"at least {least.mean:.2%}, {needed:.2%} is asked for"
    yield Verdict(asked, state, _changed(change), told)


def _lower(group: Group, name: str, key: str) -> Iterator[Verdict]:
    """Ask for a ratio that is closer to 1, which is the least that there is."""
    before, change = group.spread(BASE, key), group.change(FULL, key)
    if before is None or change is None or not any(row["jtted_gangs"] for row in _both(group)):
        return
    is_least = before.mean <= 1 + _SAME
    state = HOLDS if change.mean < 0 else FORBIDDEN if is_least else MISSED
    told = f"at least 1; {BASE} {before.mean:.3f}"
    yield Verdict(f"{name} improves", state, _changed(change), told)


def _both(group: Group) -> list[Row]:
    return [*group.by_policy[BASE], *group.by_policy[FULL]]


def _waits(group: Group, part: str) -> Iterator[Verdict]:
    """Ask that no size waits longer."""
    longer, untold, told = list[str](), list[str](), 0
    for bucket in BUCKETS:
        key = f"{part}_{bucket}_s"
        if not any(row[f"submitted_{bucket}"] for row in _both(group)):
            continue
        both = group.values(BASE, key), group.values(FULL, key)
        is_longer = waits_longer(*both)
        told += is_longer is not None
        if is_longer is None:
            untold.append(bucket)
        elif is_longer:
            old, new = _means(*both)
            then = "not told yet" if new == inf else f"{new:,.0f} s"
            longer.append(f"{bucket} ({old:,.0f} s → {then})")
    if not told and not untold:
        return
    state = MISSED if longer else UNTOLD if untold else HOLDS
    found = f"longer: {', '.join(longer)}" if longer else "none is longer"
    found += f"; cannot be told: {', '.join(untold)}" if untold else ""
    yield Verdict(f"no size waits longer at {part}", state, found, _conserved(group))


def waits_longer(before: Mapping[int, float], after: Mapping[int, float]) -> bool | None:
    """Return whether waits are longer in the mean over seeds; None: it cannot be told.

    An infinite wait is one that cannot be told yet: it is longer than any that can. Seeds of which
    neither can be told are left out.
    """
    old, new = _means(before, after)
    return None if new == old == inf else new > old * (1 + _SAME)


def _means(before: Mapping[int, float], after: Mapping[int, float]) -> tuple[float, float]:
    """Return the means of both over the seeds that say something; infinite without any."""
    pairs = [(before[seed], after[seed]) for seed in before if seed in after]
    known = [pair for pair in pairs if pair != (inf, inf)]
    if not known:
        return inf, inf
    return fmean(old for old, _ in known), fmean(new for _, new in known)


def _conserved(group: Group) -> str:
    """Tell how little of all delay could be avoided: see `docs/kant.md`."""
    least = group.spread(FULL, "delay_least_s")
    here, before = group.spread(FULL, "delay_s"), group.spread(BASE, "delay_s")
    if least is None or here is None or before is None:
        return ""
    told = f"{least.mean:,.0f} s; {BASE} {before.mean:,.0f} s, {FULL} {here.mean:,.0f} s"
    return f"delay by work at least {told}"


def _changed(change: Spread) -> str:
    return f"{change.mean:+.1%}" + (f" ± {change.half:.1%}" if change.half else "")

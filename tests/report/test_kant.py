"""Verdicts on the Kant setting, by hand."""

from __future__ import annotations

from math import inf

import pytest

from mooring.metrics.waits import BUCKETS
from mooring.report.kant import LINES, groups_of, verdicts, waits_longer
from mooring.report.kant_figure import draw
from mooring.report.kant_page import write_html, write_markdown

USUAL = {"gar_median": 0.8, "sor": 0.8, "gfr": 0.2, "jtted": 1.2, "jtted_nodes": 1.0}
BOUND = {"gar_most": 1.0, "sor_most": 0.9, "gfr_least": 0.02, "delay_least_s": 100.0}


def a_row(policy: str, **numbers: float | None) -> dict[str, float | str | None]:
    """Return a row with those numbers; of the rest it does not matter."""
    row: dict[str, float | str | None] = {line.key: None for line in LINES}
    row |= {f"submitted_{bucket}": 0 for bucket in BUCKETS}
    row |= {"work": "mix lab", "gpus": 256, "load": 1.1, "jtted_gangs": 3, **USUAL, **BOUND}
    row |= {"jtted_leaves": 1.5, "delay_s": 500.0, "policy": policy, "seed": 0}
    return row | numbers


def states(*rows: dict[str, float | str | None]) -> dict[str, str]:
    """Return the verdicts on rows of one cluster and load."""
    (group,) = groups_of(rows)
    return {verdict.asked: verdict.state for verdict in verdicts(group)}


def test_all_that_is_asked_for() -> None:
    better = {"gar_median": 0.86, "sor": 0.87, "gfr": 0.1, "jtted": 1.1, "jtted_leaves": 1.2}
    waits = {"submitted_8": 9, "p50_8_s": 30.0, "p99_8_s": 500.0}

    found = states(a_row("fifo", **waits), a_row("default", **better, **waits))

    assert found == {
        "median GAR at least +7%": "holds",
        "SOR at least +8%": "holds",
        "GFR halved": "holds",
        "no size waits longer at p50": "holds",
        "no size waits longer at p99": "holds",
        "JTTED improves": "holds",
        "nodes over fewest improves": "forbidden",  # none is better than 1
        "leaves over fewest improves": "holds",
    }


@pytest.mark.parametrize(
    ("before", "after", "most", "state"),
    [
        (0.80, 0.87, 0.90, "holds"),  # +8.75 %
        (0.80, 0.86, 0.90, "missed"),  # +7.5 %, and 0.864 could be
        (0.84, 0.90, 0.90, "forbidden"),  # +7.1 %, and 0.9072 cannot be
        (0.95, 0.97, 1.00, "forbidden"),  # 1.026 is more than all
    ],
)
def test_occupation(before: float, after: float, most: float, state: str) -> None:
    found = states(a_row("fifo", sor=before), a_row("default", sor=after, sor_most=most))

    assert found["SOR at least +8%"] == state


@pytest.mark.parametrize(
    ("after", "least", "state"),
    [(0.10, 0.02, "holds"), (0.11, 0.02, "missed"), (0.11, 0.105, "forbidden")],
)
def test_fragmentation(after: float, least: float, state: str) -> None:
    found = states(a_row("fifo", gfr=0.2), a_row("default", gfr=after, gfr_least=least))

    assert found["GFR halved"] == state


@pytest.mark.parametrize(
    ("before", "after", "longer"),
    [
        ({0: 30.0}, {0: 30.0}, False),
        ({0: 30.0}, {0: 30.1}, True),
        ({0: 10.0, 1: 50.0}, {0: 40.0, 1: 20.0}, False),  # means are equal
        ({0: 10.0, 1: 50.0}, {0: 40.0, 1: 21.0}, True),
        ({0: inf}, {0: 9e9}, False),  # what cannot be told yet is longer than all
        ({0: 9e9}, {0: inf}, True),
        ({0: inf}, {0: inf}, None),
        ({0: inf, 1: 20.0}, {0: inf, 1: 10.0}, False),
        ({0: inf, 1: 20.0}, {0: 10.0, 1: inf}, None),
        ({0: 20.0}, {1: 10.0}, None),  # not the same work
        ({}, {}, None),
    ],
)
def test_waits(before: dict[int, float], after: dict[int, float], longer: bool | None) -> None:
    assert waits_longer(before, after) is longer


def test_a_size_that_waits_longer_is_named_with_what_bounds_all_delay() -> None:
    there = {"submitted_8": 5, "submitted_1024+": 2}
    rows = [
        a_row("fifo", **there, **{"p99_8_s": 100.0, "p99_1024+_s": None}),
        a_row("default", **there, **{"p99_8_s": 250.0, "p99_1024+_s": None, "delay_s": 480.0}),
    ]
    (group,) = groups_of(rows)

    (found,) = [each for each in verdicts(group) if each.asked.endswith("p99")]

    assert found.state == "missed"
    assert found.found == "longer: 8 (100 s → 250 s); cannot be told: 1024+"
    assert found.bound == "delay by work at least 100 s; fifo 500 s, default 480 s"


def test_gains_are_asked_for_above_a_load_of_one() -> None:
    found = states(a_row("fifo", load=0.9), a_row("default", load=0.9))

    assert "GFR halved" in found
    assert "SOR at least +8%" not in found
    assert states(a_row("fifo"), a_row("e-binpack")) == {}


def test_nothing_is_more_than_nothing() -> None:
    found = states(a_row("fifo", sor=0.0, gfr=0.0), a_row("default", sor=0.4))

    assert found["SOR at least +8%"] == found["GFR halved"] == "untold"


def test_changes_are_taken_seed_by_seed() -> None:
    rows = [a_row("fifo", seed=0, sor=0.5), a_row("fifo", seed=1, sor=0.8)]
    rows += [a_row("default", seed=0, sor=0.6), a_row("default", seed=1, sor=0.8)]
    (group,) = groups_of(rows)

    change, spread = group.change("default", "sor"), group.spread("default", "sor")

    assert change is not None
    assert change.mean == pytest.approx(0.1)  # +20 % and 0
    assert change.half == pytest.approx(12.706 * 0.1)  # Student's t of two
    assert spread is not None
    assert spread.mean == pytest.approx(0.7)


def test_a_seed_without_a_size_does_not_hide_the_others() -> None:
    rows = [a_row("fifo", submitted_8=3, p50_8_s=40.0), a_row("fifo", seed=1)]
    (group,) = groups_of(rows)

    assert group.cell("fifo", next(line for line in LINES if line.key == "p50_8_s")) == "40 s"


@pytest.mark.parametrize("told", [None, 1.0])
def test_runs_without_gangs_say_nothing_of_jtted(told: float | None) -> None:
    """Rows of before say that it was perfect."""
    none = {"jtted_gangs": 0, "jtted": told, "jtted_nodes": told, "jtted_leaves": told}
    (some,) = groups_of([a_row("fifo"), a_row("fifo", seed=1, **none)])
    rows = [a_row(name, **none) for name in ("fifo", "default")]
    (nothing,) = groups_of(rows)

    assert some.cell("fifo", next(line for line in LINES if line.key == "jtted")) == "1.200"
    assert not [line.key for line in nothing.lines() if line.key.startswith("jtted")]
    assert "JTTED improves" not in states(*rows)
    assert "</svg>" in draw([nothing])


def test_pages_and_figure_of_little() -> None:
    groups = groups_of([a_row("fifo"), a_row("default", gfr=0.1, load=1.1)])

    assert "| GFR | 20.0% | 10.0% (-50.0%) |" in write_markdown("About.", groups)
    assert "<td>10.0% (-50.0%)</td>" in write_html("About <this>.", groups)
    assert "About &lt;this&gt;." in write_html("About <this>.", groups)
    assert draw(groups).count("<rect") == 1 + 2 + 2 * 4
    assert "</svg>" in draw([])

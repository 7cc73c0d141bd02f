"""Defragmentation against its invoice: the same day with and without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mooring.model.events import Ended, PolicyChanged, Submitted
from mooring.model.settings import Defragmentation, Eviction, Policy
from tests.build import gang, task
from tests.scenarios.story import Story

if TYPE_CHECKING:
    from mooring.model.invoice import Invoice

HOUR = 3600.0
CALM = Policy(eviction=Eviction(consolidates=False))
"""Nobody is moved but by defragmentation."""
AUTOMATIC = replace(CALM, defragmentation=Defragmentation(automatic=True, budget=1000.0))
WIDE = replace(gang("wide", tasks=2, gpus=8), estimate_s=2 * HOUR)


def day(policy: Policy) -> tuple[Story, Invoice | None]:
    """Return a day on which half of every node is in use when two whole ones are wanted."""
    story = Story("a=8 b=8 c=8 d=8", policy=policy)
    for i in range(4):
        work = replace(task(f"half-{i}", 4), estimate_s=(5 + i) * HOUR)
        story.at(0, work, runs=(5 + i) * HOUR)
        story.at(0, task(f"gone-{i}", 4))
    story.tell(60, *(Ended(f"gone-{i}") for i in range(4))).go(HOUR - 1)
    assert sorted(story.nodes(f"half-{i}")[0] for i in range(4)) == ["a", "b", "c", "d"]
    probe = story.engine.fork()
    probe.observe(PolicyChanged(CALM))
    probe.observe(Submitted(replace(WIDE, submitted_at=HOUR)))
    found = probe.defragmentation(HOUR)
    story.at(HOUR, WIDE, runs=2 * HOUR).go(24 * HOUR)
    return story, found


def test_defragmentation_brings_what_its_invoice_says() -> None:
    """Who starts earlier, by how much; and only those leave who are on it."""
    without, _ = day(CALM)
    tidied, invoice = day(AUTOMATIC)

    assert invoice is not None
    (gain,) = invoice.gains
    assert gain.workload == "wide"
    assert without.left() == []
    assert {each.workload for each in tidied.left()} == {move.workload for move in invoice.moves}
    assert {each.cause for each in tidied.left()} == {"move"}
    assert gain.earlier_s == pytest.approx(
        without.starts("wide")[0] - tidied.starts("wide")[0], abs=31
    )
    assert invoice.ratio is not None
    assert invoice.ratio == pytest.approx(gain.saved / invoice.cost)
    assert invoice.gfr_after < invoice.gfr_before


def test_nothing_is_moved_where_the_invoice_does_not_pay() -> None:
    """The same day under a policy that asks for more than the moves bring."""
    _, invoice = day(CALM)
    assert invoice is not None
    assert invoice.ratio is not None
    dear = Defragmentation(automatic=True, ratio=2 * invoice.ratio, budget=1000.0)
    story, _ = day(replace(CALM, defragmentation=dear))

    assert story.left() == []

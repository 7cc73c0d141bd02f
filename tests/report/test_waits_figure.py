"""A figure of waits is valid SVG with everything in its place."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mooring.report.waits_figure import WIDTH, Panel, Waits, draw_waits

SVG = "{http://www.w3.org/2000/svg}"
SLOW = Waits("<slow>", mean=3600.0, p90=20_000.0, p99=90_000.0, longest=400_000.0)
FAST = Waits("fast", mean=90.0, p90=0.0, p99=600.0, longest=7200.0)


def test_every_policy_has_four_marks_in_order_and_its_mean() -> None:
    top = ElementTree.fromstring(draw_waits("A & B", [Panel("left", [SLOW, FAST])]))

    texts = [text.text for text in top.iter(f"{SVG}text")]
    assert {"A & B", "left", "<slow>", "fast", "mean", "p90", "p99", "longest"} <= set(texts)
    assert {"1 h", "1.5 min"} <= set(texts)
    marks = [(mark.attrib["class"], float(mark.attrib["cx"])) for mark in top.iter(f"{SVG}circle")]
    assert len(marks) == 4 + 2 * 4  # the legend, then two policies
    assert all(0 < x < WIDTH for _, x in marks)
    slow = dict(marks[4:8])
    assert slow["mean"] < slow["p90"] < slow["p99"] < slow["longest"]
    assert dict(marks[8:])["p90"] == min(x for _, x in marks[4:])  # nobody waited: at the edge


def test_panels_have_one_scale_and_stand_one_below_the_other() -> None:
    top = ElementTree.fromstring(draw_waits("x", [Panel("p", [SLOW]), Panel("q", [SLOW])]))
    marks = [mark.attrib for mark in top.iter(f"{SVG}circle") if mark.attrib["r"] == "6"]
    assert marks[0]["cx"] == marks[1]["cx"]
    assert float(marks[0]["cy"]) < float(marks[1]["cy"]) < float(top.attrib["height"])


@pytest.mark.parametrize("wait", [0.0, 10.0])
def test_equal_waits_have_a_scale_too(wait: float) -> None:
    ElementTree.fromstring(draw_waits("x", [Panel("p", [Waits("a", wait, wait, wait, wait)])]))

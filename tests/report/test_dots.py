"""A figure of dots is valid SVG with everything in its place."""

from __future__ import annotations

from xml.etree import ElementTree

from mooring.report.dots import WIDTH, Panel, draw_dots

SVG = "{http://www.w3.org/2000/svg}"
ROWS = {
    "one": {"a": 90.0, "b": 91.0, "us": 92.5},
    "<two>": {"a": 95.0, "b": 94.0, "us": 94.5},
}


def test_every_value_has_a_dot_and_every_row_its_lead() -> None:
    drawn = draw_dots("A & B", [Panel("left", ROWS), Panel("right", ROWS)], "us")
    top = ElementTree.fromstring(drawn)

    texts = [text.text for text in top.iter(f"{SVG}text")]
    assert texts.count("+1.50") == texts.count("-0.50") == 2
    assert {"A & B", "one", "<two>", "left", "right", "a", "b", "us"} <= set(texts)
    dots = [(float(dot.attrib["cx"]), dot.attrib["class"]) for dot in top.iter(f"{SVG}circle")]
    assert len(dots) == 3 + 2 * 6  # the legend, then two panels
    assert all(0 < x < WIDTH for x, _ in dots)
    first = {kind: x for x, kind in dots[3:6]}
    assert first["c0"] < first["c1"] < first["ours"]


def test_equal_values_have_a_scale_too() -> None:
    drawn = draw_dots("x", [Panel("p", {"r": {"a": 50.0, "us": 50.0}})], "us")

    ElementTree.fromstring(drawn)
    assert "+0.00" in drawn

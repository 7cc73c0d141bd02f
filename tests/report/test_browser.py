"""The page in a real browser, where there is one: its script runs to the end."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from shutil import which
from typing import TYPE_CHECKING

import pytest

from mooring.cli import main
from mooring.metrics import Metrics
from mooring.metrics.frames import Film, Place
from mooring.report import Run, write_page
from tests.metrics.test_fold import START, ends, story
from tests.report.test_page import used_by

if TYPE_CHECKING:
    from pathlib import Path

BROWSER = which("chromium") or which("google-chrome") or which("chrome")
HEADLESS = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")


def shown(page: Path) -> str:
    """Return the page as the browser has made it, without its script; the footer comes last."""
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, *HEADLESS, page.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    body = re.sub(r"<script.*</script>", "", done.stdout, flags=re.DOTALL)
    assert "<footer>" in body
    return body


def test_a_page_of_next_to_nothing_opens(tmp_path: Path) -> None:
    metrics = Metrics(START)
    page = tmp_path / "page.html"
    page.write_text(write_page("Nothing", "yet", [Run("one", metrics.summary(), metrics.film())]))
    assert "<h1>Nothing</h1>" in shown(page)


def test_a_page_tells_how_to_get_the_numbers_where_there_is_a_way(tmp_path: Path) -> None:
    page, run = tmp_path / "page.html", Run("one", story().summary())
    for more, is_told in ((None, True), ({"has_data_option": False}, False)):
        page.write_text(write_page("Numbers", "", [run], more))
        assert ("--data" in shown(page)) == is_told


def charts(body: str) -> list[list[str]]:
    """Return what is written in each chart: values from below, then moments or parts."""
    return [
        re.findall(r"<text[^>]*>([^<]*)", svg)
        for svg in re.findall(r"<svg.*?</svg>", body, flags=re.DOTALL)
    ]


def drawn(run: Run, tmp_path: Path, **curve: object) -> list[list[str]]:
    """Return what is written in the charts of a run with another curve."""
    page, summary = tmp_path / "page.html", run.summary
    changed = replace(summary, curve=replace(summary.curve, **curve))  # type: ignore[arg-type]
    page.write_text(write_page("Charts", "", [replace(run, summary=changed)]))
    return charts(shown(page))


@pytest.mark.parametrize(
    ("start", "step", "moments"),
    [
        (0.0, 60.0, ["0 min", "1 min", "2 min", "3 min"]),
        (0.0, 7200.0, ["day 1", "01:00", "02:00", "03:00", "04:00", "05:00", "06:00"]),
        (86_400.0, 600.0, ["day 2", "00:05", "00:10", "00:15", "00:20", "00:25", "00:30"]),
        (0.0, 86_400.0, ["day 1", "12:00", "day 2", "12:00", "day 3", "12:00", "day 4"]),
    ],
)
def test_charts_tell_moments_as_all_else_does(
    tmp_path: Path, start: float, step: float, moments: list[str]
) -> None:
    """From day 1 on; in minutes where all is over soon."""
    three = (0.5, 0.6, 0.55)
    values = {"gar": three, "gfr": three, "sor": three, "waiting_gpus": (0.0, 0.0, 0.0)}
    gar, *_ = drawn(Run("one", story().summary()), tmp_path, start=start, step_s=step, **values)
    assert gar == ["0 %", "20 %", "40 %", "60 %", *moments]


def test_charts_of_parts_and_counts_start_at_0_with_ticks_that_differ(tmp_path: Path) -> None:
    high, none = (0.9, 0.95), (0.0, 0.0)
    values = {"gar": high, "gfr": none, "sor": high, "waiting_gpus": none}
    gar, sor, gfr, backlog = drawn(Run("one", story().summary()), tmp_path, **values)[:4]
    assert gar[:4] == sor[:4] == ["0 %", "25 %", "50 %", "75 %"]
    assert gfr[:3] == ["0 %", "0.5 %", "1 %"]
    assert backlog[:3] == ["0", "1", "0 min"]


def test_where_nothing_was_counted_nothing_is_drawn(tmp_path: Path) -> None:
    """As where all is over before the warm-up is."""
    page, metrics = tmp_path / "page.html", story(1000.0)
    page.write_text(write_page("Early", "", [Run("one", metrics.summary(), metrics.film())]))
    body = shown(page)
    assert (charts(body), "NaN" in body) == ([], False)
    assert body.count("Nothing was counted.") == 5


def test_another_policy_is_shown_at_the_same_time(tmp_path: Path) -> None:
    """Its pictures were taken at other times: the nearest is taken, also on the way back."""
    summary, page = story().summary(), tmp_path / "page.html"
    places = (Place("a", ()), Place("b", ()))
    films = [((0.0, "00"), (3600.0, "88")), ((0.0, "88"), (1800.0, "8x"), (3000.0, "xx"))]
    runs = [Run(name, summary, Film(places, some)) for name, some in zip("xy", films, strict=True)]
    text = write_page("Films", "", runs)
    for policies, time, away in (([], "01:00", 0), ([1], "00:50", 2), ([1, 0], "01:00", 0)):
        choose = "".join(
            f"document.querySelector('select').value = {number};"
            "document.querySelector('select').dispatchEvent(new Event('change'));"
            for number in policies
        )
        page.write_text(text.replace("</body>", f"<script>{choose}</script></body>"))
        body = shown(page)
        assert f"<span>day 1, {time}</span>" in body
        assert body.count('data-used="away or broken"') == away
        assert "</span>away or broken</span>" in body


def test_waits_tell_how_many_started_under_each_policy(tmp_path: Path) -> None:
    """Also where so few did that their line can hardly be seen."""
    summary, page = story().summary(), tmp_path / "page.html"
    (curve,) = summary.waits

    def started(*counts: tuple[int, int]) -> str:
        waits = [(replace(curve, started=some, waiting=more),) for some, more in counts]
        runs = [Run(f"p{i}", replace(summary, waits=some)) for i, some in enumerate(waits)]
        page.write_text(write_page("Started", "", [*runs]))
        return next(iter(re.findall("<small>(started [^<]*)", shown(page))), "")

    assert started((3, 7), (1200, 0)) == "started 3 of 10 / 1,200 of 1,200"
    assert started((3, 7), (2, 8), (5, 5)) == "started 3 / 2 / 5 of 10"
    assert started((2, 0), (2, 0)) == "started 2 of 2"


def test_a_page_tells_who_failed_if_anybody_did(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for metrics, is_told in ((ends(), True), (story(), False)):
        page.write_text(write_page("Ends", "of runs", [Run("one", metrics.summary())]))
        assert ("Failed workloads" in shown(page)) == is_told


def test_a_page_with_odd_names_and_many_queues_opens(tmp_path: Path) -> None:
    """Ten queues, of which seven have a colour of their own."""
    metrics, page = story(), tmp_path / "page.html"
    queues = {f"queue-{number}": number + 1.0 for number in range(10)}
    runs = [Run("<!--<script>", metrics.summary(), metrics.film()), used_by("many", **queues)]
    page.write_text(write_page("</script>", "&amp;", runs))
    body = shown(page)
    assert "&lt;!--&lt;script&gt;" in body
    assert {f"queue-{number}" in body for number in range(4, 10)} == {True}
    assert "queue-1" not in body
    assert "others" in body


def test_the_best_is_marked_where_more_is_better(tmp_path: Path) -> None:
    """One holds more GPU time than the other, as it does work twice: less of it is useful.

    What is told in the same words is equal.
    """
    summary, page = story().summary(), tmp_path / "page.html"
    once = replace(summary, sor=0.7, sor_run=0.65, sor_useful=0.6)
    more = replace(summary.gar, median=0.9)
    twice = replace(summary, gar=more, sor=0.8, sor_run=0.75, sor_useful=0.5, gfr_gpu=0.01)
    equal = replace(once, sor_useful=0.6001)
    runs = [Run("once", once), Run("twice", twice), Run("equal", equal)]
    page.write_text(write_page("Marks", "", runs))
    assert re.findall(r'<td class="best">([^<]*)', shown(page)) == ["60.0 %", "60.0 %", "1.0 %"]


def test_of_several_seeds_the_best_is_marked_only_where_it_is_sure(tmp_path: Path) -> None:
    """The first policy is, where all others surely differ from it."""
    page, summary = tmp_path / "page.html", story().summary()

    def marked(
        means: tuple[float, float, float], *changes: tuple[float, float] | None
    ) -> list[str]:
        """Return which of `useful` are marked; a change is a mean, and half its interval."""
        policies = [
            {"policy": name, "seeds": 3, "sor_useful": {"mean": mean, "half_ci95": 0.2}}
            for name, mean in zip("abc", means, strict=True)
        ]
        for policy, change in zip(policies[1:], changes, strict=True):
            told = change and dict(zip(("mean", "half_ci95"), change, strict=True))
            policy["change"] = {"sor_useful": told} if told else {}
        runs = [Run(name, summary) for name in "abc"]
        page.write_text(write_page("Seeds", "", runs, {"policies": policies}))
        body = shown(page)
        assert "Green is the best where it surely differs from a, seed by seed." in body
        return re.findall(r'<td class="best">([^<]*)', body)

    assert marked((0.5, 0.6, 0.55), (0.1, 0.05), (0.05, 0.1)) == ["60.0 %"]
    assert marked((0.5, 0.6, 0.55), (0.1, 0.1), (0.05, 0.01)) == []
    assert marked((0.5, 0.4, 0.3), (-0.1, 0.05), (-0.2, 0.1)) == ["50.0 %"]
    assert marked((0.5, 0.4, 0.3), (-0.1, 0.05), (-0.2, 0.3)) == []
    assert marked((0.5, 0.6, 0.55), None, None) == []


def test_a_comparison_opens_with_all_its_parts(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    work = ["--cluster", "64", "--days", "0.2", "--load", "1.5", "--seed", "0", "1"]
    options = ["--policy", "fifo", "default", "--report", str(page), "--jobs", "1"]
    assert main(["compare", *work, *options]) == 0
    body = shown(page)
    parts = ("Over time", "JWTD", "JTTED", "Who uses the GPUs", "The cluster", "Worst off")
    assert [part for part in parts if part not in body] == []
    assert len(re.findall(r"<svg", body)) >= 8

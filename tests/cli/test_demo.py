"""The demo: a small lab under three policies, drawn, told in numbers, written and opened."""

from __future__ import annotations

import json
import re
import webbrowser
from typing import TYPE_CHECKING

import pytest

from mooring.cli.demo import POLICIES, Demo, demo, has_display, span
from mooring.cli.main import main
from mooring.cli.map import cluster_map, curve
from mooring.cli.simulate import run_trials
from mooring.metrics.frames import Film, Place

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--cluster", "32", "--hours", "3", "--jobs", "1")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what a browser was told to open; there is a display, 80 columns and no colour."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return found


def test_the_demo_shows_what_each_policy_did(
    capsys: pytest.CaptureFixture[str], opened: list[str], tmp_path: Path
) -> None:
    assert main(["demo", *SMALL]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()

    assert told.err == ""
    assert max(map(len, lines)) <= 80
    assert "3 hours of a lab with 32 GPUs at load 0.9, under three policies" in lines[0]
    assert lines[2].split() == list(POLICIES)
    (shown,) = [line for line in lines if line.startswith("cluster at")]
    assert re.fullmatch(r"cluster at \d\d:\d\d {3,}([.1-7#] ){3}[.1-7#] .*", shown)
    for name in ("GAR, median", "GFR, mean", "mean wait", "p99, 1 GPU", "broken off"):
        (row,) = [line for line in lines if line.startswith(name)]
        assert len(re.findall(r"\d[\d.,]*", row.removeprefix("p99, 1"))) == 3, row
    assert "Look at who waits" in told.out
    page = (tmp_path / "mooring-demo.html").read_text("utf-8")
    assert all(f'"name":"{name}"' in page for name in POLICIES)
    assert opened == [(tmp_path / "mooring-demo.html").as_uri()]


def test_the_demo_marks_use_as_good_only_where_it_is_useful(
    capsys: pytest.CaptureFixture[str], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPUs are allocated also to those who do their work again."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["demo", "--cluster", "64", "--hours", "10", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (gar,) = [line for line in lines if line.startswith("GAR, median")]
    (useful,) = [line for line in lines if line.startswith("useful")]
    best = "\x1b[1;32m"
    assert len(set(re.findall(r"\d[\d.]* %", gar))) > 1
    assert (best in gar, best in useful) == (False, True)


def test_the_page_goes_where_it_is_wanted_and_stays_closed(
    capsys: pytest.CaptureFixture[str], opened: list[str], tmp_path: Path
) -> None:
    """And the same seed shows the same."""

    def shown(seed: str) -> str:
        page = str(tmp_path / "a.html")
        assert main(["demo", *SMALL, "--seed", seed, "--no-open", "--report", page]) == 0
        told = capsys.readouterr().out
        assert page in told
        return re.sub(r"[\d.]+ s\. The whole", "", told)

    assert shown("1") == shown("1") != shown("2")
    assert (opened, [path.name for path in tmp_path.iterdir()]) == ([], ["a.html"])


def test_the_demo_as_json(
    capsys: pytest.CaptureFixture[str], opened: list[str], tmp_path: Path
) -> None:
    assert main(["demo", *SMALL, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [policy["policy"] for policy in told["policies"]] == list(POLICIES)
    assert '"has_data_option":false' in (tmp_path / "mooring-demo.html").read_text("utf-8")
    assert opened == []


def test_without_a_display_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not has_display()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert has_display()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setattr("sys.platform", "darwin")
    assert has_display()


def test_ctrl_c_before_anything_is_done_ends_it_without_a_page(
    capsys: pytest.CaptureFixture[str],
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("mooring.cli.demo.run_trials", lambda trials, jobs: ([], False))
    assert main(["demo", *SMALL]) == 130
    assert (opened, list(tmp_path.iterdir())) == ([], [])


def test_ctrl_c_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str],
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Two of three policies are; the page has them too, and stays closed."""
    monkeypatch.setattr(
        "mooring.cli.demo.run_trials", lambda trials, jobs: (run_trials(trials[:2], jobs)[0], False)
    )
    assert main(["demo", *SMALL]) == 130
    out = capsys.readouterr().out
    words = " ".join(out.split())
    assert out.splitlines()[2].split() == ["best-effort", "default"]
    assert "under best-effort and default the mean wait is" in words
    assert "Broken off: 2 of 3 runs are done." in words
    assert (opened, [path.name for path in tmp_path.iterdir()]) == ([], ["mooring-demo.html"])
    assert main(["demo", *SMALL, "-o", "json"]) == 130
    told = json.loads(capsys.readouterr().out)
    assert (len(told["runs"]), told["is_whole"]) == (2, False)


def test_all_policies_get_the_same_work_after_a_warm_up() -> None:
    trials = Demo(gpus=64, hours=12, seed=3).trials()

    assert [trial.rules.name for trial in trials] == list(POLICIES)
    assert {(trial.warm_up_s, trial.until_s, trial.seed) for trial in trials} == {
        (6 * 3600.0, 18 * 3600.0, 3)
    }
    assert len({trial.source for trial in trials}) == 1


def test_a_map_has_a_line_for_each_leaf_at_the_moment_asked_for() -> None:
    places = [Place(f"n{i}", ("pod-0", f"leaf-{i // 2}")) for i in range(3)]
    film = Film(tuple(places), ((0.0, "000"), (60.0, "80x"), (120.0, "444")))

    def shown(at: float, *, colour: bool = False) -> list[str]:
        return cluster_map(film, at, colour=colour).plain.split("\n")

    assert shown(-1.0) == [". .", "."]
    assert shown(119.0) == ["# .", "x"]
    assert shown(500.0) == ["4 4", "4"]
    assert shown(500.0, colour=True) == ["■ ■", "■"]


def test_a_large_map_says_what_is_left_out() -> None:
    places = [Place(f"n{i:02d}", ("pod-0", f"leaf-{i:02d}")) for i in range(20)]
    film = Film(tuple(places), ((0.0, "8" * 20),))

    assert cluster_map(film, 0.0, colour=False).plain.split("\n") == ["#"] * 16 + ["… and 4 more"]


def test_a_curve_has_all_the_time_in_its_width() -> None:
    assert curve([0.0, 0.5, 1.0, 2.0], 1.0, 10).plain == " ▄██"
    assert curve([0.0, 0.0, 1.0, 1.0], 2.0, 2).plain == " ▄"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "0 s"), (119.0, "119 s"), (120.0, "2 min"), (7199.0, "120 min"), (9000.0, "2.5 h")],
)
def test_times_are_told_in_a_unit_that_suits(seconds: float, told: str) -> None:
    assert span(seconds) == told


def test_a_folder_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="this is a folder"):
        demo(Demo(report=str(tmp_path)))

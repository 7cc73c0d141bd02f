"""The lead of the default over published rules: the right numbers, as table, data and figure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mooring.cli.lead import Lead, leads_as_data, leads_of, mean_lead
from mooring.cli.main import main
from mooring.sim.openb import LOADS, Curve, Run
from tests.sim.test_openb import write_study

if TYPE_CHECKING:
    from pathlib import Path


def curve(file: str, policy: str, seed: int, at_100: float, at_130: float) -> Curve:
    gar = [0.0] * len(LOADS)
    gar[100], gar[130] = at_100, at_130
    return Curve(Run(file, policy, seed), tuple(gar), 1, 1)


CURVES = [
    curve("a", "fgd", 1, 90.0, 92.0),
    curve("a", "first-fit", 1, 91.0, 91.0),
    curve("a", "default", 1, 93.0, 91.5),
    curve("a", "fgd", 2, 92.0, 92.0),
    curve("a", "first-fit", 2, 90.0, 91.0),
    curve("a", "default", 2, 93.0, 92.5),
    curve("b", "fgd", 1, 80.0, 81.0),
    curve("b", "first-fit", 1, 70.0, 71.0),
    curve("b", "default", 1, 83.0, 85.0),
]


def test_the_lead_is_over_the_best_of_the_others_in_the_mean_of_seeds() -> None:
    leads = leads_of(CURVES)

    assert leads == [
        Lead("a", 100, {"fgd": 91.0, "first-fit": 90.5, "default": 93.0}),
        Lead("a", 130, {"fgd": 92.0, "first-fit": 91.0, "default": 92.0}),
        Lead("b", 100, {"fgd": 80.0, "first-fit": 70.0, "default": 83.0}),
        Lead("b", 130, {"fgd": 81.0, "first-fit": 71.0, "default": 85.0}),
    ]
    assert [lead.points for lead in leads] == [2.0, 0.0, 3.0, 4.0]
    assert (mean_lead(leads, 100), mean_lead(leads, 130)) == (2.5, 2.0)
    assert leads_as_data(leads)["mean_lead"] == {"100": 2.5, "130": 2.0}


def test_what_was_broken_off_does_not_count() -> None:
    """A seed or a file of which a policy is missing is left out."""
    leads = leads_of([*CURVES[:5], *CURVES[6:8]])

    assert [(lead.file, lead.gar["default"]) for lead in leads] == [("a", 93.0), ("a", 91.5)]
    assert leads_as_data([])["mean_lead"] == {}


def test_the_command_prints_and_draws_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    folder, figure = str(write_study(tmp_path)), tmp_path / "lead.svg"
    study = ["experiment", "openb", "--traces", folder, "--jobs", "1", "--seed", "1"]
    assert main([*study, "--lead"]) == 0
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines()[4:6]] == ["default", "mean"]
    assert "3 runs in" in told

    assert main([*study, "--figure", str(figure), "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(row["file"], row["load"]) for row in data["files"]] == [
        ("default", 100),
        ("default", 130),
    ]
    assert list(data["files"][0]["gar"]) == ["fgd", "first-fit", "default"]
    assert figure.read_text("utf-8").startswith("<svg")

    assert main([*study, "--figure", str(tmp_path / "no" / "lead.svg")]) == 2
    assert f"there is no folder {tmp_path / 'no'}" in capsys.readouterr().err


@pytest.mark.parametrize("policies", [["fgd", "potential"], ["default"]])
def test_there_must_be_something_to_compare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, policies: list[str]
) -> None:
    study = ["experiment", "openb", "--traces", str(write_study(tmp_path)), "--lead"]
    assert main([*study, "--policy", *policies]) == 2
    assert "--lead compares default with others" in capsys.readouterr().err

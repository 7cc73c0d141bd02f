"""`mooring defragment`: an invoice on the terminal, and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.cli.main import main
from mooring.model.codec import decode
from mooring.model.invoice import Invoice

EXAMPLE = str(Path(__file__).parents[2] / "docs/examples/gaps.yaml")


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_moves_gains_and_the_sum_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["defragment", EXAMPLE]) == 0

    said = rows(capsys.readouterr().out)
    assert "move from to tasks GPU-h lost for" in said
    assert "tune-3 node-03 node-00 main 0 0.4 train" in said
    assert "train 8 node-03 2h59m30s 23.9" in said
    assert " ".join(said).endswith(
        "1 move, 0.4 GPU-hours lost, 23.9 GPU-hours of waiting saved, ratio 59.83; "
        "GFR 100.0 % before, 50.0 % after. The policy moves nothing by itself."
    )


def test_json_is_the_invoice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["defragment", "-o", "json", EXAMPLE]) == 0

    data = json.loads(capsys.readouterr().out)
    assert data.pop("verdict") == "manual"
    found = decode(Invoice, data)
    assert [gain.workload for gain in found.gains] == ["train"]
    assert found.cost == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("rules", "word", "verdict"),
    [
        ("{automatic: true}", "automatic", "The policy does so by itself."),
        ("{automatic: true, ratio: 80}", "ratio", "The policy only moves from a ratio of 80 on."),
        (
            "{automatic: true, budget: 0.25}",
            "budget",
            "The policy only lets 0.25 GPU-hours be lost a day.",
        ),
    ],
)
def test_what_the_policy_would_do_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, rules: str, word: str, verdict: str
) -> None:
    path = tmp_path / "scenario.yaml"
    text = Path(EXAMPLE).read_text("utf-8")
    calm = "eviction: {consolidates: false}"
    assert calm in text
    path.write_text(text.replace(calm, f"{calm}, defragmentation: {rules}"), "utf-8")

    assert main(["defragment", str(path)]) == 0

    assert capsys.readouterr().out.splitlines()[-1].rstrip() == verdict
    assert main(["defragment", "-o", "json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == word


NOTHING = "nodes: [{name: a, gpus: 8}]\nworkloads: [{name: w, gpus: 8}]"
GAPS = """
now: 7200
nodes: [{name: a, gpus: 8}, {name: b, gpus: 8}]
workloads:
  - {name: v, gpus: 1, running: true, placements: [{group: main, nodes: [a], devices: [[0]]}]}
  - {name: w, gpus: 2, running: true, placements: [{group: main, nodes: [b], devices: [[0, 1]]}]}
"""


def test_nothing_to_move_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(NOTHING, "utf-8")

    assert main(["defragment", str(path)]) == 0
    assert capsys.readouterr().out.startswith("No move would let anybody start")
    assert main(["defragment", "-o", "json", str(path)]) == 0
    assert capsys.readouterr().out == "null\n"


def test_gaps_are_closed_for_nobody(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(GAPS, "utf-8")

    assert main(["defragment", str(path)]) == 0

    said = rows(capsys.readouterr().out)
    assert "v a b main 0 2.0 fewer gaps" in said
    assert not any(line.startswith("starts") for line in said)


@pytest.mark.parametrize("profile", ["kai", "kueue"])
def test_other_profiles_have_no_invoice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, profile: str
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"nodes: [{{name: a, gpus: 8}}]\npolicy: {{profile: {profile}}}\n", "utf-8")

    assert main(["defragment", str(path)]) == 2

    said = capsys.readouterr()
    assert (said.out, "for profile default" in said.err) == ("", True)

"""Moments in files that tell a story, decided by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.cli import main

if TYPE_CHECKING:
    import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def decide(name: str, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    """Return what `mooring decide` prints of an example."""
    assert main(["decide", str(EXAMPLES / name), "-o", "json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def evicted(result: Any) -> list[tuple[str, str, str]]:
    """Return who has to leave, why, and for whom."""
    some = [each for each in result["decisions"] if each["kind"] == "evict"]
    return [(each["workload"], each["cause"], each["beneficiary"]) for each in some]


def running(result: Any) -> dict[str, list[int]]:
    """Return how many tasks of each group of each workload run."""
    return {
        each["workload"]: [group["tasks"] for group in each["groups"]] for each in result["running"]
    }


def test_the_laboratory(capsys: pytest.CaptureFixture[str]) -> None:
    """One service makes room; the dearer one, and the one that is not enough, stay."""
    first = decide("lab.yaml", capsys)
    assert evicted(first) == [("search", "quota", "train-2")]
    assert [each["workload"] for each in first["waiting"]] == ["train-2"]

    rest = decide("lab.yaml", capsys, "--settle")
    assert rest["settled"]
    assert evicted(rest) == evicted(first)
    assert running(rest) == {"train-1": [2], "chat": [2], "speech": [2], "train-2": [6]}


def test_unlike_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """Borrowed A10s do not cost red its H100s, and blue keeps its own."""
    result = decide("flavors.yaml", capsys, "--settle")

    assert result["settled"]
    assert evicted(result) == [("lent", "quota", "urgent")]
    assert running(result) == {"borrower": [8], "own": [1], "urgent": [1]}


def test_fewer_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten devices are free: the leader and nine workers start."""
    result = decide("partial.yaml", capsys, "--settle")

    assert result["settled"]
    assert evicted(result) == []
    assert running(result)["train"] == [1, 9]

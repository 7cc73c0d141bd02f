"""What a policy changes, seed by seed."""

from __future__ import annotations

import pytest

from mooring.cli.changes import changes_as_data, print_changes
from mooring.cli.show import Terminal

FIRST = [
    {"policy": "fifo", "seed": 0, "gar_median": 0.50, "mean_wait_s": 100.0, "jtted": 1.0},
    {"policy": "fifo", "seed": 1, "gar_median": 0.70, "mean_wait_s": 900.0, "jtted": None},
]
OTHER = [
    {"policy": "default", "seed": 1, "gar_median": 0.76, "mean_wait_s": 100.0, "jtted": 1.0},
    {"policy": "default", "seed": 0, "gar_median": 0.56, "mean_wait_s": 50.0, "jtted": 1.0},
    {"policy": "default", "seed": 2, "gar_median": 0.10, "mean_wait_s": 0.0, "jtted": 1.0},
]


def test_a_change_is_the_mean_over_the_seeds_that_both_have() -> None:
    """GAR differs widely between seeds and by 6 points in each; waits by 50 and by 800 s."""
    found = changes_as_data(FIRST, OTHER)

    assert found["gar_median"] == pytest.approx({"mean": 0.06, "half_ci95": 0.0}, abs=1e-12)
    half = 12.7062 * 750 / 2**0.5 / 2**0.5
    assert found["mean_wait_s"] == pytest.approx({"mean": -425.0, "half_ci95": half}, rel=1e-4)
    assert "jtted" not in found  # one seed has it under both


def test_only_what_is_sure_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_changes(Terminal(), [FIRST, OTHER])

    assert " ".join(capsys.readouterr().out.split()) == (
        "default against fifo, on the same work: GAR median +6.0 ± 0.0 points (95 %); "
        "the rest cannot be told apart with 2 seeds."
    )


def test_one_seed_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_changes(Terminal(), [FIRST[:1], OTHER])

    assert capsys.readouterr().out == ""

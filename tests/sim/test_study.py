"""What comes of a trial: nothing is left out at its end."""

from pathlib import Path

import pytest

from mooring.sim.study import NAMED, Source, Trial, run_trial


@pytest.mark.parametrize("until_s", [500.0, float("inf")])
def test_what_starts_at_once_in_the_last_cycle_has_started(tmp_path: Path, until_s: float) -> None:
    """Two jobs of a thousand seconds, the second behind the first; nothing else ever happens."""
    trace = tmp_path / "long.csv"
    trace.write_text("at,name,gpus,run_s\n0,first,8,1000\n0,second,8,1000\n")
    source = Source(trace=str(trace))

    summary = run_trial(Trial(source, NAMED["fifo"], until_s=until_s), lambda passed: None).summary

    assert summary.started + len(summary.not_started) == 2
    if until_s == 500.0:
        assert summary.started >= 1
        assert summary.sor_useful == summary.sor_run == summary.sor > 0

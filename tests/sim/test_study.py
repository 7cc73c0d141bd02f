"""What comes of a trial: nothing is left out at its end."""

from pathlib import Path

import pytest

from mooring.metrics.summary import Waited
from mooring.sim.live import Waits
from mooring.sim.study import NAMED, Source, Trial, run_trial


@pytest.mark.parametrize("until_s", [500.0, float("inf")])
def test_what_starts_at_once_in_the_last_cycle_has_started(tmp_path: Path, until_s: float) -> None:
    """It runs until somebody ends it, and nothing else ever happens."""
    trace = tmp_path / "long.csv"
    trace.write_text("at,name,gpus\n0,only,8\n")
    source = Source(trace=str(trace))

    summary = run_trial(Trial(source, NAMED["fifo"], until_s=until_s), lambda passed: None).summary

    assert (summary.started, summary.not_started) == (1, ())
    if until_s == 500.0:
        assert summary.sor_useful == summary.sor_run == summary.sor == 1.0


def test_only_those_that_are_followed_are_kept_if_nobody_asks_for_all() -> None:
    followed, other = Waited("a", "q", 1, 0.0, 5.0), Waited("b", "q", 1, 0.0, 7.0)
    for keeps_all, names in ((False, []), (True, ["a", "b"])):
        waits = Waits(("a",), keeps_all)
        waits.add(followed)
        waits.add(other)
        assert (waits.names, waits.told) == (names, {"a": followed})

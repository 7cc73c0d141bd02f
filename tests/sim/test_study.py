"""What comes of a trial: nothing is left out at its end."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from mooring.metrics.summary import Waited
from mooring.model.plan import Blocked, Excluded, Impossible
from mooring.sim.live import Live, Waits
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.run import AT_ONCE, Delays
from mooring.sim.saved import load, resume, save
from mooring.sim.study import NAMED, Source, Trial, outcome_of, run_trial, whole_of
from mooring.sim.traces import Options


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


@pytest.mark.parametrize("stop_s", [float("inf"), 10 * 86_400.0])
def test_what_runs_until_all_is_done_ends_with_the_last_of_it(
    tmp_path: Path, stop_s: float
) -> None:
    """The engine would wake when its limit is over, a month later."""
    trace = tmp_path / "limited.csv"
    trace.write_text("at,name,gpus,run_s,run_limit_s\n0,only,8,3600,2592000\n")
    live = Live(Trial(Source(trace=str(trace)), NAMED["default"]), lambda passed: None)

    summary = outcome_of(live, is_whole=live.go(stop_s), until_s=stop_s).summary

    assert (summary.end, summary.sor, summary.gar.median) == (3600.0, 1.0, 1.0)
    assert live.is_over


ENDLESS = """at,name,gpus,run_s,run_limit_s
0,only,8,3600,2592000
10,never,16,3600,
"""
"""One node of 8 GPUs; the engine would wake when the limit of `only` is over, a month later."""


@pytest.mark.parametrize("rules", NAMED)
@pytest.mark.parametrize("stops", [(), (1800.0,), (1800.0, 7200.0), (10 * 86_400.0,)])
def test_who_can_never_start_does_not_lengthen_what_runs_until_all_is_done(
    tmp_path: Path, rules: str, stops: tuple[float, ...]
) -> None:
    live = _stopped(_until_all_is_done(tmp_path, ENDLESS, rules), stops, tmp_path / "run")
    outcome = outcome_of(live, is_whole=live.go())

    summary, (never,) = outcome.summary, outcome.summary.not_started
    assert (summary.end, summary.sor, summary.gar.median) == (3600.0, 1.0, 1.0)
    assert never.wait_s == 3590.0
    assert [type(reason) for reason in never.reasons] == [Impossible, Excluded]
    assert live.waits is not None
    assert [why.seconds for why in live.waits.whys.of("never")] == [3590.0]


def test_what_is_stopped_before_its_last_timer_counts_up_to_there(tmp_path: Path) -> None:
    """Something may still come of it."""
    live = _until_all_is_done(tmp_path, ENDLESS, "fifo")

    summary = outcome_of(live, is_whole=live.go(7200.0), until_s=7200.0).summary

    assert (summary.end, summary.sor) == (7200.0, 0.5)


@pytest.mark.parametrize("stops", [(), (7000.0,), (7205.0,), (8000.0,)])
@pytest.mark.parametrize("end", ["9e9,", ",9000"], ids=["never done", "ended later"])
def test_what_comes_of_a_timer_counts_in_what_runs_until_all_is_done(
    tmp_path: Path, stops: tuple[float, ...], end: str
) -> None:
    """It has notice at 6,900 s that its limit is over at 7,200 s, and is over 10 s after that."""
    head = "at,name,gpus,run_limit_s,run_s,ends_at"
    text = f"{head}\n0,short,4,,3600,\n0,long,4,7200,{end}\n10,never,16,,1,\n"
    live = _until_all_is_done(tmp_path, text, "default", Delays(grace_s=10.0))
    live = _stopped(live, stops, tmp_path / "run")

    summary = outcome_of(live, is_whole=live.go()).summary

    assert (summary.end, summary.ended, summary.evictions.workloads) == (7210.0, 2, 1)
    assert summary.sor == (3600 + 7210) / (2 * 7210)


def _until_all_is_done(folder: Path, text: str, rules: str, delays: Delays = AT_ONCE) -> Live:
    """Return a run of a trace on one node, in which `never` is followed."""
    (folder / "t.csv").write_text(text)
    source = Source(trace=str(folder / "t.csv"), reading=Options(nodes=1))
    trial = Trial(source, NAMED[rules], delays=delays, follow=("never",))
    return Live(trial, lambda passed: None)


def _stopped(live: Live, stops: Sequence[float], file: Path) -> Live:
    """Return a run that has been saved and read again at each stop."""
    for stop in stops:
        assert live.go(stop)
        save(live, file)
        live = resume(load(file), lambda passed: None)
    return live


@pytest.mark.parametrize("stops", [(), (1800.0,), (7200.0,)])
def test_workloads_tell_how_far_a_trace_is_that_runs_until_all_is_done(
    tmp_path: Path, stops: tuple[float, ...]
) -> None:
    """All of them have been told in the end, also one that can never start."""
    live = _until_all_is_done(tmp_path, ENDLESS, "fifo")
    live = _stopped(live, stops, tmp_path / "run")
    ticks: list[int] = []
    if stops:
        live = resume(load(tmp_path / "run"), ticks.append)
        assert live.way.done == (stops[0] > 3600)
    else:
        live = Live(live.trial, ticks.append)
    before = live.way.done

    live.go()

    assert before + sum(ticks) == live.way.whole == whole_of([live.trial]) == 2
    assert whole_of([live.trial, replace(live.trial, until_s=500.0)]) == 2 + 500


@pytest.mark.parametrize("until_s", [3600.0, inf])
def test_seconds_tell_how_far_a_mix_is(until_s: float) -> None:
    """Until all is done they count up to when work comes: that is known, and the most of it."""
    ticks: list[int] = []
    trial = Trial(Source("lab", MixOptions(64, days=0.05)), NAMED["fifo"], until_s=until_s)

    run_trial(trial, ticks.append)

    whole = whole_of([trial])
    assert whole == min(until_s, 0.05 * 86_400)
    assert whole - 1200 < sum(ticks) <= whole
    assert len(ticks) > 2


def test_what_is_to_run_for_a_time_counts_to_its_end(tmp_path: Path) -> None:
    trace = tmp_path / "short.csv"
    trace.write_text("at,name,gpus,run_s\n0,only,8,3600\n")

    trial = Trial(Source(trace=str(trace)), NAMED["default"], until_s=7200.0)
    summary = run_trial(trial, lambda passed: None).summary

    assert (summary.end, summary.sor) == (7200.0, 0.5)


def test_who_is_followed_is_told_what_it_waited_for_and_how_long(tmp_path: Path) -> None:
    """One node: `b` waits for `a` alone until 100 s, then `c` overtakes nobody: strict order."""
    trace = tmp_path / "line.csv"
    trace.write_text("at,name,gpus,run_s\n0,a,8,100\n10,b,8,50\n20,c,4,10\n")
    source = Source(trace=str(trace), reading=Options(nodes=1))
    trial = Trial(source, NAMED["fifo"], delays=Delays(start_s=30.0), follow=("b", "c"))
    live = Live(trial, lambda passed: None)
    live.go()
    assert live.waits is not None

    b, c = live.waits.whys.of("b"), live.waits.whys.of("c")

    assert [(why.seconds, [type(r).__name__ for r in why.reasons]) for why in b] == [
        (120.0, ["NoRoom", "Excluded"]),
        (30.0, []),
    ]
    assert (c[0].seconds, c[0].reasons) == (110.0, (Blocked("b"),))
    assert sum(why.seconds for why in c) == live.waits.told["c"].wait_s == 220.0

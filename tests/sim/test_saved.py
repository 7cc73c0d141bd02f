"""A run that is saved and continued does what an unbroken one does, record for record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mooring.journal import Journal, JournalError
from mooring.model.settings import Policy
from mooring.sim import saved
from mooring.sim.live import Live
from mooring.sim.mixes import Options
from mooring.sim.run import Delays
from mooring.sim.saved import SavedError, load, resume, save
from mooring.sim.study import NAMED, Rules, Source, Trial, outcome_of, run_trial
from mooring.sim.traces import Options as Reading

if TYPE_CHECKING:
    from pathlib import Path

    from mooring.model.plan import Record
    from mooring.sim.study import Outcome

HOUR = 3600.0
MORE = (
    Rules("clustering", Policy(small="gpu-clustering"), "best-effort"),
    Rules("easy", Policy(), "easy"),
    Rules("conservative", Policy(), "conservative"),
    Rules("kai", Policy(profile="kai")),
    Rules("kueue", Policy(profile="kueue")),
)
RULES = {**NAMED, **{rules.name: rules for rules in MORE}}


def trial_of(mix: str = "lab", rules: str = "default", seed: int = 0, **changes: object) -> Trial:
    """Return some hours of a small cluster with more to do than it can, whose nodes fail."""
    source = Source(mix, Options(gpus=48, days=1.5 / 24, load=1.3), node_failures=4000.0)
    trial = Trial(source, RULES[rules], seed, HOUR / 4, 1.5 * HOUR, Delays(30.0, 60.0, 10.0), True)
    return replace(trial, **changes)  # type: ignore[arg-type]


def nothing(passed: int) -> None:
    """Hear of nothing."""


def recorded(trial: Trial, journal: Path, *stops: float) -> tuple[list[Record], Outcome]:
    """Return the journal and the outcome of a run that is saved and read again at each stop."""
    file = journal.with_suffix(".run")
    live = Live(replace(trial, journal=str(journal)), nothing)
    for stop in stops:
        assert live.go(stop)
        save(live, file)
        live = resume(load(file), nothing)
    assert live.go(trial.until_s)
    outcome = outcome_of(live, is_whole=True)
    with Journal.open(journal) as written:
        records = list(written.records())
    journal.unlink()
    return records, outcome


@pytest.mark.parametrize(
    ("mix", "rules", "stops"),
    [
        ("lab", "fifo", (1.2,)),
        ("classic", "best-effort", (0.3, 1.0)),
        ("mixed", "backfill", (1.0,)),
        ("lab", "e-binpack", (0.0, 1.4)),
        ("mixed", "default", (0.3, 1.1, 1.2)),
        ("inference", "default", (1.25,)),
        ("lab", "clustering", (1.0,)),
        ("mixed", "easy", (1.1,)),
        ("lab", "conservative", (1.3,)),
        ("mixed", "kai", (0.8,)),
        ("mixed", "kueue", (0.9,)),
    ],
)
def test_stops_change_nothing(
    tmp_path: Path, mix: str, rules: str, stops: tuple[float, ...]
) -> None:
    trial = trial_of(mix, rules)

    records, outcome = recorded(trial, tmp_path / "whole")
    again, other = recorded(trial, tmp_path / "parts", *(stop * HOUR for stop in stops))

    assert again == records
    assert len(records) > 5
    assert (other.summary, other.film, other.waits) == (
        *(outcome.summary, outcome.film, outcome.waits),
    )


@pytest.mark.soak
@given(
    some.sampled_from(["lab", "classic", "inference", "mixed"]),
    some.sampled_from(sorted(RULES)),
    some.integers(0, 1000),
    some.lists(some.floats(0.0, 1.5 * HOUR), min_size=1, max_size=3).map(sorted),
)
@settings(max_examples=100)
def test_no_stop_changes_anything(
    tmp_path_factory: pytest.TempPathFactory, mix: str, rules: str, seed: int, stops: list[float]
) -> None:
    folder, trial = tmp_path_factory.mktemp("runs"), trial_of(mix, rules, seed)
    records, outcome = recorded(trial, folder / "whole")
    again, other = recorded(trial, folder / "parts", *stops)
    assert again == records
    assert other.summary == outcome.summary


CONTINUE = """
import sys
from mooring.sim import saved
from mooring.sim.saved import load, resume
from mooring.sim.study import outcome_of
code, *files = sys.argv[1:]
saved._code = lambda: code  # somebody may edit the code while tests run
for file in files:
    live = resume(load(file), lambda passed: None)
    live.go(live.trial.until_s)
    print(repr(outcome_of(live, is_whole=True).summary))
"""


def test_another_process_goes_on_the_same(tmp_path: Path) -> None:
    """Not even the order of hashes is the same there."""
    files, summaries = [], []
    for rules in ("fifo", "default", "conservative", "kueue"):
        live = Live(trial_of("mixed", rules), nothing)
        live.go(HOUR)
        files.append(str(tmp_path / rules))
        save(live, files[-1])
        live.go(1.5 * HOUR)
        summaries.append(repr(outcome_of(live, is_whole=True).summary))

    environment = os.environ | {"PYTHONHASHSEED": "17"}
    asked = [sys.executable, "-c", CONTINUE, saved._code(), *files]
    told = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment)

    assert told.stdout.splitlines() == summaries


# -- what cannot be continued ---------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a run saved after an hour."""
    live = Live(trial_of(), nothing)
    live.go(HOUR)
    save(live, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("format", 99, "its format is 99, and this release knows format 1"),
        ("code", "mooring 0.0.9", "it was saved by mooring 0.0.9, this is mooring"),
        ("sha256", "0", "not complete, or was changed"),
        ("kind", "cake", "this is not a saved run"),
    ],
)
def test_a_file_of_another_kind_is_told(file: Path, key: str, value: object, told: str) -> None:
    line, _, body = file.read_bytes().partition(b"\n")
    file.write_bytes(json.dumps(json.loads(line) | {key: value}).encode() + b"\n" + body)
    with pytest.raises(SavedError, match=told):
        load(file)


def test_half_a_file_is_told(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(SavedError, match="not complete"):
        load(file)


@pytest.mark.parametrize("text", [b"", b"\x80\x05N.", b"{}\n", b"[1]\n", b"\xff" * 100])
def test_what_is_no_run_is_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x").write_bytes(text)
    with pytest.raises(SavedError, match="this is not a saved run"):
        load(tmp_path / "x")


def test_there_must_be_a_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SavedError, match="cannot be read: No such file"):
        load(tmp_path / "none")
    with pytest.raises(SavedError, match="cannot be written: No such file"):
        save(Live(trial_of(), nothing), tmp_path / "none" / "run")


def test_work_that_is_not_what_it_was_is_told(file: Path) -> None:
    found = load(file)
    other = replace(found.trial, seed=5)
    with pytest.raises(SavedError, match="what is to come is not what it was"):
        resume(found._replace(trial=other), nothing)


def test_a_failed_save_leaves_what_was_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    def fail(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved.os, "replace", fail)  # type: ignore[attr-defined]
    with pytest.raises(SavedError, match="No space left"):
        save(Live(trial_of(), nothing), file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["run"]


def test_a_journal_that_went_on_without_the_run_is_told(tmp_path: Path) -> None:
    live = Live(trial_of(journal=str(tmp_path / "journal")), nothing)
    live.go(HOUR)
    save(live, tmp_path / "run")
    live.go(1.2 * HOUR)
    with pytest.raises(JournalError, match="not the journal of this run"):
        resume(load(tmp_path / "run"), nothing).go(1.4 * HOUR)


def saved_trace(folder: Path) -> Path:
    """Return a run of a trace with nodes, saved after two of its three jobs have come."""
    (folder / "t.csv").write_text("name,at,run_s,gpus\na,0,500,1\nb,50,500,1\nc,200,500,1\n")
    (folder / "t.nodes.csv").write_text("name,gpus\nx,8\ny,8\n")
    live = Live(Trial(Source(trace=str(folder / "t.csv")), NAMED["fifo"]), nothing)
    live.go(100.0)
    save(live, folder / "run")
    return folder / "run"


def test_a_trace_that_is_as_it_was_is_gone_on_with(tmp_path: Path) -> None:
    """Whatever else has happened to its files."""
    run = saved_trace(tmp_path)
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text())
    live = resume(load(run), nothing)
    assert live.go()
    assert outcome_of(live, is_whole=True).summary.ended == 3
    save(live, run)
    assert resume(load(run), nothing).go()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("t.csv", "a,0,500", "a,0,900"),
        ("t.csv", "c,200,500", "c,200,50"),
        ("t.csv", "c,200,500", "c,soon,50"),
        ("t.nodes.csv", "y,8", "y,4"),
    ],
)
def test_a_trace_that_was_edited_is_told(tmp_path: Path, file: str, old: str, new: str) -> None:
    run, path = saved_trace(tmp_path), tmp_path / file
    text = path.read_text()
    path.write_text(text.replace(old, new))
    said = f"^{run}: {path} has changed since it was saved: put back what it was, or begin anew$"
    with pytest.raises(SavedError, match=said):
        load(run)
    path.write_text(text)
    assert resume(load(run), nothing).go()


def test_an_edit_while_it_ran_is_told(tmp_path: Path) -> None:
    """What counts is what was read, not what is there when it is saved."""
    (tmp_path / "t.csv").write_text("name,at,run_s,gpus\na,0,500,1\nb,50,500,1\n")
    live = Live(Trial(Source(trace=str(tmp_path / "t.csv")), NAMED["fifo"]), nothing)
    live.go(10.0)
    (tmp_path / "t.csv").write_text("name,at,run_s,gpus\na,0,500,1\nb,50,900,1\n")
    save(live, tmp_path / "run")
    with pytest.raises(SavedError, match=r"t.csv has changed since it was saved"):
        load(tmp_path / "run")


@pytest.mark.parametrize("file", ["t.csv", "t.nodes.csv"])
def test_a_trace_that_is_gone_is_told(tmp_path: Path, file: str) -> None:
    run = saved_trace(tmp_path)
    (tmp_path / file).unlink()
    said = f"its work was read from {tmp_path / file}, and there is no such file: go on in the"
    with pytest.raises(SavedError, match=said):
        load(run)


def test_a_table_that_is_new_beside_a_trace_is_told(tmp_path: Path) -> None:
    run, queues = saved_trace(tmp_path), tmp_path / "t.queues.csv"
    queues.write_text("name,weight\ndefault,2\n")
    with pytest.raises(SavedError, match=f"its work would be read from {queues} too, which was"):
        resume(load(run), nothing)


def test_a_journal_that_is_not_here_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    live = Live(trial_of(journal="j.journal"), nothing)
    live.go(HOUR)
    save(live, "run")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(SavedError) as told:
        load("../run")
    assert str(told.value) == (
        "../run: it writes its journal to j.journal, and there is no such file: "
        "go on in the folder where it was begun, or put the file there"
    )
    monkeypatch.chdir(tmp_path)
    assert resume(load("run"), nothing).go(1.2 * HOUR)


def test_a_run_can_stop_while_a_decision_to_evict_is_made(tmp_path: Path) -> None:
    """It is made from 100 to 110, and what it breaks off saves its work every second."""
    trace = tmp_path / "two.csv"
    rows = ("low,0,8,300,0,1\n", "high,100,8,50,5,1\n")
    trace.write_text("name,at,gpus,run_s,priority,checkpoint_every_s\n" + "".join(rows))
    source = Source(trace=str(trace), reading=Reading(nodes=1))
    trial = Trial(source, NAMED["fifo"], until_s=HOUR, delays=Delays(decide_s=10.0))
    live = Live(trial, nothing)
    live.go(105.0)
    save(live, tmp_path / "run")
    on = resume(load(tmp_path / "run"), nothing)
    assert on.go(HOUR)
    unbroken = run_trial(trial, nothing)
    assert outcome_of(on, is_whole=True).summary == unbroken.summary
    assert unbroken.summary.evictions.workloads == 1
    assert unbroken.summary.ended == 2

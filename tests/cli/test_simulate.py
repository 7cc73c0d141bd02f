"""`mooring simulate` and `mooring compare`: what they print and write, and their exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from signal import SIGINT
from subprocess import PIPE
from time import monotonic, sleep

import pytest
from rich.console import Console
from rich.progress import Progress

from mooring.cli import main
from mooring.report import Spread
from mooring.report.spread import student_t
from mooring.sim.live import Live
from tests.sim.traces.test_readers import write_traces

Captured = pytest.CaptureFixture[str]
SMALL = ["--cluster", "64", "--days", "0.1", "--warm-up", "0.02", "--load", "1.2"]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")


def test_one_run_is_told_in_two_tables(capsys: Captured) -> None:
    assert main(["simulate", *SMALL, "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["default"]
    assert [line.split()[0] for line in lines if line.startswith("GPUs")] == ["GPUs"]
    assert max(map(len, lines)) <= 80
    assert "workloads in 2.4 hours of 64 GPUs, simulated in" in lines[-1]


def test_policies_for_which_there_is_no_room_stand_further_down(capsys: Captured) -> None:
    """Beside the first, which all are compared with; no number is broken off."""
    every = ["fifo", "best-effort", "backfill", "e-binpack", "default"]
    options = ["--policy", *every, "--seed", "1", "2", "--jobs", "1"]
    assert main(["compare", *SMALL, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [lines[at - 1].split() for at, line in enumerate(lines) if re.fullmatch("─+", line)]
    assert heads[0][0] == heads[1][0] == "fifo"
    assert heads[0] + heads[1][1:] == every
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith("GAR median")]) == 2


def test_the_same_seed_gives_the_same_numbers(capsys: Captured) -> None:
    told = []
    for seed in ("1", "1", "2"):
        assert main(["simulate", *SMALL, "--seed", seed, "-o", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1] != told[2]
    assert told[0]["name"] == "default"
    assert told[0]["start"] == 0.02 * 86_400


def test_policies_side_by_side_with_intervals(tmp_path: Path, capsys: Captured) -> None:
    page, data = tmp_path / "report.html", tmp_path / "numbers.csv"
    files = ["--report", str(page), "--data", str(data)]
    policies = ["--policy", "fifo", "default", "--seed", "1", "2", "--jobs", "1"]
    assert main(["compare", *SMALL, *policies, *files, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_whole"]
    assert [(p["policy"], p["seeds"]) for p in told["policies"]] == [("fifo", 2), ("default", 2)]
    assert [(r["name"], r["seed"]) for r in told["runs"]] == [
        ("fifo", 1),
        ("fifo", 2),
        ("default", 1),
        ("default", 2),
    ]
    mean = told["policies"][0]["sor"]["mean"]
    assert mean == pytest.approx((told["runs"][0]["sor"] + told["runs"][1]["sor"]) / 2)
    some = [run["failed"]["workloads"] for run in told["runs"][:2]]
    assert told["policies"][0]["failed"]["mean"] == pytest.approx(sum(some) / 2)
    assert told["runs"][0]["failed"]["gpu_hours"] > 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert [row.split(",")[:2] for row in data.read_text().splitlines()] == [
        ["policy", "seed"],
        *([name, seed] for name in ("fifo", "default") for seed in "12"),
    ]


def test_several_processes_give_the_same(capsys: Captured) -> None:
    told = []
    for jobs in ("1", "2"):
        options = ["--policy", "fifo", "default", "--jobs", jobs, "-o", "json"]
        assert main(["compare", *SMALL, *options]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]


def test_a_policy_file_and_its_mistakes(tmp_path: Path, capsys: Captured) -> None:
    good, bad = tmp_path / "mine.yaml", tmp_path / "bad.yaml"
    good.write_text("policy: {small: best-fit}\n")
    bad.write_text("policy: {small: worst-fit}\n")
    assert main(["simulate", *SMALL, "--policy", str(good)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["mine"]
    assert main(["simulate", *SMALL, "--policy", str(bad)]) == 2
    assert "worst-fit" in capsys.readouterr().err
    assert main(["simulate", *SMALL, "--policy", "nobody-knows"]) == 2
    assert "no such policy: fifo" in capsys.readouterr().err


def test_a_trace_instead_of_a_mix(tmp_path: Path, capsys: Captured) -> None:
    folder = write_traces(tmp_path)
    options = ["--trace", "philly-jobs", "--traces", str(folder), "--days", "0", "-o", "json"]
    assert main(["simulate", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["submitted"] == told["ended"] == 3


def test_jtted_is_not_told_where_no_gang_started(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "t.csv").write_text("at,name,run_s,gpus\n0,a,60,8\n")
    trace = ["--trace", str(tmp_path / "t.csv")]
    assert main(["simulate", *trace]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line[:5] == "JTTED"]
    assert line.split() == ["JTTED", "–"]
    assert main(["compare", *trace, "--policy", "fifo", "default", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [policy["jtted"] for policy in told["policies"]] == [None, None]
    assert [run["tted"]["gangs"] for run in told["runs"]] == [0, 0]


@pytest.mark.parametrize("limits", ["trace", "policy"])
def test_who_has_run_as_long_as_it_may_asks_for_nothing_more(
    tmp_path: Path, capsys: Captured, limits: str
) -> None:
    """`a` is told to leave at 50 s, or at half an hour; `b` runs then."""
    (tmp_path / "t.nodes.csv").write_text("name,gpus\nn,8\n")
    limit = "50" if limits == "trace" else ""
    text = f"at,name,run_s,gpus,run_limit_s\n0,a,7200,8,{limit}\n5,b,10,8,\n"
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "p.yaml").write_text("queues: [{name: default, run_limit: 30m}]\n")
    rules = ["--policy", str(tmp_path / "p.yaml")] if limits == "policy" else []
    options = ["--start", "0", "--grace", "0", "--days", "0.1", *rules, "-o", "json"]
    assert main(["simulate", "--trace", str(tmp_path / "t.csv"), *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ended"], told["failed"]["workloads"]) == (2, 1)
    assert told["curve"]["waiting_gpus"][-1] == 0.0
    assert told["fairness"]["least"] > 0.5


def test_how_many_a_run_limit_ended_is_told(tmp_path: Path, capsys: Captured) -> None:
    """Waits look better then. Where there are none nothing is told."""
    trace, rules = tmp_path / "t.csv", tmp_path / "lim.yaml"
    rules.write_text("queues: [{name: default, run_limit: 30m}]\n")
    options = ["--trace", str(trace), "--nodes", "1", "--days", "0.1"]
    lim = ["--policy", str(rules)]
    for rows, told in (
        ("0,a,7200,8\n5,b,10,8\n", "1 workload was ended by its run limit."),
        ("0,a,7200,8\n5,b,7200,8\n", "2 workloads were ended by their run limit."),
    ):
        trace.write_text(f"at,name,run_s,gpus\n{rows}")
        assert main(["simulate", *options, *lim]) == 0
        assert told in capsys.readouterr().out.splitlines()
    assert main(["compare", *options, "--policy", "fifo", *lim[1:], "--jobs", "1"]) == 0
    assert "Ended by a run limit: lim 2." in capsys.readouterr().out.splitlines()
    seeds = ["--seed", "0", "1", "--node-failures", "0.001", "--jobs", "1"]
    assert main(["compare", *options, "--policy", "fifo", *lim[1:], *seeds]) == 0
    assert "Ended by a run limit, in the mean: lim 2." in capsys.readouterr().out.splitlines()
    for command in (["simulate"], ["compare", "--policy", "fifo", "--jobs", "1"]):
        assert main([*command, *options]) == 0
        assert "run limit" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "what", "whole"),
    [
        ("simulate", "workloads", 3),
        ("simulate --stop-at 1h", "seconds of the cluster", 3600),
        ("compare --policy fifo default --jobs 1", "workloads", 6),
        ("compare --policy fifo default --jobs 2", "workloads", 6),
        ("sweep rows.csv --policy fifo default --jobs 1", "workloads", 6),
        ("sweep rows.csv --days 0.1 --policy fifo --jobs 1", "seconds of clusters", 8640),
    ],
)
def test_the_way_to_go_is_known_and_gone_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, what: str, whole: int
) -> None:
    """One of three workloads can never start, so the run ends before it has."""
    (tmp_path / "t.csv").write_text("at,name,run_s,gpus\n0,a,60,8\n0,b,70,8\n0,c,9,16\n")
    bars: list[Progress] = []

    def shown() -> Progress:
        bars.append(Progress(console=Console(file=io.StringIO())))
        return bars[-1]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mooring.cli.simulate.progress", shown)
    monkeypatch.setattr("mooring.cli.sweep.progress", shown)

    assert main([*command.split(), "--trace", "t.csv", "--nodes", "1"]) == 0

    ((task,),) = [bar.tasks for bar in bars]
    assert (task.description, task.total) == (what, whole)
    if what == "workloads":
        assert task.completed == whole


def test_a_journal_of_a_run_replays(tmp_path: Path, capsys: Captured) -> None:
    journal = tmp_path / "run.journal"
    assert main(["simulate", *SMALL, "--journal", str(journal)]) == 0
    assert main(["replay", str(journal)]) == 0
    assert "every plan as it was" in capsys.readouterr().out


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_journal_of_a_run_that_wakes_by_itself_replays(
    tmp_path: Path, capsys: Captured, seed: str
) -> None:
    """Some cycles come of time alone, decide nothing, and yet count."""
    journal = tmp_path / "run.journal"
    options = ["--cluster", "64", "--days", "0.4", "--load", "1.2", "--seed", seed]
    assert main(["simulate", *options, "--journal", str(journal)]) == 0
    assert main(["replay", str(journal)]) == 0
    assert "every plan as it was" in capsys.readouterr().out


def test_all_of_it_in_a_folder(tmp_path: Path, capsys: Captured) -> None:
    """The page has the means over all seeds, and who waits longer, as the data have."""
    options = ["--policy", "default", "fifo", "--seed", "1", "2", "--jobs", "1", "-o", "json"]
    assert main(["compare", *SMALL, "--load", "3", *options, "--out", str(tmp_path / "x")]) == 0
    told = json.loads(capsys.readouterr().out)
    files = {path.name: path.read_text("utf-8") for path in (tmp_path / "x").iterdir()}
    assert set(files) == {"report.html", "runs.json", "runs.csv"}
    assert json.loads(files["runs.json"]) == told
    assert len(files["runs.csv"].splitlines()) == 1 + 4
    assert told["worse"]
    assert {row["policy"] for row in told["worse"]} == {"fifo"}
    for row in told["worse"]:
        assert row["to_s"] > row["from_s"]
        assert row["workload"] in files["report.html"]
    assert '"half_ci95":' in files["report.html"]


def gang_and_crumbs(folder: Path) -> str:
    """Write a trace: two tasks of eight GPUs, and for ever single ones that could go first."""
    file = folder / "crumbs.csv"
    rows = ["name,at,run_s,tasks,gpus", "first,0,100,1,1", "gang,1,100,2,8"]
    rows += [f"crumb-{number:02d},{2 + 40 * number},100,1,1" for number in range(40)]
    file.write_text("\n".join(rows) + "\n")
    return str(file)


def test_who_never_starts_got_worse(tmp_path: Path, capsys: Captured) -> None:
    """In order the gang starts after the first is done; best-effort, there is always a crumb."""
    options = ["--trace", gang_and_crumbs(tmp_path), "--nodes", "2", "--days", "0.015"]
    assert main(["compare", *options, "--policy", "fifo", "best-effort", "-o", "json"]) == 0
    (worst, *_) = json.loads(capsys.readouterr().out)["worse"]
    assert (worst["workload"], worst["policy"], worst["has_started"]) == (
        "gang",
        "best-effort",
        False,
    )
    assert worst["from_s"] < 200
    assert worst["to_s"] == pytest.approx(0.015 * 86_400 - 1)
    assert main(["compare", *options, "--policy", "fifo", "best-effort"]) == 0
    assert "1,295 s, not started" in capsys.readouterr().out


def test_who_has_not_started_is_told_why(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("name,at,run_s,gpus\nodd,0,100,16\nfine,0,100,1\n")
    assert main(["simulate", "--trace", str(file), "--nodes", "2", "--days", "0.01"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"^odd +864 s +It can never start here: no node takes even one task", out, re.M
    )
    assert (
        main(["simulate", "--trace", str(file), "--nodes", "2", "--days", "1", "-o", "json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert [bool(waited["why"]) for waited in told["worst"]] == [True, False]
    assert told["not_started"] == told["worst"][:1]


def test_how_many_more_have_not_started_is_told(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("name,at,run_s,gpus\n" + "".join(f"odd{n},0,100,16\n" for n in range(8)))
    assert main(["simulate", "--trace", str(file), "--nodes", "2", "--days", "0.01"]) == 0
    assert "and 3 more." in capsys.readouterr().out.splitlines()


def test_what_a_run_is_about_stands_on_its_page(tmp_path: Path) -> None:
    file, page = tmp_path / "two.csv", tmp_path / "page.html"
    file.write_text("name,at,run_s,gpus\na,0,100,8\nb,0,100,1\n")
    run = ["--nodes", "2", "--report", str(page)]
    assert main(["simulate", "--trace", str(file), *run]) == 0
    assert "Policy default; 2 workloads on 16 GPUs." in page.read_text("utf-8")
    assert main(["simulate", *SMALL, "--report", str(page)]) == 0
    about = (
        "64 GPUs at load 1.2, seed 0; 2.4 hours are counted; the first 28.8 minutes are left out."
    )
    assert about in page.read_text("utf-8")


BROKEN = "name,at,run_s,gpus\nfine,0,100,1\nodd,0,long,1\n"


def test_what_was_left_out_of_a_trace_is_told(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "broken.csv"
    file.write_text(BROKEN)
    options = ["--trace", str(file), "--nodes", "1", "--skip-broken"]
    for command in (
        ["simulate"],
        ["compare", "--policy", "fifo"],
        ["sweep", str(tmp_path / "s.csv")],
    ):
        assert main([*command, *options]) == 0
        assert "1 broken row left out" in capsys.readouterr().out
        assert main([*command, *options, "-o", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        found = told["rows"][0] if command[0] == "sweep" else told
        assert found["left_out"] == 1
    assert main(["simulate", *options[:-1]]) == 2
    assert "broken.csv" in capsys.readouterr().err


def test_work_in_a_queue_that_a_policy_has_not_got_is_told(
    tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("queues: [{name: speech}]\n")
    assert main(["simulate", *SMALL, "--policy", str(file)]) == 2
    told = capsys.readouterr().err
    assert "policy mine has no queue " in told
    assert "robotics" in told
    assert "speech" not in told
    options = ["--queue", "*=speech", "-o", "json"]
    assert main(["simulate", *SMALL, "--policy", str(file), *options]) == 0
    queues = json.loads(capsys.readouterr().out)["fairness"]["queues"]
    assert [queue["queue"] for queue in queues] == ["speech"]
    assert main(["simulate", *SMALL, "--queue", "speech=language", "-o", "json"]) == 0
    queues = json.loads(capsys.readouterr().out)["fairness"]["queues"]
    assert "speech" not in {queue["queue"] for queue in queues}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["simulate", "--nodes", "4", "--known"],
            "--nodes and --known say nothing without --trace",
        ),
        (
            ["simulate", "--checkpoint", "1h"],
            "--checkpoint says nothing without --trace: work of a mix saves what is done every 30 "
            "minutes",
        ),
        (
            ["compare", "--trace", "x.csv", "--mix", "mixed", "--seed", "0", "1"],
            "--mix and --seed say nothing with --trace",
        ),
        (
            ["sweep", "rows.csv", "--trace", "x.csv", "--load", "0.5", "1", "--cluster", "8"],
            "--cluster and --load say nothing with --trace",
        ),
        (["simulate", "--trace", "x.csv", "--mix", "lab"], "--mix says nothing with --trace"),
        (
            ["simulate", "--trace", "x.csv", "--since", "20d", "--until", "10d"],
            "--until: that is 10.0 days before --since: give a later time",
        ),
        (["measure", "x.journal", "--since", "1h", "--until", "1h"], "--until: that is --since"),
        (["simulate", "--load", "0"], "'0' is no number above 0"),
        (["experiment", "kant", "--load", "0.9", "0"], "--load: '0' is no number above 0"),
        (["simulate", "--report", "no/such/x.html"], "there is no folder no/such"),
        (["simulate", "--report", "x.csv"], "give a name that ends in .html or .htm"),
        (["compare", "--data", "x.txt"], "give a name that ends in .json or .csv"),
        (["simulate", "--save", "no/such/x.run"], "there is no folder no/such"),
    ],
)
def test_what_says_nothing_or_cannot_be_is_told_at_once(
    words: list[str], told: str, capsys: Captured
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_only_a_saved_run_is_replaced_by_one(tmp_path: Path, capsys: Captured) -> None:
    mine, run = tmp_path / "mine.py", tmp_path / "a.run"
    mine.write_text("def order(workload): return 0\n")
    stop = [*SMALL, "--stop-at", "10m", "--save"]
    assert main(["simulate", *stop, str(mine)]) == 2
    assert "mine.py: this is not a saved run; give the name of one" in capsys.readouterr().err
    assert mine.read_text().startswith("def order")
    assert main(["simulate", *stop, str(run)]) == main(["simulate", *stop, str(run)]) == 0


def test_until_all_is_done_after_a_warm_up(tmp_path: Path, capsys: Captured) -> None:
    options = ["--trace", gang_and_crumbs(tmp_path), "--nodes", "2", "-o", "json"]
    assert main(["simulate", *options, "--days", "0", "--warm-up", "0.005"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["submitted"] == 29  # crumbs from 442 s on
    assert told["waits"][0]["waiting"] == 0
    assert told["start"] == 432


def test_a_trace_runs_for_its_window_or_to_its_end(tmp_path: Path, capsys: Captured) -> None:
    options = ["--trace", gang_and_crumbs(tmp_path), "--nodes", "2", "-o", "json"]
    assert main(["simulate", *options]) == 0
    assert json.loads(capsys.readouterr().out)["ended"] == 42
    assert main(["simulate", *options, "--since", "100s", "--until", "500s"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["end"], told["submitted"]) == (400, 10)
    assert main(["simulate", *options, "--since", "1d"]) == 2
    assert "no work comes from 86400 s of it" in capsys.readouterr().err


def test_a_warm_up_is_a_part_of_the_window(tmp_path: Path, capsys: Captured) -> None:
    """Nothing comes after the window, so that nothing is to be counted there."""
    options = ["--trace", gang_and_crumbs(tmp_path), "--nodes", "2", "-o", "json"]
    window = ["--since", "100s", "--until", "964s", "--warm-up", "0.005"]
    for command in (["simulate"], ["compare", "--policy", "fifo", "--jobs", "1"]):
        assert main([*command, *options, *window]) == 0
        told = json.loads(capsys.readouterr().out)
        run = told if command == ["simulate"] else told["runs"][0]
        assert (run["start"], run["end"], run["submitted"]) == (432, 864, 11)
    assert main(["simulate", *options, *window, "--days", "0.01"]) == 0
    assert json.loads(capsys.readouterr().out)["end"] == pytest.approx(432 + 864)
    assert main(["sweep", str(tmp_path / "s.csv"), *options, *window, "--policy", "fifo"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["days"], row["warm_up_days"]) == pytest.approx((0.005, 0.005))


@pytest.mark.parametrize("warm_up", ["0.01", "2"])
def test_a_warm_up_that_leaves_nothing_of_the_window_is_refused(
    warm_up: str, tmp_path: Path, capsys: Captured
) -> None:
    options = ["--trace", gang_and_crumbs(tmp_path), "--nodes", "2", "--since", "100s"]
    for command in (["simulate"], ["compare"], ["sweep", str(tmp_path / "s.csv")]):
        assert main([*command, *options, "--until", "964s", "--warm-up", warm_up]) == 2
        assert capsys.readouterr().err == (
            f"--warm-up {warm_up}: the window up to --until has 0.01 days: give less, or --days\n"
        )


def test_a_warm_up_that_is_longer_than_the_run_is_refused(tmp_path: Path, capsys: Captured) -> None:
    """How long that is one knows when all is done; who stops before that has said so himself."""
    file, saved = tmp_path / "t.csv", str(tmp_path / "half.run")
    file.write_text("name,at,run_s,gpus\na,0,1200,8\nb,600,1170,8\n")
    options = ["--trace", str(file), "--nodes", "2", "--warm-up", "1"]
    two = ["--policy", "fifo", "default", "--jobs", "2"]
    for command in (["simulate"], ["compare", *two]):
        assert main([*command, *options]) == 2
        out, err = capsys.readouterr()
        told = "all is done by then, nothing is left to count: give less"
        assert (out, err) == ("", f"--warm-up 1: {told}\n")
    assert main(["simulate", *options, "--stop-at", "5m", "--save", saved]) == 0
    assert "GAR median" in capsys.readouterr().out
    assert main(["simulate", "--continue", saved]) == 2
    assert "--warm-up 1: all is done by then" in capsys.readouterr().err
    assert main(["simulate", *options[:-1], "0.0207"]) == 0


def test_a_sweep_keeps_what_is_counted_beside_what_is_over_in_the_warm_up(
    tmp_path: Path, capsys: Captured
) -> None:
    for name, run_s in (("short", 1200), ("long", 200_000)):
        (tmp_path / f"{name}.csv").write_text(f"name,at,run_s,gpus\na,0,{run_s},8\n")
    traces = [str(tmp_path / f"{name}.csv") for name in ("short", "long")]
    sweep = ["sweep", str(tmp_path / "rows.jsonl"), "--trace", *traces, "--nodes", "1"]
    assert main([*sweep, "--policy", "fifo", "--warm-up", "1", "--jobs", "1"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [row["sor"] for row in rows] == [None, 1.0]


def test_work_of_a_trace_saves_what_is_done(tmp_path: Path, capsys: Captured) -> None:
    """One of low priority is broken off after 1,000 s, and has saved every 300 s or nothing."""
    file = tmp_path / "t.csv"
    file.write_text("name,at,run_s,gpus,priority\nlow,0,5000,8,0\nhigh,1000,1000,8,9\n")
    lost = []
    for more in ([], ["--checkpoint", "5m"]):
        options = ["--nodes", "1", "--start", "0", "--grace", "0", "--restart", "0", "-o", "json"]
        assert main(["simulate", "--trace", str(file), *options, *more]) == 0
        lost.append(json.loads(capsys.readouterr().out)["evictions"]["lost_gpu_hours"])
    assert lost == pytest.approx([8 * 1000 / 3600, 8 * 100 / 3600])


def test_work_of_one_trace_on_the_nodes_of_another(tmp_path: Path, capsys: Captured) -> None:
    folder = write_traces(tmp_path)
    options = ["--trace", "philly-jobs", "--traces", str(folder), "-o", "json"]
    assert main(["simulate", *options, "--nodes-of", "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err
    assert main(["simulate", *options]) == 0
    own = json.loads(capsys.readouterr().out)["gpus"]
    assert main(["simulate", *options, "--nodes-of", "openb-default"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] != own


def test_a_table_of_nodes_by_itself_gives_its_nodes(tmp_path: Path, capsys: Captured) -> None:
    """Whether the work that it stands beside is there or not."""
    work, others, nodes = (tmp_path / name for name in ("w.csv", "j5.csv", "j5.nodes.csv"))
    work.write_text("at,name,run_s,gpus\n0,a,60,4\n")
    nodes.write_text("name,gpus,level.leaf\nn,4,x\nm,4,y\n")
    options = ["simulate", "--trace", str(work), "-o", "json"]
    for _ in range(2):
        assert main([*options, "--nodes-of", str(nodes)]) == 0
        assert json.loads(capsys.readouterr().out)["gpus"] == 8
        others.write_text("at,name,run_s,gpus\n0,b,60,4\n")
    assert main([*options, "--nodes-of", str(nodes), "--gpus", "4"]) == 2
    assert "the nodes of j5.nodes have GPUs of their own" in capsys.readouterr().err
    assert main([*options, "--nodes-of", str(work)]) == 2
    assert f"--nodes-of {work}: it has no nodes of its own" in " ".join(
        capsys.readouterr().err.split()
    )
    nodes.write_text("name,gpus\nn,x\n")
    assert main([*options, "--nodes-of", str(nodes)]) == 2
    assert "j5.nodes.csv: line 2, column gpus: 'x'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("words", [["simulate"], ["compare", "--jobs", "1"], ["sweep", "s.csv"]])
def test_nodes_and_gpus_that_a_trace_has_not_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = ["--trace", "openb-default", "--traces", str(write_traces(tmp_path))]
    assert main([*words, *trace, "--nodes", "3"]) == 2
    said = "--nodes 3: openb-default has 2 nodes: give at most 2, or nodes of another trace by"
    assert capsys.readouterr().err.startswith(said)
    assert main([*words, *trace, "--gpus", "4"]) == 2
    said = "--gpus 4: the nodes of openb-default have GPUs of their own: leave it out\n"
    assert capsys.readouterr().err == said
    assert main([*words, *trace, "--nodes", "2"]) == 0


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "x").write_text("")
    assert main(["simulate", *SMALL, "--out", str(tmp_path / "x")]) == 2
    assert f"--out {tmp_path / 'x'}: this is a file; give a folder" in capsys.readouterr().err


def test_all_places_that_cannot_be_are_told(tmp_path: Path, capsys: Captured) -> None:
    where = {f"--{name}": f"{tmp_path}/no/x" for name in ("journal", "save")}
    where |= {"--report": f"{tmp_path}/no/x.html", "--data": f"{tmp_path}/x.txt"}
    options = [word for pair in where.items() for word in pair]
    assert main(["simulate", *SMALL, *options]) == 2
    told = capsys.readouterr().err.splitlines()
    assert {line.split()[0] for line in told} == set(where)


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which nothing may be written, also by root; nor may anything be run."""
    folder, can = tmp_path / "locked", os.access
    folder.mkdir()
    (folder / "old.html").write_text("old")
    (folder / "mine.html").write_text("mine")

    def access(path: Path, mode: int) -> bool:
        name = Path(path).name
        return can(path, mode) and (name == "mine.html" or folder not in (path, path.parent))

    def run(*given: object) -> None:
        raise AssertionError("it is run")

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(Live, "__init__", run)
    return folder


@pytest.mark.parametrize("command", ["simulate", "compare"])
@pytest.mark.parametrize(
    ("option", "name"),
    [("report", "new.html"), ("report", "old.html"), ("data", "r.json"), ("data", "r.csv")],
)
def test_where_nothing_may_be_written_is_told_before_the_run(
    command: str, option: str, name: str, locked: Path, capsys: Captured
) -> None:
    what = "this file" if (locked / name).exists() else f"the folder {locked}"
    assert main([command, *SMALL, f"--{option}", str(locked / name)]) == 2
    said = f"--{option} {locked / name}: {what} may not be written; give another name\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("option", ["save", "journal"])
def test_a_run_is_not_begun_that_cannot_be_saved(
    option: str, locked: Path, capsys: Captured
) -> None:
    assert main(["simulate", *SMALL, f"--{option}", str(locked / "mine.html")]) == 2
    assert capsys.readouterr().err == (
        f"--{option} {locked / 'mine.html'}: the folder {locked} may not be written; "
        "give another name\n"
    )


def test_a_folder_for_all_of_it_must_take_files(locked: Path, capsys: Captured) -> None:
    assert main(["simulate", *SMALL, "--out", str(locked)]) == 2
    said = f"--out {locked}: this folder may not be written; give another folder\n"
    assert capsys.readouterr().err == said
    assert main(["simulate", *SMALL, "--out", str(locked / "new")]) == 2
    assert capsys.readouterr().err.startswith(f"--out {locked / 'new'}: ")


def test_a_file_that_may_be_written_is_enough_for_a_report(locked: Path) -> None:
    """Whoever may not write the folder."""
    with pytest.raises(AssertionError, match="it is run"):
        main(["simulate", *SMALL, "--report", str(locked / "mine.html")])


def test_all_policies_that_there_are_not_are_told(capsys: Captured) -> None:
    assert main(["compare", *SMALL, "--policy", "fifoo", "fifo", "ordr=a.py:f"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("--policy fifoo: there is no such file")
    assert first.endswith("did you mean 'fifo'?")
    assert second.endswith("did you mean 'order'?")


def test_gpus_that_never_change_are_a_whole_number(tmp_path: Path, capsys: Captured) -> None:
    """They are a mean over time, of which the last digits are noise."""
    journal, data = str(tmp_path / "journal"), tmp_path / "x.json"
    some = ["--cluster", "64", "--days", "0.1", "--load", "1.2", "-o", "json", "--data", str(data)]
    assert main(["simulate", *some, "--journal", journal]) == 0
    found = [json.loads(capsys.readouterr().out), *json.loads(data.read_text())["runs"]]
    assert main(["measure", journal, "-o", "json"]) == 0
    found.append(json.loads(capsys.readouterr().out))
    assert main(["compare", *some, "--policy", "fifo", "--seed", "0", "1", "--jobs", "1"]) == 0
    found += json.loads(capsys.readouterr().out)["runs"]
    assert [run["gpus"] for run in found] == [64.0] * 5
    assert main(["simulate", *some, "--node-failures", "3000"]) == 0
    gpus = json.loads(capsys.readouterr().out)["gpus"]
    assert 0 < gpus == round(gpus, 6) < 64


def test_gpus_that_there_are_and_were_are_told(capsys: Captured) -> None:
    assert main(["simulate", *SMALL, "--node-failures", "3000", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["nodes_lost"] > 0
    assert main(["simulate", *SMALL, "--node-failures", "3000"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    failed = f"{told['nodes_lost']} node failures)"
    assert f"of 64 GPUs ({told['gpus']:.0f} in the mean: {failed}" in words


def test_how_often_nodes_failed_is_told_of_a_comparison_too(capsys: Captured) -> None:
    """In the mean over the runs; nothing where none were to fail."""
    compare = ["compare", *SMALL, "--policy", "fifo", "--jobs", "1", "--seed", "0", "1"]
    assert main([*compare, "--node-failures", "3000", "-o", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    lost, gpus = (sum(run[key] for run in runs) / 2 for key in ("nodes_lost", "gpus"))
    assert main([*compare, "--node-failures", "3000"]) == 0
    told = f"64 GPUs ({gpus:.0f} in the mean: {lost:.1f}".removesuffix(".0")
    assert f"{told} node failures a run)." in capsys.readouterr().out.splitlines()
    assert main([*compare, "--node-failures", "0.001"]) == 0
    assert "64 GPUs (64 in the mean: 0 node failures a run)." in capsys.readouterr().out
    assert main(compare) == 0
    assert "node failure" not in capsys.readouterr().out


def test_those_that_are_followed_are_told(tmp_path: Path, capsys: Captured) -> None:
    """The second waits for the first, the third for both until the end; the fourth never comes."""
    rows = "".join(f"{name},{at},3600,1,8\n" for name, at in (("b", 10), ("c", 20)))
    (tmp_path / "some.csv").write_text(ONE.replace(",60,", ",3600,") + rows)
    options = ["--trace", str(tmp_path / "some.csv"), "--nodes", "1", "--days", "0.05"]
    follow = ["--start", "0", "--follow", "b", "c", "none"]
    assert main(["simulate", *options, *follow]) == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["b", "day", "1", "00:00:10", "3,590", "s", "starts", "day", "1", "01:00:00"] in told
    assert any(line[:6] == ["c", "day", "1", "00:00:20", "4,300", "s"] for line in told)
    assert any(line[:3] == ["none", "–", "–"] for line in told)
    assert main(["simulate", *options, *follow, "-o", "json"]) == 0
    followed = json.loads(capsys.readouterr().out)["followed"]
    assert [(row["name"], row["is_waiting"]) for row in followed] == [("b", False), ("c", True)]
    assert followed[1]["why"]


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("job-12", "; did you mean 'job-000012'?"),
        ("jop-000012", "; did you mean 'job-000012'?"),
        ("job-000001", ""),  # it came in the warm-up
        ("nothing like it", ""),
    ],
)
def test_of_one_who_never_came_the_nearest_name_is_told(
    asked: str, near: str, capsys: Captured
) -> None:
    assert main(["simulate", *SMALL, "--follow", asked]) == 0
    (row,) = capsys.readouterr().out.split("followed")[1].split("workloads in ")[:1]
    told = " ".join(row.split())
    assert "no workload of that name came and was counted" in told
    assert near in told
    assert bool(near) == ("did you mean" in told)


def test_when_one_who_is_followed_starts_at_the_latest_is_told_as_the_other_times_are(
    tmp_path: Path, capsys: Captured
) -> None:
    rows = "name,at,run_s,estimate_s,gpus\na,0,7200,7200,8\nb,10,60,60,8\n"
    (tmp_path / "some.csv").write_text(rows)
    options = ["--trace", str(tmp_path / "some.csv"), "--nodes", "1", "--days", "0.05"]
    assert main(["simulate", *options, "--start", "0", "--follow", "b"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "It starts at day 1 02:00:00 at the latest" in told


def test_who_has_a_place_and_has_not_begun_is_told_so(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "one.csv").write_text(ONE)
    options = ["--trace", str(tmp_path / "one.csv"), "--nodes", "1", "--days", "0.0001"]
    assert main(["simulate", *options]) == 0
    assert "It has its place, and is about to start." in capsys.readouterr().out


# -- stopped, saved and continued -----------------------------------------------------------------


def test_a_saved_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path, capsys: Captured) -> None:
    file, journals = tmp_path / "a.run", [str(tmp_path / name) for name in ("one", "two")]
    assert main(["simulate", *SMALL, "--journal", journals[0], "-o", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    stop = ["--stop-at", "1h", "--save", str(file), "--journal", journals[1], "-o", "json"]
    assert main(["simulate", *SMALL, *stop]) == 0
    assert json.loads(capsys.readouterr().out)["end"] == 3600.0
    assert main(["simulate", "--continue", str(file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    assert main(["replay", journals[1]]) == 0


def test_only_how_far_can_be_changed_of_a_saved_run(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "a.run"
    assert main(["simulate", *SMALL, "--stop-at", "600", "--save", str(file)]) == 0
    assert f"To go on: mooring simulate --continue {file}" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["simulate", "--continue", str(file), "--seed", "4"]) == 2
    assert "--seed cannot be given with --continue" in capsys.readouterr().err
    assert main(["simulate", "--continue", str(file), "--stop-at", "5m"]) == 2
    assert "--stop-at: the run stands at 568 s already" in capsys.readouterr().err
    assert main(["simulate", "--continue", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err


MAIN = """
import sys
from mooring.cli import main
from mooring.sim import saved
saved._code = lambda: "the same"  # somebody may edit the code while tests run
print("ready", file=sys.stderr, flush=True)
sys.exit(main(sys.argv[1:]))
"""


def started(*words: str) -> subprocess.Popen[str]:
    """Return a command that runs in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], text=True, stdout=PIPE, stderr=PIPE
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    return process


def test_ctrl_c_keeps_what_there_is_and_saves_it(tmp_path: Path) -> None:
    """It runs in real time, so it is not done yet when it is interrupted."""
    file, journal = tmp_path / "a.run", tmp_path / "journal"
    paced = ["--pace", "600", "--save", str(file), "--journal", str(journal), "-o", "json"]
    process = started("simulate", *SMALL, *paced)
    while not journal.exists():
        sleep(0.05)
    sleep(0.3)
    process.send_signal(SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    told = json.loads(out)
    assert not told["is_whole"]
    assert told["end"] < 0.12 * 86_400
    on = started("simulate", "--continue", str(file), "-o", "json")
    assert json.loads(on.communicate(timeout=60)[0])["is_whole"]
    assert main(["replay", str(journal)]) == 0


def test_a_run_with_a_journal_can_be_continued_again_and_again(
    tmp_path: Path, capsys: Captured
) -> None:
    """Its journal goes on, so where it stands is saved too, though nobody says so."""
    file, journal = tmp_path / "a.run", tmp_path / "journal"
    first = ["--stop-at", "30m", "--save", str(file), "--journal", str(journal)]
    assert main(["simulate", *SMALL, *first]) == 0
    assert "To go on: mooring simulate --continue" in capsys.readouterr().out
    for stop in (["--stop-at", "1h"], ["--stop-at", "2h"], []):
        assert main(["simulate", "--continue", str(file), *stop]) == 0
        assert ("To go on" in capsys.readouterr().out) == bool(stop)
    assert main(["replay", str(journal)]) == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_the_runs_that_are_done(jobs: str) -> None:
    """Of a thousand runs; how many that are is a matter of luck."""
    seeds = [str(seed) for seed in range(1000)]
    options = ["--policy", "fifo", "--seed", *seeds, "--jobs", jobs, "-o", "json"]
    process = started("compare", "--cluster", "16", "--days", "0.05", *options)
    sleep(2)
    process.send_signal(SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    told = json.loads(out)
    assert not told["is_whole"]
    assert len(told["runs"]) == sum(policy["seeds"] for policy in told["policies"]) < 1000


def test_nobody_goes_on_for_one_who_was_killed() -> None:
    """Workers have its standard output open, which ends only with the last of them."""
    options = ["--policy", "fifo", "--seed", "1", "2", "--jobs", "2"]
    process = started("compare", "--cluster", "64", "--days", "3000", *options)
    sleep(3)
    process.kill()
    process.communicate(timeout=60)


# -- at a pace, and what decisions cost -----------------------------------------------------------


def test_a_pace_makes_it_last_and_tells_what_happens(capsys: Captured) -> None:
    began = monotonic()
    assert main(["simulate", *SMALL, "--pace", "8000"]) == 0
    assert monotonic() - began >= 0.12 * 86_400 / 8000
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"day 1 \d\d:\d\d:\d\d  \S+ starts \d+ tasks? on .*", x) for x in lines)
    assert any(line.endswith(" ends") for line in lines)


ONE = "name,at,run_s,tasks,gpus\na,0,60,1,8\n"


def test_a_pace_ends_with_the_work(tmp_path: Path, capsys: Captured) -> None:
    """A trace that runs until all is done has no end that could be waited for."""
    (tmp_path / "one.csv").write_text(ONE)
    paced = ["--nodes", "1", "--pace", "3600"]
    process = started("simulate", "--trace", str(tmp_path / "one.csv"), *paced)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "a ends" in out


def test_a_given_cost_of_decisions_makes_everybody_wait(capsys: Captured) -> None:
    waits = []
    for cost in ("0", "20", "20"):
        assert main(["simulate", *SMALL, "--charge-decisions", cost, "-o", "json"]) == 0
        waits.append(json.loads(capsys.readouterr().out)["waits"][0]["mean"])
    assert waits[1] == waits[2] >= waits[0] + 20


@pytest.mark.parametrize("words", [["--pace", "0"], ["--charge-decisions", "dear"]])
def test_a_pace_and_a_cost_are_numbers(words: list[str], capsys: Captured) -> None:
    assert main(["simulate", *words]) == 2
    assert f"{words[1]!r} is n" in capsys.readouterr().err


def test_intervals_are_students() -> None:
    """Of 1, 2, 3: mean 2, deviation 1, t of two degrees 4.303 over the root of three."""
    spread = Spread.of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.half) == pytest.approx((2.0, 4.303 / 3**0.5))
    assert spread.told("{:.1f} s") == "2.0 ± 2.5 s"
    assert Spread.of([5.0]).told("{:.1f} s") == "5.0 s"


@pytest.mark.parametrize(
    ("degrees", "factor"),
    [(1, 12.706), (4, 2.776), (10, 2.228), (11, 2.201), (19, 2.093), (29, 2.045), (99, 1.984)],
)
def test_the_factor_of_an_interval_is_that_of_the_tables(degrees: int, factor: float) -> None:
    assert student_t(degrees) == pytest.approx(factor, abs=6e-4)


def test_nodes_of_a_trace_fail_by_the_seed(tmp_path: Path, capsys: Captured) -> None:
    """With failures a trace differs by seed, and the page says how often nodes fail."""
    page = tmp_path / "page.html"
    options = ["--trace", gang_and_crumbs(tmp_path), "--nodes", "2", "--jobs", "1"]
    failing = ["--node-failures", "5000", "--days", "3", "--seed", "0", "1", "--report", str(page)]
    assert main(["compare", *options, "--policy", "default", *failing, "-o", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["seed"] for run in runs] == [0, 1]
    assert runs[0]["evictions"] != runs[1]["evictions"]
    assert "each node fails 5000 times a year in the mean, 2 seeds" in page.read_text()
    assert main(["compare", *options, "--seed", "0", "1"]) == 2
    assert "--seed says nothing with --trace" in capsys.readouterr().err

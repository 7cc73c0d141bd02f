"""`mooring simulate` and `mooring compare`: policies on a mix or a trace, in virtual time."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, Any

from mooring.cli.changes import policies_as_data, print_changes
from mooring.cli.control import FREELY, MEASURED, Control, Teller, cost
from mooring.cli.files import Place
from mooring.cli.followed import followed_as_data, print_followed
from mooring.cli.numbers import (
    Output,
    in_units,
    print_headlines,
    print_run,
    rounded,
)
from mooring.cli.show import Terminal, broken_off, print_json, progress, table
from mooring.cli.traces import tell
from mooring.report import Run, as_data, full_row, write_page
from mooring.sim.errors import StudyError
from mooring.sim.live import counts_work
from mooring.sim.mixes import MIXES
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.parallel import halting, run_all
from mooring.sim.run import Delays
from mooring.sim.saved import check_place, save
from mooring.sim.study import (
    NAMED,
    Outcome,
    Source,
    Trial,
    got_worse,
    need_something_counted,
    outcome_of,
    run_trial,
    whole_of,
)
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.progress import Progress, TaskID

    from mooring.metrics import Summary
    from mooring.sim.study import Worse
    from mooring.sim.traces import Options as TraceOptions

    Whole = Callable[[int, int], Callable[[str], int]]


def simulate(trial: Trial, output: Output, control: Control = FREELY) -> int:
    """Make one run and print its numbers, also if it is broken off; return the exit code."""
    if trial.journal and trial.rules.own:
        what = "a run by own functions cannot be replayed; leave out --journal or the functions"
        raise StudyError(f"--journal {trial.journal}: {what}")
    places = ("--journal", trial.journal), ("--save", control.save)
    output.check(*(Place(*place, with_others=True) for place in places))
    if control.save:
        check_place(control.save)
    began, end = monotonic(), min(trial.until_s, control.stop_s)
    with progress() as bar, halting() as halt:
        task = bar.add_task("reading", total=None)
        live = control.live(trial, lambda done: bar.advance(task, done))
        way = live.way
        way.go(end)
        what = WORKLOADS if way.counts_work else "seconds of the cluster"
        bar.reset(task, total=way.whole, completed=way.done, description=what)
        teller = Teller(Terminal().print)
        if control.pace and not output.as_json:
            live.run.loop.listen(teller.hear)
        is_whole = live.go(end, lambda: halt() or teller.is_alone, control.pace)
        if control.save:
            save(live, control.save)
        outcome = outcome_of(live, is_whole=is_whole, until_s=end)
        is_done = live.is_over or live.run.loop.next_at == inf
        is_over = is_whole and (end >= trial.until_s or is_done)
    if live.is_over:
        need_something_counted([outcome])
    data = as_data(_run_of(outcome)) | {"is_whole": is_whole} | _remarks(outcome)
    if trial.follow:
        data["followed"] = followed_as_data(outcome)
    try:
        _write([outcome], output, data)
    finally:  # a full disk does not take the numbers away, nor a closed pipe the files
        if output.as_json:
            print_json(data)
        else:
            _print_run(outcome, monotonic() - began, "" if is_over else control.save)
    if not is_whole:
        raise KeyboardInterrupt
    return 0


def _print_run(outcome: Outcome, seconds: float, saved: str) -> None:
    terminal, summary = Terminal(), outcome.summary
    print_run(terminal, _run_of(outcome))
    print_followed(outcome, terminal)
    part = "" if outcome.is_whole else " Broken off there."
    terminal.print(
        f"\n{counted(summary.submitted, 'workload')} in {in_units(summary.end - summary.start)} of "
        f"{told_gpus(outcome.gpus, summary)}, simulated in {seconds:.1f} s.{part}"
    )
    ended = _at_limit(summary)
    if ended:
        some = f"{counted(ended, 'workload')} {'was' if ended == 1 else 'were'}"
        terminal.print(f"{some} ended by {'its' if ended == 1 else 'their'} run limit.")
    if saved:
        terminal.print(f"To go on: mooring simulate --continue {saved}", soft_wrap=True)
    tell_of_emptiness(outcome.trial, terminal)
    tell(outcome.remarks, terminal)


def tell_of_emptiness(trial: Trial, terminal: Terminal) -> None:
    """Say that a mix is not yet what it is in the long run, if it began with the counting."""
    if begins_empty(trial):
        terminal.print("It began with an empty cluster; --warm-up 1 runs a day before it counts.")


def begins_empty(trial: Trial) -> bool:
    """Return whether a mix began with the counting."""
    return not (trial.source.trace or trial.warm_up_s)


def told_gpus(gpus: int, summary: Summary) -> str:
    """Return how many GPUs there were, and how many of them in the mean if nodes failed."""
    if not summary.nodes_lost:
        return f"{gpus:,} GPUs"
    failed = counted(summary.nodes_lost, "node failure")
    return f"{gpus:,} GPUs ({summary.gpus:,.0f} in the mean: {failed})"


def _at_limit(summary: Summary) -> int:
    """Return how many workloads ended because they had run as long as they may."""
    return dict(summary.evictions.by_cause).get("run-limit", 0)


def _remarks(outcome: Outcome) -> dict[str, object]:
    return {"left_out": outcome.remarks.left_out, "notes": list(outcome.remarks.notes)}


WORKLOADS = "workloads"


def begin(bar: Progress, trials: Sequence[Trial]) -> TaskID:
    """Begin to show how far runs are; return the task of the bar."""
    task = bar.add_task("reading", total=None)
    if trials and not bar.disable:
        is_work = counts_work(trials[0], trials[0].until_s)
        what = WORKLOADS if is_work else "seconds of clusters"
        bar.reset(task, total=whole_of(trials), description=what)
    return task


def run_trials(trials: Sequence[Trial], jobs: int) -> tuple[list[Outcome], bool]:
    """Make many runs; return what came of them, and whether nobody broke them off."""
    done, is_whole = list[Outcome](), True
    with progress() as bar:
        try:
            task = begin(bar, trials)
            runs = run_all(run_trial, trials, jobs, lambda count: bar.advance(task, count))
            for outcome in runs:
                done.append(outcome)
        except KeyboardInterrupt:
            is_whole = False
    done.sort(key=lambda outcome: trials.index(outcome.trial))
    return done, is_whole


def write_report(outcomes: Sequence[Outcome], path: str) -> None:
    """Write the page of runs side by side, of a command without --data."""
    data = comparison_of(outcomes) | {"has_data_option": False}
    _write(outcomes, Output(report=path), data)


def comparison_of(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Return runs side by side, as data."""
    return _comparison(_by_policy(outcomes), got_worse(outcomes))


def _by_policy(done: Sequence[Outcome]) -> list[list[Outcome]]:
    names = dict.fromkeys(outcome.trial.rules.name for outcome in done)
    return [[each for each in done if each.trial.rules.name == name] for name in names]


def compare(trials: Sequence[Trial], jobs: int, output: Output) -> int:
    """Make many runs and print them side by side; Ctrl-C keeps those that are done."""
    output.check()
    began = monotonic()
    found, is_whole = run_trials(trials, jobs)
    need_something_counted(found)
    by_policy = _by_policy(found)
    done = [each for some in by_policy for each in some]
    worse = got_worse(done)
    data = _comparison(by_policy, worse) | {"is_whole": is_whole}
    took = f"{counted(len(done), 'run')} in {monotonic() - began:.1f} s."
    part = "" if is_whole else broken_off(len(done), len(trials))
    try:
        if done:
            data |= _remarks(done[0])
            _write(done, output, data)
    finally:
        if output.as_json:
            print_json(data)
        else:
            _print_comparison(done, worse, took + part)
    if not is_whole:
        raise KeyboardInterrupt
    return 0


def _comparison(
    by_policy: Sequence[Sequence[Outcome]], worse: Sequence[Worse]
) -> dict[str, object]:
    """Return a comparison as data."""
    return {
        "policies": policies_as_data([_rows(some) for some in by_policy]),
        "runs": [as_data(_run_of(each)) for some in by_policy for each in some],
        "worse": [
            {
                "workload": w.name,
                "policy": w.policy,
                "seed": w.seed,
                "from_s": w.before_s,
                "to_s": w.after_s,
                "has_started": not w.is_waiting,
            }
            for w in worse
        ],
    }


def _run_of(outcome: Outcome) -> Run:
    trial = outcome.trial
    return Run(trial.rules.name, rounded(outcome.summary), outcome.film, trial.seed)


def _rows(some: Sequence[Outcome]) -> list[dict[str, float | int | str | None]]:
    return [full_row(_run_of(each)) for each in some]


def _print_comparison(done: Sequence[Outcome], worse: Sequence[Worse], last: str) -> None:
    terminal = Terminal()
    if done:
        every = [_rows(some) for some in _by_policy(done)]
        print_headlines(terminal, every)
        print_changes(terminal, every)
        _print_worse(terminal, worse, done[0].trial.rules.name)
    terminal.print(f"\n{last}")
    if done:
        _tell_of_limits(terminal, _by_policy(done))
        _tell_of_failures(terminal, done)
        tell_of_emptiness(done[0].trial, terminal)
        tell(done[0].remarks, terminal)


def _tell_of_limits(terminal: Terminal, by_policy: Sequence[Sequence[Outcome]]) -> None:
    """Say under which policies work was ended by its run limit, in the mean over seeds."""
    ended = {
        some[0].trial.rules.name: fmean(_at_limit(each.summary) for each in some)
        for some in by_policy
    }
    told = [f"{name} {_rough(count)}" for name, count in ended.items() if count]
    mean = ", in the mean" if len(by_policy[0]) > 1 else ""
    if told:
        terminal.print(f"Ended by a run limit{mean}: {', '.join(told)}.")


def _tell_of_failures(terminal: Terminal, done: Sequence[Outcome]) -> None:
    """Say how often nodes failed in the mean over runs, if they did or were to."""
    failed = fmean(each.summary.nodes_lost for each in done)
    if failed or done[0].trial.source.node_failures:
        gpus = fmean(each.summary.gpus for each in done)
        told = f"{_rough(failed)} node failure{'' if failed == 1 else 's'}"
        terminal.print(f"{done[0].gpus:,} GPUs ({gpus:,.0f} in the mean: {told} a run).")


def _rough(mean: float) -> str:
    """Return a mean of counts: `4`, `4.5`, `0.05`."""
    return f"{mean:,.1f}".removesuffix(".0") if mean >= 1 else f"{mean:.2g}"


def _print_worse(terminal: Terminal, worse: Sequence[Worse], first: str) -> None:
    if worse:
        terminal.print(f"\nWaits that got longest, against {first}:")
        rows = [
            (w.name, str(w.seed), w.policy, f"{w.before_s:,.0f} s", _told_after(w)) for w in worse
        ]
        columns = ["workload", "seed", "policy", "from", "to"]
        terminal.print(table(columns, rows, right=["seed", "from", "to"]))


def _told_after(worse: Worse) -> str:
    part = ", not started" if worse.is_waiting else ""
    return f"{worse.after_s:,.0f} s{part}"


def _write(outcomes: Sequence[Outcome], output: Output, data: dict[str, object]) -> None:
    runs = [_run_of(outcome) for outcome in outcomes]
    output.write(runs, data, lambda: _page(outcomes, data))


def _page(outcomes: Sequence[Outcome], data: dict[str, object]) -> str:
    """Return the page: curves of the first seed of each policy, numbers of all."""
    firsts = {outcome.trial.rules.name: outcome for outcome in reversed(outcomes)}
    names = dict.fromkeys(outcome.trial.rules.name for outcome in outcomes)
    runs = [_run_of(firsts[name]) for name in names]
    kept = ("policies", "worse", "has_data_option")
    more = {key: some for key, some in data.items() if key in kept}
    seeds = len({outcome.trial.seed for outcome in outcomes})
    about = _about(outcomes[0], len(runs), seeds)
    return write_page(f"Mooring: {_subject(outcomes[0].trial)}", about, runs, more)


def _subject(trial: Trial) -> str:
    source = trial.source
    return f"trace {Path(source.trace).name}" if source.trace else f"mix {source.mix}"


def _about(first: Outcome, policies: int, seeds: int) -> str:
    trial, summary = first.trial, first.summary
    alone = f"Policy {trial.rules.name}"
    parts = [f"{policies} policies on the same work" if policies > 1 else alone]
    source = trial.source
    many = f"{seeds} seeds" if seeds > 1 else f"seed {trial.seed}"
    if source.trace:
        parts.append(f"{counted(summary.submitted, 'workload')} on {first.gpus:,} GPUs")
    else:
        parts.append(f"{source.options.gpus:,} GPUs at load {source.options.load:g}, {many}")
        parts.append(f"{in_units(summary.end - summary.start)} are counted")
    if source.node_failures:
        told = f"each node fails {source.node_failures:g} times a year in the mean"
        parts.append(f"{told}, {many}" if source.trace else told)
    if trial.warm_up_s:
        parts.append(f"the first {in_units(trial.warm_up_s)} are left out")
    elif begins_empty(trial):
        parts.append("it began with an empty cluster")
    return "; ".join(parts) + "."


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


_NUMBERS = (
    ("--load", "PART", 0.9, "of a mix: GPUs asked for over GPUs there are"),
    ("--warm-up", "DAYS", 0.0, "that are run before and not counted"),
    ("--node-failures", "N", 0.0, "failures of a node a year"),
    ("--start", "S", 30.0, "seconds from bound to running"),
    ("--restart", "S", 60.0, "seconds that a restart takes"),
    ("--grace", "S", 10.0, "seconds from evicted to gone"),
)
_SWEPT = ("--load", "--node-failures")
_FILES = (
    ("--report", "write a page to look at (HTML)"),
    ("--data", "write the numbers (JSON, or CSV by the end of the name)"),
)
_FOLDER = "write all of it: report.html, runs.json and runs.csv"


def add_load(to: argparse.ArgumentParser, whole: Whole, *, many: bool = False) -> None:
    """Add the options that say which work, on which cluster, for how long; perhaps of many."""

    def usual(value: object) -> dict[str, Any]:
        return {"nargs": "+", "default": [value]} if many else {"default": value}

    mixes = "; ".join(f"{name}: {mix.about}" for name, mix in MIXES.items())
    to.add_argument(
        "--mix",
        choices=tuple(MIXES),
        help=f"default {_USUAL_MIX}. {mixes}",
        **({"nargs": "+", "default": []} if many else {"default": ""}),
    )
    trace = usual("") | ({"default": []} if many else {})
    to.add_argument("--trace", metavar="TRACE", help="a trace instead of a mix", **trace)
    to.add_argument(
        "--cluster",
        metavar="GPUS",
        type=whole(8, 1_000_000),
        help="GPUs of a mix; default 8000",
        **usual(8_000),
    )
    to.add_argument(
        "--days",
        metavar="N",
        type=part,
        help="how long; 0: until all is done, of a mix what comes in 30 days; default 1, of a "
        "trace its window, or until all is done",
    )
    for name, of, number, about in _NUMBERS:
        about = f"{about}; default {number:g}"
        default = usual(number) if name in _SWEPT else {"default": number}
        kind = above_0 if name == "--load" else part
        to.add_argument(name, metavar=of, type=kind, help=about, **default)
    to.add_argument(
        "--charge-decisions",
        metavar="S",
        type=cost,
        default=0.0,
        help=f"seconds that each decision takes, or {MEASURED}: as long as here; default 0",
    )


def add_files(to: argparse.ArgumentParser) -> None:
    """Add the options that say what is written."""
    for name, about in _FILES:
        to.add_argument(name, metavar="FILE", default="", help=about)
    to.add_argument("--out", metavar="DIR", default="", help=_FOLDER)


def trial_of(arguments: argparse.Namespace, reading: TraceOptions) -> Trial:
    """Return the run that the options of `add_load` ask for, by the default policy."""
    days = _days_of(arguments, reading)
    mix_days = days if days < inf else _LONG_DAYS + arguments.warm_up
    source = Source(
        arguments.mix or _USUAL_MIX,
        MixOptions(arguments.cluster, mix_days, arguments.load),
        arguments.trace,
        arguments.traces,
        reading,
        arguments.node_failures,
    )
    return Trial(
        source,
        NAMED["default"],
        warm_up_s=arguments.warm_up * _DAY_S,
        until_s=days * _DAY_S,
        delays=Delays(
            arguments.start, arguments.restart, arguments.grace, arguments.charge_decisions
        ),
    )


def _days_of(arguments: argparse.Namespace, reading: TraceOptions) -> float:
    """Return how many days are run, the warm-up among them; infinite: until all is done."""
    if arguments.trace and arguments.days is None:
        return _days_of_window(arguments.warm_up, reading)
    days = _USUAL_DAYS if arguments.days is None else float(arguments.days)
    return days + arguments.warm_up if days else inf


def _days_of_window(warm_up: float, reading: TraceOptions) -> float:
    """Return how long the window of a trace is; a warm-up is a part of it."""
    days = (reading.until_s - reading.since_s) / _DAY_S
    if warm_up >= days:
        what = f"the window up to --until has {days:g} days: give less, or --days"
        raise StudyError(f"--warm-up {warm_up:g}: {what}")
    return days


_DAY_S = 86_400.0
_USUAL_MIX = "lab"
_USUAL_DAYS = 1.0
"""Of a mix."""
_LONG_DAYS = 30.0
"""Of a mix that runs until all is done."""


def above_0(text: str) -> float:
    """Read a number above 0."""
    number = part(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def part(text: str) -> float:
    """Read a number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0")
    return number

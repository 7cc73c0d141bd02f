"""`mooring simulate` and `mooring compare`: policies on a mix or a trace, in virtual time."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from math import inf, sqrt
from pathlib import Path
from statistics import fmean, stdev
from time import monotonic
from typing import TYPE_CHECKING

from mooring.cli.show import Terminal, print_json, progress, table
from mooring.cli.words import counted
from mooring.config import load_policy
from mooring.report import Run, as_data, headline, write_csv, write_page
from mooring.sim.mixes import MIXES
from mooring.sim.mixes import Options as MixOptions
from mooring.sim.openb import StudyError
from mooring.sim.own import Said, own_of
from mooring.sim.parallel import run_all
from mooring.sim.run import Delays
from mooring.sim.study import NAMED, Outcome, Rules, Source, Trial, got_worse, run_trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from mooring.sim.study import Worse
    from mooring.sim.traces import Options as TraceOptions

    Whole = Callable[[int, int], Callable[[str], int]]

_T95 = (inf, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t for 95 % by degrees of freedom; beyond, that of the normal distribution."""
SHOWN = (
    ("GAR median", "gar_median", "{:.1%}"),
    ("SOR", "sor", "{:.1%}"),
    ("useful", "sor_useful", "{:.1%}"),
    ("GFR", "gfr", "{:.1%}"),
    ("mean wait", "mean_wait_s", "{:,.0f} s"),
    ("longest", "longest_wait_s", "{:,.0f} s"),
    ("waiting", "waiting", "{:,.0f}"),
    ("JTTED", "jtted", "{:.3f}"),
    ("broken off", "evictions", "{:,.0f}"),
    ("GPU-h lost", "lost_gpu_hours", "{:,.0f}"),
    ("Jain", "jain", "{:.3f}"),
)


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go."""

    as_json: bool = False
    report: str = ""
    data: str = ""
    """A file for the numbers: JSON, or CSV by the end of its name."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over seeds: mean, and half the width of its 95 % confidence interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return it of at least one value."""
        count = len(values)
        if count < 2:
            return cls(values[0], 0.0)
        t = _T95[count - 1] if count <= len(_T95) else 1.96
        return cls(fmean(values), t * stdev(values) / sqrt(count))

    def told(self, form: str) -> str:
        """Return it in words."""
        half = f" ± {form.format(self.half).removesuffix(' s')}" if self.half else ""
        return form.format(self.mean).removesuffix(" s" if half else "\0") + half


def rules_of(text: str) -> Rules:
    """Return the policy of that name, or of a policy file, perhaps with own functions.

    `NAME=` before it gives it a name; what it may be followed by is read in `sim.own`.
    """
    said = Said.of(text)
    policy = said.policy or ("default" if said.own else "")
    if policy in NAMED:
        rules = NAMED[policy]
    elif Path(policy).is_file():
        found = load_policy(policy)
        rules = Rules(Path(policy).stem, found.policy, queues=found.queues)
    else:
        known = ", ".join(NAMED)
        raise StudyError(f"{text}: there is no such file, and no such policy: {known}")
    if said.own:
        own_of(said.own)  # mistakes are told before anything runs
        if rules.policy.profile != "default":
            what = f"own functions go with profile default, not with {rules.policy.profile}"
            raise StudyError(f"--policy {text}: {what}")
    return replace(rules, name=said.name or "+".join([rules.name, *said.functions]), own=said.own)


def rules_of_all(texts: Sequence[str]) -> list[Rules]:
    """Return several policies, each under a name of its own."""
    found: dict[str, Rules] = {}
    for text in dict.fromkeys(texts):
        rules = rules_of(text)
        if rules.name in found:
            what = f"there are two policies {rules.name}; give one a name: NAME={text}"
            raise StudyError(f"--policy {text}: {what}")
        found[rules.name] = rules
    return list(found.values())


def simulate(trial: Trial, output: Output) -> int:
    """Make one run and print its numbers; return the exit code."""
    if trial.journal and trial.rules.own:
        what = "a run by own functions cannot be replayed; leave out --journal or the functions"
        raise StudyError(f"--journal {trial.journal}: {what}")
    began = monotonic()
    with progress() as bar:
        total = None if trial.until_s == inf else int(trial.until_s)
        task = bar.add_task("seconds of the cluster", total=total)
        outcome = run_trial(trial, lambda done: bar.advance(task, done))
    _write([outcome], output)
    if output.as_json:
        print_json(as_data(_run_of(outcome)))
        return 0
    terminal = Terminal()
    terminal.print(_table([[outcome]]))
    terminal.print(_waits_table(outcome))
    summary = outcome.summary
    terminal.print(
        f"\n{counted(summary.submitted, 'workload')} in {_days(summary.end - summary.start)} of "
        f"{summary.gpus:,.0f} GPUs, simulated in {monotonic() - began:.1f} s."
    )
    return 0


def compare(trials: Sequence[Trial], jobs: int, output: Output) -> int:
    """Make many runs and print them side by side; Ctrl-C keeps those that are done."""
    began, done, is_whole = monotonic(), list[Outcome](), True
    with progress() as bar:
        total = sum(trial.until_s for trial in trials)
        task = bar.add_task("seconds of clusters", total=None if total == inf else int(total))
        try:
            runs = run_all(run_trial, trials, jobs, lambda count: bar.advance(task, count))
            done.extend(runs)
        except KeyboardInterrupt:
            is_whole = False
    if not done:
        raise KeyboardInterrupt
    done.sort(key=lambda outcome: trials.index(outcome.trial))
    names = list(dict.fromkeys(outcome.trial.rules.name for outcome in done))
    by_policy = [[each for each in done if each.trial.rules.name == name] for name in names]
    firsts = [some[0] for some in by_policy]
    worse = got_worse(firsts) if len({each.trial.seed for each in firsts}) == 1 else []
    _write(firsts, output, by_policy)
    if output.as_json:
        print_json(
            {
                "is_whole": is_whole,
                "policies": [_spreads(some) for some in by_policy],
                "runs": [{"seed": each.trial.seed} | as_data(_run_of(each)) for each in done],
                "worse": [
                    {
                        "workload": w.name,
                        "policy": w.policy,
                        "from_s": w.before_s,
                        "to_s": w.after_s,
                    }
                    for w in worse
                ],
            }
        )
    else:
        _print_comparison(by_policy, worse)
        part = "" if is_whole else f" Broken off: {len(done)} of {len(trials)} runs are done."
        Terminal().print(f"\n{counted(len(done), 'run')} in {monotonic() - began:.1f} s.{part}")
    if not is_whole:
        raise KeyboardInterrupt
    return 0


def _run_of(outcome: Outcome) -> Run:
    return Run(outcome.trial.rules.name, outcome.summary, outcome.film)


def _spreads(some: Sequence[Outcome]) -> dict[str, object]:
    """Return the headline of a policy over its seeds, as data."""
    rows = [headline(_run_of(each)) for each in some]
    found: dict[str, object] = {"policy": rows[0]["policy"], "seeds": len(rows)}
    for _, key, _ in SHOWN:
        spread = _spread(rows, key)
        found[key] = None if spread is None else {"mean": spread.mean, "half_ci95": spread.half}
    return found


def _spread(rows: Sequence[dict[str, float | int | str | None]], key: str) -> Spread | None:
    values = [value for row in rows if isinstance(value := row[key], int | float)]
    return Spread.of(values) if values else None


def _table(by_policy: Sequence[Sequence[Outcome]]) -> Table:
    """Return one column for every policy."""
    every = [[headline(_run_of(each)) for each in some] for some in by_policy]
    names = [str(found[0]["policy"]) for found in every]
    rows = []
    for name, key, form in SHOWN:
        spreads = [_spread(found, key) for found in every]
        rows.append([name, *("–" if each is None else each.told(form) for each in spreads)])
    return table(["", *names], rows, right=names)


def _waits_table(outcome: Outcome) -> Table:
    """Return JWTD by size."""

    def told(seconds: float | None) -> str:
        return "–" if seconds is None else f"{seconds:,.0f} s"

    columns = ("started", "waiting", "mean wait", "p50", "p90", "p99", "longest")
    rows = [
        [
            w.bucket,
            f"{w.started:,}",
            f"{w.waiting:,}",
            *map(told, (w.mean, w.p50, w.p90, w.p99, w.longest)),
        ]
        for w in outcome.summary.waits
    ]
    return table(["GPUs", *columns], rows, right=columns)


def _print_comparison(by_policy: Sequence[Sequence[Outcome]], worse: Sequence[Worse]) -> None:
    terminal = Terminal()
    terminal.print(_table(by_policy))
    if worse:
        first = by_policy[0][0].trial.rules.name
        terminal.print(f"Waits that got longest, against {first}:")
        rows = [(w.name, w.policy, f"{w.before_s:,.0f} s", f"{w.after_s:,.0f} s") for w in worse]
        terminal.print(table(["workload", "policy", "from", "to"], rows, right=["from", "to"]))


def _write(
    outcomes: Sequence[Outcome], output: Output, by_policy: Sequence[Sequence[Outcome]] = ()
) -> None:
    """Write the report and the numbers, where they are asked for."""
    runs = [_run_of(outcome) for outcome in outcomes]
    if output.report:
        trial = outcomes[0].trial
        page = write_page(f"Mooring: {_subject(trial)}", _about(trial, len(runs)), runs)
        Path(output.report).write_text(page, "utf-8")
    if output.data.endswith(".csv"):
        Path(output.data).write_text(write_csv(runs), "utf-8")
    elif output.data:
        data = {"runs": [as_data(run) for run in runs]}
        if by_policy:
            data["policies"] = [_spreads(some) for some in by_policy]
        Path(output.data).write_text(json.dumps(data, allow_nan=False), "utf-8")


def _subject(trial: Trial) -> str:
    source = trial.source
    return f"trace {Path(source.trace).name}" if source.trace else f"mix {source.mix}"


def _about(trial: Trial, policies: int) -> str:
    source, options = trial.source, trial.source.options
    parts = [counted(policies, "policy").replace("policys", "policies") + " on the same work"]
    if not source.trace:
        parts.append(f"{options.gpus:,} GPUs at load {options.load:g}, seed {trial.seed}")
    if trial.warm_up_s:
        parts.append(f"the first {_days(trial.warm_up_s)} are left out")
    return "; ".join(parts) + "."


def _days(seconds: float) -> str:
    days = seconds / 86_400
    return f"{days:.1f} days" if days >= 2 else f"{seconds / 3600:.1f} hours"


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


_NUMBERS = (
    ("--load", "PART", 0.9, "of a mix: GPUs asked for over GPUs there are"),
    ("--days", "N", 1.0, "how long; 0: until all is done"),
    ("--warm-up", "DAYS", 0.0, "that are run before and not counted"),
    ("--node-failures", "N", 0.0, "of a mix: failures of a node a year"),
    ("--start", "S", 30.0, "seconds from bound to running"),
    ("--restart", "S", 60.0, "seconds that a restart takes"),
    ("--grace", "S", 10.0, "seconds from evicted to gone"),
)
_FILES = (
    ("--report", "write a page to look at (HTML)"),
    ("--data", "write the numbers (JSON, or CSV by the end of the name)"),
)


def add_load(to: argparse.ArgumentParser, whole: Whole) -> None:
    """Add the options that say which work, on which cluster, for how long, and what is written."""
    mixes = "; ".join(f"{name}: {mix.about}" for name, mix in MIXES.items())
    to.add_argument("--mix", choices=tuple(MIXES), default="lab", help=f"default lab. {mixes}")
    to.add_argument("--trace", metavar="TRACE", default="", help="a trace instead of a mix")
    to.add_argument(
        "--cluster",
        metavar="GPUS",
        type=whole(8, 1_000_000),
        default=8_000,
        help="GPUs of a mix; default 8000",
    )
    for name, of, usual, about in _NUMBERS:
        about = f"{about}; default {usual:g}"
        to.add_argument(name, metavar=of, type=_part, default=usual, help=about)
    for name, about in _FILES:
        to.add_argument(name, metavar="FILE", default="", help=about)


def trial_of(arguments: argparse.Namespace, reading: TraceOptions) -> Trial:
    """Return the run that the options of `add_load` ask for, by the default policy."""
    days = arguments.days + arguments.warm_up
    source = Source(
        arguments.mix,
        MixOptions(arguments.cluster, days or _LONG_DAYS, arguments.load, arguments.node_failures),
        arguments.trace,
        arguments.traces,
        reading,
    )
    return Trial(
        source,
        NAMED["default"],
        warm_up_s=arguments.warm_up * 86_400,
        until_s=days * 86_400 if days else inf,
        delays=Delays(arguments.start, arguments.restart, arguments.grace),
    )


_LONG_DAYS = 30.0
"""Of a mix that runs until all is done."""


def _part(text: str) -> float:
    """Read a number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0")
    return number

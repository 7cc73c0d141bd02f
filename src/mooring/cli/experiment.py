"""`mooring experiment`: studies with published results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from time import monotonic
from typing import TYPE_CHECKING

from mooring.cli.files import Place, need_places
from mooring.cli.lead import (
    AGAINST,
    OURS,
    SHOWN,
    check_lead,
    leads_as_data,
    leads_of,
    print_leads,
    write_leads,
)
from mooring.cli.show import Terminal, broken_off, print_json, progress, table
from mooring.sim.errors import StudyError
from mooring.sim.openb import LOADS, POLICIES, Run, Traces, load, run_all
from mooring.words import counted, listed

if TYPE_CHECKING:
    from mooring.sim.openb import Curve


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run; nothing chosen is everything there is."""

    traces: str
    files: Sequence[str] = ()
    policies: Sequence[str] = ()
    seeds: Sequence[int] = ()
    jobs: int = 1
    leads: bool = False
    """Only how far the default is ahead; then of policies nothing chosen is three."""
    figure: str = ""
    """A file for that as a picture."""


def openb(choice: Choice, *, as_json: bool) -> int:
    """Run the openb study and print its curves; return the exit code."""
    need_places(Place("--figure", choice.figure, (".svg",)))
    curves: list[Curve] = []
    interrupted = False
    if choice.leads:
        choice = replace(choice, policies=choice.policies or (*AGAINST, OURS))
        check_lead(choice.policies)
    with progress() as bar:
        task = bar.add_task("reading", total=None)
        runs, arrivals = _runs(choice)
        bar.reset(task, total=arrivals, description="arrivals")
        began_at = monotonic()
        try:
            curves.extend(run_all(choice.traces, runs, choice.jobs, lambda n: bar.advance(task, n)))
        except KeyboardInterrupt:
            interrupted = True
    curves.sort(key=lambda curve: runs.index(curve.run))
    leads = leads_of(curves) if choice.leads else []
    if choice.figure and leads:
        write_leads(leads, choice.figure)
    if as_json:
        print_json(leads_as_data(leads) if choice.leads else [_as_data(each) for each in curves])
    else:
        if choice.leads:
            print_leads(leads)
        else:
            _print_table(curves)
        part = broken_off(len(curves), len(runs)) if interrupted else ""
        _print_speed(curves, monotonic() - began_at, part)
    if interrupted:
        raise KeyboardInterrupt
    return 0


def _runs(choice: Choice) -> tuple[list[Run], int]:
    """Return all runs that are chosen, and how many arrivals they have together."""
    there = Traces(choice.traces).files()
    files = list(dict.fromkeys(choice.files)) or there
    missing = [name for name in files if name not in there]
    if missing or not there:
        known = f"; there are {listed(there)}" if there else ""
        what = f"no pod file {listed(missing)}" if missing else "no pod file"
        raise StudyError(f"{choice.traces}: {what} with an order of arrival{known}")
    runs, arrivals = [], 0
    for file in files:
        inputs = load(choice.traces, file)
        for seed in dict.fromkeys(choice.seeds) or inputs.arrivals:
            if seed not in inputs.arrivals:
                raise StudyError(f"{choice.traces}: there is no order of {file} for seed {seed}")
            policies = list(dict.fromkeys(choice.policies)) or list(POLICIES)
            runs += [Run(file, policy, seed) for policy in policies]
            arrivals += len(inputs.arrivals[seed]) * len(policies)
    return runs, arrivals


def _as_data(curve: Curve) -> dict[str, object]:
    run = curve.run
    return {"file": run.file, "policy": run.policy, "seed": run.seed, "gar": list(curve.gar)}


def _print_table(curves: Sequence[Curve]) -> None:
    alike: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        alike.setdefault((curve.run.file, curve.run.policy), []).append(curve)
    heads = [f"GAR at {load} %" for load in SHOWN]
    rows = []
    file_before = ""
    for (file, policy), same in alike.items():
        shown = "" if file == file_before else file
        file_before = file
        cells = [_spread([curve.gar[LOADS.index(load)] for curve in same]) for load in SHOWN]
        rows.append((shown, policy, str(len(same)), *cells))
    Terminal().print(table(("file", "policy", "seeds", *heads), rows, right=("seeds", *heads)))


def _print_speed(curves: Sequence[Curve], took_s: float, part: str) -> None:
    arrivals = sum(curve.arrivals for curve in curves)
    speed = f"{arrivals / took_s:,.0f} arrivals/s" if took_s else ""
    Terminal().print(f"\n{counted(len(curves), 'run')} in {took_s:.1f} s, {speed}.{part}")


def _spread(values: list[float]) -> str:
    mean = f"{fmean(values):.2f}"
    return f"{mean} ± {stdev(values):.2f}" if len(values) > 1 else mean

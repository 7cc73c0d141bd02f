"""`mooring experiment openb --lead`: how far the default is ahead of published rules, by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from mooring.cli.files import write_text
from mooring.cli.show import Terminal, table
from mooring.report.dots import Panel, draw_dots
from mooring.sim.errors import StudyError
from mooring.sim.openb import LOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.sim.openb import Curve

OURS = "default"
AGAINST = ("fgd", "first-fit")
SHOWN = (100, 130)
"""Loads in the table and in the figure."""
_MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Lead:
    """One file at one load."""

    file: str
    load: int
    gar: Mapping[str, float]
    """By policy, the mean over seeds, in percent."""

    @property
    def points(self) -> float:
        """Return how many points the default is ahead of the best of the others."""
        return self.gar[OURS] - max(value for name, value in self.gar.items() if name != OURS)


def check_lead(policies: Sequence[str]) -> None:
    """Tell it if there is nothing to compare."""
    if OURS not in policies or len(set(policies)) < 2:
        raise StudyError(f"--lead compares {OURS} with others: give --policy {OURS} and one more")


def leads_of(curves: Sequence[Curve]) -> list[Lead]:
    """Return the leads, of files and seeds for which every policy is done."""
    policies = list(dict.fromkeys(curve.run.policy for curve in curves))
    done = {(curve.run.file, curve.run.seed, curve.run.policy): curve.gar for curve in curves}
    found = []
    for file in dict.fromkeys(curve.run.file for curve in curves):
        seeds = [
            seed
            for seed in dict.fromkeys(curve.run.seed for curve in curves)
            if all((file, seed, policy) in done for policy in policies)
        ]
        for load in SHOWN if seeds else ():
            at = LOADS.index(load)
            gar = {name: fmean(done[file, seed, name][at] for seed in seeds) for name in policies}
            found.append(Lead(file, load, gar))
    return found


def leads_as_data(leads: Sequence[Lead]) -> dict[str, object]:
    """Return the leads as plain data."""
    return {
        "files": [
            {"file": lead.file, "load": lead.load, "gar": lead.gar, "lead": lead.points}
            for lead in leads
        ],
        "mean_lead": {str(load): mean_lead(leads, load) for load in SHOWN if leads},
    }


def mean_lead(leads: Sequence[Lead], load: int) -> float:
    """Return the mean over files."""
    return fmean(lead.points for lead in leads if lead.load == load)


def print_leads(leads: Sequence[Lead]) -> None:
    """Print a row for each file: every policy, and the lead, at each load."""
    if not leads:
        return
    names = list(leads[0].gar)
    heads = [f"{name} at {load} %" for load in SHOWN for name in (*names, "lead")]
    rows = []
    for file in dict.fromkeys(lead.file for lead in leads):
        same = {lead.load: lead for lead in leads if lead.file == file}
        cells: list[str] = []
        for load in SHOWN:
            cells += [f"{same[load].gar[name]:.2f}" for name in names]
            cells.append(f"{same[load].points:+.2f}")
        rows.append([file, *cells])
    means: list[str] = []
    for load in SHOWN:
        some = [lead for lead in leads if lead.load == load]
        means += [f"{fmean(lead.gar[name] for lead in some):.2f}" for name in names]
        means.append(f"{mean_lead(leads, load):+.2f}")
    Terminal().print(table(["file", *heads], [*rows, [_MEAN, *means]], right=heads))


def write_leads(leads: Sequence[Lead], path: str) -> None:
    """Write the figure."""
    panels = [
        Panel(f"after {load} % load", {lead.file: lead.gar for lead in leads if lead.load == load})
        for load in SHOWN
    ]
    write_text(path, draw_dots("GPUs allocated (GAR) in %, by pod file of openb", panels, OURS))

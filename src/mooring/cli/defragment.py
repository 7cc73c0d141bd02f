"""`mooring defragment`: what could be moved at the moment of a scenario, and what it would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.cli.fold import fold_names, fold_numbers
from mooring.cli.show import Terminal, print_json, table
from mooring.config.units import say_duration
from mooring.engine import EventError
from mooring.model.codec import encode
from mooring.sim.settle import invoice_of
from mooring.words import counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mooring.model.invoice import Invoice
    from mooring.model.scenario import Scenario
    from mooring.model.settings import Defragmentation
    from mooring.model.workload import Placement

_MOVES = ("move", "from", "to", "tasks", "GPU-h lost", "for")
_GAINS = ("starts", "GPUs", "on", "earlier", "GPU-h saved")


def defragment(scenario: Scenario, *, as_json: bool) -> int:
    """Print the invoice of a scenario; return the exit code."""
    profile = scenario.policy.profile
    if profile != "default":
        raise EventError(f"defragmentation is for profile default; this is profile {profile}")
    invoice = invoice_of(scenario)
    if as_json:
        print_json(None if invoice is None else _as_data(invoice, scenario))
        return 0
    console, rules = Terminal(), scenario.policy.defragmentation
    if invoice is None:
        console.print("No move would let anybody start, or leave fewer nodes in part allocated.")
        return 0
    console.print(table(_MOVES, _move_rows(invoice), ["GPU-h lost"]))
    console.print()
    if invoice.gains:
        console.print(table(_GAINS, _gain_rows(invoice), ["GPUs", "earlier", "GPU-h saved"]))
        console.print()
    console.print(_summary(invoice))
    console.print(_VERDICTS[_verdict(invoice, rules)].format(rules=rules))
    return 0


def _as_data(invoice: Invoice, scenario: Scenario) -> dict[str, object]:
    """Return the invoice, and what the policy would do."""
    verdict = _verdict(invoice, scenario.policy.defragmentation)
    return {**encode(invoice, full=True), "verdict": verdict}


def _move_rows(invoice: Invoice) -> Iterator[tuple[str, ...]]:
    """Yield a row for each move; nodes and tasks of all its groups together."""
    for move in invoice.moves:
        tasks = [
            f"{placement.group} {fold_numbers(placement.tasks)}" for placement in move.placements
        ]
        yield (
            move.workload,
            fold_names(move.nodes),
            _nodes(move.placements),
            "\n".join(tasks),
            f"{move.cost:.1f}",
            move.beneficiary or "fewer gaps",
        )


def _gain_rows(invoice: Invoice) -> Iterator[tuple[str, ...]]:
    for gain in invoice.gains:
        earlier = "no end in sight"
        if gain.earlier_s is not None:
            earlier = str(say_duration(float(round(gain.earlier_s))))
        nodes = _nodes(gain.placements)
        yield gain.workload, f"{gain.gpus:g}", nodes, earlier, f"{gain.saved:.1f}"


def _nodes(placements: Sequence[Placement]) -> str:
    names = [name for placement in placements for name in placement.nodes]
    return fold_names(list(dict.fromkeys(names)))


def _summary(invoice: Invoice) -> str:
    moves = f"{counted(len(invoice.moves), 'move')}, {invoice.cost:.1f} GPU-hours lost"
    saved = f"{invoice.saved:.1f} GPU-hours of waiting saved"
    ratio = "" if invoice.ratio is None else f", ratio {invoice.ratio:.2f}"
    gaps = f"GFR {percent(invoice.gfr_before)} before, {percent(invoice.gfr_after)} after"
    return f"{moves}, {saved}{ratio}; {gaps}."


_VERDICTS = {
    "manual": "The policy moves nothing by itself.",
    "ratio": "The policy only moves from a ratio of {rules.ratio:g} on.",
    "budget": "The policy only lets {rules.budget:g} GPU-hours be lost a day.",
    "automatic": "The policy does so by itself.",
}


def _verdict(invoice: Invoice, rules: Defragmentation) -> str:
    """Return whether the policy would do that by itself, or what keeps it from that."""
    if not rules.automatic:
        return "manual"
    if invoice.ratio is not None and invoice.ratio < rules.ratio:
        return "ratio"
    return "budget" if invoice.cost > rules.budget else "automatic"

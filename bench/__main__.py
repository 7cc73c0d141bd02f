"""Run the benchmarks: `python -m bench [PREFIX …]`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench import core, kube_client, policy, sim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.measure import Result

OUT = Path("build/bench.json")


def main(prefixes: list[str]) -> int:
    """Run everything, or what begins with one of the prefixes; print a table, write JSON."""
    console = Console()
    results: list[Result] = []
    with console.status("benchmarks run; nothing else should") as status:
        for result in _results(prefixes):
            if not prefixes or result.name.startswith(tuple(prefixes)):
                results.append(result)
            status.update(f"{result.name}: {result.value:,.4g} {result.unit}")
    console.print(_table(results))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    console.print(f"written to {OUT}")
    return 0


def _results(prefixes: list[str]) -> Iterator[Result]:
    """Yield all results of the parts that are asked for."""
    parts = (
        ("core.", core.run),
        ("policy.", lambda: policy.run(prefixes)),
        ("sim.", lambda: sim.run(prefixes)),
        ("kube.", lambda: kube_client.run(prefixes)),
    )
    for part, run in parts:
        if not prefixes or any(p.startswith(part) or part.startswith(p) for p in prefixes):
            yield from run()


def _table(results: list[Result]) -> Table:
    table = Table(box=None)
    table.add_column("benchmark", no_wrap=True)
    for title in ("value", "unit", "target", "", "others", "times as fast"):
        table.add_column(title, justify="left" if title == "unit" else "right", no_wrap=True)
    for result in results:
        sign = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[result.meets]
        arrow = "≥" if result.better == "higher" else "≤"
        target = "" if result.target is None else f"{arrow} {result.target:,.6g}"
        others = "" if result.rival is None else f"{result.rival:,.1f}"
        ratio = "" if result.rival is None else f"{result.rival / result.value:,.0f}"
        row = (result.name, _number(result.value), result.unit, target, sign, others, ratio)
        table.add_row(*row)
    return table


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.3f}" if abs(value) >= 0.1 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run the benchmarks: `python -m bench [PREFIX …]`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench import core

if TYPE_CHECKING:
    from bench.measure import Result

OUT = Path("build/bench.json")


def main(prefixes: list[str]) -> int:
    """Run everything, or what begins with one of the prefixes; print a table, write JSON."""
    console = Console()
    results: list[Result] = []
    with console.status("benchmarks run; nothing else should") as status:
        for result in core.run():
            if not prefixes or result.name.startswith(tuple(prefixes)):
                results.append(result)
            status.update(f"{result.name}: {result.value:,.4g} {result.unit}")
    console.print(_table(results))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    console.print(f"written to {OUT}")
    return 0


def _table(results: list[Result]) -> Table:
    table = Table(box=None)
    table.add_column("benchmark", no_wrap=True)
    for title in ("value", "unit", "target", ""):
        table.add_column(title, justify="left" if title == "unit" else "right", no_wrap=True)
    for result in results:
        sign = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[result.meets]
        arrow = "≥" if result.better == "higher" else "≤"
        target = "" if result.target is None else f"{arrow} {result.target:,.6g}"
        value = f"{result.value:,.3f}" if abs(result.value) < 100 else f"{result.value:,.0f}"
        table.add_row(result.name, value, result.unit, target, sign)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

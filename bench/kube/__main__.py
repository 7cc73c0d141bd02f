"""Run the benchmarks on a real API server: `python -m bench.kube [--nodes N] [--load L] …`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.kube.loads import LOADS, Result, measure
from bench.kube.schedulers import ALL
from bench.kube.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.kube.schedulers import Scheduler

OUT = Path("build/bench-kube.json")
NODES = (1_000, 5_000)
_COLUMNS = ("pods_per_s", "p50_ms", "p99_ms", "cpu_ms", "plane_ms", "seconds", "rss_mb")


def main(argv: list[str]) -> int:
    """Measure what is asked for, all on one plane; print a table, write JSON."""
    given = _options(argv)
    console = Console(width=None if sys.stdout.isatty() else 150, soft_wrap=True)
    results: list[Result] = []
    console.print("[dim]nothing else should run on this machine[/]")
    try:
        with Site() as site:
            for scheduler, nodes, load in _wanted(given):
                result = _measure(site, scheduler, nodes, load)
                results.append(result)
                console.print(_line(result))
                _write(results, given.out)
    except KeyboardInterrupt:
        console.print("stopped")
    console.print(_table(results))
    for text, value, bar, meets in bars(results):
        sign = "[green]met[/]" if meets else "[red]missed[/]"
        console.print(f"{text}: {value:,.2f}, the bar is {bar:,.6g}: {sign}")
    if results:
        console.print(f"written to {given.out}")
    return 0


def _write(results: list[Result], to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    to.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


def _options(argv: list[str]) -> argparse.Namespace:
    made = argparse.ArgumentParser(prog="bench.kube", description=__doc__)
    names = [scheduler.name for scheduler in ALL]
    made.add_argument("--nodes", type=int, action="append", help="so many (default: 1000, 5000)")
    made.add_argument("--load", choices=LOADS, action="append", help="only this (repeatable)")
    made.add_argument("--scheduler", choices=names, action="append", help="only this (repeatable)")
    made.add_argument("--out", type=Path, default=OUT, help=f"where to (default: {OUT})")
    return made.parse_args(argv)


def _wanted(given: argparse.Namespace) -> Iterator[tuple[Scheduler, int, str]]:
    """Yield what to measure; what is compared comes one after the other.

    A restart is of interest of one scheduler and on the large site, unless it is asked for.
    """
    for nodes in given.nodes or NODES:
        for load in given.load or LOADS:
            for scheduler in ALL:
                if given.scheduler and scheduler.name not in given.scheduler:
                    continue
                is_told = load in (given.load or ())
                is_usual = load != "restart" or (scheduler.name, nodes) == ("mooring", NODES[-1])
                if is_usual or (is_told and scheduler.name == "mooring") or given.scheduler:
                    yield scheduler, nodes, load


def _measure(site: Site, scheduler: Scheduler, nodes: int, load: str) -> Result:
    began = time.perf_counter()
    site.furnish(nodes)
    site.clear()
    scheduler.prepare(site)
    print(f"{scheduler.name}, {nodes:,} nodes, {load}: "
          f"site in {time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
    try:
        result = asyncio.run(measure(site, scheduler, load))
    except TimeoutError:
        print(site.tail(scheduler.process), file=sys.stderr)
        raise
    site.end(scheduler.process)
    return result


def _line(result: Result) -> str:
    found = [f"{name} {value:,}" for name in _COLUMNS if (value := getattr(result, name))]
    return f"[bold]{result.scheduler}, {result.nodes:,} nodes, {result.load}[/]: {', '.join(found)}"


def _table(results: list[Result]) -> Table:
    table = Table(box=None)
    for title in ("nodes", "load", "scheduler", *_COLUMNS):
        side = "left" if title in ("load", "scheduler") else "right"
        table.add_column(title, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for each in results:
        values = [getattr(each, name) for name in _COLUMNS]
        shown = ["" if value is None else f"{value:,}" for value in values]
        table.add_row(f"{each.nodes:,}", each.load, each.scheduler, *shown)
    return table


def bars(results: list[Result]) -> Iterator[tuple[str, float, float, bool]]:
    """Yield what Mooring has to reach, of what was measured: name, value, bar, whether it does."""
    found = {(each.scheduler, each.nodes, each.load): each for each in results}

    def speed(scheduler: str, load: str) -> float | None:
        result = found.get((scheduler, NODES[0], load))
        return result.pods_per_s if result else None

    for load, other, bar in (
        ("drain", "kube-scheduler", 3.0),
        ("drain", "ceiling", 0.6),
        ("gangs-64", "kube-scheduler", 5.0),
    ):
        own, theirs = speed("mooring", load), speed(other, load)
        if own and theirs:
            yield f"{load}, times {other}", own / theirs, bar, own / theirs >= bar
    offered = found.get(("mooring", NODES[0], "rate-200"))
    if offered and offered.p99_ms is not None:
        yield "rate-200, p99 in ms", offered.p99_ms, 100.0, offered.p99_ms <= 100.0
    again = found.get(("mooring", NODES[-1], "restart"))
    if again and again.seconds is not None and again.rss_mb is not None:
        yield "restart, seconds", again.seconds, 10.0, again.seconds < 10.0
        yield "restart, MB", again.rss_mb, 1000.0, again.rss_mb < 1000.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

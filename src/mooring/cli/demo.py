"""`mooring demo`: a cluster alive in the terminal."""

from __future__ import annotations

import io
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.terminal_theme import TerminalTheme

from mooring.cli.map import Picture
from mooring.cli.show import Terminal
from mooring.cli.words import counted, percent
from mooring.journal import Journal, Recorder
from mooring.model.scenario import Scenario
from mooring.sim.demo import Demo
from mooring.sim.generate import TOPOLOGY

if TYPE_CHECKING:
    from rich.text import Text

SPEED = 3600.0
"""Seconds of the cluster in a second of the demo."""
FRAME_S = 1 / 12
SAMPLES = 240
"""Moments at which the ratios are taken where nobody watches."""
PLAIN_FRAMES = 4
JOURNAL_BATCH = 256
"""Records that are written at once."""
SVG_SIZE = 82, 26
_DARK = TerminalTheme((18, 22, 28), (214, 220, 228), [(90, 98, 110)] * 8)


@dataclass(frozen=True, slots=True)
class Show:
    """What is to be shown."""

    nodes: int
    seconds: float
    seed: int
    once: bool
    svg: str
    journal: str = ""


def demo(show: Show) -> int:
    """Show a cluster alive; return the exit code."""
    console = Terminal()
    is_live = console.is_terminal and not console.is_dumb_terminal and not show.once
    player = _Player(show, console)
    if show.journal:
        player.record(show.journal)
    try:
        if show.svg:
            player.save(show.svg)
        elif is_live:
            player.play_live()
        else:
            player.play_plain(1 if show.once else PLAIN_FRAMES)
    finally:
        player.close()
        console.print(player.summary())
    return 0


class _Player:
    """Runs a demo, draws it, and measures how long the deciding takes."""

    def __init__(self, show: Show, console: Console) -> None:
        self._seconds = show.seconds
        self._until_s = show.seconds * SPEED
        self._demo = Demo(show.nodes, self._until_s, show.seed)
        self._console = console
        has_colours = console.color_system is not None
        self._picture = Picture(console.width, console.height, colour=has_colours)
        self._deciding_s = 0.0
        self._journal: Journal | None = None

    def record(self, path: str) -> None:
        """Write all that is to come to a new journal."""
        self._journal = Journal.create(path, Scenario(topology=TOPOLOGY), batch=JOURNAL_BATCH)
        loop = self._demo.loop
        loop.engine = Recorder(loop.engine, self._journal)

    def close(self) -> None:
        """Finish the journal, if there is one."""
        if self._journal:
            self._journal.close()

    def play_live(self) -> None:
        """Draw frame after frame; where deciding is too slow for them, time stays behind."""
        began = perf_counter()
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while (elapsed := perf_counter() - began) < self._seconds:
                self._play(elapsed * SPEED, FRAME_S / 2)
                self._picture.width, self._picture.height = self._console.size
                live.update(self._frame(), refresh=True)
                sleep(max(began + elapsed + FRAME_S - perf_counter(), 0.0))
        self._console.print(self._frame())

    def play_plain(self, frames: int) -> None:
        """Print so many frames, one below the other, the last one at the end."""
        for sample in range(1, SAMPLES + 1):
            self._play(self._until_s * sample / SAMPLES)
            if sample % (SAMPLES // frames) == 0:
                self._console.print(self._frame(), end="\n\n")

    def save(self, path: str) -> None:
        """Write the last frame to an SVG file."""
        width, height = SVG_SIZE
        canvas = Console(
            record=True, file=io.StringIO(), color_system="truecolor", width=width, height=height
        )
        self._picture = Picture(width, height, colour=True)
        for sample in range(1, SAMPLES + 1):
            self._play(self._until_s * sample / SAMPLES)
        canvas.print(self._frame())
        svg = canvas.export_svg(title="mooring demo", theme=_DARK, unique_id="demo")
        Path(path).write_text(svg, encoding="utf-8")

    def _play(self, until_s: float, most_s: float = inf) -> None:
        """Go on until then, but not for longer than `most_s` of real time."""
        loop = self._demo.loop
        began = perf_counter()
        while loop.next_at <= until_s and perf_counter() - began < most_s:
            loop.step()
        self._deciding_s += perf_counter() - began
        self._picture.note(self._demo.view())

    def _frame(self) -> Text:
        return self._picture.draw(self._demo.view(), self._deciding_s)

    def summary(self) -> str:
        """Return what came of it."""
        view = self._demo.view()
        low, middle, high = np.quantile(self._picture.allocation or [0.0], (0.1, 0.5, 0.9))
        partly = float(np.median(self._picture.fragmentation or [0.0]))
        return (
            f"{view.now / 3600:.1f} hours of the cluster, {self._deciding_s:.1f} s of work: "
            f"{counted(view.placed, 'workload')} placed, {view.ended:,} ended, "
            f"{view.waiting:,} wait. GAR {percent(middle)} (p10 {percent(low)}, "
            f"p90 {percent(high)}), GFR {percent(partly)}."
        )

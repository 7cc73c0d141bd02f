"""How a run is driven: where it stops, what is saved, how fast it goes, and Ctrl-C."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from mooring.model.events import Ended
from mooring.model.plan import Bind, Evict
from mooring.sim.live import Live
from mooring.sim.saved import Saved, load, resume
from mooring.words import cause_in_words, clock, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.events import Event
    from mooring.model.plan import Plan
    from mooring.sim.study import Trial

MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Control:
    """How one run is driven."""

    stop_s: float = inf
    save: str = ""
    """A file that the run is saved to where it stops."""
    pace: float = 0.0
    """Virtual seconds a second; 0: as fast as it goes."""
    saved: Saved | None = None
    """Where it goes on."""

    def live(self, trial: Trial, tick: Callable[[int], None]) -> Live:
        """Return the run, where it begins or goes on."""
        return Live(trial, tick) if self.saved is None else resume(self.saved, tick)


FREELY = Control()


class Teller:
    """Tells what happens, a line each."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.is_alone = False
        """Nobody listens any more."""

    def hear(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        """Hear of a cycle."""
        try:
            self._tell_all(now, events, plan)
        except BrokenPipeError:
            self.is_alone = True

    def _tell_all(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        at = clock(now)
        for event in events:
            if isinstance(event, Ended):
                self._tell(f"{at}  {event.workload} ends")
        tasks: dict[str, int] = {}
        nodes: dict[str, dict[str, None]] = {}
        for decision in plan.decisions:
            name = decision.workload
            if isinstance(decision, Bind):
                tasks[name] = tasks.get(name, 0) + len(decision.placement.tasks)
                nodes.setdefault(name, {}).update(dict.fromkeys(decision.placement.nodes))
            elif isinstance(decision, Evict):
                cause = cause_in_words(decision.cause)
                some = counted(len(decision.tasks), "task")
                self._tell(f"{at}  {name} leaves with {some}: {cause}")
        for name, count in tasks.items():
            there = list(nodes[name])
            where = there[0] if len(there) == 1 else counted(len(there), "node")
            self._tell(f"{at}  {name} starts {counted(count, 'task')} on {where}")


def add_control(to: argparse.ArgumentParser, time: Callable[[str], float]) -> None:
    """Add the options of one run; `time` reads a duration."""
    to.add_argument("--stop-at", metavar="TIME", type=time, default=inf, help="stop then, like 12h")
    to.add_argument(
        "--save", metavar="FILE", default="", help="save the run where it stops, also by Ctrl-C"
    )
    to.add_argument(
        "--continue",
        dest="saved",
        metavar="FILE",
        default="",
        help="go on with a saved run, as it was; one with a journal is saved there again",
    )
    to.add_argument(
        "--pace",
        metavar="S",
        type=_pace,
        default=0.0,
        help="simulated seconds a second, and tell what happens; default as fast as it goes",
    )


def cost(text: str) -> float | None:
    """Read what a decision takes: seconds, or `measured`."""
    if text == MEASURED:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is neither {MEASURED} nor seconds from 0")
    return number


def _pace(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


FREE = ("stop_at", "save", "saved", "pace", "report", "data", "out", "output", "command")
"""Options that may be given to a run that is continued."""


def continued(
    arguments: argparse.Namespace, usual: Callable[[str], object]
) -> tuple[Trial, Control]:
    """Return a saved run and how to drive it on; `usual` tells the default of an option."""
    for name, value in vars(arguments).items():
        if name not in FREE and value != usual(name):
            option = "--" + name.replace("_", "-")
            raise ContinueError(f"{option} cannot be given with --continue: it is as it was saved")
    saved = load(arguments.saved)
    trial, now = saved.trial, saved.state.now
    if arguments.stop_at < now:
        what = f"the run stands at {now:,.0f} s already: give a later time, or leave it out"
        raise ContinueError(f"--stop-at: {what}")
    # A journal goes on with its run: who stood where it was before could not go on any more.
    save = arguments.save or (arguments.saved if trial.journal else "")
    return trial, Control(arguments.stop_at, save, arguments.pace, saved)


class ContinueError(Exception):
    """What was asked for does not go together."""

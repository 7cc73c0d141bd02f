"""From the reasons of a workload to what stands on its pods: one word, and sentences.

The word is the reason of the condition `PodScheduled=False`. Autoscalers buy nodes for pods whose
word is `Unschedulable`, so it is said only where a new node would help: something misses room, and
nothing else keeps the workload back. `docs/conditions.md` has this table for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from mooring.model.plan import (
    Behind,
    Blocked,
    CutShort,
    Delays,
    Excluded,
    Exhausted,
    Impossible,
    Leaving,
    Moving,
    NoRoom,
    NotAllowed,
    NotTogether,
    OverQuota,
    Promised,
    Protected,
    Reserved,
    Stopped,
    Unknown,
)
from mooring.words import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.plan import Reason

UNSCHEDULABLE = "Unschedulable"
NOT_UNDERSTOOD = "NotUnderstood"

MOST_SENTENCES = 4
MOST_CHARACTERS = 700
"""Of a message; the names of those who must leave first can be many."""
MOST_OF_MISTAKES = 8_000
"""Characters of a message that lists mistakes."""


class Node(Enum):
    """What a new node would do for a workload that has this reason."""

    HELPS = "helps"
    NO_HELP = "no help"
    """Something else must happen first, whatever is bought."""
    SILENT = "depends on the rest"


@dataclass(frozen=True, slots=True)
class Row:
    """What one reason becomes."""

    word: str
    """Reason of the condition."""
    node: Node
    warns: bool = False
    """Whether its Event is a warning: somebody has to change something."""


ROWS: dict[type[Reason], Row] = {
    Unknown: Row(NOT_UNDERSTOOD, Node.NO_HELP, warns=True),
    NotAllowed: Row("QueueNotAllowed", Node.NO_HELP, warns=True),
    Exhausted: Row("NotStartedAgain", Node.NO_HELP, warns=True),
    Stopped: Row("Stopped", Node.NO_HELP),
    OverQuota: Row("WaitsForQuota", Node.NO_HELP),
    Moving: Row("Moving", Node.NO_HELP),
    Leaving: Row("WaitsForRoom", Node.NO_HELP),
    Promised: Row("RoomIsPromised", Node.NO_HELP),
    Blocked: Row("WaitsForTurn", Node.NO_HELP),
    Behind: Row("WaitsForTurn", Node.NO_HELP),
    Delays: Row("WaitsForTurn", Node.NO_HELP),
    CutShort: Row("SearchGoesOn", Node.NO_HELP),
    Impossible: Row(UNSCHEDULABLE, Node.HELPS, warns=True),
    NoRoom: Row(UNSCHEDULABLE, Node.HELPS),
    NotTogether: Row(UNSCHEDULABLE, Node.HELPS),
    Reserved: Row("Reserved", Node.SILENT),
    Protected: Row("WaitsForRoom", Node.SILENT),
}
"""All reasons but `Excluded`. Of several that stand in one class, the topmost gives the word."""

_NO_NODE = Row("NoNodeFits", Node.SILENT)
_MISSING = Row(UNSCHEDULABLE, Node.HELPS)
EXCLUDED: dict[str, Row] = {
    "quota": ROWS[OverQuota],
    "gpu-model": _NO_NODE,
    "selector": _NO_NODE,
    "affinity": _NO_NODE,
    "taint": _NO_NODE,
    "filter": _NO_NODE,
    "tasks": _MISSING,
    "not-ready": _MISSING,
    "failing": _MISSING,
    "refused": _MISSING,
}
"""By what is in the way. All else is a resource, of which a new node has some."""

_RANK = {row.word: rank for rank, row in reversed([*enumerate([*ROWS.values(), _NO_NODE])])}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is told: the reason of a condition and of an Event, and their message."""

    reason: str
    message: str
    warns: bool = False


def row_of(reason: Reason) -> Row:
    """Return what one reason becomes."""
    if isinstance(reason, Excluded):
        return EXCLUDED.get(reason.by, _MISSING)
    return ROWS[type(reason)]


def word_of(reasons: Sequence[Reason]) -> tuple[str, bool]:
    """Return the word for some reasons, at least one, and whether it is a warning."""
    rows = [row_of(reason) for reason in reasons]
    for node in Node.NO_HELP, Node.HELPS, Node.SILENT:
        words = [row.word for row in rows if row.node is node]
        if words:
            word = min(words, key=_RANK.__getitem__)
            return word, any(row.warns and row.word == word for row in rows)
    raise ValueError("there are no reasons")


def verdict(reasons: Sequence[Reason], *, is_alone: bool = True) -> Verdict | None:
    """Return what to say of a workload; None: it waits for nothing."""
    if not reasons:
        return None
    word, warns = word_of(reasons)
    return Verdict(word, message_of(reasons, is_alone=is_alone), warns)


def mistakes(problems: Sequence[str]) -> Verdict:
    """Return what to say of something that cannot be understood: all that is wrong."""
    if len(problems) == 1:
        text = problems[0]
    else:
        text = " ".join(f"({number}) {problem}" for number, problem in enumerate(problems, 1))
    message = clip(f"It cannot be understood: {text}", MOST_OF_MISTAKES)
    return Verdict(NOT_UNDERSTOOD, message, warns=True)


def clock_time(at: float) -> str:
    """Return a moment as people write it, to the minute; it is not before the moment."""
    try:
        moment = datetime.fromtimestamp(at, UTC)
        if moment.second or moment.microsecond:
            moment = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    except (OverflowError, OSError, ValueError):
        return "some day"
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def clip(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def message_of(reasons: Sequence[Reason], *, is_alone: bool = True) -> str:
    """Return some reasons as a few sentences."""
    said = dict.fromkeys(sentence(r, is_alone=is_alone, time=clock_time) for r in reasons)
    lines = [*said][:MOST_SENTENCES]
    if len(said) > len(lines):
        lines.append(f"And {len(said) - len(lines)} more.")
    return clip(" ".join(lines), MOST_CHARACTERS)

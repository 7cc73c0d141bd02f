"""What the engine says, as sentences."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, assert_never

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
from mooring.model.resources import CPU, GPU, PODS, PORT
from mooring.model.topology import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.plan import Reason

_EXCLUDED = {
    "not-ready": ("is not ready", "are not ready"),
    "gpu-model": ("has another GPU model", "have another GPU model"),
    "selector": ("lacks a label that it selects", "lack a label that it selects"),
    "affinity": ("does not meet its node affinity", "do not meet its node affinity"),
    "taint": ("has a taint that it does not tolerate", "have taints that it does not tolerate"),
    "filter": ("is excluded by the filter", "are excluded by the filter"),
    "failing": (
        "is avoided because work keeps failing there",
        "are avoided because work keeps failing there",
    ),
    "quota": (
        "has a flavor that its queue cannot be charged for",
        "have a flavor that its queue cannot be charged for",
    ),
    "refused": ("refused one of its tasks", "refused one of its tasks"),
    "tasks": ("is ruled out by tasks there", "are ruled out by tasks there"),
    GPU: ("has too few free GPUs", "have too few free GPUs"),
    PODS: ("has all the pods that it takes", "have all the pods that they take"),
}
"""What is in the way, of one node and of several."""
_CAUSES = {
    "lost-node": "a node was lost",
    "lost-task": "a task was lost",
    "stale-gang": "it stayed incomplete",
    "resized": "it was made smaller",
    "preempt": "lower priority",
    "quota": "it used what is another queue's quota",
    "fair-share": "its queue was beyond its share",
    "leximin": "its queue had the most beyond its share",
    "while-borrowing": "lower priority, in another queue that borrowed",
    "overtaker": "it had started before its turn",
    "quantum": "it had its turn",
    "headroom": "it was on lent room",
    "move": "it is moved to make room",
    "run-limit": "it ran as long as it may",
    "drain": "its queue is drained",
    "inactive": "it was switched off",
    "failed": "it failed too often",
    "defragment": "it is moved to close gaps",
}


def counted(number: int, what: str) -> str:
    """Return `1 task`, `2 tasks`, `1,000 tasks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def percent(ratio: float) -> str:
    """Return `12.3 %`."""
    return f"{100 * ratio:.1f} %"


def listed(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def cause_in_words(cause: str) -> str:
    """Return why tasks are evicted."""
    return _CAUSES.get(cause, cause)


def plain_time(at: float) -> str:
    """Return a moment as the number that it is."""
    return f"{at:g}"


def clock(now: float) -> str:
    """Return a moment of virtual time as day and time of day."""
    if not isfinite(now):
        return "some day"
    minutes, seconds = divmod(int(now), 60)
    hours, minutes = divmod(minutes, 60)
    return f"day {hours // 24 + 1} {hours % 24:02d}:{minutes:02d}:{seconds:02d}"


def sentence(
    reason: Reason, *, is_alone: bool = False, time: Callable[[float], str] = plain_time
) -> str:
    """Return a reason as one sentence; the only group of a workload is not named.

    `time` says how moments are written.
    """
    match reason:
        case NoRoom(group, level, wanted, best):
            who = "It" if is_alone else f"Group {group}"
            return f"{who} needs room for {_together(wanted, level)}; {_best(level)} {best:,} now."
        case Impossible(group, level, wanted, most):
            return f"{_impossible('It' if is_alone else f'Group {group}', level, wanted, most)}."
        case Excluded(group, by, nodes):
            line = f"{counted(nodes, 'node')} {_excluded(by, nodes)}."
            return line if is_alone else f"For {group}, {line}"
        case NotTogether(groups):
            return f"There is room for each of {listed(groups)}, but not for all together."
        case CutShort(steps, goes_on):
            bound = counted(steps, "step")
            when = "in the next cycle" if goes_on else "when something changes"
            return f"The search stopped at its bound of {bound}; it goes on {when}."
        case Behind(workload):
            return f"It asks for the same as {workload}, which is before it in line."
        case Unknown(group, what, name):
            who = "It" if is_alone else f"Group {group}"
            return f"{who} names a {what} that means nothing here: {name}."
        case OverQuota():
            return _over_quota(reason)
        case Stopped(queue):
            return f"Queue {queue} is stopped." if queue else "It is switched off."
        case NotAllowed(queue, what, name):
            return f"Queue {queue} is not for {what} {name or '(none)'}."
        case Blocked(workload):
            return f"{workload} is before it, and may not be passed."
        case Delays(workload):
            return f"It has room, but {workload}, which is before it, would start later."
        case Reserved(at, nodes):
            return f"It starts at {time(at)} at the latest, on {counted(nodes, 'node')}."
        case Leaving(workloads):
            return f"Its room is found; it starts once {_gone(workloads or ('all',))}."
        case Moving(workloads):
            return (
                f"It is being moved: it starts at its other place once {_gone(('it', *workloads))}."
            )
        case Protected(until):
            return f"Who could make room for it is not asked to leave before {time(until)}."
        case Promised(queue, gpus):
            what = f"It would use room that queue {queue} was promised ({counted(gpus, 'GPU')})"
            return f"{what}, and it could not leave in time."
        case Exhausted(failures):
            why = f"failed {counted(failures, 'time')}" if failures else "ran as long as it may"
            return f"It {why} and is not started again."
        case _:
            assert_never(reason)


def _gone(workloads: Sequence[str]) -> str:
    """Return `a has left`, `a and b have left`, `all have left`."""
    is_one = len(workloads) == 1 and workloads[0] != "all"
    return f"{listed(workloads)} {'has' if is_one else 'have'} left"


def _over_quota(reason: OverQuota) -> str:
    who = f"Queue {reason.queue}" if reason.queue else "The cluster"
    what = f"{reason.flavor} {reason.resource}".strip()
    unit = 1000 if reason.resource in (GPU, CPU) else 1
    left, wanted = f"{reason.left / unit:g}", f"{reason.wanted / unit:g}"
    if reason.fixed:
        bound = "the quota" if not reason.ever else f"what is left of the quota, {left},"
        return f"It is not preemptible and needs {wanted} {what}, more than {bound} of {_low(who)}."
    if not reason.ever:
        return f"It needs {wanted} {what}, more than its queue can ever be charged ({who})."
    return f"{who} may be charged {left} more {what}; it needs {wanted}."


def _low(text: str) -> str:
    return text[:1].lower() + text[1:]


def _together(wanted: int, level: str) -> str:
    tasks = counted(wanted, "task")
    if level == CLUSTER:
        return tasks if wanted == 1 else f"{tasks} at once"
    return f"{tasks} in one {level}"


def _best(level: str) -> str:
    return "the cluster takes" if level == CLUSTER else f"the best {level} takes"


def _impossible(who: str, level: str, wanted: int, most: int) -> str:
    if not most:
        return f"{who} can never start here: no node takes even one task, however empty"
    never = f"{who} can never start here: it needs room for {_together(wanted, level)}"
    return f"{never}, and empty, {_best(level)} {most:,}"


def _excluded(by: str, nodes: int) -> str:
    if by in _EXCLUDED:
        return _EXCLUDED[by][nodes != 1]
    verb = "has" if nodes == 1 else "have"
    if by.startswith(PORT):
        return f"{verb} port {by.removeprefix(PORT)} in use"
    return f"{verb} too little free {by}"

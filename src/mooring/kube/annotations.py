"""What a workload may say of itself: labels and annotations with the prefix `mooring.dev/`.

`NOTES` is the table of all of them. They may stand on pods (best in the pod template) and on the
owner that the workload is named after; nearest to the pod wins: annotation of the pod, label of the
pod, annotation of the owner, label of the owner. A queue may also stand on the namespace. What is
about a group (`min`, `partial-min`, topology, `volume`) is about the pod's own group where it
stands on pods, and about all groups together where it stands on the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mooring.config.reader import ReadError, nearest
from mooring.config.schema import SLICES_MOST
from mooring.config.units import (
    AMOUNT_MOST,
    duration,
    grace,
    mebibytes,
    name,
    positive_duration,
    whole,
)
from mooring.kube.names import PREFIX
from mooring.kube.problems import Problem, show
from mooring.model.workload import Slice, TopologyRequest

if TYPE_CHECKING:
    from collections.abc import Collection

Read = Callable[[str], Any]
PODS_MOST = 100_000
"""Of one group."""


@dataclass(frozen=True, slots=True)
class Note:
    """One label or annotation."""

    key: str
    """Without the prefix."""
    accepts: str
    """What may be written, in words of the manual."""
    meaning: str
    read: Read | None = None
    """None: it is read elsewhere."""
    default: str = ""
    """What holds where it is left out."""
    is_live: bool = False
    """A change counts also while the workload runs, and is expected then."""
    by_group: bool = False
    """It is about a group, not about the workload."""

    @property
    def name(self) -> str:
        """Return the whole name."""
        return PREFIX + self.key


# -- readers ----------------------------------------------------------------------------------


def instant(words: str) -> float:
    """Read a moment: RFC 3339, or seconds since 1970."""
    try:
        seconds = float(words) if _is_number(words) else _moment(words).timestamp()
    except (ValueError, OverflowError):
        raise ReadError('give a moment, like "2026-05-01T12:00:00Z", or seconds') from None
    if not 0 <= seconds <= AMOUNT_MOST:
        raise ReadError("give a moment after 1970")
    return seconds


def _moment(words: str) -> datetime:
    moment = datetime.fromisoformat(words)
    if moment.tzinfo is None or len(words) < len("2026-05-01T12:00Z"):
        raise ValueError
    return moment


def _is_number(words: str) -> bool:
    digits = words.replace(".", "", 1)
    return digits.isascii() and digits.isdigit() and len(digits) <= 20


def _plain(words: str) -> str | float:
    """Return a number where digits are written, else the text."""
    return float(words) if _is_number(words) else words


def _of(read: Callable[[object], float]) -> Read:
    """Make a reader of durations from one that tells numbers and texts apart."""

    def reads(words: str) -> float:
        return read(-1 if words == "-1" else _plain(words))

    return reads


def _flag(words: str) -> bool:
    if words not in ("true", "false"):
        raise ReadError("give true or false")
    return words == "true"


def _count(words: str) -> int:
    if not _is_number(words) or "." in words:
        raise ReadError("give a whole number")
    return whole(1, PODS_MOST)(int(words))


def _preemptible(words: str) -> str:
    if words not in ("true", "false", "semi"):
        raise ReadError("give true, false, or semi: only what is above the minimum may be evicted")
    return words


def _slices(words: str) -> tuple[Slice, ...]:
    """Read `leaf:8`, or several of them, outermost first: `leaf:8,node:2`."""
    slices = []
    for part in words.split(","):
        level, _, size = part.strip().rpartition(":")
        if not level:
            raise ReadError('give level:size, like "leaf:8"; several as "leaf:8,node:2"')
        slices.append(Slice(level, _count(size)))
    if len(slices) > SLICES_MOST:
        raise ReadError(f"give at most {SLICES_MOST} slices")
    for outer, inner in pairwise(slices):
        if outer.size % inner.size:
            raise ReadError(f"give outer slices first, of sizes that divide: {inner.size} does not")
    return tuple(slices)


# -- the table --------------------------------------------------------------------------------

_DURATION = "a duration: `90s`, `2h`, `1d12h`, or seconds"
_MOMENT = "RFC 3339 (`2026-05-01T12:00:00Z`), or seconds since 1970"
_LEVEL = "a level of the topology, `node` or `cluster`"

NOTES: tuple[Note, ...] = (
    Note("queue", "a queue", "where it stands in line", name, "that of the namespace, `default`"),
    Note("user", "a name", "whose it is, for queues that only some may use", name),
    Note(
        "preemptible",
        "`true`, `false`, `semi`",
        "whether it may be evicted for others; `semi`: only what is above its minimum",
        _preemptible,
        "`true`",
    ),
    Note("service", "`true`, `false`", "replicas that serve and never end", _flag, "by kind"),
    Note(
        "min",
        "1 or more",
        "so many pods start together or not at all",
        _count,
        "by kind",
        by_group=True,
    ),
    Note(
        "partial-min",
        "1 or more",
        "where the minimum cannot be had, so few will do",
        _count,
        "the minimum",
        by_group=True,
    ),
    Note("topology-required", _LEVEL, "all pods inside one domain", name, by_group=True),
    Note("topology-preferred", _LEVEL, "as close together as that", name, by_group=True),
    Note(
        "topology-slice",
        "`leaf:8`, or up to three like `leaf:8,node:2`",
        "pods in runs of this size by rank, each run inside one domain",
        _slices,
        by_group=True,
    ),
    Note(
        "volume",
        "bytes: `64Mi`",
        "what each pod sends per step",
        mebibytes,
        is_live=True,
        by_group=True,
    ),
    Note("run-limit", _DURATION, "the longest that it may run", _of(positive_duration)),
    Note("estimate", _DURATION, "how long it is likely to run", _of(positive_duration), "", True),
    Note("minimum-run", _DURATION, "so long it is not evicted", _of(duration), "0", True),
    Note("last-checkpoint", _MOMENT, "when it last saved its work", instant, "", True),
    Note("checkpoint-every", _DURATION, "how often it saves it", _of(positive_duration), "", True),
    Note(
        "restart-cost",
        _DURATION,
        "what a restart takes beside the work that is lost",
        _of(duration),
        "as the policy says",
        True,
    ),
    Note(
        "deadline", _MOMENT, "when it should be done; among equals the earlier goes first", instant
    ),
    Note(
        "preemption-delay",
        _DURATION,
        "so long after it came, or was evicted, it makes nobody leave",
        _of(duration),
        "0; for ever with `preemptionPolicy: Never`",
    ),
    Note(
        "grace",
        f"{_DURATION}; or `never`",
        "how long it may be incomplete before it is undone",
        _of(grace),
        "as the policy says",
    ),
    Note(
        "leave",
        _DURATION,
        "how long it takes to leave once it is asked to",
        _of(duration),
        "`terminationGracePeriodSeconds`",
    ),
    Note("gpu-fraction", "above 0 to 1: `0.5`", "this part of a GPU"),
    Note("gpu-memory", "bytes: `20Gi`, or MiB", "so much memory of a GPU"),
    Note("gpu-count", "1 or more", "so many GPUs, of each that part", default="1"),
    Note("gpu-model", "models, with commas", "GPU models that will do", default="any"),
    Note("devices", "written by Mooring", "the devices of its node that a pod was given"),
)
BY_KEY: Mapping[str, Note] = {note.key: note for note in NOTES}


@dataclass(frozen=True, slots=True)
class Said:
    """What stands under `mooring.dev/` on one object: values as read, by key."""

    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = None) -> Any:
        """Return what is said under a key."""
        return self.values.get(key, default)

    def over(self, further: Said) -> Said:
        """Return both together; where both say something, this one is nearer."""
        if not (further.values or further.problems):
            return self
        if not (self.values or self.problems):
            return further
        return Said({**further.values, **self.values}, (*self.problems, *further.problems))

    def topology(self) -> TopologyRequest:
        """Return how close together pods should be."""
        if not self.values:
            return _ANYWHERE
        return TopologyRequest(
            required=self.get("topology-required", ""),
            preferred=self.get("topology-preferred", ""),
            slices=self.get("topology-slice", ()),
            volume=self.get("volume", 0),
        )


NOTHING = Said()
_ANYWHERE = TopologyRequest()
REMEMBERED = 4096
"""So many different sets of annotations are remembered with what they say."""


def _ours(texts: Mapping[str, str]) -> list[str]:
    return [key for key in texts if key.startswith(PREFIX)]


class Annotations:
    """Reads labels and annotations; `levels` are those of the topology, None: any name is one."""

    def __init__(self, levels: Collection[str] | None = None) -> None:
        self._levels = None if levels is None else dict.fromkeys(["cluster", *levels, "node"])
        self._known: dict[tuple[tuple[str, tuple[str, str]], ...], Said] = {}
        """What was read before: the pods of a template all say the same."""

    def read(self, texts: Mapping[str, str], labels: Mapping[str, str], where: str = "") -> Said:
        """Return what annotations and labels of one object say; annotations win.

        Everything that cannot be read is told, and left out.
        """
        given = {key: (f"{where}metadata.labels", labels[key]) for key in _ours(labels)}
        given |= {key: (f"{where}metadata.annotations", texts[key]) for key in _ours(texts)}
        if not given:
            return NOTHING
        signature = tuple(sorted(given.items()))
        if signature not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[signature] = self._read(given)
        return self._known[signature]

    def _read(self, given: Mapping[str, tuple[str, str]]) -> Said:
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for key in sorted(given):
            place, words = given[key]
            try:
                found = self._value(key.removeprefix(PREFIX), words.strip())
            except ReadError as error:
                problems.append(Problem(f"{place}[{key}]", show(words), str(error)))
                continue
            if found is not None:
                values[key.removeprefix(PREFIX)] = found
        return Said(values, tuple(problems))

    def _value(self, key: str, words: str) -> Any:
        note = BY_KEY.get(key)
        if note is None:
            raise ReadError(f"remove it: there is no such name{nearest(key, BY_KEY)}")
        if note.read is None:
            return None
        value = note.read(words)
        if key.startswith("topology-"):
            for level in [each.level for each in value] if key == "topology-slice" else [value]:
                self._check_level(level)
        return value

    def _check_level(self, level: str) -> None:
        if self._levels is not None and level not in self._levels:
            known = ", ".join(map(repr, self._levels))
            raise ReadError(f"give one of {known}{nearest(level, self._levels)}")

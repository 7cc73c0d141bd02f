"""Pictures of the cluster: how full every node was, at moments that lie evenly over the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.metrics.cluster import Cluster, Seen

MOST_FRAMES = 96
"""When there are more, every second one is dropped."""
GONE = "x"
"""A node that is not there or not ready, or of whose GPUs none is healthy."""
FULL = 8
"""Digits go from 0, empty, to 8, full."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node with GPUs in the picture."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Film:
    """The cluster over time."""

    places: tuple[Place, ...]
    """By path and name."""
    frames: tuple[tuple[float, str], ...]
    """When, and a digit (or `x`) for each place."""


class Camera:
    """Takes pictures."""

    def __init__(self, cluster: Cluster, start: float, every_s: float = 60.0) -> None:
        self._cluster = cluster
        self._due = start
        self._every_s = every_s
        self._frames: list[tuple[float, dict[str, str]]] = []
        self._places: dict[str, Place] = {}

    def pass_time(self, until: float) -> None:
        """Take the pictures that are due up to then; nothing has changed since the last call."""
        if until < self._due:
            return
        with_gpus = [
            (name, seen) for name, seen in self._cluster.nodes.items() if seen.node.devices
        ]
        picture = {name: _digit(seen) for name, seen in with_gpus}
        for name, seen in with_gpus:
            if name not in self._places:
                self._places[name] = Place(name, seen.node.path)
        self._frames.append((self._due, picture))
        behind = (until - self._due) // self._every_s + 1
        self._due += behind * self._every_s
        if len(self._frames) > MOST_FRAMES:
            self._frames = self._frames[::2]
            self._every_s *= 2

    def film(self) -> Film:
        """Return what was taken."""
        places = sorted(self._places.values(), key=lambda place: (place.path, place.name))
        frames = [
            (at, "".join(picture.get(place.name, GONE) for place in places))
            for at, picture in self._frames
        ]
        return Film(tuple(places), tuple(frames))


def _digit(seen: Seen) -> str:
    if not seen.node.ready or not seen.installed:
        return GONE
    return str(min(-(-FULL * seen.allocated // seen.installed), FULL))

"""MIG geometries: which profiles a partitioned device takes, and where.

A device has memory slices (8; an A30 has 4). An instance of a profile covers a run of them that
begins at one of the profile's starts; no two instances overlap. A used mask has bit s set where
memory slice s is taken.

The sum of the compute slices (the number before `g`) must not exceed 7 (A30: 4). Memory slices
alone ensure that: no profile has more compute than memory slices, and on devices with 8 memory
slices every profile that may cover the last one has fewer. So disjoint instances that cover it
have at most 8 - 1 compute slices, and those that do not cover it have at most 7.

Starts as NVIDIA's driver lists them (`nvidia-smi mig -lgipp`). Left out are the `+me` variants:
only one of a device's instances may have its media engines, which memory slices do not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Profile:
    """One size of instance."""

    width: int
    """Memory slices that it covers."""
    starts: tuple[int, ...]
    """First memory slices that are allowed, ascending."""
    compute: int


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """What one kind of device can be cut into. Known by identity: there is one of each."""

    name: str
    slices: int
    compute: int
    """Compute slices in all."""
    profiles: dict[str, Profile]
    """By name, largest first."""


def _eighths(name: str, *profiles: str) -> Geometry:
    """Return the common geometry: seven compute and eight memory slices, six profiles."""
    rows = (
        Profile(8, (0,), 7),
        Profile(4, (0,), 4),
        Profile(4, (0, 4), 3),
        Profile(2, (0, 2, 4), 2),
        Profile(2, (0, 2, 4, 6), 1),
        Profile(1, (0, 1, 2, 3, 4, 5, 6), 1),
    )
    return Geometry(name, 8, 7, dict(zip(profiles, rows, strict=True)))


_A30 = {
    "4g.24gb": Profile(4, (0,), 4),
    "2g.12gb": Profile(2, (0, 2), 2),
    "1g.6gb": Profile(1, (0, 1, 2, 3), 1),
}

GEOMETRIES: dict[str, Geometry] = {
    geometry.name: geometry
    for geometry in (
        Geometry("a30-24gb", 4, 4, _A30),
        _eighths("a100-40gb", "7g.40gb", "4g.20gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb"),
        _eighths("a100-80gb", "7g.80gb", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb"),
        _eighths("h100-80gb", "7g.80gb", "4g.40gb", "3g.40gb", "2g.20gb", "1g.20gb", "1g.10gb"),
        _eighths("h100-96gb", "7g.96gb", "4g.48gb", "3g.48gb", "2g.24gb", "1g.24gb", "1g.12gb"),
        _eighths("h200-141gb", "7g.141gb", "4g.71gb", "3g.71gb", "2g.35gb", "1g.35gb", "1g.18gb"),
        _eighths("b200-180gb", "7g.180gb", "4g.90gb", "3g.90gb", "2g.45gb", "1g.45gb", "1g.23gb"),
    )
}
"""By name, as in `Device.mig`."""


def starts(geometry: Geometry, profile: str) -> tuple[int, ...]:
    """Return where an instance may begin; empty: the device has no such profile."""
    known = geometry.profiles.get(profile)
    return known.starts if known else ()


def bits(geometry: Geometry, profile: str, start: int) -> int:
    """Return the mask of the memory slices that an instance at `start` covers."""
    return (1 << geometry.profiles[profile].width) - 1 << start


@cache
def fits_count(geometry: Geometry, profile: str, used_mask: int) -> int:
    """Return the most instances of the profile that still fit.

    All are equally wide, so taking the earliest start that is free each time is optimal.
    """
    count = 0
    for start in starts(geometry, profile):
        mask = bits(geometry, profile, start)
        if not mask & used_mask:
            used_mask |= mask
            count += 1
    return count


@cache
def best_start(geometry: Geometry, profile: str, used_mask: int) -> int:
    """Return the start that leaves most room for the largest profile, then the next, and so on.

    The lowest of equals; -1 where none is free.
    """

    def room(start: int) -> tuple[int, ...]:
        after = used_mask | bits(geometry, profile, start)
        return tuple(fits_count(geometry, other, after) for other in geometry.profiles)

    free = [s for s in starts(geometry, profile) if not bits(geometry, profile, s) & used_mask]
    return max(free, key=room, default=-1)


@cache
def compute_slices(profile: str) -> int:
    """Return how many compute slices a profile has; 0: there is no such profile."""
    known = (geometry.profiles.get(profile) for geometry in GEOMETRIES.values())
    return max((found.compute for found in known if found is not None), default=0)

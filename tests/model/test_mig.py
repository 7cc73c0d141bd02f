"""MIG geometries against brute force over all sets of instances."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest

from mooring.model.mig import GEOMETRIES, Geometry, best_start, bits, fits_count, starts

PAIRS = [(geometry, profile) for geometry in GEOMETRIES.values() for profile in geometry.profiles]
PAIR_IDS = [f"{geometry.name} {profile}" for geometry, profile in PAIRS]


def instances(geometry: Geometry) -> list[tuple[str, int]]:
    return [(name, start) for name in geometry.profiles for start in starts(geometry, name)]


@cache
def layouts(geometry: Geometry) -> list[tuple[tuple[str, int], ...]]:
    """Return every set of instances that do not overlap."""
    found: list[tuple[tuple[str, int], ...]] = [()]
    for instance in instances(geometry):
        mask = bits(geometry, *instance)
        found += [(*old, instance) for old in found if not mask & used(geometry, old)]
    return found


def used(geometry: Geometry, layout: tuple[tuple[str, int], ...]) -> int:
    return sum(bits(geometry, *instance) for instance in layout)


def most_by_trying(geometry: Geometry, profile: str, used_mask: int) -> int:
    masks = [bits(geometry, profile, start) for start in starts(geometry, profile)]
    free = [mask for mask in masks if not mask & used_mask]
    for count in range(len(free), 0, -1):
        for chosen in combinations(free, count):
            if sum(chosen).bit_count() == sum(mask.bit_count() for mask in chosen):
                return count
    return 0


def test_the_table_says_what_the_driver_says() -> None:
    a100 = GEOMETRIES["a100-40gb"]
    assert {name: (p.width, p.starts) for name, p in a100.profiles.items()} == {
        "1g.5gb": (1, (0, 1, 2, 3, 4, 5, 6)),
        "1g.10gb": (2, (0, 2, 4, 6)),
        "2g.10gb": (2, (0, 2, 4)),
        "3g.20gb": (4, (0, 4)),
        "4g.20gb": (4, (0,)),
        "7g.40gb": (8, (0,)),
    }
    a30 = GEOMETRIES["a30-24gb"]
    assert {name: (p.width, p.starts) for name, p in a30.profiles.items()} == {
        "1g.6gb": (1, (0, 1, 2, 3)),
        "2g.12gb": (2, (0, 2)),
        "4g.24gb": (4, (0,)),
    }


@pytest.mark.parametrize(("geometry", "profile"), PAIRS, ids=PAIR_IDS)
def test_names_say_their_compute_slices_and_runs_stay_on_the_device(
    geometry: Geometry, profile: str
) -> None:
    known = geometry.profiles[profile]
    assert profile.startswith(f"{known.compute}g.")
    for start in known.starts:
        assert bits(geometry, profile, start) < 1 << geometry.slices


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_memory_slices_ensure_the_compute_rule(geometry: Geometry) -> None:
    """No set of instances that do not overlap has more compute slices than the device."""
    sums = {sum(geometry.profiles[name].compute for name, _ in set_) for set_ in layouts(geometry)}
    assert max(sums) == geometry.compute


@pytest.mark.parametrize(("geometry", "profile"), PAIRS, ids=PAIR_IDS)
def test_fits_count_is_exact(geometry: Geometry, profile: str) -> None:
    for mask in range(1 << geometry.slices):
        assert fits_count(geometry, profile, mask) == most_by_trying(geometry, profile, mask)


@pytest.mark.parametrize(("geometry", "profile"), PAIRS, ids=PAIR_IDS)
def test_best_start_is_free_and_no_other_keeps_more(geometry: Geometry, profile: str) -> None:
    for mask in range(1 << geometry.slices):
        free = [s for s in starts(geometry, profile) if not bits(geometry, profile, s) & mask]
        start = best_start(geometry, profile, mask)
        if not free:
            assert start == -1
            continue
        rooms = {
            s: [
                most_by_trying(geometry, other, mask | bits(geometry, profile, s))
                for other in geometry.profiles
            ]
            for s in free
        }
        assert start == min(s for s in free if rooms[s] == max(rooms.values()))


@pytest.mark.parametrize(
    ("profile", "start"),
    [("1g.5gb", 6), ("1g.10gb", 6), ("2g.10gb", 4), ("3g.20gb", 4), ("4g.20gb", 0), ("7g.40gb", 0)],
)
def test_an_empty_device_keeps_its_large_half_free(profile: str, start: int) -> None:
    assert best_start(GEOMETRIES["a100-40gb"], profile, 0) == start


def test_small_instances_fill_the_gap_that_hurts_least() -> None:
    """Seven small instances in a row never close the larger profiles before they must."""
    a100 = GEOMETRIES["a100-40gb"]
    mask, order = 0, []
    while (start := best_start(a100, "1g.5gb", mask)) >= 0:
        order.append(start)
        mask |= bits(a100, "1g.5gb", start)
    assert sorted(order) == [0, 1, 2, 3, 4, 5, 6]
    assert set(order[:3]) == {4, 5, 6}


def test_a_profile_of_another_device_fits_nowhere() -> None:
    a30 = GEOMETRIES["a30-24gb"]
    assert starts(a30, "7g.40gb") == ()
    assert fits_count(a30, "7g.40gb", 0) == 0
    assert best_start(a30, "7g.40gb", 0) == -1

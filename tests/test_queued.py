"""Whole worlds with queues at random: whatever happens, all of design.md § 8 holds.

Books, Gangs, Patience and Replay are checked by `tests.world` and `tests.queued` as the story goes,
Quota and Evictions by `tests.rules`, which judges every plan; Rest when the story is over. The
measure of eviction.md § 4 falls with every exchange.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.queued import STEPS, Told, play, told_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[1]
TOGETHER = 4
"""Stories of one test."""
QUICK = 20_000 // STEPS // TOGETHER
LONG = 1_000_000 // STEPS // TOGETHER


def tell(seeds: Iterable[int], record_property: Callable[[str, object], None]) -> Told:
    """Tell stories, and note what was seen for the summary."""
    told = Told()
    for seed in seeds:
        told += told_in(play(seed))
    record_property("told", tuple(told))
    return told


@pytest.mark.parametrize("block", range(QUICK))
def test_stories_of_queues(block: int, record_property: Callable[[str, object], None]) -> None:
    """20,000 steps in all."""
    told = tell(range(block * TOGETHER, (block + 1) * TOGETHER), record_property)

    assert told.steps == TOGETHER * STEPS
    assert told.starts


@pytest.mark.soak
@pytest.mark.parametrize("block", range(LONG))
def test_many_stories_of_queues(block: int, record_property: Callable[[str, object], None]) -> None:
    """A million steps in all."""
    first = 100_000 + block * TOGETHER

    tell(range(first, first + TOGETHER), record_property)


def digests() -> str:
    """Return the digests of a few stories; for another process."""
    return " ".join(play(seed, 60).digest() for seed in range(2, 9, 2))


def test_plans_for_queues_do_not_depend_on_the_hash_seed() -> None:
    """Replay: in other processes with other hash seeds the plans are the same to the letter."""
    script = "from tests.test_queued import digests; print(digests())"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1

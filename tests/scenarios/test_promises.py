"""Promises: room for a queue, soon; those that could not be kept are refused beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.engine import EventError
from mooring.model.events import PolicyChanged
from mooring.model.plan import Promised
from mooring.model.settings import Headroom, Policy
from tests.build import service, task
from tests.scenarios.story import Left, Story, queue


def promise(gpus: int) -> Policy:
    """Return a policy by which serving has so many devices within a minute."""
    return Policy(headroom=(Headroom("serving", gpus, 60.0),))


def test_a_headroom_promise_refused_and_a_smaller_one_kept() -> None:
    """Of 16 devices 6 are guaranteed to batch: serving can have 10 within a minute, never 12."""
    story = Story("a=8 b=8", queue("serving"), queue("batch", {"H100": 6}), grace_s=30)
    story.go(10)
    with pytest.raises(EventError, match="12: give at most 10: there are 16 GPUs, of which others"):
        story.engine.observe(PolicyChanged(promise(12)))
    assert story.engine.policy == Policy()

    story.tell(20, PolicyChanged(promise(10)))
    story.at(30, *(replace(task(f"slow-{i}", 2, queue="batch"), leave_s=3600.0) for i in range(4)))
    story.go(35)
    assert story.why("slow-3") == (Promised("serving", 10),)
    story.at(40, *(task(f"guest-{i}", 2, queue="batch") for i in range(5)))
    story.go(100)
    assert story.running() == [
        *(f"guest-{i}" for i in range(5)),
        *(f"slow-{i}" for i in range(3)),
    ]

    story.at(1000, service("web", 5, queue="serving")).go(1100)
    assert [each._replace(workload="") for each in story.left()] == [
        Left(1000, "", "headroom", "web")
    ] * 3
    assert all(each.workload.startswith("guest") for each in story.left())
    assert story.starts("web") == [1030]
    assert [one.is_kept for one in story.engine.headroom()] == [True]

"""Local queues in the line of their queue by what they have used (admission fair sharing)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.memory import Memory
from mooring.model.settings import Fairness, Policy
from tests.policy.kueue.cases import Case

QUEUES = "a cpu=4 by_usage\nx << a\ny << a"
SAMPLING_S = 300.0
HALF_LIFE_S = 300.0
"""An interval is a half-life: half of a request is charged at the start."""


def used(**cores: float) -> Memory:
    """Return a memory in which local queues have used so many cores, as of the first sample."""
    rows = [(name, "cpu", amount * 1000, 0, 0.0) for name, amount in sorted(cores.items())]
    return Memory(consumed=tuple(rows))


def case(waiting: str, memory: Memory = Memory(), queues: str = QUEUES, **more: object) -> Case:
    fairness = Fairness(
        usage_half_life_s=HALF_LIFE_S,
        usage_sampling_s=SAMPLING_S,
        usage_weights=more.pop("weights", ()),  # type: ignore[arg-type]
    )
    policy = Policy(profile="kueue", fairness=fairness)
    running = str(more.pop("running", ""))
    return Case(queues, running, waiting, policy=policy, memory=memory, now=100.0)


ORDERS = {
    # name: (waiting, used, starts)
    "who has used less goes first, whatever the priority": (
        "x1 x cpu=4 prio=9 at=1\ny1 y cpu=4 at=2",
        {"x": 3.0, "y": 2.0},
        "y1",
    ),
    "nobody has used anything: by priority": (
        "x1 x cpu=4 at=1\ny1 y cpu=4 prio=1 at=2",
        {},
        "y1",
    ),
    "equal use: by age": ("x1 x cpu=4 at=2\ny1 y cpu=4 at=1", {"x": 1.0, "y": 1.0}, "y1"),
    "inside a local queue by priority": (
        "x1 x cpu=4 at=1\nx2 x cpu=4 prio=1 at=2\ny1 y cpu=4 prio=9",
        {"y": 1.0},
        "x2",
    ),
    "a start is charged beforehand: the other is next": (
        # x1 is charged 1, more than y's nothing; then y1 1; then by age
        "x1 x cpu=2 at=1\nx2 x cpu=2 at=2\ny1 y cpu=2 at=3",
        {},
        "x1 y1",
    ),
    "a small start is soon made up for": (
        # y has used 2; x1 and x2 cost half a core each
        "x1 x cpu=1 at=1\nx2 x cpu=1 at=2\nx3 x cpu=1 at=3\ny1 y cpu=2 at=0",
        {"y": 2.0},
        "x1 x2 x3",
    ),
}


@pytest.mark.parametrize(("waiting", "cores", "starts"), ORDERS.values(), ids=ORDERS)
def test_order(waiting: str, cores: dict[str, float], starts: str) -> None:
    assert case(waiting, used(**cores)).decide().starts == starts


def test_without_it_use_does_not_matter() -> None:
    found = case("x1 x cpu=4 at=1\ny1 y cpu=4 at=2", used(x=9.0), QUEUES.replace(" by_usage", ""))
    assert found.decide().starts == "x1"


def test_the_weight_of_a_local_queue_divides_its_use() -> None:
    queues = QUEUES.replace("x << a", "x << a weight=4")
    assert case("x1 x cpu=4\ny1 y cpu=4", used(x=3.0, y=1.0), queues).decide().starts == "x1"


def test_a_local_queue_without_weight_is_last() -> None:
    queues = QUEUES.replace("x << a", "x << a weight=0")
    assert case("x1 x cpu=4\ny1 y cpu=4", used(y=9.0), queues).decide().starts == "y1"


def test_resources_may_have_weights() -> None:
    memory = Memory(consumed=(("x", "cpu", 3000.0, 0, 0.0), ("y", "gpu", 2000.0, 0, 0.0)))
    waiting = "x1 x cpu=4\ny1 y cpu=4"
    assert case(waiting, memory).decide().starts == "y1"
    assert case(waiting, memory, weights=(("gpu", 2.0),)).decide().starts == "x1"


def test_use_fades() -> None:
    # after one half-life x is at 2, and y at 2.5
    memory = Memory(consumed=(("x", "cpu", 4000.0, 0, 0.0), ("y", "cpu", 2500.0, 1, 0.0)))
    late = replace(case("x1 x cpu=4\ny1 y cpu=4", memory), now=300.0)
    assert late.decide().starts == "x1"


def test_of_one_queue_the_heavier_local_queue_is_asked_to_leave_first() -> None:
    found = case(
        "w a cpu=2 prio=5",
        used(x=1.0, y=3.0),
        QUEUES.replace("by_usage", "by_usage within=lower-priority"),
        running="x0 x cpu=2 since=99 prio=-1\ny0 y cpu=2 since=1",
    )
    assert found.decide().evicts == "y0:preempt"


def test_a_start_is_remembered() -> None:
    end = case("x1 x cpu=4").decide()
    assert end.engine.memory().penalties == (("x", "x1", (("cpu", 2000.0),)),)

"""A laboratory: training and inference on the same devices."""

from __future__ import annotations

from tests.build import gang, service
from tests.scenarios.story import Left, Story, queue

LAB = " ".join(f"n{i:02}=8" for i in range(12)) + " n12=4"
"""100 devices."""


def test_services_use_what_training_leaves_idle_and_leave_when_it_is_needed() -> None:
    """100 GPUs, ten trainings, twenty services; training starts within one cycle of their leaving.

    Training owns everything; the services have no quota and use what is idle.
    """
    lab = Story(LAB, queue("training", 100), queue("serving", 0), grace_s=30)
    for i in range(6):
        lab.at(0, gang(f"train-{i}", tasks=10, queue="training"), runs=10_000)
    for i in range(20):
        lab.at(10, service(f"web-{i:02}", 2, queue="serving"))
    lab.go(100)

    assert len(lab.running()) == 26
    assert sum(lab.sizes().values()) == 100

    for i in range(6, 10):
        lab.at(1000 + i, gang(f"train-{i}", tasks=10, queue="training"), runs=10_000)
    lab.go(1100)

    trainings = [f"train-{i}" for i in range(10)]
    assert lab.running() == trainings
    assert [lab.starts(f"train-{i}") for i in range(6, 10)] == [[1036], [1037], [1038], [1039]]
    assert lab.left() == [
        Left(1000 + i, name, "quota", f"train-{i}")
        for i in range(6, 10)
        for name in [each.workload for each in lab.left() if each.at == 1000 + i]
    ]
    assert len(lab.left()) == 20
    lab.rests()

    lab.go(20_000)
    assert lab.running() == [f"web-{i:02}" for i in range(20)]
    lab.rests()

"""A laboratory: training and inference on the same devices."""

from __future__ import annotations

from mooring.model.events import WorkloadChanged
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


def test_inference_on_idle_devices_yields_to_training_within_quota() -> None:
    """One training borrows nothing: services leave until it has its quota, and no further."""
    lab = Story("a=8 b=8", queue("training", 12), queue("serving", 4))
    lab.at(0, *(service(f"web-{i}", 4, queue="serving") for i in range(4)))
    lab.go(10)
    assert len(lab.running()) == 4

    lab.at(20, gang("train", tasks=12, queue="training")).go(30)
    assert lab.sizes() == {"train": 12, "web-0": 4}
    assert {each.cause for each in lab.left()} == {"quota"}
    lab.rests()

    lab.at(40, gang("more", tasks=4, queue="training")).go(5000)
    assert lab.sizes() == {"train": 12, "web-0": 4}
    lab.rests()


def test_training_that_borrows_yields_to_services_within_quota() -> None:
    """The reverse, by policy alone: the services own the devices, training fills the nights."""
    lab = Story("a=8 b=8", queue("training"), queue("serving", 16), grace_s=60)
    lab.at(0, service("web", 4, queue="serving"))
    lab.at(10, *(gang(f"train-{i}", tasks=4, queue="training") for i in range(3)))
    lab.go(100)
    assert lab.sizes() == {"train-0": 4, "train-1": 4, "train-2": 4, "web": 4}

    lab.at(1000, service("search", 8, queue="serving"))
    lab.go(2000)

    assert [(each.at, each.cause, each.beneficiary) for each in lab.left()] == [
        (1000, "quota", "search"),
        (1000, "quota", "search"),
    ]
    assert lab.starts("search") == [1060]
    assert lab.sizes() == {"search": 8, "train-0": 4, "web": 4}
    lab.rests()


def test_a_service_that_scales_up_within_quota_takes_its_devices_back() -> None:
    """More replicas of one service: what its queue has lent comes back unit by unit."""
    lab = Story("a=8", queue("training"), queue("serving", 8))
    lab.at(0, service("web", 2, queue="serving"))
    lab.at(10, *(gang(f"train-{i}", tasks=2, queue="training") for i in range(3)))
    lab.go(20)
    assert lab.sizes() == {"train-0": 2, "train-1": 2, "train-2": 2, "web": 2}

    lab.tell(100, WorkloadChanged(service("web", 2, most=6, queue="serving"))).go(5000)

    assert lab.sizes() == {"train-0": 2, "web": 6}
    assert {(each.cause, each.beneficiary) for each in lab.left()} == {("quota", "web")}
    lab.rests()

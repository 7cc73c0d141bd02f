"""The mix: what is counted, when it is used, how it fades and how it is kept."""

from __future__ import annotations

import pytest

from mooring.model.memory import Memory, TaskType
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.workload import Shape
from mooring.policy.placing.mix import Mix, task_type

HALF_LIFE_S = 100.0


def share(milli: int = 500, cpu: int = 1000) -> Shape:
    return Shape(amounts=amounts({CPU: cpu}), gpus=1, milli=milli)


def known(*shapes: Shape) -> Mix:
    """Return a mix that was learnt elsewhere."""
    teacher = Mix()
    for shape in shapes:
        teacher.arrive(shape)
    mix = Mix(learns=False)
    mix.load(teacher.dump())
    return mix


def test_types_say_what_is_asked_not_where() -> None:
    """Shapes that differ only in labels, ports or other resources are one type."""
    plain = Shape(amounts=amounts({CPU: 4000, MEMORY: 1024}), gpus=2, gpu_models=("A",))
    other = Shape(
        amounts=amounts({CPU: 4000, MEMORY: 1024, "rdma": 1}),
        gpus=2,
        gpu_models=("A",),
        labels=(("app", "x"),),
        ports=(80,),
    )
    assert task_type(plain) == task_type(other)
    assert task_type(plain) == TaskType(((CPU, 4000), (MEMORY, 1024)), 2, 1000, ("A",))


def test_a_type_without_devices_has_no_thousandths() -> None:
    assert task_type(Shape(gpu_models=("A",))) == TaskType((), 0, 0, ())


@pytest.mark.parametrize("shape", [Shape(gpus=1, mig="1g.5gb"), Shape(gpus=1, gpu_memory=1024)])
def test_mig_and_memory_are_not_counted(shape: Shape) -> None:
    mix = Mix()
    mix.arrive(shape, 100)
    assert mix.types == []
    assert mix.arrivals == 0


def test_counts_are_in_order_of_first_arrival() -> None:
    mix = Mix()
    mix.arrive(share(300))
    mix.arrive(share(200), 3)
    mix.arrive(share(300))
    assert [kind.milli for kind in mix.types] == [300, 200]
    assert mix.counts.tolist() == [2.0, 3.0]


def test_a_learnt_mix_is_read_at_every_doubling_and_then_steadily() -> None:
    """16, 32, … 4096, and from there on every 4096 arrivals."""
    mix, read_at = Mix(), []
    for arrival in range(1, 17_000):
        version = mix.version
        mix.arrive(share())
        if mix.version != version:
            read_at.append(arrival)
    assert read_at == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384]


def test_many_at_once_are_one_reading() -> None:
    mix = Mix()
    mix.arrive(share(), 1000)
    assert mix.version == 1


def test_a_learnt_mix_is_not_used_before_16_arrivals() -> None:
    mix = Mix()
    mix.arrive(share(), 15)
    assert not mix.is_ready
    mix.arrive(share())
    assert mix.is_ready


def test_a_known_mix_is_used_at_once_and_stays_as_it_is() -> None:
    mix = known(share(300))
    before = mix.dump()
    assert mix.is_ready
    mix.arrive(share(200), 1000)
    mix.fade(1e9, HALF_LIFE_S)
    assert mix.dump() == before


def test_nothing_known_is_no_mix() -> None:
    assert not Mix(learns=False).is_ready


def test_counts_halve_in_a_half_life() -> None:
    """What arrives later counts for more."""
    mix = Mix()
    mix.arrive(share(300), 8)
    mix.fade(HALF_LIFE_S, HALF_LIFE_S)
    mix.arrive(share(200), 8)
    mix.fade(2 * HALF_LIFE_S, HALF_LIFE_S)
    assert mix.counts.tolist() == pytest.approx([2.0, 4.0])


def test_time_does_not_run_backwards() -> None:
    mix = Mix()
    mix.arrive(share())
    mix.fade(100.0, HALF_LIFE_S)
    before = mix.dump()
    mix.fade(50.0, HALF_LIFE_S)
    assert mix.dump() == before


def test_what_has_faded_away_is_dropped() -> None:
    """After a very long pause nothing is left but what comes then."""
    mix = Mix()
    mix.arrive(share(300), 1000)
    mix.fade(1e6 * HALF_LIFE_S, HALF_LIFE_S)
    mix.arrive(share(200))
    assert [kind.milli for kind in mix.types] == [200]
    assert mix.counts.tolist() == [1.0]


def test_fading_in_small_steps_is_fading_in_one() -> None:
    mix, other = Mix(), Mix()
    for each in (mix, other):
        each.arrive(share(), 1 << 20)
    for step in range(1, 401):
        mix.fade(5.0 * step, HALF_LIFE_S)
    other.fade(2000.0, HALF_LIFE_S)
    assert mix.counts.tolist() == pytest.approx(other.counts.tolist())


def test_a_mix_outlives_a_restart() -> None:
    """What is loaded is what was dumped, and the next reading comes when it would have come."""
    mix, restarted = Mix(), Mix()
    mix.arrive(share(300), 100)
    mix.fade(30.0, HALF_LIFE_S)
    restarted.load(mix.dump())
    assert restarted.dump() == mix.dump()
    version = restarted.version
    restarted.arrive(share(), 27)
    assert restarted.version == version
    restarted.arrive(share())
    assert restarted.version == version + 1


def test_loading_is_a_new_reading() -> None:
    mix = Mix()
    mix.load(Memory())
    assert mix.version == 1
    assert not mix.is_ready


def test_a_copy_goes_its_own_way() -> None:
    mix = Mix()
    mix.arrive(share(300), 12)
    twin = mix.copy()
    twin.arrive(share(200), 10)
    twin.fade(50.0, HALF_LIFE_S)
    assert mix.types == [task_type(share(300))]
    assert mix.counts.tolist() == [12.0]
    assert (mix.version, twin.version) == (0, 1)

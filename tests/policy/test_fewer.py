"""Fewer tasks: how an ask is reduced, and that the largest size that can be had is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.queues import EvictionRules, Queue, Quota
from mooring.policy.fewer import largest, reduced, spare
from mooring.policy.placing.ask import Ask, compile_ask
from mooring.policy.placing.search import place
from tests.build import World, cluster, gang, group, picture, workload

if TYPE_CHECKING:
    from mooring.model.workload import PodGroup, Workload


def partial(of: PodGroup, least: int) -> PodGroup:
    """Return a group that can do with fewer tasks."""
    return replace(of, partial=least)


def ask_for(*groups: PodGroup) -> Ask:
    """Return the ask of a workload in a cluster of two racks."""
    world = cluster("rack-1: a=8 b=8 | rack-2: c=8")
    world.cycle()
    return compile_ask(world.engine.books, workload("w", *groups))


def counts(ask: Ask) -> list[int]:
    """Return how many tasks each leaf asks for."""
    assert [leaf.count for leaf in ask.leaves] == [leaf.count for leaf in ask.root.leaves()]
    return [leaf.count for leaf in ask.leaves]


def steps(ask: Ask) -> list[list[int]]:
    """Return the counts of all reductions, from all to the least."""
    total = spare(ask)
    return [counts(reduced(ask, step, total)) for step in range(total + 1)] if total else []


# -- how it is reduced --------------------------------------------------------------------------


def test_one_group_gives_up_task_by_task() -> None:
    ask = ask_for(partial(group("g", tasks=5), 2))

    assert steps(ask) == [[5], [4], [3], [2]]


def test_what_is_all_or_nothing_is_not_reduced() -> None:
    assert spare(ask_for(group("g", tasks=5))) == 0
    assert spare(ask_for(partial(group("g", tasks=5), 5))) == 0


def test_several_groups_give_up_the_same_fraction_of_what_they_can_spare() -> None:
    ask = ask_for(
        group("leader"), partial(group("many", tasks=9), 1), partial(group("few", tasks=4), 2)
    )

    found = steps(ask)
    assert found[0] == [1, 9, 4]
    assert found[5] == [1, 5, 3]
    assert found[-1] == [1, 1, 2]
    for _, many, few in found:
        assert abs((9 - many) / 8 - (4 - few) / 2) <= 1 / 2


def test_slices_are_given_up_whole() -> None:
    ask = ask_for(partial(group("g", tasks=12, slices=[("node", 4)]), 3))

    assert {count for (count,) in steps(ask)} == {12, 8, 4}


def test_the_least_is_a_whole_number_of_slices_too() -> None:
    """Five will do, so eight are the least of slices of four."""
    ask = ask_for(partial(group("g", tasks=12, slices=[("node", 4)]), 5))

    assert {count for (count,) in steps(ask)} == {12, 8}


@given(st.integers(2, 200), st.data())
def test_the_largest_that_will_do_is_found_in_few_attempts(most: int, data: st.DataObject) -> None:
    """By halves: as many attempts as the number has digits."""
    least = data.draw(st.integers(1, most - 1))
    fits = data.draw(st.integers(0, most - 1))
    ask = ask_for(partial(group("g", tasks=most), least))
    tried: list[int] = []

    def attempt(fewer: Ask) -> int | None:
        tried.append(fewer.root.count)
        return fewer.root.count if fewer.root.count <= fits else None

    assert largest(ask, attempt) == (fits if fits >= least else None)
    assert len(tried) <= (most - least).bit_length()
    assert len(set(tried)) == len(tried)


# -- what the engine makes of it ----------------------------------------------------------------


@st.composite
def moments(draw: st.DrawFn) -> tuple[World, Workload]:
    """Draw a cluster in use, a queue with a limit, and a workload that can do with fewer."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    half = len(sizes) // 2
    text = " | ".join(
        f"rack-{i}: " + " ".join(f"n{i}{j}={n}" for j, n in enumerate(part))
        for i, part in enumerate((sizes[:half], sizes[half:]))
        if part
    )
    limit = draw(st.integers(0, 12))
    topology, nodes = picture(text)
    quota = Quota("gpu", "H100", 1000 * limit, 1000 * limit)
    limited = Queue("q", quotas=(quota,), eviction=EvictionRules(reclaim="never"))
    world = World(Engine(topology, queues=(limited, Queue("default")))).join(*nodes)
    for each in nodes:
        busy = draw(st.integers(0, len(each.devices)))
        world.busy(f"{each.name}={busy}") if busy else None
    main = group(
        "main",
        tasks=draw(st.integers(2, 10)),
        gpus=draw(st.integers(1, 2)),
        level=draw(st.sampled_from(["", "rack", "node"])),
    )
    groups = [partial(main, draw(st.integers(1, main.min)))]
    if draw(st.booleans()):
        other = group("other", tasks=draw(st.integers(1, 4)))
        groups.append(partial(other, draw(st.integers(1, other.min))))
    return world, replace(workload("w", *groups), queue="q", preemptible=False)


@given(moments())
def test_it_starts_with_as_many_as_can_be_had(moment: tuple[World, Workload]) -> None:
    """The twin tries every size, largest first, in the same books."""
    world, asked = moment
    world.cycle()
    engine = world.engine.fork()
    expected = brute_force(engine, asked)

    world.submit(asked).cycle()

    entry = world.engine.entries()["w"]
    found = [len(members.staying()) for members in entry.members.values()]
    assert found == (expected or [0] * len(found))
    assert not entry.is_incomplete or not entry.has_begun
    world.settles()


def brute_force(engine: Engine, asked: Workload) -> list[int] | None:
    """Return the counts of the largest size that has quota and a place; None: there is none."""
    desk, books = engine.desk, engine.books
    ask = compile_ask(books, asked)
    total = spare(ask)
    limit = desk.tree.limit[books.queue("q")][0]
    for step in range(total + 1):
        fewer = reduced(ask, step, total) if total else ask
        devices = sum(leaf.count * leaf.demand.shape.gpus for leaf in fewer.leaves if leaf.demand)
        desk.placer.aim()
        mark = books.checkpoint()
        seats = place(desk.placer, fewer, books.queue("q") << 1)
        books.rollback(mark)
        if seats is not None and 1000 * devices <= limit:
            return counts(fewer)
    return None


@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
def test_a_running_part_is_complete(tasks: int) -> None:
    """Found running with fewer than its minimum, but no fewer than will do: nothing is missing."""
    asked = gang("g", tasks=4)
    asked = replace(asked, groups=(partial(asked.groups[0], 2),))
    world = cluster("a=8").adopt(asked, {"a": [1 << i for i in range(tasks)]})
    plan = world.cycle()

    entry = world.engine.entries()["g"]
    assert not entry.is_incomplete
    assert len(entry.members["main"].staying()) == (4 if tasks == 1 else tasks)
    assert bool(plan.decisions) is (tasks == 1)  # half a gang, which is completed
    world.confirm(plan).settles()

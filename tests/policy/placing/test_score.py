"""Scores by name: their formulas on small clusters, and what holds for all of them."""

from __future__ import annotations

from math import exp, trunc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mooring.model.books import Books
from mooring.model.cluster import Device, Node
from mooring.model.memory import Memory
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.topology import Topology
from mooring.model.workload import Shape
from mooring.policy.placing.mix import Mix, task_type
from mooring.policy.placing.score import SCORES, Plain, Score, weighted

if TYPE_CHECKING:
    from mooring.model.columns import Floats, Ints


def cluster(*nodes: tuple[str, int, int]) -> Books:
    """Return books of nodes a, b, … given as (model, devices, CPU); 1 GiB of memory a core."""
    books = Books(Topology())
    books.set_nodes(
        Node(
            chr(ord("a") + index),
            amounts({CPU: cpu, MEMORY: cpu}),
            gpu_model=model,
            devices=(Device(),) * devices,
        )
        for index, (model, devices, cpu) in enumerate(nodes)
    )
    return books


def ask(gpus: int = 0, milli: int = 1000, cpu: int = 1000, models: tuple[str, ...] = ()) -> Shape:
    return Shape(amounts({CPU: cpu, MEMORY: cpu}), gpus=gpus, milli=milli, gpu_models=models)


def known(*counted: tuple[Shape, int]) -> Mix:
    mix = Mix(learns=False)
    kinds = [(task_type(shape), float(count)) for shape, count in counted]
    mix.load(Memory(mix=tuple((kind, count) for kind, count in kinds if kind is not None)))
    return mix


MIX = (
    (ask(1, 300), 6),
    (ask(1, 1000, 4000), 5),
    (ask(2, 1000, 8000, ("A",)), 3),
    (ask(cpu=2000), 4),
)


def put(books: Books, shape: Shape, row: int, *devices: int) -> None:
    mask = sum(1 << device for device in devices)
    books.take(books.demand(shape), (row,), (mask,), books.queue("q"))


def scored(name: str, books: Books, shape: Shape) -> list[float]:
    """Return raw value less price on every row."""
    score = SCORES[name](known(*MIX))
    score.before(books, shape)
    raw = score.raw(books, shape, np.arange(books.count))
    prices = score.prices(books, shape)
    return list((raw if prices is None else raw - prices).tolist())


def devices(name: str, books: Books, shape: Shape, row: int = 0) -> int:
    score = SCORES[name](known(*MIX))
    score.before(books, shape)
    return score.devices(books, shape, row)


def busy() -> Books:
    """Return a cluster on which every kind of task runs somewhere."""
    books = cluster(("A", 4, 32_000), ("B", 2, 16_000), ("A", 4, 32_000), ("", 0, 64_000))
    put(books, ask(1, 300), 0, 0)
    put(books, ask(1, 500), 0, 1)
    put(books, ask(1), 1, 1)
    put(books, ask(cpu=3000), 1)
    return books


# -- all of them -------------------------------------------------------------------------------

SHAPES = {
    "no device": ask(),
    "a share": ask(1, 250),
    "one device": ask(1),
    "two devices": ask(2),
    "two shares": ask(2, 400),
    "one of a model": ask(1, models=("B",)),
}
SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
NAME = pytest.mark.parametrize("name", SCORES)


@NAME
@SHAPE
def test_a_value_depends_on_its_row_only(name: str, shape: Shape) -> None:
    """One row scored alone, or among others, gives the same number: it may be remembered."""
    books = busy()
    score = SCORES[name](known(*MIX))
    score.before(books, shape)
    together = score.raw(books, shape, np.arange(books.count))
    alone = [score.raw(books, shape, np.array([row]))[0] for row in range(books.count)]
    assert together.tolist() == alone
    assert np.isfinite(together).all()


@NAME
@SHAPE
def test_devices_are_free_and_as_many_as_asked(name: str, shape: Shape) -> None:
    books = busy()
    row = 1 if shape.gpu_models else 2
    mask = devices(name, books, shape, row)
    assert mask.bit_count() == shape.gpus
    put(books, shape, row, *(device for device in range(4) if mask >> device & 1))
    assert books.share.min() >= 0


@NAME
def test_many_rows_are_as_good_as_few(name: str) -> None:
    """Large clusters are scored in blocks, which does not show."""
    books = cluster(*[("A", 2, 16_000), ("B", 4, 8000)] * 1100)
    shape = ask(1, 300)
    score = SCORES[name](known(*MIX))
    score.before(books, shape)
    values = score.raw(books, shape, np.arange(books.count))
    rows = np.array([0, 1, 2, books.count - 1])
    assert values[rows].tolist() == score.raw(books, shape, rows).tolist()


@NAME
@SHAPE
def test_a_cluster_without_devices_can_be_scored(name: str, shape: Shape) -> None:
    assert len(scored(name, cluster(("", 0, 4000), ("", 0, 8000)), shape)) == 2
    assert scored(name, cluster(), shape) == []


@NAME
def test_held_and_broken_devices_count_as_full(name: str) -> None:
    """Open room may be less than nothing; a score must not stumble over it."""
    books = cluster(("A", 2, 16_000), ("A", 2, 16_000))
    put(books, ask(1, 600), 0, 0)
    broken = Node(
        "a",
        amounts({CPU: 500, MEMORY: 500}),
        gpu_model="A",
        devices=(Device(healthy=False), Device()),
    )
    books.set_nodes([broken])
    assert books.share[0, 0] < 0
    assert np.isfinite(scored(name, books, ask(1, 300))).all()


@NAME
def test_new_facts_make_values_stale(name: str) -> None:
    books = busy()
    score = SCORES[name](known(*MIX))
    score.before(books, ask(1))
    version = score.version
    score.before(books, ask(1))
    assert score.version == version
    books.set_nodes([books.nodes[0]])
    score.before(books, ask(1))
    assert score.version != version


@pytest.mark.parametrize("name", ["fgd", "potential"])
def test_a_copy_learns_from_the_mix_of_its_fork(name: str) -> None:
    """What arrives in a fork changes neither the values nor the version of the original."""
    books, mix = busy(), Mix()
    mix.arrive(ask(1, 300), 100)
    score = SCORES[name](mix)
    score.before(books, ask(1, 300))
    version, values = score.version, score.raw(books, ask(1, 300), np.arange(4)).tolist()

    forked = mix.copy()
    twin = score.copy(forked)
    assert twin.raw(books, ask(1, 300), np.arange(4)).tolist() == values
    forked.arrive(ask(1, 700), 1000)
    for each in (twin, score):
        each.before(books, ask(1, 300))
    assert twin.version != version
    assert score.version == version
    assert score.raw(books, ask(1, 300), np.arange(4)).tolist() == values


# -- one by one --------------------------------------------------------------------------------


def test_first_fit_has_no_preference() -> None:
    assert scored("first-fit", busy(), ask(1)) == [0.0] * 4


def test_best_fit_leaves_least() -> None:
    """Whole percent of the biggest node: half for CPU, half for devices."""
    books = cluster(("A", 2, 20_000), ("A", 4, 40_000))
    assert scored("best-fit", books, ask(1, 500, 4000)) == [
        trunc(100 * (1 - 0.5 * 16 / 40 - 0.5 * 1500 / 4000)),
        trunc(100 * (1 - 0.5 * 36 / 40 - 0.5 * 3500 / 4000)),
    ]


def test_dot_prod_looks_in_the_direction_of_the_request() -> None:
    books = cluster(("A", 2, 20_000), ("A", 4, 40_000))
    assert scored("dot-prod", books, ask(2, cpu=4000)) == [
        trunc(100 * (1 - (20 / 40 * 4 / 40 + 2 / 4 * 2 / 4) / 2)),
        trunc(100 * (1 - (1 * 4 / 40 + 1 * 2 / 4) / 2)),
    ]


def test_gpu_packing_opens_devices_before_nodes() -> None:
    """A used device, then a free device of a used node, then the node with the most devices."""
    books = cluster(("A", 4, 32_000), ("A", 4, 32_000), ("A", 4, 32_000), ("A", 1, 8000))
    put(books, ask(1, 700), 0, 0)
    put(books, ask(1), 1, 0)
    assert scored("gpu-packing", books, ask(1, 200)) == [97.0, 49.0, 29.0, 32.0]
    assert scored("gpu-packing", books, ask(2)) == [48.0, 48.0, 29.0, 32.0]
    assert scored("gpu-packing", books, ask()) == [0.0] * 4


def test_gpu_clustering_keeps_like_with_like() -> None:
    """Only its like, its like among others, nobody, others only: 75, 50, 25, 0 and the fill."""
    books = cluster(*[("A", 4, 32_000)] * 4)
    put(books, ask(1), 0, 0)
    put(books, ask(1), 1, 0)
    put(books, ask(1, 500), 1, 1)
    put(books, ask(cpu=500), 2)
    put(books, ask(1, 500), 3, 0)
    assert scored("gpu-clustering", books, ask(1)) == [75.0 + 6, 50.0 + 9, 25.0, 0.0 + 3]
    assert scored("gpu-clustering", books, ask()) == [0.0] * 4


def test_binpack_and_spread_are_opposites() -> None:
    books = cluster(("A", 4, 32_000), ("A", 2, 8000))
    put(books, ask(1, 500, 4000), 0, 0)
    assert scored("binpack", books, ask(1)) == [0.125, 0.0]
    assert scored("spread", books, ask(1)) == [-0.125, 0.0]
    put(books, ask(cpu=4000), 1)
    assert scored("binpack", books, ask()) == [0.125, 0.5]


def test_shares_take_the_tightest_device() -> None:
    """The lowest index of equals; whole devices from the lowest."""
    books = cluster(("A", 4, 32_000))
    put(books, ask(1, 400), 0, 1)
    put(books, ask(1, 400), 0, 2)
    assert devices("best-fit", books, ask(1, 500)) == 0b0010
    assert devices("best-fit", books, ask(1, 700)) == 0b0001
    assert devices("best-fit", books, ask(2, 500)) == 0b0110
    assert devices("best-fit", books, ask(2)) == 0b1001


# -- FGD ---------------------------------------------------------------------------------------


def fragments(model: str, cpu: int, free: list[int]) -> float:
    """Return F of a node by the definition, type by type."""
    total = 0.0
    for shape, count in MIX:
        (_, wanted), *_ = shape.amounts
        admitted = not shape.gpu_models or model in shape.gpu_models
        enough = sum(r >= shape.milli for r in free) >= shape.gpus
        usable = shape.gpus and admitted and enough and cpu >= wanted
        total += count * sum(r for r in free if not usable or r < shape.milli)
    return total / sum(count for _, count in MIX)


@pytest.mark.parametrize("milli", [200, 300, 500])
def test_fgd_is_its_definition(milli: int) -> None:
    """The best device by the growth of fragments, cut to whole numbers."""
    books = busy()
    shape = ask(1, milli, 2000)
    for row, value in enumerate(scored("fgd", books, shape)[:3]):
        cpu, model = int(books.open[0, row]), books.flavors[books.flavor[row]]
        free = books.share[: books.devices[row], row].tolist()
        grades = []
        for device in [d for d, r in enumerate(free) if r >= milli]:
            after = [r - milli * (d == device) for d, r in enumerate(free)]
            gain = fragments(model, cpu, free) - fragments(model, cpu - 2000, after)
            grades.append(trunc(100 / (1 + exp(-gain / 1000))))
        assert value == max(grades)


def test_fgd_takes_types_until_95_percent() -> None:
    """A rare type beyond them does not count."""
    books = cluster(("A", 2, 16_000))
    rare = ask(1, 600, 9000)
    with_it, without = known((ask(1, 300), 95), (rare, 5)), known((ask(1, 300), 95))
    values = []
    for mix in (with_it, without):
        score = SCORES["fgd"](mix)
        score.before(books, rare)
        values.append(score.raw(books, rare, np.array([0])).tolist())
    assert values[0] == values[1]


def test_fgd_is_first_fit_until_the_mix_is_known() -> None:
    books = cluster(("A", 2, 16_000), ("B", 1, 8000))
    score = SCORES["fgd"](Mix())
    score.before(books, ask(1, 300))
    assert score.raw(books, ask(1, 300), np.arange(2)).tolist() == [50.0, 50.0]


# -- composition -------------------------------------------------------------------------------


def row_number(books: Books, shape: Shape, rows: Ints) -> Floats:
    return rows.astype(np.float64)


def test_scores_add_up_with_their_weights() -> None:
    books = cluster(("A", 4, 32_000), ("A", 2, 8000))
    put(books, ask(1, 500, 4000), 0, 0)
    shape = ask(1)
    both = weighted((2.0, SCORES["binpack"](Mix())), (1.0, Plain(row_number)))
    both.before(books, shape)
    assert both.raw(books, shape, np.arange(2)).tolist() == [0.25, 1.0]
    assert both.prices(books, shape) is None
    assert both.devices(books, shape, 0) == 0b0010


def test_a_sum_changes_when_a_part_does() -> None:
    """Prices and versions of the parts come through, in a copy too."""
    books, mix = cluster(*[("A", 8, 64_000)] * 2), Mix()
    shape = ask(8, cpu=8000)
    both: Score = weighted((0.5, SCORES["potential"](mix)), (1.0, SCORES["first-fit"](mix)))
    both.before(books, shape)
    version, price_version = both.version, both.price_version
    mix.arrive(shape, 64)
    twin = both.copy(mix)
    both.before(books, shape)
    assert both.version > version
    assert both.price_version > price_version
    prices = both.prices(books, shape)
    assert prices is not None
    assert prices.tolist() == [prices[0]] * 2
    assert prices[0] > 0
    assert twin.version == version

"""The potential: against its formula, its prices, and what it does for a cluster."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from mooring.model.books import Books
from mooring.model.cluster import Device, Node
from mooring.model.memory import Memory
from mooring.model.resources import CPU, MEMORY, amount_of, amounts
from mooring.model.topology import Topology
from mooring.model.workload import Shape
from mooring.policy.placing.mix import Mix, task_type
from mooring.policy.placing.potential import GRAIN, PRICE_PERIOD, Potential, gap_values

Counted = tuple[tuple[Shape, int], ...]


def cluster(*nodes: tuple[str, int, int, int]) -> Books:
    """Return books of nodes a, b, … given as (model, devices, CPU, memory)."""
    books = Books(Topology())
    books.set_nodes(
        Node(
            chr(ord("a") + index),
            amounts({CPU: cpu, MEMORY: memory}),
            gpu_model=model,
            devices=(Device(),) * devices,
        )
        for index, (model, devices, cpu, memory) in enumerate(nodes)
    )
    return books


def ask(gpus: int, milli: int = 1000, cpu: int = 1000, models: tuple[str, ...] = ()) -> Shape:
    return Shape(amounts({CPU: cpu, MEMORY: 4 * cpu}), gpus=gpus, milli=milli, gpu_models=models)


def known(counted: Counted) -> Mix:
    mix = Mix(learns=False)
    kinds = [(task_type(shape), float(count)) for shape, count in counted]
    mix.load(Memory(mix=tuple((kind, count) for kind, count in kinds if kind is not None)))
    return mix


def put(books: Books, shape: Shape, row: int, *devices: int) -> None:
    mask = sum(1 << device for device in devices)
    books.take(books.demand(shape), (row,), (mask,), books.queue("q"))


def ready(mix: Mix, books: Books) -> Potential:
    score = Potential(mix)
    score.before(books, ask(1))
    return score


def raw(score: Potential, books: Books, shape: Shape) -> list[float]:
    return list(score.raw(books, shape, np.arange(books.count)).tolist())


def prices(score: Potential, books: Books, shape: Shape) -> list[float]:
    found = score.prices(books, shape)
    return [0.0] * books.count if found is None else found.tolist()


# -- what a gap is worth -----------------------------------------------------------------------


def test_without_shares_only_a_whole_device_is_worth_anything() -> None:
    values = gap_values([])
    assert values[1000] == 1.0
    assert not values[:1000].any()


def test_a_gap_is_worth_the_shares_that_it_takes() -> None:
    """Three shares of 320 fill a device as well as may be: each is a third of it."""
    values = gap_values([(320, 10.0)])
    assert values[[0, 310, 320, 630, 640, 960]] == pytest.approx([0, 0, 1 / 3, 1 / 3, 2 / 3, 1])


def test_shares_that_complete_each_other_are_worth_a_device_together() -> None:
    """Of two sizes the one that abounds sets the price, the other gets what is left."""
    values = gap_values([(700, 10.0), (300, 100.0)])
    assert values[300] == pytest.approx(1 / 3)
    assert values[700] == pytest.approx(2 / 3)
    values = gap_values([(700, 100.0), (300, 10.0)])
    assert values[700] == pytest.approx(1.0)
    assert values[300] == pytest.approx(0.0)


def test_sizes_off_the_grid_are_rounded_up() -> None:
    assert gap_values([(335, 1.0)])[[339, 340, 669, 680]] == pytest.approx([0, 0.5, 0.5, 1])


@pytest.mark.parametrize("seed", range(20))
def test_the_values_are_optimal_duals(seed: int) -> None:
    """No pattern is worth more than a device, and together the shares are worth what they need.

    The second by weak duality: a packing of whole patterns needs at least that many devices, and
    first fit decreasing, run on many copies, not much more.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.choice(np.arange(5, 100), 8, replace=False) * 10
    counts = rng.integers(1, 50, 8)
    values = gap_values(zip(sizes.tolist(), counts.astype(float).tolist(), strict=True))
    assert (np.diff(values) >= -1e-9).all()
    assert (values + values[::-1] <= 1 + 1e-9).all()
    worth = float(values[sizes] @ counts)
    free: list[int] = []
    for size in sorted(np.repeat(sizes, counts).tolist(), reverse=True):
        fitting = [index for index, room in enumerate(free) if room >= size]
        if fitting:
            free[fitting[0]] -= size
        else:
            free.append(1000 - size)
    assert worth <= len(free) + 1e-6
    assert worth >= 9 / 11 * (len(free) - 1)


# -- the formula -------------------------------------------------------------------------------

MIX: Counted = (
    (ask(1, 300, 2000), 20),
    (ask(1, 470, 4000), 30),
    (ask(1, 1000, 8000), 25),
    (ask(1, 1000, 9000, ("B",)), 5),
    (ask(4, 1000, 16_000), 3),
    (ask(0, cpu=4000), 10),
)


class Textbook:
    """The potential of one node, written as in the formula."""

    def __init__(self, counted: Counted, model: str) -> None:
        self.all = [(shape, n) for shape, n in counted if shape.gpus]
        self.here = [(s, n) for s, n in self.all if not s.gpu_models or model in s.gpu_models]
        self.demand = sum(n * s.gpus * s.milli for s, n in self.all)
        self.value = gap_values((s.milli, n * s.gpus) for s, n in self.all)

    def kappa(self, name: str) -> float:
        return 1.05 * sum(n * amount_of(s.amounts, name) for s, n in self.all) / self.demand

    def part(self, wants: list[bool]) -> float:
        counts = [n for _, n in self.here]
        return sum(n for n, want in zip(counts, wants, strict=True) if want) / sum(counts)

    def narrow(self, free: int) -> float:
        return free * self.part([s.milli > free for s, _ in self.here])

    def potential(self, cpu: int, memory: int, free: list[int]) -> float:
        total = sum(free)
        short = max(
            self.part([amount_of(s.amounts, CPU) > cpu for s, _ in self.here]),
            self.part([amount_of(s.amounts, MEMORY) > memory for s, _ in self.here]),
        )
        packing = sum(r - 1000 * float(self.value[r]) for r in free)
        room = short * total + (1 - short) * sum(self.narrow(r) for r in free)
        unserved = 1 + exp((total - cpu / self.kappa(CPU)) / 1000)
        unserved += exp((total - memory / self.kappa(MEMORY)) / 1000)
        return 2 * packing + 0.2 * room + 1000 * log(unserved)


def successors(free: list[int], shape: Shape) -> list[list[int]]:
    """Return the states that placing one task may lead to."""
    if not shape.gpus:
        return [free]
    if shape.milli == 1000:
        whole = [d for d, r in enumerate(free) if r == 1000][: shape.gpus]
        return [[0 if d in whole else r for d, r in enumerate(free)]]
    fitting = [d for d, r in enumerate(free) if r >= shape.milli]
    return [[r - shape.milli * (d == taken) for d, r in enumerate(free)] for taken in fitting]


def worn(seed: int) -> Books:
    """Return a cluster with tasks here and there, and room for every shape on every row."""
    rng = np.random.default_rng(seed)
    books = cluster(("A", 8, 96_000, 400_000), ("B", 6, 64_000, 200_000), ("A", 7, 90_000, 250_000))
    for row in range(3):
        for device in range(int(rng.integers(0, 2 + row))):
            milli = int(rng.choice([300, 470, 500, 1000]))
            put(books, ask(1, milli, int(rng.integers(1, 20)) * 500), row, device)
    return books


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [shape for shape, _ in MIX], ids=lambda s: f"{s.gpus}×{s.milli}")
def test_a_score_is_the_fall_of_the_potential(seed: int, shape: Shape) -> None:
    books = worn(seed)
    score = ready(known(MIX), books)
    cpu, memory = (amount_of(shape.amounts, name) for name in (CPU, MEMORY))
    for row, value in enumerate(raw(score, books, shape)):
        book = Textbook(MIX, books.nodes[row].gpu_model)
        free = books.share[: books.devices[row], row].tolist()
        c, m = int(books.open[0, row]), int(books.open[1, row])
        falls = [
            book.potential(c, m, free) - book.potential(c - cpu, m - memory, after)
            for after in successors(free, shape)
        ]
        assert value == pytest.approx(max(falls), abs=1e-5)


def test_several_shares_take_the_best_devices_one_each() -> None:
    books = cluster(("A", 3, 90_000, 900_000))
    put(books, ask(1, 530, 100), 0, 1)
    put(books, ask(1, 300, 100), 0, 2)
    two = ask(2, 470, 2000)
    score = ready(known(MIX), books)
    book = Textbook(MIX, "A")
    c, m = int(books.open[0, 0]), int(books.open[1, 0])
    falls = {
        0b011: book.potential(c - 2000, m - 8000, [530, 0, 700]),
        0b101: book.potential(c - 2000, m - 8000, [530, 470, 230]),
        0b110: book.potential(c - 2000, m - 8000, [1000, 0, 230]),
    }
    best = min(falls, key=lambda mask: falls[mask])
    assert score.devices(books, two, 0) == best
    expected = book.potential(c, m, [1000, 470, 700]) - falls[best]
    assert raw(score, books, two) == pytest.approx([expected], abs=1e-5)


def test_scores_and_prices_are_whole_grains() -> None:
    """So that equal scores stay equal when equal prices are subtracted."""
    books = worn(1)
    score = ready(known(MIX), books)
    shape = ask(1, 470, 4000)
    values = np.array(raw(score, books, shape)) / GRAIN
    charges = np.array(prices(score, books, shape)) / GRAIN
    assert values.tolist() == np.rint(values).tolist()
    assert charges.tolist() == np.rint(charges).tolist()
    assert charges.any()


# -- what it does ------------------------------------------------------------------------------


def test_a_share_closes_a_gap_rather_than_open_a_device() -> None:
    books = cluster(("A", 2, 32_000, 200_000), ("A", 2, 32_000, 200_000))
    put(books, ask(1, 530), 1, 1)
    score = ready(known(MIX), books)
    untouched, gap = raw(score, books, ask(1, 470))
    assert gap > untouched
    assert score.devices(books, ask(1, 470), 1) == 0b10


def test_whole_devices_are_the_lowest() -> None:
    books = cluster(("A", 4, 32_000, 200_000))
    put(books, ask(1, 300), 0, 1)
    assert ready(known(MIX), books).devices(books, ask(2), 0) == 0b101


def test_cpu_goes_where_no_device_will_miss_it() -> None:
    """A node without devices has nothing to lose, one with all of them taken next to nothing."""
    books = cluster(("A", 4, 32_000, 200_000), ("A", 4, 32_000, 200_000), ("", 0, 8000, 32_000))
    put(books, ask(4, cpu=4000), 1, 0, 1, 2, 3)
    free, taken, bare = raw(ready(known(MIX), books), books, ask(0, cpu=4000))
    assert bare == 0.0
    assert free < taken <= bare


def test_at_first_only_the_balance_of_the_cluster_counts() -> None:
    """Before 16 arrivals: the log term, with as much CPU and memory per device as there is.

    And untouched nodes are dear, since any of them may be needed whole.
    """
    books = cluster(("A", 4, 32_000, 200_000), ("B", 2, 32_000, 100_000))
    mix = Mix()
    mix.arrive(ask(1, 300), 15)
    score = ready(mix, books)
    kappa, kappa_m = 64_000 / 6000, 300_000 / 6000

    def balance(total: int, cpu: int, memory: int) -> float:
        x, y = (total - cpu / kappa) / 1000, (total - memory / kappa_m) / 1000
        return 1000 * log(1 + exp(x) + exp(y))

    expected = [
        balance(4000, 32_000, 200_000) - balance(3700, 30_000, 192_000),
        balance(2000, 32_000, 100_000) - balance(1700, 30_000, 92_000),
    ]
    assert raw(score, books, ask(1, 300, 2000)) == pytest.approx(expected, abs=1e-5)
    prices = score.prices(books, ask(1, 300))
    assert prices is not None
    assert prices.tolist() == [4000.0, 4000.0]

    version = score.version
    mix.arrive(ask(1, 300))
    score.before(books, ask(1, 300))
    assert score.version == version + 1
    assert raw(score, books, ask(1, 300, 2000)) != pytest.approx(expected, abs=1)


def test_a_mix_without_devices_says_nothing() -> None:
    books = cluster(("A", 4, 32_000, 200_000))
    cpu_only = ready(known(((ask(0), 10),)), books)
    nothing = ready(Mix(), books)
    assert raw(cpu_only, books, ask(1, 300)) == raw(nothing, books, ask(1, 300))


def test_resources_that_nobody_asks_for_are_never_short() -> None:
    books = cluster(("A", 4, 32_000, 0))
    score = ready(known(((Shape(gpus=1), 10),)), books)
    assert np.isfinite(raw(score, books, Shape(gpus=1))).all()
    assert np.isfinite(raw(score, books, ask(1, cpu=10**9))).all()


def test_a_model_that_no_type_admits_is_room_that_none_can_use() -> None:
    books = cluster(("A", 2, 32_000, 200_000), ("B", 2, 32_000, 200_000))
    score = ready(known(((ask(1, 500, 1000, ("A",)), 10),)), books)
    a, b = raw(score, books, ask(1, 500))
    assert b > a


# -- prices ------------------------------------------------------------------------------------


def test_a_model_that_is_asked_for_by_name_is_dear() -> None:
    """π = 2 · min(1, Σ ρ·F/(F_s + 1))², for each thousandth."""
    books = cluster(*[("A", 4, 64_000, 400_000)] * 3, ("B", 4, 64_000, 400_000))
    mix = known(((ask(1, 1000), 9), (ask(1, 1000, 1000, ("B",)), 1)))
    score = ready(mix, books)
    dear = 2 * (0.1 * 16_000 / 4001) ** 2
    assert prices(score, books, ask(2)) == pytest.approx([0, 0, 0, 2000 * dear], abs=1e-5)
    assert prices(score, books, ask(0)) == [0.0] * 4


def test_a_learnt_mix_supposes_one_task_for_each_model() -> None:
    """A prior of one whole device that is restricted to each single model."""
    books = cluster(("A", 2, 64_000, 400_000), ("B", 2, 64_000, 400_000))
    mix = Mix()
    mix.arrive(ask(1, 1000), 64)
    dear = 2 * (1000 / 64_000 * 4000 / 2001) ** 2
    found = prices(ready(mix, books), books, ask(1))
    assert found == pytest.approx([1000 * dear] * 2, abs=1e-5)


def test_whole_nodes_are_dear_when_they_become_scarce() -> None:
    """ε = 4000 · min(1, τ)⁴ on untouched nodes of the biggest size, and only there."""
    books = cluster(*[("A", 8, 96_000, 800_000)] * 10, ("A", 4, 48_000, 400_000))
    counted = ((ask(1), 98), (ask(8, cpu=8000), 2))
    score = ready(known(counted), books)
    mean = (98 * 1000 + 2 * 8000) / 100
    tau = 0.02 * (84_000 / mean) / 10.001
    found = prices(score, books, ask(1))
    assert found == pytest.approx([4000 * tau**4] * 10 + [0.0], abs=1e-5)


def test_a_node_that_has_been_touched_costs_no_more() -> None:
    """At once, not only when prices are looked at again; even if its devices are all free."""
    books = cluster(*[("A", 8, 96_000, 800_000)] * 3)
    score = ready(known(((ask(1), 50), (ask(8, cpu=8000), 50))), books)
    put(books, ask(0), 1)
    assert [price > 0 for price in prices(score, books, ask(1))] == [True, False, True]


def test_prices_are_looked_at_every_20_tasks() -> None:
    books = cluster(*[("A", 8, 96_000, 800_000)] * 6)
    score = ready(known(((ask(1), 90), (ask(8, cpu=8000), 10))), books)
    seen = [score.price_version]
    for task in range(1, 2 * PRICE_PERIOD + 1):
        put(books, ask(1), task // 8, task % 8)
        score.before(books, ask(1))
        seen.append(score.price_version)
    changed = [task for task in range(1, len(seen)) if seen[task] != seen[task - 1]]
    assert changed == [PRICE_PERIOD, 2 * PRICE_PERIOD]
    assert score.version == 1


def test_prices_that_stay_the_same_are_not_new() -> None:
    books = cluster(*[("A", 8, 96_000, 800_000)] * 2)
    score = ready(known(((ask(1), 1), (ask(8, cpu=8000), 1))), books)
    for _ in range(3 * PRICE_PERIOD):
        score.before(books, ask(1))
    assert score.price_version == 1


def test_nodes_of_one_device_are_not_protected() -> None:
    books = cluster(*[("A", 1, 8000, 40_000)] * 3)
    score = ready(known(((ask(1), 10),)), books)
    assert score.prices(books, ask(1, 300)) is None


def test_a_copy_keeps_its_own_prices() -> None:
    books = cluster(*[("A", 8, 96_000, 800_000)] * 4)
    mix = known(((ask(1), 50), (ask(8, cpu=8000), 50)))
    score = ready(mix, books)
    before = prices(score, books, ask(1))
    twin, forked = score.copy(mix), books.copy()
    for row in range(3):
        put(forked, ask(8), row, *range(8))
    for _ in range(PRICE_PERIOD):
        twin.before(forked, ask(1))
    assert prices(score, books, ask(1)) == before
    assert prices(twin, forked, ask(1)) != before

"""Boards remember what nodes are worth; whatever happens, they pick what a fresh one picks."""

from __future__ import annotations

from random import Random

import pytest

from mooring.model.books import Books
from mooring.model.cluster import Device, Node
from mooring.model.memory import Memory
from mooring.model.resources import CPU, MEMORY, amounts
from mooring.model.topology import Topology
from mooring.model.workload import Shape
from mooring.policy.placing.board import Board
from mooring.policy.placing.devices import choose_devices
from mooring.policy.placing.fit import Fit, Fits
from mooring.policy.placing.mix import Mix, task_type
from mooring.policy.placing.score import SCORES

SHAPES = [
    Shape(amounts({CPU: cpu, MEMORY: cpu}), gpus=gpus, milli=milli, gpu_models=models)
    for gpus, milli, cpu, models in (
        (1, 300, 1000, ()),
        (1, 1000, 2000, ()),
        (2, 1000, 9000, ("A",)),
        (5, 1000, 4000, ()),
    )
]
NOWHERE_NEAR = ("n1", "n4"), ()


def cluster() -> Books:
    books = Books(Topology())
    books.set_nodes(
        Node(
            f"n{index}",
            amounts({CPU: 32_000, MEMORY: 64_000}),
            gpu_model="AB"[index % 2],
            devices=(Device(),) * (4 if index % 3 else 8),
        )
        for index in range(12)
    )
    return books


def mix() -> Mix:
    found = Mix(learns=False)
    types = [(task_type(shape), 3.0) for shape in SHAPES]
    found.load(Memory(mix=tuple((kind, count) for kind, count in types if kind is not None)))
    return found


def expected(board: Board, fit: Fit, rows: slice) -> int:
    """Return what a board picks that knows nothing but the prices of this moment."""
    twin = board.copy(mix())
    return twin.pick(fit, rows)


@pytest.mark.parametrize("name", ["potential", "fgd", "binpack", "spread", "best-fit"])
@pytest.mark.parametrize("seed", range(6))
def test_a_board_picks_what_a_fresh_one_picks_whatever_came_and_left(name: str, seed: int) -> None:
    books, random = cluster(), Random(seed)
    fits, board, account = Fits(books), Board(SCORES[name](mix())), books.queue("q")
    there: list[tuple[Shape, int, int]] = []
    for _ in range(300):
        shape = random.choice(SHAPES)
        demand = books.demand(shape)
        if there and random.random() < 0.48:
            gone, row, mask = there.pop(random.randrange(len(there)))
            books.give(books.demand(gone), (row,), (mask,), account)
            books.commit()
            continue
        without = NOWHERE_NEAR if random.random() < 0.3 else ((), ())
        fit, rows = fits.of(demand, without=without), slice(0, books.count)
        if not fit.total:
            continue
        wanted = expected(board, fit, rows)

        row = board.pick(fit, rows)

        assert row == wanted
        mark = books.checkpoint()
        mask = choose_devices(books, demand, row, "lowest")
        books.take(demand, (row,), (mask,), account)
        if random.random() < 0.2:
            books.rollback(mark)
            continue
        books.commit()
        there.append((shape, row, mask))

"""Lines outlive those who stand in them."""

from __future__ import annotations

from mooring.engine import Engine
from mooring.model.queues import Queue
from tests.build import World, on, picture, task, told


def test_an_empty_line_does_not_remember_what_was_counted_before_nodes_left() -> None:
    """Nothing of A10s is counted any more when the next one asks for what another asked for."""
    topology, (h, a) = picture("h=1 a=1")
    queues = (Queue("q"), Queue("x"))
    world = World(Engine(topology, queues=queues)).join(h, told(a, on("a", model="A10").facts))
    world.run(task("first", 1, queue="q", models=["H100"]), now=0.0)
    world.submit(task("second", 1, queue="q", models=["H100"])).cycle(1.0)
    world.end("second").leave("a").cycle(2.0)

    world.submit(task("third", 1, queue="q", models=["H100"]), task("huge", 8, queue="x"))
    world.cycle(3.0)

    assert world.engine.waiting() == ["third", "huge"]
    assert world.engine.standings(3.0)["q", "H100", "gpu"] == (1000, 1000)

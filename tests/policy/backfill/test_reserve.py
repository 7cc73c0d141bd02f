"""Nodes that are kept for one whose turn has come."""

from __future__ import annotations

from mooring.policy.backfill.reserve import nodes_for
from mooring.policy.placing.ask import compile_ask
from tests.build import cluster, gang


def test_no_node_is_kept_for_one_that_asks_for_nothing() -> None:
    desk = cluster("a=1").engine.desk
    ask = compile_ask(desk.books, gang("empty", tasks=0, most=2))

    assert nodes_for(desk, ask, lambda _: 0.0, ()) == ()

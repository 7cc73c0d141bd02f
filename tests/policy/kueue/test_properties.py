"""What holds in every small world: quota, who may be asked to leave, and that it comes to rest."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.cluster import Node
from mooring.model.columns import INT
from mooring.model.plan import Evict
from mooring.model.topology import Level, Topology, Tree
from mooring.policy.kueue.topology import Domains, Wish, choose, wish_of
from mooring.sim.settle import settle
from tests.policy.kueue.cases import Case

NAMES = "abc"
RECLAIM = ("never", "lower-priority", "any")
WITHIN = ("never", "lower-priority", "lower-or-newer")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw queues in a cohort, with what runs inside all quotas together, and what waits."""
    quotas = [draw(st.integers(0, 4)) for _ in NAMES]
    depth = draw(st.booleans())
    rows = ["root", "co < root" if depth else "co"]
    for name, quota in zip(NAMES, quotas, strict=True):
        parent = draw(st.sampled_from(("co", "root"))) if depth else "co"
        reclaim = draw(st.sampled_from(RECLAIM))
        words = [
            f"{name} < {parent}",
            f"cpu={quota}",
            f"reclaim={reclaim}",
            f"within={draw(st.sampled_from(WITHIN))}",
            f"order={draw(st.sampled_from(('strict', 'best-effort')))}",
        ]
        if reclaim != "never" and draw(st.booleans()):
            words.append("borrowing=lower-priority")
        rows.append(" ".join(words))
    if not depth:
        rows = rows[1:]
    left, running = sum(quotas), []
    for i in range(draw(st.integers(0, 4))):
        cpu = draw(st.integers(1, 3))
        if cpu <= left:
            left -= cpu
            running.append(f"r{i} {_work(draw)} cpu={cpu} since={i}")
    waiting = [f"w{i} {_work(draw)} cpu={draw(st.integers(1, 4))}" for i in range(4)]
    fair = draw(st.sampled_from(("", "", "final-share", "final-share+initial-share")))
    return Case("\n".join(rows), "\n".join(running), "\n".join(waiting), fair=fair)


def _work(draw: st.DrawFn) -> str:
    queue, priority = draw(st.sampled_from(NAMES)), draw(st.integers(0, 2))
    fixed = " fixed" if draw(st.integers(0, 5)) == 0 else ""
    return f"{queue} prio={priority} at={draw(st.integers(0, 3))}{fixed}"


@given(cases())
def test_it_stays_inside_quota_and_asks_only_who_may_be_asked(case: Case) -> None:
    result = settle(case.scenario())
    engine = result.engine
    total = sum(quota.quota or 0 for queue in engine.queues for quota in queue.quotas)
    assert sum(engine.books.charged(queue).get(("default", "cpu"), 0) for queue in NAMES) <= total
    for decision in result.decisions:
        if isinstance(decision, Evict):
            assert engine.entries()[decision.workload].workload.preemptible
            assert decision.beneficiary
    if not case.fair:
        assert result.is_settled
    if result.is_settled:
        for now in range(101, 104):
            assert engine.decide(float(now)).decisions == ()


@given(cases())
def test_the_same_again(case: Case) -> None:
    one, other = case.decide(), case.decide()
    assert one.decisions == other.decisions


# -- topology ---------------------------------------------------------------------------------

BLOCK, RACK, NODE = 1, 2, 3
Room = dict[int, list[int]]
"""By level and domain."""


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Tree, list[int], Wish]:
    """Draw nodes in racks in blocks, how many tasks each takes, and what is asked of them."""
    paths = draw(st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("rs")), min_size=1))
    nodes = [Node(f"n{i:02}", path=path) for i, path in enumerate(paths[:8])]
    tree = Tree(Topology((Level("block"), Level("rack"))), nodes)
    rooms = [draw(st.integers(0, 5)) for _ in nodes]
    slices: tuple[tuple[int, int], ...] = draw(
        st.sampled_from(((), ((RACK, 2),), ((NODE, 2),), ((RACK, 4), (NODE, 2)), ((BLOCK, 3),)))
    )
    size = slices[0][1] if slices else 1
    count = size * draw(st.integers(1, 4))
    level = draw(st.integers(0, slices[0][0] if slices else NODE))
    is_required = draw(st.booleans())
    required, preferred = (level, 0) if is_required else (0, level)
    return tree, rooms, wish_of(count, required, preferred, slices, NODE)


def most_of(tree: Tree, rooms: list[int], slices: tuple[tuple[int, int], ...]) -> Room:
    """Count whole slices per domain, plainly: from the innermost outwards."""
    units, level, inner = np.array(rooms), NODE, 1
    for at, size in reversed(slices):
        units = tree.fold(units, level, at) // (size // inner)
        level, inner = at, size
    return {up: tree.fold(units, level, up).tolist() for up in range(level + 1)}


@given(wishes())
def test_a_place_is_found_exactly_if_there_is_one(drawn: tuple[Tree, list[int], Wish]) -> None:
    tree, rooms, wish = drawn
    found = choose(Domains(tree, np.array(rooms, INT), wish.slices), wish)
    units = most_of(tree, rooms, wish.slices)
    need = wish.count // (wish.slices[0][1] if wish.slices else 1)
    best = max(units[wish.top]) if wish.must else units[0][0]
    assert (found is not None) == (best >= need)
    if found is None:
        return
    assert sum(tasks for _, tasks, _ in found) == wish.count
    assert all(0 < tasks <= rooms[row] for row, tasks, _ in found)
    if wish.must:
        assert len({int(tree.domain[wish.top][row]) for row, _, _ in found}) == 1
    for level, size in wish.slices:
        for domain in range(len(tree.names[level])):
            here = sum(n for row, n, _ in found if tree.domain[level][row] == domain)
            assert here % size == 0


@given(wishes())
def test_a_required_domain_is_the_tightest(drawn: tuple[Tree, list[int], Wish]) -> None:
    tree, rooms, wish = drawn
    found = choose(Domains(tree, np.array(rooms, INT), wish.slices), wish)
    if found is None or not wish.must:
        return
    units = most_of(tree, rooms, wish.slices)[wish.top]
    need = wish.count // (wish.slices[0][1] if wish.slices else 1)
    chosen = units[int(tree.domain[wish.top][found[0][0]])]
    assert chosen == min(each for each in units if each >= need)

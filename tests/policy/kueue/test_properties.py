"""What holds in every small world: quota, who may be asked to leave, and that it comes to rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.model.plan import Evict
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

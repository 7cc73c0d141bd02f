"""Who is next: order inside a queue and between queues, strict and best-effort, gates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.model.events import Adopted, Ended, QueuesChanged
from mooring.model.plan import Blocked, Leaving, NotAllowed, OverQuota, Reason, Stopped
from mooring.model.resources import amounts
from mooring.model.settings import Policy
from mooring.model.workload import Placement, PodGroup, Shape, Workload
from tests.policy.kueue.cases import Case, queues_of

ALONE = "a cpu=10"
PAIR = """
    co
    a < co cpu=6
    b < co cpu=4
"""
SHARED = """
    co cpu=6
    a < co cpu=0
    b < co cpu=0
"""

STARTS = {
    # -- one queue
    "as many as quota takes": (ALONE, "", "a1 a cpu=4\na2 a cpu=4\na3 a cpu=4", "a1 a2"),
    "exactly the quota": (ALONE, "", "a1 a cpu=10", "a1"),
    "one more than the quota": (ALONE, "", "a1 a cpu=11", ""),
    "what runs is charged": (ALONE, "r a cpu=7", "a1 a cpu=4\na2 a cpu=3", "a2"),
    "higher priority first": (
        "a cpu=4",
        "",
        "a1 a cpu=4 at=1\na2 a cpu=4 at=2 prio=5",
        "a2",
    ),
    "of equal priority the older": ("a cpu=4", "", "a1 a cpu=4 at=2\na2 a cpu=4 at=1", "a2"),
    "of the same age the first that came": ("a cpu=4", "", "z a cpu=4\ny a cpu=4", "z"),
    "best effort goes on behind one that does not fit": (
        "a cpu=10",
        "",
        "a1 a cpu=4 at=1\na2 a cpu=8 at=2\na3 a cpu=2 at=3",
        "a1 a3",
    ),
    "strict does not": (
        "a cpu=10 order=strict",
        "",
        "a1 a cpu=4 at=1\na2 a cpu=8 at=2\na3 a cpu=2 at=3",
        "a1",
    ),
    "strict is blocked even by one that can never fit": (
        "a cpu=10 order=strict",
        "",
        "a1 a cpu=11 at=1\na2 a cpu=2 at=2",
        "",
    ),
    "strict is not blocked by one that may not start at all": (
        "a cpu=10 order=strict namespaces=good",
        "",
        "a1 a cpu=4 at=1 ns=bad\na2 a cpu=2 at=2 ns=good",
        "a2",
    ),
    "local queues stand in one line": (
        "a cpu=4\nx << a\ny << a",
        "",
        "x1 x cpu=4 at=2\ny1 y cpu=4 at=1",
        "y1",
    ),
    "work may name the queue itself beside its local queues": (
        "a cpu=4\nx << a",
        "",
        "x1 x cpu=4 at=2\na1 a cpu=4 at=1",
        "a1",
    ),
    "a local queue's use counts in its queue": (
        "a cpu=4\nx << a\ny << a",
        "x0 x cpu=3",
        "y1 y cpu=2",
        "",
    ),
    "tasks are counted where pods have a quota": (
        "a cpu=10 pods=3",
        "",
        "a1 a cpu=1 tasks=2 at=1\na2 a cpu=1 tasks=2 at=2\na3 a cpu=1 at=3",
        "a1 a3",
    ),
    "and are not where they have none": ("a cpu=10", "", "a1 a cpu=1 tasks=9", "a1"),
    "what a queue has no quota of keeps it from starting": (
        "a cpu=10",
        "",
        "a1 a cpu=1 other=1 at=1\na2 a cpu=1 at=2",
        "a2",
    ),
    # -- borrowing
    "quota of the other queue may be borrowed": (PAIR, "", "a1 a cpu=10", "a1"),
    "but not more than all": (PAIR, "", "a1 a cpu=11", ""),
    "a queue without quota of its own borrows": (SHARED, "", "a1 a cpu=6", "a1"),
    "within the borrowing limit": (
        "co\na < co cpu=2+3\nb < co cpu=10",
        "",
        "a1 a cpu=5",
        "a1",
    ),
    "not beyond it": ("co\na < co cpu=2+3\nb < co cpu=10", "", "a1 a cpu=6", ""),
    "what is lent may be borrowed": (
        "co\na < co cpu=0\nb < co cpu=10^4",
        "",
        "a1 a cpu=4",
        "a1",
    ),
    "what is not lent may not": (
        "co\na < co cpu=0\nb < co cpu=10^4",
        "",
        "a1 a cpu=5",
        "",
    ),
    "nobody lends across cohorts": (
        "co\nother\na < co cpu=2\nb < other cpu=10",
        "",
        "a1 a cpu=3",
        "",
    ),
    "use beyond what is private counts for all": (
        "co\na < co cpu=0\nb < co cpu=10^4",
        "b0 b cpu=8",  # 6 private, 2 of the 4 that are lent
        "a1 a cpu=2 at=1\na2 a cpu=1 at=2",
        "a1",
    ),
    "a cohort's own quota is everybody's": (
        "co cpu=4\na < co cpu=2\nb < co cpu=0",
        "",
        "b1 b cpu=6",
        "b1",
    ),
    # -- between queues
    "who needs not borrow goes first, whatever its priority": (
        "co\na < co cpu=0\nb < co cpu=4",
        "",
        "a1 a cpu=4 prio=9\nb1 b cpu=4",
        "b1",
    ),
    "of those who borrow the higher priority": (
        SHARED,
        "",
        "a1 a cpu=6 prio=1 at=1\nb1 b cpu=6 prio=2 at=2",
        "b1",
    ),
    "of equal priority the older, between queues": (
        SHARED,
        "",
        "a1 a cpu=6 at=2\nb1 b cpu=6 at=1",
        "b1",
    ),
    "every queue gets one in before any gets a second": (
        SHARED,
        "",
        "a1 a cpu=2 at=1\na2 a cpu=2 at=2\na3 a cpu=2 at=3\nb1 b cpu=2 at=9",
        "a1 a2 b1",
    ),
    "who lost out to another goes on waiting": (
        SHARED,
        "",
        "a1 a cpu=4 at=1\nb1 b cpu=4 at=2\nb2 b cpu=2 at=3",
        "a1 b2",
    ),
    "nearer quota first: own cohort before the next one up": (
        """
        root
        left < root cpu=4
        right < root
        a < left cpu=0
        b < right cpu=0
        """,
        "",
        "a1 a cpu=4 at=2\nb1 b cpu=4 at=1 prio=9",
        "a1",
    ),
    # -- reserved capacity of a blocked head
    "a blocked strict head keeps its quota from borrowers": (
        "co\na < co cpu=6 order=strict\nb < co cpu=4",
        "b0 b cpu=6",
        "a1 a cpu=6 at=5\nb1 b cpu=2 at=1",
        "",
    ),
    "a blocked best-effort head is set aside": (
        "co\na < co cpu=6\nb < co cpu=4",
        "b0 b cpu=6",
        "a1 a cpu=6 at=5\nb1 b cpu=2 at=1",
        "b1",
    ),
    "who can always take back reserves nothing": (
        "co\na < co cpu=6 order=strict reclaim=any\nb < co cpu=4",
        "b0 b cpu=6 fixed",
        "a1 a cpu=6 at=5\nb1 b cpu=2 at=1",
        "b1",
    ),
    "no more than quota is kept": (
        # a1 may at most use 6 of its own: of the 4 that are free all are kept, but c is elsewhere
        "co\na < co cpu=6 order=strict\nb < co cpu=4\nc cpu=2",
        "b0 b cpu=6",
        "a1 a cpu=6\nb1 b cpu=1\nc1 c cpu=2",
        "c1",
    ),
}


@pytest.mark.parametrize(("queues", "running", "waiting", "starts"), STARTS.values(), ids=STARTS)
def test_who_starts(queues: str, running: str, waiting: str, starts: str) -> None:
    end = Case(queues, running, waiting).decide()
    assert (end.starts, end.evicts) == (starts, "")


def test_undeclared_resources_may_be_ignored() -> None:
    case = Case("a cpu=10", "", "a1 a cpu=1 other=1")
    policy = Policy(profile="kueue", undeclared="ignore")
    assert case.decide().starts == ""
    assert replace(case, policy=policy).decide().starts == "a1"


def test_without_any_quota_everything_starts() -> None:
    assert Case("a", "", "a1 a other=5", nodes=Case(ALONE).scenario().nodes).decide().starts == "a1"


class TestGates:
    def test_a_queue_on_hold_starts_nothing(self) -> None:
        end = Case("a cpu=10 stop=hold", "r a cpu=1", "a1 a cpu=1").decide()
        assert (end.starts, end.runs) == ("", "r")
        assert end.why("a1") == (Stopped("a"),)

    def test_a_local_queue_on_hold_stops_only_its_own_work(self) -> None:
        end = Case("a cpu=10\nx << a stop=hold\ny << a", "", "x1 x cpu=1\ny1 y cpu=1").decide()
        assert (end.starts, end.why("x1")) == ("y1", (Stopped("x"),))

    def test_a_drained_queue_lets_its_work_leave(self) -> None:
        end = Case("a cpu=10 stop=drain", "r a cpu=1").settle()
        assert (end.evicts, end.runs, end.waits) == ("r:drain", "", "r")

    def test_work_that_is_not_active_waits(self) -> None:
        end = Case(ALONE, "", "a1 a cpu=1 inactive").decide()
        assert (end.starts, end.why("a1")) == ("", (Stopped(""),))

    def test_a_queue_for_some_namespaces(self) -> None:
        end = Case("a cpu=9 namespaces=x,y", "", "a1 a cpu=1 ns=x\na2 a cpu=1 ns=z").decide()
        assert (end.starts, end.why("a2")) == ("a1", (NotAllowed("a", "namespace", "z"),))


class TestReasons:
    def test_too_little_quota_is_told_in_numbers(self) -> None:
        end = Case(ALONE, "r a cpu=7", "a1 a cpu=4").decide()
        assert end.why("a1") == (OverQuota("a", "default", "cpu", 4000, 3000),)

    def test_more_than_there_will_ever_be(self) -> None:
        end = Case(ALONE, "r a cpu=7", "a1 a cpu=11").decide()
        assert end.why("a1") == (OverQuota("a", "default", "cpu", 11000, 3000, ever=False),)

    def test_behind_a_blocked_head(self) -> None:
        end = Case("a cpu=4 order=strict", "", "a1 a cpu=5 at=1\na2 a cpu=1 at=2").decide()
        assert end.why("a2") == (Blocked("a1"),)

    def test_waiting_for_victims(self) -> None:
        end = Case(
            "a cpu=4 within=lower-priority", "r a cpu=4", "a1 a cpu=4 prio=1\na2 a cpu=4"
        ).decide()
        assert end.why("a1") == (Leaving(("r",)),)
        assert end.why("a2") == (Blocked("a1"),)

    def test_a_resource_without_quota(self) -> None:
        end = Case("a cpu=4", "", "a1 a cpu=1 other=2").decide()
        assert end.why("a1") == (OverQuota("a", "", "other", 2, 0, ever=False),)


class TestStickyHead:
    """Who has others evicted stays the head of its queue until it starts."""

    CASE = Case(
        "a cpu=10 within=lower-priority",
        "low a cpu=8",
        "p a cpu=6 prio=5\nq a cpu=2 prio=1",
    )

    def test_nobody_of_its_queue_starts_meanwhile(self) -> None:
        end = self.CASE.decide()
        assert (end.starts, end.evicts) == ("", "low:preempt")

    def test_then_the_others_go_on(self) -> None:
        end = self.CASE.settle()
        assert (end.runs, end.waits) == ("p q", "low")

    def test_other_queues_go_on_meanwhile(self) -> None:
        case = replace(
            self.CASE,
            queues=self.CASE.queues + "\nb cpu=5",
            waiting="""
            p a cpu=6 prio=5
            b1 b cpu=3
        """,
        )
        end = case.decide()
        assert (end.starts, end.evicts) == ("b1", "low:preempt")

    def test_what_victims_leave_over_is_not_given_away_before_they_are_gone(self) -> None:
        # v leaves 4 more than p needs; they are free only once v has gone, and then v's own
        # queue mates and q are looked at in order.
        case = Case(
            "co\na < co cpu=4 reclaim=any\nb < co cpu=0\nc < co cpu=4",
            "v b cpu=8",
            "p a cpu=4\nq c cpu=4 at=1",
        )
        end = case.decide()
        assert (end.starts, end.evicts) == ("", "v:quota")
        assert case.settle().runs == "p q"


def test_who_only_just_started_is_asked_to_leave_a_moment_later() -> None:
    """a1 starts while b1, which never fits, is in the way of b2; then b2 takes back its quota."""
    case = Case(
        "co\na < co cpu=0\nb < co cpu=4 reclaim=any",
        "",
        "a1 a cpu=4\nb1 b cpu=5 at=1\nb2 b cpu=4 at=2",
    )
    end = case.decide()
    assert (end.starts, end.evicts) == ("a1", "")
    end = case.settle()
    assert (end.evicts, end.runs) == ("a1:quota", "b2")


def test_more_quota_wakes_those_who_were_set_aside() -> None:
    end = Case("a cpu=2", "", "a1 a cpu=3").decide()
    end.engine.observe(QueuesChanged(queues_of("a cpu=3")))
    assert len(end.engine.decide(101.0).decisions) == 1


class TestGrowth:
    """What runs may grow above its minimum as far as quota and room go."""

    def grown(self, quota: int, most: int = 5) -> tuple[int, tuple[Reason, ...]]:
        shape = Shape(amounts({"cpu": 1000}))
        work = Workload("w", (PodGroup("main", shape, 2, most),), "a")
        end = Case(f"a cpu={quota}", more_waiting=(work,)).settle()
        return end.tasks("w"), end.why("w")

    def test_to_its_most(self) -> None:
        assert self.grown(9) == (5, ())

    def test_as_far_as_quota_goes(self) -> None:
        assert self.grown(4) == (4, (OverQuota("a", "default", "cpu", 1000, 0),))

    def test_its_minimum_comes_first(self) -> None:
        assert self.grown(1)[0] == 0

    def test_others_start_before_it_grows(self) -> None:
        shape = Shape(amounts({"cpu": 1000}))
        work = Workload("w", (PodGroup("main", shape, 2, 5),), "a")
        end = Case("a cpu=5", waiting="v a cpu=2 at=9", more_waiting=(work,)).settle()
        assert (end.runs, end.tasks("w")) == ("v w", 3)

    def test_what_has_finished_but_for_its_growth_is_charged_where_it_would_go(self) -> None:
        """It has no flavor, and no task on any node that would tell which."""
        shape = Shape(amounts({"cpu": 1000}))
        work = Workload("w", (PodGroup("main", shape, 1, 2),), "a")
        done = Adopted(work, finished=(("main", (0,)),))
        queues = "a x/cpu=2 y/cpu=2"
        one = Case(queues, "v a cpu=2 on=x", more_running=(done,)).settle()
        assert (one.tasks("w"), one.nodes("w")) == (1, "y=1")
        none = Case(queues, "v a cpu=2 on=x\nu a cpu=2 on=y", more_running=(done,)).settle()
        assert (none.tasks("w"), none.starts) == (0, "")

    def test_nobody_grows_beside_a_minimum_that_is_on_its_way_out(self) -> None:
        """What it leaves is more than the other needs: enough for one of its own surplus."""
        groups = [PodGroup(n, Shape(amounts({"cpu": c})), m, 1) for n, c, m in TWO]
        places = (Placement("a", (0,), ("default",), (0,)),)
        work = Adopted(Workload("w", tuple(groups), "a"), places)
        case = Case("a cpu=4 within=lower-priority", "v a cpu=1", "h a cpu=2 prio=5")
        end = replace(case, more_running=(work,)).decide()
        assert (end.evicts, end.starts) == ("w:preempt", "")


TWO = (("a", 3000, 1), ("b", 1000, 0))
"""Groups: name, CPU, minimum."""


def test_a_quiet_cycle_decides_nothing() -> None:
    end = Case(PAIR, "a0 a cpu=6", "b1 b cpu=5\na1 a cpu=9").decide()
    for now in range(101, 106):
        plan = end.engine.decide(float(now))
        assert (plan.decisions, plan.waiting) == ((), ())


def test_whoever_waits_is_looked_at_again_when_something_ends() -> None:
    end = Case(ALONE, "r a cpu=7", "a1 a cpu=4").decide()
    end.engine.observe(Ended("r"))
    assert len(end.engine.decide(101.0).decisions) == 1
    assert "a1" in end.engine.running()


def test_a_fork_decides_alike() -> None:
    end = Case(SHARED, "", "a1 a cpu=4 at=1\nb1 b cpu=4 at=2").decide()
    twin = end.engine.fork()
    assert twin.waiting() == end.engine.waiting()
    assert twin.decide(101.0) == end.engine.decide(101.0)


RICH = "a x/cpu=2 y/cpu=2"
POOR = """
    co
    a < co x/cpu=0 y/cpu=0
    b < co x/cpu=2 y/cpu=2
"""
HALF_DONE = {
    # name: (queues, what else runs, where the rest of it goes, and what that is charged to)
    "where there is quota": (RICH, "", "x=1", "w@x"),
    "on another flavor": (RICH, "v a cpu=2 on=x", "y=1", "w@y"),
    "nowhere": (RICH, "v a cpu=2 on=x\nu a cpu=2 on=y", "", ""),
    "what others lend": (POOR, "v b cpu=2 on=x", "y=1", "w@y"),
    "nothing, for they need it": (POOR, "v b cpu=2 on=x\nu b cpu=2 on=y", "", ""),
}


@pytest.mark.parametrize(
    ("queues", "running", "where", "starts"), HALF_DONE.values(), ids=HALF_DONE
)
def test_of_what_is_half_done_the_rest_starts_anew(
    queues: str, running: str, where: str, starts: str
) -> None:
    """One of its groups has finished and nothing of it runs: it is charged as if it had come."""
    one = PodGroup("one", Shape(amounts({"cpu": 1000})), 1)
    work = Workload("w", (one, replace(one, name="two")), "a")
    done = Adopted(work, finished=(("one", (0,)),))
    end = Case(queues, running, more_running=(done,)).settle()
    assert (end.nodes("w", "two"), end.starts) == (where, starts)
    assert [type(reason) for reason in end.why("w")] == ([] if where else [OverQuota])

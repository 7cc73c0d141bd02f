"""EASY and conservative: who starts when at the latest, and that nobody delays it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.engine import Engine
from mooring.model.events import NodeJoined, QueuesChanged, Submitted, WorkloadChanged
from mooring.model.plan import Bind, Delays, Evict, NoRoom, Reserve, Reserved
from mooring.model.queues import Queue, Quota
from mooring.model.settings import Backfill, Eviction, Policy
from mooring.model.workload import TaskState
from mooring.policy.default.hall import Hall
from mooring.policy.default.starts import Starts
from mooring.sim.loop import Loop
from tests.build import (
    World,
    by_workload,
    evicts,
    gang,
    group,
    node,
    picture,
    reasons,
    service,
    task,
    told_about,
    workload,
)
from tests.plain_backfill import Cluster, Conservative, Easy, Timed, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.model.entry import Entry
    from mooring.model.events import Event
    from mooring.model.plan import Plan, Reason
    from mooring.model.workload import Workload

TWINS: dict[str, type[Timed]] = {"easy": Easy, "conservative": Conservative}
BEST_FIT = Policy(small="best-fit", gang="best-fit")
"""The rule by which the plain twins place."""
CALM = Policy(eviction=Eviction(notice_s=0.0))
"""Nobody is told that its limit is near."""


def world(text: str, *queues: Queue, policy: Policy = CALM) -> World:
    """Return a world with these queues; an order alone is that of the only queue."""
    topology, found = picture(text)
    return World(Engine(topology, policy, queues=queues)).join(*found)


def ordered(order: str, text: str, policy: Policy = CALM) -> World:
    return world(text, Queue("default", order=order), policy=policy)


def lasting(seconds: float, workload: Workload) -> Workload:
    """Return a workload with a limit."""
    return replace(workload, run_limit_s=seconds)


def expected(seconds: float, workload: Workload) -> Workload:
    """Return a workload with an estimate."""
    return replace(workload, estimate_s=seconds)


def reserved(plan: Plan) -> dict[str, float]:
    """Return who starts when at the latest, as a plan says."""
    return {d.workload: d.until for d in plan.decisions if isinstance(d, Reserve)}


# -- EASY -----------------------------------------------------------------------------------

# Four GPUs.      0    5    10   15   20
#   runs (2)      ████████
#   wide (4)      waits   ██████████
#   long (2)      fits beside `runs`, but would keep `wide` waiting
#   short (2)     fits too and ends in time


def test_the_blocked_head_has_a_reservation_that_others_respect() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)))

    plan = here.submit(
        lasting(10, task("wide", 4)), lasting(20, task("long", 2)), lasting(9, task("short", 2))
    ).cycle(1.0)

    assert by_workload(plan) == {"short": ["a"]}
    assert reserved(plan) == {"wide": 10.0}
    assert Reserved(10.0, 1) in reasons(here, "wide")
    assert reasons(here, "long") == (Delays("wide"),)
    assert told_about(plan)["wide"] == reasons(here, "wide")
    assert plan.wake_at == 10.0
    here.confirm(plan)
    here.settles()


def test_the_reservation_names_the_nodes() -> None:
    here = ordered("easy", "a=4 b=4").run(lasting(10, gang("runs", tasks=2, gpus=3)))
    plan = here.submit(lasting(10, gang("wide", tasks=2, gpus=4))).cycle(1.0)
    (decision,) = [d for d in plan.decisions if isinstance(d, Reserve)]
    assert [each.nodes for each in decision.placements] == [("a", "b")]
    assert reasons(here, "wide")[-1] == Reserved(10.0, 2)


def test_who_leaves_the_reservation_possible_may_run_for_ever() -> None:
    """`wide` needs three of four GPUs: there is one that it will not miss."""
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)))
    wide, endless = lasting(10, task("wide", 3)), task("endless", 1)
    plan = here.submit(wide, endless, task("other", 1)).cycle(1.0)
    assert by_workload(plan) == {"endless": ["a"]}
    assert reasons(here, "other") == (Delays("wide"),)


@pytest.mark.parametrize("seconds", [9.0, 9.5])
def test_an_estimate_counts_where_there_is_no_limit(seconds: float) -> None:
    here = ordered("easy", "a=4").run(expected(10, task("runs", 2)))
    plan = here.submit(expected(10, task("wide", 4)), expected(seconds, task("t", 2))).cycle(1.0)
    assert reserved(plan) == {"wide": 10.0}
    assert by_workload(plan) == ({"t": ["a"]} if seconds == 9.0 else {})


def test_the_limit_of_the_queue_counts_too() -> None:
    queue = Queue("default", order="easy", run_limit_s=10.0)
    here = world("a=4", queue).run(expected(50, task("runs", 2)))
    plan = here.submit(task("wide", 4)).cycle(1.0)
    assert reserved(plan) == {"wide": 10.0}


def test_time_counts_from_when_it_runs() -> None:
    here = ordered("easy", "a=4").submit(lasting(10, task("runs", 4)))
    here.cycle(0.0)
    here.submit(lasting(10, task("next", 4)))
    assert reserved(here.cycle(1.0)) == {"next": 10.0}
    here.now = 3.0
    here.engine.desk.now = 3.0
    here.tasks("runs", TaskState.RUNNING)
    here.submit(lasting(10, task("another", 4)))
    assert reserved(here.cycle(4.0)) == {"next": 13.0}


def test_nothing_is_kept_for_one_that_waits_for_what_never_ends() -> None:
    here = ordered("easy", "a=4").run(service("endless", 1), lasting(10, task("runs", 2)))
    plan = here.submit(lasting(10, task("wide", 4)), task("long", 1)).cycle(1.0)
    assert reserved(plan) == {}
    assert by_workload(plan) == {"long": ["a"]}


def test_the_next_one_is_booked_where_the_head_can_never_be() -> None:
    here = ordered("easy", "a=4").run(service("endless", 1), lasting(10, task("runs", 2)))
    plan = here.submit(task("wide", 4), lasting(9, task("next", 3)), task("long", 1)).cycle(1.0)
    assert reserved(plan) == {"next": 10.0}
    assert reasons(here, "long") == (Delays("next"),)


def test_an_early_end_moves_the_reservation_earlier() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)), lasting(20, task("more", 2)))
    assert reserved(here.submit(lasting(10, task("wide", 4))).cycle(1.0)) == {"wide": 20.0}
    assert reserved(here.end("more").cycle(2.0)) == {"wide": 10.0}
    assert by_workload(here.end("runs").cycle(3.0)) == {"wide": ["a"]}


def test_work_that_overruns_its_estimate_is_expected_any_moment() -> None:
    here = ordered("easy", "a=4").run(expected(10, task("runs", 2)))
    here.submit(expected(10, task("wide", 4)), expected(1, task("short", 2))).cycle(9.5)

    here.cycle(10.0)

    assert reasons(here, "wide")[-1] == Reserved(10.0, 1)
    here.settles()
    assert reasons(here, "short") == (Delays("wide"),)
    assert here.cycle(99.0).wake_at is None
    assert by_workload(here.end("runs").cycle(100.0)) == {"wide": ["a"]}


def test_a_higher_priority_takes_the_reservation_over() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)))
    fixed = replace(lasting(10, task("wide", 3)), preemptible=False)
    here.submit(fixed, lasting(20, task("long", 2))).cycle(1.0)
    assert reasons(here, "long") == (Delays("wide"),)

    urgent = replace(lasting(10, task("urgent", 2, priority=1)), submitted_at=2.0)
    plan = here.submit(urgent).cycle(2.0)

    assert by_workload(plan) == {"urgent": ["a"]}
    assert reserved(plan) == {"wide": 12.0}


def test_two_reservations_protect_the_second_in_line() -> None:
    """With one, `long` starts at once and keeps `second` waiting until 33."""
    works = [
        lasting(10, task("head", 2)),
        lasting(10, task("second", 4)),
        lasting(30, task("long", 1)),
    ]
    for deep, starts in ((1, {"long": ["a"]}), (2, {})):
        policy = replace(CALM, backfill=Backfill(reservations=deep))
        here = ordered("easy", "a=4", policy).run(lasting(10, task("runs", 3)))
        plan = here.submit(*works).cycle(3.0)
        assert by_workload(plan) == starts
        assert reserved(plan) == ({"head": 10.0} if deep == 1 else {"head": 10.0, "second": 20.0})


def test_a_cancelled_head_lets_the_others_go() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)))
    here.submit(lasting(10, task("wide", 4)), lasting(20, task("long", 2))).cycle(1.0)
    assert by_workload(here.end("wide").cycle(2.0)) == {"long": ["a"]}


def test_a_smaller_head_is_booked_anew() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)), lasting(20, task("more", 1)))
    assert reserved(here.submit(lasting(10, task("wide", 4))).cycle(1.0)) == {"wide": 20.0}
    assert reserved(here.edit(lasting(10, task("wide", 3))).cycle(2.0)) == {"wide": 10.0}


# -- other nodes will do --------------------------------------------------------------------

# Two nodes of four GPUs.      0        1000            9000
#   one on a (3)               ████████
#   two on b (3)               ████████████████████████
#   wide (4)                   waits    ██████ on a
#   small (1), half an hour    on a it would keep `wide` waiting, on b nobody


@pytest.fixture(params=["a=1000 b=9000", "a=9000 b=1000"])
def crowded(request: pytest.FixtureRequest) -> str:
    """Return until when three of the four GPUs of each node are in use."""
    return str(request.param)


def fill_up(here: World, crowded: str, queue: str = "default") -> str:
    """Let both nodes be in use; return the one that is in use for longer."""
    ends = {name: float(end) for name, end in (item.split("=") for item in crowded.split())}
    for name, end in ends.items():
        here.adopt(lasting(end, task(f"on-{name}", 3, queue=queue)), {name: [0b111]})
    return max(ends, key=ends.__getitem__)


@pytest.mark.parametrize("order", TWINS)
def test_who_would_delay_another_on_one_node_starts_on_another(order: str, crowded: str) -> None:
    here = ordered(order, "a=4 b=4")
    harmless = fill_up(here, crowded)
    wide, small = lasting(500, task("wide", 4)), lasting(1800, task("small", 1))
    plan = here.submit(wide, small).cycle(1.0)
    assert by_workload(plan) == {"small": [harmless]}
    assert reserved(plan) == {"wide": 1000.0}


def test_a_reservation_too_is_made_where_it_delays_nobody(crowded: str) -> None:
    """One GPU more is in use on each until 10; then `small` has room on both for a while."""
    here = ordered("conservative", "a=4 b=4")
    harmless = fill_up(here, crowded)
    here.run(lasting(10, gang("both", tasks=2)))
    wide, small = lasting(500, task("wide", 4)), lasting(1800, task("small", 1))
    plan = here.submit(wide, small).cycle(1.0)
    assert reserved(plan) == {"wide": 1000.0, "small": 10.0}
    assert by_workload(here.end("both").cycle(10.0)) == {"small": [harmless]}


def test_a_unit_more_goes_where_it_delays_nobody(crowded: str) -> None:
    here = ordered("easy", "a=4 b=4 c=1")
    harmless = fill_up(here, crowded)
    here.adopt(lasting(5000, gang("elastic", tasks=1, most=2)), {"c": [0b1]})
    plan = here.submit(lasting(500, task("wide", 4))).cycle(1.0)
    assert by_workload(plan) == {"elastic": [harmless]}
    assert reserved(plan) == {"wide": 1000.0}


def test_who_need_not_mind_a_reservation_spares_it_where_it_can(crowded: str) -> None:
    """`small` is covered by its quota, and `wide` is not."""
    covered = Queue("covered", quotas=(Quota("gpu", quota=1000),))
    here = world("a=4 b=4", Queue("late", order="easy"), covered)
    harmless = fill_up(here, crowded, "late")
    here.submit(lasting(500, task("wide", 4, queue="late"))).cycle(1.0)
    plan = here.submit(task("small", 1, queue="covered")).cycle(2.0)
    assert by_workload(plan) == {"small": [harmless]}
    assert reasons(here, "wide")[-1] == Reserved(1000.0, 1)


def test_who_need_not_mind_a_reservation_starts_anyway() -> None:
    covered = Queue("covered", quotas=(Quota("gpu", quota=1000),))
    here = world("a=4", Queue("late", order="easy"), covered)
    here.run(lasting(1000, task("runs", 3, queue="late")))
    here.submit(lasting(500, task("wide", 4, queue="late"))).cycle(1.0)
    plan = here.submit(lasting(9000, task("small", 1, queue="covered"))).cycle(2.0)
    assert by_workload(plan) == {"small": ["a"]}
    assert reserved(plan) == {"wide": 9002.0}


def test_who_leaves_each_group_its_flavor_does_not_move_a_reservation() -> None:
    """`wide` waits for A10s and needs one H100 of four; of those `small` takes another."""
    org = Queue("org", quotas=(Quota("gpu", "H100", limit=4000),))
    covered = Queue("covered", "org", quotas=(Quota("gpu", "H100", quota=1000),))
    here = world("h=4", org, Queue("late", "org", order="easy"), covered)
    here.join(node("a", 3, model="A10"))
    here.run(lasting(1000, task("runs", 3, queue="late", models=["A10"])))
    groups = group("big", models=["H100"]), group("many", tasks=3, models=["A10"])
    wide = replace(workload("wide", *groups), queue="late")
    assert reserved(here.submit(lasting(500, wide)).cycle(1.0)) == {"wide": 1000.0}

    small = lasting(9000, task("small", 1, queue="covered", models=["H100"]))
    assert by_workload(here.submit(small).cycle(2.0)) == {"small": ["h"]}
    assert reasons(here, "wide")[-1] == Reserved(1000.0, 2)


# -- conservative ---------------------------------------------------------------------------


def test_conservative_books_everybody() -> None:
    here = ordered("conservative", "a=4").run(lasting(10, task("runs", 3)))
    plan = here.submit(
        lasting(10, task("head", 2)),
        lasting(10, task("second", 4)),
        lasting(30, task("long", 1)),
        lasting(7, task("short", 1)),
    ).cycle(3.0)
    assert by_workload(plan) == {"short": ["a"]}
    assert reserved(plan) == {"head": 10.0, "second": 20.0, "long": 30.0}
    here.confirm(plan)
    here.settles()


def test_nobody_delays_anybody_not_even_by_priority() -> None:
    here = ordered("conservative", "a=4").run(lasting(10, task("runs", 4)))
    here.submit(lasting(10, task("first", 4))).cycle(1.0)
    urgent = lasting(10, task("urgent", 4, priority=9))
    urgent = replace(urgent, preemption_delay_s=1000.0)
    assert reserved(here.submit(urgent).cycle(2.0)) == {"urgent": 20.0}
    assert reasons(here, "first")[-1] == Reserved(10.0, 1)


def test_room_now_that_one_gives_up_in_time_is_first_for_who_comes_first() -> None:
    """`first` would delay the other two; once `small` has started early, it delays nobody."""
    here = ordered("conservative", "a=4").run(lasting(2, task("runs", 4)))
    plan = here.submit(lasting(1, task("small", 1)), lasting(1, task("last", 2))).cycle(0.0)
    assert reserved(plan) == {"small": 2.0, "last": 2.0}
    first = lasting(2, task("first", 2, priority=1))
    plan = here.end("runs").submit(first).cycle(1.0)
    assert set(by_workload(plan)) == {"small", "first"}
    assert reasons(here, "last")[-1] == Reserved(2.0, 1)


# Two nodes of four.   0        40        60        140
#   runs (4 on a)      ██████████████████████            it was to end after 10 s
#   other (4 on b)     ██████████
#   first (4)          waits    ████████████████████
#   late (4)           waits              ████████████


def test_whose_reservation_is_broken_goes_before_those_behind_it() -> None:
    """`late` was told to start when `other` ends; without it `first` would start then."""
    here = ordered("conservative", "a=4 b=4")
    here.run(lasting(10, task("runs", 4)), lasting(40, task("other", 4)))
    here.submit(lasting(100, task("first", 4)), lasting(100, task("late", 4)))
    assert reserved(here.cycle(1.0)) == {"first": 10.0, "late": 40.0}

    plan = here.see(WorkloadChanged(lasting(60, task("runs", 4)))).cycle(2.0)

    assert reserved(plan) == {"first": 40.0, "late": 60.0}


def test_who_has_not_come_after_all_is_booked_before_those_behind_it() -> None:
    """`first` starts before `small` asks it to leave; `late` was booked as if it had started."""
    own = Queue("own", quotas=(Quota("gpu", quota=1000),))
    policy = replace(CALM, eviction=replace(CALM.eviction, minimum_run_s=()))
    here = world("n=2", own, Queue("rest", order="conservative"), policy=policy)
    here.submit(
        task("too-big", 4, queue="own", priority=1),
        lasting(50, task("small", 1, queue="own")),
        lasting(10, task("first", 2, queue="rest", priority=2)),
        lasting(100, task("late", 1, queue="rest", priority=1)),
    )
    plan = here.cycle(2.0)
    assert by_workload(plan) == {"small": ["n"]}
    assert reserved(plan) == {"first": 52.0, "late": 62.0}


# a joins b.        0         3600 3700      7200
#   runs (4 on a)   ██████████
#   small (2)       on b, an hour early; it was to start after `runs`
#   big (2 x 4)     waits          ██████████
#   late            would start with what `small` has given up, and keep `big` waiting until 7200


@pytest.mark.parametrize("late", [lasting(3600, task("late", 3)), lasting(6800, task("late", 2))])
def test_who_comes_last_does_not_get_what_those_before_it_could_have(late: Workload) -> None:
    """One who is booked starts early; `late` is to be booked, or to start, in the same cycle."""
    runs = replace(lasting(3600, task("runs", 4)), preemptible=False)
    here = ordered("conservative", "a=4").run(runs)
    big = lasting(3600, gang("big", tasks=2, gpus=4, priority=1))
    plan = here.submit(lasting(3600, task("small", 2)), big).cycle(1.0)
    assert reserved(plan) == {"small": 3600.0}

    plan = here.join(node("b", 4)).submit(late).cycle(100.0)

    assert by_workload(plan) == {"small": ["b"]}
    assert reserved(plan) == {"big": 3700.0, "late": 7300.0}


def test_a_reservation_comes_due_without_an_event() -> None:
    """`gap` was booked behind `first`; when `first` is gone nobody else ends at that instant."""
    here = ordered("conservative", "a=2").run(lasting(10, task("runs", 1)))
    here.submit(lasting(5, task("first", 2)), task("gap", 1)).cycle(1.0)
    assert reasons(here, "gap")[-1] == Reserved(15.0, 1)
    assert by_workload(here.end("runs").cycle(4.0)) == {"first": ["a"]}
    here.tasks("first", TaskState.RUNNING)
    plan = here.cycle(4.0)
    assert reasons(here, "gap")[-1] == Reserved(9.0, 1)
    assert plan.wake_at is not None


# -- queues, quota, eviction, growth --------------------------------------------------------


def test_other_queues_respect_a_reservation() -> None:
    """`b` has used more than `a`, so its next one stands behind."""
    here = world("a=4", Queue("a", order="easy"), Queue("b", order="best-effort"))
    here.run(lasting(10, task("runs", 3, queue="b")))
    wide = lasting(10, task("wide", 4, queue="a"))
    plan = here.submit(wide, lasting(20, task("long", 1, queue="b"))).cycle(1.0)
    assert by_workload(plan) == {}
    assert reasons(here, "long") == (Delays("wide"),)
    plan = here.submit(lasting(5, task("short", 1, queue="b"))).cycle(2.0)
    assert by_workload(plan) == {"short": ["a"]}


def test_room_in_a_quota_can_be_booked() -> None:
    limited = Queue("default", order="easy", quotas=(Quota("gpu", quota=None, limit=4000),))
    here = world("a=8", limited).run(lasting(10, task("runs", 3)))
    plan = here.submit(
        lasting(10, task("head", 3)), lasting(20, task("long", 1)), lasting(20, task("more", 1))
    ).cycle(1.0)
    assert reserved(plan) == {"head": 10.0}
    assert by_workload(plan) == {"long": ["a"]}
    assert reasons(here, "more")[0] != Delays("head")


# Four GPUs.       0       122                 300
#   fixed (2)      █████████████████████████████
#   low (2)        ████████░                       evicted, it may take two minutes to leave
#   middle (2)             █████████████████       starts when `low` has left
#   high (4)       waits                        ██


@pytest.mark.parametrize("order", TWINS)
@pytest.mark.parametrize(("seconds", "victims"), [(400.0, []), (200.0, []), (170.0, ["low"])])
def test_evictions_do_not_delay_a_reservation_either(
    order: str, seconds: float, victims: list[str]
) -> None:
    """`middle` may evict `low` if it ends in time even though `low` takes its time to leave."""
    here = ordered(order, "a=4")
    fixed = replace(lasting(300, task("fixed", 2)), preemptible=False)
    here.run(fixed, lasting(300, task("low", 2)))
    here.submit(lasting(10, task("high", 4, priority=5))).cycle(1.0)

    plan = here.submit(lasting(seconds, task("middle", 2, priority=4))).cycle(2.0)

    assert [evict.workload for evict in evicts(plan)] == victims
    assert reasons(here, "high")[-1] == Reserved(300.0, 1)
    if not victims:
        assert reasons(here, "middle")[0] == Delays("high")
        return
    here.confirm(plan)
    assert by_workload(here.cycle(121.0)) == {"middle": ["a"]}
    assert reasons(here, "high")[-1] == Reserved(300.0, 1)


def test_growth_does_not_delay_a_reservation() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)))
    elastic = lasting(50, gang("elastic", tasks=1, most=3))
    here.submit(elastic, lasting(10, task("wide", 3)))
    plan = here.cycle(1.0)
    assert by_workload(plan) == {"elastic": ["a"]}
    assert reserved(plan) == {"wide": 10.0}
    here.confirm(plan)
    here.settles()


def test_a_node_that_is_closed_breaks_a_reservation() -> None:
    here = ordered("easy", "a=4 b=4")
    here.run(lasting(10, task("one", 4)), lasting(20, task("two", 4)))
    first = by_workload(here.plans[0])["one"][0]
    assert reserved(here.submit(lasting(10, task("head", 4))).cycle(1.0)) == {"head": 10.0}
    assert reserved(here.change(first, ready=False).cycle(2.0)) == {"head": 20.0}
    assert reserved(here.change(first, ready=True).cycle(3.0)) == {"head": 10.0}


def test_who_lost_its_node_is_first_again() -> None:
    here = ordered("conservative", "a=4 b=4")
    here.run(lasting(10, task("one", 4)), lasting(20, task("two", 4)))
    first = by_workload(here.plans[0])["one"][0]
    here.submit(lasting(10, task("head", 4))).cycle(1.0)
    here.leave(first)
    assert reserved(here.cycle(2.0)) == {"one": 20.0, "head": 30.0}


def test_orders_can_change_while_somebody_waits() -> None:
    here = ordered("easy", "a=4").run(lasting(10, task("runs", 2)))
    here.submit(lasting(10, task("wide", 4)), lasting(20, task("long", 2))).cycle(1.0)
    plan = here.see(QueuesChanged((Queue("default", order="best-effort"),))).cycle(2.0)
    assert by_workload(plan) == {"long": ["a"]}
    assert isinstance(reasons(here, "wide")[0], NoRoom)
    assert not here.engine.memory().latest_starts


# -- memory, forks, rest --------------------------------------------------------------------


def test_promises_outlive_a_restart() -> None:
    """A new life would book `second` no later, though `long` came before the restart."""
    here = ordered("conservative", "a=4").run(lasting(10, task("runs", 3)))
    here.submit(lasting(10, task("head", 4)), lasting(10, task("second", 2))).cycle(3.0)
    scenario = here.engine.snapshot(4.0)
    assert scenario.memory.latest_starts == (("head", 10.0), ("second", 20.0))

    again = Engine(scenario.topology, scenario.policy, scenario.memory, scenario.queues)
    for event in scenario.events():
        again.observe(event)
    again.decide(4.0)

    assert again.memory().latest_starts == scenario.memory.latest_starts


class Checked:
    """An engine that is forked before every decision: both decide the same."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def observe(self, event: Event) -> None:
        self.engine.observe(event)

    def decide(self, now: float) -> Plan:
        fork = self.engine.fork()
        plan = self.engine.decide(now)
        assert fork.decide(now) == plan
        return plan

    def entries(self) -> Mapping[str, Entry]:
        return self.engine.entries()


# -- the twins ------------------------------------------------------------------------------


class Played:
    """A loop that notes who starts when, and what was promised."""

    def __init__(self, text: str, works: Sequence[Work], queue: Queue, **more: Any) -> None:
        topology, nodes = picture(text)
        run_of = {work.name: work.run for work in works}
        self.starts: dict[str, float] = {}
        self.promises: dict[str, list[float]] = {}
        self.evicted: list[str] = []
        self.reasons: list[dict[str, tuple[Reason, ...]]] = []
        self.engine = Engine(topology, more.get("policy", Policy()), queues=(queue,))
        driven = Checked(self.engine) if more.get("forks") else self.engine
        loop = Loop(driven, run_time=lambda each: run_of[each.name], listeners=[self.listen])
        for each in nodes:
            self.engine.observe(NodeJoined(each))
        for work in sorted(works, key=lambda work: (work.submit, work.name)):
            loop.at(work.submit, Submitted(as_workload(work, **more)))
        loop.run()

    def why(self) -> dict[str, tuple[Reason, ...]]:
        """Return why everybody waits."""
        return {name: self.engine.reasons(name) for name in self.engine.waiting()}

    def listen(self, now: float, events: Sequence[Event], plan: Plan) -> None:
        self.reasons.append(self.why())
        for decision in plan.decisions:
            match decision:
                case Bind(name, _, _):
                    self.starts[name] = now
                case Evict(name, _, _, _, _):
                    self.evicted.append(name)
                case Reserve(name, _, until):
                    self.promises.setdefault(name, []).append(until)
                case _:
                    pass


def as_workload(work: Work, *, limits: bool = True, **_: object) -> Workload:
    """Return a work of the plain twin as the engine knows it; nobody may be evicted for it."""
    plain = gang(work.name, tasks=work.tasks, gpus=work.gpus, submitted_at=work.submit)
    plain = replace(plain, priority=work.priority, preemptible=False)
    if limits:
        return replace(plain, run_limit_s=work.longest)
    return replace(plain, estimate_s=work.longest)


@st.composite
def works(draw: st.DrawFn, nodes: int, gpus: int, sizes: Sequence[int]) -> list[Work]:
    """Return works for a cluster, with limits that are exact or too long."""
    found, at = [], 0.0
    slack = draw(st.sampled_from((0, 0, 5)))
    for number in range(draw(st.integers(2, 12))):
        at += draw(st.sampled_from((0, 0, 1, 2, 5)))
        size, run = draw(st.sampled_from(sizes)), draw(st.integers(1, 12))
        found.append(
            Work(
                name=f"w{number:02}",
                submit=at,
                tasks=draw(st.integers(1, nodes * (gpus // size))),
                gpus=size,
                run=float(run),
                limit=float(run + draw(st.integers(0, slack))),
                priority=draw(st.sampled_from((0, 0, 0, 1))),
            )
        )
    return found


both = pytest.mark.parametrize("order", TWINS)


@both
@given(st.data())
def test_one_node_is_served_as_the_twin_serves_it(order: str, data: st.DataObject) -> None:
    found = data.draw(works(1, 4, (1, 2, 3, 4)))
    story = TWINS[order](Cluster(1, 4), list(found)).play()
    played = Played("a=4", found, Queue("default", order=order))
    assert played.starts == story.starts


@both
@given(st.integers(2, 5), st.data())
def test_nodes_of_one_gpu_are_served_as_one_node(
    order: str, nodes: int, data: st.DataObject
) -> None:
    found = data.draw(works(nodes, 1, (1,)))
    story = TWINS[order](Cluster(1, nodes), list(found)).play()
    text = " ".join(f"n{i}=1" for i in range(nodes))
    played = Played(text, found, Queue("default", order=order), limits=False)
    assert played.starts == story.starts


@both
@given(st.integers(2, 4), st.data())
def test_whole_nodes_are_served_as_gpus_of_one_node(
    order: str, nodes: int, data: st.DataObject
) -> None:
    found = data.draw(works(nodes, 4, (4,)))
    counted = [replace(work, gpus=1) for work in found]
    story = TWINS[order](Cluster(1, nodes), counted).play()
    text = " ".join(f"n{i}=4" for i in range(nodes))
    assert Played(text, found, Queue("default", order=order)).starts == story.starts


class EagerEasy(Easy):
    """Tries those again who were in the way."""

    tries_again = True


@given(st.integers(2, 3), st.data())
def test_with_gaps_and_the_same_rule_of_placement_easy_is_the_twin(
    nodes: int, data: st.DataObject
) -> None:
    """What others take may change where a gang of two would go, and whom that is in the way of."""
    found = data.draw(works(nodes, 4, (1, 2, 3, 4)))
    once, again = (kind(Cluster(nodes, 4), list(found)).play() for kind in (Easy, EagerEasy))
    text = " ".join(f"n{i}=4" for i in range(nodes))
    played = Played(text, found, Queue("default", order="easy"), policy=BEST_FIT)
    assert played.starts in (once.starts, again.starts)


@both
@given(st.integers(1, 3), st.booleans(), st.data())
def test_a_reservation_never_slips(
    order: str, deep: int, with_limits: bool, data: st.DataObject
) -> None:
    """Whatever comes later, and with gaps: nobody starts later than was first promised."""
    found = [replace(work, priority=0) for work in data.draw(works(3, 4, (1, 2, 3, 4)))]
    policy = Policy(backfill=Backfill(reservations=deep))
    queue = Queue("default", order=order)
    played = Played("r: a=4 b=4 c=4", found, queue, policy=policy, limits=with_limits, forks=True)
    assert set(played.starts) == {work.name for work in found}
    assert not played.evicted
    for name, promises in played.promises.items():
        assert promises == sorted(promises, reverse=True)
        assert played.starts[name] <= promises[-1]


DEEP = Policy(backfill=Backfill(reservations=3))


# Those who ask for the same room are woken in turn where only room and bookings decide: what comes
# of it, and what everybody is told, is as if all were woken.


@given(st.integers(1, 3), st.booleans(), st.data())
def test_who_is_woken_in_turn_starts_as_if_all_were_woken(
    deep: int, with_limits: bool, data: st.DataObject
) -> None:
    found = [replace(work, priority=0) for work in data.draw(works(3, 4, (1, 2, 4)))]
    rules = Eviction(consolidates=False, notice_s=0.0)
    policy = Policy(eviction=rules, backfill=Backfill(reservations=deep))
    queue, text = Queue("default", order="easy"), "r: a=4 b=4 c=4"
    with patch.object(Hall, "waits_for_room", return_value=False):
        plain = Played(text, found, queue, policy=policy, limits=with_limits)

    played = Played(text, found, queue, policy=policy, limits=with_limits, forks=True)

    assert played.starts == plain.starts
    assert played.promises == plain.promises
    for now, then in zip(played.reasons, plain.reasons, strict=True):
        assert now.keys() == then.keys()
        for name, why in now.items():
            # One that was kept back is told if others have taken the room in the same cycle.
            is_newer = isinstance(why[0], NoRoom) and isinstance(then[name][0], Delays)
            assert why == then[name] or is_newer


STILL = replace(CALM, eviction=Eviction(consolidates=False, notice_s=0.0))


def test_where_there_is_no_room_only_the_first_of_all_who_ask_for_it_is_tried() -> None:
    here = ordered("easy", "a=4", STILL).run(lasting(50, task("runs", 4)))
    here.submit(*(lasting(10 + n, task(f"w{n}", 4)) for n in range(10))).cycle(1.0)

    with patch.object(Starts, "attempt", autospec=True, side_effect=Starts.attempt) as tried:
        plan = here.end("runs").cycle(20.0)

    assert by_workload(plan) == {"w0": ["a"]}
    assert tried.call_count == 2
    assert all(isinstance(reasons(here, f"w{n}")[0], NoRoom) for n in range(1, 10))


def test_who_would_delay_another_as_one_before_it_is_refused_without_a_look() -> None:
    here = ordered("easy", "a=4", STILL).run(lasting(10, task("runs", 2)))
    wide = lasting(10, task("wide", 4))

    with patch.object(Starts, "_attempt", autospec=True, side_effect=Starts._attempt) as looked:
        plan = here.submit(wide, *(lasting(20 + n, task(f"w{n}", 2)) for n in range(9))).cycle(1.0)

    assert by_workload(plan) == {}
    assert looked.call_count == 2
    assert all(reasons(here, f"w{n}") == (Delays("wide"),) for n in range(9))


def test_who_moves_earlier_leaves_those_behind_it_their_start() -> None:
    """`more` ends early. `first` could then be told 8 instead of 9, but `last` was told 2."""
    found = [
        Work("long", 0.0, tasks=3, gpus=1, run=4.0, limit=9.0),
        Work("more", 0.0, tasks=4, gpus=2, run=1.0, limit=2.0),
        Work("next", 0.0, tasks=2, gpus=1, run=2.0, limit=7.0),
        Work("first", 0.0, tasks=2, gpus=3, run=1.0, limit=1.0),
        Work("last", 0.0, tasks=2, gpus=1, run=3.0, limit=8.0),
    ]
    numbered = [replace(work, name=f"{i}-{work.name}") for i, work in enumerate(found)]
    queue = Queue("default", order="easy")
    played = Played("r: a=4 b=4 c=4", numbered, queue, policy=DEEP, limits=False)
    assert played.promises == {"2-next": [2.0], "3-first": [9.0], "4-last": [2.0]}
    assert played.starts["4-last"] == 1.0


# Four GPUs.     0         5         10        13    20
#   one (2)      ██████████░░░░░░░░░░                    both end early
#   two (2)      ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░
#   wide (3)     told 20, and has room at 5
#   small (2)    told 10: it would start at 25 if `wide` did


@pytest.mark.parametrize(("priority", "starts", "told"), [(0, "small", 13.0), (1, "wide", 25.0)])
def test_only_a_higher_priority_starts_early_at_the_cost_of_those_behind(
    priority: int, starts: str, told: float
) -> None:
    here = ordered("easy", "a=4", replace(CALM, backfill=Backfill(reservations=2)))
    here.run(expected(10, task("one", 2)), expected(20, task("two", 2)))
    wide = replace(expected(20, task("wide", 3, priority=priority)), preemption_delay_s=1000.0)
    plan = here.submit(wide, expected(8, task("small", 2))).cycle(0.0)
    assert reserved(plan) == {"wide": 20.0, "small": 10.0}

    plan = here.end("one", "two").cycle(5.0)

    assert by_workload(plan) == {starts: ["a"]}
    assert reserved(plan) == {"wide" if starts == "small" else "small": told}
    here.confirm(plan)
    here.settles()


# One reservation.       0    2              10                  50
#   endless (1 of A10)   █████░░░░░ ends
#   other (1 of A10)     ████████████████████████████████████████
#   runs (2 of H100)     ████████████████████
#   first (2 of A10)     nobody knows when, and then told 50
#   next (4 of H100)     told 10


@pytest.mark.parametrize(("priority", "told"), [(0, [Reserved(10.0, 1)]), (1, [])])
def test_only_a_higher_priority_takes_over_what_was_told(
    priority: int, told: list[Reserved]
) -> None:
    """Once `first` can be booked, the only reservation is not the one of `next` any more."""
    here = ordered("easy", "h=4").join(node("a", 2, model="A10"))
    here.run(service("endless", 1, models=["A10"]), lasting(50, task("other", 1, models=["A10"])))
    here.run(lasting(10, task("runs", 2, models=["H100"])))
    first = lasting(10, task("first", 2, models=["A10"], priority=priority))
    first = replace(first, preemption_delay_s=1000.0)
    following = lasting(10, task("next", 4, models=["H100"]))
    assert reserved(here.submit(first, following).cycle(1.0)) == {"next": 10.0}

    assert reserved(here.end("endless").cycle(2.0)) == {"first": 50.0}
    plan = here.submit(lasting(20, task("long", 2, models=["H100"]))).cycle(3.0)

    assert [each for each in reasons(here, "next") if isinstance(each, Reserved)] == told
    assert by_workload(plan) == ({} if told else {"long": ["h"]})
    here.confirm(plan)
    here.settles()


def test_who_is_booked_first_moves_what_another_was_told_only_where_it_must() -> None:
    """`first` is told 10 once `endless` has ended; `next`, which was told 10, comes after it."""
    here = ordered("easy", "a=4").run(service("endless", 1), lasting(10, task("runs", 2)))
    first, following = lasting(10, task("first", 4)), lasting(10, task("next", 3))
    assert reserved(here.submit(first, following).cycle(1.0)) == {"next": 10.0}
    assert reserved(here.end("endless").cycle(5.0)) == {"first": 10.0, "next": 20.0}


def test_later_work_does_not_move_a_promise() -> None:
    """An endless stream around a giant: it starts when it was promised at first."""
    first = [Work(f"w{i}", 0.0, 1, 4, 40.0 + i) for i in range(4)]
    giant = Work("giant", 1.0, 4, 4, 20.0)
    stream = [Work(f"s{i:03}", 2.0 + i, 1, 1, 25.0) for i in range(50)]
    for order in TWINS:
        queue = Queue("default", order=order)
        played = Played("a=4 b=4 c=4 d=4 e=2", [*first, giant, *stream], queue)
        assert played.promises["giant"] == [43.0]
        assert played.starts["giant"] == 43.0
        assert min(played.starts[work.name] for work in stream) < 43.0


def test_a_node_that_joins_moves_reservations_earlier() -> None:
    here = ordered("conservative", "a=4").run(lasting(10, task("runs", 4)))
    here.submit(lasting(10, task("first", 4)), lasting(10, task("second", 4))).cycle(1.0)
    plan = here.join(node("b", 4)).cycle(2.0)
    assert by_workload(plan) == {"first": ["b"]}
    assert reserved(plan) == {"second": 10.0}


def test_a_fork_has_nothing_to_do_that_the_original_has_not() -> None:
    """It looks anew at who runs, but only once something has happened: it wakes at the same time.

    The first one is not running yet, and told so each time that somebody looks.
    """
    topology, nodes = picture("a=1")
    world = World(Engine(topology, queues=(Queue("default", order="easy"),))).join(*nodes)
    world.submit(replace(task("first", 1), run_limit_s=1000.0), task("second", 1))
    world.cycle(0.0)
    fork = world.engine.fork()

    assert world.cycle(5.0) == fork.decide(5.0)


def test_a_fork_keeps_bookings_behind_held_room_where_they_are() -> None:
    """Nothing has happened but time: the original does not look again, nor does the fork."""
    topology, nodes = picture("a=1")
    world = World(Engine(topology, queues=(Queue("default", order="easy"),))).join(*nodes)
    world.run(replace(task("low", 1), estimate_s=100.0), now=0.0)
    world.submit(replace(task("high", 1, priority=1), estimate_s=50.0))
    world.submit(replace(task("next", 1, submitted_at=1.0), estimate_s=10.0)).cycle(1.0)
    fork = world.engine.fork()

    assert world.cycle(2.0) == fork.decide(2.0)
    assert world.engine.desk.latest.of("next") == fork.desk.latest.of("next")

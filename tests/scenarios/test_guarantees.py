"""Guarantees: what a queue can count on, flavor by flavor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mooring.model.events import Ended
from mooring.model.plan import Blocked, Excluded, NoRoom, NotAllowed, OverQuota
from mooring.model.queues import EvictionRules, Flavor, Fungibility, ResourceGroup
from mooring.model.settings import Policy
from tests.build import gang, group, on, task, workload
from tests.scenarios.story import Left, Story, queue

if TYPE_CHECKING:
    from mooring.model.workload import Workload

A10 = on("a b", model="A10")


def h100(name: str, count: int, team: str) -> Workload:
    """Return a task on H100s."""
    return task(name, count, queue=team, models=["H100"])


def a10(name: str, count: int, team: str) -> Workload:
    """Return a task on A10s."""
    return task(name, count, queue=team, models=["A10"])


# -- flavors are never added together ---------------------------------------------------------


def test_borrowed_a10s_do_not_cost_a_team_its_h100_guarantee() -> None:
    """Red borrows every A10 of blue; its four H100s are still its own."""
    red, blue = queue("red", {"H100": 4, "A10": 0}), queue("blue", {"H100": 4, "A10": 8})
    story = Story("h=8 a=8", red, blue, facts=[A10])
    story.at(0, a10("borrower", 8, "red"))
    story.at(10, h100("b1", 4, "blue"), h100("b2", 4, "blue"))
    story.go(20)
    assert story.running() == ["b1", "b2", "borrower"]

    story.at(30, h100("mine", 4, "red")).go(40)

    assert story.left() == [Left(30, "b2", "quota", "mine")]
    assert story.running() == ["b1", "borrower", "mine"]
    story.rests()

    story.at(50, a10("theirs", 4, "blue")).go(60)

    assert story.left()[1:] == [Left(50, "borrower", "quota", "theirs")]
    assert story.running() == ["b1", "mine", "theirs"]
    story.rests()


def both(name: str, h100s: int, a10s: int, team: str) -> Workload:
    """Return a gang of two groups, one on H100s and one on A10s."""
    some = group("big", tasks=h100s, models=["H100"]), group("small", tasks=a10s, models=["A10"])
    return replace(workload(name, *some), queue=team)


def test_groups_on_two_flavors_are_each_charged_to_their_own() -> None:
    """Neither flavor has as many as all tasks together, nor need it have."""
    limits = {"H100": 2, "A10": 8}
    story = Story("h=4 a=8", queue("team", limits, limits), facts=[A10])
    story.at(0, both("first", 1, 6, "team")).go(10)
    assert story.running() == ["first"]

    story.at(20, both("second", 2, 1, "team"), both("third", 1, 2, "team")).go(30)
    assert story.why("second") == (OverQuota("team", "H100", "gpu", 2000, 1000),)
    assert story.running() == ["first", "third"]
    story.rests()


def test_groups_on_two_flavors_get_back_what_was_borrowed_of_each() -> None:
    """Red has one H100 and six A10s: it asks for just these."""
    red, blue = queue("red", {"H100": 1, "A10": 6}), queue("blue", {"H100": 1, "A10": 2})
    story = Story("h=2 a=8", red, blue, facts=[A10])
    story.at(0, h100("h-1", 1, "blue"), h100("h-2", 1, "blue"))
    story.at(0, a10("a-1", 2, "blue"), a10("a-2", 6, "blue"))
    story.at(10, both("mine", 1, 6, "red")).go(20)

    assert sorted(left.workload for left in story.left()) == ["a-2", "h-2"]
    assert story.running() == ["a-1", "h-1", "mine"]
    story.rests()


# -- strict order -----------------------------------------------------------------------------


def test_strict_fifo_does_not_block_another_flavor() -> None:
    """The head waits for H100s; only what wants H100s waits behind it."""
    strict = queue("team", {"H100": 8, "A10": 8}, order="strict")
    story = Story("h=8 a=8", strict, facts=[A10])
    story.at(0, h100("first", 4, "team"))
    story.at(1, h100("head", 8, "team"))
    story.at(2, h100("small", 1, "team"), a10("other", 8, "team"))
    story.at(3, task("any", 1, queue="team"))
    story.go(10)

    assert story.running() == ["first", "other"]
    assert story.why("small") == (Blocked("head"),)
    assert story.why("any") == (Blocked("head"),)
    story.rests()


@pytest.mark.parametrize("order", ["strict", "backfill"])
def test_a_limit_over_all_flavors_is_kept_for_whom_waits_first(order: str) -> None:
    """Small tasks on A10s come without end; the head starts when two of its H100s are over.

    Of a limit of four, one is left when the head comes: whoever takes it takes it from the head.
    """
    story = Story("h=8 a=8", queue("team", 0, 4, order=order), facts=[A10])
    story.at(0, h100("first", 2, "team"), h100("second", 1, "team"), runs=100)
    story.at(1, h100("head", 4, "team"), runs=100)
    for number in range(30):
        story.at(2 + 20 * number, a10(f"small-{number}", 1, "team"), runs=90)
    story.go(150)

    assert story.running() == ["head"]


def test_who_is_kept_off_one_flavor_and_over_quota_on_another_is_told_both() -> None:
    """Nobody ends when the head gives up; yet the one behind it has its nodes then."""
    story = Story("h=8 a=4", queue("team", {"H100": 1}, {"H100": 1}, order="strict"), facts=[A10])
    story.at(0, h100("first", 1, "team"), a10("second", 3, "team"))
    story.at(1, a10("head", 2, "team"))
    story.at(2, task("any", 1, queue="team")).go(10)
    over = OverQuota("team", "H100", "gpu", 1000, 0)
    assert story.why("any") == (over, Blocked("head"))

    story.tell(20, Ended("head")).go(30)
    assert story.running() == ["any", "first", "second"]
    story.rests()


def test_who_leaves_enough_of_a_limit_over_all_flavors_may_pass() -> None:
    """The head waits for room, and one of the limit is left over when it has got its own."""
    story = Story("h=4 a=8", queue("team", 0, 6, order="strict"), facts=[A10])
    story.at(0, h100("first", 3, "team"))
    story.at(1, h100("head", 2, "team"))
    story.at(2, a10("one", 1, "team"), a10("two", 1, "team")).go(10)

    assert story.running() == ["first", "one"]
    assert story.why("two") == (Blocked("head"),)
    story.rests()


# Five devices on one node: only the H100s come by so many.


@pytest.mark.parametrize("rules", [{"order": "strict"}, {"bypass_limit": 0}], ids=str)
@pytest.mark.parametrize(
    ("nodes", "quota", "head"),
    [
        ("h=8 a=4 b=4", None, task("head", 5, queue="team")),
        ("h=8 a=8", {"H100": 8, "A10": 4}, task("head", 5, queue="team")),
        ("h=10 a=3 b=3", None, gang("head", tasks=10, gpus=1, queue="team")),
    ],
    ids=["too few on a node", "beyond the limit", "of two models"],
)
def test_a_head_does_not_block_what_it_could_not_use_if_nothing_ran(
    rules: dict[str, Any], nodes: str, quota: dict[str, int] | None, head: Workload
) -> None:
    team = queue("team", quota or 0, quota, **rules)
    story = Story(nodes, team, facts=[A10])
    story.at(0, h100("first", 4, "team"))
    story.at(1, head)
    story.at(2, h100("small", 1, "team"), a10("other", 1, "team"))
    story.at(3, task("cpu", 0, queue="team"))
    story.go(10)

    assert story.running() == ["cpu", "first", "other"]
    assert story.nodes("cpu")[0] in ("a", "b")
    assert story.why("small") == (Blocked("head"),)
    story.rests()


def test_the_one_who_is_told_to_be_in_the_way_is_in_the_way() -> None:
    """Before `small` stand one that needs H100s and one that would take either."""
    story = Story("h=4 a=4", queue("team", 8, order="strict"), facts=[A10])
    story.at(0, h100("h", 2, "team"), a10("a", 2, "team"))
    story.at(1, h100("big", 4, "team")).at(2, task("either", 4, queue="team"))
    story.at(3, a10("small", 1, "team"))
    story.go(10)

    assert story.why("either") == (Blocked("big"),)
    assert story.why("small") == (Blocked("either"),)
    story.rests()


def test_strict_fifo_lets_another_flavor_be_reclaimed() -> None:
    """Behind a head that waits for H100s, the team still gets its A10s back from a borrower."""
    strict = queue("team", {"H100": 8, "A10": 8}, order="strict")
    story = Story("h=8 a=8", strict, queue("guests", {"H100": 0, "A10": 0}), facts=[A10])
    story.at(0, replace(h100("first", 4, "team"), preemptible=False))
    story.at(0, a10("guest", 8, "guests"))
    story.at(1, h100("head", 8, "team"))
    story.at(2, a10("other", 8, "team"))
    story.go(10)

    assert story.left() == [Left(2, "guest", "quota", "other")]
    assert story.running() == ["first", "other"]
    story.rests()


def test_one_who_may_not_start_blocks_nobody_in_strict_order() -> None:
    """A head that is switched off, or can never be charged, is not waited for."""
    strict = queue("team", 4, 8, order="strict", users=("ada",))
    story = Story("a=16", strict)
    ada = [replace(task(name, 2, queue="team"), user="ada") for name in ("off", "t", "u")]
    story.at(0, replace(ada[0], active=False))
    story.at(1, replace(task("huge", 12, queue="team"), user="ada"))
    story.at(2, task("stranger", 2, queue="team"))
    story.at(3, *ada[1:])
    story.go(10)

    assert story.running() == ["t", "u"]
    assert isinstance(story.why("huge")[0], OverQuota)
    story.rests()


def test_one_who_waits_for_one_flavor_is_not_told_that_another_could_never_do() -> None:
    """Two of the four H100s are in use; of A10s the team never has more than two."""
    story = Story("h=4 a=4", queue("team", {"H100": 4, "A10": 2}, {"A10": 2}), facts=[A10])
    story.at(0, h100("first", 2, "team")).at(1, task("big", 4, queue="team")).go(10)
    room = (
        NoRoom("main", "cluster", 1, 0),
        Excluded("main", "quota", 1),
        Excluded("main", "gpu", 1),
    )
    assert story.why("big") == room
    story.rests()


def test_what_is_not_preemptible_and_above_quota_never_starts_and_blocks_nobody() -> None:
    story = Story("a=4", queue("team", 2, order="strict"))
    fixed = replace(task("fixed", 3, queue="team"), preemptible=False)
    story.at(0, fixed).at(1, task("other", 1, queue="team")).go(10)
    assert story.why("fixed") == (OverQuota("team", "", "gpu", 3000, 2000, ever=False, fixed=True),)
    assert story.running() == ["other"]
    story.rests()


def test_what_is_not_preemptible_waits_for_quota_that_others_of_its_kind_use() -> None:
    story = Story("a=4", queue("team", 2))
    first, second = (replace(task(n, 2, queue="team"), preemptible=False) for n in ("one", "two"))
    story.at(0, first, runs=20).at(1, second).go(10)
    assert story.why("two") == (OverQuota("team", "", "gpu", 2000, 0, ever=True, fixed=True),)
    assert story.go(30).running() == ["two"]


# -- unlike devices ---------------------------------------------------------------------------

PRICES = Policy(flavors=(Flavor("H100", price=4.0), Flavor("A10", price=1.0)))


def test_a_quota_over_all_flavors_counts_each_device_at_its_price() -> None:
    """16 points are four H100s or sixteen A10s; who used them up has to make room."""
    red, blue = queue("red", 16, 16), queue("blue", 16)
    story = Story("h=8 a=8 b=8", red, blue, facts=[A10], policy=PRICES)
    story.at(0, h100("four", 4, "red"))
    story.at(1, a10("more", 1, "red"))
    story.at(2, *(h100(f"blue-{i}", 2, "blue") for i in range(2)))
    story.go(10)

    assert story.running() == ["blue-0", "blue-1", "four"]
    assert story.why("more") == (OverQuota("red", "", "gpu", 1000, 0),)
    story.rests()


@pytest.mark.parametrize(("policy", "blue"), [(PRICES, 8), (Policy(), 4)], ids=["price", "model"])
def test_the_surplus_of_unlike_devices_is_shared_by_price(policy: Policy, blue: int) -> None:
    """Red's H100s are worth all A10s, which blue may have; without prices it has half of them."""
    story = Story("h=4 a=8 b=8", queue("red"), queue("blue"), facts=[A10], policy=policy)
    story.at(0, h100("r1", 4, "red"))
    story.at(1, *(a10(f"r-{i}", 2, "red") for i in range(8)))
    story.at(1, *(a10(f"b-{i}", 2, "blue") for i in range(8)))
    story.go(10)

    assert sum(name.startswith("b-") for name in story.running()) == blue
    assert len(story.running()) == 9
    story.rests()


# -- who may use a queue ----------------------------------------------------------------------


def test_a_queue_is_only_for_its_namespaces_and_users() -> None:
    """Strangers wait, whatever is free, and nobody of the team waits behind them."""
    vision = queue("vision", 8, namespaces=("vision",), users=("ada", "grace"))
    story = Story("a=8", vision, queue("other"))
    mine = replace(task("mine", 2, queue="vision"), namespace="vision", user="ada")
    story.at(0, replace(mine, name="elsewhere", namespace="speech"))
    story.at(1, replace(mine, name="stranger", user="eve"))
    story.at(2, mine)
    story.at(3, task("nobody", 2, queue="vision"))
    story.go(10)

    assert story.running() == ["mine"]
    assert story.why("elsewhere") == (NotAllowed("vision", "namespace", "speech"),)
    assert story.why("stranger") == (NotAllowed("vision", "user", "eve"),)
    assert story.why("nobody") == (NotAllowed("vision", "namespace", ""),)
    story.rests()


def test_a_queue_above_keeps_strangers_out_of_all_queues_below() -> None:
    org = queue("org", 8, namespaces=("lab",))
    team = queue("team", 8, parent="org")
    story = Story("a=8", org, team)
    story.at(0, replace(gang("in", queue="team"), namespace="lab"))
    story.at(1, replace(gang("out", queue="team"), namespace="shop"))
    story.go(10)

    assert story.running() == ["in"]
    assert story.why("out") == (NotAllowed("org", "namespace", "shop"),)
    story.rests()


# -- work that cannot be made to leave ----------------------------------------------------------


def test_what_cannot_be_made_to_leave_only_uses_quota() -> None:
    """Also under a queue that says nothing: it has what the queues below it have."""
    story = Story("a=8", queue("org"), queue("team", 4, parent="org"), queue("other", 4))
    for i in range(3):
        fixed = replace(task(f"fixed-{i}", 2, queue="team"), preemptible=False)
        story.at(i, fixed)
    story.at(5, task("plain", 2, queue="team")).go(10)

    assert story.running() == ["fixed-0", "fixed-1", "plain"]
    assert story.why("fixed-2") == (OverQuota("team", "", "gpu", 2000, 0, fixed=True),)
    story.rests()


# -- rules of a queue above -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "own", "leaves"),
    [
        (EvictionRules(), EvictionRules(), True),
        (EvictionRules(reclaim="never"), EvictionRules(), False),
        (EvictionRules(reclaim="never"), EvictionRules(within_queue="never"), False),
        (EvictionRules(reclaim="never"), EvictionRules(reclaim="any"), True),
        (EvictionRules(within_queue="never"), EvictionRules(), True),
    ],
    ids=["nothing is said", "above", "each rule by itself", "the nearest counts", "another rule"],
)
def test_whom_a_queue_evicts_is_said_by_the_nearest_queue(
    above: EvictionRules, own: EvictionRules, leaves: bool
) -> None:
    """A team would take back its quota from a guest; its department has something to say."""
    tree = (
        queue("org", eviction=above),
        queue("team", 8, parent="org", eviction=own),
        queue("guest"),
    )
    story = Story("a=8", *tree)
    story.at(0, task("g", 8, queue="guest")).at(10, task("mine", 8, queue="team")).go(20)

    assert story.running() == (["mine"] if leaves else ["g"])
    story.rests()


def test_a_department_forbids_preemption_in_its_teams() -> None:
    org = queue("org", eviction=EvictionRules(within_queue="never"))
    story = Story("a=8", org, queue("team", 8, parent="org"))
    story.at(0, task("low", 8, queue="team"))
    story.at(10, task("high", 8, queue="team", priority=1)).go(20)

    assert story.running() == ["low"]
    story.rests()


@pytest.mark.parametrize(("profile", "running"), [("kueue", "g"), ("kai", "mine")])
def test_other_profiles_know_no_rules_of_a_queue_above(profile: str, running: str) -> None:
    """In kueue a queue that says nothing reclaims nothing; in kai whoever has quota does."""
    org = queue("org", eviction=EvictionRules(reclaim="any" if profile == "kueue" else "never"))
    tree = (org, queue("team", 8, parent="org"), queue("guest", 0, parent="org"))
    story = Story("a=8", *tree, policy=Policy(profile=profile))
    story.at(0, task("g", 8, queue="guest")).at(10, task("mine", 8, queue="team")).go(200)

    assert story.running() == [running]


# -- the price of a flavor ------------------------------------------------------------------


# wide: the rule, and where that leads
@pytest.mark.parametrize(
    ("quota", "rules", "flavor", "left"),
    [
        # Its own A10s are lent to another, and H100s are free within quota.
        ({"A10": 8, "H100": 8}, Fungibility(), "H100", []),
        ({"A10": 8, "H100": 8}, Fungibility(when_preempting="stop"), "A10", ["g"]),
        ({"A10": 8, "H100": 8}, Fungibility("next", "next", "preempting"), "H100", []),
        # H100s could only be borrowed.
        ({"A10": 8, "H100": 0}, Fungibility(), "H100", []),
        ({"A10": 8, "H100": 0}, Fungibility("next"), "H100", []),
        ({"A10": 8, "H100": 0}, Fungibility("next", "stop"), "A10", ["g"]),
        ({"A10": 8, "H100": 0}, Fungibility("next", "next", "preempting"), "A10", ["g"]),
        # Of both there is no quota: nobody can be evicted, and H100s are borrowed.
        ({"A10": 0, "H100": 0}, Fungibility("next", "stop"), "H100", []),
        ({"A10": 0, "H100": 0}, Fungibility("stop", "stop"), "H100", []),
    ],
)
def test_a_flavor_at_a_price_or_the_next(
    quota: dict[str, int], rules: Fungibility, flavor: str, left: list[str]
) -> None:
    """A10s come first; a guest has them all."""
    groups = (ResourceGroup(("gpu",), ("A10", "H100")),)
    team = queue("team", quota, groups=groups, fungibility=rules)
    guest = queue("guest", {"A10": 0}, groups=(ResourceGroup(("gpu",), ("A10",)),))
    story = Story("a=8 b=8", team, guest, facts=[on("a", model="A10")])
    story.at(0, task("g", 8, queue="guest")).at(10, task("t", 8, queue="team")).go(60)

    assert story.nodes("t") == ["a" if flavor == "A10" else "b"]
    assert [each.workload for each in story.left()] == left
    story.rests()

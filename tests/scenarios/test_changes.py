"""Changes: priorities, quotas, weights and whole queues are edited while work runs."""

from __future__ import annotations

from dataclasses import replace

from mooring.model.events import PolicyChanged, QueuesChanged, WorkloadChanged
from mooring.model.plan import Unknown
from mooring.model.settings import Policy
from tests.build import gang, task
from tests.scenarios.story import Left, Story, queue

CLASSES = Policy(priority_classes=(("low", 0), ("high", 10)))


# -- priority -----------------------------------------------------------------------------------


def test_a_priority_raised_while_waiting_moves_it_in_line() -> None:
    story = Story("a=8")
    story.at(0, replace(task("runs", 8), preemptible=False), runs=100)
    story.at(1, task("first", 8)).at(2, task("second", 8))
    story.tell(50, WorkloadChanged(replace(task("second", 8, priority=5), submitted_at=2)))
    story.go(200)

    assert story.starts("second") == [100]
    assert story.waiting() == ["first"]
    story.rests()


def test_a_priority_raised_while_waiting_may_make_others_leave() -> None:
    story = Story("a=8")
    story.at(0, task("runs", 8)).at(2, task("second", 8))
    story.tell(50, WorkloadChanged(replace(task("second", 8, priority=5), submitted_at=2)))
    story.go(200)

    assert story.left() == [Left(50, "runs", "preempt", "second")]
    assert story.running() == ["second"]
    story.rests()


def test_a_class_raised_in_the_policy_moves_all_of_it_in_line() -> None:
    story = Story("a=8", policy=CLASSES)
    low, high = (replace(task(name, 8), priority_class=name) for name in ("low", "high"))
    story.at(0, replace(task("runs", 8), preemptible=False, priority=20), runs=100)
    story.at(1, high).at(2, low)
    story.tell(50, PolicyChanged(replace(CLASSES, priority_classes=(("low", 30), ("high", 10)))))
    story.go(99)
    assert story.waiting() == ["high", "low"]
    story.go(200)

    assert story.running() == ["low"]
    story.rests()


def test_a_class_lowered_in_the_policy_exposes_what_runs() -> None:
    story = Story("a=8", policy=CLASSES)
    story.at(0, replace(task("runs", 8), priority_class="high"))
    story.at(1, task("waits", 8, priority=5))
    story.go(40)
    assert story.left() == []

    story.tell(50, PolicyChanged(replace(CLASSES, priority_classes=(("high", 1),)))).go(60)

    assert story.left() == [Left(50, "runs", "preempt", "waits")]
    story.rests()


# -- the tree -----------------------------------------------------------------------------------


def test_a_smaller_quota_exposes_what_it_covered() -> None:
    """Red had 8 and keeps 4: half of its work is borrowed now, and blue, who has 4, takes it."""
    story = Story("a=8", queue("red", 8), queue("blue"))
    story.at(0, *(task(f"r{i}", 2, queue="red") for i in range(4)))
    story.at(10, *(task(f"b{i}", 2, queue="blue") for i in range(3)))
    story.go(20)
    assert story.running() == ["r0", "r1", "r2", "r3"]

    story.tell(30, QueuesChanged((queue("red", 4), queue("blue", 4)))).go(40)

    assert sorted(story.running()) == ["b0", "b1", "r0", "r1"]
    assert {each.cause for each in story.left()} == {"quota"}
    story.rests()


def test_a_smaller_limit_lets_what_runs_finish_and_nothing_new_start() -> None:
    story = Story("a=8", queue("team", 4, 8))
    story.at(0, task("t1", 4, queue="team"), runs=100).at(1, task("t2", 4, queue="team"), runs=300)
    story.tell(50, QueuesChanged((queue("team", 4, 4),)))
    story.at(60, task("t3", 4, queue="team"))
    story.go(200)
    assert story.running() == ["t2"]
    assert story.left() == []

    story.go(400)
    assert story.starts("t3") == [301]
    story.rests()


def test_a_moved_queue_takes_its_charge_along() -> None:
    """The team goes from one division to the other, whose quota then covers it."""
    old, new = queue("old", 4), queue("new", 8)
    team, rival = queue("team", parent="old"), queue("rival", parent="old")
    story = Story("a=16", old, new, team, rival, queue("others"))
    story.at(0, task("t", 8, queue="team")).at(1, task("o", 8, queue="others"))
    story.go(10)
    story.tell(20, QueuesChanged((old, new, replace(team, parent="new"), rival, queue("others"))))
    story.at(30, task("r", 4, queue="rival"))
    story.go(40)

    assert story.left() == [Left(30, "o", "quota", "r")]
    assert story.running() == ["r", "t"]
    assert story.engine.books.usage_of[story.engine.books.queue("new")][0] == 8000
    story.rests()


def test_a_removed_queue_starts_nothing_and_leaves_its_running_work_in_peace() -> None:
    """It has nothing left to count on; whoever has quota may ask it to leave."""
    story = Story("a=8", queue("gone", 4), queue("stays", 4))
    story.at(0, task("g1", 4, queue="gone"), task("s1", 4, queue="stays"))
    story.at(1, task("g2", 4, queue="gone"))
    story.go(10)
    assert story.running() == ["g1", "s1"]

    story.tell(20, QueuesChanged((queue("stays", 8),))).go(50)
    assert story.running() == ["g1", "s1"]
    assert story.why("g2") == (Unknown("", "queue", "gone"),)
    story.rests()

    story.at(60, task("s2", 4, queue="stays")).go(70)
    assert story.left() == [Left(60, "g1", "quota", "s2")]
    assert story.why("g1") == (Unknown("", "queue", "gone"),)
    story.rests()

    story.tell(80, QueuesChanged((queue("stays", 4), queue("gone", 4)))).go(90)
    assert story.left()[1:] == [Left(80, "s2", "quota", "g1")]
    assert story.running() == ["g1", "s1"]
    story.rests()


def test_a_changed_weight_moves_the_surplus() -> None:
    """From one each to three to one, as soon as minimum run times allow."""
    red, blue = queue("red"), queue("blue")
    story = Story("a=8", red, blue)
    story.at(0, *(task(f"r{i}", 1, queue="red") for i in range(8)))
    story.at(0, *(task(f"b{i}", 1, queue="blue") for i in range(8)))
    story.go(10)
    assert [sum(name.startswith(c) for name in story.running()) for c in "rb"] == [4, 4]

    story.tell(100, QueuesChanged((replace(red, weight=3.0), blue))).go(5000)

    assert [sum(name.startswith(c) for name in story.running()) for c in "rb"] == [6, 2]
    assert {each.at for each in story.left()} == {900.0}
    story.rests()


def test_a_workload_may_change_its_queue_while_it_runs() -> None:
    """It leaves the guests for the team, and is safe there."""
    story = Story("a=8", queue("team", 8), queue("guests"))
    moved = task("moved", 4, queue="guests")
    story.at(0, moved).at(0, task("guest", 4, queue="guests"))
    story.tell(10, WorkloadChanged(replace(moved, queue="team")))
    story.at(20, gang("t", tasks=4, queue="team"))
    story.go(30)

    assert story.left() == [Left(20, "guest", "quota", "t")]
    assert story.running() == ["moved", "t"]
    story.rests()

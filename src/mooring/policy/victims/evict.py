"""Making room: the parts that every profile's search for victims is made of.

A profile says which sets of victims are worth a look, in which order, and whether they are legal.
Here a set is proven (the one it is for has a place once they are gone), trimmed, and carried out:
nothing is evicted before the place of the beneficiary is known, and that place is kept for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.model.entry import NOWHERE, Entry
from mooring.model.workload import TaskState
from mooring.policy.placing.search import CutShortError, place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.model.demand import Demand
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Ask
    from mooring.policy.placing.place import Seats
    from mooring.policy.queues.offers import Offer

ASSUMED, RUNNING = int(TaskState.ASSUMED), int(TaskState.RUNNING)
Tasks = tuple[tuple[str, int], ...]
"""(group, task) pairs of one workload."""


@dataclass(slots=True, eq=False)
class Victim:
    """What may have to leave as one: a whole workload, or a unit above its minimum.

    Nobody changes one; it is not frozen because there may be very many to make.
    """

    entry: Entry
    tasks: Tasks
    cause: str
    unit: int = 0
    """0: its minimum, with which all of it leaves."""

    @property
    def name(self) -> tuple[str, int]:
        """Return what it is known by: its workload, and the number of the unit."""
        return self.entry.workload.name, self.unit

    @property
    def is_whole(self) -> bool:
        """Return whether nothing of the workload would stay."""
        return len(self.tasks) == sum([m.staying_count for m in self.entry.members.values()])


def whole(entry: Entry, cause: str) -> Victim:
    """Return a workload as one victim."""
    tasks = tuple((name, t) for name, members in entry.members.items() for t in members.staying())
    return Victim(entry, tasks, cause)


def outgoing(desk: Desk, ask: Ask) -> list[Victim]:
    """Return all on their way out who leave room that an ask could use.

    Those are left out who take longer than room is kept.
    """
    with_devices = all(leaf.demand and leaf.demand.shape.gpus for leaf in ask.leaves)
    tasks: dict[str, list[tuple[str, int]]] = {}
    for key in desk.departures.unclaimed(with_devices=with_devices):
        name, group, task = key
        if desk.now < desk.departures.since[key] + desk.policy.eviction.hold_s:
            tasks.setdefault(name, []).append((group, task))
    return [Victim(desk.entries[name], tuple(sorted(tasks[name])), "") for name in sorted(tasks)]


def patience_ends(desk: Desk) -> float:
    """Return when the first of those who are on their way out takes longer than that."""
    keeps = desk.policy.eviction.hold_s
    times = (since + keeps for since in desk.departures.since.values())
    return min((time for time in times if time > desk.now), default=float("inf"))


def in_the_way(desk: Desk, victims: Sequence[Victim], seats: Sequence[Seats]) -> list[Victim]:
    """Return those of the victims that have tasks on the nodes of some seats."""
    rows = {row for each in seats for row in each.rows}
    return [
        victim
        for victim in victims
        if any(victim.entry.members[group].rows[task] in rows for group, task in victim.tasks)
    ]


def remove(desk: Desk, victim: Victim) -> None:
    """Take a victim out of the books; only ever between a checkpoint and a rollback."""
    entry = victim.entry
    desk.promises.withdraw(victim)
    for name, members in entry.members.items():
        tasks = [task for group, task in victim.tasks if group == name]
        tasks = [task for task in tasks if members.rows[task] != NOWHERE]
        if not tasks:
            continue
        rows = [members.rows[task] for task in tasks]
        devices = [members.devices[task] for task in tasks]
        leaving = [members.rows[t] for t in tasks if members.states[t] == TaskState.RELEASING]
        desk.books.end_release(members.demand, leaving, entry.account, members.flavor)
        desk.books.give(members.demand, rows, devices, entry.account, members.flavor)
        for task in tasks if entry.workload.semi_preemptible else ():
            desk.books.miss((entry.workload.name, name, task), 1)


def remove_each(desk: Desk, victims: Sequence[Victim]) -> None:
    """Take victims out of the books, wherever they are; those who just run, at once."""
    plain: list[Victim] = []
    for victim in victims:
        if _just_runs(victim):
            plain.append(victim)
        else:
            remove(desk, victim)
    remove_all(desk, plain)


def _just_runs(victim: Victim) -> bool:
    """Return whether all tasks of a victim have a place and none is on its way out."""
    if victim.entry.workload.semi_preemptible:
        return False
    for group, task in victim.tasks:
        members = victim.entry.members[group]
        if not ASSUMED <= members.states[task] <= RUNNING or members.rows[task] == NOWHERE:
            return False
    return True


def remove_all(desk: Desk, victims: Sequence[Victim]) -> None:
    """Take victims who are not on their way out from the books, alike ones at once."""
    alike: dict[tuple[Demand, int, int], tuple[list[int], list[int]]] = {}
    for victim in victims:
        entry = victim.entry
        desk.promises.withdraw(victim)
        account = entry.account
        for group, task in victim.tasks:
            members = entry.members[group]
            key = (members.demand, account, members.flavor)
            known = alike.get(key)
            if known is None:
                known = alike[key] = ([], [])
            known[0].append(members.rows[task])
            known[1].append(members.devices[task])
    for (demand, account, flavor), (rows, devices) in alike.items():
        desk.books.give(demand, rows, devices, account, flavor)


def restore(desk: Desk, victim: Victim) -> None:
    """Put a victim that was removed back where it was."""
    entry = victim.entry
    desk.promises.withdraw(victim, -1)
    for name, members in entry.members.items():
        tasks = [task for group, task in victim.tasks if group == name]
        tasks = [task for task in tasks if members.rows[task] != NOWHERE]
        if not tasks:
            continue
        rows = [members.rows[task] for task in tasks]
        devices = [members.devices[task] for task in tasks]
        desk.books.take(members.demand, rows, devices, entry.account, members.flavor)
        leaving = [members.rows[t] for t in tasks if members.states[t] == TaskState.RELEASING]
        desk.books.begin_release(members.demand, leaving, entry.account, members.flavor)
        for task in tasks if entry.workload.semi_preemptible else ():
            desk.books.miss((entry.workload.name, name, task), -1)


def prove(desk: Desk, entry: Entry, offer: Offer, victims: Sequence[Victim]) -> list[Seats] | None:
    """Return where a workload would start if the victims were gone; nothing stays booked."""
    mark = desk.books.checkpoint()
    for victim in victims:
        remove(desk, victim)
    seats = attempt(desk, entry, offer)
    desk.books.rollback(mark)
    return seats


def attempt(desk: Desk, entry: Entry, offer: Offer) -> list[Seats] | None:
    """Book a place for a workload as offered; None: there is none, or not within the bound."""
    mark = desk.books.checkpoint()
    desk.placer.aim(offer.ask.avoid, offer.barred)
    try:
        return place(desk.placer, offer.ask, entry.account)
    except CutShortError:
        desk.books.rollback(mark)
        return None


def trim(victims: list[Victim], suffices: Callable[[list[Victim]], bool]) -> list[Victim]:
    """Put back, in this order, every victim without which the rest still suffices."""
    left = list(victims)
    for victim in victims:
        without = [other for other in left if other is not victim]
        if suffices(without):
            left = without
    return left


# wide: who leaves for whom, and where that one goes
def carry_out(
    desk: Desk,
    entry: Entry,
    seats: Sequence[Seats],
    victims: Sequence[Victim],
    others: Sequence[Victim] = (),
    which: Sequence[Sequence[int]] = (),
) -> None:
    """Let the victims leave and keep the place of the one that they leave for.

    It does not start before `others` have left too, who are on their way out already. `which`
    names the tasks of each of the seats; left out: the first ones that wait.
    """
    name = entry.workload.name
    leaving = [(other.entry.workload.name, *task) for other in others for task in other.tasks]
    for victim in victims:
        if victim.is_whole:
            desk.note_leaving(victim.entry, victim.cause)
    leaving += desk.evict_many(victims, name)
    desk.holds.keep(entry, seats, leaving, which)

"""The places of a workload's tasks in the books: taken off, put on again, given up for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.model.books import BY_NODE
from mooring.model.entry import NOWHERE
from mooring.model.workload import TaskState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.model.books import Books
    from mooring.model.entry import Entry, Members
    from mooring.policy.desk import Desk

PENDING, RELEASING = int(TaskState.PENDING), int(TaskState.RELEASING)


def take_off(books: Books, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
    """Take tasks out of the books for a moment, also those that are on their way out."""
    if len(tasks) == 1 and members.states[tasks[0]] == RELEASING:
        books.depart(members.demand, members.rows[tasks[0]], members.devices[tasks[0]])
        return
    leaving = [members.rows[t] for t in tasks if members.states[t] == TaskState.RELEASING]
    if leaving:
        books.end_release(members.demand, leaving, entry.account, members.flavor)
    rows = [members.rows[task] for task in tasks]
    devices = [members.devices[task] for task in tasks]
    books.give(members.demand, rows, devices, entry.account, members.flavor)


def put_on(books: Books, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
    """Book tasks again where they are."""
    rows = [members.rows[task] for task in tasks]
    devices = [members.devices[task] for task in tasks]
    books.take(members.demand, rows, devices, entry.account, members.flavor)
    leaving = [members.rows[t] for t in tasks if members.states[t] == TaskState.RELEASING]
    books.begin_release(members.demand, leaving, entry.account, members.flavor)


def charge_whole(books: Books, entry: Entry, sign: int) -> None:
    """Charge (or refund) a workload whose places are not known."""
    for members in entry.members.values():
        count = sign * members.group.min
        books.charge(members.demand, count, entry.account, members.flavor)


def note_freed(desk: Desk, entry: Entry) -> None:
    """Note what becomes free by itself, now that a workload is over."""
    books = desk.books
    for members in entry.members.values():
        for task in members.staying():
            row = members.rows[task]
            if row != NOWHERE:
                flavor = books.flavor_name(books.kind_of[row])
                desk.flow.free(flavor, members.demand.weight - 1, 1)


def vacate(desk: Desk, entry: Entry, members: Members, tasks: Sequence[int]) -> None:
    """Free the places of tasks; they are pending then."""
    tasks = [task for task in tasks if members.rows[task] != NOWHERE]
    if not tasks:
        return
    take_off(desk.books, entry, members, tasks)
    for task in tasks:
        members.rows[task] = NOWHERE
        members.devices[task] = 0
        members.states[task] = PENDING
    if not any(each.is_holding for each in entry.members.values()):
        for each in entry.members.values():  # a group alone may come back, as what it was
            each.flavor = BY_NODE
    desk.note_move(entry)
    desk.holds.gone(entry, members, tasks)

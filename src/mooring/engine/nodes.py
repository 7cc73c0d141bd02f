"""Facts about nodes: who came, changed or left, let into the books only when somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.engine import check
from mooring.engine.places import put_on, take_off, vacate
from mooring.model.entry import NOWHERE

if TYPE_CHECKING:
    from mooring.engine.needs import Needs
    from mooring.model.cluster import Node
    from mooring.model.columns import Ints
    from mooring.model.entry import Entry, Members
    from mooring.policy.desk import Desk


class Nodes:
    """The nodes of one desk."""

    def __init__(self, desk: Desk, needs: Needs) -> None:
        self.desk = desk
        self.needs = needs
        self._news: dict[str, Node | None] = {}
        """Nodes that came, changed or left (None) since the books were last told."""

    def note(self, node: Node) -> None:
        """Note that a node is there, and what it is like.

        News of one node are let in one after another: else what becomes of others, and of room kept
        there, would depend on whether somebody looked in between.
        """
        check.check_node(node)
        if node.name in self._news:
            self.settle()
        books = self.desk.books
        row = books.row_of.get(node.name)
        known = row is not None and books.present[row] and books.nodes[row] == node
        if not known:
            self._news[node.name] = node

    def lose(self, name: str) -> None:
        """Note that a node is gone, and all that was on it."""
        self.settle()
        books = self.desk.books
        row = books.row_of.get(name)
        if row is None or not books.present[row]:
            raise check.EventError(f"there is no node {name}")
        for entry in self.desk.entries.values():
            lost = False
            for members in entry.members.values():
                tasks = [task for task, at in enumerate(members.rows) if at == row]
                vacate(self.desk, entry, members, tasks)
                lost |= bool(tasks)
            if lost:
                self.needs.look_after(entry, "lost-node")
        self._news[name] = None

    def known(self) -> list[Node]:
        """Return all nodes, with those that the books have not been told of yet."""
        books = self.desk.books
        known: dict[str, Node | None] = {
            node.name: node for row, node in enumerate(books.nodes) if books.present[row]
        }
        return [node for node in (known | self._news).values() if node is not None]

    def settle(self) -> None:
        """Let the nodes that came, changed or left since the last look into the books."""
        if not self._news:
            return
        desk, books = self.desk, self.desk.books
        changed = [node for node in self._news.values() if node is not None]
        gone = [name for name, node in self._news.items() if node is None]
        self._news.clear()
        moving = self._lift(changed)
        moved = books.set_nodes(changed, gone)
        if moved is not None:
            self._renumber(moved)
        for entry, members, tasks in moving:
            put_on(books, entry, members, tasks)
            desk.note_move(entry)
        back = {node.name for node in changed}
        for entry in desk.entries.values():
            if entry.refused and back.intersection(entry.refused):
                self.needs.avoid(entry, tuple(n for n in entry.refused if n not in back))
        desk.mind_pairs()
        self._mind_holds({*back, *gone})
        books.commit()

    def _lift(self, changed: list[Node]) -> list[tuple[Entry, Members, list[int]]]:
        """Take tasks off nodes whose flavor or device memory changes: they are booked anew."""
        books, rows = self.desk.books, set()
        for node in changed:
            row = books.row_of.get(node.name)
            if row is None or not books.used_of[-1][row]:
                continue
            old = books.nodes[row]
            memory = [d.memory for d in old.devices] != [d.memory for d in node.devices]
            if memory or old.gpu_model != node.gpu_model:
                rows.add(row)
        lifted = []
        for entry in self.desk.entries.values() if rows else ():
            for members in entry.members.values():
                tasks = [task for task, row in enumerate(members.rows) if row in rows]
                if tasks:
                    lifted.append((entry, members, tasks))
                    take_off(books, entry, members, tasks)
        return lifted

    def _renumber(self, moved: Ints) -> None:
        """Follow the rows of the books, which move when nodes join."""
        row_of = moved.tolist()
        for entry in self.desk.entries.values():
            for members in entry.members.values():
                members.rows = [row if row == NOWHERE else row_of[row] for row in members.rows]
        for hold in self.desk.holds.values():
            for _, seats in hold.seats:
                seats.rows[:] = [row_of[row] for row in seats.rows]

    def _mind_holds(self, nodes: set[str]) -> None:
        """Give up room kept on nodes that have changed so that it will not do any more."""
        names, desk = self.desk.books.tree.names[-1], self.desk
        for name, hold in list(desk.holds.items()):
            rows = [row for _, seats in hold.seats for row in seats.rows]
            if nodes.intersection(names[row] for row in rows) and not desk.holds.is_sound(name):
                self.needs.give_up(name)

    def copy(self, desk: Desk, needs: Needs) -> Nodes:
        """Return the nodes of a fork."""
        new = Nodes(desk, needs)
        new._news = dict(self._news)
        return new

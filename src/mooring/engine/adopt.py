"""Work that was found running, where not all is said: devices, or even where it is, are assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.engine.check import EventError, has_devices
from mooring.model.books import BY_NODE
from mooring.model.workload import Placement
from mooring.policy.placing.ask import compile_ask
from mooring.policy.placing.devices import choose_devices
from mooring.policy.placing.fit import copies
from mooring.policy.placing.search import CutShortError, place

if TYPE_CHECKING:
    from mooring.model.events import Adopted
    from mooring.policy.desk import Desk
    from mooring.policy.placing.ask import Part


def codes_of(desk: Desk, event: Adopted) -> dict[str, int]:
    """Return, by group, the code of the flavors that running work is charged to, where said."""
    return {group: desk.books.assignment(flavors) for group, flavors in event.flavors}


def completed(desk: Desk, event: Adopted) -> Adopted:
    """Return the event with places for all its tasks, as far as there is room for them."""
    mark = desk.books.checkpoint()
    try:
        if event.anywhere and not (event.placements or event.finished):
            found = _anywhere(desk, event)
        elif any(not all(placement.devices) for placement in event.placements):
            found = tuple(_with_devices(desk, event, placement) for placement in event.placements)
        else:
            return event
    finally:
        desk.books.rollback(mark)
    return replace(event, placements=found)


def _anywhere(desk: Desk, event: Adopted) -> tuple[Placement, ...]:
    """Return where the minimum would be placed now; nowhere: only its charge is known."""
    codes = codes_of(desk, event)

    def over(part: Part) -> Part:
        if part.demand is not None:
            return replace(part, code=codes.get(part.name, BY_NODE))
        return replace(part, parts=tuple(over(child) for child in part.parts))

    ask = compile_ask(desk.books, event.workload)
    if ask.problems:
        return ()
    root = over(ask.root)
    ask = replace(ask, root=root, leaves=tuple(over(leaf) for leaf in ask.leaves))
    desk.placer.aim()
    try:
        seats = place(desk.placer, ask, 0)
    except CutShortError:
        return ()
    names = desk.books.tree.names[-1]
    return tuple(
        Placement(
            each.part.name,
            tuple(range(len(each.rows))),
            tuple(names[row] for row in each.rows),
            tuple(each.devices),
        )
        for each in seats or ()
        if each.rows
    )


def _with_devices(desk: Desk, event: Adopted, placement: Placement) -> Placement:
    """Return a placement with devices for every task that asks for some."""
    books = desk.books
    shapes = {leaf.name: leaf.shape for leaf in event.workload.leaves()}
    shape = shapes.get(placement.group)
    if shape is None or not shape.gpus:
        return placement
    demand, masks = books.demand(shape), []
    for node, mask in zip(placement.nodes, placement.devices, strict=True):
        row = books.row_of.get(node)
        if row is None or not books.present[row]:
            raise EventError(f"group {placement.group}: there is no node {node}")
        if not mask:
            if not copies(books, demand, slice(None))[row]:
                raise EventError(f"group {placement.group}: node {node} has no room for it")
            mask = choose_devices(books, demand, row, desk.policy.devices)
        elif not has_devices(books.nodes[row], shape, mask):
            raise EventError(f"group {placement.group}: node {node} has no devices {mask:b}")
        books.take(demand, (row,), (mask,), 0)
        masks.append(mask)
    return replace(placement, devices=tuple(masks))

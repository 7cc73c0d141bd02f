"""`mooring decide`: what is to be done at the moment of a scenario, and why the rest waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from mooring.cli.fold import fold_names, fold_numbers
from mooring.cli.show import Terminal, print_json, table
from mooring.config.units import say_mebibytes
from mooring.model.books import bits
from mooring.model.cluster import WHOLE
from mooring.model.codec import encode
from mooring.model.demand import DeviceKind, device_kind
from mooring.model.plan import Behind, Bind, Evict, Moving, Notice, Reserve
from mooring.model.workload import Shape
from mooring.sim.settle import Settled, decide_once, settle
from mooring.words import cause_in_words, counted, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.engine import Engine
    from mooring.model.scenario import Scenario
    from mooring.model.workload import Placement


def decide(scenario: Scenario, *, until_settled: bool, as_json: bool) -> int:
    """Print what is decided; return the exit code."""
    if until_settled:
        result = settle(scenario)
    else:
        plan, engine = decide_once(scenario)
        result = Settled(engine, plan.decisions, 1, is_settled=not plan.decisions)
    if as_json:
        print_json(_as_data(scenario.now, result))
    else:
        _print_tables(scenario, result, until_settled=until_settled)
    return int(until_settled and not result.is_settled)


def _as_data(now: float, result: Settled) -> dict[str, object]:
    engine, risks = result.engine, result.engine.risks()
    return {
        "now": now,
        "decisions": [encode(decision) for decision in result.decisions],
        "waiting": [
            {"workload": name, "reasons": [encode(reason) for reason in engine.reasons(name)]}
            for name in engine.waiting()
        ],
        "running": [_running(engine, name, risks.get(name, ())) for name in engine.running()],
        "settled": result.is_settled,
        "cycles": result.cycles,
    }


def _running(engine: Engine, name: str, risks: tuple[str, ...]) -> dict[str, object]:
    """Return where a workload runs and stands, in which domains, and what it is charged to."""
    entry, books = engine.entries()[name], engine.books
    groups = []
    for group, members in entry.members.items():
        tasks = members.staying()
        rows = [members.rows[task] for task in tasks]
        flavors = dict.fromkeys(engine.flavor_of(members, row) for row in rows)
        levels = list(enumerate(books.topology.names))[1:-1]
        domains = {
            level: list(dict.fromkeys(books.tree.names[i][books.up[i][row]] for row in rows))
            for i, level in levels
        }
        nodes = list(dict.fromkeys(books.nodes[row].name for row in rows))
        groups.append(
            {
                "group": group,
                "tasks": len(tasks),
                "nodes": nodes,
                "flavors": list(flavors),
                "domains": domains,
            }
        )
    return {
        "workload": name,
        "queue": entry.workload.queue,
        "standing": risks[0] if risks else "",
        "surplus": dict(Counter(risks[1:])),
        "groups": groups,
    }


def _print_tables(scenario: Scenario, result: Settled, *, until_settled: bool) -> None:
    console = Terminal()
    leaving = list(_leaving_rows(result))
    if leaving:
        console.print(table(("do", "workload", "group", "tasks", "why", "for"), leaving))
        console.print()
    rows = list(_decision_rows(result))
    if rows:
        console.print(table(("do", "workload", "group", "tasks", "nodes", "devices"), rows))
        console.print()
    waiting = list(_waiting_rows(result.engine))
    if waiting:
        console.print(table(("waits", "why"), waiting))
        console.print()
    running = list(_running_rows(result.engine))
    if running:
        console.print(table(("runs", "queue", "standing"), running))
        console.print()
    for name, entry in result.engine.entries().items():
        if entry.charged_only:
            console.print(f"{name} runs, but no node has room for it; only its quota is counted.")
    console.print(_summary(scenario, result, until_settled=until_settled))


def _summary(scenario: Scenario, result: Settled, *, until_settled: bool) -> str:
    done = Counter({"bound": 0})
    for decision in result.decisions:
        if isinstance(decision, Evict):
            done["evicted"] += len(decision.tasks)
            continue
        if isinstance(decision, Notice):
            continue
        for verb, placement in _placements(decision):
            done["bound" if verb == "bind" else "reserved"] += len(placement.tasks)
    parts = [f"{counted(tasks, 'task')} {what}" for what, tasks in done.items()]
    parts.append(f"{counted(len(result.engine.waiting()), 'workload')} waiting")
    line = f"{', '.join(parts)}, {counted(len(scenario.nodes), 'node')}."
    if not until_settled:
        return line
    cycles = counted(result.cycles, "cycle")
    if result.is_settled:
        return f"{line} Settled after {cycles}."
    if result.repeats:
        again = counted(result.repeats, "cycle")
        return f"{line} It does not settle: after {cycles} all is as it was {again} before."
    return f"{line} It did not settle within {cycles}."


# ── decisions ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Start:
    """Everything that one group gets."""

    verb: str
    workload: str
    group: str
    shape: Shape
    flavor: str = ""
    """What it is charged to, where its queue chose."""
    tasks: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """By node and mask of devices."""

    def add(self, placement: Placement) -> None:
        """Take a placement in."""
        places = zip(placement.tasks, placement.nodes, placement.devices, strict=True)
        for task, node, mask in places:
            self.tasks.setdefault((node, mask), []).append(task)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row for all nodes with equally many tasks on the same devices."""
        alike: dict[tuple[int, int], list[str]] = {}
        merged = self._merged()
        for (node, mask), tasks in merged.items():
            alike.setdefault((mask, len(tasks)), []).append(node)
        head = self.verb, self.workload, self.group
        for (mask, _), nodes in alike.items():
            numbers = fold_numbers(task for node in nodes for task in merged[node, mask])
            where = fold_names(nodes) + (f" as {self.flavor}" if self.flavor else "")
            yield *head, numbers, where, _devices(mask, self.shape)
            head = "", "", ""

    def _merged(self) -> dict[tuple[str, int], list[int]]:
        """Return tasks by node and devices; whole devices of one node are shown together."""
        if device_kind(self.shape) is not DeviceKind.WHOLE:
            return self.tasks
        masks: dict[str, int] = {}
        tasks: dict[str, list[int]] = {}
        for (node, mask), some in self.tasks.items():
            masks[node] = masks.get(node, 0) | mask
            tasks.setdefault(node, []).extend(some)
        return {(node, masks[node]): tasks[node] for node in masks}


def _decision_rows(result: Settled) -> Iterator[tuple[str, ...]]:
    """Yield the rows of all decisions; what one group is given piece by piece is one start."""
    shown: list[_Start] = []
    growing: dict[tuple[str, str], _Start] = {}
    for decision in result.decisions:
        if isinstance(decision, Notice):
            continue
        if isinstance(decision, Evict):
            growing.pop((decision.workload, decision.group), None)
            continue
        for verb, placement in _placements(decision):
            key = decision.workload, placement.group
            start = growing.get(key)
            if start is None or start.verb != verb:
                flavor = decision.flavor if isinstance(decision, Bind) else ""
                start = growing[key] = _Start(verb, *key, _shape(result.engine, *key), flavor)
                shown.append(start)
            start.add(placement)
    for start in shown:
        yield from start.rows()


def _leaving_rows(result: Settled) -> Iterator[tuple[str, ...]]:
    """Yield who has to leave: which tasks, why and for whom; and who is told so beforehand."""
    for decision in result.decisions:
        match decision:
            case Evict(workload, group, tasks, cause, beneficiary):
                numbers, why = fold_numbers(tasks), cause_in_words(cause)
                yield "evict", workload, group, numbers, why, beneficiary
            case Notice(workload, cause, at):
                why = f"must leave at {at:g}: {cause_in_words(cause)}"
                yield "notice", workload, "", "", why, ""
            case _:
                pass


def _placements(decision: Bind | Reserve) -> list[tuple[str, Placement]]:
    match decision:
        case Bind(_, placement, _):
            return [("bind", placement)]
        case Reserve(_, placements, _):
            return [("reserve", placement) for placement in placements]
        case _:
            assert_never(decision)


def _shape(engine: Engine, workload: str, group: str) -> Shape:
    return engine.entries()[workload].members[group].group.shape


def _devices(mask: int, shape: Shape) -> str:
    """Return devices: `0-3`, `0-7 (2 each)`, shares `0 (25 %)`, MIG slices `2:0-3`."""
    kind = device_kind(shape)
    if kind is DeviceKind.SHARED:
        return f"{fold_numbers(bits(mask))} ({100 * shape.milli / WHOLE:g} %)"
    if kind is DeviceKind.MEMORY:
        return f"{fold_numbers(bits(mask))} ({say_mebibytes(shape.gpu_memory)})"
    if kind is not DeviceKind.MIG:
        each = f" ({shape.gpus} each)" if mask.bit_count() > shape.gpus else ""
        return (fold_numbers(bits(mask)) or "-") + each
    slices = [(device, mask >> 8 * device & 0xFF) for device in range(mask.bit_length() // 8 + 1)]
    return " ".join(f"{device}:{fold_numbers(bits(part))}" for device, part in slices if part)


# ── running ──────────────────────────────────────────────────────────────────────────────────────


def _running_rows(engine: Engine) -> Iterator[tuple[str, str, str]]:
    """Yield who runs, by queue, and where that stands; those who stand alike share a row."""
    entries, alike = engine.entries(), dict[tuple[str, str], list[str]]()
    risks = engine.risks()
    for name in engine.running():
        words = risks.get(name, ())
        said = words[0] if words else "leaves"
        above = [f"{count} {word}" for word, count in Counter(words[1:]).items()]
        if above:
            said += f"; above its minimum: {', '.join(above)}"
        alike.setdefault((entries[name].workload.queue, said), []).append(name)
    for (queue, said), names in alike.items():
        yield fold_names(names), queue, said


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────


def _waiting_rows(engine: Engine) -> Iterator[tuple[str, str]]:
    """Yield who waits and why; all who only wait behind the same workload share a row."""
    first: dict[str, str] = {}
    behind: dict[str, list[str]] = {}
    for name in engine.waiting():
        match engine.reasons(name):
            case (Behind(other),):
                first[name] = first.get(other, other)
                behind.setdefault(first[name], []).append(name)
            case _:
                behind.setdefault(name, [])
    for name, others in behind.items():
        entry = engine.entries()[name]
        alone = len(entry.members) == 1
        reasons = [sentence(reason, is_alone=alone) for reason in engine.reasons(name)]
        is_moved = any(isinstance(reason, Moving) for reason in engine.reasons(name))
        if entry.is_placed and not is_moved:
            reasons.insert(0, "It runs, and waits to grow.")
        yield name, "\n".join(reasons)
        if len(others) == 1:
            yield others[0], sentence(Behind(name))
        elif others:
            yield (
                fold_names(others),
                f"They ask for the same as {name}, which is before them in line.",
            )

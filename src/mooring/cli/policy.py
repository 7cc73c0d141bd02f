"""`mooring policy`: whether queues and policy are right, and what they are: the tree, drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.cli.show import Terminal, print_json, table
from mooring.cli.words import counted
from mooring.config.units import say_bound, say_duration, say_number
from mooring.config.write_policy import policy_data, section_data
from mooring.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from mooring.model.queues import Queue, Quota
    from mooring.model.scenario import Scenario
    from mooring.model.settings import Policy
    from mooring.policy.headroom import Promise

Pair = tuple[str, str]
"""(flavor, resource); an empty flavor: all together."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a queue has of a pair at the moment of a scenario; devices in thousandths."""

    used: int
    share: int | None = None


Standings = dict[tuple[str, str, str], Standing]
"""By queue, flavor and resource."""


def check_policy(scenario: Scenario, source: str) -> int:
    """Print in one line what there is; mistakes have been told by then."""
    print(f"{source}: {_summary(scenario)}")
    return 0


def show_policy(
    scenario: Scenario, standings: Standings, promises: Sequence[Promise] = (), *, as_json: bool
) -> int:
    """Print the queues as a tree, their rules, and what of the policy is not the default."""
    if as_json:
        print_json(_as_data(scenario, standings, promises))
        return 0
    console = Terminal()
    lines = list(_tree(scenario.queues))
    names = [line for line, _ in lines]
    queues = [queue for _, queue in lines]
    for columns in _fitting(
        _groups(queues, standings), max(map(len, names), default=0), console.width
    ):
        console.print(_table(names, columns))
        console.print()
    told = [(queue.name, "\n".join(_rules(queue))) for queue in queues if _rules(queue)]
    for head, rows in ((("queue", "rules"), told), (("policy", ""), _policy_rows(scenario.policy))):
        if rows:
            console.print(table(head, rows))
            console.print()
    if promises:
        console.print(_promises(promises))
        console.print()
    console.print(_summary(scenario))
    return 0


def _summary(scenario: Scenario) -> str:
    above = {queue.parent for queue in scenario.queues}
    leaves = sum(queue.name not in above for queue in scenario.queues)
    depth = max((len(line) for line in _ways(scenario.queues).values()), default=0)
    pairs = {(q.flavor, q.resource) for queue in scenario.queues for q in queue.quotas}
    queues = f"{counted(len(scenario.queues), 'queue')} in {counted(depth, 'level')}"
    quota = f"quota for {counted(len(pairs), 'pair')} of flavor and resource"
    return f"{queues}, {leaves:,} at the bottom; {quota}; profile {scenario.policy.profile}."


def _promises(promises: Sequence[Promise]) -> Table:
    """Return how promises of room stand."""
    heads = ("promised to", "flavor", "within", "GPUs", "used", "idle", "on loan", "missing")
    rows = []
    for one in promises:
        numbers = (one.gpus, one.used, one.idle, one.lent, one.missing)
        within = str(say_duration(one.within_s))
        rows.append((one.queue, one.flavor or "any", within, *map(str, numbers)))
    return table(heads, rows, heads[3:])


def _as_data(
    scenario: Scenario, standings: Standings, promises: Sequence[Promise]
) -> dict[str, object]:
    return {
        "topology": encode(scenario.topology, full=True),
        "queues": [encode(queue, full=True) for queue in scenario.queues],
        "policy": encode(scenario.policy, full=True),
        "standings": [
            {"queue": queue, "flavor": flavor, "resource": resource, **encode(one, full=True)}
            for (queue, flavor, resource), one in standings.items()
        ],
        "promises": [encode(one, full=True) for one in promises],
    }


# ── the tree ─────────────────────────────────────────────────────────────────────────────────────


def _ways(queues: Sequence[Queue]) -> dict[str, list[str]]:
    """Return each queue's way from its root down to itself."""
    parents = {queue.name: queue.parent for queue in queues}
    ways = {}
    for queue in queues:
        way = [queue.name]
        while (parent := parents[way[0]]) in parents and parent not in way:
            way.insert(0, parent)
        ways[queue.name] = way
    return ways


def _tree(queues: Sequence[Queue]) -> Iterator[tuple[str, Queue]]:
    """Yield every queue below the one above it, with branches before its name.

    One whose parent does not exist, or that is above itself, has nobody above it.
    """
    below: dict[str, list[Queue]] = {}
    ways = _ways(queues)
    parents = {queue.name: queue.parent for queue in queues}
    for queue in queues:
        is_cyclic = parents.get(ways[queue.name][0], "") == queue.name
        is_root = queue.parent not in parents or is_cyclic
        below.setdefault("" if is_root else queue.parent, []).append(queue)
    rest = [(queue, "", "") for queue in reversed(below.get("", []))]
    while rest:
        queue, branch, stem = rest.pop()
        yield branch + queue.name, queue
        children = below.get(queue.name, [])
        last = len(children) - 1
        rest += [
            (child, stem + ("└─ " if i == last else "├─ "), stem + ("   " if i == last else "│  "))
            for i, child in reversed(list(enumerate(children)))
        ]


@dataclass(frozen=True, slots=True)
class _Column:
    """One column beside the names of the queues."""

    head: tuple[str, str, str]
    """Flavor, resource, and what it says about them."""
    cells: list[str]
    is_number: bool = True

    @property
    def width(self) -> int:
        """Return how wide it is."""
        return max(map(len, (*self.head, *self.cells)))


def _table(names: Sequence[str], columns: Sequence[_Column]) -> Table:
    """Return the tree with some columns; lines of the head that are empty are left out."""
    heads = [("", "", "queue"), *(column.head for column in columns)]
    first = next(i for i in range(3) if any(head[i] for head in heads))
    titles = ["\n".join(head[first:]) for head in heads]
    right = [title for title, column in zip(titles[1:], columns, strict=True) if column.is_number]
    rows = zip(names, *(column.cells for column in columns), strict=True)
    return table(titles, rows, right)


def _fitting(
    groups: Sequence[Sequence[_Column]], names_width: int, width: int
) -> Iterator[list[_Column]]:
    """Yield the columns of one table after the other; columns of a group stay together."""
    some: list[_Column] = []
    for group in groups:
        wanted = sum(_GAP + column.width for column in (*some, *group))
        if some and names_width + wanted > width:
            yield some
            some = []
        some += group
    yield some


_GAP = 3
"""Room between two columns of a table."""


def _groups(queues: Sequence[Queue], standings: Standings) -> list[list[_Column]]:
    """Return columns that belong together: of the queues themselves, and of each pair."""
    own = [
        _Column(("", "", "weight"), [_weight(q.weight, 1.0) for q in queues]),
        _Column(("", "", "priority"), [str(q.priority or "") for q in queues]),
        _Column(("", "", "order"), [q.order for q in queues], is_number=False),
        _Column(("", "", "stop"), [q.stop for q in queues], is_number=False),
    ]
    quotas = [{(q.flavor, q.resource): q for q in queue.quotas} for queue in queues]
    pairs = list(dict.fromkeys(pair for one in quotas for pair in one))
    groups = []
    for flavor, resource in pairs:
        found = [one.get((flavor, resource)) for one in quotas]
        standing = [standings.get((queue.name, flavor, resource)) for queue in queues]
        groups.append(_pair_columns((flavor, resource), found, standing))
    groups.append([column for column in own if any(column.cells)])
    return [group for group in groups if group]


def _pair_columns(
    pair: Pair, quotas: Sequence[Quota | None], standings: Sequence[Standing | None]
) -> list[_Column]:
    """Return what queues have of a pair, without the columns in which nothing stands."""
    flavor, resource = pair

    def amounts(key: str) -> list[str]:
        found = [getattr(quota, key) if quota else None for quota in quotas]
        return ["" if amount is None else str(say_bound(resource, amount)) for amount in found]

    def used(quota: Quota | None, standing: Standing | None) -> str:
        if standing is None:
            return ""
        guaranteed = quota.quota if quota else 0
        is_over = guaranteed is not None and standing.used > guaranteed
        return f"{say_bound(resource, standing.used)}{' over' if is_over else ''}"

    guaranteed = [
        "∞" if q and q.quota is None else a for q, a in zip(quotas, amounts("quota"), strict=True)
    ]
    shares = [standing.share if standing else None for standing in standings]
    parts = {
        "quota": guaranteed,
        "limit": amounts("limit"),
        "weight": [_weight(quota.weight, None) if quota else "" for quota in quotas],
        "borrows": amounts("borrowing_limit"),
        "lends": amounts("lending_limit"),
        "used": [used(*both) for both in zip(quotas, standings, strict=True)],
        "share": ["" if share is None else str(say_bound(resource, share)) for share in shares],
    }
    some = [part for part, cells in parts.items() if any(cells)]
    heads = [(flavor, resource, some[0]), *(("", "", part) for part in some[1:])]
    return [_Column(head, parts[part]) for head, part in zip(heads, some, strict=True)]


def _weight(weight: float | None, default: float | None) -> str:
    return "" if weight is None or weight == default else str(say_number(weight))


# ── rules in words ───────────────────────────────────────────────────────────────────────────────

_IN_THE_TREE = ("name", "parent", "quotas", "weight", "priority", "order", "stop")


def _rules(queue: Queue) -> list[str]:
    """Return what else a queue says, in the words of the file."""
    found = []
    for key, value in section_data(replace(queue, groups=())).items():
        if value is True:
            found.append(key)
        elif key not in _IN_THE_TREE:
            found.append(f"{key}: {_words(value) or 'nobody'}")
    groups = [
        f"{', '.join(group.resources)}: {', then '.join(group.flavors)}" for group in queue.groups
    ]
    return groups + found


def _policy_rows(policy: Policy) -> list[tuple[str, str]]:
    """Return what of the policy is not the default."""
    return [(key, _words(value)) for key, value in policy_data(policy).items()]


def _words(value: object) -> str:
    """Return a value of a file without brackets: items of lists of mappings on lines."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return str(say_number(value))
        case {"name": str(name), **rest}:
            return f"{name}: {_words(rest)}"
        case dict():
            return ", ".join(f"{key} {_inner(item)}" for key, item in value.items())
        case list():
            apart = "\n" if any(isinstance(item, dict) for item in value) else ", "
            return apart.join(map(_words, value))
        case _:
            return str(value)


def _inner(value: object) -> str:
    return f"({_words(value)})" if isinstance(value, list | dict) else _words(value)

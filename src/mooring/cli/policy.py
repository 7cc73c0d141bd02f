"""`mooring policy`: whether queues and policy are right, and what they are: the tree, drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mooring.cli.show import GAP, Terminal, pieces, print_json, table
from mooring.config.units import say_bound, say_duration, say_number
from mooring.config.write_policy import policy_data, section_data
from mooring.model.codec import encode
from mooring.model.resources import GPU
from mooring.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    groups = _groups(queues, standings, _guaranteed(scenario))
    for columns in _fitting(groups, max(map(len, names), default=0), console.width):
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
        lines = "\n".join((*self.head, *self.cells)).split("\n")
        return max(map(len, lines))


def _table(names: Sequence[str], columns: Sequence[_Column]) -> Table:
    """Return the tree with some columns; lines of the head that are empty are left out."""
    heads = [("", "", "queue"), *(column.head for column in columns)]
    tall = max(head[0].count("\n") for head in heads)
    lines = [("\n" * (tall - head[0].count("\n")) + "\n".join(head)).split("\n") for head in heads]
    first = next(i for i in range(tall + 3) if any(line[i] for line in lines))
    titles = ["\n".join(line[first:]) for line in lines]
    right = [title for title, column in zip(titles[1:], columns, strict=True) if column.is_number]
    rows = zip(names, *(column.cells for column in columns), strict=True)
    return table(titles, rows, right)


def _fitting(
    groups: Sequence[Sequence[_Column]], names_width: int, width: int
) -> Iterator[list[_Column]]:
    """Yield the columns of one table after the other; columns of a group stay together."""
    some: list[_Column] = []
    for group in groups:
        if some and names_width + _width((*some, *group)) > width:
            yield some
            some = []
        for column in group:  # of a group that is too wide by itself, as much as fits
            if len(some) > 1 and names_width + _width((*some, column)) > width:
                yield some
                some = []
            some.append(column if some else replace(column, head=_full_head(group, column)))
    yield some


def _width(columns: Sequence[_Column]) -> int:
    return sum(GAP + column.width for column in columns)


def _full_head(group: Sequence[_Column], column: _Column) -> tuple[str, str, str]:
    """Return the head of a column that is the first of its group in a table."""
    return (*group[0].head[:2], column.head[2])


def _guaranteed(scenario: Scenario) -> dict[tuple[str, str, str], int | None]:
    """Return quotas by queue, flavor and resource; one above others has at least what they have.

    In profile kai it has its own alone, in kueue its own and theirs. None: no bound.
    """
    profile, found = scenario.policy.profile, dict[tuple[str, str, str], int | None]()
    below: dict[tuple[str, str, str], int] = {}
    for name, way in sorted(_ways(scenario.queues).items(), key=lambda item: -len(item[1])):
        queue = next(queue for queue in scenario.queues if queue.name == name)
        own: dict[Pair, int | None] = {(q.flavor, q.resource): q.quota for q in queue.quotas}
        pairs = dict.fromkeys([*own, *(key[1:] for key in below if key[0] == name)])
        for pair in pairs:
            quota, inner = own.get(pair, 0), below.get((name, *pair), 0)
            if quota is not None and profile != "kai":
                quota = quota + inner if profile == "kueue" else max(quota, inner)
            found[name, *pair] = quota
            if len(way) > 1:
                key = (way[-2], *pair)
                below[key] = below.get(key, 0) + (quota or 0)
    return found


def _groups(
    queues: Sequence[Queue],
    standings: Standings,
    guaranteed: Mapping[tuple[str, str, str], int | None],
) -> list[list[_Column]]:
    """Return columns that belong together: of the queues themselves, and of each pair."""
    own = [
        _Column(("", "", "weight"), [_weight(q.weight, 1.0) for q in queues]),
        _Column(("", "", "priority"), [str(q.priority or "") for q in queues]),
        _Column(("", "", "order"), [q.order for q in queues], is_number=False),
        _Column(("", "", "stop"), [q.stop for q in queues], is_number=False),
    ]
    quotas = [{(q.flavor, q.resource): q for q in queue.quotas} for queue in queues]
    groups = []
    for pair in _pairs(quotas, standings):
        found = [one.get(pair) for one in quotas]
        standing = [standings.get((queue.name, *pair)) for queue in queues]
        least = [guaranteed.get((queue.name, *pair), 0) for queue in queues]
        groups.append(_pair_columns(pair, found, list(zip(least, standing, strict=True))))
    groups.append([column for column in own if any(column.cells)])
    return [group for group in groups if group]


def _pairs(quotas: Sequence[Mapping[Pair, Quota]], standings: Standings) -> list[Pair]:
    """Return what is shown: pairs with a quota, or devices that are used or shared out.

    Where a queue has a quota of all flavors together, devices are not shown flavor by flavor.
    """
    named = dict.fromkeys(pair for one in quotas for pair in one)
    together = {resource for flavor, resource in named if not flavor}
    for (_, flavor, resource), one in standings.items():
        if resource == GPU and resource not in together and (one.used or one.share):
            named[flavor, resource] = None
    return list(named)


def _pair_columns(
    pair: Pair,
    quotas: Sequence[Quota | None],
    standings: Sequence[tuple[int | None, Standing | None]],
) -> list[_Column]:
    """Return what queues have of a pair, without the columns in which nothing stands.

    Each standing comes with what the queue is guaranteed.
    """
    flavor, resource = pair

    def amounts(key: str) -> list[str]:
        found = [getattr(quota, key) if quota else None for quota in quotas]
        return ["" if amount is None else str(say_bound(resource, amount)) for amount in found]

    def used(least: int | None, standing: Standing | None) -> str:
        if standing is None:
            return ""
        is_over = least is not None and standing.used > least
        return f"{say_bound(resource, standing.used)}{' over' if is_over else ''}"

    guaranteed = [
        "∞" if q and q.quota is None else a for q, a in zip(quotas, amounts("quota"), strict=True)
    ]
    shares = [standing.share if standing else None for _, standing in standings]
    parts = {
        "quota": guaranteed,
        "limit": amounts("limit"),
        "weight": [_weight(quota.weight, None) if quota else "" for quota in quotas],
        "borrows": amounts("borrowing_limit"),
        "lends": amounts("lending_limit"),
        "used": [used(*both) for both in standings],
        "share": ["" if share is None else str(say_bound(resource, share)) for share in shares],
    }
    some = [part for part, cells in parts.items() if any(cells)]
    if not some:
        return []
    heads = [(_in_lines(flavor), resource, some[0]), *(("", "", part) for part in some[1:])]
    return [_Column(head, parts[part]) for head, part in zip(heads, some, strict=True)]


def _in_lines(flavor: str) -> str:
    """Return the name of a flavor in lines that do not make its column wide."""
    lines = [""]
    for piece in pieces(flavor):
        if lines[-1] and len(lines[-1]) + len(piece) > _FLAVOR_MOST:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


_FLAVOR_MOST = 9


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

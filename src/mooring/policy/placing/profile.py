"""A profile: the functions that a policy names, ready for one set of books."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.model.demand import DeviceKind
from mooring.model.settings import Policy
from mooring.policy.own import NOTHING_OWN
from mooring.policy.placing.ask import is_below_node
from mooring.policy.placing.board import Board, OwnBoard
from mooring.policy.placing.devices import RULES
from mooring.policy.placing.score import SCORES

if TYPE_CHECKING:
    from mooring.model.books import Books
    from mooring.model.topology import Tree
    from mooring.policy.own import Own
    from mooring.policy.placing.ask import Part
    from mooring.policy.placing.mix import Mix

BY_DOMAIN = ("e-binpack", "e-spread")
"""Rules that choose domains by counting; all others are scores of nodes."""
KUEUE = "kueue"
"""How profile `kueue` chooses domains, unless the policy names another rule than by default."""
OWN = "own"
"""The score that a user has handed in as a function."""


def unknown_names(policy: Policy) -> list[str]:
    """Return what is wrong with the names in a policy; nothing: empty."""
    rules = (*BY_DOMAIN, *SCORES)
    wrong = [
        f"policy.{field}: there is no rule {name!r}; there are {', '.join(rules)}"
        for field in ("small", "rest", "gang", "service")
        if (name := getattr(policy, field)) not in rules and (name or field != "rest")
    ]
    if policy.devices not in RULES:
        known = ", ".join(RULES)
        wrong.append(f"policy.devices: there is no rule {policy.devices!r}; there are {known}")
    return wrong


class Profile:
    """Which rule places what."""

    def __init__(self, policy: Policy, mix: Mix, own: Own = NOTHING_OWN) -> None:
        if own.score is not None:
            policy = replace(policy, small=OWN, rest="", gang=OWN, service=OWN)
        elif policy.profile == KUEUE:
            policy = _with_own_rule(policy, KUEUE)
        self.policy = policy
        self.devices = policy.devices
        self.search_steps = policy.search_steps
        names = dict.fromkeys((policy.small, policy.rest, policy.gang, policy.service))
        self.scores = {n: Board(SCORES[n](mix)) for n in names if n in SCORES}
        if own.score is not None:
            self.scores[OWN] = OwnBoard(own.score)

    def copy(self, mix: Mix) -> Profile:
        """Return the profile of a fork."""
        new = object.__new__(Profile)
        new.__dict__.update(self.__dict__)
        new.scores = {name: board.copy(mix) for name, board in self.scores.items()}
        return new

    def packing(self) -> Profile:
        """Return a profile that closes gaps: all but services goes where least is left."""
        new = object.__new__(Profile)
        new.__dict__.update(self.__dict__)
        new.policy = replace(self.policy, small="e-binpack", rest="", gang="e-binpack")
        return new

    def rule(self, books: Books, leaf: Part, *, service: bool) -> str:
        """Return the name of the rule that places a leaf."""
        assert leaf.demand is not None
        single = leaf.count == 1 and not leaf.slices
        if service:
            rule = self.policy.service
        elif single and is_below_node(books, leaf.demand):
            rule = (leaf.is_beside and self.policy.rest) or self.policy.small
        else:
            rule = self.policy.gang
        by_thousandths = leaf.demand.kind not in (DeviceKind.MEMORY, DeviceKind.MIG)
        return rule if rule not in self.scores or by_thousandths else "e-binpack"

    def spread_level(self, tree: Tree) -> int:
        """Return the level of the one domain that a service spreads inside."""
        return tree.level_of.get(self.policy.spread_within, min(1, tree.leaf_level - 1))


def _with_own_rule(policy: Policy, rule: str) -> Policy:
    """Return a policy with a rule in place of those that it has by default."""
    default = Policy()
    return replace(
        policy,
        small=rule if policy.small == default.small else policy.small,
        gang=rule if policy.gang == default.gang else policy.gang,
        service=rule if policy.service == default.service else policy.service,
    )

"""Policies as they are named on the command line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.config import load_policy
from mooring.config.reader import nearest
from mooring.model.queues import DEFAULT_QUEUE
from mooring.sim.errors import StudyError, each_of
from mooring.sim.own import KINDS, Said, own_of
from mooring.sim.study import NAMED, Rules

if TYPE_CHECKING:
    from collections.abc import Sequence


def rules_of(text: str) -> Rules:
    """Return the policy of that name, or of a policy file, perhaps with own functions.

    `NAME=` before it gives it a name; what it may be followed by is read in `sim.own`.
    """
    said = Said.of(text)
    policy = said.policy or ("default" if said.own else "")
    if policy in NAMED:
        rules = NAMED[policy]
    elif Path(policy).is_file():
        found = load_policy(policy)
        queues = () if found.queues == (DEFAULT_QUEUE,) else found.queues
        rules = Rules(Path(policy).stem, found.policy, queues=queues)
    else:
        raise StudyError(f"--policy {text}: {_nothing_so(said)}")
    if said.own:
        own_of(said.own)  # mistakes are told before anything runs
        if rules.policy.profile != "default":
            what = f"own functions go with profile default, not with {rules.policy.profile}"
            raise StudyError(f"--policy {text}: {what}")
    return replace(rules, name=said.name or "+".join([rules.name, *said.functions]), own=said.own)


def _nothing_so(said: Said) -> str:
    """Say that there is no such policy, and what there is."""
    known = ", ".join(NAMED)
    near = nearest(said.policy, NAMED)
    if said.name and ":" in said.policy:  # it looks like a function
        near = nearest(said.name, KINDS)
        known += f"; functions begin with {', '.join(f'{kind}=' for kind in KINDS)}"
    return f"there is no such file, and no such policy: {known}{near}"


def rules_of_all(texts: Sequence[str]) -> list[Rules]:
    """Return several policies, each under a name of its own."""
    asked = tuple(dict.fromkeys(texts))
    every = each_of([partial(rules_of, text) for text in asked])
    found: dict[str, Rules] = {}
    for text, rules in zip(asked, every, strict=True):
        if rules.name in found:
            said = Said.of(text)
            whole = text.partition("=")[2] if said.name else text
            what = f"there are two policies {rules.name}; give one another name: NAME={whole}"
            raise StudyError(f"--policy {text}: {what}")
        found[rules.name] = rules
    return list(found.values())

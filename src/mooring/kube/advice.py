"""What an advisor says in the log: what it would do, and why others wait; each once.

Nobody carries its plans out, so each cycle decides anew; only what is new is said.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mooring.kube.log import fields
from mooring.kube.verdict import verdict
from mooring.model.plan import Bind, Evict
from mooring.words import cause_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.model.plan import Plan

_LOG = logging.getLogger(__name__)

Line = tuple[str, tuple[tuple[str, object], ...]]
"""What is said, and its fields."""


class Advice:
    """Says what plans would do."""

    def __init__(self) -> None:
        self._said: dict[Line, None] = {}
        """What the last plan would have done."""

    def hear(self, plan: Plan) -> None:
        """Say what is new in a plan."""
        now = dict.fromkeys(_lines(plan))
        for line in now:
            if line not in self._said:
                _LOG.info(line[0], extra=fields(**dict(line[1])))
        self._said = now


def _lines(plan: Plan) -> Iterator[Line]:
    for decision in plan.decisions:
        match decision:
            case Bind(workload, placement):
                nodes = dict.fromkeys(placement.nodes)
                yield (
                    "would bind",
                    (
                        ("workload", workload),
                        ("group", placement.group),
                        ("tasks", len(placement.tasks)),
                        ("nodes", tuple(nodes)),
                    ),
                )
            case Evict(workload, group, tasks, cause, beneficiary):
                yield (
                    "would evict",
                    (
                        ("workload", workload),
                        ("group", group),
                        ("tasks", len(tasks)),
                        ("why", cause_in_words(cause)),
                        ("beneficiary", beneficiary),
                    ),
                )
            case _:
                pass
    for waiting in plan.waiting:
        told = verdict(waiting.reasons)
        if told is not None:
            yield (
                "would wait",
                (("workload", waiting.workload), ("word", told.reason), ("why", told.message)),
            )

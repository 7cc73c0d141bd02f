"""What the parts of a file that are already read name, for the others to refer to."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from mooring.config.nodes import Cluster
from mooring.config.reader import ReadError, nearest
from mooring.config.rules import DEFAULT
from mooring.config.units import name, one_of
from mooring.model.queues import Queue
from mooring.model.resources import CPU, GPU, MEMORY, PODS, PORT
from mooring.model.settings import Policy
from mooring.model.topology import LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN_MOST = 10
"""Names of one kind that a fix lists."""
_ALWAYS = (GPU, CPU, MEMORY, PODS)
_ALMOST = {"gpus": GPU, "cpus": CPU, "mem": MEMORY, "pod": PODS}


@dataclass(frozen=True)
class Known:
    """Names, and readers of them. It grows section by section."""

    levels: dict[str, int]
    """Index of each level, `cluster` and `node` included."""
    cluster: Cluster
    policy: Policy = Policy()
    queues: dict[str, Queue] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    """Of each queue that has any, the queues below it that are not local."""

    def level(self, value: object) -> str:
        """Read the name of a level."""
        return one_of(self.levels)(value)

    def level_or_label(self, value: object) -> str:
        """Read the name of a level, or `label/` and the name of a node label."""
        word = name(value)
        if word.startswith(LABEL):
            if word == LABEL:
                raise ReadError(f"give the name of a node label after {LABEL}")
            return word
        return self.level(value)

    def resource(self, value: object) -> str:
        """Read the name of a resource that may have a quota."""
        word, has = name(value), self.cluster.resources
        if word in _ALWAYS or word in has:
            return word
        almost = _ALMOST.get(word.lower(), GPU if word.endswith("/gpu") else word.lower())
        if almost in _ALWAYS:
            raise ReadError(f"give a resource by its name here; did you mean {almost!r}?")
        if word.startswith(PORT):
            raise ReadError("give a resource that is counted: a host port has no quota")
        if self.cluster.by_name:
            near = nearest(word, [*_ALWAYS, *sorted(has)])
            raise ReadError(f"give a resource that some node has{near or f', or {_ALWAYS[0]!r}'}")
        return word

    def flavor(self, value: object) -> str:
        """Read the name of a flavor: of the policy, or a GPU model."""
        word = name(value)
        declared = [flavor.name for flavor in self.policy.flavors]
        flavors = dict.fromkeys([*declared, *self.cluster.models])
        is_told = self.policy.profile == DEFAULT and declared
        if word in flavors or not (self.cluster.by_name or is_told):
            return word
        fix = "give a flavor of the policy"
        fix += ", or the GPU model of a node" if self.cluster.by_name else ""
        raise ReadError(f"{fix} ({some(flavors)}){nearest(word, flavors)}")

    def queue(self, value: object) -> str:
        """Read the name of a queue."""
        word = name(value)
        if word not in self.queues:
            raise ReadError(f"{no_queue(word, self.queues)}")
        return word


def some(names: Iterable[str]) -> str:
    """Return `there are 'a', 'b'`, of many names the first few."""
    names = list(names)
    shown = [repr(known) for known in islice(names, SHOWN_MOST)]
    shown += ["…"] * (len(names) > SHOWN_MOST)
    return f"there are {', '.join(shown)}" if shown else "there is none"


def no_queue(queue: str, queues: dict[str, Queue]) -> str:
    """Return what to do about a queue that does not exist."""
    return f"give a queue that exists, not {queue!r} ({some(queues)}){nearest(queue, queues)}"

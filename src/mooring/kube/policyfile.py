"""The policy file, read again when it changes; a bad edit changes nothing.

A ConfigMap that is mounted changes by a swap of a symbolic link, so the path is looked at anew each
time: what it leads to, then the content.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.config import ConfigError, Mistake, PolicyFile, load_policy, read_policy
from mooring.config.parse import FILE_MOST
from mooring.engine.check import EventError
from mooring.kube.log import fields
from mooring.model.events import PolicyChanged, QueuesChanged

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from mooring.engine import Engine

log = logging.getLogger(__name__)

Rules = PolicyChanged | QueuesChanged
Looks = tuple[int, int, int, int]
"""Device, inode, size and time of a file."""


def _no_trial(_: Sequence[Rules]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Change:
    """A good edit: what the engine is told of it."""

    file: PolicyFile
    events: tuple[Rules, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A bad edit: the old policy goes on."""

    mistakes: tuple[str, ...]


class PolicyWatch:
    """Looks at the policy file now and then.

    `trial` is asked about an edit that can be read: what it names is wrong with it. `refused` and
    `taken` count edits.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every_s: float = 1.0,
        trial: Callable[[Sequence[Rules]], Sequence[str]] = _no_trial,
    ) -> None:
        self.path = Path(path)
        self.every_s = every_s
        self.refused = 0
        self.taken = 0
        self.trial = trial
        self._looks: Looks | None = None
        self._digest = b""
        self.file = self._first()
        """What is in force. The first must be good: `ConfigError` else."""

    def _first(self) -> PolicyFile:
        self._looks = _looks(self.path)
        found = load_policy(self.path)
        with suppress(OSError):
            self._digest = sha256(self.path.read_bytes()).digest()
        return found

    def look(self) -> Change | Refused | None:
        """Return what has become of the file since the last look; None: nothing.

        A file that is missing for a moment is nothing new; the same mistakes are told once.
        """
        looks = _looks(self.path)
        if looks is None or looks == self._looks:
            return None
        try:
            with self.path.open("rb") as file:
                data = file.read(FILE_MOST + 1)
        except OSError:
            return None  # in the middle of a swap: the next look will tell
        self._looks = looks
        digest = sha256(data).digest()
        if digest == self._digest:
            return None
        self._digest = digest
        return self._judge(data)

    def renew(self) -> None:
        """Take in what is in the file now, for an engine that is yet to be made."""
        self.trial = _no_trial
        self.look()

    def _judge(self, data: bytes) -> Change | Refused | None:
        wrong: Sequence[str]
        try:
            new = read_policy(_text(data, str(self.path)), str(self.path))
        except ConfigError as error:
            return self._refuse(tuple(map(str, error.mistakes)))
        if new.topology != self.file.topology:
            return self._refuse(("topology: start Mooring again to change its levels",))
        events = changes(self.file, new)
        if not events:
            return None
        wrong = self.trial(events)
        if wrong:
            return self._refuse(tuple(wrong))
        self.file = new
        self.taken += 1
        log.info("policy changed", extra=fields(file=self.path, events=_names(events)))
        return Change(new, events)

    def _refuse(self, wrong: tuple[str, ...]) -> Refused:
        self.refused += 1
        log.error("policy refused", extra=fields(file=self.path, mistakes=list(wrong)))
        return Refused(wrong)

    async def run(self, told: Callable[[Change | Refused], None]) -> None:
        """Look for ever, and tell what is new."""
        while True:
            await asyncio.sleep(self.every_s)
            found = self.look()
            if found is not None:
                told(found)


def changes(old: PolicyFile, new: PolicyFile) -> tuple[Rules, ...]:
    """Return what an engine must be told, in an order in which it can take it.

    Promises of headroom name queues: where both change, they are made when the queues are there.
    """
    if old.queues == new.queues:
        return (PolicyChanged(new.policy),) if old.policy != new.policy else ()
    queues = QueuesChanged(new.queues)
    if old.policy == new.policy:
        return (queues,)
    if not old.policy.headroom and not new.policy.headroom:
        return PolicyChanged(new.policy), queues
    plain = replace(new.policy, headroom=())
    last = (PolicyChanged(new.policy),) if new.policy != plain else ()
    return PolicyChanged(plain), queues, *last


def try_on(engine: Engine, events: Sequence[Rules]) -> tuple[str, ...]:
    """Return what an engine does not take of an edit; it is tried on a copy."""
    fork = engine.fork()
    for event in events:
        try:
            fork.observe(event)
        except EventError as error:
            return (str(error),)
    return ()


def _looks(path: Path) -> Looks | None:
    """Return what a path leads to now; None: nothing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _text(data: bytes, source: str) -> str:
    problem = f"this is larger than {FILE_MOST >> 20} MiB; give less"
    if len(data) <= FILE_MOST:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            problem = "this is not text (UTF-8)"
    raise ConfigError([Mistake("", "", problem)], source)


def _names(events: Sequence[Rules]) -> list[str]:
    return [type(event).__name__ for event in events]

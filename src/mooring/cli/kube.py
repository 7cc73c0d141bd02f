"""`mooring run`: the scheduler of a live cluster; `mooring snapshot`: a live cluster as a file."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mooring.config import ConfigError, Mistake, dump_scenario
from mooring.config.files import load
from mooring.config.reader import ReadError
from mooring.config.units import flag, one_of, positive_duration, text
from mooring.kube.errors import ApiError, Unreachable
from mooring.kube.lease import Times
from mooring.kube.log import FORMS, set_up
from mooring.kube.logins import CredentialsError
from mooring.kube.run import Process, Settings
from mooring.kube.serve import ListenError
from mooring.kube.snapshot import take_snapshot

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine

    from mooring.cli.main import Commands
    from mooring.config.reader import Cursor

_FLAGS: dict[str, tuple[str, str]] = {
    "kubeconfig": ("FILE", "where the cluster is, and who we are; default: as kubectl finds it"),
    "context": ("NAME", "context of the kubeconfig"),
    "namespace": ("NAME", "where the lease and the memory are; default: of the context"),
    "policy": ("FILE", "queues and policy, read again when it changes; default: one queue"),
    "scheduler": ("NAME", "the schedulerName of the pods to place (default: mooring)"),
    "memory": ("NAME", "the ConfigMap with what must not be forgotten (default: mooring-memory)"),
}
"""What both commands take: name, what it takes, what it is."""
_RUN_FLAGS: dict[str, tuple[str, str]] = {
    "lease": ("NAME", "the Lease that says who leads (default: mooring, or mooring-advisor)"),
    "identity": (
        "NAME",
        "who we are in the election, with a random number after it; default: the host",
    ),
    "journal": ("FOLDER", "write what happens and what is decided, one file a term"),
    "listen": ("HOST:PORT", "health, readiness and metrics (default: 127.0.0.1:8080)"),
}


def add_run(commands: Commands) -> None:
    """Add `mooring run`."""
    made = commands.add_parser("run", help="schedule a live Kubernetes cluster", allow_abbrev=False)
    made.set_defaults(command=_run)
    made.description = (
        "Watch a cluster, decide, bind and evict, for as long as this process leads. Every option "
        "may also stand in a file of options (YAML), under its name; what is given here wins."
    )
    made.add_argument("--config", metavar="FILE", help="a file of options")
    _add_flags(made, _FLAGS | _RUN_FLAGS)
    made.add_argument(
        "--advisor",
        action="store_true",
        default=None,
        help="decide and say so in the log, and change nothing; it can run beside kube-scheduler",
    )
    made.add_argument(
        "--lease-duration", metavar="TIME", help="how long a lease lasts (default: 15s)"
    )
    made.add_argument("--log-level", choices=_LEVELS)
    made.add_argument("--log-format", choices=FORMS)


def add_snapshot(commands: Commands) -> None:
    """Add `mooring snapshot`."""
    made = commands.add_parser(
        "snapshot", help="write a live cluster as a scenario", allow_abbrev=False
    )
    made.set_defaults(command=_snapshot)
    made.description = (
        "Read a cluster once and print it as a scenario file, which `mooring decide` and all "
        "others take. Nothing is written to the cluster."
    )
    _add_flags(made, _FLAGS)


def _add_flags(to: argparse.ArgumentParser, flags: dict[str, tuple[str, str]]) -> None:
    for name, (takes, what) in flags.items():
        to.add_argument(f"--{name}", metavar=takes, help=what)


_LEVELS = ("debug", "info", "warning", "error")
_READERS: dict[str, Callable[[object], Any]] = {
    **dict.fromkeys([*_FLAGS, *_RUN_FLAGS], text),
    "advisor": flag,
    "lease-duration": positive_duration,
    "log-level": one_of(_LEVELS),
    "log-format": one_of(FORMS),
}
"""What may stand in a file of options."""


def options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all options: of the file, and over them those of the command line."""
    given = {
        key.replace("_", "-"): value
        for key, value in vars(arguments).items()
        if value is not None and key not in ("command", "config")
    }
    if "lease-duration" in given:
        given["lease-duration"] = _duration(given["lease-duration"])
    if not getattr(arguments, "config", None):
        return given
    return {**load(arguments.config, _read_options), **given}


def _read_options(cursor: Cursor) -> dict[str, Any]:
    found = cursor.fields(list(_READERS))
    return {key: found.take(key, read, None) for key, read in _READERS.items() if key in found}


def _duration(words: str) -> float:
    try:
        return positive_duration(words)
    except ReadError as error:
        raise ConfigError([Mistake("", words, str(error))], "--lease-duration") from None


def _settings(given: dict[str, Any]) -> Settings:
    known = {field.name for field in fields(Settings)}
    plain = {key: value for key, value in given.items() if key in known}
    if "lease-duration" in given:
        plain["lease_times"] = Times.lasting(given["lease-duration"])
    return Settings(**plain)


def _run(arguments: argparse.Namespace) -> int:
    given = options(arguments)
    settings = _settings(given)
    set_up(given.get("log-level", "info"), given.get("log-format", "json"))

    async def run() -> None:
        await Process(settings).run()

    return _carefully(run)


def _snapshot(arguments: argparse.Namespace) -> int:
    settings = _settings(options(arguments))

    async def snapshot() -> None:
        process = Process(settings)
        async with process.client:
            scenario, wrong = await take_snapshot(
                process.client, process.file, process.place, settings.scheduler
            )
        print(dump_scenario(scenario), end="")
        for line in wrong:
            print(line, file=sys.stderr)

    return _carefully(snapshot)


def _carefully(work: Callable[[], Coroutine[None, None, None]]) -> int:
    """Do something with a cluster; say in a line why that cannot be done."""
    try:
        asyncio.run(work())
    except CredentialsError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    except (ApiError, Unreachable, ListenError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0

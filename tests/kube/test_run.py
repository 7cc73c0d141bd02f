"""One process: what it does when a part of it breaks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from mooring.kube import run as run_module
from mooring.kube.driver import start_of
from mooring.kube.intake import kinds_of
from mooring.kube.resources import JOBS
from mooring.kube.run import Process, Settings
from mooring.kube.watch import Watch
from tests.kube.live import job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mooring.config import PolicyFile
    from mooring.kube.client import Client
    from mooring.kube.resources import Resource
    from tests.kube.live import Live


def settings_of(live: Live, policy: str = "") -> Settings:
    return Settings(
        kubeconfig=str(live.account), namespace="mooring", listen="127.0.0.1:0", policy=policy
    )


def test_who_cannot_watch_any_more_ends_and_says_why(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that has gone blind without a word is worse than none."""
    settings = settings_of(live)
    follow = Watch._follow

    async def break_down(watch: Watch) -> None:  # type: ignore[type-arg]
        if watch.resource.plural == "nodes":
            raise ZeroDivisionError("a mistake of ours")
        await follow(watch)

    monkeypatch.setattr(Watch, "_follow", break_down)
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        asyncio.run(asyncio.wait_for(_run(settings), 30))


def test_a_standby_takes_over_with_the_policy_of_that_moment(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not looked at the file since it was started."""
    file = tmp_path / "policy.yaml"
    file.write_text("queues: [{name: old}]\n")
    settings = settings_of(live, str(file))
    begun: list[PolicyFile] = []

    async def run() -> None:
        process = Process(settings)

        def note(policy: PolicyFile, *rest: Any) -> Any:
            begun.append(policy)
            asyncio.get_running_loop().call_later(0.2, process.stop)
            return start_of(policy, *rest)

        monkeypatch.setattr(run_module, "start_of", note)
        file.write_text("queues: [{name: new}]\n")
        await process.run()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert [queue.name for queue in begun[0].queues] == ["new"]


def test_a_kind_of_owner_that_comes_later_is_watched_too(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are not there when it starts, as the server itself has just been started."""
    asked = 0

    async def late(client: Client) -> tuple[list[Resource], list[Resource]]:
        nonlocal asked
        asked += 1
        there, missing = await kinds_of(client)
        return (there, missing) if asked > 1 else ([], [*there, *missing])

    monkeypatch.setattr(run_module, "kinds_of", late)
    monkeypatch.setattr(run_module, "KINDS_S", 0.2)
    live.plane.nodes(1)

    async def run() -> None:
        process = Process(settings_of(live))
        ran = asyncio.create_task(process.run())
        await until(lambda: process.health.is_leader and JOBS in process._watches)
        live.submit(job("train", 2, gpus=4))
        await until(lambda: len(live.nodes_of()) == 2)
        assert process.driver is not None
        assert [name.split("/", 1)[1] for name in process.driver.world.crews] == ["job/train"]
        process.stop()
        await ran

    asyncio.run(asyncio.wait_for(run(), 60))


async def until(true: Callable[[], object]) -> None:
    for _ in range(600):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("waited in vain")


async def _run(settings: Settings) -> None:
    await Process(settings).run()

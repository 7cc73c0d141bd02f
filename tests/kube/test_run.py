"""One process: what it does when a part of it breaks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mooring.kube.run import Process, Settings
from mooring.kube.watch import Watch

if TYPE_CHECKING:
    from tests.kube.live import Live


def test_who_cannot_watch_any_more_ends_and_says_why(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that has gone blind without a word is worse than none."""
    settings = Settings(kubeconfig=str(live.account), namespace="mooring", listen="127.0.0.1:0")
    follow = Watch._follow

    async def break_down(watch: Watch) -> None:  # type: ignore[type-arg]
        if watch.resource.plural == "nodes":
            raise ZeroDivisionError("a mistake of ours")
        await follow(watch)

    monkeypatch.setattr(Watch, "_follow", break_down)
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        asyncio.run(asyncio.wait_for(_run(settings), 30))


async def _run(settings: Settings) -> None:
    await Process(settings).run()

"""Health, readiness and metrics over HTTP.

`/healthz`: the loop turns. `/readyz`: the cluster has been seen, so that we lead or could at once.
`/metrics`: numbers for Prometheus.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.kube.meters import Meters

ADDRESS = "127.0.0.1:8080"


class Health:
    """Whether we live, and whether we are ready. The loop calls `beat` at each turn."""

    def __init__(self, limit_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_s
        """How long the loop may take for a turn, at most."""
        self.is_synced = False
        """It has seen the whole cluster."""
        self.is_leader = False
        self.is_stopping = False
        self._clock = clock
        self._at = clock()

    def beat(self) -> None:
        """Note that the loop turns: of a standby too."""
        self._at = self._clock()

    def age_s(self) -> float:
        """Return how long ago the last turn was."""
        return max(self._clock() - self._at, 0.0)

    def sick(self) -> str:
        """Return why we should be started again; empty: we live."""
        age = self.age_s()
        return f"the loop has not turned for {age:.0f} s" if age > self.limit_s else ""

    def unready(self) -> str:
        """Return why we are of no use now; empty: we lead, or stand by with all that is needed."""
        if self.is_stopping:
            return "it is stopping"
        return self.sick() or ("" if self.is_synced else "it has not seen the whole cluster yet")

    @property
    def role(self) -> str:
        """Return `leader` or `standby`."""
        return "leader" if self.is_leader else "standby"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """Return the address that a text means: `127.0.0.1:8080`, `[::1]:0`, `:8080` (all)."""
        host, colon, port = text.rpartition(":")
        is_whole = host.startswith("[") == host.endswith("]")
        if not colon or not port.isascii() or not port.isdigit() or not is_whole:
            raise ValueError(f"give HOST:PORT, not {text!r}")
        if int(port) > 65535 or (":" in host and not host.startswith("[")):
            raise ValueError(f"give HOST:PORT with a port up to 65535, not {text!r}")
        return cls(host.strip("[]"), int(port))


class ListenError(Exception):
    """An address that cannot be listened on."""


class Server:
    """Answers on one address. `start` returns the port: 0 asks for a free one."""

    def __init__(self, health: Health, meters: Meters, address: str = ADDRESS) -> None:
        self._health = health
        self._meters = meters
        try:
            self._address = Address.read(address)
        except ValueError as error:
            raise ListenError(f"--listen: {error}") from None
        meters.health = health
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Begin to answer."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address.host or None, self._address.port)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            where = f"{self._address.host}:{self._address.port}"
            raise ListenError(f"--listen: {where}: {error.strerror or error}") from None
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Answer no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(self._health.sick(), "ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._health.unready(), f"ok: {self._health.role}")

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._meters.registry), headers={"Content-Type": kind})


def _answer(wrong: str, right: str) -> web.Response:
    return web.Response(text=f"{wrong or right}\n", status=503 if wrong else 200)

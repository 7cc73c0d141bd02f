"""Where the API server is and who we are: kubeconfig files, or the service account of a pod."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


class CredentialsError(Exception):
    """No server or no way to say who we are: which file, which field, and what to do."""


class Credentials:
    """Where the server is and what to show it.

    `header` is the value of Authorization and good until `fresh_until` by the monotonic clock.
    `generation` counts client certificates: a new one needs new connections.
    """

    def __init__(self, server: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.server = server.rstrip("/")
        self.namespace = "default"
        self.ssl = tls
        self.server_name: str | None = None
        self.proxy: str | None = None
        self.header = f"Bearer {token}" if token else ""
        self.fresh_until = math.inf
        self.generation = 0

    async def refresh(self) -> None:
        """Get a fresh header."""

    async def rejected(self) -> None:
        """Forget what the server has refused, and get another."""

"""Runs on a cluster that is there already: Dask or Ray, which are imported only if asked for."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mooring.sim.errors import StudyError
from mooring.sim.parallel import PATIENCE_S, halting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")

LOCAL = "local"
DASK, RAY = "dask://", "ray://"
_TIMEOUT_S = 15


class Far(Protocol):
    """Somebody who works for us."""

    def submit(self, work: Callable[[T], R], task: T) -> Future[R]:
        """Let something be done; return its future."""

    def close(self) -> None:
        """Let go of what is not done, and of the cluster."""


def far_of(where: str) -> Far:
    """Return the cluster at `dask://HOST:PORT`, `ray://HOST:PORT` or `ray://auto`."""
    address = where.partition("://")[2]
    if where.startswith(DASK) and address:
        return _Dask(address)
    if where.startswith(RAY) and address:
        return _Ray(where)
    raise StudyError(f"--on {where}: write {LOCAL}, {DASK}HOST:PORT, {RAY}HOST:PORT or {RAY}auto")


def run_far(far: Far, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
    """Yield what comes of every task as it is done; the cluster is let go at the end."""
    waiting: set[Future[R]] = set()
    with halting() as halt:
        try:
            waiting |= {far.submit(work, task) for task in tasks}
            while waiting and not halt():
                ready, waiting = wait(waiting, PATIENCE_S, FIRST_COMPLETED)
                yield from (future.result() for future in ready)
        finally:
            for future in waiting:
                future.cancel()
            far.close()
    if waiting:
        raise KeyboardInterrupt


def _missing(what: str, where: str) -> StudyError:
    install = f"pip install 'mooring[{what}]'"
    return StudyError(f"--on {where}: {what} is not installed here; install it with {install}")


class _Dask:
    """A cluster of Dask."""

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError:
            raise _missing("dask", DASK + address) from None
        try:
            self._client: Any = distributed.Client(
                f"tcp://{address}", timeout=_TIMEOUT_S, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise StudyError(f"--on {DASK}{address}: nobody answers there: {error}") from error
        self._executor: Any = self._client.get_executor(pure=False)

    def submit(self, work: Callable[[T], R], task: T) -> Future[R]:
        """Let something be done; return its future."""
        future: Future[R] = self._executor.submit(work, task)
        return future

    def close(self) -> None:
        """Let go of what is not done, and of the cluster."""
        self._executor.shutdown(wait=False)
        self._client.close()


class _Ray:
    """A cluster of Ray."""

    def __init__(self, where: str) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise _missing("ray", where) from None
        self._ray = ray
        self._refs: list[Any] = []
        try:
            address = "auto" if where == f"{RAY}auto" else where
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except ImportError:
            raise _missing("ray", where) from None  # a part of it
        except (OSError, RuntimeError, ValueError) as error:
            raise StudyError(f"--on {where}: nobody answers there: {error}") from error

    def submit(self, work: Callable[[T], R], task: T) -> Future[R]:
        """Let something be done; return its future."""
        ref = self._ray.remote(work).remote(task)
        self._refs.append(ref)
        future: Future[R] = ref.future()
        return future

    def close(self) -> None:
        """Let go of what is not done, and of the cluster."""
        _, pending = self._ray.wait(self._refs, num_returns=len(self._refs), timeout=0)
        for ref in pending:
            self._ray.cancel(ref, force=True)
        self._ray.shutdown()

"""Many runs in several processes, with signs of life; Ctrl-C keeps what is done."""

from __future__ import annotations

import os
import signal
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event as Sign
    from types import FrameType

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_S = 0.2
"""How long to wait for a run before the signs of life are looked at again."""


@contextmanager
def halting() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C be a wish, which the function that is given tells; the second one breaks off."""
    wishes: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if wishes:
            raise KeyboardInterrupt
        wishes.append(number)

    if current_thread() is not main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(wishes)
    finally:
        signal.signal(signal.SIGINT, before)


def run_all(
    work: Callable[[T, Callable[[int], None]], R],
    tasks: Sequence[T],
    jobs: int,
    tick: Callable[[int], None] = lambda done: None,
) -> Iterator[R]:
    """Yield what comes of every task as it is done; `work` is a function of a module.

    It is given a task and `tick`, which it calls with how much more is done.
    """
    if jobs <= 1 or len(tasks) <= 1:
        yield from (work(task, tick) for task in tasks)
        return
    context = get_context("spawn")
    done, stop = context.Value("q", 0), context.Event()
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (done, stop))
    with halting() as halt:  # an exception anywhere could leave a lock behind that workers need
        try:
            waiting, told = _submit(pool, work, tasks), 0
            while waiting and not halt():
                ready, waiting = wait(waiting, PATIENCE_S, FIRST_COMPLETED)
                told, before = done.value, told
                tick(told - before)
                yield from (future.result() for future in ready)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    if waiting:
        raise KeyboardInterrupt


def _submit(
    pool: ProcessPoolExecutor, work: Callable[[T, Callable[[int], None]], R], tasks: Sequence[T]
) -> set[Future[R]]:
    """Submit all; Ctrl-C waits for that, and the processes that begin here never hear of it."""
    if not hasattr(signal, "pthread_sigmask"):  # not a Unix
        return {pool.submit(_work, work, task) for task in tasks}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return {pool.submit(_work, work, task) for task in tasks}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _StoppedError(Exception):
    """Nobody waits for this run any more."""


_worker: list[tuple[Synchronized[int], Sign]] = []
"""In a worker process: how much is done, and the sign to stop."""


def _begin(done: Synchronized[int], stop: Sign) -> None:
    """Make a worker process ready; Ctrl-C is for the one that waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker.append((done, stop))


def _work(work: Callable[[T, Callable[[int], None]], R], task: T) -> R:
    ((done, stop),), parent = _worker, parent_process()

    def tick(count: int) -> None:
        if parent is not None and not parent.is_alive():
            os._exit(1)  # it was killed: nobody is there to hear of anything
        if stop.is_set():
            raise _StoppedError
        with done.get_lock():
            done.value += count

    return work(task, tick)

"""The keeper: a small process that starts programs and ends them when it is told, or left alone.

It is its own session, so an interrupt at the terminal does not reach it. It reads a JSON command
per line and answers each with a JSON line. When its input ends, because `stop` was called or
because the test process died in whatever way, it kills all that it started and removes the
folders that it was told of. Should the keeper itself be killed, the system kills its programs.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LONGEST_STOP_S = 20
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Keeper:
    """The side of the test process: start programs, signal them, ask how they are."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Return the process id of the keeper itself."""
        return self._process.pid

    def start(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str]) -> int:
        """Start a program in place of any of this name, its output to the end of `log`."""
        command = {"do": "start", "name": name, "argv": list(argv), "log": str(log)}
        answer = self._ask(command | {"env": dict(env)})
        if "error" in answer:
            raise OSError(answer["error"])
        return int(answer["pid"])

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a program; SIGKILL waits until it is gone."""
        self._ask({"do": "signal", "name": name, "number": int(number)})

    def ended(self, name: str) -> int | None:
        """Return the exit code of a program, or none while it runs."""
        code: int | None = self._ask({"do": "poll", "name": name})["code"]
        return code

    def stop(self) -> None:
        """End everything; return when all is gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_LONGEST_STOP_S)
        self._process.stdout.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _begin() -> None:
    """Let a program listen to the signals that the keeper ignores, and die with the keeper."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve(folder: str) -> None:
    """Do what the lines of the input say, then end everything."""
    programs: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_do(json.loads(line), programs)) + "\n")
            sys.stdout.flush()
    finally:
        for program in programs.values():
            program.kill()
        for program in programs.values():
            program.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _do(command: dict[str, Any], programs: dict[str, subprocess.Popen[bytes]]) -> dict[str, Any]:
    name = command["name"]
    if command["do"] == "start":
        if name in programs:
            programs[name].kill()
            programs[name].wait()
        try:
            with open(command["log"], "ab") as log:
                programs[name] = subprocess.Popen(
                    command["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=command["env"],
                    preexec_fn=_begin,  # safe: the keeper has one thread
                )
        except OSError as error:
            return {"error": str(error)}
        return {"pid": programs[name].pid}
    program = programs[name]
    if command["do"] == "signal" and program.poll() is None:
        os.kill(program.pid, command["number"])
        if command["number"] == signal.SIGKILL:
            program.wait()
    return {"code": program.poll()}


if __name__ == "__main__":
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _serve(sys.argv[1])

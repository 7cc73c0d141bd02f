"""The guide from a kubeconfig to a running gang: every command in it is run, in order."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane import program

if TYPE_CHECKING:
    from tests.kube.kubelet import Kubelet
    from tests.kube.plane import Plane

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(
    r"^\$ (.*)$",
    "\n".join(
        re.findall(
            r"^```console\n(.*?)^```$", (ROOT / "docs/kubernetes.md").read_text(), re.M | re.S
        )
    ),
    re.M,
)


def _is_synced(log: Path) -> bool:
    return "event=synced" in log.read_text()


def test_every_command_of_the_guide_works(
    plane: Plane, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    plane.nodes(4, labels={"topology.kubernetes.io/rack": "r1"})
    for name in ("docs", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    config = tmp_path / "kubeconfig"
    shutil.copy(plane.kubeconfig, config)
    tools = [str(Path(sys.executable).parent), str(Path(program("kubectl")).parent)]
    env = {
        **os.environ,
        "KUBECONFIG": str(config),
        "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
    }
    said: dict[str, str] = {}
    running: list[str] = []
    try:
        for command in COMMANDS:
            if command.endswith("&"):
                name = f"guide-{len(running)}"
                running.append(name)
                plane.spawn(name, ["sh", "-c", f"cd {tmp_path}; exec {command[:-1]}"], env)
                plane.wait_for(partial(_is_synced, plane.log(name)), 30, "it runs")
                continue
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True,
                timeout=90, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}\n{plane.shown()}"
            said[command] = done.stdout
    finally:
        plane.wipe("research")
        for name in running:
            plane.signal(name, signal.SIGKILL)
    words = "\n".join(said.values())
    assert len(set(re.findall(r"\bnode-\d\b", words))) == 4
    assert "0,1,2,3,4,5,6,7" in words
    assert "16" in words

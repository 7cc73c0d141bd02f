"""`mooring run` and `mooring snapshot`: options, and what is said where nothing can be done."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from mooring.cli.kube import options
from mooring.cli.main import main, parser

if TYPE_CHECKING:
    from pathlib import Path


def _options(*words: str) -> dict[str, object]:
    return options(parser().parse_args(["run", *words]))


def test_options_may_stand_in_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("policy: p.yaml\nlease-duration: 30s\nadvisor: true\nlease: one\n")

    found = _options("--config", str(file), "--lease", "two")

    assert found == {"policy": "p.yaml", "lease-duration": 30.0, "advisor": True, "lease": "two"}


def test_all_mistakes_in_a_file_of_options_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("polcy: p.yaml\nlease-duration: soon\nadvisor: perhaps\nlog-format: xml\n")

    assert main(["run", "--config", str(file)]) == 2

    said = capsys.readouterr().err
    assert all(word in said for word in ("polcy", "policy", "soon", "perhaps", "xml")), said
    assert len(said.splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--config", "nowhere.yaml"], "nowhere.yaml: there is no such file"),
        (["--lease-duration", "soon"], "--lease-duration"),
        (["--kubeconfig", "nowhere"], "nowhere"),
        (["--policy", "nowhere.yaml", "--kubeconfig", "KUBECONFIG"], "nowhere.yaml"),
        (["--listen", "here", "--kubeconfig", "KUBECONFIG"], "--listen: give HOST:PORT"),
        (["--listen", "TAKEN", "--kubeconfig", "KUBECONFIG"], "--listen: 127.0.0.1"),
        (["--listen", "127.0.0.1:0", "--kubeconfig", "KUBECONFIG"], "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: a, user: {token: t}}]\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        given = [{"KUBECONFIG": str(config), "TAKEN": address}.get(word, word) for word in words]

        assert main(["run", *given]) == 2

    said = capsys.readouterr().err
    assert expected in said
    assert "Traceback" not in said

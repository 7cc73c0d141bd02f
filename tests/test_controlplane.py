"""How the programs of the control plane are found and built; here with a Go that only pretends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import controlplane
from tools.controlplane import FAMILIES, CannotBuildError, manifests, program

ROOT = Path(__file__).parents[1]

GO = """#!/bin/sh
case "$1" in
env) echo go1.99.1;;
build)
  echo "$@" >> "{folder}/calls"
  sleep 0.3
  [ -e "{folder}/broken" ] && { echo "no such module" >&2; exit 1; }
  while [ "$1" != -o ]; do shift; done
  echo built > "$2"; chmod +x "$2";;
mod) ;;
list) echo "{folder}/archive";;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose Go notes its calls; the cache is empty."""
    script = tmp_path / "go"
    script.write_text(GO.replace("{folder}", str(tmp_path)))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def test_a_program_is_built_once_with_its_version(go: Path) -> None:
    path = program("kube-apiserver")
    assert path.is_relative_to(go / "cache" / "mooring" / "controlplane")
    assert program("kube-apiserver") == path
    (call,) = (go / "calls").read_text().splitlines()
    assert "version.gitVersion=v1.37.1 " in call
    assert call.endswith("k8s.io/kubernetes/cmd/kube-apiserver")
    assert "v1.37.1" in str(path)


def test_two_at_once_build_once(go: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/controlplane.py"), "etcd"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert said[0] == said[1]
    assert len((go / "calls").read_text().splitlines()) == 1


def test_a_build_that_fails_leaves_nothing_and_says_why(go: Path) -> None:
    (go / "broken").touch()
    with pytest.raises(CannotBuildError, match="no such module"):
        program("etcd")
    assert list((go / "cache").rglob("*etcd")) == []
    (go / "broken").unlink()
    assert program("etcd").exists()


def test_a_folder_with_programs_is_used(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = go / "assets"
    assets.mkdir()
    (assets / "etcd").write_text("mine")
    (assets / "etcd").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert program("etcd") == assets / "etcd"
    assert program("kube-apiserver").read_text() == "built\n"


def test_manifests_are_taken_out_of_the_archive(go: Path) -> None:
    for name in ("config/crd/bases/ray.yaml", "config/crd/other.yaml"):
        (go / "archive" / name).parent.mkdir(parents=True, exist_ok=True)
        (go / "archive" / name).write_text("kind: Test")
    assert [file.name for file in manifests("kuberay").iterdir()] == ["ray.yaml"]


def test_without_any_go_one_is_told_what_to_do(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlplane, "_new_enough", lambda go: False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(CannotBuildError, match=r"needs Go 1\.26 or newer(.|\n)*Install Go, or set"):
        program("etcd")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.name))
def test_every_module_is_pinned_with_its_checksum(family: controlplane.Family) -> None:
    sums = (family.folder / "go.sum").read_text()
    assert f"{family.module} {family.version()} h1:" in sums

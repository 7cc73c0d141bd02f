"""The policy file is read again when it changes, and a bad edit changes nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mooring.config import ConfigError, read_policy
from mooring.engine import Engine
from mooring.kube.policyfile import Change, PolicyWatch, Refused, changes, try_on
from mooring.model.cluster import Device, Node
from mooring.model.events import NodeJoined, PolicyChanged, QueuesChanged

EXAMPLE = Path(__file__).parents[2] / "docs/examples/policy.yaml"
ONE = "queues: [{name: a}]\n"
TWO = "queues: [{name: a}, {name: b}]\n"
STRICT = f"{ONE}policy: {{gang_grace: 5m}}\n"
PROMISE = f"{TWO}policy: {{headroom: [{{queue: b, gpus: 1, within: 60s}}]}}\n"


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """Return a path as a kubelet mounts a ConfigMap: policy.yaml -> ..data/policy.yaml."""
    write(tmp_path, ONE)
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    return tmp_path / "policy.yaml"


def write(folder: Path, text: str | bytes) -> None:
    """Write a new version into a folder of its own, and swap the link."""
    number = len(list(folder.glob("..v*")))
    version = folder / f"..v{number}"
    version.mkdir()
    (version / "policy.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "..new").symlink_to(version.name)
    os.replace(folder / "..new", folder / "..data")


def test_nothing_new_is_nothing(mount: Path) -> None:
    watch = PolicyWatch(mount)
    assert watch.file == read_policy(ONE)
    assert watch.look() is None
    write(mount.parent, ONE)
    assert watch.look() is None
    write(mount.parent, "# words\n" + ONE)
    assert watch.look() is None
    assert watch.taken == 0


def test_an_edit_is_told_as_events(mount: Path) -> None:
    watch = PolicyWatch(mount)
    write(mount.parent, TWO)
    assert watch.look() == Change(read_policy(TWO), (QueuesChanged(read_policy(TWO).queues),))
    assert watch.look() is None
    write(mount.parent, STRICT)
    found = watch.look()
    assert isinstance(found, Change)
    assert [type(event) for event in found.events] == [PolicyChanged, QueuesChanged]
    write(mount.parent, ONE)
    assert watch.look() == Change(read_policy(ONE), (PolicyChanged(read_policy(ONE).policy),))
    assert (watch.taken, watch.refused) == (3, 0)


def test_who_is_to_make_an_engine_takes_what_is_there(mount: Path) -> None:
    """Whatever the engine before it would have said."""
    watch = PolicyWatch(mount, trial=lambda _: ("not with me",))
    write(mount.parent, TWO)
    watch.renew()
    assert watch.file == read_policy(TWO)
    write(mount.parent, "queues: 7\n")
    watch.renew()
    assert watch.file == read_policy(TWO)


def test_a_plain_file_that_is_written_over_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(ONE)
    watch = PolicyWatch(path)
    path.write_text(TWO)
    os.utime(path, ns=(1, 1))
    assert isinstance(watch.look(), Change)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: [{name: a, weight: -1}, {name: a}]\npolicy: {small: best}\n", 3),
        ("queues: [", 1),
        ("", 1),
        (b"\xff\xfe\x00", 1),
        (b" " * (1 << 27), 1),
        ("topology: {levels: [rack]}\n" + ONE, 1),
    ],
    ids=["three mistakes", "no YAML", "empty", "no text", "huge", "levels"],
)
def test_a_bad_edit_is_refused_with_all_mistakes(
    mount: Path, text: str | bytes, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    watch = PolicyWatch(mount)
    before = watch.file
    write(mount.parent, text)
    found = watch.look()
    assert isinstance(found, Refused)
    assert len(found.mistakes) == said
    assert "policy refused" in caplog.text
    assert watch.look() is None  # it is told once
    assert watch.file == before
    assert watch.refused == 1
    write(mount.parent, TWO)
    assert isinstance(watch.look(), Change)


def test_the_old_text_again_after_a_bad_edit_is_no_change(mount: Path) -> None:
    watch = PolicyWatch(mount)
    write(mount.parent, "queues: [")
    assert isinstance(watch.look(), Refused)
    write(mount.parent, ONE)
    assert watch.look() is None


def test_a_file_that_is_missing_for_a_moment_is_no_change(mount: Path) -> None:
    watch = PolicyWatch(mount)
    link = mount.parent / "..data"
    link.unlink()
    assert watch.look() is None
    write(mount.parent, TWO)
    assert isinstance(watch.look(), Change)


def test_the_first_file_must_be_good(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        PolicyWatch(tmp_path / "none.yaml")
    (tmp_path / "p.yaml").write_text("queues: 7")
    with pytest.raises(ConfigError):
        PolicyWatch(tmp_path / "p.yaml")


def test_it_looks_by_itself(mount: Path) -> None:
    async def run() -> None:
        told: list[Change | Refused] = []
        task = asyncio.create_task(PolicyWatch(mount, every_s=0.01).run(told.append))
        write(mount.parent, TWO)
        async with asyncio.timeout(5):
            while not told:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        task.cancel()
        assert isinstance(told[0], Change)

    asyncio.run(run())


PROFILES = [
    f"queues: [{{name: a}}, {{name: b, parent: a, order: {order}}}]\npolicy: {{profile: {name}}}\n"
    for name, order in [("default", "backfill"), ("kai", "''"), ("kueue", "strict")]
]
FILES = {
    "one": ONE,
    "two": TWO,
    "strict": STRICT,
    "promise": PROMISE,
    "other promise": PROMISE.replace("name: a}", "name: c}"),
    "promise of another": PROMISE.replace("queue: b", "queue: a"),
    **{f"profile {number}": text for number, text in enumerate(PROFILES)},
}


READ = {name: read_policy(text.replace(", order: ''", "")) for name, text in FILES.items()}


@pytest.mark.parametrize("old", READ)
@pytest.mark.parametrize("new", READ)
def test_an_engine_takes_every_edit(old: str, new: str) -> None:
    """Whatever changes at once: promises name queues, and orders depend on the profile."""
    engine = Engine(READ[old].topology, READ[old].policy, queues=READ[old].queues)
    engine.observe(NodeJoined(Node("n0", (("cpu", 8000), ("pods", 9)), devices=(Device(),) * 2)))
    engine.decide(1.0)
    events = changes(READ[old], READ[new])
    assert try_on(engine, events) == ()
    for event in events:
        engine.observe(event)
    assert (engine.policy, engine.queues) == (READ[new].policy, READ[new].queues)
    engine.decide(2.0)


def test_what_the_engine_does_not_take_is_refused(mount: Path) -> None:
    """A promise of more than there is can be read, but not kept."""
    engine = Engine(read_policy(ONE).topology, queues=read_policy(ONE).queues)
    engine.observe(NodeJoined(Node("n0", (("cpu", 8000), ("pods", 9)), devices=(Device(),) * 2)))
    engine.decide(1.0)
    watch = PolicyWatch(mount, trial=lambda events: try_on(engine, events))
    write(mount.parent, PROMISE.replace("gpus: 1", "gpus: 3"))
    found = watch.look()
    assert isinstance(found, Refused)
    assert "3" in found.mistakes[0]
    assert engine.queues == read_policy(ONE).queues
    write(mount.parent, PROMISE)
    assert isinstance(watch.look(), Change)


def test_the_example_of_the_manual_can_be_watched() -> None:
    assert PolicyWatch(EXAMPLE).look() is None

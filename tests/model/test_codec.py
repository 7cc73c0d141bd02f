"""Values of the model survive the way to JSON and back, and wrong data is named with its path."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.cluster import Device, Node
from mooring.model.codec import CodecError, decode, encode
from mooring.model.events import (
    Adopted,
    Event,
    NodeJoined,
    PolicyChanged,
    QueuesChanged,
    Submitted,
    TasksChanged,
)
from mooring.model.memory import Memory
from mooring.model.plan import Behind, Bind, Decision, Plan, Reason, Record, Reserve, Waiting
from mooring.model.queues import Queue, Quota
from mooring.model.scenario import Scenario
from mooring.model.settings import Fairness, Policy
from mooring.model.workload import Placement, PodGroup, Shape, TaskState, Workload
from tests.strategies import typed

TYPES = {"Event": Event, "Decision": Decision, "Reason": Reason} | {
    class_.__name__: class_ for class_ in (Plan, Record, Scenario, Memory, Policy)
}


@pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES)
@given(data=st.data())
def test_value_survives_json(type_: Any, data: st.DataObject) -> None:
    value = data.draw(typed(type_))
    for full in (False, True):
        text = json.dumps(encode(value, full=full), allow_nan=False)
        again = decode(type_, json.loads(text))
        assert again == value
        assert type(again) is type(value)


def test_same_value_gives_same_text_every_time() -> None:
    shape = Shape((("cpu", 1),), gpus=2)
    workload = Workload("w", (PodGroup("g", shape),))
    assert json.dumps(encode(workload)) == json.dumps(encode(decode(Workload, encode(workload))))
    assert hash(decode(Workload, encode(workload))) == hash(workload)


def test_record_is_as_small_as_it_can_be() -> None:
    record = Record(
        1.5,
        (
            NodeJoined(Node("n", (("cpu", 8000),), devices=(Device(), Device(healthy=False)))),
            Submitted(Workload("w", (PodGroup("g", groups=(PodGroup("inner"),)),))),
            TasksChanged("w", "inner", (0, 1), TaskState.RUNNING),
        ),
        Plan((Bind("w", Placement("g", (0,), ("n",), (3,))),), (Waiting("v", (Behind("w"),)),)),
    )
    assert encode(record) == {
        "now": 1.5,
        "events": [
            {
                "kind": "node-joined",
                "node": {
                    "name": "n",
                    "capacity": [["cpu", 8000]],
                    "devices": [{}, {"healthy": False}],
                },
            },
            {
                "kind": "submitted",
                "workload": {
                    "name": "w",
                    "groups": [{"name": "g", "groups": [{"name": "inner"}]}],
                },
            },
            {
                "kind": "tasks-changed",
                "workload": "w",
                "group": "inner",
                "tasks": [0, 1],
                "state": "running",
            },
        ],
        "plan": {
            "decisions": [
                {
                    "kind": "bind",
                    "workload": "w",
                    "placement": {"group": "g", "tasks": [0], "nodes": ["n"], "devices": [3]},
                }
            ],
            "waiting": [{"workload": "v", "reasons": [{"kind": "behind", "workload": "w"}]}],
        },
    }


def test_full_writes_every_default_out() -> None:
    data: Any = encode(PolicyChanged(Policy()), full=True)
    assert list(data["policy"]) == [f.name for f in fields(Policy)]
    assert data["policy"]["search_steps"] == Policy().search_steps
    assert list(data["policy"]["fairness"]) == [f.name for f in fields(Fairness)]
    changed: Any = encode(QueuesChanged((Queue("q", quotas=(Quota("gpu"),)),)), full=True)
    (queue,) = changed["queues"]
    assert list(queue) == [f.name for f in fields(Queue)]
    assert queue["quotas"] == [
        {
            "resource": "gpu",
            "flavor": "",
            "quota": 0,
            "limit": None,
            "weight": None,
            "borrowing_limit": None,
            "lending_limit": None,
        }
    ]


def test_queues_are_as_small_as_they_can_be() -> None:
    queues = (
        Queue("org"),
        Queue("q", "org", (Quota("gpu", "H100", None), Quota("cpu", quota=4000)), namespaces=()),
    )
    data = encode(QueuesChanged(queues))
    assert data == {
        "kind": "queues-changed",
        "queues": [
            {"name": "org"},
            {
                "name": "q",
                "parent": "org",
                "quotas": [
                    {"resource": "gpu", "flavor": "H100", "quota": None},
                    {"resource": "cpu", "quota": 4000},
                ],
                "namespaces": [],
            },
        ],
    }
    assert decode(Event, data) == QueuesChanged(queues)


def test_field_that_came_later_takes_its_default() -> None:
    assert decode(Workload, {"name": "w", "groups": []}) == Workload("w", ())


def test_class_of_a_union_needs_no_kind_where_only_it_can_be() -> None:
    adopted = Adopted(Workload("w", ()))
    assert encode(Scenario(running=(adopted,)))["running"] == [encode(adopted)]
    assert decode(Scenario, {"running": [{"workload": {"name": "w", "groups": []}}]}) == Scenario(
        running=(adopted,)
    )


def test_infinite_time_is_a_word() -> None:
    reserve = Reserve("w", (), float("inf"))
    assert encode(reserve)["until"] == "inf"
    assert decode(Decision, encode(reserve)) == reserve


def test_nan_is_refused() -> None:
    with pytest.raises(CodecError, match="nan"):
        encode(Record(float("nan"), (), Plan()))


NODE = {"kind": "node-joined", "node": {"name": "n"}}
GROUP = {"name": "g", "groups": [{"name": "h", "min": "2"}]}
WRONG: dict[str, tuple[Any, Any, str]] = {
    "not an object": (Plan, [], "expected an object, found []"),
    "not a list": (Plan, {"decisions": {}}, "decisions: expected a list, found {}"),
    "not an int": (Workload, {"name": "w", "groups": [], "priority": 1.0}, "priority: expected a"),
    "true is no int": (
        TasksChanged,
        {"workload": "w", "group": "g", "tasks": [0, True], "state": "bound"},
        "tasks[1]: expected a whole number, found True",
    ),
    "not a text": (Node, {"name": 5}, "name: expected a text, found 5"),
    "not a bool": (Node, {"name": "n", "ready": 1}, "ready: expected true or false, found 1"),
    "not a number": (Plan, {"wake_at": "soon"}, "wake_at: expected a number, found 'soon'"),
    "infinite literal": (Plan, {"wake_at": float("inf")}, "wake_at: expected a number, found inf"),
    "nan literal": (Plan, {"wake_at": float("nan")}, "wake_at: expected a number, found nan"),
    "too large": (Plan, {"wake_at": 10**400}, "wake_at: expected a number, found 1000"),
    "not of the enum": (
        TasksChanged,
        {"workload": "w", "group": "g", "tasks": [], "state": "gone"},
        "state: expected one of pending, assumed, bound",
    ),
    "enum of no text": (
        TasksChanged,
        {"workload": "w", "group": "g", "tasks": [], "state": []},
        "state: expected one of pending",
    ),
    "row of wrong length": (
        Node,
        {"name": "n", "capacity": [["cpu", 1], ["cpu"]]},
        "capacity[1]: expected a list of 2, found ['cpu']",
    ),
    "wrong part of a row": (
        Node,
        {"name": "n", "capacity": [["cpu", 1], ["gpu", None]]},
        "capacity[1][1]: expected a whole number, found None",
    ),
    "deep inside": (
        Record,
        {
            "now": 0,
            "events": [
                NODE,
                {"kind": "submitted", "workload": {"name": "w", "groups": [{}, GROUP]}},
            ],
            "plan": {},
        },
        "events[1].workload.groups[0]: field 'name' is missing",
    ),
    "in a nested group": (
        Workload,
        {"name": "w", "groups": [GROUP]},
        "groups[0].groups[0].min: expected a whole number, found '2'",
    ),
    "unknown field": (Node, {"name": "n", "size": 1}, "unknown field 'size'"),
    "private field": (Shape, {"_hash": 1}, "unknown field '_hash'"),
    "missing field": (Node, {}, "field 'name' is missing"),
    "kind on a class without": (Node, {"kind": "node", "name": "n"}, "unknown field 'kind'"),
    "kind of another class": (NodeJoined, NODE | {"kind": "x"}, "kind: expected 'node-joined'"),
    "unknown kind": (Reason, {"kind": "bind"}, "expected a kind of no-room, impossible, "),
    "no kind": (Event, {"node": {}}, "expected a kind of node-joined, "),
    "kind of no text": (Event, {"kind": []}, "expected a kind of node-joined, "),
    "union of no object": (Event, 7, "expected a kind of node-joined, "),
}


@pytest.mark.parametrize(("type_", "data", "said"), WRONG.values(), ids=WRONG)
def test_wrong_data_is_named_with_its_path(type_: Any, data: Any, said: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(type_, data)
    assert str(caught.value).startswith(said)


def test_long_data_is_cut_in_the_message() -> None:
    with pytest.raises(CodecError) as caught:
        decode(int, "x" * 1000)
    assert len(str(caught.value)) < 120


def test_endless_nesting_is_an_error_like_any_other() -> None:
    data: Any = {"name": "g"}
    for _ in range(100_000):
        data = {"name": "g", "groups": [data]}
    with pytest.raises(CodecError, match="too deeply"):
        decode(PodGroup, data)
    while data.get("groups"):  # taken apart by hand: Python's own way may be too deep as well
        data = data["groups"].pop()


@dataclass(frozen=True)
class Careful:
    """A class that checks what it is given."""

    size: int = 0
    parts: tuple[tuple[str, float], ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size is negative")


@dataclass(frozen=True)
class Strange:
    """A class with a field that JSON has no word for."""

    what: complex = 0j


@dataclass(frozen=True)
class Mixed:
    """A class with a union that nobody told the codec of."""

    what: Careful | Strange = field(default_factory=Careful)


def test_tuple_of_fixed_length_keeps_the_type_of_each_part() -> None:
    careful = Careful(parts=(("a", float("inf")), ("b", 0.5)))
    assert encode(careful) == {"parts": [["a", "inf"], ["b", 0.5]]}
    assert decode(Careful, encode(careful)) == careful


def test_refusal_of_the_class_itself_has_a_path() -> None:
    assert encode(Careful()) == {}
    with pytest.raises(CodecError, match=r"^\[1\]: size is negative"):
        decode(tuple[Careful, ...], [{}, {"size": -1}])


@pytest.mark.parametrize("value", [Strange(), Mixed(), 5], ids=["type", "union", "no dataclass"])
def test_type_that_the_codec_does_not_know_is_a_bug(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value)


def test_event_of_a_union_must_be_one_of_it() -> None:
    record = Record(0.0, (Behind("w"),), Plan())  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        encode(record)

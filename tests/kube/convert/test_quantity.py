"""Quantities: what Kubernetes takes for one, exactly, and the units of the model."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.convert import quantity

RIGHT: dict[str | int | float, Fraction | int] = {
    "0": 0,
    "1": 1,
    "100m": Fraction(1, 10),
    "1500u": Fraction(15, 10_000),
    "7n": Fraction(7, 10**9),
    "2k": 2000,
    "2Ki": 2048,
    "3M": 3_000_000,
    "3Mi": 3 << 20,
    "1.5Gi": 3 << 29,
    "1G": 10**9,
    "1T": 10**12,
    "1Ti": 1 << 40,
    "1P": 10**15,
    "1Pi": 1 << 50,
    "1E": 10**18,
    "1Ei": 1 << 60,
    "1e3": 1000,
    "1E3": 1000,
    "12E-1": Fraction(12, 10),
    "1e+2": 100,
    "+5": 5,
    "-5": -5,
    ".5": Fraction(1, 2),
    "5.": 5,
    "0.0000000001": Fraction(1, 10**9),  # finer than a billionth: rounded up to one
    "1.0000000001": 1 + Fraction(1, 10**9),
    8: 8,
    0.5: Fraction(1, 2),
    1e21: 10**21,
}
WRONG: list[str | int | float] = [
    *("", ".", "-", "Gi", "1ki", "1K", "1 Gi", " 1", "1Gi ", "1gi", "1e", "1e1.5", "1.2.3", "0x10"),
    *(
        "1,5",
        "\u0661",
        "½",
        "1Mi5",
        "--1",
        "1e9999",
        "1" * 61,
        float("inf"),
        float("nan"),
        "inf",
        "1_000",
    ),
]


@pytest.mark.parametrize(("written", "value"), RIGHT.items(), ids=map(str, RIGHT))
def test_quantity_is_exact(written: str | int | float, value: Fraction | int) -> None:
    assert quantity.parse(written) == value


@pytest.mark.parametrize("written", WRONG, ids=repr)
def test_what_is_no_quantity(written: str | int | float) -> None:
    assert quantity.parse(written) is None


@pytest.mark.parametrize(
    ("resource", "written", "asked", "given"),
    [
        ("cpu", "1500m", 1500, 1500),
        ("cpu", "0.0005", 1, 0),
        ("cpu", "2", 2000, 2000),
        ("memory", "1Gi", 1024, 1024),
        ("memory", "1G", 954, 953),
        ("memory", "1", 1, 0),
        ("ephemeral-storage", "10Gi", 10_240, 10_240),
        ("hugepages-2Mi", "4Mi", 4, 4),
        ("rdma/hca", "3", 3, 3),
    ],
)
def test_units_of_the_model(resource: str, written: str, asked: int, given: int) -> None:
    """What is asked is rounded up, what there is is rounded down."""
    exact = quantity.parse(written)
    assert exact is not None
    assert quantity.asked(resource, exact) == asked
    assert quantity.given(resource, exact) == given


@given(st.integers(0, 10**12), st.sampled_from(("", "m", "k", "M", "Ki", "Mi", "Gi", "e3", "u")))
def test_more_digits_never_mean_less(number: int, suffix: str) -> None:
    """The next number, and the same one with a part more, are larger."""
    here = quantity.parse(f"{number}{suffix}")
    between = quantity.parse(f"{number}.5{suffix}")
    above = quantity.parse(f"{number + 1}{suffix}")
    assert here is not None
    assert between is not None
    assert above is not None
    assert here < between < above


@given(st.text(max_size=30))
def test_no_text_is_too_much(written: str) -> None:
    found = quantity.parse(written)
    assert found is None or isinstance(found, Fraction)

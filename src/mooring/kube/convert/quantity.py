"""Quantities as Kubernetes writes them: exact numbers, and amounts of the model.

`500m`, `64Gi`, `1e3`, `.5`, `2.`: anything finer than a billionth is rounded up to it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from mooring.model.resources import CPU, MEMORY

MOST = 1 << 40
"""More than this of anything is more than a node can have."""
FORM = "give a quantity, like 4, 500m or 64Gi"
LESS = "give less: it is more than any node can have"

_MIB = 1 << 20
_FINEST = 10**9
_EXPONENT_MOST = 40
_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(
    r"([+-]?)([0-9]{0,60})(?:\.([0-9]{0,60}))?(?:[eE]([+-]?[0-9]{1,4})|([numkMGTPE]|[KMGTPE]i)?)"
)


@lru_cache(maxsize=1 << 14)
def parse(given: str | int | float) -> Fraction | None:
    """Return the number that a quantity stands for; None: it is none."""
    found = _QUANTITY.fullmatch(given if isinstance(given, str) else repr(given))
    if found is None:
        return None
    sign, whole, part, exponent, suffix = found.groups()
    digits = (whole or "") + (part or "")
    if not digits or (exponent and abs(int(exponent)) > _EXPONENT_MOST):
        return None
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    value = Fraction(int(digits), 10 ** len(part or "")) * scale
    value = Fraction(ceil(value * _FINEST), _FINEST)
    return -value if sign == "-" else value


def in_mebibytes(resource: str) -> bool:
    """Return whether a resource is counted in MiB."""
    return resource in (MEMORY, "ephemeral-storage") or resource.startswith("hugepages-")


def asked(resource: str, exact: Fraction) -> int:
    """Return what is asked of a resource in the unit of the model, rounded up."""
    return ceil(_scaled(resource, exact))


def given(resource: str, exact: Fraction) -> int:
    """Return what there is of a resource in the unit of the model, rounded down."""
    return floor(_scaled(resource, exact))


def _scaled(resource: str, exact: Fraction) -> Fraction:
    if resource == CPU:
        return exact * 1000
    return exact / _MIB if in_mebibytes(resource) else exact

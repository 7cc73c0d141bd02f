"""Which devices a task has, as text on its pod: `0,3`; a slice of a MIG device: `0.2`."""

from __future__ import annotations

from mooring.model.books import bits

MOST = 512
"""Numbers above this are no devices."""


def devices_text(mask: int, *, mig: bool = False) -> str:
    """Return devices as they are written on a pod."""
    if not mig:
        return ",".join(map(str, bits(mask)))
    return ",".join(f"{bit >> 3}.{bit & 7}" for bit in bits(mask))


def devices_mask(text: str, *, mig: bool = False) -> int | None:
    """Return the devices that stand on a pod; None: that cannot be read."""
    mask = 0
    for part in text.split(","):
        device, dot, part_of = part.strip().partition(".")
        if bool(dot) != mig or not _is_number(device) or int(device) > MOST:
            return None
        if mig and not (_is_number(part_of) and int(part_of) < 8):
            return None
        mask |= 1 << (8 * int(device) + int(part_of) if mig else int(device))
    return mask


def _is_number(word: str) -> bool:
    """Return whether a word is a number; users may write thousands of digits on their pods."""
    return word.isascii() and word.isdecimal() and len(word) <= len(str(MOST))

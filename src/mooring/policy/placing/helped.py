"""Whether a change could let a sleeping ask go on: by counting, before anything is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.policy.placing.ask import Ask, Part
    from mooring.policy.placing.fit import Fits


class Helped:
    """Answers for one set of changed rows; None: any row may have changed."""

    def __init__(self, fits: Fits, rows: list[int] | None) -> None:
        self._fits = fits
        self._rows = rows
        self._known: dict[tuple[int, tuple[str, ...]], bool] = {}

    def __call__(self, ask: Ask, closed: tuple[str, ...] = ()) -> bool:
        """Return whether the ask should be tried again; what is on closed nodes is not for it."""
        if ask.problems:
            return False
        avoid = (*ask.avoid, *closed)
        return all(self._has_room(leaf, avoid) for leaf in ask.leaves) and any(
            self._is_near(leaf, avoid) for leaf in ask.leaves
        )

    def _has_room(self, leaf: Part, avoid: tuple[str, ...]) -> bool:
        """Return whether there is room enough for a leaf, as far as counting can tell."""
        assert leaf.demand is not None
        fit = self._fits.of(leaf.demand, without=(avoid, ()))
        room = fit.total if fit.company is None else int(fit.anywhere[0][0])
        return room >= (leaf.least or leaf.count)

    def _is_near(self, leaf: Part, avoid: tuple[str, ...]) -> bool:
        """Return whether a copy of a leaf fits on a row that changed."""
        assert leaf.demand is not None
        if self._rows is None:
            return True
        fit = self._fits.of(leaf.demand, without=(avoid, ()))
        if fit.company is not None:
            return True
        key = (leaf.demand.index, avoid)
        if key not in self._known:
            slots = fit.slots_of[-1]
            self._known[key] = any(slots[row] for row in self._rows)
        return self._known[key]

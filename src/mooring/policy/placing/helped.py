"""Whether a change could let a sleeping ask go on: by counting, before anything is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.policy.placing.ask import Ask
    from mooring.policy.placing.fit import Fit, Fits


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
        is_near = False
        for leaf in ask.leaves:
            assert leaf.demand is not None
            fit = self._fits.of(leaf.demand, without=(avoid, ()))
            room = fit.total if fit.company is None else int(fit.anywhere[0][0])
            if room < (leaf.least or leaf.count):
                return False
            is_near = is_near or self._is_near(fit, avoid)
        return is_near

    def _is_near(self, fit: Fit, avoid: tuple[str, ...]) -> bool:
        """Return whether a copy of what a fit is for fits on a row that changed."""
        if self._rows is None or fit.company is not None:
            return True
        key = (fit.demand.index, avoid)
        if key not in self._known:
            slots = fit.slots_of[-1]
            self._known[key] = any(slots[row] for row in self._rows)
        return self._known[key]

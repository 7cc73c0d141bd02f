"""What the engine asks of a court: the part of a profile that says who is next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mooring.model.entry import Entry
    from mooring.model.plan import Reason
    from mooring.policy.desk import Desk
    from mooring.policy.standing.plain import Risks


class Court(Protocol):
    """Decides who starts, who grows and who must leave, at one desk.

    The engine tells it who waits. What is decided goes through the desk.
    """

    def wait(self, entry: Entry) -> None:
        """Take a workload in that waits to start, or runs and may grow; again: nothing changes."""

    def leave(self, entry: Entry) -> bool:
        """Forget a workload; return whether it waited."""

    def refresh(self) -> None:
        """Look at everything anew: policy, queues or nodes have changed."""

    @property
    def stirs(self) -> bool:
        """Return whether something happened that `serve` should look at."""

    def serve(self) -> float | None:
        """Decide; return when to look again even if nothing happens."""

    def waiting(self) -> list[str]:
        """Return those who wait to start or to grow, in order."""

    def anyone_waits(self) -> bool:
        """Return whether anybody waits to start or to grow."""

    def reasons(self, name: str) -> tuple[Reason, ...]:
        """Return why a workload waits."""

    def tell(self) -> list[str]:
        """Return those whose reasons changed since the last call."""

    def shares(self) -> list[list[int]] | None:
        """Return the fair share of every queue in every pair; None: there is no such thing."""

    def risks(self) -> Risks:
        """Return what all who run have to fear: `covered`, `in share` or `beyond`."""

    def copy(self, desk: Desk) -> Court:
        """Return the court of a fork."""

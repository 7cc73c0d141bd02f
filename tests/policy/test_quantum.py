"""When the first overtaker has had so much: as told, whoever comes, goes or is firm by now."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mooring.policy.default.quantum import LATER, Quantum
from tests.build import cluster, task

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.booleans()),
        st.tuples(st.sampled_from(("end", "firm")), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.sampled_from((1.0, 600.0, 3600.0, 20_000.0))),
    ),
    max_size=20,
)


@given(STEPS)
def test_nobody_is_forgotten_and_nobody_is_found_too_early(
    steps: list[tuple[str, bool | int | float]],
) -> None:
    world = cluster("a=8 b=8 c=8")
    desk, now = world.engine.desk, 0.0
    quantum, told = Quantum(desk), desk.policy.backfill.quantum_s
    began: dict[str, float] = {}
    for number, (what, how) in enumerate(steps):
        overtakers = list(desk.overtakers)
        if what == "start":
            name = f"w{number}"
            saves = replace(task(name), checkpoint_every_s=60.0 if how else None)
            world.run(saves, now=now)
            desk.overtakers[name] = None
            quantum.note(desk.entries[name])
            began[name] = now + told if how else LATER
        elif what == "wait":
            now += how
            world.cycle(now)
        elif overtakers:
            name = overtakers[int(how) % len(overtakers)]
            desk.overtakers.pop(name)
            if what == "end":
                world.end(name)
            else:
                desk.note_move(desk.entries[name])
        first = min((began[name] for name in desk.overtakers), default=LATER)
        found = quantum.begins_at()
        assert found <= first
        assert found == first or first <= now or found > now

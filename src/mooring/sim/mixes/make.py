"""Mixes by name: a cluster of any size, and work for it."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING

import numpy as np

from mooring.model.queues import Queue, Quota
from mooring.sim.load import Load
from mooring.sim.mixes.cluster import NODE_GPUS, TOPOLOGY, make_nodes
from mooring.sim.mixes.curves import joint
from mooring.sim.mixes.failing import RATES, odds_of, with_failing
from mooring.sim.mixes.inference import draw_services
from mooring.sim.mixes.training import Jobs, Team

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.model.events import Event
    from mooring.sim.load import Arrival
    from mooring.sim.mixes.curves import Joint

DAY = 86_400.0
SERVING = "serving"
TEAMS = (
    Team("language", 0.30, 40),
    Team("vision", 0.20, 30),
    Team("robotics", 0.15, 20),
    Team("speech", 0.12, 15),
    Team("evaluation", 0.15, 10),
    Team("students", 0.08, 60),
)
_LARGEST_PART = 0.26
"""No workload asks for more of the cluster (2,048 of 8,000 GPUs), but for what fits one node."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What comes to a cluster."""

    about: str
    cluster: str = ""
    """Whose curves training is drawn from; none: there is no training."""
    giants: float = 0.0
    every_job: bool = False
    """Evenness counts jobs, not batches: where few come, one large batch is a good part of all.

    The others have so many jobs that batches do; and long runs that are published had these draws.
    """
    serving: float = 0.0
    """Part of the GPUs that services ask for in the mean, of all that is asked for."""


MIXES = {
    "lab": Mix("a lab of the LLM era: evaluation, tuning, some pretraining (Acme Seren)", "Seren"),
    "pretraining": Mix(
        "few large gangs and many small evaluations (Acme Kalos)", "Kalos", 0.002, every_job=True
    ),
    "classic": Mix("deep learning before large models (Helios)", "Helios"),
    "inference": Mix("services that scale with the hour of the day", serving=1.0),
    "mixed": Mix("the lab, and services on a third of what is asked for", "Seren", serving=1 / 3),
}


@dataclass(frozen=True, slots=True)
class Options:
    """How much of it, and for how long."""

    gpus: int = 8_000
    days: float = 1.0
    load: float = 0.9
    """GPUs that are asked for on average, over those there are."""


USUAL = Options()


def make_load(name: str, seed: int, options: Options = USUAL) -> Load:
    """Return the load of a mix; the same seed gives the same load."""
    mix = MIXES[name]
    by_part = np.random.default_rng(seed).spawn(2)
    nodes = make_nodes(options.gpus)
    arrivals: list[Iterable[Arrival]] = []
    changes: list[Iterable[tuple[float, Event]]] = []
    wanted = options.load * options.gpus
    if mix.serving:
        services = draw_services(by_part[0], wanted * mix.serving, options.days * DAY, SERVING)
        arrivals.append(services.arrivals)
        changes.append(services.changes)
    if mix.cluster:
        drawn = _drawn(mix, options.gpus)
        training = _training(by_part[1], mix, drawn, options)
        arrivals.append(with_failing(training, seed, odds_of(drawn, RATES[mix.cluster])))
    return Load(
        name,
        TOPOLOGY,
        nodes,
        merge(*arrivals, key=lambda arrival: arrival.at),
        merge(*changes, key=lambda change: change[0]),
        _queues(mix, options.gpus),
    )


def _drawn(mix: Mix, gpus: int) -> Joint:
    """Return what jobs are drawn from: none is too large for so many GPUs."""
    most = max(gpus * _LARGEST_PART, min(NODE_GPUS, gpus))
    return joint(mix.cluster, mix.giants).up_to(int(most))


def _training(
    rng: np.random.Generator, mix: Mix, drawn: Joint, options: Options
) -> Iterator[Arrival]:
    per_s = options.load * (1 - mix.serving) * options.gpus / drawn.gpu_seconds
    return Jobs(rng, drawn, TEAMS, every_job=mix.every_job).arrivals(options.days * DAY, per_s)


def _queues(mix: Mix, gpus: int) -> tuple[Queue, ...]:
    """Return the queues: every team has quota by its part, services have theirs."""
    parts = {team.queue: team.part * (1 - mix.serving) for team in TEAMS} if mix.cluster else {}
    if mix.serving:
        parts[SERVING] = mix.serving
    return tuple(
        Queue(name, quotas=(Quota("gpu", quota=1000 * int(gpus * part)),), weight=part)
        for name, part in parts.items()
    )

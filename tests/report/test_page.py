"""The page holds the numbers that the data hold, and opens by itself."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from mooring.metrics import Metrics, numbers_of
from mooring.metrics.frames import MOST_FRAMES, Camera
from mooring.metrics.summary import Waited
from mooring.model.cluster import Device
from mooring.model.plan import Plan, Protected
from mooring.model.scenario import Scenario
from mooring.model.topology import Topology
from mooring.report import Run, as_data, headline, why, write_csv, write_page
from tests.build import node
from tests.metrics.test_fold import ends, story


def a_run(name: str) -> Run:
    metrics = story()
    return Run(name, metrics.summary(), metrics.film())


def data_of(page: str) -> dict[str, object]:
    found = re.search(r"const DATA = (.*);\n", page)
    assert found is not None
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


def test_the_page_holds_all_numbers_and_needs_nothing_from_elsewhere() -> None:
    page = write_page("A title </script>", "What it is about", [a_run("one"), a_run("two")])

    data = data_of(page)

    assert data["title"] == "A title </script>"
    runs = data["runs"]
    assert isinstance(runs, list)
    assert [run["name"] for run in runs] == ["one", "two"]
    assert runs[0]["sor"] == float(f"{a_run('one').summary.sor:.5g}")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert page.count("</script>") == 1


def test_names_cannot_end_or_hide_the_script() -> None:
    """A browser that has read `<!--<script>` does not end a script at its next end."""
    name = "<!--<script>"

    page = write_page(name, "What it is about", [a_run(name)])

    assert name not in page
    assert data_of(page)["title"] == name


def used_by(name: str, **gpus: float) -> Run:
    """Return a run in which queues use so many GPUs all the time."""
    run = a_run(name)
    queues = tuple((queue, (used, used)) for queue, used in gpus.items())
    curve = replace(run.summary.curve, queues=queues)
    return replace(run, summary=replace(run.summary, curve=curve))


def test_a_queue_has_one_colour_in_all_runs() -> None:
    """By what it uses in all of them, whatever the order in each."""
    runs = [used_by("one", a=1, b=2), used_by("two", c=5, b=2)]

    assert data_of(write_page("A title", "About", runs))["queues"] == ["c", "b", "a"]


@pytest.mark.parametrize(("count", "own"), [(8, 8), (9, 7)])
def test_no_two_queues_share_a_colour(count: int, own: int) -> None:
    """There are eight: of more queues, those that use least are others together."""
    run = used_by("one", **{f"q{number}": float(number) for number in range(count)})

    told = data_of(write_page("A title", "About", [run]))["queues"]

    assert told == [f"q{number}" for number in reversed(range(count))][:own]


def test_means_of_seeds_and_who_got_worse_come_along() -> None:
    worse = [{"workload": "x", "policy": "two", "seed": 1, "from_s": 1.0, "to_s": 1 / 3}]
    more = {"policies": [{"policy": "one", "seeds": 2}], "worse": worse}

    data = data_of(write_page("A title", "What it is about", [a_run("one"), a_run("two")], more))

    assert data["policies"] == more["policies"]
    assert data["worse"] == [worse[0] | {"to_s": 0.33333}]


def test_csv_has_a_row_for_each_run() -> None:
    """With all numbers of a summary; those of the headline come first."""
    run = a_run("one")
    rows = list(csv.DictReader(io.StringIO(write_csv([run, a_run("two")]))))
    assert [row["policy"] for row in rows] == ["one", "two"]
    assert list(rows[0]) == list(dict.fromkeys([*headline(run), *numbers_of(run.summary)]))
    assert float(rows[0]["sor"]) == run.summary.sor
    assert float(rows[0]["gfr_gpu"]) == run.summary.gfr_gpu
    assert rows[0]["announced_error_s"] == ""


def test_what_cannot_be_told_is_empty_and_null() -> None:
    """A warm-up was all there was: there is nothing perfect about it."""
    run = Run("one", story(200.0).summary())
    (row,) = csv.DictReader(io.StringIO(write_csv([run])))
    runs = data_of(write_page("A title", "About", [run]))["runs"]

    assert isinstance(runs, list)
    for key in ("jtted", "jtted_nodes", "jain", "least", "gar_median", "sor", "sor_useful", "gfr"):
        assert (row[key], runs[0]["numbers"][key]) == ("", None)
    assert (row["jtted_gangs"], runs[0]["tted"]["time"]) == ("0", None)


def test_the_page_has_further_numbers_and_causes() -> None:
    data = data_of(write_page("A title", "About", [a_run("one")]))
    runs = data["runs"]

    assert data["causes"] == {"preempt": "lower priority"}
    assert isinstance(runs, list)
    assert runs[0]["numbers"]["sor_run"] == float(f"{a_run('one').summary.sor_run:.5g}")
    assert runs[0]["evictions"]["by_cause"] == [["preempt", 1]]


def test_who_failed_is_told_beside_the_headline() -> None:
    """Two did, and had 4 GPUs for 50 s together."""
    run = Run("one", ends().summary())
    runs = data_of(write_page("A title", "About", [run]))["runs"]
    assert isinstance(runs, list)
    (told,) = runs
    (row,) = csv.DictReader(io.StringIO(write_csv([run])))

    assert told["failed"] == {"workloads": 2, "gpu_hours": float(f"{200 / 3600:.5g}")}
    assert told["numbers"]["failed"] == 2
    assert row["failed"] == "2"
    assert float(row["failed_gpu_hours"]) == pytest.approx(200 / 3600)
    assert not {"failed", "failed_gpu_hours"} & {*headline(run)}


def test_reasons_tell_moments_as_the_page_does_from_when_the_clock_began() -> None:
    waited = Waited("x", "q", 1, 200.0, 5.0, is_waiting=True, reasons=(Protected(90_061.5),))
    told = "Who could make room for it is not asked to leave before"

    assert why(waited) == [f"{told} day 2 01:01:01."]
    assert why(waited, 90_000.0) == [f"{told} day 1 00:01:01."]
    summary = replace(story().summary(), not_started=(waited,))
    runs = data_of(write_page("A", "b", [Run("one", summary, origin=90_000.0)]))["runs"]
    assert isinstance(runs, list)
    assert runs[0]["not_started"][0]["why"] == why(waited, 90_000.0)


def test_moments_late_in_a_long_run_are_told_to_the_second() -> None:
    run = a_run("one")
    assert run.film is not None
    film = replace(run.film, frames=((12_345_678.9, "800"),))

    runs = data_of(write_page("A", "b", [replace(run, film=film)]))["runs"]

    assert isinstance(runs, list)
    assert runs[0]["film"]["frames"] == [[12_345_679, "800"]]


def test_plain_data_can_be_written_as_json() -> None:
    assert json.loads(json.dumps(as_data(a_run("one"))))["gar"]["median"] > 0


def test_the_film_shows_who_is_full_and_who_is_gone() -> None:
    """At the beginning all three nodes are empty; a minute later one is full."""
    film = story().film()
    assert [place.name for place in film.places] == ["a", "b", "c"]
    assert [at for at, _ in film.frames] == [0.0, 60.0]
    assert [digits for _, digits in film.frames] == ["800", "800"]


def test_the_film_has_nodes_with_gpus_also_when_all_of_them_are_broken() -> None:
    broken = node("broken", devices=(Device(healthy=False),))
    nodes = (broken, node("cpus", 0), node("good", 4))
    metrics = Metrics(Scenario(0.0, Topology(), nodes))
    metrics.hear(60.0, (), Plan())

    assert [place.name for place in metrics.film().places] == ["broken", "good"]
    assert {digits for _, digits in metrics.film().frames} == {"x0"}


def test_long_films_are_thinned() -> None:
    metrics = story()
    camera = Camera(metrics._people.cluster, 0.0)
    for minute in range(1000):
        camera.pass_time(minute * 60.0)
    times = [at for at, _ in camera.film().frames]
    assert len(times) <= MOST_FRAMES
    assert times[-1] > 900 * 60

"""The page holds the numbers that the data hold, and opens by itself."""

from __future__ import annotations

import csv
import io
import json
import re

from mooring.metrics.frames import MOST_FRAMES, Camera
from mooring.report import Run, as_data, write_csv, write_page
from tests.metrics.test_fold import story


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


def test_means_of_seeds_and_who_got_worse_come_along() -> None:
    worse = [{"workload": "x", "policy": "two", "seed": 1, "from_s": 1.0, "to_s": 1 / 3}]
    more = {"policies": [{"policy": "one", "seeds": 2}], "worse": worse}

    data = data_of(write_page("A title", "What it is about", [a_run("one"), a_run("two")], more))

    assert data["policies"] == more["policies"]
    assert data["worse"] == [worse[0] | {"to_s": 0.33333}]


def test_csv_has_a_row_for_each_run() -> None:
    rows = list(csv.DictReader(io.StringIO(write_csv([a_run("one"), a_run("two")]))))
    assert [row["policy"] for row in rows] == ["one", "two"]
    assert float(rows[0]["sor"]) == a_run("one").summary.sor


def test_plain_data_can_be_written_as_json() -> None:
    assert json.loads(json.dumps(as_data(a_run("one"))))["gar"]["median"] > 0


def test_the_film_shows_who_is_full_and_who_is_gone() -> None:
    """At the beginning all three nodes are empty; a minute later one is full."""
    film = story().film()
    assert [place.name for place in film.places] == ["a", "b", "c"]
    assert [at for at, _ in film.frames] == [0.0, 60.0]
    assert [digits for _, digits in film.frames] == ["800", "800"]


def test_long_films_are_thinned() -> None:
    metrics = story()
    camera = Camera(metrics._people.cluster, 0.0)
    for minute in range(1000):
        camera.pass_time(minute * 60.0)
    times = [at for at, _ in camera.film().frames]
    assert len(times) <= MOST_FRAMES
    assert times[-1] > 900 * 60

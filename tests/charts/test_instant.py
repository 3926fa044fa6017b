"""Every device at one instant: each value is the raw sample that the instant lies in, by hand."""

from __future__ import annotations

import html
import math
import random
import re
from typing import Any

import pytest
from django.urls import reverse

from benchlab.charts import device_figures, device_tables
from benchlab.charts.device_tables import LOOK_AHEAD_S
from benchlab.charts.sampled_tracks import Span, Track, read_rows, rows_from_tracks
from benchlab.runs.models import Series
from tests.charts.test_strips import DISKS, NAN, Raw, long

__all__ = ["long"]

pytestmark = pytest.mark.django_db
FACTS = {
    "devices": [
        {"name": "dm-0", "parents": ["sdb"], "path": "/dev/mapper/v", "type": "lvm"},
        {"name": "sdb", "holders": ["dm-0"], "path": "/dev/sdb", "type": "disk"},
    ]
}


def told(tracks: list[Track], shown: set[str], at: float) -> device_tables.Instant | None:
    return device_tables.values_at(
        rows_from_tracks(tracks, Span(at, at + LOOK_AHEAD_S)), shown, FACTS, at
    )


def by_hand(times: list[float], raw: Raw, at: float) -> dict[str, dict[str, float]]:
    """The first sample that ends there or later; no value where none is known."""
    place = next(n for n, time in enumerate(times) if time >= at)
    found: dict[str, dict[str, float]] = {device: {} for device, _ in raw}
    for (device, metric), values in raw.items():
        if not math.isnan(values[place]):
            found[device][metric] = values[place]
    return found


def test_each_value_of_a_long_run_is_a_raw_sample(long):
    attempt, times, raw = long
    dice = random.Random(3)
    lost = [6_000.5, 2_346.0, 9_101.0, times[-1], times[0]]
    for at in [*lost, *(dice.uniform(0.5, times[-1]) for _ in range(20))]:
        found = read_rows(attempt, device_figures.DEVICE_PANELS, Span(at, at + LOOK_AHEAD_S))
        seen = device_tables.values_at(found, {*DISKS, "dm-0"}, {}, at)
        assert seen is not None
        assert {line.device.name: dict(line.values) for line in seen.lines} == by_hand(
            times, raw, at
        )
        [(start, end)] = seen.sample_spans
        assert start < at <= end and end in times
        assert seen.metrics == ("write.iops", "await")
        place = times.index(end)
        assert seen.earlier == (times[place - 1] if place else None)
        assert seen.later == (times[place + 1] if end != times[-1] else None)


def test_a_sample_ends_at_its_time_and_the_first_is_as_long_as_the_second():
    tracks = [Track("sdb", "util", "1", [5.0, 7.0, 8.0], [0.25, 0.5, 0.75])]
    for at, value, span in [
        (3.0, 25.0, (3.0, 5.0)),
        (5.0, 25.0, (3.0, 5.0)),
        (5.1, 50.0, (5.0, 7.0)),
        (8.0, 75.0, (7.0, 8.0)),
    ]:
        found = told(tracks, {"sdb"}, at)
        assert found is not None and found.sample_spans == [span]
        assert found.lines[0].values == {"util": value}
    assert told(tracks, {"sdb"}, 2.9) is None and told(tracks, {"sdb"}, 8.1) is None


def test_two_clocks_are_two_samples_and_strangers_are_left_out():
    tracks = [
        Track("sdb", "queue", "1", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
        Track("dm-0", "queue", "1", [1.0, 2.0, 3.0], [4.0, NAN, 6.0]),
        Track("sdz", "queue", "1", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
        Track("tank", "queue", "1", [1.5, 2.5], [8.0, 9.0]),
        Track("", "cpu.user", "1", [1.0, 2.0, 3.0], [0.1, 0.2, 0.3]),
        Track("", "cpu.system", "1", [1.0, 2.0, 3.0], [0.1, NAN, 0.3]),
    ]
    found = told(tracks, {"sdb", "dm-0", "tank"}, 1.75)
    assert found is not None
    lines = [(one.device.indented, one.start, one.end, one.values) for one in found.lines]
    assert lines == [
        ("v (dm-0, lvm)", 1.0, 2.0, {}),
        ("└ sdb", 1.0, 2.0, {"queue": 2.0}),
        ("tank", 1.5, 2.5, {"queue": 9.0}),
    ]
    assert found.cpu == {"user": 20.0}
    assert (found.earlier, found.later) == (1.5, 3.0)


def cells(answer: Any) -> list[list[str]]:
    body = answer.content.decode().partition('id="instant"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body.partition("<tbody>")[2], re.DOTALL)
    return [[html.unescape(c) for c in re.findall(r"<t[hd][^>]*>([^<]*)<", row)] for row in rows]


def test_the_page_tells_them_in_words_and_sorts(web, lab):
    attempt = lab.attempts[0]
    url = reverse("run-detail", args=[attempt.run_id])
    answer = web.get(url, {"at": "12.5"})
    found = cells(answer)
    [rates] = Series.objects.filter(attempt=attempt, device="dm-0", metric="read.iops").values_list(
        "values", flat=True
    )
    [volume] = [row for row in found if "dm-0" in row[0]]
    assert volume[1] == f"{rates[12] / 1000:.1f} k"  # of the sample that ends at 13 s
    assert "The sample from 12 to 13 s" in answer.text and "CPU of the host: user" in answer.text
    assert "sda" not in [row[0] for row in found]  # did nothing, and is not of the layout
    down = cells(web.get(url, {"at": "12.5", "sort": "-read.iops"}))
    plain = [[row[0].lstrip("\u00a0└ "), *row[1:]] for row in found]
    assert down[0] == volume and sorted(down) == sorted(plain) != sorted(found)


def test_the_part_comes_alone_with_links_to_the_samples_beside(web, lab):
    url = reverse("run-detail", args=[lab.attempts[0].run_id])
    asked = {"HX-Request": "true", "HX-Target": "instant"}
    text = web.get(url, {"at": "1", "attempt": "1", "sort": "device"}, headers=asked).text
    assert text.strip().startswith('<div id="instant"') and "<html" not in text
    assert "instant-earlier" not in text
    assert 'href="?at=2.0&amp;attempt=1&amp;sort=device#instant"' in text
    assert "instant-later" not in web.get(url, {"at": "60"}, headers=asked).text
    assert "No device was sampled at 61.0 s." in web.get(url, {"at": "61"}, headers=asked).text
    without = web.get(url, headers=asked).text
    assert "<table" not in without and "No device" not in without


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"at": "soon"}, "at: &#x27;soon&#x27; is no number of seconds"),
        ({"at": "nan"}, "at: &#x27;nan&#x27; is no number of seconds"),
        ({"at": "inf"}, "at: &#x27;inf&#x27; is no number of seconds"),
        ({"at": "3", "sort": "pk"}, "sort: "),
        ({"at": "3", "color": "red"}, "&#x27;color&#x27;: no such parameter"),
    ],
)
def test_wrong_words_are_named(web, lab, query, says):
    answer = web.get(reverse("run-detail", args=[lab.attempts[0].run_id]), query)
    assert answer.status_code == 400
    assert says in answer.text, answer.text[-900:]

"""A part of a run's time is drawn as finely as there is room, with the same panels and lines as the whole."""

from __future__ import annotations

import json

import numpy as np
import pytest
from django.urls import reverse

from benchlab.charts import device_figures
from benchlab.charts.sampled_tracks import Span, Track, rows_from_tracks

SECONDS = 86_400


def tracks(seconds: int = SECONDS) -> list[Track]:
    """Two disks for a day, one second of which has a peak that every mean would hide."""
    times = [float(at) for at in range(1, seconds + 1)]
    found = []
    for number, device in enumerate(("sdb", "sdc")):
        values = np.full(seconds, 10.0 + number)
        values[seconds // 2] = 999.0
        found.append(Track(device, "write.iops", "op/s", times, values.tolist()))
    return found


def test_the_whole_is_thinned_and_keeps_its_peak():
    trace = device_figures.build_device_figure("run 1", rows_from_tracks(tracks()), {})["data"][0]
    assert len(trace["x"]) <= 2 * Span().pixels
    assert max(trace["y"]) == 999.0


def test_a_part_has_every_sample_and_one_on_each_side():
    figure = device_figures.build_device_figure(
        "run 1", rows_from_tracks(tracks(), Span(1000.0, 1300.0)), {}
    )
    assert figure["data"][0]["x"] == [float(at) for at in range(999, 1302)]
    assert "thinned" not in figure["layout"]["title"]["subtitle"]["text"]


def test_a_part_without_any_reads_keeps_the_panels_of_the_whole():
    long = [*tracks(5000), Track("sdb", "read.iops", "op/s", [1.0, 2.0], [0.0, 7.0])]
    whole = device_figures.build_device_figure("run 1", rows_from_tracks(long), {})
    part = device_figures.build_device_figure(
        "run 1", rows_from_tracks(long, Span(3000.0, 3100.0)), {}
    )
    axes = [name for name in whole["layout"] if "axis" in name]
    assert [name for name in part["layout"] if "axis" in name] == axes
    assert [t["name"] for t in part["data"]] == [t["name"] for t in whole["data"]]


@pytest.mark.parametrize("width", [100, 700, 2000])
def test_a_wider_panel_gets_more_points(width):
    trace = device_figures.build_device_figure(
        "run 1", rows_from_tracks(tracks(), Span(pixels=width)), {}
    )["data"][0]
    assert 0.9 * width <= len(trace["x"]) <= 2 * width


def test_between_two_samples_the_line_goes_on():
    trace = device_figures.build_device_figure(
        "run 1", rows_from_tracks(tracks(5000), Span(10.2, 10.8)), {}
    )["data"][0]
    assert trace["x"] == [10.0, 11.0]


@pytest.mark.django_db
def test_the_address_takes_from_to_and_width(web, lab):
    attempt = lab.attempts[0]
    for name in ("attempt-device-figure", "attempt-cpu-figure"):
        address = reverse(name, args=[attempt.pk])
        whole = json.loads(web.get(address).content)["data"]
        part = json.loads(web.get(address, {"from": "10", "to": "20.5", "width": "300"}).content)
        assert len(part["data"]) == len(whole)
        assert 9 <= min(part["data"][0]["x"]) <= 10 and 20 <= max(part["data"][0]["x"]) <= 22


@pytest.mark.django_db
@pytest.mark.parametrize(
    "asked",
    [{"from": "x"}, {"to": "nan"}, {"from": "9", "to": "3"}, {"width": "-1"}, {"width": "wide"}],
)
def test_what_is_no_span_is_refused(web, lab, asked):
    answer = web.get(reverse("attempt-device-figure", args=[lab.attempts[0].pk]), asked)
    assert answer.status_code == 400
    assert next(iter(asked)) in answer.content.decode()


@pytest.mark.django_db
def test_any_width_is_answered_within_reason(web, lab):
    address = reverse("attempt-device-figure", args=[lab.attempts[0].pk])
    for width in ("1", "99999"):
        assert web.get(address, {"width": width, "from": "-inf", "to": "inf"}).status_code == 200

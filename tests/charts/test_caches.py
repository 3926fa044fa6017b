"""Charts of caches, pools and arrays: only where such series are, with their units."""

from __future__ import annotations

import math

import plotly.graph_objects as go
import pytest
from django.urls import reverse

from benchlab.charts import device_figures
from benchlab.charts.sampled_tracks import Track
from tests.charts import made

TIMES = [1.0, 2.0, 3.0]


def track(device, metric, values, unit="1"):
    return Track(device, metric, unit, TIMES, values)


def names(tracks):
    return [one.name for one in device_figures.available_charts(tracks)]


def test_a_host_without_caches_has_no_such_chart():
    assert (
        names([track("sda", "read.iops", [1.0, 2.0, 3.0]), track("", "cpu.user", [0.1] * 3)]) == []
    )
    assert (
        names([track("dm-0", "dirty", [0.0] * 3), track("dm-0", "hit_ratio", [math.nan] * 3)]) == []
    )


def test_a_cache_that_never_hit_is_shown():
    assert names([track("dm-0", "hit_ratio", [0.0, math.nan, 0.0])]) == ["caches"]


def test_dirty_data_is_drawn_in_binary_units_and_shares_in_percent():
    tracks = [
        track("dm-0", "dirty", [0.0, 2**20, 3 * 2**30]),
        track("dm-0", "read.hit_ratio", [math.nan, 0.5, 1.0]),
    ]
    figure = device_figures.build_cache_figure(
        "run 1", device_figures.CACHE_CHARTS[0], tracks, made.facts()
    )
    go.Figure(figure)
    ratio, dirty = figure["data"]
    assert ratio["y"] == [None, 50.0, 100.0] and "%" in ratio["hovertemplate"]
    assert dirty["y"] == pytest.approx([0.0, 1 / 1024, 3.0], rel=1e-4)
    headings = [note["text"] for note in figure["layout"]["annotations"]]
    assert headings == ["<b>Cache hit ratio, reads</b> %", "<b>Dirty data</b> GiB"]
    assert figure["layout"]["title"]["text"] == "Cache hit ratio and dirty data · run 1"
    assert ratio["name"] == "bl1-data (dm-0, lvm)"


def test_vdevs_stand_below_their_pool_and_logs_say_so():
    devices = ["bl1/logs/sdd", "bl1", "bl1/mirror-0/sdb", "bl1/mirror-0"]
    tracks = [track(d, "zpool.write.iops", [1.0, 2.0, 3.0], "op/s") for d in devices]
    figure = device_figures.build_cache_figure(
        "run 1", device_figures.find_chart("zpool"), tracks, made.facts()
    )
    shown = [one["name"].replace("\u00a0", "") for one in figure["data"]]
    assert shown == ["bl1", "└ mirror-0", "└ sdb", "└ sdd (logs)"]


def test_the_run_page_has_a_chart_for_each(web, lab):
    attempt = lab.attempts[0]
    made.sampled_caches(attempt)
    text = web.get(reverse("run-detail", args=[attempt.run_id])).content.decode()
    for one in device_figures.CACHE_CHARTS:
        url = reverse("attempt-cache-figure", args=[attempt.pk, one.name])
        assert url in text
        go.Figure(web.get(url).json())
    assert "Dirty data" in text and "ARC hit ratio" in text  # in the table
    assert web.get(url.replace("arrays", "colours")).status_code == 404


def test_without_such_series_the_page_has_none(web, lab):
    text = web.get(reverse("run-detail", args=[lab.attempts[0].run_id])).content.decode()
    assert "/caches/" not in text


def test_another_team_sees_none_of_it(other_web, lab):
    url = reverse("attempt-cache-figure", args=[lab.attempts[0].pk, "zpool"])
    assert other_web.get(url).status_code == 404

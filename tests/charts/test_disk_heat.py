"""Each disk over time by its shade: every field as by hand from the raw samples."""

from __future__ import annotations

import json
import math

import pytest
from django.urls import reverse

from benchlab.charts import device_comparison
from benchlab.charts.device_stacks import DiskUse
from benchlab.charts.sampled_tracks import WHOLE_SPAN, Span, Track, rows_from_tracks
from benchlab.runs import attempt_meta
from tests.charts.test_strips import DISKS, NAN, long, noise

__all__ = ["long"]

FACTS = {"devices": [{"name": "dm-0", "parents": ["sdb"], "path": "/dev/mapper/v", "type": "lvm"}]}


def tracks():
    times, raw = noise()
    return times, raw, [Track(d, m, "1", times, values) for (d, m), values in raw.items()]


def test_a_field_is_the_mean_of_what_is_known_in_it():
    times, raw, all_tracks = tracks()
    found = rows_from_tracks(all_tracks, WHOLE_SPAN)
    shown = device_comparison.heat_map_disks(found, FACTS, [DiskUse("lvm", "data", tuple(DISKS))])
    figure = device_comparison.build_heat_map("a run", found, shown, "write.iops")
    (drawn,) = figure["data"]
    every = next(rows.buckets.every for rows in found if rows.metric == "write.iops")
    assert every > 1 and "each cell is a mean" in figure["layout"]["title"]["subtitle"]["text"]
    for label, cells in zip(drawn["y"], drawn["z"], strict=True):
        values = raw[label, "write.iops"]
        for at, cell in enumerate(cells):
            inside = [v for v in values[at * every : (at + 1) * every] if not math.isnan(v)]
            if not inside:
                assert cell is None
            else:
                assert cell == pytest.approx(sum(inside) / len(inside), rel=1e-4)
    assert drawn["x"][1] == pytest.approx((times[every] + times[2 * every - 1]) / 2, rel=1e-5)
    assert figure["layout"]["yaxis"]["categoryarray"] == DISKS[::-1]  # the first disk on top


def test_zoomed_in_a_field_is_a_sample_and_an_unknown_one_stays_empty():
    times, raw, all_tracks = tracks()
    found = rows_from_tracks(all_tracks, Span(6_100, 6_200))
    shown = device_comparison.heat_map_disks(found, FACTS, [DiskUse("lvm", "data", ("sdf", "sdg"))])
    (drawn,) = device_comparison.build_heat_map("a run", found, shown, "write.iops")["data"]
    first = min(range(len(times)), key=lambda n: abs(times[n] - drawn["x"][0]))
    cells = dict(zip(drawn["y"], drawn["z"], strict=True))
    assert set(cells["sdf"]) == {None}  # it was lost
    want = [None if math.isnan(v) else v for v in raw["sdg", "write.iops"][first:]]
    assert cells["sdg"] == [
        None if v is None else pytest.approx(v, rel=1e-4) for v in want[: len(cells["sdg"])]
    ]


def test_an_idle_disk_of_the_layout_is_there_and_strangers_and_volumes_are_not():
    times = [1.0, 2.0, 3.0]
    all_tracks = [
        Track("sdb", "util", "1", times, [0.5, 0.5, NAN]),
        Track("sdc", "util", "1", times, [0.0, 0.0, 0.0]),
        Track("sda", "util", "1", times, [1.0, 1.0, 1.0]),
        Track("dm-0", "util", "1", times, [1.0, 1.0, 1.0]),
    ]
    found = rows_from_tracks(all_tracks)
    own = device_comparison.heat_map_disks(found, FACTS, [DiskUse("lvm", "data", ("sdb", "sdc"))])
    figure = device_comparison.build_heat_map("a run", found, own)
    (drawn,) = figure["data"]
    assert drawn["y"] == ["sdb", "sdc"] and drawn["z"] == [[50.0, 50.0, None], [0.0, 0.0, 0.0]]
    assert figure["layout"]["coloraxis"]["cmax"] == 100
    idle = rows_from_tracks([Track("sdb", "read.iops", "1", times, [0.0, 0.0, 0.0])])
    assert (
        device_comparison.build_heat_map("a run", idle, own, "read.iops")["layout"]["coloraxis"][
            "cmax"
        ]
        == 1
    )
    # No plan known
    assert [one.name for one in device_comparison.heat_map_disks(found, FACTS, ())] == [
        "sda",
        "sdb",
    ]
    assert device_comparison.build_heat_map("a run", found, own, "await")["data"] == []


@pytest.mark.django_db
def test_the_page_has_it_where_the_disks_are_known(client, user, long):
    attempt, _, _ = long
    attempt.meta = {}
    attempt.save()
    client.force_login(user)
    page = reverse("run-detail", args=[attempt.run_id])
    figure = reverse("attempt-disk-figure", args=[attempt.pk])
    assert figure not in client.get(page).content.decode()
    attempt.meta = {attempt_meta.DISKS: {"data": DISKS[:5]}}
    attempt.save()
    text = client.get(page).content.decode()
    assert figure in text and '<option value="write.iops">Writes</option>' in text
    told = json.loads(client.get(f"{figure}?metric=write.iops&from=0&to=50").content)
    assert told["data"][0]["y"] == DISKS[:5]
    bad = client.get(f"{figure}?metric=cpu.user")
    assert bad.status_code == 400 and "is none of read.iops" in bad.content.decode()

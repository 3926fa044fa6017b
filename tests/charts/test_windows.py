"""The measured window: which samples a figure is over, and how it is drawn."""

from __future__ import annotations

import math

import pytest

from agents.contracts import Window
from benchlab.charts import device_figures, panels, sampled_tracks
from benchlab.charts.device_tables import device_rows
from benchlab.charts.sampled_tracks import (
    ALL_MEASURED,
    WHOLE_RUN,
    Track,
    measured_parts,
    rows_from_tracks,
    select_part,
)
from tests.charts import made

RAMP = [
    Window("file layout", 0.0, 3.0, False),
    Window("ramp", 3.0, 5.2, False),
    Window("measured", 5.2, 8.9),
]


def track(*values: float, times: tuple[float, ...] = (), apart: bool = False) -> Track:
    at = times or tuple(float(n) for n in range(1, len(values) + 1))
    return Track("sdb", "write.iops", "op/s", at, values, own_clock=apart)


def test_a_mean_is_of_samples_that_lie_wholly_in_what_was_measured():
    seen = track(900, 900, 900, 5, 5, 5, 10, 20, 5, 900)  # its seconds end at 1, 2, …
    found = select_part([seen], RAMP)
    # 5 to 6 began in the ramp
    assert (found.name, list(found.tracks[0].times)) == (
        "measured",
        [7.0, 8.0],
    )
    [row] = device_rows(found.tracks, {})
    assert (row.summary.n, row.summary.mean) == (2, 15.0)


def test_a_mean_of_rates_is_what_was_done_over_the_time_that_it_took():
    """10 in a second, then none in three: 2.5 a second, not 5."""
    [row] = device_rows([track(10.0, 0.0, times=(1.0, 4.0))], {})
    assert row.summary.mean == pytest.approx(2.5)


def test_without_marks_it_is_the_whole_run_and_says_so():
    [found] = measured_parts([track(1, 2, 3)], [])
    assert found.is_whole_run and found.name == WHOLE_RUN and found.tracks[0].values == (1, 2, 3)


def test_several_windows_are_one_by_one_and_together():
    told = [Window("one", 0.0, 2.0), Window("two", 2.0, 4.0)]
    seen = [track(1, 2, 3, 4, 5)]
    assert [list(one.tracks[0].values) for one in measured_parts(seen, told)] == [[1, 2], [3, 4]]
    assert select_part(seen, told).name == ALL_MEASURED and list(
        select_part(seen, told).tracks[0].values
    ) == [
        1,
        2,
        3,
        4,
    ]
    assert select_part(seen, told, 2).name == "two"
    with pytest.raises(IndexError):
        select_part(seen, told, 3)


def test_one_that_is_shorter_than_a_sample_has_none():
    assert select_part([track(1, 2, 3)], [Window("measured", 0.5, 1.4)]).tracks == ()


def test_what_goes_by_a_clock_of_its_own_is_in_no_window_of_the_host():
    assert select_part([track(1, 2, 3, apart=True)], [Window("measured", 0.0, 3.0)]).tracks == ()


def test_unknown_samples_are_no_part_of_a_mean():
    [row] = device_rows([track(4.0, math.nan, 8.0)], {})
    assert (row.summary.n, row.summary.mean) == (2, 6.0)


def test_every_panel_shows_every_window_by_name():
    seen = [track(1, 2, 3), Track("sdb", "util", "1", (1.0, 2.0, 3.0), (0.5, 0.5, 0.5))]
    shapes = device_figures.build_device_figure("run", rows_from_tracks(seen), {}, RAMP)["layout"][
        "shapes"
    ]
    named = [shape for shape in shapes if "label" in shape]
    assert [(s["xref"], s["yref"], s["label"]["text"]) for s in named] == [
        (x, f"{y} domain", name)
        for name in ("file layout", "ramp", "measured")
        for x, y in (("x", "y"), ("x2", "y2"))
    ]
    assert (named[-1]["x0"], named[-1]["x1"]) == (5.2, 8.9)
    shaded = [
        shape["label"]["text"] for shape in named if shape["fillcolor"] == panels.UNMEASURED_FILL
    ]
    assert shaded == ["file layout", "file layout", "ramp", "ramp"]
    bars = [(s["xref"], s["x0"], s["x1"]) for s in shapes if "label" not in s]
    assert bars == [("x", 5.2, 8.9), ("x2", 5.2, 8.9)]


def test_names_of_many_stand():
    many = [Window(f"test {n}", n, n + 1.0) for n in range(17)]
    drawn = panels.window_bands(many, 1)
    assert {one["label"].get("textangle") for one in drawn if "label" in one} == {-90}
    [long, _] = panels.window_bands([Window("other_descriptor.write_close_fsync", 0.0, 1.0)], 1)
    assert "textangle" not in long["label"], "one that has room lies, however long"


def test_names_stand_where_samples_go_on_long_after_the_windows():
    few = [Window("ramp", 0.0, 10.0), Window("measured", 10.0, 60.0)]
    for samples, angle in ((60, None), (600, -90)):
        shapes = device_figures.build_device_figure(
            "run", rows_from_tracks([track(*range(samples))]), {}, few
        )
        labels = [one["label"] for one in shapes["layout"]["shapes"] if "label" in one]
        assert [label.get("textangle") for label in labels] == [angle] * 2


MARKS = [
    {"name": "file layout", "start": 0.0, "end": 30.0, "measured": False},
    {"name": "one.fsync", "start": 30.0, "end": 40.0, "measured": True},
    {"name": "two.fsync", "start": 40.0, "end": 50.0, "measured": True},
]


@pytest.fixture
def attempt(team):
    (found,) = made.swept(
        made.campaign(team), made.host(team), made.topology(team, "stripe"), made.workload(team),
        depths=(1,), repeats=1,
    )  # fmt: skip
    made.sampled(found)
    found.windows = MARKS
    found.save()
    return found


def test_the_page_says_what_its_numbers_are_over_and_lets_choose(web, attempt):
    def shown(query: str = "") -> str:
        return web.get(f"/runs/{attempt.run_id}/{query}").content.decode()

    assert "Over all that was measured, 30.0 to 50.0 s" in shown()
    assert "window=2#devices-in-numbers" in shown()
    assert "Over two.fsync, 40.0 to 50.0 s" in shown("?attempt=1&window=2")
    attempt.windows = []
    attempt.save()
    assert "Over the whole run, file layout and ramp included" in shown()


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("window=3", 404),
        ("window=-1", 400),
        ("window=x", 400),
        (f"window={'9' * 5000}", 400),
        (f"attempt={'9' * 5000}", 400),
    ],
)
def test_a_window_that_is_not_there(web, attempt, query, status):
    assert web.get(f"/runs/{attempt.run_id}/?{query}").status_code == status


def test_one_without_a_whole_sample_says_so(web, attempt):
    attempt.windows = [{"name": "measured", "start": 4.2, "end": 5.1, "measured": True}]
    attempt.save()
    assert (
        "No whole sample lies in this window"
        in web.get(f"/runs/{attempt.run_id}/").content.decode()
    )


@pytest.mark.parametrize("chart", ["devices", "cpu", "caches/arc"])
def test_charts_over_time_are_marked(web, attempt, chart):
    made.sampled_caches(attempt)
    layout = web.get(f"/attempts/{attempt.pk}/{chart}.json").json()["layout"]
    assert {one["label"]["text"] for one in layout["shapes"] if "label" in one} == {
        one["name"] for one in MARKS
    }


def test_medians_of_runs_side_by_side_are_of_what_was_measured(web, attempt, team):
    """Busy all the time while its file was laid out, and a quarter of it while it was measured."""
    beside = made.swept(
        attempt.run.campaign, attempt.run.host, made.topology(team, "mirror"), attempt.run.workload,
        depths=(1,), repeats=1,
    )[0]  # fmt: skip
    made.sampled(beside)
    stored = attempt.series.get(device="sdb", metric="util")
    stored.values = [1.0 if at <= 30 else 0.25 for at in stored.times]
    stored.save()
    page = web.get(f"/runs/side-by-side/?run={attempt.run_id}&run={beside.run_id}")
    row = next(
        r for r in page.context["rows"] if (r.device, r.metric) == ("sdb", "Time busy, util")
    )
    assert row.medians[0] == 25
    text = page.content.decode()
    assert f"of run {beside.run_id} over the whole run, file layout and ramp included" in text


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (range(1, 11), ""),
        (range(3, 34, 3), "Samples are 3.0 s apart."),
        ((1, 2, 3), "Only 3 whole samples lie in what was measured, too few for findings."),
        (
            (2.1, 4.2),
            "Only 2 whole samples lie in what was measured, too few for findings; samples are 2.1 s apart.",
        ),
        ((), "No whole sample of a device lies in what was measured."),
    ],
)
def test_a_table_says_how_coarsely_its_devices_were_sampled(times, text):
    ends = [float(at) for at in times]
    track = sampled_tracks.Track("sdb", "read.iops", "op/s", ends, [1.0] * len(ends))
    tool = sampled_tracks.Track("", "iops", "op/s", [0.5, 1.0], [1.0, 1.0])
    assert sampled_tracks.Part(0, "measured", (tool, track)).sampling_text == text

"""Latencies of I/Os: the histogram and the CDF of a run, percentiles over time, and the same as tables and files."""

from __future__ import annotations

import csv
import io
import json

import plotly.graph_objects as go
import pytest
from django.urls import reverse

from benchlab.analysis.latency_bins import Bins
from benchlab.charts import latency_distributions, latency_figures
from benchlab.charts.latency_distributions import (
    LatencyCurve,
    StoredFigure,
    StoredHistogram,
    build_curves,
)
from benchlab.runs.models import Measurement, Series
from tests.charts import made

BINS = Bins((1e-4, 2e-4, 1e-3), (2e-4, 4e-4, 2e-3), (900, 95, 5))
RANKS = {50.0: 1.5e-4, 99.0: 3e-4, 99.9: 1.5e-3}


def told(**figures: float) -> list[StoredFigure]:
    return [StoredFigure(name.replace("__", "."), (), value) for name, value in figures.items()]


def p(base: str) -> dict[str, float]:
    return {f"{base}__p50": 1e-4, f"{base}__p99": 2e-4, f"{base}__p99.9": 3e-4}


def test_directions_are_apart_and_bins_come_before_percentiles():
    found = build_curves(
        [StoredHistogram("read.clat", (), BINS), StoredHistogram("clat", (), BINS)],
        told(**p("read__clat"), **p("write__lat"), **p("write__clat"), **p("clat")),
    )
    assert [(one.name, one.kind, one.bins is not None) for one in found] == [
        ("Reads", "clat", True),
        ("Writes", "lat", False),
    ]
    assert found[0].marked_percentiles == {50.0: 1e-4, 99.0: 2e-4, 99.9: 3e-4}


def test_both_together_where_nothing_else_is_told():
    (one,) = build_curves([StoredHistogram("clat", (), BINS)], told(**p("clat")))
    assert (one.name, one.kind) == ("I/Os", "clat")
    (one,) = build_curves([], told(**p("event")))
    assert (one.name, one.kind, one.bins) == ("I/Os", "event", None)


def test_one_percentile_is_no_curve_and_a_mean_is_none():
    assert build_curves([], told(lat__p99=1e-3, lat__mean=1e-4, read__lat__mean=1.0)) == []


def test_groups_of_jobs_are_apart():
    group = (("group", "1"),)
    found = build_curves(
        [StoredHistogram("read.clat", (), BINS), StoredHistogram("read.clat", group, BINS)], []
    )
    assert [one.name for one in found] == ["Reads", "Reads, group 1"]


def test_marks_without_figures_are_the_ends_of_their_bins():
    (one,) = build_curves([StoredHistogram("sync.lat", (), BINS)], [])
    assert one.name == "Flushes" and one.marked_percentiles == {50.0: 2e-4, 99.0: 4e-4, 99.9: 2e-3}


def figure_of(*found: LatencyCurve, scale: str = "") -> dict:
    made_of = latency_figures.build_histogram_figure("a run", found, scale)
    go.Figure(made_of)
    return made_of


def test_a_histogram_is_of_all_and_the_cdf_of_what_took_less():
    figure = figure_of(LatencyCurve("Reads", "clat", RANKS, BINS))
    bars, cdf, marks = figure["data"]
    assert sum(bars["y"]) == pytest.approx(100) and bars["fill"] == "tozeroy"
    assert len(bars["x"]) == len(bars["y"])
    # What took longer, on an axis upside down: 1,000 I/Os, of which 100 took longer than the first bin.
    assert dict(zip(cdf["x"], cdf["y"], strict=True)) == {
        1e-4: 1.0, 2e-4: pytest.approx(0.1), 4e-4: pytest.approx(0.005), 1e-3: pytest.approx(0.005),
    }  # fmt: skip
    assert figure["layout"]["yaxis2"]["type"] == "log"
    assert figure["layout"]["yaxis2"]["range"][0] > figure["layout"]["yaxis2"]["range"][1]
    assert marks["text"] == ["p50 150 µs", "p99 300 µs", "p99.9 1.5 ms"]
    assert marks["y"] == pytest.approx([0.5, 0.01, 0.001])
    assert bars["name"] == cdf["name"] == "Reads (1,000)"
    assert [one["showlegend"] for one in figure["data"]] == [True, False, False]


def test_an_even_axis_is_in_percent():
    cdf = figure_of(LatencyCurve("Reads", "clat", RANKS, BINS), scale="even")["data"][1]
    assert cdf["y"] == pytest.approx([0, 90, 99.5, 99.5, 100])


def test_percentiles_alone_are_joined_by_steps_and_it_is_said():
    figure = figure_of(LatencyCurve("I/Os", "lat", RANKS))
    cdf, _ = figure["data"]
    assert cdf["line"]["shape"] == "hv" and cdf["y"] == pytest.approx([0.5, 0.01, 0.001])
    assert "joined by steps" in figure["layout"]["title"]["subtitle"]["text"]
    assert "yaxis2" not in figure["layout"]


def test_many_curves_are_cut_and_it_is_said():
    many = [
        LatencyCurve(f"Reads, group {n}", "clat", RANKS, BINS)
        for n in range(latency_figures.MAX_CURVES + 2)
    ]
    figure = figure_of(*many)
    assert len({one["legendgroup"] for one in figure["data"]}) == latency_figures.MAX_CURVES
    assert "The first 8 of 10" in figure["layout"]["title"]["subtitle"]["text"]


def test_tables_have_what_the_charts_have():
    found = [
        LatencyCurve("Reads", "clat", RANKS, BINS),
        LatencyCurve("Writes", "clat", {50.0: 1e-3, 95.0: 2e-3}),
    ]
    assert latency_distributions.curve_sentence(found[0]) == (
        "Reads: half within 150 µs, 99 % within 300 µs, 99.9 % within 1.5 ms."
    )
    assert [(row.title, row.cells) for row in latency_distributions.percentile_rows(found)] == [
        ("p50", (1.5e-4, 1e-3)),
        ("p95", (None, 2e-3)),
        ("p99", (3e-4, None)),
        ("p99.9", (1.5e-3, None)),
    ]
    rows = latency_distributions.bin_rows(found)
    assert [row.cells[0].count for row in rows] == [900, 95, 5]
    assert [row.cells[0].cumulative_share for row in rows] == ["90.0 %", "99.50 %", "100.0 %"]


@pytest.fixture
def binned(lab):
    made.binned(lab.attempts[0], ("read.clat", "write.clat"))
    return lab.attempts[0]


def test_all_but_one_of_millions_is_not_all():
    bins = Bins((1e-4, 1e-2), (1.1e-4, 1.1e-2), (39_999_999, 1))
    first, last = latency_distributions.bin_rows([LatencyCurve("Reads", "clat", {}, bins)])
    assert (first.cells[0].cumulative_share, last.cells[0].cumulative_share) == (
        "99.9999975 %",
        "100.0 %",
    )
    hovered = latency_figures.build_histogram_figure(
        "a run", [LatencyCurve("Reads", "clat", {}, bins)]
    )["data"]
    assert "99.9999975 %" in json.dumps(hovered) and "100.00000 %" not in json.dumps(hovered)


def test_a_page_has_the_charts_and_without_script_the_table(web, binned):
    page = web.get(f"/runs/{binned.run_id}/").content.decode()
    assert reverse("attempt-histogram-figure", args=[binned.pk]) in page
    assert "Histogram of latencies" in page and "5\u202f000" not in page
    assert page.count("Took less") == 2 and ">Reads</th>" in page and ">Writes</th>" in page


def test_a_page_of_percentiles_alone_has_their_table(web, lab):
    page = web.get(f"/runs/{lab.attempts[1].run_id}/").content.decode()
    assert (
        "Latencies in numbers" in page and "Took less" not in page and "CSV, every bin" not in page
    )


def test_where_nothing_is_told_there_is_no_chart(web, lab):
    Measurement.objects.filter(attempt=lab.attempts[1], name__contains=".p").delete()
    page = web.get(f"/runs/{lab.attempts[1].run_id}/").content.decode()
    assert "How long I/Os took" not in page
    answer = web.get(reverse("attempt-histogram-figure", args=[lab.attempts[1].pk])).json()
    assert answer["data"] == [] and "but means" in answer["layout"]["annotations"][0]["text"]


def test_the_figure_is_asked_for_by_name_and_a_wrong_word_is_refused(web, binned):
    url = reverse("attempt-histogram-figure", args=[binned.pk])
    go.Figure(web.get(url).json())
    assert "type" not in web.get(f"{url}?percent=even").json()["layout"]["yaxis2"]
    bad = web.get(f"{url}?percent=odd")
    assert bad.status_code == 400 and "is none of even" in bad.content.decode()


def test_a_file_has_every_bin(web, binned):
    answer = web.get(reverse("attempt-histogram-csv", args=[binned.pk]))
    rows = list(csv.reader(io.StringIO(b"".join(answer).decode())))
    assert rows[0] == ["latency", "labels", "from (s)", "below (s)", "I/Os"]
    assert sum(int(row[4]) for row in rows[1:] if row[0] == "read.clat") == 5000
    assert {row[0] for row in rows[1:]} == {"read.clat", "write.clat"}


@pytest.fixture
def over_time(lab):
    made.with_percentiles(lab.attempts[0], directions=("read", "write"))
    return lab.attempts[0]


def devices(web, attempt, query: str = "") -> dict:
    figure = web.get(reverse("attempt-device-figure", args=[attempt.pk]) + query).json()
    go.Figure(figure)
    return figure


def panel_of(figure: dict, words: str) -> str:
    texts = [one["text"] for one in figure["layout"]["annotations"]]
    (at,) = (n for n, text in enumerate(texts, start=1) if words in text)
    return str(at)


def test_percentiles_over_time_are_panels_with_a_logarithmic_axis(web, over_time):
    figure = devices(web, over_time)
    at = panel_of(figure, "Reads, completion latency")
    assert figure["layout"][f"yaxis{at}"]["type"] == "log"
    own = [one for one in figure["data"] if one["yaxis"] == f"y{at}"]
    assert [one["name"] for one in own] == ["p50", "p99", "p99.9"]
    assert figure["layout"][f"xaxis{at}"]["matches"] == "x"
    assert figure["layout"]["yaxis"].get("type") != "log"  # a rate's
    assert "Percentiles of latency: fio itself" in figure["layout"]["title"]["subtitle"]["text"]
    shown = [one["showlegend"] for one in figure["data"] if one["name"] == "p99"]
    assert shown == [True, False]


def test_who_zooms_keeps_those_panels_and_gets_that_part(web, over_time):
    whole, part = devices(web, over_time), devices(web, over_time, "?from=30&to=36&width=400")
    headings = [
        [one["text"] for one in figure["layout"]["annotations"]] for figure in (whole, part)
    ]
    assert headings[0] == headings[1]
    p99 = next(one for one in part["data"] if one["name"] == "p99")
    assert min(p99["x"]) >= 29 and max(p99["x"]) <= 37


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?to=-inf", "from: the first sample is not before to: -inf"),
        ("?from=inf", "from: inf is not before to: the last sample"),
        ("?from=9&to=9", "from: 9 is not before to: 9"),
        ("?to=nan", "to: &#x27;nan&#x27; is no number of seconds"),
    ],
)
def test_a_part_that_is_none_is_refused_in_words(web, over_time, query, words):
    answer = web.get(reverse("attempt-device-figure", args=(over_time.pk,)) + query)
    assert answer.status_code == 400 and words in answer.content.decode()


def test_windows_are_shaded_there_too(web, over_time):
    over_time.windows = made.WINDOWS
    over_time.save()
    figure = devices(web, over_time)
    at = panel_of(figure, "Writes, completion latency")
    assert [one for one in figure["layout"]["shapes"] if one["xref"] == f"x{at}"]


def test_a_run_with_nothing_but_percentiles_has_them(web, lab):
    made.with_percentiles(lab.attempts[1])
    figure = devices(web, lab.attempts[1])
    assert {one["name"] for one in figure["data"]} == {"p50", "p99", "p99.9"}
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert "host's own counters" not in figure["layout"]["title"]["subtitle"]["text"]


def test_the_table_has_them_and_no_mean_of_percentiles(web, over_time):
    page = web.get(f"/runs/{over_time.run_id}/").content.decode()
    row = page[page.index("Reads, completion latency, p99<") :]
    cells = row[: row.index("</tr>")].split('<td class="num">')[1:]
    assert len(cells) == 6 and cells[2].startswith("n/a") and cells[3].startswith("2.98 ms")


def test_lines_of_two_tools_name_theirs(web, over_time):
    row = Series.objects.filter(attempt=over_time, metric="read.clat.p99").values().get()
    Series.objects.create(**{**row, "id": None, "sampler": "odd"})
    names = {one["name"] for one in devices(web, over_time)["data"]}
    assert {"p99, odd, by its own clock", "p99, fio itself, by its own clock"} <= names


def overlaid(web, lab, query: str) -> dict:
    url = reverse("compare-figure")
    figure = web.get(f"{url}?campaign={lab.campaign.pk}&{query}").json()
    go.Figure(figure)
    return figure


def of_line(lab, stack: int, depth: int) -> list:
    topology = lab.stacks[stack]
    return [
        one for one in lab.attempts if (one.run.topology, one.run.outstanding) == (topology, depth)
    ]


def test_lines_are_overlaid_at_one_depth_with_all_of_their_repeats(web, lab):
    """Of one line the I/Os of three repeats were counted; the other told percentiles alone, and is steps."""
    for attempt in of_line(lab, 0, 16):
        made.binned(attempt, ("read.clat", "write.clat"), many=1000)
    figure = overlaid(web, lab, "against=cdf.16")
    lines = [one for one in figure["data"] if one["mode"] == "lines"]
    assert [one["name"] for one in lines] == ["LVM 64 KiB (6,000)", "raw"]
    assert [one["line"].get("shape") for one in lines] == [None, "hv"]
    title = figure["layout"]["title"]
    assert title["text"].startswith("Completion latency: I/Os that took less, 16 outstanding")
    assert (
        "up to 3 repeats" in title["subtitle"]["text"]
        and "raw: percentiles are all" in title["subtitle"]["text"]
    )
    marks = [one for one in figure["data"] if one["mode"].startswith("markers")]
    curve = dict(zip(lines[0]["x"], lines[0]["y"], strict=True))
    assert all(curve[at] <= rest for at, rest in zip(marks[0]["x"], marks[0]["y"], strict=True))
    # Of the other the middle one of the three repeats' figures, as the table has it.
    p99 = sorted(one.measurements.get(name="clat.p99").value for one in of_line(lab, 1, 16))[1]
    assert marks[1]["x"][1] == pytest.approx(p99)
    assert marks[0]["customdata"][0][0].startswith("/runs/")


def test_one_direction_alone_is_counted_alone(web, lab):
    for attempt in of_line(lab, 0, 4):
        made.binned(attempt, ("read.clat", "write.clat"), many=500)
    figure = overlaid(web, lab, "against=cdf.4&operation=read")
    (line,) = (one for one in figure["data"] if one["mode"] == "lines")
    assert line["name"] == "LVM 64 KiB (1,500)"
    assert "of reads" in figure["layout"]["title"]["text"]


def test_other_depths_are_not_in_it(web, lab):
    for attempt in of_line(lab, 0, 4):
        made.binned(attempt, many=100)
    figure = overlaid(web, lab, "against=cdf.16")
    assert {one["name"] for one in figure["data"]} == {"LVM 64 KiB", "raw"}
    assert overlaid(web, lab, "against=cdf.7")["data"] == []


def test_a_card_offers_a_cdf_at_each_depth_where_percentiles_are_known(web, lab):
    url = reverse("compare")
    page = web.get(url, {"campaign": lab.campaign.pk}).content.decode()
    assert '<option value="cdf.16">CDF of latencies at 16</option>' in page
    Measurement.objects.filter(name__contains=".p").delete()
    page = web.get(url, {"campaign": lab.campaign.pk}).content.decode()
    assert "cdf.16" not in page and '<option value="latency">' in page


def test_two_percentiles_of_one_latency_make_a_cdf():
    assert latency_figures.has_cdf({"read.clat.p50", "read.clat.p99"})
    assert not latency_figures.has_cdf({"read.clat.p50", "write.clat.p99", "iops", "lat.mean"})


def test_a_latency_without_percentiles_gives_way_to_one_that_has_them(web, lab):
    """A card asks for total latency first, of which fio tells a mean and no more."""
    title = overlaid(web, lab, "against=cdf.16&latency=lat")["layout"]["title"]["text"]
    assert title.startswith("Completion latency: ")


def test_a_cdf_in_explore_has_steps(web, lab):
    query = f"?campaign={lab.campaign.pk}&x=clat.ranks&y=percentile&where=oio+%3D+16"
    figure = web.get(reverse("explore-figure") + query).json()
    assert {one["line"]["shape"] for one in figure["data"]} == {"hv"}
    assert "joined by steps" in figure["layout"]["title"]["subtitle"]["text"]

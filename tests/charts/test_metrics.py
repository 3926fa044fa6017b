"""Any metric of a tool can be charted: its word and unit are on the axis, and the usual one is chosen."""

from __future__ import annotations

import statistics
from dataclasses import replace

import plotly.graph_objects as go
import pytest
from django.urls import reverse

from benchlab.campaigns.models import Run
from benchlab.charts import curve, metric_naming, repeat_dots
from benchlab.charts.cards import campaign_cards
from benchlab.charts.line_analysis import Choice
from benchlab.charts.queries import Group, Sample
from benchlab.charts.tables import campaign_csv_lines, curve_points, metric_rows
from benchlab.runs.models import Measurement
from benchlab.sharing.comparisons import canonical
from tests.charts import made
from tests.charts.test_figures import ARTICLE, group

FSYNCS = {"one.fdatasync.ops": 45160.147, "one.fsync.ops": 45507.091, "two.fsync.ops": 32736.908}
LATENCY = dict(zip((1, 2, 4, 8, 16), (2.38e-3, 2.40e-3, 3.14e-3, 6.27e-3, 12.55e-3), strict=True))


def fsyncs(topology: int = 1, scale: float = 1.0, without: str = "") -> Group:
    values = {name: value * scale for name, value in FSYNCS.items() if name != without}
    sample = Sample(run=topology, attempt=topology, repeat=1, outstanding=1, values=values)
    units = dict.fromkeys(values, "op/s") | ({"one.fsync.latency": "s"} if scale == 9 else {})
    return Group(1, "C", topology, f"T{topology}", 1, "H", 1, "W", "pg_test_fsync", "",
                 samples=(sample,), units=units)  # fmt: skip


def without_clat(one: Group, total: bool) -> Group:
    samples = tuple(
        replace(s, values={"iops": s.values["iops"], **({"lat.mean": LATENCY[s.outstanding or 0]} if total else {})})
        for s in one.samples
    )  # fmt: skip
    return replace(one, samples=samples)


def test_one_metric_is_a_bar_per_line_with_its_unit():
    figure = repeat_dots.build_bar_figure("C", [fsyncs(1), fsyncs(2, 0.5)], Choice("one.fsync.ops"))
    go.Figure(figure)
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    assert [bar["x"] for bar in bars] == [[45507.091], [45507.091 / 2]]
    assert bars[0]["text"] == ["45.5 k fsyncs/s"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "fsync, one write (fsyncs/s)"
    assert figure["layout"]["title"]["text"] == "fsync, one write · C"


def test_a_family_is_a_bar_per_metric_and_line():
    figure = repeat_dots.build_bar_figure(
        "C", [fsyncs(1), fsyncs(2, 0.5, without="one.fsync.ops")], Choice("one.*.ops")
    )
    go.Figure(figure)
    assert [(t["name"], t["y"], t["x"]) for t in figure["data"]] == [
        ("T1", ["fdatasync", "fsync"], [45160.147, 45507.091]),
        ("T2", ["fdatasync"], [45160.147 / 2]),
    ]
    assert figure["data"][0]["customdata"] == [["/runs/1/"], ["/runs/1/"]]
    assert figure["layout"]["barmode"] == "group"


def test_without_completion_latency_the_total_is_drawn_and_said():
    line = without_clat(group(), total=True)
    figure = curve.build_curve_figure("C", [line], Choice())
    go.Figure(figure)
    assert figure["layout"]["yaxis2"]["title"]["text"] == "Total latency (s)"
    assert "IOPS and total latency over outstanding" in figure["layout"]["title"]["text"]
    (lower,) = [t for t in figure["data"] if t["yaxis"] == "y2" and "lines+markers" in t["mode"]]
    assert lower["y"] == list(LATENCY.values())
    assert "lat mean" in lower["hovertext"][0]
    rings = [t for t in figure["data"] if t.get("marker", {}).get("symbol") == "circle-open"]
    assert [ring["x"] for ring in rings] == [[4]]
    assert [point.knee for point in curve_points([line])] == [False, False, True, False, False]


def lower(figure):
    """{line: its latencies} of the lower panel."""
    return {
        t["legendgroup"]: t["y"]
        for t in figure["data"]
        if t["yaxis"] == "y2" and "lines+markers" in t["mode"]
    }


def test_lines_with_and_without_completion_latency_share_the_total():
    both = [group(1, repeats=1), without_clat(group(2, repeats=1), total=True)]
    figure = curve.build_curve_figure("C", both, Choice())
    assert figure["layout"]["yaxis2"]["title"]["text"] == "Total latency (s)"
    assert lower(figure) == {
        "T1": [depth / iops for depth, iops in ARTICLE.items()],
        "T2": list(LATENCY.values()),
    }


def test_one_axis_has_one_meaning():
    """Completion latency, asked for: the line that has only the total is named, and not drawn."""
    both = [group(1, repeats=1), without_clat(group(2, repeats=1), total=True)]
    figure = curve.build_curve_figure("C", both, Choice(kind="clat", statistics=("mean",)))
    assert figure["layout"]["yaxis2"]["title"]["text"] == "Completion latency (s)"
    assert "IOPS and completion latency over" in figure["layout"]["title"]["text"]
    assert lower(figure) == {"T1": [0.9 * depth / iops for depth, iops in ARTICLE.items()]}
    assert "No completion latency was told of: T2." in figure["layout"]["title"]["subtitle"]["text"]


def test_what_is_known_of_reads_alone_is_known_of_all():
    """fio tells submission latency by direction only."""
    values = {"iops": 100.0, "read.iops": 100.0, "read.slat.mean": 1e-5}
    assert Choice().read_value("slat.mean", values) == 1e-5
    assert Choice(operation="write").read_value("slat.mean", values) is None
    mixed = values | {"write.iops": 50.0}
    assert Choice().read_value("slat.mean", mixed) is None
    assert Choice(operation="read").read_value("slat.mean", mixed) == 1e-5


def test_chart_table_and_run_page_tell_the_same_latency(web, user, lab):
    (card, *_) = campaign_cards(user, lab.campaign.pk)
    attempt = lab.attempts[0]
    Measurement.objects.filter(attempt=attempt, name="lat.mean").update(value=12.59e-3)
    Measurement.objects.filter(attempt=attempt, name="clat.mean").update(value=6.10e-3)
    numbers = web.get(reverse("run-detail", args=[attempt.run_id])).context["numbers"]
    page = {title: row.value for title, row in numbers}
    assert page["Total latency, mean"] == 12.59e-3
    drawn = web.get(card.figure_url).json()
    dots = [t for t in drawn["data"] if t["yaxis"] == "y2" and t["mode"] == "markers"]
    (shown,) = [
        y
        for t in dots
        for y, text in zip(t["y"], t["text"], strict=True)
        if text.endswith(f">run {attempt.run_id}")
    ]
    assert shown == page["Total latency, mean"]
    (card, *_) = campaign_cards(user, lab.campaign.pk)
    assert card.columns == ("lat.mean", "clat.mean", "clat.p50", "clat.p99", "clat.p99.9")
    point = next(one for one in card.points if attempt.run_id in one.runs)
    runs = [a for a in lab.attempts if a.run_id in point.runs]
    total = [a.measurements.get(name="lat.mean").value for a in runs]
    assert point.latencies[0].median == statistics.median(total)
    assert [value for value, _ in card.latency_choices] == [
        "lat", "clat", "clat.all", "clat.mean", "clat.p50", "clat.p99", "clat.p99.9",
    ]  # fmt: skip


def test_without_any_latency_there_is_one_panel():
    figure = curve.build_curve_figure("C", [without_clat(group(repeats=1), total=False)], Choice())
    go.Figure(figure)
    assert "yaxis2" not in figure["layout"]
    assert figure["layout"]["title"]["text"] == "IOPS over outstanding I/Os · C"
    assert "Latency" not in figure["layout"]["title"]["subtitle"]["text"]


def test_another_metric_over_outstanding():
    one = replace(group(repeats=1), units={"iops": "op/s", "clat.p99": "s"})
    figure = curve.build_curve_figure("C", [one], Choice("clat.p99", operation="read"))
    go.Figure(figure)
    assert figure["layout"]["yaxis"]["title"]["text"] == "clat.p99 (s)"


@pytest.mark.parametrize(
    ("names", "tool", "swept", "first"),
    [
        ({"iops", "bandwidth", "clat.p99"}, "fio", True, "iops"),
        ({"iops", "bandwidth"}, "dd", False, "bandwidth"),
        (set(FSYNCS), "pg_test_fsync", False, "one.fdatasync.ops"),
        ({"one.fsync.ops", "two.fsync.ops"}, "pg_test_fsync", False, "one.fsync.ops"),
        ({"write.block.bandwidth", "seeks.ops"}, "bonnie", False, "*.bandwidth"),
        (["read.iops", "disks.iops"], "dynamo", False, "read.iops"),
    ],
)
def test_what_is_shown_first(names, tool, swept, first):
    choices = metric_naming.order_choices(names, tool, swept)
    assert choices[0] == first
    assert set(names) <= set(choices)
    assert len(set(choices)) == len(choices)


@pytest.mark.parametrize("text", ["", "a b", "one.*.*", "../x", "É", "a" * 101, "<b>", "one..ops"])
def test_no_choice(text):
    assert not metric_naming.is_metric_name(text)


def test_shares_are_in_percent():
    one = replace(fsyncs(), units={"ssd.util": "1", "files": "1"})
    (sample,) = one.samples
    one = replace(one, samples=(replace(sample, values={"ssd.util": 0.004, "files": 16.0}),))
    figure = repeat_dots.build_bar_figure("C", [one.in_percent()], Choice("ssd.util"))
    assert figure["data"][0]["text"] == ["0.4 %"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "ssd.util (%)"
    assert [(row.unit, row.cells[0] and row.cells[0].median) for row in metric_rows([one.in_percent()])] == [
        ("%", 0.4), ("1", 16.0)]  # fmt: skip
    assert "0.004" in "".join(campaign_csv_lines([one]))


def test_a_table_of_every_metric_has_the_chosen_ones_first():
    rows = metric_rows([fsyncs(1), fsyncs(2, without="two.fsync.ops")], "two.*.ops")
    assert [row.name for row in rows] == ["two.fsync.ops", "one.fdatasync.ops", "one.fsync.ops"]
    assert rows[0].title == "fsync, two writes"
    assert [cell and cell.median for cell in rows[0].cells] == [32736.908, None]


def test_csv_has_every_metric_with_its_unit():
    head, row = (line.strip() for line in campaign_csv_lines([fsyncs()]))
    assert "one.fsync.ops (op/s)" in head
    assert "45507.091" in row


@pytest.fixture
def synced(lab):
    """Beside the sweep: pg_test_fsync, with n/a and a labelled figure."""
    load = made.workload(lab.team, "WAL", "pg_test_fsync")
    attempt = made.finished(lab.campaign, lab.attempts[0].layout, load, None, 1, 1.0)
    attempt.measurements.all().delete()
    for name, value in {**FSYNCS, "one.open_sync.ops": None}.items():
        Measurement.objects.create(attempt=attempt, name=name, value=value, unit="op/s")
    Measurement.objects.create(attempt=attempt, name="x", value=1, unit="1", labels={"job": "a"})
    return load


def test_a_card_offers_what_was_measured(user, lab, synced, django_assert_num_queries):
    with django_assert_num_queries(2):
        card = campaign_cards(user, lab.campaign.pk)[1]
    assert card.chosen_metric == "one.fdatasync.ops"
    assert "metric=one.fdatasync.ops" in card.figure_url
    assert [words for _, words in card.main_choices[:3]] == [
        "fdatasync, one write",
        "fsync, one write",
        "Every method, one write",
    ]
    assert {name for name, _ in card.other_choices} == {"two.fsync.ops"}
    assert [row.name for row in card.rows] == ["one.fdatasync.ops", "one.fsync.ops", "two.fsync.ops"]  # fmt: skip


def test_the_page_asks_without_javascript(web, lab, synced):
    page = web.get(reverse("campaign-detail", args=[lab.campaign.pk]), {"metric": "two.fsync.ops"})
    text = page.content.decode()
    assert '<option value="two.fsync.ops" selected>fsync, two writes</option>' in text
    assert '<noscript><button type="submit" class="quiet">Show</button></noscript>' in text
    cards = {card.title: card for card in page.context["cards"]}
    assert cards["WAL"].chosen_metric == "two.fsync.ops"
    assert cards["randread 4 KiB"].chosen_metric == "iops"
    assert web.get(cards["WAL"].figure_url).json()["data"][0]["x"] == [32736.908]


def test_an_unknown_metric_is_a_400_that_names_the_known(web, lab, synced):
    url = reverse("campaign-figure", args=[lab.campaign.pk])
    answer = web.get(url, {"workload": synced.pk, "metric": "one.sync.ops"})
    assert answer.status_code == 400


@pytest.mark.parametrize("page", ["campaign-detail", "compare"])
def test_one_moment_only(web, lab, page):
    Run.objects.filter(campaign=lab.campaign, topology=lab.stacks[0]).update(stage="after-1")
    args = [lab.campaign.pk] if page == "campaign-detail" else []
    query = {"campaign": lab.campaign.pk, "moment": "after-1"}
    answer = web.get(reverse(page, args=args), query)
    (card,) = answer.context["cards"]
    assert card.moments == (("built", "as built"), ("after-1", "after growth 1"))
    assert {point.label for point in card.points} == {"LVM 64 KiB"}
    assert '<option value="after-1" selected>after growth 1</option>' in answer.content.decode()
    assert len(web.get(card.figure_url).json()["layout"]["title"]["text"]) > 0
    assert web.get(reverse(page, args=args), query | {"moment": "soon"}).status_code == 400


def test_compare_keeps_what_was_asked_for(web, lab, synced):
    query = {"campaign": lab.campaign.pk, "host": lab.host.pk, "metric": "one.*.ops"}
    card = web.get(reverse("compare"), query).context["cards"][1]
    assert card.hidden_fields == (("campaign", str(lab.campaign.pk)), ("host", str(lab.host.pk)))
    figure = web.get(card.figure_url).json()
    go.Figure(figure)
    assert figure["data"][0]["y"] == ["fdatasync", "fsync"]


def test_a_comparison_of_some_stages(web, lab):
    """?stage= narrows down page, figure and CSV; what is ticked stays so, and a saved view keeps it."""
    runs = Run.objects.filter(campaign=lab.campaign)
    runs.exclude(topology=lab.stacks[0]).delete()
    for repeat, stage in ((2, "during-1"), (3, "after-1")):
        runs.filter(repeat=repeat).update(stage=stage)
    query = {"campaign": lab.campaign.pk, "stage": ["built", "during-1"]}
    answer = web.get(reverse("compare"), query)
    assert answer.context["stages"] == [
        ("built", "before growth", True),
        ("during-1", "during growth 1", True),
        ("after-1", "after growth 1", False),
    ]
    (card,) = answer.context["cards"]
    assert [code for code, _ in card.moments] == ["built", "during-1"] and card.lines == 2
    assert "stage=built&stage=during-1" in card.figure_url
    assert 'value="during-1" checked' in answer.content.decode()
    for url in (card.figure_url, card.csv_url):
        text = web.get(url).content.decode()
        assert "during growth 1" in text and "after growth 1" not in text, url
    assert web.get(reverse("compare"), query | {"stage": "soon"}).status_code == 400
    assert canonical(f"stage=built&campaign={lab.campaign.pk}").endswith("&stage=built")


def test_what_fio_reached_is_said_in_words():
    assert metric_naming.metric_word("steady.iops") == "IOPS in steady state"
    assert metric_naming.metric_word("target.depth") == "Depth that keeps the latency target"
    assert metric_naming.is_share("steady.deviation", "1") and metric_naming.is_share(
        "target.percentile", "1"
    )
    assert not metric_naming.is_share("steady.attained", "1") and not metric_naming.is_share(
        "target.depth", "1"
    )

"""A campaign's answer: from stored runs to a sentence with its numbers, their runs and the interval."""

from __future__ import annotations

import re
from html import unescape
from math import exp, log
from types import SimpleNamespace
from typing import Any

import pytest

from benchlab.analysis.formats import ratio_range, times_text
from benchlab.analysis.verdicts import Conclusion
from benchlab.campaigns.models import Run
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.verdicts import sentences
from benchlab.verdicts.sentences import Sentence
from tests.charts import made
from tests.verdicts.bench import SEVEN, by_name, texts, unlike_at_one_depth

pytestmark = pytest.mark.django_db


def test_one_after_the_other_a_large_difference_is_called(bench, api, web):
    bench.measure(bench.build("cached stripe"), 400)
    bench.measure(bench.build("stripe"), 1000)
    told = bench.answer(api)
    line = by_name(told)["stripe"]
    assert line["design"] == "one_after_other" and line["tau"] == 0.05
    assert line["curve"]["verdict"] == "faster" and line["place"] == 1
    assert line["curve"]["low"] < 2.5 < line["curve"]["high"]
    assert [point["verdict"] for point in line["points"]] == ["faster"] * 3
    assert "stripe does 2.5 times the IOPS of cached stripe" in told["says"][0]
    assert "3 repeats" in told["says"][0] and "its p99 is 0.40 times as high" in told["says"][0]
    assert by_name(told)["cached stripe"]["design"] is None
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert told["says"][0] in page.replace(" )", ")").replace("( ", "(")


def test_numbers_lead_to_the_runs_nearest_to_them(bench, web):
    slow = bench.measure(bench.build("cached"), 400)
    fast = bench.measure(bench.build("stripe"), 1000)
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    [answer] = re.findall(r'<article class="answer".*?</article>', text, re.S)
    links = [int(run) for run in re.findall(r"/runs/(\d+)/", answer)]
    runs = Run.objects.in_bulk(links)
    assert [runs[pk].topology.name for pk in links] == ["stripe", "cached"]
    depth = {runs[pk].outstanding for pk in links}
    assert len(depth) == 1
    for pk, attempts in zip(links, (fast, slow), strict=True):
        at = [a for a in attempts if a.run.outstanding in depth]
        values = {a.run_id: Measurement.objects.get(attempt=a, name="iops").value for a in at}
        mean = exp(sum(map(log, values.values())) / 3)
        assert abs(values[pk] - mean) == min(abs(value - mean) for value in values.values())


def test_what_is_seen_and_its_interval_look_the_same_way(bench, api):
    """b does 4 % less: ratio, range and interval are all of b against a, below 1 and around it."""
    bench.measure(bench.build("a"), 1000)
    bench.measure(bench.build("b"), 960)
    told = bench.answer(api)
    curve = by_name(told)["b"]["curve"]
    [says] = told["says"]
    assert curve["verdict"] == "no large difference" and 1.1 < curve["bound"] < 1.2
    start = "Over all depths b and a differ by at most 20 %"
    assert says.startswith(f"{start} ({curve['ratio']:.2f} times the IOPS")
    assert f"95 % interval {curve['low']:.2f} to {curve['high']:.2f}, 3 repeats" in says


def test_an_undecided_sentence_has_one_ratio_and_one_interval(bench, api):
    """b does less, undecided: the means, their ratio, the interval and the reason are all of b against a."""
    bench.measure(bench.build("a"), 1000, depths=(8,), noise=0.2)
    bench.measure(bench.build("b"), 850, depths=(8,), noise=0.2)
    told = bench.answer(api)
    curve = by_name(told)["b"]["curve"]
    [says] = told["says"]
    assert curve["verdict"] == "not enough data" and curve["ratio"] < 1, says
    interval = ratio_range(curve["low"], curve["high"])
    assert f"b did {times_text(curve['ratio'])} the throughput of a (" in says
    assert says.count(interval) == 2 and f"95 % interval {interval}, 3 repeats" in says


def test_one_repeat_shows_its_ratio_and_what_would_answer(bench, api, web):
    bench.measure(bench.build("a"), 400, repeats=(1,))
    bench.measure(bench.build("b"), 1000, repeats=(1,))
    told = bench.answer(api)
    line = by_name(told)["b"]["curve"]
    assert line["verdict"] == "not enough data"
    assert (line["low"], line["repeats_needed"]) == (None, 3)
    assert line["ratio"] == pytest.approx(2.5, rel=0.05)
    [says] = told["says"]
    assert says.startswith("Not enough data: b did 2.")
    assert "does not show how much runs vary" in says and "1 repeat" in says
    url = f"/campaigns/{bench.campaign.pk}/"
    page = web.get(url).content.decode()
    assert "Add 2 repeats" in page and "of 6 points, about 13 min" in page
    said = dict(re.findall(r'name="(runs|repeats|after)" value="([^"]+)"', page))
    answer = web.post(f"{url}repeats/", said, follow=True)
    assert "12 runs were added" in answer.content.decode()
    assert "Add 2 repeats" not in answer.content.decode()
    assert bench.campaign.layouts.filter(phase="draft").count() == 2


@pytest.mark.parametrize("apart", [0, 1e-4])
def test_a_difference_that_rounds_to_nothing_is_not_told_as_a_number(bench, api, apart):
    for name, rate in (("a", 400.0), ("b", 400 * (1 + apart))):
        bench.measure(bench.build(name), rate, repeats=(1,), depths=(8,), noise=0)
    [says] = bench.answer(api)["says"]
    assert "less than 0.1 % more throughput than" in says and "0.0 %" not in says
    told = bench.answer(api, metric="lat.mean")
    assert "within 1 % of that of" in told["says"][0] and "1.00 times lower" not in told["says"][0]


def test_a_metric_is_asked_for(bench, api):
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    told = bench.answer(api, metric="clat.p99")
    assert told["lower_is_better"] is True
    assert by_name(told)["b"]["curve"]["verdict"] == "faster"
    assert by_name(told)["b"]["curve"]["ratio"] == pytest.approx(0.4, rel=0.05)
    assert bench.answers(api, metric="never.measured") == []


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "campaign"),
        ("campaign=x", "campaign"),
        ("campaign=1&baseline=x", "baseline"),
        ("campaign=1&metric=;", "metric"),
        ("campaign=1&stage=never", "stage"),
        ("campaign=1&colour=red", "colour"),
    ],
)
def test_a_wrong_question_is_named(api, query, name):
    told = api.get(f"/api/verdicts/?{query}")
    assert told.status_code == 400
    assert list(told.json()["errors"]) == [name]


def test_a_share_is_neither_better_nor_worse(bench, api):
    for name in "ab":
        for attempt in bench.measure(bench.build(name), 400):
            Measurement.objects.create(attempt=attempt, name="cpu.user", value=0.3, unit="1")
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}&metric=cpu.user")
    assert told.status_code == 400


def test_a_layout_not_in_order_is_left_out(bench, api):
    bench.measure(bench.build("a"), 400)
    for attempt in bench.measure(bench.build("b"), 1000):
        Attempt.objects.filter(pk=attempt.pk).update(degraded=[{"says": "a disk failed"}])
    assert bench.answers(api) == []


def test_repeats_for_a_mean_within_5_percent(bench, web):
    """(t(.975, 12) x 0.01 / ln 1.05)^2 is below 1: the three that are there will do."""
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert "A mean within 5 % takes 3 repeats of each point" in page


def test_no_difference_over_all_depths_names_the_depth_that_has_one(bench, api, web):
    unlike_at_one_depth(bench, 0.75)
    told = bench.answer(api)
    [line] = [one for one in told["lines"] if one["curve"]]
    words = [point["verdict"] for point in line["points"]]
    assert line["curve"]["verdict"] == "no difference worth naming"
    assert words == ["slower"] + ["no difference worth naming"] * 6
    [says] = told["says"]
    assert says.startswith(
        "Over all depths scheduler none and scheduler mq-deadline differ by less"
    )
    assert says.endswith("; but 0.75 times at 1 outstanding.")
    assert texts(web.get("/")).count("but 0.75 times at 1 outstanding") == 1


def test_no_difference_has_its_ratio_in_its_interval(bench, api):
    layout = bench.build("stripe")
    bench.measure(layout, 1000, noise=0.005, scheduler="mq-deadline")
    bench.measure(layout, 985, noise=0.005, scheduler="none")
    told = bench.answer(api)
    [says] = told["says"]
    ratio, low, high = map(
        float, re.search(r"([\d.]+) times .* ([\d.]+) to ([\d.]+),", says).groups()
    )
    assert low <= ratio <= high and ratio < 1


def test_a_sentence_over_a_curve_leads_to_its_chart(bench, web):
    """No run is nearest to a mean over all depths: the chart has what it is of."""
    unlike_at_one_depth(bench, 0.75)
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    [answer] = re.findall(r'<article class="answer".*?</article>', text, re.S)
    [said] = re.findall(r"<p>Over all depths.*?</p>", answer, re.S)
    [key] = re.findall(r'<a href="#([^"]+)">0.96 times', said)
    assert f'id="{key}"' in text


def test_a_metric_is_named_once_and_before_the_only_colon(bench, api):
    """By a metric that a sentence has no word for: not enough data, and overtaken."""
    bench.measure(bench.build("a"), 1000, repeats=(1,))
    bench.measure(bench.build("b"), 1000, repeats=(1,))
    [says] = bench.answer(api, metric="clat.p99")["says"]
    assert says.startswith("Not enough data on clat.p99: ") and says.count(":") == 1, says
    bench.campaign = made.campaign(bench.team, "Schedulers")
    layout = bench.build("c")
    for scheduler, factors in (("none", (1, 1, 1)), ("mq-deadline", (0.5, 1, 2))):
        for depth, factor in zip((1, 8, 16), factors, strict=True):
            bench.measure(layout, 1000 * factor, depths=(depth,), scheduler=scheduler, noise=0.001)
    [says] = bench.answer(api, metric="clat.p99")["says"]
    assert re.match(r"scheduler [a-z-]+ against scheduler [a-z-]+ by clat.p99: ", says), says
    assert says.count(":") == 1, says


def test_of_two_lines_each_tells_its_own_depth(bench, api):
    """A reason that both have is told once; what is decided of each of them is not."""
    bench.measure(bench.build("a"), 1000, depths=SEVEN, noise=0.001)
    for name in "bc":
        layout = bench.build(name)
        bench.measure(layout, 700, depths=SEVEN[:1], noise=0.001)
        bench.measure(layout, 1000, depths=SEVEN[1:], noise=0.001)
    said = bench.answer(api)["says"]
    assert len(said) == 2 and all("but 0.70 times at 1 outstanding" in one for one in said), said


@pytest.mark.parametrize(
    ("says", "reasons", "told"),
    [
        (Conclusion.UNKNOWN, "a a b", ["", "a", "b"]),
        (Conclusion.UNKNOWN, "a b a", ["a", "b", "a"]),
        (Conclusion.FASTER, "a a b", ["a", "a", "b"]),
    ],
)
def test_a_reason_that_several_have_in_a_row_is_told_once(monkeypatch, says, reasons, told):
    rows = [
        SimpleNamespace(against=Sentence(says, "head", (), "", reason=why))
        for why in reasons.split()
    ]
    monkeypatch.setattr(sentences, "_sentence", lambda answer, row, against: against)
    answer: Any = SimpleNamespace(others=rows, pending_text="")
    assert [one.reason for one in sentences.sentences(answer)] == told


@pytest.fixture
def half_done(bench):
    """B beats a clearly, and a third layout waits for its runs: 18 of 20 runs ended."""
    for name, top in (("a", 1000), ("b", 3000)):
        bench.measure(bench.build(name), top)
    waiting = bench.build("c")
    Layout.objects.filter(pk=waiting.pk).update(phase=LayoutPhase.READY, outcome="")
    points = [made.Point(8, repeat) for repeat in (1, 2)]
    for run in made.plan_all(bench.campaign, waiting, bench.load, points):
        Attempt.objects.create(run=run, layout=waiting)
    return waiting


def test_a_verdict_is_provisional_until_the_campaign_is_over(half_done, bench, api, web):
    """Every place that repeats it says so in words, and none has the colour of a verdict."""
    [answer] = bench.answers(api)
    words = "18 of 20 runs; provisional"
    assert answer["provisional"] == {"ended": 18, "runs": 20, "says": words}
    assert answer["so_far"] and all(said.endswith(f"({words}).") for said in answer["says"])
    pages = [f"/campaigns/{bench.campaign.pk}/", f"/campaigns/{bench.campaign.pk}/report/"]
    for address in (*pages, f"/compare/?campaign={bench.campaign.pk}"):
        page = web.get(address)
        told = page.content.decode()
        assert "Provisional 18 of 20 runs, 3 repeats" in texts(page), address
        assert "Conclusive" not in told and "Fasterso far" in texts(page), address
        answers = told[told.index('id="answers"') :].partition("</section>\n")[0]
        assert not re.search(r"is-good|is-bad|badge-done", answers), address
    Layout.objects.update(phase=LayoutPhase.DONE, outcome=Outcome.SUCCEEDED)
    [answer] = bench.answers(api)
    assert answer["provisional"] is None and not answer["so_far"]
    assert "Conclusive 3 repeats" in texts(web.get(pages[0]))


def test_an_open_page_gets_the_verdict_anew_with_each_run_that_ends(half_done, bench, web):
    page = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    shown = unescape(re.search(r'hx-get="([^"]+)" hx-trigger="sse', page)[1])
    ask = {"headers": {"HX-Request": "true", "HX-Target": "campaign-now"}}
    assert 'id="campaign-answers"' not in web.get(shown, **ask).text
    made.finished(bench.campaign, half_done, bench.load, 8, 3, 500.0)
    assert "19 of 21 runs" in web.get(shown, **ask).text

"""A campaign's answer on its page, on the compare page and over REST: from stored runs to a sentence with its links."""

from __future__ import annotations

import random
import re
import statistics
from datetime import timedelta
from math import exp, log

import pytest
from django.test import Client
from django.utils import timezone

from benchlab.campaigns.models import Run
from benchlab.charts.queries import groups
from benchlab.findings import storing
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.sharing import links
from benchlab.sharing.models import Share
from benchlab.topologies.models import Topology
from benchlab.verdicts import builds, set_ups
from benchlab.web.units import si
from tests.charts import made

pytestmark = pytest.mark.django_db
SEVEN = (1, 2, 4, 8, 16, 32, 64)


def texts(page) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.content.decode()))


@pytest.fixture
def bench(team, user):
    return Bench(team)


class Bench:
    """A campaign on one host whose layouts are measured as a test says."""

    def __init__(self, team):
        self.team = team
        self.host = made.host(team)
        self.load = made.workload(team)
        self.campaign = made.campaign(team, "Cache or stripe")
        self.dice = random.Random(4)
        self.position = 0

    def build(self, name):
        layout = made.done_layout(self.campaign, self.host, made.topology(self.team, name))
        layout.position = self.position
        layout.save()
        self.position += 1
        return layout

    def measure(
        self, layout, top, repeats=(1, 2, 3), depths=(1, 8, 16), noise=0.01, load=None, scheduler=""
    ):
        return [
            made.finished(
                self.campaign,
                layout,
                load or self.load,
                depth,
                repeat,
                top * depth / (depth + 8) * self.dice.gauss(1, noise),
                scheduler,
            )
            for repeat in repeats
            for depth in depths
        ]

    def answer(self, api, **query):
        [found] = self.answers(api, **query)
        return found

    def answers(self, api, **query):
        told = api.get("/api/verdicts/", {"campaign": self.campaign.pk, **query})
        assert told.status_code == 200, told.content
        return told.json()["results"]


def by_name(answer):
    return {line["name"]: line for line in answer["lines"]}


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
    assert "3 repeats" in told["says"][0] and "p99 is 2.5 times lower" in told["says"][0]
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


def test_equals_built_one_after_the_other_are_never_called_so(bench, api):
    bench.measure(bench.build("a"), 1000)
    bench.measure(bench.build("b"), 1000)
    line = by_name(bench.answer(api))["b"]
    assert line["curve"]["verdict"] == "not enough data"
    assert "built one after the other" in line["curve"]["reason"]
    assert "ABBA" in line["curve"]["reason"]


def test_what_is_seen_and_its_interval_look_the_same_way(bench, api):
    """b does 4 % less: ratio, range and interval are all of b against a, below 1 and around it."""
    bench.measure(bench.build("a"), 1000)
    bench.measure(bench.build("b"), 960)
    told = bench.answer(api)
    curve = by_name(told)["b"]["curve"]
    [says] = told["says"]
    assert says.startswith("Not enough data: b did 0.9")
    assert f"{curve['ratio']:.2f} times over all depths" in says
    assert f"95 % interval {curve['low']:.2f} to {curve['high']:.2f}, 3 repeats" in says


def test_a_later_visit_of_few_repeats_is_no_turn(bench, api):
    """Four repeats of a build and one of another: the first one's luck is all but alone."""
    for name, repeats in (("a", (1, 2, 3, 4)), ("b", (1, 2, 3, 4)), ("b", (5,)), ("a", (5,))):
        bench.measure(bench.build(name), 1000 if name == "a" else 1300, repeats=repeats)
    assert by_name(bench.answer(api))["b"]["design"] == "one_after_other"


def test_two_visits_each_are_abba(bench, api):
    for name, repeats in (("a", (1, 2)), ("b", (1, 2, 3, 4)), ("a", (3, 4))):
        bench.measure(bench.build(name), 1000 if name == "a" else 1300, repeats=repeats)
    assert by_name(bench.answer(api))["b"]["design"] == "one_after_other"
    other = Bench.__new__(Bench)
    other.__dict__ = {**bench.__dict__, "campaign": made.campaign(bench.team, "In turns")}
    for name, repeats in (("a", (1, 2)), ("b", (1, 2)), ("b", (3, 4)), ("a", (3, 4))):
        other.measure(other.build(name), 1000 if name == "a" else 1300, repeats=repeats)
    line = by_name(other.answer(api))["b"]
    assert (line["design"], line["tau"]) == ("abba", 0.0225)
    assert line["curve"]["verdict"] == "faster"


def test_a_retried_layout_is_no_second_visit(bench, api):
    """A A B B: built twice each, but not in turns."""
    for name, repeats in (("a", (1,)), ("a", (2, 3)), ("b", (1,)), ("b", (2, 3))):
        bench.measure(bench.build(name), 1000, repeats=repeats)
    assert by_name(bench.answer(api))["b"]["design"] == "one_after_other"


def test_what_one_layout_carries_is_interleaved_but_for_its_moments(bench, api, user):
    layout = bench.build("a")
    bench.measure(layout, 1000)
    attempts = bench.measure(layout, 1500, repeats=(4, 5, 6))
    for attempt in attempts:
        attempt.run.stage = "after-1"
        attempt.run.save()
    told = bench.answer(api)
    [line] = [line for line in told["lines"] if line["design"]]
    assert (line["design"], line["stage"]) == ("one_after_other", "after-1")
    one = groups(user, [bench.campaign.pk])[0]
    known = builds.of_groups([one])
    assert builds.design_of(one, one, known, ()).order == "interleaved"


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
    assert "at least 3 of each are needed" in says and "1 repeat" in says
    url = f"/campaigns/{bench.campaign.pk}/"
    page = web.get(url).content.decode()
    assert "Add 2 repeats" in page and "of 6 points, about 13 min" in page
    said = dict(re.findall(r'name="(runs|repeats|after)" value="([^"]+)"', page))
    answer = web.post(f"{url}repeats/", said, follow=True)
    assert "12 runs were added" in answer.content.decode()
    assert "Add 2 repeats" not in answer.content.decode()
    assert bench.campaign.layouts.filter(phase="draft").count() == 2


def test_a_person_picks_the_baseline(bench, api, web):
    bench.measure(bench.build("a"), 400)
    second = bench.build("b")
    bench.measure(second, 1000)
    bench.measure(bench.build("c"), 2000)
    told = bench.answer(api, baseline=second.topology_id)
    assert [line["name"] for line in told["lines"]] == ["c", "b", "a"]
    assert by_name(told)["b"]["curve"] is None
    assert by_name(told)["a"]["curve"]["verdict"] == "slower"
    page = web.get(f"/campaigns/{bench.campaign.pk}/?baseline={second.topology_id}")
    assert f'<option value="t{second.topology_id}" selected>' in page.content.decode()


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


def test_another_teams_campaign_says_nothing(bench, other_api, other_web):
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    assert bench.answers(other_api) == []
    page = other_web.get(f"/compare/?campaign={bench.campaign.pk}")
    assert "Answers" not in texts(page)


def test_a_layout_not_in_order_is_left_out(bench, api):
    bench.measure(bench.build("a"), 400)
    for attempt in bench.measure(bench.build("b"), 1000):
        Attempt.objects.filter(pk=attempt.pk).update(degraded=[{"says": "a disk failed"}])
    assert bench.answers(api) == []


def test_compare_page_over_campaigns(bench, web, api):
    bench.measure(bench.build("a"), 400)
    first = bench.campaign
    bench.campaign = made.campaign(bench.team, "Later")
    bench.measure(bench.build("a"), 1000)
    page = web.get(f"/compare/?campaign={first.pk}&campaign={bench.campaign.pk}")
    assert "Later does 2.5 times the IOPS of Cache or stripe" in texts(page)


def test_a_campaign_of_one_line_says_why_it_is_not_compared_and_what_its_curve_is(bench, web, api):
    bench.measure(bench.build("a"), 400, depths=SEVEN)
    assert bench.answers(api) == []
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()
    [curve] = told["curves"]
    assert curve["name"] == "a" and curve["workload"] == bench.load.name
    assert curve["knee"] and curve["says"] and curve["full"] is None
    for page in (f"/campaigns/{bench.campaign.pk}/", f"/campaigns/{bench.campaign.pk}/report/"):
        said = texts(web.get(page))
        assert f"Knee of a: {curve['says']}" in said, page
        assert "One layout: nothing to compare it with." in said
    query = api.get("/api/verdicts/", {"campaign": bench.campaign.pk, "baseline": curve["key"]})
    assert query.status_code == 200


def test_layouts_under_unlike_workloads_are_not_compared(bench, web):
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 400, load=made.workload(bench.team, "randwrite 4 KiB"))
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert "No two of these lines had the same workload" in page and "Knee of b" in page


def test_a_question_without_results_says_so(bench, web):
    url = f"/campaigns/{bench.campaign.pk}/"
    bench.campaign.question = "Is the cache worth it?"
    bench.campaign.save()
    assert "the answer comes with the first results" in texts(web.get(url))
    bench.campaign.question = ""
    bench.campaign.save()
    assert "the answer comes with the first results" not in texts(web.get(url))


def test_curves_are_told_beside_answers(bench, api):
    """By what each is itself; a figure without a sweep is no curve."""
    bench.measure(bench.build("a"), 400, depths=SEVEN)
    bench.measure(bench.build("b"), 1000, depths=SEVEN)
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()
    assert [one["name"] for one in told["curves"]] == ["a", "b"]
    for one in told["curves"]:
        assert one["knee"].keys() == {"at", "low", "high", "flat", "beyond", "repeats"}
        assert one["knee"]["repeats"] == 3 and one["fall"] is None


def test_tau_is_learned_from_rebuilt_equals(bench, api):
    """Six builds of the same, each 10 % above the one before: five pairs of ln 1.1."""
    for build in range(6):
        bench.campaign = made.campaign(bench.team, f"Build {build}")
        for attempt in bench.measure(bench.build("a"), 1000 * 1.1**build, noise=0):
            depth = attempt.run.outstanding
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=f"equal at {depth}")
    found = builds.rebuilt([bench.team.pk])
    assert found == pytest.approx([log(1.1)] * 5)
    bench.measure(bench.build("b"), 1000)
    line = by_name(bench.answer(api))["b"]
    assert line["tau_learned_from"] == 5
    assert line["tau"] == pytest.approx(1.5 * 1.4826 * log(1.1))


def test_findings_between_set_ups_know_what_the_lab_differs_by(bench, monkeypatch):
    """Else a card says "not enough data" beside a finding that says "faster"."""
    for build in range(6):
        bench.campaign = made.campaign(bench.team, f"Build {build}")
        for attempt in bench.measure(bench.build("a"), 1000 * 1.15**build, noise=0):
            depth = attempt.run.outstanding
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=f"equal at {depth}")
    bench.measure(bench.build("b"), 1000)
    lines = []
    monkeypatch.setattr(storing, "keep_lines", lambda of, load, found: lines.extend(found))
    set_ups.of_campaign(bench.campaign)
    assert [line.rebuilt for line in lines] == [pytest.approx([log(1.15)] * 5)] * 2
    lines.clear()
    bench.campaign.source = "imported"
    bench.campaign.save()
    set_ups.of_campaign(bench.campaign)
    assert [line.rebuilt for line in lines] == [(), ()], "somebody else's lab"


@pytest.mark.parametrize("name", ["one.fsync.ops", "bandwidth"])
def test_tau_is_learned_of_tools_that_count_no_iops(bench, name):
    for build in range(3):
        bench.campaign = made.campaign(bench.team, f"Build {build}")
        for attempt in bench.measure(bench.build("a"), 1000 * 1.1**build, noise=0):
            depth = attempt.run.outstanding
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=f"equal at {depth}")
    Measurement.objects.filter(name="bandwidth").delete()
    Measurement.objects.filter(name="iops").update(name=name)
    assert builds.rebuilt([bench.team.pk]) == pytest.approx([log(1.1)] * 2)


def test_what_is_imported_does_not_tell_its_order(bench, api):
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    bench.campaign.source = "imported"
    bench.campaign.save()
    assert by_name(bench.answer(api))["b"]["design"] == "untold"


def test_how_many_queries(bench, web, django_assert_max_num_queries):
    for name in "abcd":
        bench.measure(bench.build(name), 400, repeats=(1,))
    url = f"/api/verdicts/?campaign={bench.campaign.pk}"
    web.get(url)
    with django_assert_max_num_queries(12):
        web.get(url)
    assert Layout.objects.count() == 4 and FactSnapshot.objects.count() == 1


def test_effects_over_all_factors(bench, web, api):
    """Two layouts, two workloads, one of which alone gains by the second layout."""
    other = made.workload(bench.team, "randwrite 4 KiB")
    for name, read, write in (("plain", 1000, 500), ("cached", 3000, 500)):
        layout = bench.build(name)
        bench.measure(layout, read)
        bench.measure(layout, write, load=other)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert "Over all factors" in page
    assert "layout cached with point randread 4 KiB · 1 outstanding" in page
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()["effects"]
    [cached] = [one for one in told if one["levels"] == {"Layout": "cached"}]
    assert cached["ratio"] == pytest.approx(3**0.25, rel=0.02)
    assert cached["low"] < cached["ratio"] < cached["high"]


def test_repeats_for_a_mean_within_5_percent(bench, web):
    """(t(.975, 12) x 0.01 / ln 1.05)^2 is below 1: the three that are there will do."""
    bench.measure(bench.build("a"), 400)
    bench.measure(bench.build("b"), 1000)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert "For a mean within 5 %, at the noise of these repeats: 3 repeats." in page


def test_the_report_has_the_answers_too(bench, web):
    bench.measure(bench.build("cached stripe"), 400)
    bench.measure(bench.build("stripe"), 1000)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/report/"))
    assert "stripe does 2.5 times the IOPS of cached stripe" in page


def tuned(bench, name, scheduler):
    stack = [{"kind": "lvm", "options": {"stripes": 4}, "devices": []}]
    if scheduler:
        stack.append({"kind": "tuning", "options": {"scheduler": scheduler, "nr_requests": -1}})
    Topology.objects.create(team=bench.team, name=name, stack=stack)
    return bench.build(name)


def test_schedulers_of_one_layout_are_a_factor_of_their_own(bench, web, api):
    """On the whole the scheduler is worth 1.5 times; which layout it is on, and with which load, is nothing to it."""
    other = made.workload(bench.team, "randwrite 4 KiB")
    for scheduler, factor in ((None, 1.0), ("none", 1.5)):
        layout = tuned(bench, f"stripe {scheduler or ''}".strip(), scheduler)
        for load, top in ((bench.load, 1000), (other, 400)):
            bench.measure(layout, top * factor, load=load)
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()["effects"]
    by = {tuple(one["levels"].items()): one for one in told}
    assert by[("Settings", "scheduler none"),]["ratio"] == pytest.approx(1.5**0.5, rel=0.02)
    assert (("Settings", "as the host has them"),) in by
    assert not any("Layout" in one["levels"] or len(one["levels"]) > 1 for one in told)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert "settings scheduler none: 1.22 times" in page


def test_an_effect_of_settings_carries_the_luck_of_builds(bench, api):
    """Each scheduler is a layout built anew: 12 % between two builds is no effect, however sure the repeats are."""
    other = made.workload(bench.team, "randwrite 4 KiB")
    for scheduler, factor in ((None, 1.0), ("none", 1.12)):
        layout = tuned(bench, f"stripe {scheduler or ''}".strip(), scheduler)
        for load in (bench.load, other):
            bench.measure(layout, 1000 * factor, load=load, noise=0.001)
    assert api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()["effects"] == []


def test_schedulers_of_one_build_are_held_against_each_other_in_its_blocks(bench, api, web):
    """12 % is called, as no luck of a build is between them; as a factor it carries none of that either."""
    layout = bench.build("stripe")
    other = made.workload(bench.team, "randwrite 4 KiB")
    for scheduler, factor in (("mq-deadline", 1.0), ("none", 1.12)):
        for load in (bench.load, other):
            bench.measure(layout, 1000 * factor, load=load, noise=0.001, scheduler=scheduler)
    for told in bench.answers(api):
        lines = by_name(told)
        assert lines.keys() == {"scheduler none", "scheduler mq-deadline"}
        assert told["where"] == "", "what they differ in is not where they are"
        (line,) = [one for one in lines.values() if one["design"]]
        assert line["design"] == "interleaved" and line["tau"] == 0.0
        assert line["curve"]["verdict"] in ("faster", "slower")
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()["effects"]
    by = {tuple(one["levels"].items()): one["ratio"] for one in told}
    assert by[("Scheduler", "none"),] == pytest.approx(1.12**0.5, rel=0.01)
    assert by[("Scheduler", "mq-deadline"),] == pytest.approx(1.12**-0.5, rel=0.01)
    page = texts(web.get(f"/campaigns/{bench.campaign.pk}/"))
    assert "scheduler none: 1.06 times" in page


def test_layouts_are_held_against_each_other_with_the_same_scheduler(bench, api):
    for name, top in (("cached stripe", 400), ("stripe", 1000)):
        layout = bench.build(name)
        for scheduler in ("none", "mq-deadline"):
            bench.measure(layout, top, scheduler=scheduler)
    found = bench.answers(api)
    assert [by_name(one).keys() for one in found] == [{"cached stripe", "stripe"}] * 2


@pytest.mark.parametrize("kind", ["report", "campaign", "comparison"])
def test_who_opens_a_link_reads_the_answer_by_its_names_and_is_led_nowhere(bench, kind):
    for name, top in (("cached stripe", 400), (f"stripe of {bench.host.name}", 1000)):
        bench.measure(bench.build(name), top)
    digest = links.digest(f"token-{kind}")
    Share.objects.create(
        team=bench.team, kind=kind, name=kind, digest=digest, hide_hosts=True,
        object_id=None if kind == "comparison" else bench.campaign.pk,
        query=f"campaign={bench.campaign.pk}" if kind == "comparison" else "",
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    answer = Client().get(f"/s/token-{kind}/")
    page = texts(answer)
    assert "stripe of host A does 2.5 times the IOPS of cached stripe" in page
    assert "95 % interval" in page and bench.host.name not in page
    raw = answer.content.decode()
    assert "/runs/" not in raw and "/docs/" not in raw
    assert Client().get(f"/s/token-{kind}/?metric=cpu.user").status_code == 200


def test_ranked_each_at_its_best_point_in_medians(bench, web):
    """The table beside the runs themselves: best median, depth, latency and p99 there, ratio against the baseline."""
    bench.measure(bench.build("cached"), 400)
    fast = bench.measure(bench.build("stripe"), 1000)
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    table = re.search(r'<table class="ranked">.*?</table>', text, re.S)[0]
    heads = re.findall(r"<th scope=\"col\"[^>]*>(.*?)</th>", table)
    first, second = re.findall(r"<tr[^>]*>\s*<td.*?</tr>", table, re.S)
    deepest = max(a.run.outstanding for a in fast)
    at = [a for a in fast if a.run.outstanding == deepest]

    def median(name):
        values = [Measurement.objects.get(attempt=a, name=name).value for a in at]
        return statistics.median(values)

    assert re.sub("<.*?>", "", heads[2]) == "Best IOPS"
    assert "stripe" in first and "Baseline" in second and "1×" in second
    assert si(median("iops"), "op/s") in first and f">{deepest}<" in first
    assert "2.5×" in first and "Faster" in first


def unlike_at_one_depth(bench, factor):
    """Two schedulers of one build, equal but at depth 1."""
    layout = bench.build("stripe")
    bench.measure(layout, 1000, depths=SEVEN, noise=0.001, scheduler="mq-deadline")
    bench.measure(layout, 1000 * factor, depths=SEVEN[:1], noise=0.001, scheduler="none")
    bench.measure(layout, 1000, depths=SEVEN[1:], noise=0.001, scheduler="none")


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
    [said] = re.findall(r"<strong>Over all depths.*?</p>", answer, re.S)
    [key] = re.findall(r'<a href="#([^"]+)">0.96 times', said)
    assert f'id="{key}"' in text


def options_of(page):
    """{text: value} of the choice of baselines, and what is chosen."""
    [form] = re.findall(r'<select id="answers-baseline".*?</select>', page.content.decode(), re.S)
    found = re.findall(r'<option value="([^"]+)"( selected)?>(.*?)</option>', form)
    [chosen] = [text for _, selected, text in found if selected]
    return {text: value for value, _, text in found}, chosen


def chosen_anew(bench, api, web, name, url):
    """Choose it on the page as a person does: page and API hold the others against it."""
    known, before = options_of(web.get(url))
    assert before != name and known.keys() == {before, name}
    page = web.get(url, {"baseline": known[name]})
    assert options_of(page)[1] == name
    told = api.get("/api/verdicts/", {"campaign": bench.campaign.pk, "baseline": known[name]})
    [answer] = told.json()["results"]
    assert by_name(answer)[name]["curve"] is None and by_name(answer)[name]["key"] == known[name]


def test_a_scheduler_is_a_baseline(bench, api, web):
    layout = bench.build("stripe")
    for scheduler, top in (("mq-deadline", 1000), ("none", 1500)):
        bench.measure(layout, top, scheduler=scheduler)
    url = f"/campaigns/{bench.campaign.pk}/"
    chosen_anew(bench, api, web, "scheduler none", url)


def test_a_moment_is_a_baseline(bench, api, web):
    layout = bench.build("stripe")
    bench.measure(layout, 1000)
    for attempt in bench.measure(layout, 1500, repeats=(4, 5, 6)):
        attempt.run.stage = "after-1"
        attempt.run.save()
    known, before = options_of(web.get(f"/campaigns/{bench.campaign.pk}/"))
    [other] = known.keys() - {before}
    chosen_anew(bench, api, web, other, f"/campaigns/{bench.campaign.pk}/")
    assert known[other] in ("mafter-1", "mbuilt")


def test_a_campaign_is_a_baseline(bench, web):
    bench.measure(bench.build("a"), 400)
    first = bench.campaign
    bench.campaign = made.campaign(bench.team, "Later")
    bench.measure(bench.build("a"), 1000)
    url = f"/compare/?campaign={first.pk}&campaign={bench.campaign.pk}"
    known, before = options_of(web.get(url))
    assert before == first.name and known["Later"].startswith(f"c{bench.campaign.pk}")
    page = web.get(f"{url}&baseline={known['Later']}")
    assert options_of(page)[1] == "Later"
    assert re.search(r'class="base">.*?Later', page.content.decode(), re.S)


@pytest.mark.parametrize("first", [400, 1000])
def test_the_large_figure_says_what_the_sentence_says(bench, web, first):
    """Whichever is the baseline: the one that is ahead is told, by more than 1."""
    bench.measure(bench.build("a"), first)
    bench.measure(bench.build("b"), 1400 - first)
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    figure = re.sub("<.*?>", "", re.search(r'<p class="fig">.*?</p>', text, re.S)[0])
    ahead, behind = ("b", "a") if first == 400 else ("a", "b")
    assert figure.startswith("2.5×") and f"IOPS of {behind}: {ahead}" in figure
    low, high = map(float, re.search(r"interval ([\d.]+) to ([\d.]+)", figure).groups())
    assert 1 < low < 2.5 < high

"""Effects of each factor on the whole, settings and schedulers among them, and schedulers held against each other."""

from __future__ import annotations

import re

import pytest

from benchlab.analysis.factors import Gap
from benchlab.campaigns.models import Run
from benchlab.topologies.models import Topology
from benchlab.verdicts import builds, matrix
from tests.charts import made
from tests.verdicts.bench import by_name, texts

pytestmark = pytest.mark.django_db


def effects(bench, api, metric="iops"):
    told = api.get("/api/verdicts/", {"campaign": bench.campaign.pk}).json()["effects"]
    return [one for one in told if one["metric"] == metric]


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
    told = effects(bench, api)
    [cached] = [one for one in told if one["levels"] == {"Layout": "cached"}]
    assert cached["ratio"] == pytest.approx(3**0.25, rel=0.02)
    assert cached["low"] < cached["ratio"] < cached["high"]


def test_an_effect_leads_to_its_runs_and_is_told_of_the_latency_too(bench, web, api):
    """The p99 of made-up runs goes down as their IOPS go up: 3 ** -0.25 times."""
    other, measured = made.workload(bench.team, "randwrite 4 KiB"), {}
    for name, read, write in (("plain", 1000, 500), ("cached", 3000, 500)):
        layout = bench.build(name)
        measured[name] = bench.measure(layout, read) + bench.measure(layout, write, load=other)
    for metric, ratio in (("iops", 3**0.25), ("clat.p99", 3**-0.25)):
        [cached] = [o for o in effects(bench, api, metric) if o["levels"] == {"Layout": "cached"}]
        assert cached["ratio"] == pytest.approx(ratio, rel=0.02)
        assert cached["runs"] == [one.run_id for one in measured["cached"]]
    query = {"campaign": bench.campaign.pk, "metric": "clat.p99"}
    told = api.get("/api/verdicts/", query).json()["effects"]
    assert {one["metric"] for one in told} == {"clat.p99"}
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    [(href, ratio), (_, of_latency)] = re.findall(
        r'<li>layout cached: <a href="([^"]*)">([\d.]+) times</a>', text
    )
    assert float(ratio) == pytest.approx(3**0.25, rel=0.02)
    assert float(of_latency) == pytest.approx(3**-0.25, rel=0.02)
    table = web.get(href)
    assert table.status_code == 200
    shown = {int(run) for run in re.findall(r"/runs/(\d+)/", table.content.decode())}
    assert shown == {one.run_id for one in measured["cached"]}
    assert "<h3>Completion latency, p99</h3>" in text


def test_a_cell_that_is_missing_is_named(bench, web, api):
    """b was not measured with none: layouts are told apart with the scheduler that both have, and that it is so."""
    other = made.workload(bench.team, "randwrite 4 KiB")
    for name, top, schedulers in (("a", 1000, ("mq-deadline", "none")), ("b", 3000, ("none",))):
        layout = bench.build(name)
        for scheduler in schedulers:
            for load in (bench.load, other):
                bench.measure(layout, top, load=load, scheduler=scheduler)
    says = "The effect of the scheduler on IOPS is unknown: layout b has no IOPS with scheduler mq-deadline"
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()
    assert says in told["effects_without"]
    by = {tuple(one["levels"].items()): one for one in effects(bench, api)}
    assert by[("Layout", "b"),]["ratio"] == pytest.approx(3**0.5, rel=0.02)
    runs = Run.objects.in_bulk(by[("Layout", "a"),]["runs"])
    assert {one.scheduler for one in runs.values()} == {"none"}
    assert f"{says}." in texts(web.get(f"/campaigns/{bench.campaign.pk}/"))


def test_while_a_campaign_goes_on_nothing_is_said_to_be_missing(bench, api):
    for name, depths in (("a", (1, 8, 16)), ("b", (1, 8))):
        layout = bench.build(name)
        bench.measure(layout, 1000, depths=depths)
    layout.phase, layout.outcome = "ready", ""
    layout.save()
    told = api.get(f"/api/verdicts/?campaign={bench.campaign.pk}").json()
    assert (told["effects"], told["effects_without"]) == ([], [])


def test_an_effect_carries_what_this_lab_was_seen_to_differ_by(bench, api, monkeypatch):
    """30 % between two layouts is one where builds differ by 5 %, and none where twelve pairs differ by 20 %."""
    other = made.workload(bench.team, "randwrite 4 KiB")
    for name, top in (("a", 1000), ("b", 1300)):
        layout = bench.build(name)
        for load in (bench.load, other):
            bench.measure(layout, top, load=load, noise=0.001)
    assert effects(bench, api)
    monkeypatch.setattr(builds, "_read_luck", lambda teams: (0.2**2 / 2,) * 12)
    assert effects(bench, api) == []


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
    told = effects(bench, api)
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
    assert effects(bench, api) == []


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
    told = effects(bench, api)
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


CELL = ("a", "", "lab1", "", "none", "4 outstanding")


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (
            Gap(4, "none", {}, CELL, 2, 12),
            "scheduler none has no IOPS in 2 of 12 cells, such as with layout a, host lab1, point 4 outstanding",
        ),
        (Gap(4, "none", {0: ("a",)}, CELL, 2, 12), "layout a has no IOPS with scheduler none"),
        (
            Gap(0, "a", {4: ("kyber", "none")}, CELL, 2, 12),
            "layout a has no IOPS with schedulers kyber and none",
        ),
        (
            Gap(4, "none", {0: ("a", "b", "c", "d")}, CELL, 2, 12),
            "layouts a, b, c and 1 more have no IOPS with scheduler none",
        ),
    ],
)
def test_a_gap_is_explained_by_what_is_missing(gap, words):
    assert matrix._explain_gap(gap, "IOPS") == words


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (["a"], "layout a"),
        (["a", "b", "c"], "layouts a, b and c"),
        (["a", "b", "c", "d", "e"], "layouts a, b, c and 2 more"),
        ([""], ""),
    ],
)
def test_three_levels_are_named_and_the_others_counted(levels, words):
    assert matrix._level_text(0, levels) == words

"""The table of set-ups, best first, its badges, and the large figure: they say what the sentence says."""

from __future__ import annotations

import re
import statistics
from html import unescape

import pytest

from benchlab.charts.palette import COLOURS
from benchlab.runs.models import Measurement
from benchlab.verdicts import ranks
from benchlab.web.units import si
from tests.charts import made
from tests.verdicts.bench import SEVEN, by_name, texts, unlike_at_one_depth

pytestmark = pytest.mark.django_db


def test_a_layout_has_one_colour_in_every_chart_and_table_of_the_page(bench, web):
    """The second workload was not measured on the first layout, so there the second is the first."""
    other = made.workload(bench.team, "randwrite 4 KiB")
    for number, name in enumerate(("first", "second", "third")):
        layout = bench.build(name)
        bench.measure(layout, 400 * (number + 1))
        if number:
            bench.measure(layout, 300 * (number + 1), load=other)
    text = web.get(f"/campaigns/{bench.campaign.pk}/").content.decode()
    row = re.compile(
        r'<th scope="row">\s*<svg class="plot key s(\d)".*?</svg>\s*(\w+)\s*</th>', re.S
    )
    tables = re.findall(r'<table class="ranked">.*?</table>', text, re.S)
    found = {(name, COLOURS[int(place) - 1]) for one in tables for place, name in row.findall(one)}
    names = ("first", "second", "third")
    assert len(tables) == 2 and found == set(zip(names, COLOURS, strict=False))
    heat = re.search(r'<table id="campaign-heat".*?</table>', text, re.S)[0]
    keyed = re.findall(
        r'<th scope="row">\s*<svg class="plot key s(\d)".*?</svg>\s*(\w+)', heat, re.S
    )
    assert {(name, COLOURS[int(place) - 1]) for place, name in keyed} == found
    figures = re.findall(r'data-figure-url="([^"]+)"', text)
    drawn = [trace for url in figures for trace in web.get(unescape(url)).json()["data"]]
    named = {(one["name"], one["line"]["color"]) for one in drawn if one.get("name") in dict(found)}
    assert named == found


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


def rows_of(page):
    """{layout: the words of its row} of the ranked table."""
    [table] = re.findall(r'<table class="ranked">.*?</table>', page.content.decode(), re.S)
    rows = [re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", one)) for one in table.split("<tr")[2:]]
    names = [
        re.search(r'<th scope="row">.*?</svg>(.*?)</th>', one, re.S)
        for one in table.split("<tr")[2:]
    ]
    return {found[1].strip(): row for found, row in zip(names, rows, strict=True)}


@pytest.mark.parametrize(("factor", "word"), [(0.75, "slower"), (1.4, "faster")])
def test_the_badge_names_the_depth_that_the_sentence_names(bench, web, factor, word):
    unlike_at_one_depth(bench, factor)
    page = web.get(f"/campaigns/{bench.campaign.pk}/")
    row = rows_of(page)["scheduler none"]
    assert f"No difference but {word} at 1" in row
    assert f"Conclusive 3 repeats, but {word} at 1" in texts(page)


def test_the_best_is_of_depths_that_all_have(bench, web, api):
    """Twice as deep, b does more; where both were measured it does less, as the verdict has it."""
    bench.measure(bench.build("a"), 1000, depths=(1, 2, 4, 8))
    bench.measure(bench.build("b"), 800, depths=SEVEN)
    page = web.get(f"/campaigns/{bench.campaign.pk}/")
    rows = rows_of(page)
    assert re.search(r"> *2 b \d+ IOPS 8 ", rows["b"]) and "Slower" in rows["b"]
    assert "median of the repeats, at the depths that all have; against" in texts(page)
    assert by_name(bench.answer(api))["b"]["left_out"] == [16, 32, 64]


@pytest.mark.parametrize(
    ("medians", "shared", "lower", "best"),
    [
        ({1: 10.0, 4: 30.0, 8: 50.0}, {1, 4}, False, 4),
        ({1: 10.0, 4: 30.0, 8: 50.0}, {2}, False, 8),
        ({1: 10.0, 4: 30.0, 8: 5.0}, {1, 4}, True, 1),
        ({4: 30.0, 1: 30.0}, {1, 4}, False, 1),
        ({}, {1}, False, None),
    ],
)
def test_the_best_depth(medians, shared, lower, best):
    assert ranks._best_depth(medians, shared, lower) == best

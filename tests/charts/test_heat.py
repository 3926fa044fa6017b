"""The heat map of a campaign: each figure recomputed from the measurements, each state in words, each cell a link."""

from __future__ import annotations

import re
from html import unescape
from statistics import median
from typing import NamedTuple

import pytest
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Attempt, Measurement
from benchlab.runs.states import AttemptPhase, Outcome
from tests.charts import made

pytestmark = pytest.mark.django_db

CELL = re.compile(
    r'<td><(?:a|span) class="([^"]*)"(?: href="([^"]*)" title="([^"]*)")?>(.*?)</(?:a|span)></td>'
)
PREFIXES = {"G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6}


class Cell(NamedTuple):
    css: str
    url: str
    title: str
    text: str


def page(web, campaign, query: str = "") -> str:
    answer = web.get(reverse("campaign-detail", args=[campaign.pk]) + query)
    assert answer.status_code == 200
    return str(answer.text)


def rows(text: str) -> dict[str, list[Cell]]:
    body = text.partition('id="campaign-heat"')[2].partition("</table>")[0].partition("<tbody>")[2]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL):
        [head] = re.findall(r'<th scope="row">(?:\s*<svg.*?</svg>\s*)?(.*?)</th>', row, re.DOTALL)
        cells = [Cell(*map(unescape, cell)) for cell in CELL.findall(row)]
        assert len(cells) == row.count("<td>")
        found[re.sub("<small>", " · ", head).replace("</small>", "")] = cells
    return found


def heads(text: str) -> list[str]:
    table = text.partition('id="campaign-heat"')[2].partition("</thead>")[0]
    plain = re.sub(r'<span class="visually-hidden">.*?</span>|<a .*?</a>', "", table)
    return [unescape(one).strip() for one in re.findall(r"<th [^>]*>(.*?)</th>", plain)]


def number(text: str) -> float:
    """ "3.14 ms" -> 0.00314; "10.2 k" -> 10200."""
    found = re.fullmatch(r"([\d.]+) ?([GMkmµ]?)(?:B/s|s)?", text)
    assert found, text
    return float(found[1]) * PREFIXES[found[2]]


def measured(campaign, name: str, topology, depth: int) -> list[float]:
    of = Measurement.objects.filter(
        name=name,
        attempt__run__campaign=campaign,
        attempt__run__topology=topology,
        attempt__run__point={"iodepth": depth},
    )
    return [float(value) for value in of.values_list("value", flat=True)]


def values(name: str, attempts) -> list[float]:
    of = Measurement.objects.filter(name=name, attempt__in=attempts)
    return [float(value) for value in of.values_list("value", flat=True)]


@pytest.mark.parametrize("name", ["iops", "bandwidth", "lat.mean", "clat.p99"])
def test_each_cell_is_the_median_over_the_repeats(web, lab, name):
    text = page(web, lab.campaign, f"?heat={name}")
    assert heads(text) == ["Topology", "randread 4 KiB · iodepth", "1", "4", "16"]
    found = rows(text)
    assert list(found) == ["LVM 64 KiB", "raw"]
    for stack in lab.stacks:
        for cell, depth in zip(found[stack.name], (1, 4, 16), strict=True):
            repeats = measured(lab.campaign, name, stack, depth)
            assert len(repeats) == 3
            assert number(cell.text) == pytest.approx(median(repeats), rel=0.006)
            assert "median of 3 repeats" in cell.title


@pytest.mark.parametrize("name", ["iops", "lat.mean"])
def test_more_is_stronger_from_the_smallest_to_the_largest(web, lab, name):
    text = page(web, lab.campaign, f"?heat={name}")
    every = sorted((number(c.text), int(c.css[1])) for row in rows(text).values() for c in row)
    steps = [step for _, step in every]
    assert steps == sorted(steps) and (steps[0], steps[-1]) == (0, 8)
    [ramp] = re.findall(r'<p class="ramp">(.*?) <span aria-hidden.*</span> (.*?)</p>', text)
    assert number(ramp[0].removesuffix(" IOPS")) == every[0][0]
    assert number(ramp[1].removesuffix(" IOPS")) == every[-1][0]


def test_where_all_are_alike_the_colour_is_the_middle(web, lab):
    Measurement.objects.filter(name="iops").update(value=1000.0)
    assert {c.css for row in rows(page(web, lab.campaign)).values() for c in row} == {"c4"}


def test_zero_has_a_colour(web, lab):
    """A rate of nothing has no logarithm."""
    mine = Measurement.objects.filter(name="iops", attempt__run__topology=lab.stacks[0])
    mine.update(value=0.0)
    found = rows(page(web, lab.campaign))
    assert {c.css for c in found["LVM 64 KiB"]} == {"c0"}
    assert {c.text for c in found["LVM 64 KiB"]} == {"0"}


def test_the_metrics_are_those_that_were_measured(web, lab):
    text = page(web, lab.campaign)
    tabs = text.partition('aria-label="Metric of the table">')[2].partition("</nav>")[0]
    assert re.findall(">([^<]+)</a>", tabs) == ["IOPS", "Throughput", "Latency", "p99"]
    assert re.findall('aria-current="true">([^<]+)<', tabs) == ["IOPS"]
    assert "IOPS, median of the repeats; higher is better" in text
    later = page(web, lab.campaign, "?heat=clat.p99")
    assert "Completion latency, p99, median of the repeats; lower is better" in later
    Measurement.objects.exclude(name="iops").delete()
    assert 'aria-label="Metric of the table"' not in page(web, lab.campaign)


def test_links_keep_what_else_the_page_was_asked_for(web, lab):
    text = page(
        web, lab.campaign, "?moment=built&heat=bandwidth&fold=999999999&results=w&running=3"
    )
    head = text.partition('id="campaign-scale"')[2].partition("</thead>")[0]
    links = [unescape(link) for link in re.findall('href="([^"]*)"', head)]
    assert len(links) == 5 and all(link.endswith("#heat-title") for link in links)
    assert all("moment=built" in link and "fold=999999999" in link for link in links)
    assert not any("results=" in link or "running=" in link for link in links)


@pytest.mark.parametrize("query", ["?heat=%3Cb%3E", "?fold=all"])
def test_what_nobody_can_understand_is_refused(web, lab, query):
    answer = web.get(reverse("campaign-detail", args=[lab.campaign.pk]) + query)
    assert answer.status_code == 400


def test_what_was_not_measured_is_the_first_that_was(web, lab):
    assert rows(page(web, lab.campaign, "?heat=one.fsync.ops")) == rows(page(web, lab.campaign))


def test_repeats_that_differ_are_marked_as_the_chart_has_them(web, lab):
    attempt = next(a for a in lab.attempts if a.run.topology == lab.stacks[1] and a.run.repeat == 2)
    before = page(web, lab.campaign)
    assert "shaky" not in before and "a corner: repeats differ" not in before
    attempt.measurements.filter(name="iops").update(value=90000.0)
    answer = web.get(reverse("campaign-detail", args=[lab.campaign.pk]))
    marked = [c for row in rows(answer.text).values() for c in row if "shaky" in c.css]
    [(where, ratio)] = answer.context["cards"][0].differing_points
    [cell] = marked
    assert where == f"raw at {attempt.run.outstanding}"
    assert f"repeats differ {ratio:.1f}" in cell.title and "a corner: repeats differ" in answer.text


def test_a_run_that_failed_leaves_the_median_of_the_others(web, lab):
    attempt = lab.attempts[0]
    Attempt.objects.filter(pk=attempt.pk).update(outcome=Outcome.FAILED)
    cell = rows(page(web, lab.campaign))[attempt.run.topology.name][0]
    others = [one for one in lab.attempts[1:] if one.run.topology == attempt.run.topology]
    kept = values("iops", [one for one in others if one.run.outstanding == 1])
    value, _, part = cell.text.partition("<small>")
    assert len(kept) == 2 and number(value) == pytest.approx(median(kept), rel=0.006)
    assert part == "2/3</small>" and cell.title.endswith("; 1 failed")


def test_a_retry_that_failed_leaves_the_figure_that_there_was(web, lab):
    """As charts have it: of each run the last attempt that succeeded."""
    before = rows(page(web, lab.campaign))
    first = lab.attempts[0]
    Attempt.objects.create(
        run=first.run, layout=first.layout, number=2, phase=AttemptPhase.DONE, outcome="failed"
    )
    assert rows(page(web, lab.campaign)) == before


def test_what_was_measured_out_of_order_stands_apart(web, lab):
    first = lab.attempts[0]
    Attempt.objects.filter(pk=first.pk).update(degraded=[{"says": "sdb is gone", "seen": "during"}])
    found = rows(page(web, lab.campaign))
    assert list(found) == ["LVM 64 KiB", "LVM 64 KiB · not in order", "raw"]
    assert "median of 2 repeats" in found["LVM 64 KiB"][0].title
    apart, *others = found["LVM 64 KiB · not in order"]
    [value] = first.measurements.filter(name="iops").values_list("value", flat=True)
    assert number(apart.text) == pytest.approx(value, rel=0.006) and "one repeat" in apart.title
    assert {one.css for one in others} == {"none"}


def test_what_nobody_asked_for_is_told_from_what_is_not_measured_yet(web, lab, team):
    layout = made.done_layout(lab.campaign, lab.host, made.topology(team, "late"))
    made.run(lab.campaign, layout, lab.load, 4, 1)
    none, waits, _ = rows(page(web, lab.campaign))["late"]
    assert (none.css, none.url) == ("none", "") and "no run" in none.text
    assert (waits.css, waits.text, waits.title) == ("wait", "queued", "1 queued")


def test_what_a_tool_does_not_tell_is_no_zero(web, lab):
    Measurement.objects.filter(attempt=lab.attempts[0], name="lat.mean").delete()
    others = [a.pk for a in lab.attempts if a.run.outstanding == 1]
    Measurement.objects.filter(attempt__in=others, name="lat.mean").delete()
    cell = rows(page(web, lab.campaign, "?heat=lat.mean"))["raw"][0]
    assert (cell.css, cell.text, cell.title) == ("none", "not told", "3 not told")


def test_a_cell_leads_to_exactly_its_runs(web, lab):
    for row in rows(page(web, lab.campaign)).values():
        for cell in row:
            answer = web.get(cell.url)
            assert answer.status_code == 200
            shown = [one.run for one in answer.context["rows"]]
            texts = [one.cells[-1].text.removesuffix(" IOPS") for one in answer.context["rows"]]
            assert len(shown) == 3 and median(map(number, texts)) == number(cell.text)
    one = Campaign.objects.create(team=lab.team, name="one each", seed=1, repeats=1)
    attempts = made.swept(one, lab.host, lab.stacks[0], lab.load, depths=(1,), repeats=1)
    [[cell]] = rows(page(web, one)).values()
    assert cell.url == reverse("run-detail", args=[attempts[0].run_id])


def test_a_workload_is_folded_into_its_best_point(web, lab):
    more = made.workload(lab.team, "a second load")
    made.swept(lab.campaign, lab.host, lab.stacks[0], more, depths=(1,), repeats=1)
    for name, choose in (("iops", max), ("lat.mean", min)):
        text = page(web, lab.campaign, f"?heat={name}&fold={lab.load.pk}")
        assert heads(text) == [
            "Topology",
            "a second load · iodepth",
            "randread 4 KiB",
            "1",
            "best of 3",
        ]
        assert text.count("unfold<span") == 1
        for stack in lab.stacks:
            medians = {d: median(measured_of(lab, name, stack, d)) for d in (1, 4, 16)}
            best = choose(medians, key=lambda depth: medians[depth])
            cell = rows(text)[stack.name][-1]
            assert number(cell.text) == pytest.approx(medians[best], rel=0.006)
            assert cell.title.startswith(f"Best of 3 points: iodepth {best}; ")
    [unfold] = re.findall(r'href="([^"]*)">unfold', text)
    assert "fold=" not in unfold and "heat=lat.mean" in unfold


def measured_of(lab, name, stack, depth) -> list[float]:
    of = [a for a in lab.attempts if (a.run.topology, a.run.outstanding) == (stack, depth)]
    return values(name, of)


def test_rows_are_in_the_order_in_which_people_count(web, team):
    campaign = made.campaign(team)
    load = made.workload(team)
    for host in (made.host(team, "vm-10"), made.host(team, "vm-2")):
        for name in ("stripe 10", "Stripe 2"):
            made.swept(campaign, host, made.topology(team, name), load, depths=(1,))
    assert list(rows(page(web, campaign))) == [
        "Stripe 2 · vm-2",
        "stripe 10 · vm-2",
        "Stripe 2 · vm-10",
        "stripe 10 · vm-10",
    ]


def test_a_live_page_goes_on_with_the_metric_that_was_chosen(web, lab):
    answer = web.get(
        reverse("campaign-detail", args=[lab.campaign.pk]) + "?heat=lat.mean&running=&results=",
        headers={"HX-Request": "true", "HX-Target": "campaign-now"},
    )
    assert answer.text.count("heat=lat.mean") >= 2 and "lower is better" in answer.text
    assert "median of 3 repeats" in rows(answer.text)["raw"][0].title


def test_a_campaign_without_results_has_a_table_that_waits(web, team):
    campaign = made.campaign(team)
    layout = made.done_layout(campaign, made.host(team), made.topology(team, "raw"))
    made.run(campaign, layout, made.workload(team), 1, 1)
    text = page(web, campaign)
    assert "Nothing is measured yet" in text and 'class="ramp"' not in text
    assert rows(text)["raw"][0].text == "queued"

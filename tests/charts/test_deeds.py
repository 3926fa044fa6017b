"""Lines share a chart by what was done, not by whose workload it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse

from benchlab.campaigns.models import Campaign, Run
from benchlab.charts.line_analysis import group_by_work
from benchlab.charts.queries import Group, Sample
from tests.charts import made

DYNAMO = {"block_size": 8192, "random_percent": 50}


def line(workload, tool="fio", campaign=1, depths=(1, 4), ours=True, varied=(), **options):
    samples = tuple(Sample(depth, depth, 1, depth, {"iops": 1.0}) for depth in depths)
    return Group(
        campaign, f"C{campaign}", 1, "T", 1, "H", workload, f"W{workload}", tool, "",
        samples=samples, options=options, measured_here=ours, varied_options=varied,
    )  # fmt: skip


def shared(*lines):
    return [[one.workload for one in some] for some in group_by_work(lines)]


READS = {"rw": "randread", "block_size": 4096}


def test_the_same_by_two_workloads_of_two_campaigns():
    ours = line(1, **READS, ioengine="io_uring", runtime_s=300)
    theirs = line(2, campaign=2, ours=False, **READS)
    assert shared(ours, theirs) == [[1, 2]]


def test_one_campaigns_workloads_stay_apart():
    """Whoever made two of them wants two charts."""
    assert shared(line(1, **READS), line(2, **READS)) == [[1], [2]]


def test_what_a_campaign_leaves_out_is_the_drivers_default_and_of_others_unknown():
    bare = line(1)  # randread, 4096: fio's defaults here
    assert shared(bare, line(2, campaign=2, ours=False, **READS)) == [[1, 2]]
    assert shared(bare, line(2, campaign=2, ours=False)) == [[1], [2]]


@pytest.mark.parametrize(
    "other",
    [
        {"rw": "randwrite"},
        {"block_size": 8192},
        {"fsync": 1},
        {"job_file": "[a]\nrw=randread\n"},
        {"varied": ("block_size",)},
        {"depths": (4,)},
        {"tool": "dynamo", **DYNAMO, "read_percent": 100},
    ],
)
def test_another_thing_has_another_chart(other):
    assert shared(line(1, **READS), line(2, **{"campaign": 2, **READS, **other})) == [[1], [2]]


def test_without_a_sweep_the_depth_matters():
    four, five = line(1, depths=(4,), **READS), line(2, campaign=2, depths=(8,), **READS)
    assert shared(four, five) == [[1], [2]]
    assert shared(four, replace(five, samples=four.samples)) == [[1, 2]]


def test_dynamo_by_its_own_words_and_by_others():
    ours = line(1, "dynamo", **DYNAMO, read_percent=50)
    theirs = line(2, "dynamo", campaign=2, ours=False, **DYNAMO, write_percent=50)
    assert shared(ours, theirs) == [[1, 2]]
    assert shared(ours, replace(theirs, options={**DYNAMO, "write_percent": 0})) == [[1], [2]]


def test_a_tool_that_does_one_thing_and_one_that_does_anything():
    both = [line(n, "pg_test_fsync", campaign=n, depths=(1,), seconds=n) for n in (1, 2)]
    assert shared(*both) == [[1, 2]]
    assert shared(*(replace(one, tool="command") for one in both)) == [[1], [2]]


def test_own_results_share_a_chart_with_anothers(web, lab):
    """As the reference library's do: another team's workload, of another name, that did the same."""
    elsewhere = made.campaign(lab.team, "Article")
    load = made.workload(lab.team, "4 KiB random reads, as published")
    made.swept(elsewhere, made.host(lab.team, "theirs"), lab.stacks[0], load, depths=(1, 4, 16))
    Campaign.objects.filter(pk=elsewhere.pk).update(source=Campaign.Source.LIBRARY)
    Run.objects.filter(campaign=elsewhere).update(options={"rw": "randread", "block_size": 4096})
    page = web.get(reverse("compare"), {"campaign": [lab.campaign.pk, elsewhere.pk]})
    (card,) = page.context["cards"]
    assert card.lines == 3 and set(card.workloads) == {lab.load.pk, load.pk}
    drawn = web.get(card.figure_url).json()
    assert len({g for t in drawn["data"] if not (g := t["legendgroup"]).startswith("mark: ")}) == 3
    assert len(web.get(card.csv_url).content.splitlines()) == 1 + 3 * 9

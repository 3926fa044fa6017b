"""Answers from the reference library's articles: ratios as they print them, and no verdict from one repeat."""

from __future__ import annotations

from math import log

import pytest

from benchlab.campaigns.models import Campaign
from tests.imports.test_library import (
    BCACHE,
    CACHE,
    HDD,
    NOSYNC,
    POOL,
    RAW,
    SLOG,
    SSD,
    STRIPE,
    SYNC,
)

# A line, its baseline, metric, outstanding; both figures as the articles print them (FIGURES of test_library.py).
RATIOS = [
    (CACHE, STRIPE, "one.fsync.ops", None, 8113.938, 5248.552),
    (SLOG, POOL, "one.fsync.ops", None, 7016.477, 7312.509),
    (NOSYNC, SYNC, "one.fsync.ops", None, 115687.300, 6676.001),
    (SSD, HDD, "iops", 16, 5099.0, 833.0),
    (SSD, HDD, "iops", 1, 1683.0, 463.0),
    (BCACHE, RAW, "iops", 64, 18500.0, 12200.0),
]


def answers_of(api, line, baseline, **query):
    """Of the one article that has both."""
    both = Campaign.objects.filter(source="library", runs__topology__name=line)
    campaigns = both.filter(runs__topology__name=baseline).distinct()
    found = []
    for campaign in campaigns:
        topology = campaign.runs.filter(topology__name=baseline).first().topology_id
        told = api.get("/api/verdicts/", {"campaign": campaign.pk, "baseline": topology, **query})
        assert told.status_code == 200, told.content
        found += told.json()["results"]
    return found


@pytest.mark.parametrize(("line", "baseline", "metric", "depth", "one", "other"), RATIOS)
def test_ratios_are_shown_and_nothing_is_decided(
    shelved, api, line, baseline, metric, depth, one, other
):
    points = [
        point
        for answer in answers_of(api, line, baseline, metric=metric)
        for told in answer["lines"]
        if told["name"] == line and told["design"] == "untold"
        for point in told["points"]
        if depth in (None, point["outstanding"]) and point["value"] == pytest.approx(one)
    ]
    assert len(points) == 1
    [point] = points
    assert point["ratio"] == pytest.approx(one / other)
    assert (point["verdict"], point["low"], point["repeats_needed"]) == ("not enough data", None, 3)
    assert "one run each" in point["reason"]


def test_no_article_decides_anything(shelved, api, web):
    """Each figure of theirs is one run, of which nobody told in what order they were made."""
    said = 0
    for campaign in Campaign.objects.filter(source="library"):
        told = api.get(f"/api/verdicts/?campaign={campaign.pk}").json()["results"]
        for answer in told:
            for line in answer["lines"]:
                verdicts = [line["curve"], *line["points"]] if line["curve"] else []
                assert {one["verdict"] for one in verdicts} <= {"not enough data"}
                said += len(verdicts)
        page = web.get(f"/campaigns/{campaign.pk}/").content.decode()
        assert ("Not compared" in page) != bool(told), "each has an answer, or why there is none"
        assert 'name="repeats"' not in page
    assert said > 20


def test_every_test_of_pg_test_fsync_is_compared(shelved, api):
    """fdatasync is first, PostgreSQL's default; by fsync the log device would seem to cost nothing."""
    tests = fsync_tests(api, SLOG, POOL)
    assert next(iter(tests)) == "one.fdatasync.ops"
    assert tests["one.fdatasync.ops"] == pytest.approx(6107.726 / 8086.756)
    assert tests["one.fsync.ops"] == pytest.approx(7016.477 / 7312.509)
    all_of_them = fsync_tests(api, CACHE, STRIPE)
    # of 18, fsync_writethrough does not exist on Linux
    assert len(all_of_them) == 16
    assert all_of_them["open_sync.8x2.ops"] == pytest.approx(583.685 / 786.708)


def fsync_tests(api, line, baseline):
    """Ratios of the answer that is led by fdatasync."""
    answers = answers_of(api, line, baseline)
    [answer] = [answer for answer in answers if answer["metric"] == "one.fdatasync.ops"]
    [told] = [told for told in answer["lines"] if told["name"] == line]
    return {test["metric"]: test["ratio"] for test in told["tests"]}


def test_conditions_of_an_article_by_hand(shelved, api):
    """The HDD does 463, 633, ... 789, 833 IOPS; 3 ms are between 1 and 2 outstanding there, 8 and 16 of the SSD."""
    told = {
        statement["condition"]: statement
        for answer in answers_of(api, SSD, HDD, max_latency="3ms")
        for line in answer["lines"]
        if line["name"] == SSD
        for statement in line["statements"]
    }
    assert told["saturation"]["missing"] == "still rising at the deepest point"
    assert told["load"]["ratio"] == pytest.approx(5099 / 833)
    share = log(0.003 * 463) / log(2 * 463 / 633)
    hdd = 463 * (633 / 463) ** share
    assert told["latency"]["baseline_value"] == pytest.approx(hdd)
    assert told["latency"]["ratio"] == pytest.approx(5100 / hdd, rel=1e-3)
    assert told["latency"]["says"].endswith("(no interval: one repeat).")

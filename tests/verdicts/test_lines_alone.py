"""Lines by themselves: beside answers, and where nothing can be compared."""

from __future__ import annotations

import pytest

from tests.charts import made
from tests.verdicts.bench import SEVEN, texts

pytestmark = pytest.mark.django_db


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
    assert (
        "no two layouts that were in order (not degraded) ran the same workload" in page
        and "Knee of b" in page
    )


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
        assert one["knee"].keys() == {"at", "low", "high", "flat", "beyond", "repeats", "misfit"}
        assert one["knee"]["repeats"] == 3 and one["fall"] is None

"""A set-up's history against its newest runs: a finding of the run, on Home until somebody dismissed it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchlab.analysis.finding import HISTORY_LABELS
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.runs.models import Attempt
from benchlab.verdicts import set_ups
from tests.charts import made

pytestmark = pytest.mark.django_db
SPREAD = (0.99, 1.0, 1.01, 0.995, 1.005)
ONE = "f" * 64  # the fingerprint of the set-up


class Lab:
    def __init__(self, team):
        self.team, self.host, self.load = team, made.host(team), made.workload(team)

    def campaign(self, *values: float, fingerprint: str = ONE):
        """Another one of the same set-up, each run built anew; 1 % apart."""
        one = made.campaign(self.team, f"No. {Attempt.objects.count()}")
        stack = made.topology(self.team, "stripe")
        for repeat, value in enumerate(values, 1):
            layout = made.done_layout(one, self.host, stack)
            rate = value * SPREAD[Attempt.objects.count() % len(SPREAD)]
            attempt = made.finished(one, layout, self.load, 8, repeat, rate)
            Attempt.objects.filter(pk=attempt.pk).update(fingerprint=fingerprint)
        set_ups.sweep_campaigns([one.pk])
        return one


@pytest.fixture
def lab(team, user):
    return Lab(team)


def told() -> list[Finding]:
    return list(Finding.objects.filter(kind__in=list(HISTORY_LABELS), stands=True))


def home(web) -> str:
    return web.get(reverse("home")).content.decode()


def test_a_steady_history_says_nothing(lab, web):
    lab.campaign(*[1000.0] * 12)
    lab.campaign(*[1000.0] * 3)
    assert told() == [] and 'id="changed"' not in home(web)


def test_a_run_that_stands_out_is_on_home_until_it_is_dismissed(lab, web, user):
    lab.campaign(*[1000.0] * 22)
    last = lab.campaign(700.0)
    [one] = told()
    assert (one.kind, one.campaign, one.severity) == ("stands_out", last, "doubt")
    assert "the median of the 22 runs before it" in one.says
    page = home(web)
    assert "Action needed" in page and one.says in page
    assert reverse("run-history", args=[one.attempt.run_id]) in page
    run_page = web.get(reverse("run-detail", args=[one.attempt.run_id])).content.decode()
    assert one.says in run_page and "/docs/method/#stands-out" in run_page
    storing.dismiss_row(one, user, "The array was rebuilding.")
    assert one.says not in home(web)
    storing.find_for_attempts([one.attempt_id])  # as after `manage.py reparse`
    set_ups.find_between_lines(last)
    assert told()[0].dismissed_at is not None


def test_a_change_that_is_confirmed_is_told_of_the_run_that_it_begins_with(lab, web):
    lab.campaign(*[1000.0] * 14)
    change = lab.campaign(*[800.0] * 8)
    rows = [one for one in told() if one.kind == "change"]
    [one] = rows
    assert one.attempt.run == change.runs.order_by("position").first()
    assert "20 % lower" in one.says or "19 % lower" in one.says or "21 % lower" in one.says
    assert one.says in home(web)


def test_a_drift_is_told_of_the_run_that_it_begins_with(lab):
    first = lab.campaign(*[1000 * 0.99**run for run in range(20)])
    lab.campaign(*[1000 * 0.99**run for run in range(20, 30)])
    [one] = [one for one in told() if one.kind == "drift"]
    assert one.attempt.run == first.runs.order_by("position").first()
    assert (
        "the IOPS drifts, without a single step: 25 % lower over 30 runs from this one on"
        in one.says
    )


def test_another_team_reads_nothing_of_it(lab, other_web):
    lab.campaign(*[1000.0] * 22)
    lab.campaign(700.0)
    assert "stands out" not in home(other_web)


def test_home_asks_as_many_queries_for_many(lab, web, django_assert_max_num_queries):
    lab.campaign(*[1000.0] * 22)
    lab.campaign(700.0, 650.0, 600.0)
    assert len(told()) >= 1
    web.get(reverse("home"))
    with django_assert_max_num_queries(20):
        web.get(reverse("home"))


def test_what_stands_out_is_told_until_somebody_looked(lab, web):
    """Also when later campaigns are as ever."""
    lab.campaign(*[1000.0] * 22)
    lab.campaign(700.0)
    lab.campaign(*[1000.0] * 3)
    assert [one.kind for one in told()] == ["stands_out"]

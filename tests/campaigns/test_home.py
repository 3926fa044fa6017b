"""The home page: what needs a person, what runs, what waits."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchlab.engine import commands
from benchlab.engine.new_runs import create_campaign
from benchlab.runs.states import LayoutPhase, Outcome
from tests.campaigns.test_views import planned

pytestmark = pytest.mark.django_db


def test_home_tells_a_newcomer_what_to_do(web):
    answer = web.get(reverse("home"))
    assert [step["is_done"] for step in answer.context["steps"]] == [False] * 6


def test_home_sorts_campaigns_by_what_they_need(web, campaign, host):
    assert [row["campaign"] for row in web.get(reverse("home")).context["person"]] == [campaign]
    planned(campaign)
    commands.start_campaign(campaign, {campaign.layouts.get().pk: "f00d"})
    assert [row["campaign"] for row in web.get(reverse("home")).context["waits"]] == [campaign]
    campaign.layouts.update(phase=LayoutPhase.READY)
    assert [row["campaign"] for row in web.get(reverse("home")).context["runs"]] == [campaign]
    campaign.layouts.update(phase=LayoutPhase.DONE, outcome=Outcome.SUCCEEDED)
    assert [row["campaign"] for row in web.get(reverse("home")).context["latest"]] == [campaign]


def test_home_names_hosts_in_trouble(web, host):
    host.trouble, host.trouble_text = "timed_out", "rig did not answer"
    host.save(update_fields=["trouble", "trouble_text"])
    assert "rig did not answer" in web.get(reverse("home")).text


def test_home_shows_nothing_of_another_team(other_web, campaign):
    assert "How deep?" not in other_web.get(reverse("home")).text


def test_home_refreshes_one_part(htmx, campaign):
    text = htmx.get(reverse("home")).text
    assert "<html" not in text and 'id="home-now"' in text


def test_home_costs_the_same_queries_for_many(
    web, team, user, host, directory, workload, django_assert_num_queries
):
    for name in "abcd":
        create_campaign(
            team=team, user=user, name=name, question="", hosts=[host], topologies=[directory],
            workloads=[workload], repeats=1, order="as_written",
        )  # fmt: skip
    # session, user, roles, stars; open, layouts, attempts, layouts that wait, hosts, histories; over, those that were
    # measured on disks, topologies, workloads, campaigns; hosts, disks, layouts that hold them; activity
    with django_assert_num_queries(19):
        web.get(reverse("home"))

"""Archived: out of lists and pickers, readable by its address, and not to be run before it is restored."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from benchlab.campaigns.models import Campaign
from benchlab.campaigns.services import check_ownership
from benchlab.engine import commands
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.team.roles import Role
from tests.lifecycle.test_nowhere import text_of

ROWS = [
    ("campaign", "campaigns"),
    ("topology", "topologies"),
    ("workload", "workloads"),
]


@pytest.mark.parametrize(("kind", "plural"), ROWS)
def test_it_leaves_its_list_and_comes_back(web, lab, kind, plural):
    row = getattr(lab, kind)
    here = f"/{plural}/{row.pk}/"
    link = f'href="{here}"'
    assert link in web.get(f"/{plural}/").content.decode()
    assert web.post(f"{here}archive/")["Location"] == here
    assert link not in web.get(f"/{plural}/").content.decode()
    assert link in web.get(f"/{plural}/?archived=true").content.decode()
    page = web.get(here).content.decode()
    assert "alice archived it" in page and f'action="{here}restore/"' in page
    web.post(f"{here}restore/")
    assert link in web.get(f"/{plural}/").content.decode()
    assert link not in web.get(f"/{plural}/?archived=true").content.decode()
    assert "archived it" not in web.get(here).content.decode()


def test_what_runs_is_not_archived(web, api, lab):
    Layout.objects.filter(pk=lab.layout.pk).update(phase=LayoutPhase.READY, outcome="")
    page = web.post(f"/campaigns/{lab.campaign.pk}/archive/", follow=True).content.decode()
    assert "It is not over" in page and "vm-09" in page
    assert api.post(f"/api/campaigns/{lab.campaign.pk}/archive/").status_code == 409
    lab.campaign.refresh_from_db()
    assert lab.campaign.archived_at is None


def test_what_is_archived_is_not_run(lab):
    lab.campaign.archived_at = lab.campaign.created_at
    lab.campaign.save()
    for ask in (
        commands.request_plans,
        commands.pause_campaign,
        lambda campaign: commands.start_campaign(campaign, {}),
        lambda campaign: commands.retry_run(lab.run),
    ):
        with pytest.raises(commands.CommandError, match="archived: restore it first"):
            ask(Campaign.objects.get(pk=lab.campaign.pk))


def test_what_is_archived_is_not_measured_anew(lab, team):
    lab.topology.archived_at = lab.campaign.created_at
    with pytest.raises(ValidationError, match="stripe is archived"):
        check_ownership(team, [], [lab.topology], [])


def test_only_operators_may(as_role, lab):
    web = as_role(Role.VIEWER)
    assert web.post(f"/campaigns/{lab.campaign.pk}/archive/").status_code == 403
    page = web.get(f"/campaigns/{lab.campaign.pk}/").content.decode()
    assert "/archive/" not in page and "/rename/" not in page
    page = as_role(Role.OPERATOR).get(f"/campaigns/{lab.campaign.pk}/").content.decode()
    assert "/archive/" in page and "/delete/" not in page


def test_over_the_api(api, lab):
    address = f"/api/campaigns/{lab.campaign.pk}/"
    assert api.post(f"{address}archive/").json()["archived_at"]
    assert api.post(f"{address}archive/").status_code == 200, "twice is as once"
    assert api.get("/api/campaigns/").json()["results"] == []
    [found] = api.get("/api/campaigns/?archived=true").json()["results"]
    assert found["id"] == lab.campaign.pk
    assert api.get("/api/campaigns/?archived=perhaps").status_code == 400
    assert api.get(address).status_code == 200
    assert api.get("/api/runs/").json()["count"] == 0
    assert api.get(f"/api/runs/?campaign={lab.campaign.pk}").json()["count"] == 4
    assert api.get("/api/runs/?archived=true").json()["count"] == 4
    assert api.get(f"/api/artifacts/?attempt={lab.attempts[0].pk}").json()["count"] > 0
    assert api.post(f"{address}restore/").json()["archived_at"] is None
    assert api.get("/api/runs/").json()["count"] == 4


def test_the_table_of_runs_has_them_when_they_are_asked_for(web, api, lab):
    lab.campaign.archived_at = lab.campaign.created_at
    lab.campaign.save()
    link = f"/runs/{lab.run.pk}/"
    assert link not in web.get("/runs/").content.decode()
    assert link in web.get(f"/runs/?campaign_id={lab.campaign.pk}").content.decode()
    rows = api.get("/api/results/?format=csv")
    assert len(text_of(rows).splitlines()) == 1
    rows = api.get(f"/api/results/?format=csv&campaign={lab.campaign.pk}")
    assert len(text_of(rows).splitlines()) > 4

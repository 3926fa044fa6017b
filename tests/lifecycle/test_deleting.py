"""Deleted: gone from everywhere at once, 410 to the team and 404 to others, and back within the period of grace."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import commands, host_cleanup
from benchlab.engine.new_runs import _check_not_deleted
from benchlab.hosts.models import Device
from benchlab.lifecycle import deleting, views
from benchlab.lifecycle.managed_kinds import Refused
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.sharing import links
from benchlab.sharing.models import Comment, SavedView
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from tests.charts import made
from tests.lifecycle.conftest import typed


def delete(web, lab):
    return web.post(f"/campaigns/{lab.campaign.pk}/delete/", typed(lab.campaign))


def test_the_page_says_what_goes_and_what_stays(web, lab, user):
    SavedView.objects.create(team=lab.team, name="Both", query=f"campaign={lab.campaign.pk}")
    links.create_link(links.check_target(user, "campaign", lab.campaign.pk), user)
    Comment.objects.create(
        team=lab.team, kind="campaign", object_id=lab.campaign.pk, text="Look at this."
    )
    page = web.get(f"/campaigns/{lab.campaign.pk}/delete/").content.decode()
    for said in ("runs: 4", "files of raw output: 4", "comments: 1", "Both", "A campaign: its charts",
                 "the audit log", "delete Stripe sizes", "14 days"):  # fmt: skip
        assert said in page, said


def test_it_is_gone_at_once_and_its_address_says_so(web, other_web, lab):
    pages = [f"/campaigns/{lab.campaign.pk}/", f"/runs/{lab.run.pk}/"]
    answer = delete(web, lab)
    assert answer["Location"] == "/deleted/"
    for page in pages:
        told = web.get(page)
        assert told.status_code == 410
        said = told.content.decode()
        assert "The campaign Stripe sizes was deleted by alice on" in said
        assert "It can be brought back until" in said and "Bring it back" in said
        assert other_web.get(page).status_code == 404
        assert Client().get(page).status_code == 302
    assert web.get("/campaigns/999999/").status_code == 404
    assert "Stripe sizes" in web.get("/deleted/").content.decode()
    assert "Stripe sizes" not in other_web.get("/deleted/").content.decode()
    entry = Entry.objects.get(action="campaign-delete")
    assert entry.subject == f"campaign {lab.campaign.pk} (Stripe sizes)"


def test_the_api_says_so_too(api, lab, other_user):
    from tests.api.conftest import client_of

    address = f"/api/campaigns/{lab.campaign.pk}/"
    refused = api.delete(address)
    assert refused.status_code == 409 and "“delete Stripe sizes”" in refused.json()["detail"]
    assert api.delete(f"{address}?typed=delete+Stripe+sizes").status_code == 204
    told = api.get(address)
    assert told.status_code == 410 and "deleted by alice" in told.json()["detail"]
    assert api.get(f"/api/runs/{lab.run.pk}/").status_code == 410
    artifact = lab.attempts[0].artifacts.first()
    assert api.get(f"/api/artifacts/{artifact.pk}/content/").status_code == 410
    other = client_of(other_user)
    assert other.get(address).status_code == 404
    assert other.post(f"{address}bring-back/").status_code == 404
    assert api.post(f"{address}bring-back/").json()["name"] == "Stripe sizes"
    assert api.get(address).status_code == 200
    assert api.post(f"{address}bring-back/").status_code == 409


def test_back_within_the_period_of_grace(web, lab):
    delete(web, lab)
    answer = web.post(f"/campaigns/{lab.campaign.pk}/bring-back/")
    assert answer["Location"] == f"/campaigns/{lab.campaign.pk}/"
    assert web.get(answer["Location"]).status_code == 200
    assert "Nothing is deleted" in web.get("/deleted/").content.decode()
    assert Entry.objects.filter(action="campaign-bring-back", outcome="done").exists()


def test_the_phrase_is_typed_for_results_only(web, lab):
    answer = web.post(f"/campaigns/{lab.campaign.pk}/delete/", {"typed": "delete it"})
    page = answer.content.decode()
    assert "Type “delete Stripe sizes” to confirm" in page and 'value="delete it"' in page
    assert Campaign.objects.filter(pk=lab.campaign.pk).exists()
    empty = made.campaign(lab.team, "Nothing yet")
    page = web.get(f"/campaigns/{empty.pk}/delete/").content.decode()
    assert 'name="typed"' not in page
    assert web.post(f"/campaigns/{empty.pk}/delete/").status_code == 302


def test_what_runs_is_not_deleted(web, api, lab):
    Layout.objects.filter(pk=lab.layout.pk).update(phase=LayoutPhase.STUCK)
    answer = delete(web, lab)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "It cannot be deleted now." in page and "stripe on vm-09 is" in page
    refused = api.delete(f"/api/campaigns/{lab.campaign.pk}/?typed=delete+Stripe+sizes")
    assert refused.status_code == 409
    assert Campaign.objects.filter(pk=lab.campaign.pk).exists()


def test_a_layout_whose_disks_were_never_proven_blank_keeps_its_record(web, lab):
    """Its plan alone tells what to take down, should the disk be back."""
    device = Device.objects.create(
        host=lab.host, identity="serial:S1", name="sdb", serial="S1", spare=False, size=1
    )
    lab.layout.steps.update(destroys=[device.identity])
    answer = delete(web, lab)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "before its disks were proven blank (sdb)" in page
    assert f'href="/hosts/{lab.host.pk}/"' in page
    Device.objects.filter(pk=device.pk).update(spare=True, spare_size=1, role="ssd")
    assert delete(web, lab).status_code == 302


def test_a_layout_of_which_something_is_still_there_keeps_its_record(web, lab, monkeypatch):
    from types import SimpleNamespace

    left = SimpleNamespace(name=lab.layout.name, layout=lab.layout)
    monkeypatch.setattr(host_cleanup, "find_orphans", lambda host, snapshot: [left])
    answer = delete(web, lab)
    assert answer.status_code == 409 and "is still there" in answer.content.decode()


@pytest.mark.parametrize(
    ("kind", "plural"), [("topology", "topologies"), ("workload", "workloads")]
)
def test_what_a_campaign_uses_is_not_deleted(web, api, lab, kind, plural):
    row = getattr(lab, kind)
    page = web.get(f"/{plural}/{row.pk}/delete/").content.decode()
    assert f'href="/campaigns/{lab.campaign.pk}/"' in page and "Stripe sizes" in page
    assert web.post(f"/{plural}/{row.pk}/delete/").status_code == 409
    refused = api.delete(f"/api/{plural}/{row.pk}/")
    assert refused.status_code == 409 and "Stripe sizes" in refused.json()["detail"]
    free = getattr(lab, f"free_{kind}")
    assert web.post(f"/{plural}/{free.pk}/delete/").status_code == 302
    assert web.get(f"/{plural}/{free.pk}/").status_code == 410
    assert web.post(f"/{plural}/{free.pk}/bring-back/").status_code == 302
    assert web.get(f"/{plural}/{free.pk}/").status_code == 200


def test_a_campaign_that_comes_back_brings_what_it_uses(web, lab):
    """Nothing that is there uses the topology any more, so it could be deleted as well."""
    delete(web, lab)
    assert web.post(f"/topologies/{lab.topology.pk}/delete/").status_code == 302
    made.topology(lab.team, "stripe")
    web.post(f"/campaigns/{lab.campaign.pk}/bring-back/")
    lab.topology.refresh_from_db()
    assert lab.topology.deleted_at is None and lab.topology.name == "stripe 2"
    assert Topology.objects.filter(pk=lab.topology.pk).exists()


def test_only_owners_may(as_role, lab):
    web = as_role(Role.OPERATOR)
    assert web.get(f"/campaigns/{lab.campaign.pk}/delete/").status_code == 403
    assert delete(web, lab).status_code == 403
    delete(as_role(Role.OWNER), lab)
    page = as_role(Role.OPERATOR).get(f"/campaigns/{lab.campaign.pk}/").content.decode()
    assert "An owner of the team can bring it back" in page
    assert web.post(f"/campaigns/{lab.campaign.pk}/bring-back/").status_code == 403


def test_whoever_starts_it_at_the_same_moment_is_told(lab, user):
    """They looked before it was deleted, and ask afterwards."""
    seen = Campaign.objects.get(pk=lab.campaign.pk)
    deleting.delete(lab.campaign, user, f"delete {lab.campaign}")
    for ask in (
        lambda: commands.start_campaign(seen, {}),
        lambda: commands.retry_run(lab.run),
        lambda: commands.cancel_campaign(seen),
    ):
        with pytest.raises(commands.CommandError, match="was deleted"):
            ask()
    with pytest.raises(Refused, match="was deleted"):
        deleting.delete(seen, user)


def test_who_agrees_just_after_somebody_else_is_told_and_not_asked_again(
    web, lab, user, monkeypatch
):
    """Both had typed the phrase: the second one's page read the row before the first one's answer was through."""
    looked = views._noun_and_row

    def first(request, kind, pk):
        found = looked(request, kind, pk)
        monkeypatch.setattr(views, "_noun_and_row", looked)
        deleting.delete(Campaign.objects.get(pk=pk), user, f"delete {lab.campaign}")
        return found

    monkeypatch.setattr(views, "_noun_and_row", first)
    answer = delete(web, lab)
    assert answer.status_code == 410
    assert "was deleted by alice" in answer.content.decode()


def test_whoever_makes_a_campaign_of_it_at_the_same_moment_is_told(lab, user):
    deleting.delete(lab.free_workload, user)
    with pytest.raises(Exception, match="spare load was deleted"):
        _check_not_deleted([lab.topology], [lab.free_workload])
    assert not Workload.objects.filter(pk=lab.free_workload.pk).exists()


@pytest.mark.parametrize("kind", ["campaign", "report", "run", "comparison"])
def test_links_of_it_show_guests_a_plain_page(web, lab, user, kind):
    about = {"run": lab.run.pk, "comparison": None}.get(kind, lab.campaign.pk)
    wish = links.check_target(user, kind, about, f"campaign={lab.campaign.pk}")
    _, token = links.create_link(wish, user)
    guest = Client()
    assert guest.get(f"/s/{token}/").status_code == 200
    delete(web, lab)
    answer = guest.get(f"/s/{token}/")
    assert answer.status_code == 404
    page = answer.content.decode()
    assert "Link not available" in page and "Stripe sizes" not in page
    web.post(f"/campaigns/{lab.campaign.pk}/bring-back/")
    assert guest.get(f"/s/{token}/").status_code == 200


def test_a_comparison_loses_a_line_and_shows_the_others(web, lab, user):
    other = made.campaign(lab.team, "Another")
    made.swept(other, lab.host, lab.topology, lab.workload, depths=(1, 4), repeats=1)
    query = f"campaign={lab.campaign.pk}&campaign={other.pk}"
    _, token = links.create_link(links.check_target(user, "comparison", None, query), user)
    delete(web, lab)
    web.get("/deleted/")  # which says what was done
    answer = Client().get(f"/s/{token}/")
    assert answer.status_code == 200 and "Stripe sizes" not in answer.content.decode()
    page = web.get(f"/compare/?{query}").content.decode()
    assert "Another" in page and "Stripe sizes" not in page


def test_nobody_brings_back_what_has_begun_to_go(web, lab, user):
    deleting.delete(lab.free_topology, user)
    Topology.even_deleted.filter(pk=lab.free_topology.pk).update(
        going_at=timezone.now(), deleted_at=timezone.now() - timedelta(days=15)
    )
    with pytest.raises(Refused, match="removed for good"):
        deleting.bring_back(lab.free_topology)
    assert "Bring it back" not in web.get(f"/topologies/{lab.free_topology.pk}/").content.decode()

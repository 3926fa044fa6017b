"""Another name: addresses stay, the log has both names, and of two people at once nobody loses anything."""

from __future__ import annotations

import pytest

from benchlab.audit.models import Entry
from benchlab.sharing import links
from benchlab.topologies.models import Topology
from tests.charts import made


def send(web, lab, **given):
    """The form as it came, with what is typed into it."""
    was = {"was-name": lab.campaign.name, "was-question": lab.campaign.question}
    return web.post(f"/campaigns/{lab.campaign.pk}/rename/", {**was, **given})


def test_a_campaign_gets_another_name_and_question(web, lab):
    page = web.get(f"/campaigns/{lab.campaign.pk}/rename/").content.decode()
    assert 'name="was-name" value="Stripe sizes"' in page and 'name="question"' in page
    answer = send(web, lab, name="Stripes", question="Which?\r\nAnd why?")
    assert answer["Location"] == f"/campaigns/{lab.campaign.pk}/"
    lab.campaign.refresh_from_db()
    assert (lab.campaign.name, lab.campaign.question) == ("Stripes", "Which?\nAnd why?")
    assert "Stripes" in web.get(answer["Location"]).content.decode()
    entry = Entry.objects.get(action="campaign-rename")
    assert entry.subject == (
        f"campaign {lab.campaign.pk} (Stripes), “Stripe sizes” before; another question"
    )
    assert entry.outcome == "done" and entry.team_id == lab.team.pk


def test_what_was_made_under_the_old_name_keeps_it(web, lab, user):
    wish = links.check_target(user, "campaign", lab.campaign.pk)
    share, _ = links.create_link(wish, user)
    send(web, lab, name="Stripes", question="")
    share.refresh_from_db()
    assert share.name == "Stripe sizes"


def test_the_second_of_two_people_is_told_and_loses_nothing(web, lab):
    send(web, lab, name="Alice's", question="")
    answer = send(web, lab, name="Bob's", question="")
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "it is called “Alice&#x27;s” now" in page or "it is called “Alice's” now" in page
    assert 'value="Bob&#x27;s"' in page, "what was typed is still there"
    lab.campaign.refresh_from_db()
    assert lab.campaign.name == "Alice's"
    again = {"was-name": "Alice's", "was-question": "", "name": "Bob's", "question": ""}
    assert web.post(f"/campaigns/{lab.campaign.pk}/rename/", again).status_code == 302
    lab.campaign.refresh_from_db()
    assert lab.campaign.name == "Bob's"
    told = Entry.objects.filter(action="campaign-rename").order_by("pk")
    assert [entry.outcome for entry in told] == ["done", "refused", "done"]


@pytest.mark.parametrize(
    ("kind", "plural"), [("topology", "topologies"), ("workload", "workloads")]
)
def test_a_name_that_is_taken(web, lab, kind, plural):
    row, other = getattr(lab, kind), getattr(lab, f"free_{kind}")
    sent = {"was-name": row.name, "was-description": "", "name": other.name, "description": ""}
    page = web.post(f"/{plural}/{row.pk}/rename/", sent).content.decode()
    assert f"A {kind} of this name already exists." in page
    row.refresh_from_db()
    assert row.name != other.name


def test_a_name_of_something_deleted_is_free(web, lab):
    Topology.objects.filter(pk=lab.free_topology.pk).update(deleted_at="2026-01-01T00:00:00Z")
    sent = {"was-name": "stripe", "was-description": "", "name": "spare idea"}
    assert web.post(f"/topologies/{lab.topology.pk}/rename/", sent).status_code == 302
    assert Topology.even_deleted.filter(name="spare idea").count() == 2


def test_no_name_is_none(web, lab):
    page = send(web, lab, name="  ", question="").content.decode()
    assert "This field is required." in page


def test_with_script_the_form_alone_comes_back(htmx, lab):
    address = f"/campaigns/{lab.campaign.pk}/rename/"
    part = htmx.get(address).content.decode()
    assert part.strip().startswith("<form") and "<html" not in part
    was = {"was-name": "another", "was-question": ""}
    clash = htmx.post(address, {**was, "name": "New", "question": ""})
    assert clash.status_code == 200 and "Stripe sizes" in clash.content.decode()
    was["was-name"] = "Stripe sizes"
    done = htmx.post(address, {**was, "name": "New", "question": ""})
    assert done["HX-Redirect"] == f"/campaigns/{lab.campaign.pk}/"


def test_an_import_too(web, lab, team):
    imported = made.campaign(team, "From a paper")
    imported.source = "imported"
    imported.save()
    sent = {"was-name": "From a paper", "was-question": "", "name": "Paper", "question": ""}
    assert web.post(f"/campaigns/{imported.pk}/rename/", sent).status_code == 302


def test_over_the_api(api, lab):
    address = f"/api/campaigns/{lab.campaign.pk}/"
    assert (
        api.patch(address, {"name": "Stripes", "was": "Stripe sizes"}).json()["name"] == "Stripes"
    )
    clash = api.patch(address, {"name": "Mine", "was": "Stripe sizes"})
    assert clash.status_code == 409 and "“Stripes” now" in clash.json()["detail"]
    assert api.patch(address, {"question": "Why?"}).json()["question"] == "Why?"
    taken = api.patch(f"/api/workloads/{lab.workload.pk}/", {"name": "spare load"})
    assert taken.status_code == 400 and "name" in taken.json()["errors"]
    entry = Entry.objects.filter(action="campaign.partial_update").earliest("pk")
    assert entry.subject == f"campaign {lab.campaign.pk} (Stripes), “Stripe sizes” before"


def test_a_topology_that_is_changed_tells_its_old_name(api, lab):
    lab.topology.stack = [{"kind": "directory", "options": {"path": "/srv/x"}, "devices": []}]
    lab.topology.save()
    assert api.patch(f"/api/topologies/{lab.topology.pk}/", {"name": "wide"}).status_code == 200
    entry = Entry.objects.get(action="topology.partial_update")
    assert entry.subject == f"topology {lab.topology.pk} (wide), “stripe” before"

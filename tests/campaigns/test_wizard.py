"""The wizard that makes campaigns, and its estimate."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from tests.campaigns.test_views import url

pytestmark = pytest.mark.django_db


@pytest.fixture
def wish(host, directory, workload) -> dict[str, object]:
    return {
        "name": "How deep?", "question": "Where is the knee?", "hosts": [host.pk],
        "topologies": [directory.pk], "workloads": [workload.pk], "repeats": "3",
        "order": "random_blocks", "seed": "",
    }  # fmt: skip


def test_the_wizard_makes_a_campaign(web, user, wish, host):
    answer = web.post(reverse("campaign-new"), {**wish, "create": "1"})
    made = Campaign.objects.get()
    assert answer["Location"] == url("campaign-detail", made)
    assert (made.created_by, made.repeats, made.runs.count()) == (user, 3, 9)


def test_the_wizard_offers_schedulers_and_counts_with_them(web, wish, raw, host):
    wish = {**wish, "topologies": [raw.pk], "schedulers": ["none", "mq-deadline"]}
    page = web.post(reverse("campaign-new"), {**wish, "estimate": "1"})
    assert page.context["estimate"].runs == 18
    assert 'name="schedulers" value="mq-deadline"' in page.text and "before each run" in page.text
    plain = web.post(reverse("campaign-new"), {**wish, "schedulers": [], "estimate": "1"})
    once, both = (one.context["estimate"] for one in (plain, page))
    measuring = once.seconds - once.building
    assert both.seconds - both.building == pytest.approx(2 * measuring)
    web.post(reverse("campaign-new"), {**wish, "create": "1"})
    made = Campaign.objects.get()
    assert made.schedulers == ["none", "mq-deadline"] and made.runs.count() == 18
    assert set(made.runs.values_list("scheduler", flat=True)) == set(made.schedulers)
    assert made.layouts.get().schedulers == made.schedulers
    shown = web.get(url("campaign-detail", made)).text
    assert "none, mq-deadline: each point with each, in one build" in shown
    again = web.get(url("campaign-again", made), follow=True).context["form"]
    assert again["schedulers"].value() == made.schedulers


def test_the_wizard_refuses_what_is_no_scheduler_and_what_takes_no_disk(web, wish):
    said = web.post(reverse("campaign-new"), {**wish, "schedulers": ["none; rm"], "create": "1"})
    assert "none; rm is not one of the available choices" in said.text
    said = web.post(reverse("campaign-new"), {**wish, "schedulers": ["none"], "create": "1"})
    assert "it uses no disk" in said.text and not Campaign.objects.exists()


def test_the_estimate_without_javascript_is_the_page_again(web, wish):
    answer = web.post(reverse("campaign-new"), {**wish, "estimate": "1"})
    assert "<html" in answer.text and answer.context["estimate"].runs == 9
    assert not Campaign.objects.exists()


def test_the_estimate_with_htmx_is_one_part(htmx, wish):
    answer = htmx.post(reverse("campaign-new"), {**wish, "name": ""})
    assert "<html" not in answer.text and 'id="campaign-estimate"' in answer.text
    assert "<dt>Runs</dt><dd>9</dd>" in answer.text


def test_the_estimate_says_what_cannot_be(htmx, wish, workload):
    workload.options = {"speed": 1}
    workload.save(update_fields=["options"])
    assert "Workload Reads at depth 1" in htmx.post(reverse("campaign-new"), wish).text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "This field is required"),
        ({"hosts": []}, "This field is required"),
        ({"repeats": "0"}, "greater than or equal to 1"),
        ({"seed": "-1"}, "greater than or equal to 0"),
    ],
)
def test_a_wish_that_is_wrong_is_said(web, wish, change, says):
    answer = web.post(reverse("campaign-new"), {**wish, **change, "create": "1"})
    assert says in answer.text and not Campaign.objects.exists()


def test_the_wizard_offers_nothing_of_another_team(other_web, wish):
    answer = other_web.post(reverse("campaign-new"), {**wish, "create": "1"})
    assert "is not one of the available choices" in answer.text
    assert not Campaign.objects.exists()


def test_the_wizard_is_filled_in_by_links(web, directory):
    answer = web.get(reverse("campaign-new") + f"?topologies={directory.pk}")
    assert answer.context["form"]["topologies"].value() == [str(directory.pk)]


def test_a_campaign_is_run_again_with_what_it_had(web, campaign, host, directory, workload):
    answer = web.get(url("campaign-again", campaign), follow=True)
    form = answer.context["form"]
    assert [form[name].value() for name in ("name", "question", "repeats", "order")] == [
        "How deep?", "Where is the knee?", "2", "as_written",
    ]  # fmt: skip
    assert [form[name].value() for name in ("hosts", "topologies", "workloads")] == [
        [str(host.pk)], [str(directory.pk)], [str(workload.pk)],
    ]  # fmt: skip
    assert "checked" in answer.text and Campaign.objects.count() == 1


def test_what_was_imported_is_not_run_again(web, campaign):
    Campaign.objects.update(source="imported")
    assert web.get(url("campaign-again", campaign)).status_code == 404
    assert "Run again" not in web.get(url("campaign-detail", campaign)).text

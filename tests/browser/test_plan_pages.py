"""A plan of thirteen disks, and what a layout left, as a person sees them: drawn, in words, on a phone, in the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import global_settings
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import expect

from agents.facts.model import HostFacts
from agents.plans import applied_part
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.engine.checks import planning
from benchlab.hosts import discovery, registration
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.team.models import Membership
from benchlab.topologies.models import Topology
from tests import stack
from tests.browser.person import Person
from tests.hosts.conftest import credential_key
from tests.runs.test_orphans import left_by
from tests.topologies.plans import SLOW, cached, layer, made, many_disks

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

REDIS = 13


@pytest.fixture
def served(transactional_db, tmp_path: Path) -> Iterator[str]:
    """BenchLab's address; there is no worker, so nothing moves while one looks."""
    with stack.web(tmp_path, stack.redis_url(REDIS)) as url:
        yield url


@pytest.fixture
def person(team, settings, chromium, served) -> Iterator[Person]:
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    Membership.objects.create(team=team, user=User.objects.create_user("alice", password="alice-8"))
    one = Person(chromium, served)
    one.log_in("alice", "alice-8")
    yield one
    one.close()


@pytest.fixture
def lab(team) -> Host:
    host = registration.add_host(
        team, "lab1", "192.0.2.1", registration.make_credential(team, "lab")
    )
    host.host_key = credential_key(host)
    host.save()
    return host


def a_layout(team, lab: Host, **fields) -> Layout:
    campaign = Campaign.objects.create(team=team, name="Cached", seed=1)
    topology, _ = Topology.objects.get_or_create(
        team=team, name="LVM cache", defaults={"stack": cached()}
    )
    layout = Layout.objects.create(
        campaign=campaign, host=lab, topology=topology, stack=cached(), **fields
    )
    workload, _ = Workload.objects.get_or_create(team=team, name="w", tool="dd", options={})
    run = Run.objects.create(
        campaign=campaign, host=lab, topology=topology, workload=workload, tool="dd", options={},
        point={}, repeat=1, position=1,
    )  # fmt: skip
    over = {"phase": "done", "outcome": "cancelled"} if fields.get("phase") == "done" else {}
    Attempt.objects.create(run=run, layout=layout, **over)
    return layout


def test_a_plan_is_drawn_and_starts_by_the_typed_word(person, team, lab):
    found = many_disks()
    plan = made(cached(), found)
    layout = a_layout(
        team, lab, plan=applied_part.to_json(plan), plan_fingerprint=plan.fingerprint,
        planned_at=timezone.now(), facts_planned=discovery.store_facts(lab, found),
    )  # fmt: skip
    page = person.page
    page.goto(f"/campaigns/{layout.campaign_id}/")
    picture = page.get_by_role("img", name=re.compile("what stands on what"))
    expect(picture).to_have_accessible_description(re.compile("12 × hdd .*LVM cache on cache"))
    expect(page.locator(".drawing .disk")).to_have_count(13)
    folded = page.get_by_text("(12 times")
    folded.click()
    expect(page.get_by_text(re.compile(r"^pvcreate .* /dev/sdc$")).first).to_be_visible()
    folded.click()
    person.look("plan-cached")
    copy_a_command(person)
    start = page.get_by_role("button", name="Start, destroy 13 disks")
    expect(start).to_be_in_viewport()  # wherever one reads in the plan
    start.click()
    expect(page.locator("#id_typed")).to_be_focused()  # the browser itself wants it filled in
    page.fill("#id_typed", "destroy 12 disks on lab1")
    start.click()
    wrong = page.locator("#id_typed_error")
    expect(wrong).to_have_text("Nothing was done. This says 12 disks. The plan destroys 13.")
    expect(page.locator("#id_typed")).to_have_value("destroy 12 disks on lab1")
    expect(page.locator("#id_typed")).to_be_focused()
    person.look("plan-wrong-phrase")
    page.fill("#id_typed", "destroy 13 disks on lab1")
    start.click()
    expect(page.locator("#messages")).to_contain_text("Started.")
    assert person.complaints == []


def copy_a_command(person: Person) -> None:
    """A long one is cut to its line; who copies it has all of it, and sees it."""
    line = person.page.locator(".ops > li", has_text="Make the logical volume").first
    code = line.locator("code")
    assert code.evaluate("(one) => one.scrollWidth > one.clientWidth")
    button = line.locator("button.copy")
    button.click()
    expect(button).to_have_accessible_name("Copied")
    assert code.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    person.page.locator("#id_typed").focus()
    person.page.keyboard.press("Control+V")
    expect(person.page.locator("#id_typed")).to_have_value(code.inner_text())
    person.page.fill("#id_typed", "")


def test_without_script_a_plan_has_every_command_in_full(chromium, team, lab, served, settings):
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    Membership.objects.create(team=team, user=User.objects.create_user("bob", password="bob-8-bob"))
    found = many_disks()
    plan = made(cached(), found)
    layout = a_layout(
        team, lab, plan=applied_part.to_json(plan), plan_fingerprint=plan.fingerprint,
        planned_at=timezone.now(), facts_planned=discovery.store_facts(lab, found),
    )  # fmt: skip
    person = Person(chromium, served, javascript=False)
    person.log_in("bob", "bob-8-bob")
    page = person.page
    page.goto(f"/campaigns/{layout.campaign_id}/")
    code = page.locator(".ops > li", has_text="Make the logical volume").first.locator("code")
    expect(code).to_have_css("white-space", "pre-wrap")
    expect(page.locator(".ops .copy").first).to_be_hidden()
    person.look("plan-cached")
    page.fill("#id_typed", "no")
    page.get_by_role("button", name="Start, destroy 13 disks").click()
    expect(page.locator("#id_typed")).to_have_value("no")
    person.close()


def planned_on_paper(campaign: Campaign, found: HostFacts) -> None:
    """As a worker does it that asks the host."""
    for layout in campaign.layouts.select_related("host"):
        plan = planning.plan_layout(layout, found)
        Layout.objects.filter(pk=layout.pk).update(
            plan=applied_part.to_json(plan), plan_fingerprint=plan.fingerprint, planned_at=timezone.now(),
            facts_planned=discovery.store_facts(layout.host, found),
        )  # fmt: skip


@pytest.mark.night
def test_layouts_that_take_turns_are_recommended_and_agreed_to_once(person, team, lab):
    """The order ABBA, from the wizard to the word that starts all its visits."""
    found = many_disks()
    discovery.store_facts(lab, found)
    for row in Device.objects.filter(host=lab, name__in=SLOW[:2]):
        row.spare, row.role, row.spare_size, row.spare_model = True, "hdd", row.size, row.model
        row.save()
    for kind in ("striped", "linear"):
        volume = layer("lvm", {"type": kind}, data=("hdd", 2))
        Topology.objects.create(team=team, name=kind, stack=[volume])
    fio = {"rw": "randread", "size": 1 << 20, "runtime_s": 60}
    sweep = {"iodepth": [1, 4, 16]}
    Workload.objects.create(team=team, name="deep", tool="fio", options=fio, sweep=sweep)
    page = person.page
    page.goto("/campaigns/new/")
    page.fill("#id_name", "Stripe or not")
    for name in ("lab1", "striped", "linear", "deep"):
        page.get_by_role("checkbox", name=name, exact=True).check()
    expect(page.locator("#campaign-order")).to_contain_text("ABBA")
    expect(page.locator("#campaign-order")).to_contain_text("costs about 40 s more")
    person.look("wizard-abba")
    page.select_option("#id_order", "random_blocks")
    expect(page.locator("#campaign-order")).to_contain_text("Randomised blocks")
    page.select_option("#id_order", "recommended")
    expect(page.locator("#campaign-order")).to_contain_text("ABBA")
    person.press("Create it and show the plan")
    campaign = Campaign.objects.get()
    assert (campaign.order, campaign.visits, campaign.layouts.count()) == ("abba", 2, 4)
    planned_on_paper(campaign, found)
    page.goto(f"/campaigns/{campaign.pk}/")
    expect(page.locator("#plan-visits")).to_contain_text("built in 2 visits that take turns")
    person.look("plan-abba")
    folded = page.get_by_text(re.compile("commands?: those of bl"))
    expect(folded).to_have_count(2)
    page.get_by_role("heading", name="visit 2 of 2").first.click()  # unfolds its layout
    folded.first.click()
    page.fill("#id_typed", "destroy 2 disks on lab1")
    page.get_by_role("button", name="Start, destroy 2 disks").click()
    expect(page.locator("#messages")).to_contain_text("Started.")
    assert set(campaign.layouts.values_list("phase", flat=True)) == {"waiting"}
    assert person.complaints == []


def test_what_a_layout_left_is_seen_and_taken_down(person, team, lab):
    layout = a_layout(team, lab, phase="done", outcome="cancelled", ended_at=timezone.now())
    plan = made(cached(2), many_disks())
    layout.plan = applied_part.to_json(plan)
    layout.save()
    touched = [claim.identity for claim in plan.claims]
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["wipefs"], says="…", destroys=touched, exit_code=0
    )
    Layout.objects.filter(pk=layout.pk).update(created_at=timezone.now())
    discovery.store_facts(lab, left_by(layout.name))
    page = person.page
    page.goto(f"/hosts/{lab.pk}/")
    expect(page.locator(f"#orphan-{layout.name}")).to_contain_text("is still mounted")
    expect(page.get_by_role("region", name="Groups of disks")).to_contain_text(layout.name)
    person.look("host-orphan")
    person.press(f"Take {layout.name} down…")
    person.look("orphan")
    page.fill("#id_typed", "destroy 3 disks on lab1")
    person.press("Take it down")
    expect(page.locator("#messages")).to_contain_text("Taking down what")
    expect(page.locator(f"#orphan-{layout.name}")).to_have_count(0)
    assert person.complaints == []


@pytest.mark.night
def test_a_dry_run_asks_which_host_and_says_what_is_wrong(person, team, lab, tmp_path):
    """That host does not answer: the dry run is over with words, not with an error page."""
    Host.objects.filter(pk=lab.pk).update(address="127.0.0.1", port=1)
    topology = Topology.objects.create(team=team, name="LVM cache", stack=cached())
    person.page.goto(f"/topologies/{topology.pk}/")
    person.press("Plan on a host…")
    with stack.worker(tmp_path, stack.redis_url(REDIS)):  # it asks the host
        person.press("Show the plan")
        failed = person.page.locator(".notice-bad").filter(has_text="It cannot be built")
        expect(failed).to_be_visible(timeout=60_000)
    person.look("topology-plan-failed")
    assert person.complaints == []

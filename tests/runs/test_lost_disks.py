"""A disk dies under a layout: the rest is taken down, and the owner may release the host without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contracts import AgentError, Reason
from agents.facts import reading
from agents.facts.model import Signature
from agents.jobs import job
from benchlab.audit.models import Entry
from benchlab.engine import commands, host_cleanup
from benchlab.engine import tasks as engine
from benchlab.engine.checks import preflight
from benchlab.engine.phases import provision
from benchlab.hosts.models import Device
from benchlab.runs import transitions
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.workers import messages
from tests.hosts.conftest import disk, facts
from tests.runs.paper_host import DISKS, TOY, confirmed, paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)

SDB, SDC, SDD = DISKS
PHRASE = "release lab1"


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def stuck(paper, make_layout, monkeypatch) -> Layout:
    """It stood on sdb and sdc; sdc is dead."""
    layout = confirmed(make_layout(phase="draft"), TOY)
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    paper.disks(SDB, SDD)
    transitions.begin_teardown(layout, Outcome.CANCELLED)
    for _ in range(8):
        engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    return layout


def spare() -> set[str]:
    return set(Device.objects.filter(spare=True).values_list("name", flat=True))


def test_the_rest_is_taken_down_and_the_missing_disk_named(stuck, paper):
    assert stuck.phase == LayoutPhase.STUCK
    assert "/dev/sdc (WDC WD40, serial S-sdc) is not on lab1 any more" in stuck.trouble
    assert "sdb" not in stuck.trouble
    torn = stuck.steps.filter(kind="teardown")
    assert {tuple(row.destroys) for row in torn} == {("serial:S-sdb",)}
    assert not stuck.attempts.exclude(outcome="cancelled").exists()


def test_a_disk_that_comes_back_is_taken_down_too(stuck, paper):
    paper.disks(*DISKS)
    commands.retry_teardown(stuck)
    engine.step_until_waiting(stuck.pk)
    stuck.refresh_from_db()
    assert (stuck.phase, stuck.trouble) == ("done", "")
    assert spare() == {"sdb", "sdc", "sdd"}


HELD = disk("md127", type="raid1", path="/dev/md127", serial="")


@pytest.mark.parametrize("back", [True, False], ids=["put back", "not back"])
def test_what_the_kernel_holds_of_a_pulled_disk_is_told_with_the_way_out(
    paper, make_layout, monkeypatch, back
):
    """Pulled and put back it has another name, and what stood on it stands on: three tries, then a person is told what
    stands, which disk that was and what to do; after the reboot the same button proves the disks blank.
    """
    layout = confirmed(make_layout(phase="draft"), TOY)
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    again = replace(SDC, name="sdz", path="/dev/sdz", majmin="65:144")
    held = replace(HELD, parents=("sdb", "sdc"), links=(f"/dev/md/{layout.name}",))
    paper.disks(replace(SDB, holders=("md127",)), *([again] if back else []), SDD, held)
    paper.then = lambda argv: None
    transitions.begin_teardown(layout, Outcome.CANCELLED)
    for _ in range(12):
        engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, layout.teardown_tries) == ("stuck", 2)
    told = layout.trouble
    assert (
        "/dev/sdc (WDC WD40, serial S-sdc), which is " + ("/dev/sdz now" if back else "not") in told
    )
    assert "/dev/sdb still has md127 on it" in told and "/dev/md127 is still there" in told
    way_out = "reboot lab1, then press “Tear down again”"
    assert (f"remove that: {way_out}" if back else f"put it back in, {way_out}") in told
    paper.facts = replace(paper.facts, boot_id="another", devices=facts(SDB, again, SDD).devices)
    commands.retry_teardown(layout)
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, layout.trouble) == ("done", "")


def test_a_command_that_fails_by_a_pulled_disk_is_told_so(paper, make_layout, monkeypatch):
    layout = confirmed(make_layout(phase="draft"), TOY)
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    again = replace(SDC, name="sdz", path="/dev/sdz", majmin="65:144")
    held = replace(HELD, parents=("sdb", "sdc"), links=(f"/dev/md/{layout.name}",))
    paper.disks(replace(SDB, holders=("md127",)), again, SDD, held)

    def fails(argv: tuple[str, ...]) -> None:
        raise AgentError("sh -c … ended with exit code 1: it holds on", Reason.COMMAND_FAILED)

    paper.then = fails
    transitions.begin_teardown(layout, Outcome.CANCELLED)
    for _ in range(12):
        engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, layout.teardown_tries) == ("stuck", 2)
    assert layout.trouble.startswith("Pulled out of lab1 while ")
    assert layout.trouble.endswith(
        "The last command that failed: sh -c … ended with exit code 1: it holds on"
    )


def test_after_a_reboot_another_name_is_no_pulled_disk(paper, make_layout, monkeypatch):
    """Then what stands is told as it is, and tried as often as anything."""
    layout = confirmed(make_layout(phase="draft"), TOY)
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    paper.disks(SDB, replace(SDC, name="sdz", path="/dev/sdz", signatures=(Signature("xfs"),)), SDD)
    paper.facts = replace(paper.facts, boot_id="another")
    transitions.begin_teardown(layout, Outcome.CANCELLED)
    for _ in range(12):
        engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, layout.teardown_tries) == ("stuck", 3)
    assert layout.trouble == "Not blank: /dev/sdz has a xfs signature at byte 0"


def test_a_release_frees_the_host_and_takes_back_what_is_not_proven_blank(stuck, user):
    host_cleanup.release_host(stuck, PHRASE, user)
    stuck.refresh_from_db()
    assert (stuck.phase, stuck.trouble, stuck.outcome) == ("done", "", "cancelled")
    assert spare() == {"sdb", "sdd"}
    assert (
        "alice released lab1; no longer spare: sdc"
        in stuck.transitions.get(old="stuck", new="done").reason
    )
    entry = Entry.objects.get(action="release")
    assert (entry.actor, entry.team_id) == ("alice", stuck.host.team_id)
    assert entry.details == {"layout": stuck.name, "not_blank": ["serial:S-sdc"]}


def test_a_disk_with_something_on_it_is_no_longer_spare_either(stuck, paper, user):
    paper.disks(replace(SDB, signatures=(Signature("ext4"),)), SDD)
    host_cleanup.release_host(stuck, PHRASE, user)
    assert spare() == {"sdd"}


def test_a_host_that_does_not_answer_has_nothing_proven_blank(stuck, user, monkeypatch):
    def silent(shell: object, needs: object = ()) -> object:
        raise AgentError("no answer", Reason.TIMED_OUT)

    monkeypatch.setattr(reading, "read_facts", silent)
    host_cleanup.release_host(stuck, PHRASE, user)
    assert spare() == {"sdd"}


def test_attempts_that_were_open_are_ended(stuck, user):
    stuck.attempts.update(phase="running", outcome="")
    host_cleanup.release_host(stuck, PHRASE, user)
    assert set(stuck.attempts.values_list("phase", "outcome")) == {("done", "cancelled")}


def test_a_plan_that_cannot_be_read_keeps_nobody_locked(stuck, user):
    Layout.objects.filter(pk=stuck.pk).update(plan={"name": 1})
    stuck.refresh_from_db()
    host_cleanup.release_host(stuck, PHRASE, user)
    assert spare() == {"sdd"}


def test_not_without_the_phrase_nor_when_it_is_not_stuck(stuck, user):
    with pytest.raises(commands.CommandError, match="Type “release lab1”"):
        host_cleanup.release_host(stuck, "yes", user)
    assert spare() == {"sdb", "sdc", "sdd"}
    commands.retry_teardown(stuck)
    with pytest.raises(commands.CommandError, match="is not stuck"):
        host_cleanup.release_host(stuck, PHRASE, user)


def test_an_owner_releases_on_the_page(stuck, web, hosts_at_once):
    url = reverse("layout-release", args=[stuck.pk])
    campaign = reverse("campaign-detail", args=[stuck.campaign_id])
    assert url in web.get(campaign).text
    asked = web.get(url).text
    assert "S-sdc" in asked and PHRASE in asked
    assert "Nothing was done" in web.post(url, {"typed": "no"}, follow=True).text
    assert "lab1 is free" in web.post(url, {"typed": PHRASE}, follow=True).text
    assert Layout.objects.get(pk=stuck.pk).phase == LayoutPhase.DONE
    assert web.get(url).status_code == 302


def test_an_operator_sees_no_such_button(stuck, team, client):
    person = User.objects.create_user("olga")
    Membership.objects.create(team=team, user=person, role=Role.OPERATOR)
    client.force_login(person)
    text = client.get(reverse("campaign-detail", args=[stuck.campaign_id])).text
    assert "Tear down again" in text and reverse("layout-release", args=[stuck.pk]) not in text


def test_by_api(stuck, user, other_user, hosts_at_once):
    api = APIClient()
    api.force_authenticate(user)
    path = f"/api/layouts/{stuck.pk}/release/"
    assert api.post(path).status_code == 400
    assert api.post(path, {"typed": "no"}, format="json").status_code == 409
    answer = api.post(path, {"typed": PHRASE}, format="json")
    assert (answer.status_code, answer.json()["phase"]) == (200, "done")
    assert api.post(path, {"typed": PHRASE}, format="json").status_code == 409
    api.force_authenticate(other_user)
    assert api.post(path, {"typed": PHRASE}, format="json").status_code == 404


def test_a_spool_that_power_loss_brought_back_is_removed_again(paper, make_layout, monkeypatch):
    """Its removal had not reached the disk yet: it stayed on the host for good."""
    layout = confirmed(make_layout(phase="draft"), TOY)
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    gone = list[str]()
    monkeypatch.setattr(job, "remove_spool", lambda shell, spool: gone.append(spool.name))
    boots = {
        "kept": ("old", {"on_host": "x"}),
        "back": ("old", {}),
        "this": (paper.facts.boot_id, {}),
    }
    rows, attempt = {}, layout.attempts.get()
    attempt.phase, attempt.outcome, attempt.started_at = "done", "succeeded", timezone.now()
    for name, (boot, meta) in boots.items():
        attempt.boot_id, attempt.meta = boot, {"removed": True, **meta}
        attempt.save()
        rows[name] = attempt.spool
        attempt.pk, attempt.number = None, attempt.number + 1
        attempt._state.adding = True
    transitions.begin_teardown(layout, Outcome.CANCELLED)
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()
    assert (layout.phase, gone) == ("done", [rows["back"]])

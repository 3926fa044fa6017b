"""A layout that is not in order: it stops, or its runs are marked; on pages, by the API and in the fingerprint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contracts import AgentError, Reason
from agents.facts.health import Health
from agents.facts.model import BlockDevice, HostFacts
from agents.plans import layout_faults
from benchlab.engine.checks import condition, planning, preflight
from benchlab.engine.checks.condition import Condition
from benchlab.engine.phases import grow, provision, run_attempts
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies.models import OnDegraded, Topology
from benchlab.workers import messages
from tests.runs.paper_host import MORE, TOY, confirmed, paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)

FAILED = "md: sdc has failed in md127"
ERROR = "kernel log: I/O error, dev sdb, sector 8"


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def ready(paper, make_layout, monkeypatch) -> Layout:
    layout = confirmed(make_layout(phase="draft", runs=2), TOY, stages=[MORE])
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    layout.refresh_from_db()
    assert layout.phase == "ready"
    return layout


def attempt_of(layout: Layout) -> Attempt:
    return layout.attempts.order_by("pk")[0]


def measuring(layout: Layout) -> Layout:
    Layout.objects.filter(pk=layout.pk).update(on_degraded=OnDegraded.MEASURE)
    layout.refresh_from_db()
    return layout


def test_nothing_is_started_on_a_layout_that_is_not_in_order(ready, paper):
    paper.condition = Condition((FAILED,))
    with pytest.raises(AgentError, match=FAILED) as raised:
        run_attempts.start_attempt(ready, attempt_of(ready))
    assert raised.value.reason is Reason.DEGRADED
    assert not any("spool" in argv for argv in paper.ran)


def test_it_does_not_grow_either(ready, paper):
    paper.condition = Condition((FAILED,))
    ran = len(paper.ran)
    with pytest.raises(AgentError, match=FAILED):
        grow.begin_growth(ready)
    assert len(paper.ran) == ran
    grow.begin_growth(measuring(ready))
    assert ready.stage == 1 and ready.degraded == [FAILED]


def test_a_run_in_which_something_failed_is_marked_once_and_compares_to_none(ready, paper):
    attempt = attempt_of(ready)
    Attempt.objects.filter(pk=attempt.pk).update(fingerprint="f" * 64)
    attempt.refresh_from_db()
    condition.mark_start(ready, attempt, Condition((), frozenset(), 5.0))
    paper.condition = Condition((FAILED, ERROR), frozenset(), 9.0)
    condition.check_after_run(ready, attempt, paper)
    paper.condition = Condition((FAILED,), frozenset(), 9.0)  # a worker died and does it again
    condition.check_after_run(ready, attempt, paper)
    attempt.refresh_from_db()
    ready.refresh_from_db()
    assert attempt.degraded == [
        {"says": FAILED, "seen": "during"},
        {"says": ERROR, "seen": "during"},
    ]
    assert attempt.fingerprint == condition.degraded_digest("f" * 64, attempt.degraded)
    assert (ready.log_end, ready.degraded) == (9.0, [FAILED])
    with pytest.raises(AgentError, match="I/O error") as raised:
        condition.raise_if_degraded(ready, attempt)
    assert raised.value.reason is Reason.DEGRADED
    condition.raise_if_degraded(measuring(ready), attempt)


def test_what_was_known_before_a_run_did_not_happen_in_it(ready, paper):
    attempt = attempt_of(measuring(ready))
    paper.condition = Condition((FAILED,))
    condition.mark_start(ready, attempt, condition.check_before_run(ready, paper))
    condition.check_after_run(ready, attempt, paper)
    assert attempt.degraded == [{"says": FAILED, "seen": "before"}]


def test_what_the_samples_of_a_run_show_marks_it_and_stops_the_layout(ready, paper, monkeypatch):
    attempt = attempt_of(ready)
    Attempt.objects.filter(pk=attempt.pk).update(fingerprint="f" * 64)
    attempt.refresh_from_db()
    spell = layout_faults.FaultSpan("md: md127 runs with 1 of 2 members", 17.0, 60.0)
    monkeypatch.setattr(layout_faults, "fault_spans", lambda *given: [spell])
    samples = b"@ 1\n# /proc/mdstat\n x\n.\n"
    for found in (Condition(), Condition(rebooted=True, health=Health())):
        condition.mark_sampled_faults(ready, attempt, found, samples)
    condition.mark_sampled_faults(ready, attempt, Condition(health=Health()), b"")
    assert attempt.degraded == []
    for _ in range(2):  # a worker died and does it again
        condition.mark_sampled_faults(ready, attempt, Condition(health=Health()), samples)
    says = "md: md127 runs with 1 of 2 members, for 17 s of 60 s"
    assert attempt.degraded == [{"says": says, "seen": "during"}]
    assert attempt.fingerprint != "f" * 64
    with pytest.raises(AgentError, match="for 17 s of 60 s"):
        condition.raise_if_degraded(ready, attempt)


def test_samples_that_cannot_be_read_cost_no_result_and_say_so(ready, paper):
    attempt = attempt_of(ready)
    samples = b"@ 1\n# /proc/mdstat\n x\n.\n"
    condition.mark_sampled_faults(ready, attempt, Condition(health=Health()), samples)
    (mark,) = attempt.degraded
    assert mark["says"].startswith("the layout's faults could not be read from the samples")


def test_nobody_could_look_costs_no_result_and_says_so(ready, paper, monkeypatch):
    def unread(layout: object, shell: object) -> Any:
        raise AgentError("mdstat cannot be read", Reason.BAD_FACTS)

    attempt = attempt_of(ready)
    monkeypatch.setattr(condition, "check_layout", unread)
    condition.check_after_run(ready, attempt, paper)
    assert "mdstat cannot be read" in attempt.degraded[0]["says"]


def test_a_host_that_is_silent_is_asked_again(ready, paper, monkeypatch):
    def silent(layout: object, shell: object) -> Any:
        raise AgentError("no answer", Reason.TIMED_OUT)

    monkeypatch.setattr(condition, "check_layout", silent)
    with pytest.raises(AgentError, match="no answer"):
        condition.check_after_run(ready, attempt_of(ready), paper)


@pytest.fixture
def overdue(ready, monkeypatch) -> Attempt:
    """It was started five minutes ago."""
    monkeypatch.setattr(condition, "_overdue_checks", {})
    attempt = attempt_of(ready)
    began = timezone.now() - timedelta(seconds=300)
    Attempt.objects.filter(pk=attempt.pk).update(phase="running", started_at=began)
    attempt.refresh_from_db()
    return attempt


def test_a_run_that_takes_long_is_marked_while_it_runs(ready, overdue, paper, web):
    assert 300 <= condition.since_check_s(overdue) < 360
    condition.check_overdue_run(ready, overdue, paper)
    assert overdue.degraded == [] and condition.since_check_s(overdue) < 60
    paper.condition = Condition((FAILED,), frozenset(), 9.0)
    condition.check_overdue_run(ready, overdue, paper)
    run = web.get(reverse("run-detail", args=[overdue.run_id])).text
    assert f"During the run: {FAILED}" in run and "Running" in run
    campaign = web.get(reverse("campaign-detail", args=[overdue.run.campaign_id])).text
    assert "was degraded" in campaign and FAILED in campaign
    condition.check_after_run(ready, overdue, paper)
    assert overdue.degraded == [{"says": FAILED, "seen": "during"}]


def test_a_look_that_fails_while_a_run_takes_long_costs_it_nothing(
    ready, overdue, paper, monkeypatch
):
    def silent(layout: object, shell: object) -> Any:
        raise AgentError("no answer", Reason.TIMED_OUT)

    monkeypatch.setattr(condition, "check_layout", silent)
    condition.check_overdue_run(ready, overdue, paper)
    assert overdue.degraded == [] and condition.since_check_s(overdue) < 60


def test_a_degraded_run_has_a_fingerprint_of_its_own(ready):
    bare = HostFacts("h", "debian", "Debian", "6.1", "x86_64", "b", "c", 1, 1, True, True)
    plan = planning.stored_plan(ready)
    made = [
        condition.parts_digest(
            condition.fingerprint_parts(ready, plan, attempt_of(ready), bare, ails)
        )
        for ails in ((), (FAILED,), (FAILED, ERROR), (ERROR, FAILED))
    ]
    assert len(set(made)) == 3 and made[2] == made[3]


def test_firmware_counts_where_a_disk_tells_it():
    """A disk that tells none stays equal to what was measured before it was asked."""

    def part(firmware: str) -> dict[str, Any]:
        disk = BlockDevice("sdb", "/dev/sdb", "disk", 1, "8:16", serial="S1", firmware=firmware)
        facts = HostFacts("h", "debian", "D", "6.1", "x", "b", "c", 1, 1, True, True, (disk,))
        return condition._device_parts(facts, "/dev/sdb")

    assert set(part("")) == {"identity", "model", "size", "scheduler", "sectors"}
    assert part("HPG0") == part("") | {"firmware": "HPG0"}


@pytest.fixture
def marked(ready) -> Attempt:
    attempt = attempt_of(ready)
    Attempt.objects.filter(pk=attempt.pk).update(
        phase="done", outcome="succeeded", degraded=[{"says": FAILED, "seen": "during"}]
    )
    attempt.refresh_from_db()
    return attempt


def test_pages_say_so(marked, web):
    run = web.get(reverse("run-detail", args=[marked.run_id])).text
    assert f"During the run: {FAILED}" in run
    campaign = web.get(reverse("campaign-detail", args=[marked.run.campaign_id])).text
    assert "was degraded" in campaign and FAILED in campaign and "degraded" in campaign


def test_the_api_says_so(marked, user):
    api = APIClient()
    api.force_authenticate(user)
    told = api.get(f"/api/attempts/{marked.pk}/").json()
    assert told["degraded"] == [{"says": FAILED, "seen": "during"}]
    layout = api.get(f"/api/layouts/{marked.layout_id}/").json()
    assert (layout["on_degraded"], layout["degraded"]) == ("stop", [])


def test_a_topology_chooses_by_the_api_and_on_its_page(team, user, web):
    api = APIClient()
    api.force_authenticate(user)
    stack = [{"kind": "directory", "options": {}, "devices": []}]
    made = api.post(
        "/api/topologies/", {"name": "t", "stack": stack, "on_degraded": "measure"}, format="json"
    ).json()
    assert made["on_degraded"] == "measure"
    assert "measured on" in web.get(reverse("topology-detail", args=[made["id"]])).text
    refused = api.post(
        "/api/topologies/", {"name": "u", "stack": stack, "on_degraded": "sing"}, format="json"
    )
    assert refused.status_code == 400 and "sing" in refused.text
    post = {"name": "v", "kind": "directory", "layer0-path": "/var/tmp/x", "save": "1"}
    web.post(reverse("topology-new"), post)
    assert Topology.objects.get(name="v").on_degraded == "stop"
    web.post(reverse("topology-new"), post | {"name": "w", "on_degraded": "measure"})
    assert Topology.objects.get(name="w").on_degraded == "measure"


def test_the_look_after_a_run_is_the_one_before_the_next(ready, paper, monkeypatch):
    """Only for a moment, of the same stage, and where nothing ailed."""
    attempt, looks = attempt_of(ready), []

    def look(layout: Layout, shell: object) -> Condition:
        looks.append(layout.stage)
        return paper.condition

    monkeypatch.setattr(condition, "check_layout", look)
    condition.check_after_run(ready, attempt, paper)
    assert condition.check_before_run(ready, paper) == paper.condition and len(looks) == 1
    condition.check_before_run(ready, paper)  # it serves one run
    assert len(looks) == 2
    condition.check_after_run(ready, attempt, paper)
    ready.stage = 1
    condition.check_before_run(ready, paper)
    assert looks[3:] == [1]
    monkeypatch.setattr(condition, "REUSE_SECONDS", 0.0)
    condition.check_after_run(ready, attempt, paper)
    condition.check_before_run(ready, paper)
    assert len(looks) == 6


def test_what_ailed_after_a_run_is_looked_at_again(ready, paper):
    paper.condition = Condition((FAILED,))
    condition.check_after_run(measuring(ready), attempt_of(ready), paper)
    paper.condition = Condition()
    assert condition.check_before_run(ready, paper) == Condition()

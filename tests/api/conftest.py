"""Two teams that both have everything, and clients that authenticate by token, as notebooks do."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from benchlab.analysis.finding import Number
from benchlab.audit.chain import add_entry
from benchlab.dynamo.models import Binary, Reported
from benchlab.findings.models import Finding
from benchlab.hosts.models import Credential, Device, Host, HostTask, PackageInstall
from benchlab.imports import drafts
from benchlab.imports.models import Source
from benchlab.runs.models import Attempt, Layout, Measurement, Series
from benchlab.sharing.models import Comment, Note, SavedView, Share, Star, Tag, Tagging
from benchlab.team import tokens
from benchlab.team.models import Invitation
from benchlab.team.roles import Role
from benchlab.workers import messages
from tests.charts import made

DIRECTORY = [{"kind": "directory", "options": {"path": "/srv/scratch"}}]


def client_of(person) -> APIClient:
    client = APIClient()
    row, key = tokens.create_token(person, "test", Role.OWNER)
    row.last_used_at = timezone.now()  # else the first request writes it
    row.save()
    client.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    return client


@pytest.fixture
def api(user) -> APIClient:
    return client_of(user)


@pytest.fixture
def other_api(other_user) -> APIClient:
    return client_of(other_user)


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> list[str]:
    """Messages that would have gone to Celery."""
    sent: list[str] = []
    monkeypatch.setattr(messages, "send", lambda task, pk: sent.append(task))
    return sent


def everything(team) -> SimpleNamespace:
    """One or more rows of every noun."""
    host = made.host(team, f"host of {team}")
    device = Device.objects.create(
        host=host, identity="serial:S1", name="sdb", serial="S1", model="FastDisk", size=2**30
    )
    PackageInstall.objects.create(
        host=host, argv=["apt-get", "install", "-y", "mdadm"], ended_at=timezone.now()
    )
    HostTask.objects.create(
        host=host,
        kind="read_facts",
        due_at=timezone.now(),
        error="no answer",
        ended_at=timezone.now(),
    )
    topology, load, campaign = made.topology(team, "raw"), made.workload(team), made.campaign(team)
    attempts = made.swept(campaign, host, topology, load, depths=(1, 4), repeats=1)
    made.sampled(attempts[0], disks=1, seconds=5)
    made.binned(attempts[0])
    Invitation.objects.create(
        team=team, digest=f"{team.pk:064}", expires_at=timezone.now() + timedelta(days=7)
    )
    draft = drafts.create_draft(team=team, user=None, uploads=[drafts.pasted_upload("RATE 1\n")])
    Source.objects.create(campaign=campaign, name="a.txt", content=b"a", size=1, sha256="0" * 64)
    listened = Host.objects.create(
        team=team, name=f"dynamo of {team}", access=Host.Access.DYNAMO, address="192.0.2.9"
    )
    reported = Reported.objects.create(host=listened, name="sdz", raw=True)
    binary = Binary.objects.create(
        team=team, name="dynamo", version="1.1.0", sha256="0" * 64, size=4, content=b"\x7fELF"
    )
    return SimpleNamespace(
        finding=Finding.objects.create(
            campaign=campaign, attempt=attempts[0], kind="cached_read", says="half of it came from a cache",
            severity="doubt", runs=[attempts[0].run_id],
            numbers={"read": asdict(Number(4e8, "B/s", "read, by the tool", figure="iops"))},
        ),
        entry=add_entry("host.create", team_id=team.pk, actor="somebody", subject=str(host)),
        reported=reported,
        binary=binary,
        **said(team, campaign, attempts[0].run),
        team=team, draft=draft, host=host, device=device, topology=topology, workload=load, campaign=campaign,
        credential=Credential.objects.get(team=team), attempts=attempts,
        layout=attempts[0].layout, run=attempts[0].run,
    )  # fmt: skip


def said(team, campaign, run) -> dict[str, Any]:
    """Words on the campaign (comment, tag, note, view), and two links, by name."""
    about = {"kind": "campaign", "object_id": campaign.pk}
    tag = Tag.objects.create(team=team, name="odd")

    def link(kind: str, pk: int) -> Share:
        until = timezone.now() + timedelta(days=7)
        return Share.objects.create(
            team=team, kind=kind, object_id=pk, name=kind, digest=f"{kind} {team.pk}", expires_at=until,
            hide_hosts=False,
        )  # fmt: skip

    return {
        "comment": Comment.objects.create(**about, team=team, text="Look at this."),
        "tag": tag,
        "tagging": Tagging.objects.create(**about, tag=tag),
        "note": Note.objects.create(**about, team=team, text="Odd disks."),
        "view": SavedView.objects.create(team=team, name="one", query=f"campaign={campaign.pk}"),
        "share": link("campaign", campaign.pk),
        "run_share": link("run", run.pk),
    }


@pytest.fixture
def ours(team, user) -> SimpleNamespace:
    made = everything(team)
    Star.objects.create(user=user, kind="campaign", object_id=made.campaign.pk)
    return made


@pytest.fixture
def theirs(other_user) -> SimpleNamespace:
    return everything(other_user.teams.get())


@pytest.fixture
def unknown_values(ours) -> Attempt:
    """An attempt whose figures hold what JSON cannot say."""
    attempt = ours.attempts[0]
    Measurement.objects.create(attempt=attempt, name="odd", value=math.nan, unit="s")
    Series.objects.create(
        attempt=attempt, sampler="odd", metric="await", unit="s",
        times=[1.0, 2.0, 3.0], values=[math.nan, math.inf, 0.5],
    )  # fmt: skip
    return attempt


def planned(campaign, fingerprint: str = "f" * 64) -> Layout:
    """A draft of the campaign as the planner leaves it."""
    layout = campaign.layouts.filter(phase="draft").first()
    Layout.objects.filter(pk=layout.pk).update(plan={}, plan_fingerprint=fingerprint)
    layout.refresh_from_db()
    return layout


def is_problem(answer, status: int) -> dict:
    """The one error shape."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert set(body) <= {"title", "status", "detail", "errors"}
    assert body["status"] == status and body["title"] and body["detail"]
    return body

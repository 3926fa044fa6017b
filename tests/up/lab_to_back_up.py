"""A lab in the midst of its work, made and looked at in `manage.py shell`, which is a process of its own."""

from __future__ import annotations

import json
import socket
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from benchlab.audit.chain import add_entry
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign
from benchlab.hosts import registration
from benchlab.hosts.models import Credential, Device, Host
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.runs.states import AttemptPhase, LayoutPhase
from benchlab.team import tokens
from benchlab.team.models import Team
from benchlab.team.roles import Role
from benchlab.vault import decrypt
from tests.charts import made

AT_WORK = (LayoutPhase.PROVISIONING, LayoutPhase.READY, LayoutPhase.TEARING_DOWN)


def make() -> None:
    """A campaign with a result, and one that has a layout in each phase, a run under way in one of them."""
    team = Team.objects.get()
    own = made.host(team, socket.gethostname())
    Host.objects.filter(pk=own.pk).update(is_local=True)
    disk = Device(host=own, identity="serial:S1", name="sdb", size=1 << 40, role="hdd")
    disk.spare, disk.spare_size, disk.spare_at = True, disk.size, timezone.now()
    disk.save()
    stack, load = made.topology(team, "stripe"), made.workload(team)
    made.swept(made.campaign(team, "over"), own, stack, load)
    going = made.campaign(team, "going on")
    for number, phase in enumerate((*AT_WORK, LayoutPhase.WAITING)):
        where = made.host(team, f"host{number}")
        layout = made.done_layout(going, where, stack)
        run = made.run(going, layout, load, 4, 1)
        down = phase is LayoutPhase.TEARING_DOWN
        Layout.objects.filter(pk=layout.pk).update(phase=phase, outcome="succeeded" if down else "")
        running = phase is LayoutPhase.READY
        now = AttemptPhase.RUNNING if running else AttemptPhase.QUEUED
        Attempt.objects.create(run=run, layout=layout, phase=now)
    team.hosts.update(credential=registration.make_credential(team, "lab"))
    Credential.objects.exclude(name="lab").delete()  # what stands for keys in other tests is none
    add_entry("host.mark_spare", actor="alice", subject="sdb")


def look() -> None:
    """Print what counts afterwards, as JSON in the last line."""
    going = Layout.objects.filter(campaign__name="going on")
    attempts = Attempt.objects.filter(layout__in=going)
    found: dict[str, Any] = {
        "spares": Device.objects.filter(spare=True).count(),
        "phases": dict(going.values_list("host__name", "phase")),
        "outcomes": dict(attempts.values_list("layout__host__name", "outcome")),
        "troubles": list(
            going.exclude(trouble="").order_by("pk").values_list("trouble", flat=True)
        ),
        "paused": list(Campaign.objects.exclude(paused_at=None).values_list("name", flat=True)),
        "figures": list(Measurement.objects.order_by("pk").values_list("name", "value")),
        "key": decrypt(bytes(Credential.objects.get().private_key)),
        "local": list(Host.objects.filter(is_local=True).values_list("name", flat=True)),
        "hosts": list(Host.objects.values_list("name", flat=True)),
        "log": list(Entry.objects.order_by("pk").values_list("action", flat=True)),
        "highest": max(Layout.objects.values_list("pk", flat=True)),
        "next": _next(Layout._meta.db_table),
    }
    print(json.dumps(found))


def show() -> None:
    """Print, as JSON in the last line, how a campaign's page answers, its figures by the API and in the database, and
    the key."""
    person, over = User.objects.get(username="admin"), Campaign.objects.get(name="over")
    token, key = tokens.create_token(person, "look", Role.VIEWER)
    browser = Client(SERVER_NAME="localhost", headers={"Authorization": f"Token {key}"})
    rows = browser.get(f"/api/results/?campaign={over.pk}")
    figures = b"".join(rows).decode()
    token.delete()
    person_s = Client(SERVER_NAME="localhost")
    person_s.force_login(person)
    page = person_s.get(f"/campaigns/{over.pk}/")
    stored = list(Measurement.objects.order_by("pk").values_list("name", "value"))
    key = decrypt(bytes(Credential.objects.get().private_key))
    print(json.dumps([page.status_code, rows.status_code, figures, stored, key]))


def _next(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [table])
        return int(cursor.fetchone()[0])

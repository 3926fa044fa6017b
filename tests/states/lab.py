"""A small lab with something of everything that is stored, and what can be told of it.

`manage.py shell` runs it in the tree that a state is made of (make.py), which may be an older one: `make` uses only
what both have. `look` tells the same of the state once a later tree has taken it over.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from benchlab.audit.chain import add_entry
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.hosts import registration
from benchlab.hosts.models import Credential, Device, Host
from benchlab.lifecycle import deleting
from benchlab.runs import artifacts, conclusion
from benchlab.runs.models import (
    Artifact,
    ArtifactPiece,
    Attempt,
    Histogram,
    Layout,
    Measurement,
    Series,
)
from benchlab.runs.states import AttemptPhase, LayoutPhase
from benchlab.sharing import links
from benchlab.sharing.models import Comment, Note, ReportText, SavedView, Share, Star, Tag, Tagging
from benchlab.team import invitations, tokens
from benchlab.team.models import ApiToken, Membership, Team
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from tests.charts import made

USER, PASSWORD = "olga", "stored with the state"
HELD = (
    LayoutPhase.PROVISIONING,
    LayoutPhase.READY,
    LayoutPhase.TEARING_DOWN,
    LayoutPhase.STUCK,
    LayoutPhase.WAITING,
    LayoutPhase.DRAFT,
)
IOPING = {
    "command": "ioping -c 10 .",
    "extract": [
        "iops [op/s] x 1000 = regex: , ([0-9.]+) k iops,",
        "bandwidth [B/s] x 1048576 = regex: iops, ([0-9.]+) MiB/s$",
    ],
}
SYSBENCH = {"size": 16777216, "files": 4, "mode": "rndrd", "io_mode": "mmap", "time_s": 0,
            "events": 5000, "block_size": 4096}  # fmt: skip
# Tool, its options, and the raw output: a file of tests/cases/tools by the artifact's name.
RESULTS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("fio", {"rw": "randread", "block_size": 4096}, "fio.json", "fio/3.16-lat-percentiles.json"),
    ("dd", {}, "stderr", "dd/9.1-direct.txt"),
    ("sysbench", SYSBENCH, "stdout", "sysbench/1.0.20-debian13-rndrd-mmap.txt"),
    ("bonnie", {}, "stdout", "bonnie/2.00a-fast-direct-quiet.txt"),
    ("pg_test_fsync", {}, "stdout", "pg_test_fsync/15.18.txt"),
    ("dynamo", {}, "messages.bin", "dynamo/rc1.bin"),
    ("command", IOPING, "stdout", "command/ioping-handwritten.txt"),
)


def make(cases: Path) -> None:
    """In a new installation that `prepare` made. `cases`: tests/cases/tools."""
    team = Team.objects.get(library=False)
    user = User.objects.create_user(USER, password=PASSWORD, is_staff=True)
    Membership.objects.create(team=team, user=user, role=Role.OWNER)
    stack = made.topology(team, "stripe")
    rack = made.host(team, "rack-1")
    disk = Device(host=rack, identity="serial:S1", name="sdb", size=1 << 40, role="hdd")
    disk.spare, disk.spare_size, disk.spare_at = True, disk.size, timezone.now()
    disk.save()
    add_entry("host.mark_spare", actor=USER, subject="sdb")
    over = _results(team, rack, stack, cases)
    _talked_about(team, user, over)
    _at_work(team, stack)
    _not_current(team, user, rack, stack)
    _draft(team)
    Credential.objects.exclude(name="lab").delete()
    add_entry("campaign.start", actor=USER, subject="over", details={"runs": 7})


def _results(team: Team, host: Host, stack: Topology, cases: Path) -> Campaign:
    """A campaign that is over: a result of each tool, read by its parser, and one whose raw output a rule removed."""
    over = made.campaign(team, "over", repeats=1)
    layout = made.done_layout(over, host, stack)
    for number, (tool, options, name, case) in enumerate(RESULTS):
        load = Workload.objects.create(team=team, name=f"by {tool}", tool=tool, options=options)
        attempt = _finished(over, layout, load, number)
        attempt.measurements.all().delete()
        attempt.artifacts.all().delete()
        files = {name: (cases / case).read_bytes()}
        if tool == "dd":
            files |= {"stdout": b"", artifacts.SAMPLES: _samples()}
        attempt.tool_version = ""
        attempt.save()
        artifacts.store_artifacts(attempt, files)
        if tool == "sysbench":
            _in_pieces(attempt, files[name])
        if trouble := conclusion.reparse_attempt(attempt):
            raise ValueError(f"{tool}: {trouble}")
    removed = _finished(over, layout, made.workload(team), len(RESULTS))
    made.sampled(removed, disks=1, seconds=4)
    made.binned(removed, many=500)
    removed.artifacts.update(content=b"")
    Attempt.objects.filter(pk=removed.pk).update(
        raw_removed_at=timezone.now(), raw_removed_after=30
    )
    storing.find_for_attempts(over.runs.values_list("attempts", flat=True))
    return over


def _in_pieces(attempt: Attempt, raw: bytes) -> None:
    """As output is kept that is large."""
    half = len(raw) // 2
    attempt.artifacts.update(content=b"")
    for number, part in enumerate((raw[:half], raw[half:])):
        ArtifactPiece.objects.create(
            attempt=attempt, name="stdout", number=number, packed=zlib.compress(part)
        )


def _finished(campaign: Campaign, layout: Layout, load: Workload, number: int) -> Attempt:
    """It succeeded; the options are its workload's."""
    attempt = made.finished(campaign, layout, load, None if number < len(RESULTS) else 4, 1, 900.0)
    Run.objects.filter(pk=attempt.run_id).update(tool=load.tool, options=load.options)
    attempt.refresh_from_db()
    return attempt


def _samples() -> bytes:
    """Of /proc/diskstats, as a host's sampler prints it: one look a second."""
    looks = []
    for second in range(1, 9):
        line = f"8 0 sda {second * 97} 0 {second * 800} {second * 5} 0 0 0 0 0 {second * 400} 5 0 0 0 0 0 0"
        looks.append(f"@ {second * 10**9}\n# /proc/diskstats\n {line}\n.\n")
    return "".join(looks).encode()


def _talked_about(team: Team, user: User, over: Campaign) -> None:
    about: dict[str, Any] = {"kind": "campaign", "object_id": over.pk}
    Comment.objects.create(
        team=team, text="Faster than the last one: <b>why?</b>", by=user, **about
    )
    Note.objects.create(team=team, text="Keep", by=user, **about)
    tag = Tag.objects.create(team=team, name="baseline", colour=2)
    Tagging.objects.create(tag=tag, **about)
    Star.objects.create(user=user, **about)
    SavedView.objects.create(team=team, name="all of it", query=f"campaign={over.pk}", by=user)
    ReportText.objects.create(campaign=over, place="opening", text="What we asked", by=user)
    if finding := Finding.objects.first():
        storing.dismiss_row(finding, user, "It is known")


def opened(cases: Path) -> dict[str, str]:
    """Make what opens something by a secret that is told once, and tell it."""
    make(cases)
    user, over = User.objects.get(username=USER), Campaign.objects.get(name="over")
    team = over.team
    invitations.invite(team, Role.VIEWER, user, "somebody@example.com")
    _, token = tokens.create_token(user, "script", Role.OPERATOR, days=300)
    _, share = links.create_link(links.check_target(user, "campaign", over.pk), user, days=300)
    later = timezone.now() + timedelta(days=36500)
    Share.objects.update(expires_at=later)
    ApiToken.objects.update(expires_at=later)
    return {"token": token, "share": share, "campaign": str(over.pk)}


def _at_work(team: Team, stack: Topology) -> None:
    """A campaign that goes on: a layout in each phase, a run under way in one of them."""
    load, going = made.workload(team), made.campaign(team, "going on")
    for number, phase in enumerate(HELD):
        layout = made.done_layout(going, made.host(team, f"host{number}", disks=1), stack)
        run = made.run(going, layout, load, 4, 1)
        down = phase in (LayoutPhase.TEARING_DOWN, LayoutPhase.STUCK)
        Layout.objects.filter(pk=layout.pk).update(phase=phase, outcome="succeeded" if down else "")
        ready = phase is LayoutPhase.READY
        now = AttemptPhase.RUNNING if ready else AttemptPhase.QUEUED
        if not down:
            Attempt.objects.create(run=run, layout=layout, phase=now)
    team.hosts.update(credential=registration.make_credential(team, "lab"))


def _not_current(team: Team, user: User, host: Host, stack: Topology) -> None:
    """Campaigns that were paused, cancelled, archived, deleted (within the grace period), and imported."""
    now, load = timezone.now(), made.workload(team)
    for name, change in (
        ("paused", {"paused_at": now}),
        ("cancelled", {"cancelled_at": now}),
        ("archived", {"archived_at": now}),
        ("imported", {"source": "imported", "origin": {"title": "An article"}}),
        ("deleted", {}),
    ):
        one = made.campaign(team, name)
        made.swept(one, host, stack, load, depths=(4,), repeats=1)
        Campaign.objects.filter(pk=one.pk).update(**change)
        if name == "deleted":
            deleting.delete(one, user, f"delete {one}")


def _draft(team: Team) -> None:
    """A campaign that nobody has agreed to yet: dd in a directory."""
    host = made.host(team, "bench", disks=1)
    layers = [{"kind": "directory", "options": {"path": "/srv/stored"}, "devices": []}]
    stack = Topology.objects.create(team=team, name="directory", stack=layers)
    options = {"block_size": 65536, "count": 16}
    load = Workload.objects.create(team=team, name="small dd", tool="dd", options=options)
    draft = made.campaign(team, "draft", repeats=1)
    layout = Layout.objects.create(
        campaign=draft, host=host, topology=stack, stack=layers, phase=LayoutPhase.DRAFT
    )
    run = made.run(draft, layout, load, None, 1)
    Run.objects.filter(pk=run.pk).update(options=options)
    Attempt.objects.create(run=run, layout=layout, phase=AttemptPhase.QUEUED)
    host.credential = Credential.objects.get(name="lab")
    host.save()


def look() -> dict[str, Any]:
    """What has to be the same for ever."""
    return {
        "campaigns": sorted(map(list, Campaign.even_deleted.values_list("name", "source"))),
        "figures": sorted(
            [row.attempt_id, row.name, row.value, row.unit, *sorted(row.labels.items())]
            for row in Measurement.objects.all()
        ),
        "artifacts": [
            [row.attempt_id, row.name, row.size, _content(row)]
            for row in Artifact.objects.order_by("attempt_id", "name")
        ],
        "series": [
            [row.attempt_id, row.sampler, row.device, row.metric, row.unit, _digest(row.times, row.values)]
            for row in Series.objects.order_by("attempt_id", "sampler", "device", "metric")
        ],
        "histograms": [
            [row.attempt_id, row.name, _digest(row.lows, row.highs, row.counts)]
            for row in Histogram.objects.order_by("attempt_id", "name")
        ],
        "findings": [list(row) for row in Finding.objects.order_by("campaign_id", "attempt_id", "kind", "about")
                     .values_list("campaign_id", "attempt_id", "kind", "says", "note")],
        "said": sorted(Comment.objects.values_list("text", flat=True))
        + sorted(Note.objects.values_list("text", flat=True))
        + sorted(ReportText.objects.values_list("text", flat=True)),
        "log": [list(row) for row in Entry.objects.order_by("pk").values_list("action", "digest")],
        "phases": dict(Layout.objects.filter(campaign__name="going on").order_by("pk").values_list(
            "host__name", "phase")),
        "attempts": [list(row) for row in Attempt.objects.order_by("pk").values_list("pk", "phase", "outcome")],
        "spares": list(Device.objects.filter(spare=True).values_list("name", flat=True)),
    }  # fmt: skip


def _content(row: Artifact) -> str:
    """SHA-256 of the bytes as they are stored; "" where a rule removed them."""
    gone = row.attempt.raw_removed_at is not None
    return "" if gone else hashlib.sha256(row.read()).hexdigest()


def _digest(*numbers: Sequence[float]) -> str:
    """Of all of them, to the last bit."""
    packed = b"".join(struct.pack(f"<{len(one)}d", *one) for one in numbers)
    return hashlib.sha256(packed).hexdigest()[:16]


def told(cases: Path) -> None:
    """Make the lab; print what opens it and what is in it, as JSON in the last line."""
    print(json.dumps({"opens": opened(cases), **look()}))

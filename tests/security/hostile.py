"""Words of a host that means harm, wherever it may say anything."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace
from typing import Any

from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.hosts.models import Device, FactSnapshot, Host, HostTask, PackageInstall
from benchlab.imports.models import Source
from benchlab.runs.models import Artifact, Attempt, Layout, Measurement, Series, StepLog, Transition

MARK = "pwned"  # in all of it: what a page shows of it must not be markup
SCRIPT = f"<script>{MARK}()</script>"
MARKUP = f"\"'><img src=x onerror={MARK}()><svg/onload={MARK}()>{SCRIPT}</title></textarea>"
SHELL = f"$({MARK});`{MARK}`|{MARK}&{MARK} > /tmp/{MARK} '\"\\ -{MARK}"
FORMULA = f'=HYPERLINK("x","{MARK}")'
TERMINAL = f"\x1b]0;{MARK}\x07\x1b[2J\x1b[31m\u202e{MARK}\x9b1m\r"
PROMPT = f"root@server:~# {MARK}\nPassword: \n2026-01-01 00:00:00,000 ERROR root {MARK}\n"
LONG = f"{MARK}{SCRIPT}" + "A" * (1 << 20)
ALL = MARKUP + SHELL + TERMINAL
# As the database may hold it: it takes no NUL at all.
STORED = ALL + PROMPT


def disk(name: str, **fields: Any) -> dict[str, Any]:
    """A device as facts have it, everything in words hostile."""
    return {
        "name": name, "path": f"/dev/{name}", "type": "disk", "size": 2**30, "majmin": "8:16", "model": MARKUP,
        "serial": SHELL, "wwn": FORMULA, "vendor": MARKUP, "mounts": [f"/mnt/{ALL}"], "links": [f"/dev/{MARKUP}"],
        "scheduler": MARKUP, "parents": [], "holders": [], **fields,
    }  # fmt: skip


def facts() -> dict[str, Any]:
    """As a snapshot holds them, after cleaning: words are what they were, control characters too here."""
    return {
        "hostname": ALL, "os_family": "debian", "os_name": MARKUP, "kernel": SHELL, "arch": FORMULA, "boot_id": MARKUP,
        "cpu_model": LONG[:4096], "cpus": 4, "memory": 2**30, "root": True, "sudo": True, "devices": [
            disk("sdb"), disk("sdc", holders=["dm-0"]),
            disk("dm-0", path=f"/dev/mapper/{MARKUP}", type="lvm", parents=["sdc"], swap=True),
        ],
        "mounts": [{"source": MARKUP, "target": f"/mnt/{ALL}", "fstype": MARKUP, "options": SHELL, "majmin": "8:16"}],
        "swaps": [MARKUP], "tools": {"fio": ALL, MARKUP: MARKUP}, "unknown": [ALL, FORMULA],
        "sysctls": {MARKUP: ALL}, "governors": {MARKUP: ALL},
    }  # fmt: skip


def spoil(made: SimpleNamespace) -> SimpleNamespace:
    """The rows (tests.api.conftest.everything), with whatever a host has a say in hostile."""
    snapshot = made.host.snapshots.get()
    FactSnapshot.objects.filter(pk=snapshot.pk).update(facts=facts(), boot_id=MARKUP[:64])
    Host.objects.filter(pk=made.host.pk).update(trouble="connection_lost", trouble_text=STORED)
    Device.objects.filter(pk=made.device.pk).update(
        name=MARKUP[:64], model=MARKUP, serial=SHELL, wwn=FORMULA, in_use=ALL[:255]
    )
    PackageInstall.objects.filter(host=made.host).update(
        output=STORED + LONG[:60000], trouble=STORED, exit_code=1
    )
    HostTask.objects.filter(host=made.host).update(error=STORED)
    Layout.objects.filter(pk=made.layout.pk).update(
        reason="command_failed", reason_text=STORED, trouble=STORED, plan_error=STORED, facts_ready=snapshot,
        facts_after=snapshot,
    )  # fmt: skip
    StepLog.objects.create(
        layout=made.layout, kind="apply", argv=["mkfs", ALL], says=MARKUP, destroys=[f"serial:{SHELL}"], exit_code=1,
        stdout=STORED + LONG[:60000], stderr=STORED, ended_at=timezone.now(),
    )  # fmt: skip
    Transition.objects.create(layout=made.layout, old="ready", new="done", reason=STORED)
    for attempt in made.attempts:
        _attempt(attempt, snapshot)
    Source.objects.filter(campaign=made.campaign).update(name=MARKUP[:200], content=STORED.encode())
    Campaign.objects.filter(pk=made.campaign.pk).update(name=MARKUP[:100], question=MARKUP)
    for row in (made.host, made.device, made.layout, made.campaign):
        row.refresh_from_db()
    made.source = Source.objects.get(campaign=made.campaign)
    return made


def _attempt(attempt: Attempt, snapshot: FactSnapshot) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(
        argv=["fio", ALL], tool_version=MARKUP[:200], boot_id=MARKUP[:64], facts=snapshot, reason="tool_failed",
        reason_text=STORED, meta={"state": "exited", "caches": MARKUP, "boot_id": SHELL, "clock_step": 0.5},
    )  # fmt: skip
    Measurement.objects.create(
        attempt=attempt, name=MARKUP[:100], value=1.0, unit="s", note=STORED, labels={MARKUP: ALL}
    )
    attempt.series.filter(device="sdb").update(device=MARKUP[:64])
    Series.objects.create(
        attempt=attempt, sampler="diskstats", device=FORMULA[:64], metric="util", unit="1", times=[1.0, 2.0],
        values=[0.1, 0.2],
    )  # fmt: skip
    for name, raw in (("stdout", (STORED + "\0" + LONG).encode()), (f"{MARKUP[:150]}.html", SCRIPT.encode()),
                      ("stderr", (LONG * 3).encode()), ("x.json", json.dumps({"a": ALL}).encode())):  # fmt: skip
        Artifact.objects.create(
            attempt=attempt,
            name=name,
            content=raw,
            size=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
        )

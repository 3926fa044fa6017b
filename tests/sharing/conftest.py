"""A lab whose names can be told from everything else: a guest must read none of them where they are hidden."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client

from benchlab.hosts.models import Device
from benchlab.runs.models import Artifact, Attempt, Measurement, Series, StepLog
from benchlab.sharing import links
from benchlab.sharing.models import Share
from tests.charts import made

HOST, OTHER_HOST = "zeus-rack7", "hera-rack8"
SERIAL, WWN, ADDRESS = "BTWL4190QX", "0x5000c500a1b2c3d4", "192.0.2.9"
SECRET = (HOST, OTHER_HOST, SERIAL, WWN, "5000c500a1b2c3d4", ADDRESS, "alice")


@pytest.fixture
def lab(team, user) -> SimpleNamespace:
    """Two hosts, two topologies, one campaign; the names also where people and kernels write them."""
    campaign, load = made.campaign(team, f"Is {HOST} faster?"), made.workload(team)
    campaign.question = f"Compare {HOST} with {OTHER_HOST.upper()}, says the label {SERIAL}."
    campaign.created_by = user
    campaign.save()
    hosts = [made.host(team, name) for name in (HOST, OTHER_HOST)]
    attempts: list[Attempt] = []
    for host in hosts:
        Device.objects.create(
            host=host, identity=f"serial:{SERIAL}" if host is hosts[0] else f"wwn:{WWN}", name="sdb",
            serial=SERIAL if host is hosts[0] else "", wwn="" if host is hosts[0] else WWN, size=2**30,
        )  # fmt: skip
        attempts += made.swept(campaign, host, made.topology(team, f"LVM on {host.name}"), load)
    for attempt in (attempts[0], attempts[-1]):
        made.sampled(attempt, disks=2, seconds=20)
        say(attempt)
    return SimpleNamespace(
        team=team, user=user, campaign=campaign, hosts=hosts, attempts=attempts,
        run=attempts[0].run, load=load,
    )  # fmt: skip


def say(attempt: Attempt) -> None:
    """The names in every field that a page may show."""
    name = attempt.run.host.name
    attempt.argv = [
        "fio",
        f"--filename=/dev/disk/by-id/ata-{SERIAL}-part1",
        f"--client={ADDRESS}",
        name,
    ]
    attempt.tool_version = f"fio-3.33 on {name}"
    attempt.meta = {"state": "exited", "boot_id": "b00t", "during": {
        "start": [{"says": f"reshape on {name}", "done": 0.1}],
        "end": [{"says": f"reshape on {name}", "done": 0.4}]}}  # fmt: skip
    attempt.save()
    Measurement.objects.create(
        attempt=attempt, name="odd", value=1, unit="s", labels={"job": name}, note=f"of {WWN}"
    )
    content = f"{name} {SERIAL}".encode()
    Artifact.objects.create(
        attempt=attempt,
        name=f"{name}.json",
        content=content,
        size=len(content),
        sha256="a" * 64,
    )
    made.binned(attempt)
    pool = Series.objects.filter(attempt=attempt, metric="read.iops").first()
    assert pool is not None
    Series.objects.create(
        attempt=attempt, sampler="zpool", device=f"tank/ata-DISK_{SERIAL}", metric="zpool.read.iops",
        unit="op/s", times=pool.times, values=[5.0] * len(pool.times),
    )  # fmt: skip
    StepLog.objects.create(
        layout=attempt.layout,
        kind="apply",
        argv=["x"],
        says=f"Take {SERIAL} on {name}",
        exit_code=0,
    )


@pytest.fixture
def guest() -> Client:
    return Client()


def link_of(
    lab: SimpleNamespace, kind: str, *, hide: bool = True, query: str = ""
) -> tuple[Share, str]:
    """A link as the page makes it, and its token."""
    about = lab.run.pk if kind == "run" else None if kind == "comparison" else lab.campaign.pk
    if kind == "comparison":
        query = query or f"campaign={lab.campaign.pk}"
    wish = links.check_target(lab.user, kind, about, query)
    return links.create_link(wish, lab.user, hide_hosts=hide)

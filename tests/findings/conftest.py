"""A campaign on two LVM stripes with a real plan and real facts, whose first run read more than its disks gave."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.plans import applied_part
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Measurement
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from tests.charts import made
from tests.topologies import plans

STRIPE = [
    plans.layer("lvm", {"type": "striped"}, data=("hdd", 4)),
    plans.layer("filesystem", {"type": "xfs"}),
]
OPTIONS = {"rw": "randread", "size": 1 << 30}
DISKS = ("sdb", "sdc", "sdd", "sde")


@pytest.fixture
def lab(team, user) -> SimpleNamespace:
    """Two repeats at each of two depths on two layouts; `attempt`: one with samples, of which a finding is certain."""
    where, facts = made.host(team), plans.many_disks()
    FactSnapshot.objects.create(host=where, facts=applied_part._converter.unstructure(facts))
    campaign, load = made.campaign(team), made.workload(team)
    load.options = OPTIONS
    load.save()
    attempts: list[Attempt] = []
    for name, top in (("one", 40000.0), ("two", 30000.0)):
        stack = made.topology(team, name)
        attempts += made.swept(campaign, where, stack, load, top=top, depths=(1, 4), repeats=2)
    for layout in campaign.layouts.all():
        layout.stack, layout.plan = STRIPE, applied_part.to_json(plans.made(STRIPE, facts))
        layout.save()
    attempts = list(Attempt.objects.filter(pk__in=[one.pk for one in attempts]).order_by("pk"))
    cached(attempts[0])
    return SimpleNamespace(
        team=team, user=user, host=where, campaign=campaign, load=load, attempts=attempts, attempt=attempts[0],
        run=attempts[0].run,
    )  # fmt: skip


def cached(attempt: Attempt, told: float = 400e6, each: float = 10e6) -> None:
    """The tool read `told` B/s, each of four disks gave `each`."""
    Measurement.objects.create(
        attempt=attempt, name="read.bandwidth", value=told, unit="B/s", line=1, output="fio.json"
    )
    attempt.series.bulk_create(
        [
            attempt.series.model(
                attempt=attempt, sampler="diskstats", device=name, metric="read.bandwidth", unit="B/s",
                times=[1.0, 2.0, 3.0, 4.0, 5.0], values=[each] * 5,
            )
            for name in DISKS
        ]
    )  # fmt: skip


@pytest.fixture
def viewer(team, django_user_model):
    person = django_user_model.objects.create_user("vera", password="vera-password")
    Membership.objects.create(team=team, user=person, role=Role.VIEWER)
    return person

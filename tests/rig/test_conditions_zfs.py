"""The same (test_conditions.py) for pools: a disk that is offline for a part of a run, and a property set between two
runs."""

from __future__ import annotations

import pytest

from benchlab.practice import DiskSpec, QemuHost
from benchlab.runs.models import Attempt
from tests.rig.blank import assert_blank
from tests.rig.test_conditions import CHANGED, ends, reasons
from tests.rig.test_degraded import campaign_on, until_first_is
from tests.runs import drive
from tests.topologies.plans import layer

__all__ = ["campaign_on"]
pytestmark = [pytest.mark.rig, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

DISKS = ("vdb", "vdc")
MIRROR = [layer("zpool", {"layout": "mirror"}, data=("ssd", 2)), layer("zfs", {})]


@pytest.fixture(scope="module")
def pool_host(make_zfs_host) -> QemuHost:
    host: QemuHost = make_zfs_host([DiskSpec(256, serial=f"COND-{name}") for name in DISKS])
    return host


def test_a_disk_that_was_offline_for_a_while_and_a_property_that_was_set(campaign_on, pool_host):
    campaign = campaign_on(pool_host, DISKS, MIRROR, "fio", on_degraded="measure")
    until_first_is("running", campaign)
    name = campaign.layouts.get().name
    away = f"sleep 1; zpool offline {name} vdc; sleep 2; zpool online {name} vdc"
    pool_host.ssh("sh", "-c", away)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="done").exists(), 120)
    first = Attempt.objects.order_by("run__position").first()
    assert first is not None and first.outcome == "succeeded", first
    says = [one["says"] for one in first.degraded]
    assert any(f"zpool: {name} is DEGRADED, for" in one for one in says), says
    pool_host.ssh("zfs", "set", "sync=disabled", f"{name}/data")
    drive.to_the_end(campaign, 300)
    assert ends()[1:] == [CHANGED, CHANGED]
    assert f"zfs sync of {name}/data was standard" in reasons()[2]
    assert "disabled before the run" in reasons()[2]
    assert_blank(pool_host, *DISKS)

"""Only a person gives a disk away, and only a free one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contracts import AgentError, Reason
from agents.facts.model import HostFacts
from agents.safety.guard import Spare, refusals
from benchlab.campaigns.models import Campaign
from benchlab.hosts import discovery, registration, spare_disks
from benchlab.hosts.models import Device, HostsError
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from tests.agents.made_up import wiping
from tests.hosts.conftest import disk, facts


@pytest.fixture
def sdb(read_host):
    return read_host.devices.get(name="sdb")


def test_a_confirmed_disk_is_spare_as_it_was_seen(read_host, sdb, user):
    spare_disks.mark_spare(sdb, user, " S-sdb ", "HDD")
    assert spare_disks.host_spares(read_host) == {
        "serial:S-sdb": Spare("serial:S-sdb", 2**30, "WDC WD40", "hdd", "b" * 36)
    }
    sdb.refresh_from_db()
    assert sdb.spare_by == user and sdb.spare_at


def test_a_disk_without_serial_is_typed_by_name_and_size(read_host, user):
    sdc = read_host.devices.get(name="sdc")
    assert spare_disks.mark_spare(sdc, user, f"sdc:{2**30}", "hdd").spare


@pytest.mark.parametrize(
    "typed, role, said",
    [
        ("S-sda", "hdd", "Nothing was changed"),
        ("", "hdd", "Nothing was changed"),
        ("S-sdb", "", "Role"),
        ("S-sdb", "hot disk", "Role"),
    ],
)
def test_a_wrong_word_changes_nothing(sdb, user, typed, role, said):
    with pytest.raises(HostsError, match=said):
        spare_disks.mark_spare(sdb, user, typed, role)
    sdb.refresh_from_db()
    assert not sdb.spare


def test_a_disk_in_use_is_refused(read_host, user):
    with pytest.raises(HostsError, match="running system"):
        spare_disks.mark_spare(read_host.devices.get(name="sda"), user, "S-sda", "hdd")


def test_a_disk_that_came_into_use_meanwhile_is_refused(read_host, sdb, user):
    discovery.store_facts(read_host, facts(disk("sdb", mounts=("/data",))))
    with pytest.raises(HostsError, match="mounted at /data"):
        spare_disks.mark_spare(sdb, user, "S-sdb", "hdd")


def test_a_pulled_disk_is_refused(read_host, sdb, user):
    discovery.store_facts(read_host, facts())
    with pytest.raises(HostsError, match="no longer in"):
        spare_disks.mark_spare(sdb, user, "S-sdb", "hdd")


def test_old_facts_are_read_again_first(read_host, sdb, user, monkeypatch):
    read_host.snapshots.update(seen_at=timezone.now() - timedelta(hours=1))

    def unreachable(host):
        raise AgentError("lab1: timed out", Reason.TIMED_OUT)

    monkeypatch.setattr("benchlab.hosts.ssh_access.connect_to_host", unreachable)
    with pytest.raises(AgentError, match="timed out"):
        spare_disks.mark_spare(sdb, user, "S-sdb", "hdd")
    sdb.refresh_from_db()
    assert not sdb.spare


@pytest.fixture
def layout(read_host, team):
    topology = Topology.objects.create(team=team, name="raw", stack=[])
    campaign = Campaign.objects.create(team=team, name="c", seed=1)
    return Layout.objects.create(
        campaign=campaign,
        host=read_host,
        topology=topology,
        stack=[],
        plan={"target": {"devices": {"data": [{"identity": "serial:S-sdb"}]}}},
    )


@pytest.mark.parametrize("phase, kept", [("ready", True), ("draft", False)])
def test_a_disk_under_a_layout_cannot_be_taken_back(sdb, user, layout, phase, kept):
    spare_disks.mark_spare(sdb, user, "S-sdb", "hdd")
    Layout.objects.filter(pk=layout.pk).update(phase=phase)
    if kept:
        with pytest.raises(HostsError, match=layout.name):
            spare_disks.unmark_spare(sdb)
    else:
        spare_disks.unmark_spare(sdb)
    sdb.refresh_from_db()
    assert sdb.spare is kept


def test_a_host_with_layouts_stays(layout, read_host):
    with pytest.raises(HostsError, match="has runs"):
        registration.delete_host(read_host)


def booted(read_host) -> HostFacts:
    """The same disks, in another boot."""
    now = facts(disk("sdb"), disk("sdc", serial="", model="QEMU HARDDISK"), boot_id="c" * 36)
    discovery.store_facts(read_host, now)
    return now


def why(read_host, name: str, now: HostFacts) -> str:
    device = now.find_device(name)
    assert device is not None
    return "; ".join(refusals(wiping(device), now, spare_disks.host_spares(read_host), "bl17"))


def test_a_disk_known_by_its_name_only_is_spare_until_the_next_boot(read_host, user):
    """Then what was sdd may be sdc, in the same size and model."""
    sdb, sdc = (read_host.devices.get(name=name) for name in ("sdb", "sdc"))
    spare_disks.mark_spare(sdb, user, "S-sdb", "hdd")
    sdc = spare_disks.mark_spare(sdc, user, f"sdc:{2**30}", "hdd")
    assert not sdc.lapsed
    now = booted(read_host)
    assert why(read_host, "sdb", now) == ""
    assert "was booted since it was marked spare" in why(read_host, "sdc", now)
    assert sdc.lapsed
    sdc = spare_disks.mark_spare(sdc, user, f"sdc:{2**30}", "hdd")
    assert not sdc.lapsed and why(read_host, "sdc", now) == ""


def test_a_mark_of_before_boots_were_kept_has_to_be_given_again(read_host, user):
    sdc = spare_disks.mark_spare(read_host.devices.get(name="sdc"), user, f"sdc:{2**30}", "hdd")
    Device.objects.filter(pk=sdc.pk).update(spare_boot="")
    sdc.refresh_from_db()
    latest = discovery.facts_of(read_host.snapshots.first())
    assert sdc.lapsed and "mark it spare again" in why(read_host, "sdc", latest)

"""Only a person gives a disk away, and only a free one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contracts import AgentError, Reason
from agents.guard import Spare
from benchlab.campaigns.models import Campaign
from benchlab.hosts import discovery, services
from benchlab.hosts.errors import HostsError
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from tests.hosts.conftest import disk, facts


@pytest.fixture
def sdb(read_host):
    return read_host.devices.get(name="sdb")


def test_a_confirmed_disk_is_spare_as_it_was_seen(read_host, sdb, user):
    services.mark_spare(sdb, user, " S-sdb ", "HDD")
    assert services.spares(read_host) == {
        "serial:S-sdb": Spare("serial:S-sdb", 2**30, "WDC WD40", "hdd")
    }
    sdb.refresh_from_db()
    assert sdb.spare_by == user and sdb.spare_at


def test_a_disk_without_serial_is_typed_by_name_and_size(read_host, user):
    sdc = read_host.devices.get(name="sdc")
    assert services.mark_spare(sdc, user, f"sdc:{2**30}", "hdd").spare


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
        services.mark_spare(sdb, user, typed, role)
    sdb.refresh_from_db()
    assert not sdb.spare


def test_a_disk_in_use_is_refused(read_host, user):
    with pytest.raises(HostsError, match="running system"):
        services.mark_spare(read_host.devices.get(name="sda"), user, "S-sda", "hdd")


def test_a_disk_that_came_into_use_meanwhile_is_refused(read_host, sdb, user):
    discovery.store(read_host, facts(disk("sdb", mounts=("/data",))))
    with pytest.raises(HostsError, match="mounted at /data"):
        services.mark_spare(sdb, user, "S-sdb", "hdd")


def test_a_pulled_disk_is_refused(read_host, sdb, user):
    discovery.store(read_host, facts())
    with pytest.raises(HostsError, match="no longer in"):
        services.mark_spare(sdb, user, "S-sdb", "hdd")


def test_old_facts_are_read_again_first(read_host, sdb, user, monkeypatch):
    read_host.snapshots.update(taken_at=timezone.now() - timedelta(hours=1))

    def unreachable(host):
        raise AgentError("lab1: timed out", Reason.TIMED_OUT)

    monkeypatch.setattr("benchlab.hosts.contact.connect", unreachable)
    with pytest.raises(AgentError, match="timed out"):
        services.mark_spare(sdb, user, "S-sdb", "hdd")
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
    services.mark_spare(sdb, user, "S-sdb", "hdd")
    Layout.objects.filter(pk=layout.pk).update(phase=phase)
    if kept:
        with pytest.raises(HostsError, match=layout.name):
            services.unmark_spare(sdb)
    else:
        services.unmark_spare(sdb)
    sdb.refresh_from_db()
    assert sdb.spare is kept


def test_a_host_with_layouts_stays(layout, read_host):
    with pytest.raises(HostsError, match="has runs"):
        services.delete_host(read_host)

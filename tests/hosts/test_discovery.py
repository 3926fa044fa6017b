"""Keeping a reading of a host."""

from __future__ import annotations

import pytest

from agents.contracts import AgentError, Reason
from agents.facts.model import Signature
from benchlab.hosts import discovery, spare_disks, ssh_access
from benchlab.hosts.models import Device, Host
from tests.agents.local_shell import LocalShell
from tests.hosts.conftest import disk, facts


def device(host: Host, name: str) -> Device:
    return host.devices.get(name=name, present=True)


def test_facts_survive_storage(read_host):
    given = facts(disk("sdb", signatures=(Signature("xfs", 0, "bl17", "u"),)))
    snapshot = discovery.store_facts(read_host, given)
    snapshot.refresh_from_db()
    assert discovery.facts_of(snapshot) == given


def test_an_equal_reading_is_no_row_of_its_own(read_host):
    before = read_host.snapshots.get()
    same = facts(disk("sdb"), disk("sdc", serial="", model="QEMU HARDDISK"))
    again = discovery.store_facts(read_host, same)
    assert again == before and again.read_at > before.read_at
    assert again.facts == before.facts and discovery.facts_of(again) == same
    assert read_host.snapshots.get().read_at == again.read_at


def test_what_changed_back_is_told_in_order(read_host):
    one, other = facts(disk("sdb")), facts(disk("sdb"), tools={})
    taken = [discovery.store_facts(read_host, given) for given in (one, other, one)]
    assert len(set(taken)) == 3
    assert [discovery.facts_of(row).tools for row in read_host.snapshots.all()[:3]] == [
        one.tools, {}, one.tools,
    ]  # fmt: skip


def test_a_reading_of_many_disks_writes_only_what_changed(read_host, django_assert_max_num_queries):
    many = [disk(f"sd{letter}") for letter in "bcdefghijklm"]
    discovery.store_facts(read_host, facts(*many))
    with django_assert_max_num_queries(7):  # with BEGIN and COMMIT as savepoints of the test
        discovery.store_facts(read_host, facts(*many))
    other = [disk(f"sd{letter}", size=2**31) for letter in "cdefghijklmn"]
    with django_assert_max_num_queries(8):  # eleven changed, one went, one came
        discovery.store_facts(read_host, facts(*other))
    assert {device(read_host, one.name).size for one in other} == {2**31}
    assert read_host.devices.get(name="sdb").present is False


def test_what_a_person_said_of_a_disk_outlives_its_readings(read_host, user):
    spare_disks.mark_spare(device(read_host, "sdb"), user, "S-sdb", "hdd")
    discovery.store_facts(read_host, facts(disk("sdb", size=2**31)))
    row = device(read_host, "sdb")
    assert (row.spare, row.role, row.size, row.spare_size) == (True, "hdd", 2**31, 2**30)


def test_this_machine_is_read(host):
    host.trouble = Reason.TIMED_OUT
    snapshot = discovery.read_facts(host, LocalShell())
    assert discovery.facts_of(snapshot).kernel
    host.refresh_from_db()
    assert host.seen_at and not host.trouble


def test_only_whole_disks_become_devices(read_host):
    assert {d.name for d in read_host.devices.all()} == {"sda", "sdb", "sdc"}


def test_the_guards_words_say_why_a_disk_is_in_use(read_host):
    assert "running system" in device(read_host, "sda").in_use
    assert device(read_host, "sdb").in_use == ""


def test_a_renamed_disk_keeps_its_role(read_host, user):
    spare_disks.mark_spare(device(read_host, "sdb"), user, "S-sdb", "hdd")
    discovery.store_facts(read_host, facts(disk("sdz", serial="S-sdb")))
    moved = device(read_host, "sdz")
    assert moved.spare and moved.role == "hdd"
    assert read_host.devices.filter(name="sdb").count() == 0


def test_a_pulled_disk_is_absent_and_remembered(read_host):
    discovery.store_facts(read_host, facts())
    assert not read_host.devices.get(name="sdb").present


def test_twins_are_one_row_that_says_so(read_host):
    discovery.store_facts(read_host, facts(disk("sdb", serial="SAME"), disk("sdc", serial="SAME")))
    twins = read_host.devices.get(serial="SAME")
    assert "two disks with one serial" in twins.in_use


def test_without_root_no_disk_can_be_spare(read_host):
    discovery.store_facts(
        read_host, facts(disk("sdb"), sudo=False, unknown=("signatures: no root",))
    )
    assert "no root" in device(read_host, "sdb").in_use


def test_control_characters_of_a_host_are_not_kept(read_host):
    discovery.store_facts(read_host, facts(disk("sdb", model="\x1b[31mEvil\x00\u202e<b>")))
    model = device(read_host, "sdb").model
    assert model == "\N{REPLACEMENT CHARACTER}[31mEvil" + "\N{REPLACEMENT CHARACTER}" * 2 + "<b>"


def test_a_host_that_does_not_answer_is_remembered(read_host, monkeypatch):
    def refuse(host):
        raise AgentError("lab1: refused", Reason.CONNECTION_REFUSED)

    monkeypatch.setattr("benchlab.hosts.ssh_access.connect_to_host", refuse)
    with pytest.raises(AgentError):
        discovery.read_facts(read_host)
    read_host.refresh_from_db()
    assert (read_host.trouble, read_host.trouble_text) == ("connection_refused", "lab1: refused")


def test_long_reasons_are_left_out_whole(read_host):
    mounts = tuple(f"/{'very-long-name' * 4}-{n}" for n in range(6))
    discovery.store_facts(read_host, facts(disk("sdb", mounts=mounts)))
    said = device(read_host, "sdb").in_use
    assert len(said) <= 255 and said.endswith("unmount it if it is no longer needed")


def test_what_does_not_tell_of_the_host_is_no_trouble_of_it(read_host):
    ssh_access.record_trouble(read_host, AgentError("fio: bad option", Reason.TOOL_FAILED))
    assert not read_host.trouble

"""The QEMU host itself, on the real thing: its disks, its faults, and OpenZFS in it."""

from __future__ import annotations

import json

import pytest

from agents.facts import reading
from benchlab.practice import DiskSpec, PracticeError, QemuHost, UmlHost, open_host
from tests.rig.bench import shell_on
from tests.rig.test_rig_host import silent_until_healed

SERIALS = {
    **{f"vd{letter}": f"ZFS-DISK-{number}" for number, letter in enumerate("bcde", start=1)},
    "vdf": "ZFS-CAPPED",
}


def _shown(host: QemuHost, column: str) -> dict[str, str]:
    listed = host.ssh("lsblk", "--nodeps", "-J", "-o", f"NAME,{column}").stdout
    return {disk["name"]: disk[column.lower()] for disk in json.loads(listed)["blockdevices"]}


def test_it_boots_with_its_disks_and_their_serials(zfs_host):
    assert {
        name: serial for name, serial in _shown(zfs_host, "SERIAL").items() if name != "vda"
    } == SERIALS
    assert _shown(zfs_host, "SIZE")["vdb"] == "512M"
    assert zfs_host.ssh("hostname").stdout.strip() == zfs_host.name


@pytest.mark.parametrize(("user", "code"), [("lab", 0), ("nosudo", 1)])
def test_only_lab_may_sudo(zfs_host, user, code):
    assert zfs_host.ssh("sudo", "-n", "true", user=user, check=False).returncode == code


@pytest.mark.alone
@pytest.mark.parametrize("depth", [4, 16])
def test_a_capped_disk_gives_its_cap_whatever_is_outstanding(zfs_host, depth):
    out = zfs_host.ssh(
        *("fio", "--name=x", "--filename=/dev/vdf", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=libaio", f"--iodepth={depth}", "--ramp_time=1", "--runtime=4"),
        *("--time_based", "--output-format=json"),
    ).stdout
    # Above the cap QEMU lets through only what was saved up in 0.1 s; a busy machine may stay below it.
    assert 250 < json.loads(out)["jobs"][0]["read"]["iops"] < 550


def test_a_capped_disk_is_not_for_user_mode_linux():
    with pytest.raises(PracticeError, match="cannot cap"):
        UmlHost("rig-capped").start([DiskSpec(16, iops=500)])


def test_our_facts_read_it(zfs_host):
    facts = reading.read_facts(shell_on(zfs_host))
    assert {name: facts.find_device(name).serial for name in SERIALS} == SERIALS
    assert facts.find_device("vdb").size == 512 << 20


def test_a_cut_network_is_silent_until_healed(zfs_host):
    silent_until_healed(zfs_host)


def test_power_loss_keeps_what_was_synced(zfs_host):
    key, port = zfs_host.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").stdout, zfs_host.port
    zfs_host.ssh("dd", "if=/dev/stdin", "of=/dev/vdb", "conv=fsync", stdin="kept".ljust(512))
    zfs_host.ssh("dd", "if=/dev/stdin", "of=/root/kept", "conv=fsync", stdin="on the root")
    zfs_host.kill()
    assert not zfs_host.running
    open_host(zfs_host.name).restart()
    assert zfs_host.ssh("head", "-c", "4", "/dev/vdb").stdout == "kept"
    assert zfs_host.ssh("cat", "/root/kept").stdout == "on the root"
    assert zfs_host.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").stdout == key
    assert zfs_host.port == port


def test_a_pool_with_a_log_is_made_exported_imported_and_destroyed(zfs_host):
    zfs_host.ssh("wipefs", "-qa", "/dev/vdb")
    zfs_host.ssh("zpool", "create", "-o", "ashift=12", "tank", "vdb", "vdc", "log", "vdd")
    zfs_host.ssh("dd", "if=/dev/stdin", "of=/tank/kept", "conv=fsync", stdin="in the pool")
    zfs_host.ssh("zfs", "create", "-V", "64M", "-o", "volblocksize=8K", "tank/vol")
    zfs_host.ssh("udevadm", "settle")
    assert zfs_host.ssh("blockdev", "--getsize64", "/dev/zvol/tank/vol").stdout == f"{64 << 20}\n"
    zfs_host.ssh("zpool", "export", "tank")
    assert "no pools" in zfs_host.ssh("zpool", "list").stdout
    zfs_host.ssh("zpool", "import", "tank")
    assert zfs_host.ssh("cat", "/tank/kept").stdout == "in the pool"
    assert "logs" in zfs_host.ssh("zpool", "status", "tank").stdout
    zfs_host.ssh("zpool", "destroy", "tank")
    # OpenZFS takes a whole disk by partitions, and leaves them: what a teardown has to know.
    for name in ("vdb", "vdc", "vdd"):
        seen = zfs_host.ssh("lsblk", "-n", "-r", "-o", "NAME", f"/dev/{name}").stdout.split()
        assert seen == [name, f"{name}1", f"{name}9"]
        zfs_host.ssh("zpool", "labelclear", "-f", f"/dev/{name}1")
        zfs_host.ssh("wipefs", "-qa", f"/dev/{name}1")
        zfs_host.ssh("udevadm", "settle")  # or udev has the partition open, and the kernel keeps it
        zfs_host.ssh("sgdisk", "--zap-all", f"/dev/{name}")
    zfs_host.ssh("sh", "-c", "udevadm settle; wipefs -qa /dev/vdb /dev/vdc /dev/vdd")

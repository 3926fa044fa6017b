"""Devices that the kernel has open: targets, DRBD, zram, journals, loops.

LIO's fileio and iblock, nvmet, zram, DRBD 8.4 and losetup are as Linux 6.1 printed them; the rest is made up from the
kernel's sources.
"""

from __future__ import annotations

import pytest

from agents.contracts import AgentError
from agents.facts import reading
from agents.facts.model import HostFacts
from tests.agents.linux_host import device, extra, output, sysfs

LIO = "/sys/kernel/config/target/core"
NVMET = "/sys/kernel/config/nvmet/subsystems"
FILEIO = """{0}/info:Status: DEACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 16384
{0}/info:        TCM FILEIO ID: 0        File: {1}  Size: 536870912  Mode: O_DSYNC Async: 0
{0}/udev_path:{1}"""
IBLOCK = """{0}/info:Status: DEACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 248
{0}/info:        iBlock device: sda  UDEV PATH: /dev/x  readonly: 0
{0}/info:        {1}
{0}/udev_path:/dev/x"""
PSCSI = """{0}/info:Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 248
{0}/info:        SCSI Device Bus Location: Channel ID: 0 Target ID: 1 LUN: 2 Host ID: 3
{0}/udev_path:/dev/sg1"""
DISK = "5 611 8 0 61b0 {}"
FILE = "65025 12 0 0 81a4 {}"
DIRECTORY = "26 2 0 0 41ed {}"
DRBD = """resource r0 {
    options {
    }
    _this_host {
        volume 0 {
            device\t\t\tminor 0;
            disk\t\t\t"/dev/sda";
            meta-disk\t\t\t"/x/meta" [0];
            disk {
            }
        }
    }
}"""


def parse(*files: str, **sections: str | tuple[str, int, str]) -> HostFacts:
    return reading.parse_linux_facts(output(files="+" + "\n".join(files), **sections))


def uses(facts: HostFacts, name: str = "sda") -> list[str]:
    found = facts.find_device(name)
    assert found is not None
    return [opener.use for opener in found.openers]


SERVED = {
    "fileio": (FILEIO.format(f"{LIO}/fileio_0/lun:0", "/x/y z"), "kernel's SCSI target as fileio_0/lun:0"),
    "iblock": (
        IBLOCK.format(f"{LIO}/iblock_3/a", "Major: 8 Minor: 0  CLAIMED: IBLOCK"),
        "kernel's SCSI target as iblock_3/a",
    ),
    "iblock, not enabled": (
        IBLOCK.format(f"{LIO}/iblock_3/a", "Major: 0 Minor: 0").replace("/dev/x", "/x/y z"),
        "kernel's SCSI target as iblock_3/a",
    ),
    "nvmet": (f"{NVMET}/nqn.2014:uuid:1/namespaces/7/device_path:/x/y z", "NVMe target as nqn.2014:uuid:1/7"),
    "USB": ("/sys/kernel/config/usb_gadget/g/functions/mass_storage.0/lun.0/file:/x/y z", "USB gadget g"),
    "SCST": (
        "/sys/kernel/scst_tgt/devices/d/filename:/x/y z\n/sys/kernel/scst_tgt/devices/d/filename:[key]",
        "SCST as d",
    ),
    "zram": ("/sys/class/block/zram0/backing_dev:/x/y z", "the backing device of /dev/zram0"),
    "bcachefs": ("/sys/fs/bcachefs/u-1/dev-0/block/dev:8:0", "the running bcachefs u-1"),
    "RNBD": ("/sys/class/rnbd-server/ctl/devices/d/block_dev/dev:8:0", "RNBD server as d"),
    "Xen": ("/sys/bus/xen-backend/devices/vbd-1-51712/physical_device:8:0", "Xen guest (vbd-1-51712)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SERVED)
def test_what_the_kernel_serves_is_open_whatever_its_path(kind):
    files, said = SERVED[kind]
    facts = parse(files, backing=DISK.format("/x/y z"))
    assert [said in use for use in uses(facts)] == [True] and facts.unknown == ()
    assert uses(facts, "sda2") == []


@pytest.mark.parametrize("kind", ["fileio", "iblock, not enabled", "nvmet", "USB", "SCST", "zram"])
@pytest.mark.parametrize(
    ("backing", "unknown"),
    [
        (FILE.format("/x/y z"), False),
        (DIRECTORY.format("/x/y z"), True),
        ("", True),
        (("", 127, "sh: stat: not found"), True),
        (None, True),
    ],
)
def test_a_path_to_a_file_concerns_no_disk_and_one_to_nowhere_concerns_all(kind, backing, unknown):
    facts = parse(SERVED[kind][0], backing=backing)
    assert uses(facts) == []
    assert bool(facts.unknown) == unknown and all("'/x/y z'" in what for what in facts.unknown)


def test_a_path_counts_in_every_mount_namespace():
    """A container has another disk by that name, and may be who set the export up."""
    over = {"backing": DISK.format("/proc/77/root/dev/x") + "\n" + "26 2 8 2 61b0 /dev/x"}
    facts = parse(FILEIO.format(f"{LIO}/fileio_0/l", "/dev/x"), **over)
    assert len(uses(facts)) == len(uses(facts, "sda2")) == 1


def test_a_back_end_without_a_disk_concerns_none():
    memory = f"{LIO}/rd_mcp_0/r/info:Status: ACTIVATED\n{LIO}/user_0/u/udev_path:/no/such"
    idle = f"{NVMET}/n/namespaces/1/device_path:(null)\n/sys/class/block/zram0/backing_dev:none"
    new = FILEIO.format(f"{LIO}/fileio_0/l", "").replace("Size: 536870912", "Size: 0")
    facts = parse(memory, idle, new)
    assert facts.unknown == () and uses(facts) == []


def test_scsi_devices_that_the_target_passes_through():
    place = "+/sys/class/scsi_device/3:0:1:2/device/block/"
    text = PSCSI.format(f"{LIO}/pscsi_0/p")
    assert "pscsi_0/p" in uses(parse(text, served=place + "sda"))[0]
    tape = parse(text, served=place.replace("3:", "4:") + "sda")
    assert tape.unknown == () and uses(tape) == []


@pytest.mark.parametrize("path", ["nvme1n1", "nvme1c0n1"])
def test_a_controller_that_the_target_passes_through_is_all_its_disks(path):
    text = f"{NVMET}/n/passthru/device_path:/dev/nvme0"
    disk = extra("nvme1n1", "259:0")
    sections = {
        "served": f"/sys/class/nvme/nvme0/{path}",
        "backing": "5 20 f1 0 2180 /dev/nvme0",
        "lsblk": disk["lsblk"],
    }
    assert "NVMe target as n" in uses(parse(text, disk["files"][1:], **sections), "nvme1n1")[0]
    lost = parse(text, disk["files"][1:], **sections | {"served": ""})
    assert "leads nowhere" in lost.unknown[0]


def test_disks_below_drbd():
    paths = DISK.format("/dev/sda") + "\n5 612 8 2 61b0 /x/meta"
    facts = parse(drbd=DRBD, backing=paths)
    assert uses(facts) == uses(facts, "sda2") == ["is a disk of the DRBD resource r0"]
    unread = parse(served="/sys/class/block/drbd0")
    assert "drbdsetup" in unread.unknown[0]
    assert parse(served="/sys/class/block/drbd[0-9]*\n/sys/module/drbd").unknown == ()


def test_disks_that_are_bound_to_raw_devices():
    there = "/sys/class/raw/raw1"
    bound = parse(served=there, raw="/dev/raw/raw1:\tbound to major 8, minor 0")
    assert uses(bound) == ["is bound to /dev/raw/raw1"] and bound.unknown == ()
    unread = parse(served=there, raw=("", 127, "sh: raw: not found"))
    assert "raw -qa" in unread.unknown[0]
    with pytest.raises(AgentError, match="raw, line 1"):
        parse(served=there, raw="what")


def test_journals_on_disks_of_their_own():
    facts = parse(served="/proc/fs/jbd2/sda2-8\n/proc/fs/jbd2/sda")
    assert (
        uses(facts) == ["is the journal of a mounted ext4 or ocfs2"] and uses(facts, "sda2") == []
    )


@pytest.mark.parametrize(("module", "root"), [("target_core_mod", "target"), ("nvmet", "nvmet")])
def test_a_target_without_configfs_is_unknown(module, root):
    facts = parse(served=f"/sys/module/{module}\n/sys/kernel/config/{root[:-1]}[{root[-1]}]")
    assert f"{module} exports" in facts.unknown[0] and "mount -t configfs" in facts.unknown[0]
    there = f"/sys/module/{module}\n/sys/kernel/config/{root}\n/sys/class/nvme/nvme*/nvme*n*"
    assert parse(served=there).unknown == ()
    lun = f"{LIO}/iblock_0/l/info"
    assert parse(served=there + "\n" + lun).unknown == (
        f"what the kernel exports: {lun} could not be read",
    )


LOG = "30 27 8:99 / /x rw - xfs /dev/sdz rw,logdev=/x/log"


@pytest.mark.parametrize("where", ["/proc/self/mountinfo:", "/proc/77/mountinfo:"])
def test_the_log_of_an_xfs_by_any_path(where):
    section = "files" if "self" in where else "picked"
    facts = reading.parse_linux_facts(
        output(**{section: "+" + where + LOG}, backing=DISK.format("/x/log"))
    )
    assert facts.find_device("sda").mounts == ("/x",) and facts.unknown == ()
    lost = reading.parse_linux_facts(output(**{section: "+" + where + LOG}))
    assert "mounted at /x uses as '/x/log'" in lost.unknown[0]


LOSETUP = "NAME       BACK-MAJ:MIN BACK-INO\n/dev/loop0        {}      {}"


def loop(path: str, size: int = 2097152, **values: str) -> dict:
    """Sections with a loop device as large as sda, unless it is said."""
    more = {f"loop/{key}": value for key, value in values.items()}
    return extra("loop0", "7:0", {"TYPE": "loop"}, **{"loop/backing_file": path}, **more) | {
        "files": "+" + "\n".join(sysfs("loop0", "7:0", size, **{"loop/backing_file": path}, **more))
    }


@pytest.mark.parametrize("path", ["/x/vd", "/dev/y", "/dev/sda2"])
def test_a_loop_stands_on_the_device_that_its_path_leads_to(path):
    sections = loop(path) | {"backing": DISK.format(path), "losetup": LOSETUP.format("0:5", 611)}
    facts = reading.parse_linux_facts(output(**sections))
    assert facts.find_device("loop0").parents == ("sda",) and facts.find_device("sda").holders == (
        "loop0",
    )
    assert uses(facts) == []


def test_a_loop_whose_path_leads_to_another_device_here_may_stand_on_either():
    """A container's /dev/sda2 is what the host calls sda."""
    path = {"backing": "5 9 8 2 61b0 /dev/sda2", "losetup": LOSETUP.format("0:44", 3)}
    facts = reading.parse_linux_facts(output(**loop("/dev/sda2") | path))
    assert facts.find_device("loop0").parents == ("sda2",)
    assert "as large as what /dev/loop0 stands on" in uses(facts)[0]


@pytest.mark.parametrize(
    ("size", "values", "held"),
    [
        (2097152, {}, True),
        (2097088, {"offset": "32768"}, True),
        (2097088, {"offset": "0"}, False),
        (4096, {}, False),
        (4096, {"sizelimit": "2097152"}, True),
        (4194304, {"sizelimit": "2147483648"}, False),
    ],
)
def test_a_loop_over_what_is_gone_holds_what_is_as_large(size, values, held):
    gone = loop("/x/vd (deleted)", size, **values) | {"losetup": LOSETUP.format("0:26", 2)}
    facts = reading.parse_linux_facts(output(**gone))
    assert bool(uses(facts)) == held and facts.unknown == ()
    assert uses(facts, "loop0") == []


@pytest.mark.parametrize("losetup", [LOSETUP.format("254:1", 12), None])
def test_a_loop_over_a_file_holds_a_disk_only_where_nobody_knows_that_it_is_the_file(losetup):
    sections = loop("/root/a") | {"backing": FILE.format("/root/a"), "losetup": losetup}
    facts = reading.parse_linux_facts(output(**sections))
    assert facts.find_device("loop0").parents == ()
    assert bool(uses(facts)) == (losetup is None)


def test_a_path_with_a_line_break_is_no_other_path():
    forged = "5 9 8 2 61b0 /x/a\n65025 12 0 0 81a4 /dev/y"
    sections = loop("/dev/y") | {
        "backing": forged + "\n" + DISK.format("/dev/y"),
        "losetup": LOSETUP.format("254:1", 12),
    }
    assert device("loop0", **sections).parents == ("sda",)

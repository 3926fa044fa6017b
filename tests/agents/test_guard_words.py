"""The guard reads every word of a command and of a job: none may name a disk that is not claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import Secret, Step, Target
from agents.facts.graph import Graph
from agents.safety.guard import job_refusals, refusals
from benchlab.testing.profiles import examples
from tests.agents.made_up import GIB, LAYOUT, claim, disk, host, part, spare, wiping


@pytest.mark.parametrize(
    "argv",
    [
        ("wipefs", "-a", "/dev/sdc"),
        ("dd", "of=/dev/sdc"),
        ("fio", "--filename=/dev/sdb:/dev/sdc"),
        ("fio", "--filename=/dev/disk/by-id/ata-C"),
        ("mkfs.xfs", "-l", "logdev=/dev/sdc,size=1g", "/dev/sdb"),
        ("dd", "of=/dev//sdc"),
        ("dd", "of=/dev/./sdc"),
        ("dd", "of=//dev/sdc"),
        ("dd", "of=../../dev/sdc"),
        ("dd", "of=/dev/sdb/../sdc"),
        ("dd", "of=/proc/self/root/dev/sdc"),
        ("dd", "of=/dev/sdz"),
        ("dd", "of=/dev/sdb9"),
        ("dd", "of=/sys/dev/sdc"),
        ("tee", "/sys/dev/block/8:32/queue/scheduler"),
        ("zpool", "create", "bl17", "sdc"),
        ("dmsetup", "remove", "cryptdata"),
        ("vgremove", "-y", "vg0"),
        ("lvremove", "-y", "vg0/data"),
        ("dmsetup", "create", "x", "--table", "0 8 linear 8:32 0"),
        ("mount", "UUID=1234", "/mnt"),
        ("sh", "-c", "echo 1 >/sys/block/sdc/device/delete"),
        ("sh", "-c", "cat x >/dev/$disk"),
        ("/tmp/lsblk", "/dev/sdc"),
        ("env", "lsblk", "/dev/sdc"),
        ("mkfs.xfs", Secret("/dev/sdc")),
    ],
)
def test_no_word_may_name_a_disk_that_is_not_claimed(argv):
    mine, other = disk("sdb"), disk("sdc", 2, links=["/dev/disk/by-id/ata-C"])
    crypt = disk("dm-5", type="crypt", path="/dev/mapper/cryptdata", majmin="253:5", serial="",
                 parents=["sdd"])  # fmt: skip
    there = host(mine, other, crypt, disk("sdd", 3, holders=["dm-5"]), members={"sdd": "lvm vg0"})
    for destroys in ((claim(mine),), ()):
        assert refusals(Step(argv, "", destroys=destroys), there, spare(mine), LAYOUT), destroys


@pytest.mark.parametrize(
    "argv",
    [
        ("wipefs", "--all", "/dev/sdb"),
        ("dd", "if=/dev/zero", "of=/dev/disk/by-path/pci-0000:00:1f.2-ata-1"),
        ("fio", "--filename=/dev/sdb:/dev/sdb1"),
        ("mkfs.ext4", "-L", "bl17", "/dev/sdb"),
    ],
)
def test_words_that_name_the_claimed_disk_pass(argv):
    mine = disk("sdb", links=["/dev/disk/by-path/pci-0000:00:1f.2-ata-1"])
    assert refusals(wiping(mine, *argv), host(mine, part()), spare(mine), LAYOUT) == []


def test_looking_is_free():
    for argv in (
        ("lsblk", "/dev/sdc"),
        ("udevadm", "settle"),
        ("/usr/sbin/blkid", "-p", "/dev/sdc"),
    ):
        assert refusals(Step(argv, ""), host(disk("sdc")), {}, LAYOUT) == []


RAW = Target(LAYOUT, {"data": (claim(disk("sdb")),)}, volume="/dev/sdb", size=GIB)
ON_MOUNT = replace(RAW, mount="/mnt/benchlab/bl17")


def job(argv, target, files=None, device=None):
    device = device or disk("sdb")
    return job_refusals(argv, files or {}, target, host(device, disk("sdc", 2)), spare(device), LAYOUT)  # fmt: skip


def test_a_tool_may_destroy_the_raw_disk_of_its_layout_and_no_other():
    assert job(["fio", "--filename=/dev/sdb"], RAW) == []
    assert job(["fio", "--filename=/dev/sdc"], RAW)
    assert job(["fio", "--filename=/dev/sdb"], RAW, device=disk("sdb", mounts=["/data"]))


@pytest.mark.parametrize(
    "text",
    [
        "[j]\nfilename=/dev/sdc\n",
        "[/dev/sdc]\nrw=write\n",
        "[j]\nfilename=/etc/passwd\n",
        "[j]\ndirectory = /home\n",
        "[j]\nfilename=${DISK}\n",
        "[j]\nexec_prerun=rm -rf /home\n",
        "[j]\ndirectory=/mnt/benchlab/bl17/../../../etc\n",
        "[j]\nreplay_redirect=/dev/sdb\n",
    ],
)
def test_a_job_file_cannot_leave_the_layouts_mount(text):
    assert job(["fio", "job.fio"], ON_MOUNT, {"job.fio": text.encode()})


def test_a_job_inside_the_mount_passes():
    text = b"[data]\ndirectory=/mnt/benchlab/bl17\nrw=randread\n"
    mine = disk("sdb", mounts=["/mnt/benchlab/bl17"])
    assert job(["fio", "job.fio"], ON_MOUNT, {"job.fio": text}, mine) == []
    assert job(["dd", "if=/dev/zero", "of=/mnt/benchlab/bl17/f"], ON_MOUNT, device=mine) == []
    assert job(["dd", "if=/dev/zero", "of=/mnt/benchlab/bl17/f", "seek=/dev/sdb"], ON_MOUNT, device=mine)  # fmt: skip
    assert job(["dd", "if=/dev/zero", 'of="/etc/passwd"'], ON_MOUNT, device=mine)
    assert job(["dd", "if=/dev/zero", "of='/mnt'/../etc/passwd"], ON_MOUNT, device=mine)


@settings(max_examples=examples(500), deadline=None)
@given(prefix=st.text(max_size=4), suffix=st.text(max_size=3))
def test_a_foreign_device_is_found_inside_any_word(prefix, suffix):
    there = host(disk("sdb"), disk("sdc", 2))
    word = f"{prefix}/dev/sdc{suffix}"
    assert refusals(wiping(disk("sdb"), "dd", word), there, spare(disk("sdb")), LAYOUT)


LINK = "/dev/disk/by-partlabel/bl17-data-1"


def two_partitions(foreign: str, ours: str):
    """Each disk has a partition, and udev notes our label for both."""
    disks = [disk(name, number) for number, name in enumerate((foreign, ours), 1)]
    parts = [
        disk(f"{d.name}1", 10 + i, type="part", serial="", parents=[d.name], links=[LINK])
        for i, d in enumerate(disks)
    ]
    there = host(*sorted((*disks, *parts), key=lambda d: d.name))
    return there, disks[1]


@pytest.mark.parametrize("names", [("sdb", "sdc"), ("sdc", "sdb")])
@pytest.mark.parametrize("claimed", [True, False])
def test_a_link_of_two_devices_leads_nowhere_for_certain(names, claimed):
    there, ours = two_partitions(*names)
    step = Step(("mkfs.xfs", "-f", LINK), "", destroys=(claim(ours),) if claimed else ())
    [said] = refusals(step, there, spare(ours), LAYOUT)
    assert f"{LINK} is a name of sdb1 and of sdc1" in said


def test_a_bcache_label_that_two_have_leads_nowhere_and_makes_neither_ours():
    link = "/dev/bcache/by-label/bl17"
    foreign, ours = disk("sdb"), disk("sdc", 2)
    made = [disk(f"bcache{i}", 10 + i, type="disk", serial="", parents=[below.name], links=[link])
            for i, below in enumerate((foreign, ours))]  # fmt: skip
    there = host(foreign, ours, *made, members={"sdc": "bcache bl17"})
    spares = spare(foreign, ours)
    assert refusals(Step(("mkfs.xfs", link), "", destroys=(claim(ours),)), there, spares, LAYOUT)
    assert refusals(wiping(ours), there, spares, LAYOUT) == []
    assert "carries /dev/bcache0" in "; ".join(refusals(wiping(foreign), there, spares, LAYOUT))


def test_a_link_that_multipath_shares_with_its_paths_is_multipaths():
    link = "/dev/disk/by-id/wwn-0x5"
    paths = [disk(name, n, serial="S", links=[link]) for n, name in enumerate(("sdb", "sdc"), 1)]
    above = disk("dm-0", 9, type="mpath", path="/dev/mapper/mpatha", serial="", links=[link],
                 parents=["sdb", "sdc"])  # fmt: skip
    graph = Graph(host(above, *paths))
    assert graph.find_device(link) == above

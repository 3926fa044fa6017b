"""Equal glances mean that nothing changed; a host that says too little is no host to write to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agents.contracts import AgentError, Claim, Ran, Reason
from agents.facts import reading
from tests.agents.local_shell import LocalShell

SAID = (
    b"/sys/class/block/sdb/holders/*\n/proc/sys/kernel/random/boot_id:b\n/proc/partitions: 8 16 1 sdb\n"
    b"/proc/self/mountinfo:22 1 8:1 / / rw - ext4 /dev/sda1 rw\n/sys/class/block/sdb/size:2048\n"
)
SDB = Claim("serial:S", "/dev/sdb", 2048 * 512, "M")


@dataclass
class Says:
    said: bytes

    def run(self, argv, *, stdin=b"", root=False, timeout_s=60.0) -> Ran:
        return Ran(tuple(argv), 0, self.said, b"")


def test_this_machine_looks_the_same_twice():
    assert reading.read_state_hash(LocalShell(), ()) == reading.read_state_hash(LocalShell(), ())


@pytest.mark.parametrize(
    "now",
    [
        SAID.replace(b"holders/*", b"holders/dm-0"),
        SAID.replace(b"boot_id:b", b"boot_id:c"),
        SAID.replace(b"size:2048", b"size:4096"),
        SAID + b"/proc/self/mountinfo:23 22 8:16 / /mnt rw - xfs /dev/sdb rw\n",
        SAID + b"/sys/class/block/sdb/wwid:naa.5\n",
        SAID + b"/proc/swaps:/dev/sdb partition 1 0 -2\n",
    ],
)
def test_what_changes_is_seen(now):
    assert reading.read_state_hash(Says(now), [SDB]) != reading.read_state_hash(Says(SAID), [SDB])


@pytest.mark.parametrize(
    "lacks", [b"/proc/self/mountinfo", b"boot_id", b"/proc/partitions", b"sdb/size"]
)
def test_a_host_that_says_too_little_is_refused(lacks):
    with pytest.raises(AgentError, match="cannot be read") as raised:
        reading.read_state_hash(Says(SAID.replace(lacks, b"nothing")), [SDB])
    assert raised.value.reason is Reason.BAD_FACTS


FREEBSD = (
    b"Format: Length:16 Dump:0x4c86\nmounts:\nzroot / zfs rw 0 0\nswap:\nDevice\n"
    b"<mesh><name>mfid1</name><mode>r0w0e0</mode></mesh>\n"
)
MFID1 = Claim("serial:S", "/dev/mfid1", 1, "M")


def test_freebsd_shows_its_geoms():
    before = reading.read_state_hash(Says(FREEBSD), [MFID1])
    assert reading.read_state_hash(Says(FREEBSD), [MFID1]) == before
    for old, new in ((b"0x4c86", b"0x4c87"), (b"r0w0", b"r1w1"), (b"/ zfs", b"/mnt zfs")):
        assert reading.read_state_hash(Says(FREEBSD.replace(old, new)), [MFID1]) != before
    for lacks in (b"mounts:", b"swap:", b"</mesh>", b"mfid1"):
        with pytest.raises(AgentError, match="cannot be read"):
            reading.read_state_hash(Says(FREEBSD.replace(lacks, b"")), [MFID1])

"""Disks in use by the kernel that no list of a host shows: refused by an exclusive open before anything is written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.contracts import GuardError
from agents.safety.guard import refusals
from tests.rig.bench import LAYOUT
from tests.rig.test_guard_open import LVM
from tests.rig.test_guard_real import ends
from tests.rig.test_layers import wipe

DATA = (
    "mkfs.ext4 -qF /dev/ubdd; mkdir -p /mnt/x /run/ns;"
    "mount /dev/ubdd /mnt/x; echo data >/mnt/x/file; umount /mnt/x;"
)
# The file system is mounted in a namespace that no process is in: a bind of the namespace keeps it.
NO_PROCESS = DATA + (
    "mount --bind /run/ns /run/ns; mount --make-private /run/ns; touch /run/ns/mnt;"
    "unshare --mount=/run/ns/mnt sh -c 'mount --make-rprivate /; mount -o {} /dev/ubdd /mnt/x'"
)
LAZY = DATA + (
    "mount /dev/ubdd /mnt/x; nohup sleep 300 3</mnt/x/file >/dev/null 2>&1 & umount -l /mnt/x"
)
RELEASE = (
    "set +e; pkill -x sleep; umount -q /run/ns/mnt; umount -q /run/ns; umount -q /mnt/x; rm -rf /run/ns;"
    "n=0; until wipefs -na /dev/ubdd >/dev/null || [ $n -gt 50 ]; do n=$((n + 1)); sleep 0.2; done;"
)


@pytest.fixture(autouse=True)
def clean(bench) -> Iterator[None]:
    yield
    bench.run(f"{RELEASE} wipefs -qa /dev/ubdd; udevadm settle")


MAKE = {
    "no process": NO_PROCESS.format("rw"),
    "read-only": NO_PROCESS.format("ro"),
    "lazy": LAZY,
}


@pytest.mark.parametrize("how", MAKE)
def test_a_mount_that_nothing_shows_refuses_the_disk_before_the_first_write(bench, how):
    """Nor is another disk of the same layout written to, and once it is released the same plan is built."""
    made = bench.plan(LVM)
    bench.run(MAKE[how])
    facts = bench.facts()
    assert refusals(wipe(facts, "ubdd"), facts, bench.spares, LAYOUT) == [], "facts show it"
    before = ends(bench, "ubdc", "ubde")
    bench.records.clear()
    with pytest.raises(GuardError, match=r"/dev/ubdd is in use by the kernel \(EBUSY"):
        bench.apply(made.steps)
    assert ends(bench, "ubdc", "ubde") == before
    (record,) = bench.records
    assert record.destroys == () and record.exit_code is None and "EBUSY" in record.error
    assert (
        bench.run(f"{RELEASE} mount /dev/ubdd /mnt/x; cat /mnt/x/file; umount /mnt/x") == "data\n"
    )
    bench.apply(made.steps)
    bench.assert_taken_down(made)

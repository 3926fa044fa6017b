"""The test's own proof that disks are blank: by the host's commands, not by our facts."""

from __future__ import annotations

from benchlab.practice import PracticeHost

# One command for all: each one more would be a process more on a slow host, and a moment later than the last.
LOOK = """
set -e
! command -v udevadm >/dev/null || udevadm settle # lsblk tells what udev saw last
[ $# = 0 ] || wipefs -n "$@"
echo =
[ $# = 0 ] || lsblk -nro NAME,FSTYPE,MOUNTPOINT "$@"
echo =
[ ! -d /dev/mapper ] || ls -I control /dev/mapper
"""
STATE = """
set -e
sync # what was removed must not come back with somebody's power loss
udevadm settle
lsblk -nro NAME,TYPE,SIZE,RO,FSTYPE,MOUNTPOINT
for disk in /dev/ubd[b-z] /dev/vd[b-z]; do [ ! -b "$disk" ] || wipefs -n "$disk"; done
[ ! -d /dev/mapper ] || ls -I control /dev/mapper
cat /proc/swaps
"""


def assert_blank(host: PracticeHost, *names: str) -> None:
    said = host.ssh("sh", "-c", LOOK, "look", *(f"/dev/{name}" for name in names)).stdout
    signatures, tree, mapped = said.split("=\n")
    assert signatures.strip() == ""
    assert sorted(line.strip() for line in tree.split("\n") if line.strip()) == sorted(names)
    assert "bl" not in mapped


def assert_unchanged(host: PracticeHost, before: str) -> None:
    """Compare with an earlier `storage_state`."""
    assert storage_state(host) == before, "the module left something on the host"


def storage_state(host: PracticeHost) -> str:
    """Every block device, what is on it, where it is mounted: equal as long as nothing was left behind."""
    return host.ssh("sh", "-c", STATE).stdout

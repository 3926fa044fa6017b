"""The test's own proof that disks are blank: by the host's commands, not by our facts."""

from __future__ import annotations

from benchlab.practice import UmlHost


def assert_blank(host: UmlHost, *names: str) -> None:
    for name in names:
        assert host.ssh("wipefs", "-n", f"/dev/{name}").stdout.strip() == "", name
        tree = host.ssh(
            "lsblk", "-n", "-r", "-o", "NAME,FSTYPE,MOUNTPOINT", f"/dev/{name}"
        ).stdout.split("\n")
        assert [line.strip() for line in tree if line.strip()] == [name]
    assert "bl" not in host.ssh("ls", "/dev/mapper").stdout.replace("control", "")

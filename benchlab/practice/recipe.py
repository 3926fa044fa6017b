# SPDX-License-Identifier: Apache-2.0
"""Contents of the root images. Change anything here or under guest/ and new ones are built."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

SUITE = "bookworm"
"""The guest's release, whatever the machine itself runs: its tools are the ones we know by name."""

SIZE_MB = 8192
"""The image's file system. The file is sparse; room is there for slow disks kept in files."""

GUEST_FILES = Path(__file__).with_name("guest")
"""A tree laid over the guest's root as it is."""

PACKAGES = (
    *("systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2", "util-linux", "psmisc"),
    *("openssh-server", "libnss-myhostname", "sudo", "busybox", "dash", "bash", "python3"),
    *("lvm2", "thin-provisioning-tools", "dmsetup", "mdadm", "bcache-tools", "cryptsetup-bin"),
    *("xfsprogs", "e2fsprogs", "btrfs-progs", "gdisk", "parted", "smartmontools", "hdparm"),
    *("nbdkit", "nbd-client", "fio", "sysstat", "bonnie++", "sysbench", "postgresql-15", "libaio1"),
)

UNWANTED_PATHS = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/info/*",
)

ENABLED = {
    "practice-network.service": "sysinit.target",
    "ssh.service": "multi-user.target",
}

MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer"),
    *("e2scrub_all.timer", "e2scrub_reap.service", "logrotate.timer", "man-db.timer"),
    *("mdcheck_start.timer", "mdcheck_continue.timer", "mdmonitor-oneshot.timer"),
    *("mdmonitor.service", "mdadm-shutdown.service", "lvm2-monitor.service"),
    *("blk-availability.service", "postgresql.service", "smartmontools.service"),
    *("nbd-client.service", "sysstat.service", "sysstat-collect.timer", "sysstat-summary.timer"),
    *("getty.target", "systemd-logind.service", "systemd-user-sessions.service"),
    *("systemd-networkd.service", "systemd-networkd.socket", "systemd-timesyncd.service"),
    *("systemd-update-utmp.service", "systemd-update-utmp-runlevel.service"),
    *("systemd-random-seed.service", "systemd-pstore.service", "systemd-pcrphase.service"),
    *("systemd-pcrphase-sysinit.service", "systemd-journal-flush.service"),
    *("systemd-modules-load.service", "systemd-sysctl.service"),
    *("systemd-tmpfiles-clean.timer", "systemd-repart.service", "systemd-binfmt.service"),
    *("systemd-machine-id-commit.service", "systemd-firstboot.service"),
    *("systemd-sysusers.service", "systemd-hwdb-update.service", "ldconfig.service"),
    *("systemd-journal-catalog-update.service", "systemd-update-done.service"),
    *("systemd-ask-password-wall.path", "modprobe@drm.service", "modprobe@fuse.service"),
    *(
        "modprobe@efi_pstore.service",
        "modprobe@configfs.service",
        "sys-kernel-config.mount",
        "sys-kernel-debug.mount",
    ),
    *("dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-tracing.mount"),
    *("sys-fs-fuse-connections.mount", "proc-sys-fs-binfmt_misc.automount"),
)
"""A fork costs 20 to 30 ms in this kernel: whatever no benchmark needs does not start."""

GENERATOR = "systemd-fstab-generator"
"""The only unit generator that runs in the guest."""

_LICENSE_LINE = b"# SPDX-License-Identifier: Apache-2.0\n"

LOGINS = ("lab", "nosudo")
"""Besides root: `lab` may sudo without a password, `nosudo` may not; all take the same key."""


def guest_id(parts: Sequence[str], *sources: Path) -> str:
    """The identity of a root image, which has what all guests have, and `parts`."""
    shared = (SUITE, *UNWANTED_PATHS, *MASKED, *LOGINS, *ENABLED, GENERATOR, str(SIZE_MB))
    tree = Path(__file__).with_name("tree.py")
    return recipe_id((*shared, *parts), tree, GUEST_FILES, *sources)


def recipe_id(parts: Sequence[str], *sources: Path) -> str:
    """Twelve hex digits that change whenever what is built would.

    `sources` are files and directories of this package: how the parts are put together is part of
    the recipe, too. The line that names the license is not: it builds nothing.
    """
    digest = hashlib.sha256("\0".join(parts).encode())
    files = (path for source in sources for path in (source, *sorted(source.rglob("*"))))
    for path in files:
        if path.is_file():
            digest.update(f"\0{path.relative_to(Path(__file__).parent)}\0".encode())
            digest.update(path.read_bytes().removeprefix(_LICENSE_LINE))
    return digest.hexdigest()[:12]

# SPDX-License-Identifier: Apache-2.0
"""A guest's root directory tree, unpacked and furnished, and the file system made of it."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchlab.practice.errors import run_command
from benchlab.practice.machine import mirror
from benchlab.practice.recipe import (
    ENABLED,
    GENERATOR,
    GUEST_FILES,
    LOGINS,
    MASKED,
    SIZE_MB,
    SUITE,
    UNWANTED_PATHS,
)


def unpack(
    tree: Path,
    packages: Sequence[str],
    *,
    components: str = "main",
    variant: str = "minbase",
) -> None:
    """Fill an empty `tree` with Debian packages and what they depend on."""
    # Without documentation the image is a third smaller; copyright files stay.
    excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in UNWANTED_PATHS]
    run_command(
        (
            *("mmdebstrap", "--quiet", f"--variant={variant}", "--mode=root"),
            *("--format=directory", *excludes),
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            f"--include={','.join(packages)}",
            *(SUITE, str(tree), f"deb {mirror()} {SUITE} {components}"),
        ),
        timeout=1800,
        env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
    )


def furnish(
    tree: Path,
    public_key: str,
    overlay: Path = GUEST_FILES,
    masked: Sequence[str] = (),
    enabled: Mapping[str, str] | None = None,
) -> None:
    """Our files, units and users; the last three add to what all guests have."""
    for files in (GUEST_FILES, overlay):
        shutil.copytree(files, tree, dirs_exist_ok=True)
    for script in (tree / "usr/local/lib/practice").iterdir():
        script.chmod(0o755)
    for rule in (tree / "etc/sudoers.d").iterdir():
        rule.chmod(0o440)
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (tree / "etc/machine-id").write_text("")
    for stamp in ("etc/.updated", "var/.updated"):
        (tree / stamp).touch()
    _set_units(tree, (*MASKED, *masked), {**ENABLED, **(enabled or {})})
    for login in LOGINS:
        run_command(("chroot", str(tree), "useradd", "-m", "-s", "/bin/bash", login))
    for home in ("root", *(f"home/{login}" for login in LOGINS)):
        _authorize(tree / home, public_key)


def make_key(work: Path) -> str:
    """Make the key pair of the guest's users, work/key; the public half."""
    run_command(
        ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "practice", "-f", f"{work}/key")
    )
    return (work / "key.pub").read_text()


def write_root(tree: Path, root: Path) -> None:
    """Turn the tree into a file system in the file `root`, and remove it."""
    with root.open("wb") as handle:
        handle.truncate(SIZE_MB << 20)
    run_command(
        ("mkfs.ext4", "-q", "-F", "-L", "practice", "-N", "262144", "-d", str(tree), str(root)),
        timeout=300,
    )
    shutil.rmtree(tree)


def _set_units(tree: Path, masked: Sequence[str], enabled: Mapping[str, str]) -> None:
    units = tree / "etc/systemd/system"
    for unit in masked:
        _link(units / unit, "/dev/null")
    for generator in (tree / "lib/systemd/system-generators").iterdir():
        if generator.name != GENERATOR:
            _link(tree / "etc/systemd/system-generators" / generator.name, "/dev/null")
    # It would turn away everybody but root until a unit that we mask has run.
    _link(tree / "etc/tmpfiles.d/systemd-nologin.conf", "/dev/null")
    _link(units / "default.target", "/lib/systemd/system/multi-user.target")
    for unit, target in enabled.items():
        place = "/etc" if (units / unit).exists() else "/lib"
        _link(units / f"{target}.wants" / unit, f"{place}/systemd/system/{unit}")


def _link(link: Path, target: str) -> None:
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _authorize(home: Path, public_key: str) -> None:
    directory = home / ".ssh"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o700)
    keys = directory / "authorized_keys"
    keys.write_text(public_key)
    keys.chmod(0o600)
    owner = home.stat()
    for path in (directory, keys):
        os.chown(path, owner.st_uid, owner.st_gid)

"""The root image: built once per recipe, under a temporary name, by one builder at a time."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchlab.practice.errors import PracticeError, run
from benchlab.practice.machine import Progress, kernel_version, mirror, require_tools
from benchlab.practice.paths import hosts_dir, images_dir
from benchlab.practice.recipe import (
    ENABLED,
    GENERATOR,
    GUEST_FILES,
    LOGINS,
    MASKED,
    PACKAGES,
    SIZE_MB,
    SUITE,
    UNWANTED_PATHS,
    recipe_id,
)
from benchlab.practice.record import HostRecord

_ROOM_MB = 3072
_KEPT_DAYS = 14
_MODULES = Path("/usr/lib/uml/modules")


@dataclass(frozen=True)
class Image:
    """A finished image: `root` is never written to, `key` is the private key of its users."""

    name: str
    directory: Path

    @property
    def root(self) -> Path:
        return self.directory / "root.img"

    @property
    def key(self) -> Path:
        return self.directory / "key"


def ensure_image(progress: Progress = print) -> Image:
    """The image of the present recipe, built now if it is not there; PracticeError if it cannot."""
    require_tools(progress)
    kernel = kernel_version()
    image = Image(name := recipe_id(kernel), images_dir() / name)
    if not image.root.exists():
        images_dir().mkdir(parents=True, exist_ok=True)
        with _only_builder(images_dir() / f"{name}.lock", progress):
            if not image.root.exists():
                _build(image, kernel, progress)
    (image.directory / "used").touch()
    return image


@contextmanager
def _only_builder(lock: Path, progress: Progress) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process builds the image: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(image: Image, kernel: str, progress: Progress) -> None:
    free_mb = shutil.disk_usage(images_dir()).free >> 20
    if free_mb < _ROOM_MB:
        raise PracticeError(
            f"{images_dir()} has {free_mb} MiB left, the image needs {_ROOM_MB}: "
            "free some space or set BENCHLAB_CACHE to a roomier directory"
        )
    _forget_old(image)
    # A name of its own: an interrupted builder's children may still write under theirs.
    work = Path(tempfile.mkdtemp(prefix=f".building-{image.name}-", dir=images_dir()))
    try:
        _fill(work, kernel, progress)
        os.sync()  # a half-written image must not survive a crash under its final name
        work.chmod(0o755)
        work.rename(image.directory)
    finally:
        _remove_tree(work)
    progress(f"the image is ready: {image.directory}")


def _forget_old(image: Image) -> None:
    """Remove what interrupted builds left, and images that nobody has used for a while."""
    for left in images_dir().glob(".building-*"):
        # We hold this image's lock, so nobody builds it now; no build takes a day.
        ours = left.name.startswith(f".building-{image.name}-")
        if ours or _idle_days(left) > 1:
            _remove_tree(left)
    in_use = {record.image for home in hosts_dir().glob("*") if (record := HostRecord.load(home))}
    for other in images_dir().glob("*/used"):
        if _idle_days(other) > _KEPT_DAYS and other.parent.name not in in_use:
            _remove_tree(other.parent)


def _idle_days(path: Path) -> float:
    return (time.time() - path.stat().st_mtime) / 86400


def _remove_tree(tree: Path) -> None:
    # mmdebstrap, killed halfway, may have left the machine's own /dev mounted in there.
    mounts = Path("/proc/self/mountinfo").read_text()
    if f" {tree}/" not in mounts:
        shutil.rmtree(tree, ignore_errors=True)


def _fill(work: Path, kernel: str, progress: Progress) -> None:
    tree = work / "tree"
    progress(f"downloading and unpacking Debian {SUITE} (about half a minute)")
    _unpack(tree)
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "practice", "-f", f"{work}/key"))
    _furnish(tree, kernel, (work / "key.pub").read_text())
    progress("writing the file system")
    root = work / "root.img"
    with root.open("wb") as handle:
        handle.truncate(SIZE_MB << 20)
    run(
        ("mkfs.ext4", "-q", "-F", "-L", "practice", "-N", "262144", "-d", str(tree), str(root)),
        timeout=300,
    )
    shutil.rmtree(tree)


def _unpack(tree: Path) -> None:
    # Without documentation the image is a third smaller; copyright files stay.
    excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in UNWANTED_PATHS]
    run(
        (
            *("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--format=directory"),
            *excludes,
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            f"--include={','.join(PACKAGES)}",
            *(SUITE, str(tree), f"deb {mirror()} {SUITE} main"),
        ),
        timeout=1800,
        env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
    )


def _furnish(tree: Path, kernel: str, public_key: str) -> None:
    shutil.copytree(_MODULES / kernel, tree / "lib/modules" / kernel, symlinks=True)
    shutil.copytree(GUEST_FILES, tree, dirs_exist_ok=True)
    for script in (tree / "usr/local/lib/practice").iterdir():
        script.chmod(0o755)
    for rule in (tree / "etc/sudoers.d").iterdir():
        rule.chmod(0o440)
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (tree / "etc/machine-id").write_text("")
    for stamp in ("etc/.updated", "var/.updated"):
        (tree / stamp).touch()
    _set_units(tree)
    for login in LOGINS:
        run(("chroot", str(tree), "useradd", "-m", "-s", "/bin/bash", login))
    for home in ("root", *(f"home/{login}" for login in LOGINS)):
        _authorize(tree / home, public_key)


def _set_units(tree: Path) -> None:
    units = tree / "etc/systemd/system"
    for unit in MASKED:
        _link(units / unit, "/dev/null")
    for generator in (tree / "lib/systemd/system-generators").iterdir():
        if generator.name != GENERATOR:
            _link(tree / "etc/systemd/system-generators" / generator.name, "/dev/null")
    # It would turn away everybody but root until a unit that we mask has run.
    _link(tree / "etc/tmpfiles.d/systemd-nologin.conf", "/dev/null")
    _link(units / "default.target", "/lib/systemd/system/multi-user.target")
    for unit, target in ENABLED.items():
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

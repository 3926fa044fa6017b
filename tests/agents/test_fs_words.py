"""Words for mkfs and mount: what aligns and tunes passes, what names a file, a device or a helper does not."""

from __future__ import annotations

import string

import pytest

from agents.contracts import OptionsError
from agents.layers import filesystem
from agents.steps.fs_words import MKFS, refused_mkfs, refused_mount
from tests.each_case import check_each

GOOD = """
xfs -m reflink=0,crc=1
xfs -mreflink=0
xfs -d agcount=4,noalign -K
xfs -l size=64m -s size=4096
ext4 -m 0
ext4 -m0 -E stride=16,nodiscard
ext4 -O ^has_journal,bigalloc -C 64k
ext4 -J size=400
btrfs --csum xxhash
btrfs --csum=xxhash -M -d single
"""
BAD = """
ext4 -d etc
ext4 -detc
ext4 -L x
ext4 -Lx
ext4 -l list
ext4 -z undo
ext4 -zundo
ext4 -c
ext4 -J device=LABEL=x
ext4 -F
ext4 -E offset=4096
ext4 -E root_owner=1:1
ext4 -n
ext4 -S
ext4 -m
ext4 -Uclear
ext4 -M x
ext4 -q -v
ext4 sdb
ext4 -m 0 sdb
xfs -p proto
xfs -c options=x
xfs -l logdev=sdb
xfs -r rtdev=sdb
xfs -d name=sdb
xfs -d file=1
xfs -dagcount=4,name=x
xfs -f
xfs -N
xfs -Lx
xfs -K sdb
xfs -Kx
btrfs --rootdir=x
btrfs --rootdir x
btrfs -r x
btrfs -rx
btrfs --label=x
btrfs --subvol x
btrfs -Lx
btrfs -d /x
btrfs --shrink
btrfs -
btrfs --
"""
MOUNTS = (
    "noatime",
    "noatime,nodiratime",
    "logbsize=256k,discard",
    "compress=zstd:3",
    "data=writeback",
)
NO_MOUNTS = """
bind rbind move remount loop ro rw device=x logdev=x rtdev=x journal_dev=2049 journal_path=x uhelper=x helper=x user
users suid dev exec offset=1 sizelimit=1 usrjquota=x context=x subvol=x x-mount.mkdir X-mount.subdir=x
verity.hashdevice=x _netdev noatime,, noatime,ro commit=/x defaults norecovery degraded rescue=all NOATIME
"""


def commands(text: str) -> list[tuple[str, tuple[str, ...]]]:
    lines = (line.split() for line in text.strip().split("\n"))
    return [(kind, tuple(words)) for kind, *words in lines]


@pytest.mark.parametrize(("kind", "words"), commands(GOOD))
def test_what_tunes_passes(kind, words):
    assert refused_mkfs(kind, words) == ""
    assert filesystem.Options(type=kind, mkfs_options=words).mkfs_options == words


def test_what_reaches_elsewhere_does_not():
    check_each(is_refused, [*commands(BAD), ("btrfs", ("",)), ("xfs", ("", "-K"))])


def is_refused(command):
    kind, words = command
    assert refused_mkfs(kind, words)
    with pytest.raises(OptionsError, match=r"mkfs_options: .* cannot be set by a layout"):
        filesystem.Options(type=kind, mkfs_options=words)


@pytest.mark.parametrize("kind", MKFS)
def test_no_value_holds_a_path_or_a_second_word(kind):
    for flag in [*MKFS[kind], *(f"-{letter}" for letter in string.ascii_letters)]:
        for value in (
            "/etc/passwd",
            "../x",
            "a b",
            "a;b",
            "$(x)",
            "x\ny",
            "-x",
            "name=/x",
            "file=x",
        ):
            assert refused_mkfs(kind, [flag, value]), (flag, value)
            assert refused_mkfs(kind, [f"{flag}{value}"]), (flag, value)


@pytest.mark.parametrize("words", MOUNTS)
def test_mount_options_that_tune_pass(words):
    assert refused_mount([words]) == refused_mount(words.split(",")) == ""


def test_mount_options_that_do_more_do_not():
    check_each(is_no_mount_option, [*NO_MOUNTS.split(), "", "commit=a b", "noatime\n"])


def is_no_mount_option(option):
    assert refused_mount([option])
    with pytest.raises(OptionsError, match=r"mount_options: .* cannot be set by a layout"):
        filesystem.Options(mount_options=(option,))

# SPDX-License-Identifier: Apache-2.0
"""Words for mkfs and mount that a person may add: an allow-list, for whoever makes a topology may be no owner.

What is not here could read or write other files (mke2fs's `-d DIR`, `-l FILE`, `-z FILE`; mkfs.xfs's `-p FILE`,
`-c options=FILE`; mkfs.btrfs's `--rootdir`), name other devices (`logdev=`, `journal_dev=` by number), run a helper of
the host (`uhelper=`), or do without our label. Sources: mkfs.xfs(8) 6.15, mke2fs(8) 1.47, mkfs.btrfs(8) 6.14, xfs(5),
ext4(5), btrfs(5), mount(8) 2.41.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

SIZE = r"\d+[bskKmMgG]?"
EMPTY = "an empty word"


def _settings(names: str, bare: str = "") -> str:
    """A pattern for NAME=VALUE[,NAME=VALUE…], and names that stand alone."""
    setting = rf"(?:{'|'.join(names.split())})=[A-Za-z0-9_.:-]+"
    if bare:
        setting = rf"(?:{setting}|{'|'.join(bare.split())})"
    return rf"{setting}(?:,{setting})*"


# type -> flag -> what may follow it, "" for nothing. A value may be glued to a short flag, or be the next word.
MKFS: Mapping[str, Mapping[str, str]] = {
    "xfs": {
        "-b": rf"size={SIZE}",
        "-d": _settings(
            "agcount agsize concurrency cowextsize extszinherit su sunit sw swidth", "noalign"
        ),
        "-i": _settings("align attr exchange maxpct nrext64 perblock projid32bit size sparse"),
        "-K": "",
        "-l": _settings("concurrency internal lazy-count size su sunit version"),
        "-m": _settings(
            "autofsck bigtime crc finobt inobtcount metadir reflink rmapbt uquota gquota pquota"
        ),
        "-s": rf"size={SIZE}",
    },
    "ext4": {
        "-b": SIZE,
        "-C": SIZE,
        "-E": _settings(
            "assume_storage_prezeroed encoding lazy_itable_init lazy_journal_init num_backup_sb orphan_file_size"
            " packed_meta_blocks quotatype resize stride stripe_width stripe-width",
            "assume_storage_prezeroed discard nodiscard lazy_itable_init lazy_journal_init",
        ),
        "-e": "continue|remount-ro|panic",
        "-G": r"\d+",
        "-g": r"\d+",
        "-I": r"\d+",
        "-i": SIZE,
        "-J": _settings("size fast_commit_size location"),
        "-m": r"\d+(?:\.\d+)?",
        "-O": r"\^?[a-z0-9_]+(?:,\^?[a-z0-9_]+)*",
        "-T": r"[a-z0-9]+(?:,[a-z0-9]+)*",
    },
    "btrfs": {
        "--checksum": "[a-z0-9]+",
        "--csum": "[a-z0-9]+",
        "-d": "[a-z0-9]+",
        "-K": "",
        "-M": "",
        "-m": "[a-z0-9]+",
        "-O": r"\^?[a-z0-9][a-z0-9-]*(?:,\^?[a-z0-9][a-z0-9-]*)*",
        "-R": r"\^?[a-z0-9][a-z0-9-]*(?:,\^?[a-z0-9][a-z0-9-]*)*",
        "-s": SIZE,
    },
}
_MOUNT_WORDS = """
async atime diratime dirsync iversion lazytime noatime nodev nodiratime noexec noiversion nolazytime norelatime
nostrictatime nosuid relatime strictatime sync
acl user_xattr discard nodiscard barrier nobarrier commit dax
allocsize attr2 filestreams ikeep noikeep inode32 inode64 largeio nolargeio logbsize logbufs noalign noquota nouuid
sunit swalloc swidth wsync
auto_da_alloc noauto_da_alloc block_validity noblock_validity data delalloc nodelalloc dioread_lock dioread_nolock
errors init_itable noinit_itable inode_readahead_blks journal_async_commit journal_checksum nojournal_checksum
journal_ioprio max_batch_time max_dir_size_kb min_batch_time mb_optimize_scan nombcache no_prefetch_block_bitmaps
prefetch_block_bitmaps stripe
autodefrag noautodefrag compress compress-force datacow nodatacow datasum nodatasum flushoncommit noflushoncommit
max_inline metadata_ratio space_cache nospace_cache ssd nossd ssd_spread nossd_spread thread_pool treelog notreelog
"""
MOUNT = frozenset(_MOUNT_WORDS.split())
_VALUE = re.compile(r"[A-Za-z0-9_.:-]+")


def refused_mkfs(kind: str, words: Sequence[str]) -> str:
    """The first word that is not for a layout to set, with what follows it; "" where there is none."""
    rest = iter(words)
    for word in rest:
        if not _is_known_option(MKFS[kind], word, rest):
            return word or EMPTY
    return ""


def _is_known_option(flags: Mapping[str, str], word: str, rest: Iterator[str]) -> bool:
    long = word.startswith("--")
    flag = word.partition("=")[0] if long else word[:2]
    if flag not in flags:
        return False
    value = word[len(flag) :].removeprefix("=" if long else "")
    if not flags[flag]:
        return not value
    return bool(re.fullmatch(flags[flag], value or next(rest, "")))


def refused_mount(words: Sequence[str]) -> str:
    """The same for mount: options one by one, or several with commas."""
    for option in (option for word in words for option in word.split(",")):
        name, equals, value = option.partition("=")
        if name not in MOUNT or (equals and not _VALUE.fullmatch(value)):
            return option or EMPTY
    return ""

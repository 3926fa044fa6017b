# SPDX-License-Identifier: Apache-2.0
"""fio's I/O engines: those that read and write the target, and what each of the others does instead.

Source: "I/O engine" in https://fio.readthedocs.io/en/latest/fio_doc.html, and engines/ of fio 3.0 to 3.42. Only the
engines in READ_AND_WRITE may run (default deny): an engine that a later fio brings is refused until it stands here.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.contracts import OptionsError

READ_AND_WRITE = (
    "libaio",
    "io_uring",
    "psync",
    "sync",
    "vsync",
    "pvsync",
    "pvsync2",
    "posixaio",
    "mmap",
    "splice",
)
# They complete an I/O before they issue the next one, whatever `iodepth` is.
SYNCHRONOUS = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice"})

_DISCARDS = "it completes every I/O at once and transfers nothing"
_METADATA = "it changes the metadata of files and neither reads nor writes data"
_NETWORK = "it sends data over the network and uses no disk"
# Rates of these are of no storage at all: neither of the target nor of another one.
WITHOUT_STORAGE = {
    "null": _DISCARDS,
    "cpuio": "it uses the CPU and does no I/O",
    "exec": "it runs a program and does no I/O itself",
    "net": _NETWORK,
    "netsplice": _NETWORK,
    "rdma": _NETWORK,
    **dict.fromkeys(
        (
            "dircreate",
            "dirdelete",
            "dirstat",
            "falloc",
            "filecreate",
            "filedelete",
            "filestat",
            "ftruncate",
        ),
        _METADATA,
    ),
}
_REMOTE = "it works on remote storage and not on the target"
# SG_IO on a partition or a volume reaches the disk below it, from the disk's first sector on: what is written there is
# somebody else's. Character devices of NVMe and of zoned disks are not what a campaign mounts or stacks.
_RAW_COMMANDS = "it sends commands to the disk itself, past partitions, volumes and file systems"
_MEMORY = "it is for persistent memory and not for disks"
_ELSEWHERE = {
    **dict.fromkeys(
        ("dfs", "gfapi", "gfapi_async", "glusterfs", "http", "libhdfs", "libiscsi", "nbd", "nfs"),
        _REMOTE,
    ),
    **dict.fromkeys(("rados", "rbd"), _REMOTE),
    **dict.fromkeys(("io_uring_cmd", "libblkio", "libzbc", "mtd", "sg", "xnvme"), _RAW_COMMANDS),
    **dict.fromkeys(("dev-dax", "libpmem", "pmemblk"), _MEMORY),
    "external": "it loads code from a file",
    "e4defrag": "it moves the extents of files on ext4 instead of reading and writing data",
}
REFUSED = WITHOUT_STORAGE | _ELSEWHERE


def check_engine(engine: str, where: str) -> None:
    """Raises OptionsError for every engine that is not known to read and write the target."""
    if engine in READ_AND_WRITE:
        return
    why = REFUSED.get(engine.partition(":")[0], "it is not known to read and write the target")
    raise OptionsError(
        f"{where}: ioengine {engine[:40]!r} is not allowed: {why}. Use one of {', '.join(READ_AND_WRITE)}"
    )


def without_storage(engines: Iterable[str]) -> str:
    """Reason to refuse a result of these engines, as they use no storage; "" where there is none."""
    for engine in engines:
        if why := WITHOUT_STORAGE.get(engine.strip()):
            return f"this job did no I/O to storage: ioengine={engine.strip()}, {why}"
    return ""

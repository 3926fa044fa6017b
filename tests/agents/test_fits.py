"""Room for a run's blocks, and blocks that hold something."""

from __future__ import annotations

import pytest

from agents import options
from agents.contracts import PlanError, Target
from agents.drivers import registry
from agents.plans import fits
from agents.plans.chain import DiskRequest, LayerSpec

GIB = 1 << 30
VOLUME = Target("bl1", volume="/dev/sdb", size=2 * GIB)
MOUNT = Target("bl1", mount="/mnt/benchlab/bl1", size=2 * GIB)
DISK = (DiskRequest("data", "ssd"),)
RAW = (LayerSpec("raw", {}, DISK),)
XFS = (*RAW, LayerSpec("filesystem", {"type": "xfs"}))
JOBS = "[global]\nsize=1g\nrw=write\n[a]\n[b]\noffset=1500m\n"


def built(kind: str, **given):
    return options.build_options(registry.tool(kind).Options, given)


@pytest.mark.parametrize(
    ("kind", "given", "target", "room"),
    [
        ("fio", {"size": 1024 * GIB}, VOLUME, 1024 * GIB),
        ("fio", {"size": 0}, VOLUME, 0),
        ("fio", {"size": GIB, "numjobs": 4}, VOLUME, GIB),  # they share it
        ("fio", {"size": GIB, "numjobs": 4}, MOUNT, 4 * GIB),  # a file each
        ("fio", {"job_file": JOBS}, VOLUME, GIB + (1500 << 20)),
        ("fio", {"job_file": JOBS}, MOUNT, 2 * GIB + (1500 << 20)),
        ("fio", {"job_file": "[a]\nsize=100%\n"}, VOLUME, 0),
        ("dd", {"block_size": 1 << 20, "count": 4096}, VOLUME, 4 * GIB),
        ("dynamo", {"size": 3 * GIB, "targets": 2}, MOUNT, 6 * GIB),
        ("dynamo", {"size": 3 * GIB, "targets": 2}, VOLUME, 3 * GIB),
        ("bonnie", {"size": 8 * GIB}, MOUNT, 8 * GIB),
        ("pg_test_fsync", {}, MOUNT, 0),
    ],
)
def test_what_a_tool_needs(kind, given, target, room):
    stack = RAW if target is VOLUME else XFS
    made = built(kind, **given)
    assert registry.required_bytes(kind, made, target) // GIB == room // GIB
    if room > target.size:
        with pytest.raises(PlanError, match=r"GiB\) of a (volume|file system) of 2,147,483,648 B"):
            fits.check_size(stack, kind, made, target)
    else:
        fits.check_size(stack, kind, made, target)


def test_a_size_that_nobody_knows_and_a_layer_that_packs_refuse_nothing():
    large = built("fio", size=1024 * GIB)
    fits.check_size(RAW, "fio", large, Target("bl1", volume="/dev/x"))
    for told in ({"compression": "lz4"}, {"sparse": True}, {"mount_options": ["compress=zstd"]}):
        fits.check_size((LayerSpec("any", told),), "fio", large, VOLUME)


@pytest.mark.parametrize(
    ("stack", "kind", "given", "said"),
    [
        (RAW, "fio", {"rw": "randread"}, "never-written or discarded blocks"),
        (RAW, "fio", {"rw": "randrw"}, "nothing was written"),
        # fio reads unless told
        (
            RAW,
            "fio",
            {"job_file": "[a]\nsize=1g\n"},
            "nothing was written",
        ),
        (RAW, "fio", {"rw": "randwrite"}, ""),
        (RAW, "dd", {"direction": "read"}, "nothing was written"),
        (RAW, "dd", {}, ""),
        (RAW, "dynamo", {"size": GIB, "read_percent": 100}, "nothing was written"),
        (RAW, "dynamo", {"size": GIB, "read_percent": 0}, ""),
        (XFS, "fio", {"rw": "randread"}, ""),  # it lays its files out first
        ((LayerSpec("raw", {"discard": True}, DISK),), "fio", {"rw": "read"}, "was discarded"),
        ((LayerSpec("zpool"), LayerSpec("zvol")), "fio", {"rw": "randread"}, "ZFS serves"),
        ((LayerSpec("zpool"), LayerSpec("zvol"), *XFS[1:]), "fio", {"rw": "randread"}, ""),
    ],
)
def test_reads_of_what_was_never_written(stack, kind, given, said):
    found = fits.unwritten(stack, kind, built(kind, **given))
    assert (said in found) if said else not found

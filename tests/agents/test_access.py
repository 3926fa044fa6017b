"""Access to the storage that each tool asks for, by its options."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from agents import options
from agents.contracts import Access
from agents.drivers import registry
from benchlab.analysis import evidence

GIB = 1 << 30
MIXED = "[global]\nbs=64k\nsize=1g\n[read]\nrw=randread\nbs=4k\n[log]\nrw=write\nfdatasync=1\n"


def access(kind: str, told: set[str] | None = None, **given) -> Access:
    return registry.access_pattern(
        kind, options.build_options(registry.tool(kind).Options, given), told
    )


def fio(job: str) -> Access:
    return access("fio", job_file=job)


def test_evidence_has_the_same_fields():
    ours, theirs = (
        [(one.name, one.type, one.default) for one in dataclasses.fields(kind)]
        for kind in (Access, evidence.Access)
    )
    assert ours == theirs


@pytest.mark.parametrize("kind", registry.all_tools())
def test_a_tool_says_what_each_field_hangs_on(kind):
    driver: Any = registry.tool(kind)
    told = access(kind)
    fields = {one.name for one in dataclasses.fields(Access)}
    assert set(driver.IO_FIELDS) <= fields
    named = {name for of in driver.IO_FIELDS.values() for name in of}
    assert named <= {one.name for one in dataclasses.fields(driver.Options)}
    if kind != "fio":  # whose buffers hang on what only a job file says
        assert {name for name in fields if getattr(told, name) is not None} <= set(driver.IO_FIELDS)


def test_fio_by_its_form():
    assert access("fio", rw="randread", iodepth=8, numjobs=2, size=GIB, ramp_s=5) == Access(
        reads=True, writes=False, random=True, block=4096, direct=True, synced=False, compressible=False,
        size=None, ramp_s=5.0, runtime_s=60.0, outstanding=16,
    )  # fmt: skip
    assert access("fio", size=GIB).size == GIB and access("fio", size=0).size is None
    assert (
        access("fio", rw="write", fsync=1).synced and not access("fio", rw="write", fsync=32).synced
    )
    assert access("fio", rw="write", fdatasync=1).synced
    assert access("fio", rw="randrw", percentage_random=30).random is None
    assert access("fio", rw="randrw", percentage_random=0).random is False
    assert access("fio", rw="randrw", rwmixread=100).writes is False
    assert access("fio", rw="rw", rwmixread=0).reads is False
    assert access("fio", compressible=50).compressible is True
    assert access("fio", extra=["zero_buffers"]).compressible is True
    assert access("fio", extra=["sync=1"], rw="write").synced is True
    assert access("fio", direct=False).direct is False
    assert access("fio", rw="trim").reads is access("fio", rw="trim").writes is False


def test_fio_by_a_job_file():
    assert fio(MIXED) == Access(
        reads=True, writes=True, random=None, block=4096, direct=False, synced=True, compressible=False,
        ramp_s=0.0, outstanding=2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ("", "block", 4096),
        ("bssplit=64k/50:512/50", "block", 512),
        ("bsrange=1k-1m", "block", 1024),
        ("bs=,8k", "block", 4096),  # reads have the default
        ("bs=weird", "block", None),
        ("bs=4kib", "block", 4000),  # k alone is 1024
        ("rw=randread:8", "random", None),
        ("rw=randread:1", "random", True),
        ("rw=write\nsync=dsync", "synced", True),
        ("rw=write\nsync=none", "synced", False),
        ("rw=write\nverify=crc32c", "reads", True),
        ("rw=write\nverify=crc32c\ndo_verify=0", "reads", False),
        ("buffer_pattern=0xdeadbeef", "compressible", True),
        ("buffer_compress_percentage=0", "compressible", False),
        ("dedupe_percentage=80", "compressible", True),
        ("scramble_buffers=0", "compressible", None),
        ("scramble_buffers=0\nrefill_buffers", "compressible", False),
        ("zero_buffers=0", "compressible", False),
        ("direct", "direct", True),
        ("runtime=2m", "runtime_s", 120.0),
        ("rw=randrw\nrwmixwrite=100", "reads", False),
    ],
)
def test_fio_by_one_setting(said, field, value):
    assert getattr(fio(f"[a]\n{said}\n"), field) == value


def test_a_job_wins_over_global_whatever_name_it_says_it_under():
    assert fio("[global]\nbs=64k\nrw=read\n[a]\nblocksize=8k\nreadwrite=randwrite\n") == Access(
        reads=False, writes=True, random=True, block=8192, direct=False, synced=False, compressible=False,
        ramp_s=0.0, outstanding=1,
    )  # fmt: skip


def test_jobs_in_turn_have_no_time_nor_depth_of_their_own():
    found = fio("[global]\nruntime=60\n[a]\n[b]\nstonewall\n")
    assert found.runtime_s is None and found.outstanding is None


def test_the_other_tools():
    dd = access("dd", oflag=["dsync", "direct"], block_size=8192, count=100)
    assert dd == Access(
        reads=False, writes=True, random=False, block=8192, direct=True, synced=True, compressible=True,
        size=819200, ramp_s=0.0, outstanding=1,
    )  # fmt: skip
    assert access("dd", direction="read", iflag=["direct"]).compressible is False
    assert access("dd", conv=["fdatasync"]).synced is False  # once, at the end
    assert access("dd", block_size=0, obs=4096).block == 4096
    assert access("pg_test_fsync").synced and access("pg_test_fsync").direct is None
    assert access("bonnie", direct=True).direct and access("bonnie").random is None
    assert access("sysbench", mode="rndwr", extra_flags="dsync").synced is True
    assert access("sysbench", mode="seqrd").writes is False
    assert access("sysbench", mode="rndrw", rw_ratio=0.0).reads is False
    assert access("command", outstanding=4) == Access(outstanding=4)


def test_dynamo():
    assert access("dynamo", read_percent=100, random_percent=0, outstanding_ios=4, workers=2) == Access(
        reads=True, writes=False, random=False, block=8192, direct=True, synced=False, compressible=False,
        size=GIB, ramp_s=30.0, runtime_s=60.0, outstanding=8,
    )  # fmt: skip
    lines = ("4096,50,100,100,0,1,4096,0", "65536,50,0,100,0,1,4096,0")
    found = access("dynamo", access=lines, targets=2)
    assert (found.reads, found.writes, found.random, found.block, found.size) == (
        True,
        True,
        True,
        4096,
        None,
    )
    assert access("dynamo").random is None  # half and half


def test_of_a_result_from_elsewhere_only_what_was_told_is_known():
    assert access("fio", {"rw", "block_size"}, rw="randwrite", block_size=512) == Access(
        reads=False, writes=True, random=True, block=512
    )
    assert access("fio", set()) == Access()
    assert access("pg_test_fsync", set()).synced is True


@pytest.mark.parametrize(
    ("lines", "compressible"),
    [
        ("", False),
        ("zero_buffers", True),
        ("zero_buffers=0", False),
        ("buffer_compress_percentage=50", True),
        ("buffer_compress_percentage=0", False),
        ("dedupe_percentage=30", True),
        ("buffer_pattern=0xff", True),
        ("scramble_buffers=1", False),
        ("scramble_buffers=0", None),
        ("scramble_buffers=0\nrefill_buffers", False),
        ("scramble_buffers=0\nzero_buffers", True),
    ],
)
def test_blocks_of_fio_that_can_be_compressed(lines, compressible):
    assert fio(f"[global]\nruntime=60\n[a]\nrw=write\n{lines}\n").compressible is compressible

# SPDX-License-Identifier: Apache-2.0
"""Facts of a pasted text: each with the line that tells it, and none where the line may mean something else."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.context.model import FACTS, TEXTS, Facts, value_type
from agents.context.reading import read_facts
from agents.drivers import text_reading

CASES = sorted((Path(__file__).parents[1] / "cases" / "diagnosis").glob("*/input.txt"))
TEXT_OF_CASES = [case.read_text() for case in CASES]


def facts_as_lines(text: str) -> dict[str, object]:
    """ "SUBJECT NAME" -> value of the first fact with them."""
    facts = read_facts(text)
    check_vocabulary(facts)
    return {f"{f.subject} {f.name}".strip(): f.value for f in reversed(facts.all)}


def check_vocabulary(facts: Facts) -> None:
    for fact in facts:
        assert fact.name in FACTS, fact
        assert type(fact.value) is value_type(fact.name), fact


EXAMPLES = sorted((Path(__file__).parents[1] / "cases" / "context").glob("*.txt"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_output_becomes_facts(example: Path) -> None:
    expected = tomllib.loads(example.with_suffix(".toml").read_text())
    facts = facts_as_lines(example.read_text())
    assert {key: facts.get(key) for key in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    "line",
    [
        # a wish, a question, a comparison
        "Would 64 GB RAM help?",
        "you need at least 7200 rpm disks",
        "For speed and safety use a log device or an SSD with power-loss protection.",
        "# by host and identity",
        "is a PM893 slower than an 870 EVO",
        "RAIDZ2 with a 970 PRO as log device",
        "a pool of 7200 rpm drives",
        "it did 7.2k IOPS and 10k reads",
        "PERC H330, it uses 4 cores",
        # neither its unit nor its command is known
        "Mem:              62           5          41           0          15          56",
        # a table of another program
        "NAME READY STATUS RESTARTS AGE\nsda 1/1 Running 0 3d",
        "NAME SIZE USED PRIO\nsda 3.6T 1 2",
        # a value that its column cannot hold
        "NAME SIZE ROTA\nsda 3.6T perhaps",
        # fewer lines than files
        "$ cat /sys/block/sda/queue/rotational /sys/block/sda/queue/fua\n1",
        # cylinders, not sectors
        "/dev/sda1   *           1          13      104391   83  Linux",
        "md0 : nice array",
        "Disk stats (read/write):\n  sda: ios=3/0, merge=0/0, ticks=0/0, in_queue=0, util=1.10%",
        "pool: a swimming pool\nstate: wet",
        # no limit, a cache that is no card's, a run without an error
        "# cat io.max\n8:16 rbps=max wbps=max riops=max wiops=max",
        "total_iops_sec : 0",
        "Cache size: 2048 MB",
        "cache size\t: 16384 KB",
        "w: (groupid=0, jobs=1): err= 0: pid=2164: Sat Nov 28 23:59:45 2026",
        "12:30 rbps went up",
        "options zfs zfs_arc_max=0",
        "# lsblk -o name,rota | grep sdb\nsdb perhaps",
        "# lsblk -do name,size /dev/sdx\nlsblk: /dev/sdx: not a block device",
        "# zpool list tank\ncannot open 'tank': no such pool",
        "# grep -c error /var/log/messages\n12",
        '"provisionedIops": "many",',
        # outputs of several devices or datasets without their names, inodes, folders
        "# hdparm -W /dev/sda /dev/sdb | grep write\n write-caching =  0 (off)",
        "# hdparm -W /dev/sd[ab] | grep write\n write-caching =  0 (off)",
        "# zfs get -r -o property,value compression tank\nPROPERTY VALUE\ncompression lz4",
        "# zfs get -o property,value compression tank/a tank/b\nPROPERTY VALUE\ncompression lz4",
        "# zfs get compression tank/x\ncannot open 'tank/x': dataset does not exist",
        "# zpool status | grep state\n state: DEGRADED",
        "# df -i\nFilesystem      Inodes IUsed   IFree IUse% Mounted on\n/dev/sda2 128M 1.1M 127M 1% /",
        "# df -i / | tail -1\n/dev/sda2 128M 1.1M 127M 1% /",
        "# ls -l /data\n-rw-r--r-- 1 joe joe 1073741824 Jan  5 12:00 holes.img",
        "# du -sh /srv/data\n1.0G /srv/data",
        # messages of LVM, and columns without the name of a volume
        "# lvs\n  No volume groups found",
        "# lvs vg0\n  Failed to find logical volume vg0/x",
        "# lvs -o unknown_field vg0\n  fast 4",
        "  CacheReadHits    CacheReadMisses\n        12               88",
        "LV is short for logical volume\nfast vg0 10.00g",
        "VG   #PV #LV #SN Attr   VSize   VFree\nvg0    2   3   1 wz--n- 931.51g 20.00g",
        "# lvcreate -n new vg0",
    ],
)
def test_unsure_line_gives_no_fact(line: str) -> None:
    assert not read_facts(line).all


def test_every_text_fact_is_in_the_vocabulary() -> None:
    assert FACTS.keys() >= TEXTS


def test_facts_name_their_line() -> None:
    facts = read_facts("\n\nNAME SIZE MODEL\nsdb 3.6T WDC WD40EFRX")
    fact = facts.find("sdb", "disk.model")
    assert (fact.line, fact.source) == (4, "lsblk")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.parent.name)
def test_facts_of_a_case_are_in_the_vocabulary(case: Path) -> None:
    text = case.read_text()
    facts = read_facts(text)
    check_vocabulary(facts)
    assert all(0 < fact.line <= text.count("\n") + 1 for fact in facts)


def test_lines_that_gave_facts_are_not_unread() -> None:
    text = """Here is my box:

$ lsblk -d -o NAME,SIZE,ROTA
NAME SIZE ROTA
sda  3.6T    1

$ cat /proc/mdstat
Personalities : [raid1]
md0 : active raid1 sdb1[1] sda1[0]
      3906885440 blocks super 1.2 [2/2] [UU]

unused devices: <none>
score: 412 of something that nobody reads
512000 bytes (512 kB, 500 KiB) copied, 58.9311 s, 8.7 kB/s
"""
    unread = [(lines.first, lines.last) for lines in text_reading.read_text(text).unread]
    assert unread == [(1, 1), (13, 13)]


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """Lines of examples and cases, cut, repeated, glued and shuffled."""
    text = draw(st.sampled_from([*TEXT_OF_CASES, *(example.read_text() for example in EXAMPLES)]))
    lines = text.split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = draw(st.integers(0, len(line)))
        other = draw(st.sampled_from(lines))
        new = draw(
            st.sampled_from([line[:cut], line[cut:], line[:cut] + other, other, "", line * 2])
        )
        lines[at] = new
    return "\n".join(lines)


@given(damaged_texts())
def test_damaged_text_gives_facts_of_the_vocabulary(text: str) -> None:
    check_vocabulary(read_facts(text))


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    check_vocabulary(read_facts(text))


@pytest.mark.alone
@pytest.mark.parametrize(
    "line",
    [
        "sda  0.00 352.00 180224.00 0.00 0.00 88.00 512.00 0.00 0.00 0.00 30.98 98.90",
        "NAME SIZE ROTA TRAN MODEL",
        "Disk /dev/sda: 447.13 GiB, 480103981056 bytes, 937703088 sectors",
        "# cat /sys/block/sda/queue/rotational",
    ],
)
def test_reading_is_linear(line: str) -> None:
    noise = f"{line}\n" * (2_000_000 // len(line))
    began = time.process_time()
    read_facts(noise)
    assert time.process_time() - began < 4, "2 MB"

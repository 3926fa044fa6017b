"""One run of the real fio in all of its formats: its figures are the same, whichever of them is read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

import pytest

from agents.readers import fio
from tests.agents.test_tools_real import needs_fio

# An engine that moves nothing: what differs is what is printed.
RUN = (
    "fio", "--name=one", "--rw=randrw", "--ioengine=null", "--size=1g", "--time_based", "--runtime=1",
    "--output-format=normal,json,terse",
)  # fmt: skip
# Relative: of the text's bandwidth there are three digits
RATES = {"iops": 1e-3, "bandwidth": 0.01}
PAIRS = [(f"{way}{name}", near) for way in ("read.", "write.", "") for name, near in RATES.items()]
# A terse line has whole I/Os a second and whole KiB, cut off: 31 blocks of 512 bytes in 1.001 s are 30 and 15 there.
CUT = {"iops": 1.0, "bandwidth": 1024.0}


@needs_fio
@pytest.mark.slow
@pytest.mark.one_in(1)
@pytest.mark.parametrize(
    "options",
    [
        ("--rate_iops=7", "--bs=4k"),  # 6.99 I/Os a second are printed as 6
        ("--rate_iops=9", "--bs=12k", "--group_reporting", "--numjobs=3"),
        ("--rate_iops=2000", "--bs=64k", "--kb_base=1000"),
        ("--rate_iops=50", "--bs=4k", "--kb_base=1000"),
        ("--rate_iops=2000", "--bs=64k", "--unit_base=1"),
        ("--rate_iops=30", "--bs=512", "--kb_base=1000", "--unit_base=1"),
        ("--rate_iops=31", "--bs=512"),  # 15 of 15.5 KiB in a terse line
        ("--rate_iops=30", "--bs=4k", "--unified_rw_reporting=1"),
        ("--rate_iops=30", "--bs=4k", "--unified_rw_reporting=both", "--lat_percentiles=1"),
        ("--rate_iops=30", "--bs=4k", "--disable_clat=1", "--disable_slat=1"),
    ],
    ids=" ".join,
)
def test_all_formats_tell_the_same(options):
    text = printed([*RUN, *options])
    begin, end = text.index("{\n"), text.rindex("\n}\n") + 3
    others = (text[:begin] + text[end:]).split("\n")
    lines = [line for line in others if line.startswith("3;")]
    normal = "\n".join(line for line in others if not line.startswith("3;"))
    wanted = figures(text[begin:end])
    compare(figures(normal), wanted, text)
    if len(lines) == 1:  # terse tells each job alone
        compare(figures(lines[0]), wanted, text, CUT)


def compare(
    told: dict[str, float | None],
    wanted: dict[str, float | None],
    text: str,
    cut: dict[str, float] | None = None,
) -> None:
    for name, near in PAIRS:
        assert (name in told) == (name in wanted), name
        if name in told:
            way, _, rate = name.rpartition(".")
            most = (cut or {}).get(rate, 0.0) * (1 if way else 2)  # reads and writes, each cut off
            assert told[name] == pytest.approx(wanted[name], rel=near, abs=most), (name, text)


@needs_fio
@pytest.mark.slow
@pytest.mark.one_in(1)
@pytest.mark.parametrize(
    "options",
    [
        ("--bs=4k",),
        ("--bs=4kb",),
        ("--bs=4kib",),  # 4000 bytes
        ("--bs=64k", "--kb_base=1000"),  # printed as 65.5 kB
        ("--kb_base=1000", "--bs=64k"),
        ("--kb_base=1000", "--bs=4kib"),
        ("--bs=12k", "--kb_base=1000"),
        ("--bs=1m", "--kb_base=1000"),
        ("--bs=1536", "--kb_base=1000"),
    ],
    ids=" ".join,
)
def test_blocks_are_as_large_as_fio_made_them(options):
    run = ["fio", "--name=one", "--rw=read", "--ioengine=null", "--size=100m", *options]
    for form in ("normal", "json"):
        (found,) = fio.find_results(printed([*run, f"--output-format={form}"]), "")
        told = {metric.name: metric.value for metric in found.metrics}
        made = (told["read.bytes"] or 0) / (told["read.ios"] or 1)
        assert found.options["block_size"] == pytest.approx(made, rel=0.003)


def printed(argv: Sequence[str]) -> str:
    """What fio prints, as if of an engine that does I/O: it is of "null", which is quick, and refused by the reader."""
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return re.sub(r'(ioengine(?:=|" : "))null', r"\1psync", done.stdout)


def figures(text: str) -> dict[str, float | None]:
    (found,) = fio.find_results(text, "")
    assert not found.trouble
    return {metric.name: metric.value for metric in found.metrics}

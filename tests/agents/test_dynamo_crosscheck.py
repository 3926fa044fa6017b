"""The kernel's counts, held against what dynamo says."""

from __future__ import annotations

import pytest

from agents.dynamo import crosscheck
from agents.tools import dynamo
from tests.agents.test_dynamo_tool import FULL, values, written


def finding(figures: dict) -> str:
    """Words against the figures; "" for none."""
    begins, _, said = crosscheck.kernel_count_note(figures).partition(": ")
    return said if begins in ("not to be trusted", "disturbed") else ""


def test_the_kernels_own_count_is_kept_beside_dynamos() -> None:
    before = {"253:3": [10, 4096, 20, 8192]}
    bytes_read, bytes_written = 1044914176, 1043464192
    after = {"253:3": [10 + 127553, 4096 + bytes_read, 20 + 127376, 8192 + bytes_written]}
    found = values(written("full", {"diskstats_before": before}, {"diskstats_after": after}))
    assert found["kernel.read.ios"] == 127553
    assert found["kernel.write.bytes"] == bytes_written
    assert finding(found) == ""


def test_ios_that_failed_unseen_are_a_finding_and_no_result() -> None:
    """dynamo counts refused writes as done: 85 000 a second, where the disk did 10."""
    after = {"253:3": [30, 122880, 30, 122880]}
    found = values(
        written("full", {"diskstats_before": {"253:3": [0] * 4}}, {"diskstats_after": after})
    )
    said = finding(found)
    assert "dynamo counted 1,044,914,176 bytes read, the kernel 122,880" in said
    assert found["iops"] == values(FULL)["iops"]  # the result stays what dynamo said


SAID = {
    "iops": 1000.0, "lat.mean": 0.004, "ios": 6000.0, "runtime": 6.0,
    "read.ios": 6000.0, "read.bytes": 49152000.0, "kernel.read.bytes": 49152000.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("counted", "seconds", "begins"),
    [
        (1.00, 6.0, ""),
        # Through a tunnel: asked a little before and a little after, in as much longer a time
        (
            1.07,
            6.42,
            "",
        ),
        (1.03, 6.0, ""),  # with many in flight
        (1.20, 6.0, "disturbed: the kernel counted 58,982,400 bytes read"),
        (1.20, None, ""),  # of before: nobody knows in how long a time
        (0.93, 6.0, "not to be trusted: dynamo counted 49,152,000 bytes read"),
        # Seen with the real one: asking takes all of the only CPU, nothing is done meanwhile
        (
            1.004,
            6.6,
            "",
        ),
    ],
)
def test_it_looks_both_ways_and_at_as_long_a_time(
    counted: float, seconds: float | None, begins: str
) -> None:
    found = SAID | {"kernel.read.bytes": counted * 49152000.0}
    if seconds:
        found["kernel.seconds"] = seconds
    assert crosscheck.kernel_count_note(found).startswith(begins)
    assert bool(crosscheck.kernel_count_note(found)) is bool(finding(found)) is bool(begins)


def test_a_journal_beside_few_small_writes_is_no_finding() -> None:
    found = SAID | {
        "read.ios": 600.0,
        "read.bytes": 600 * 512.0,
        "iops": 100.0,
        "kernel.seconds": 6.0,
    }
    assert finding(found | {"kernel.read.bytes": 600 * 512.0 + 6 * 40960}) == ""


def test_the_time_between_the_two_counts_is_kept() -> None:
    notes = [{f"diskstats_{when}": {"8:0": [0] * 4}, f"counted_{when}": at} for when, at in
             (("before", 100.25), ("after", 103.5))]  # fmt: skip
    assert values(written("full", *notes))["kernel.seconds"] == 3.25


def iops_note(*notes: dict) -> str:
    """Note beside the IOPS wherever they are shown, exported or asked for."""
    found = dynamo.parse({"messages.bin": written("full", *notes)}, dynamo.Options())
    (whole,) = (metric for metric in found if metric.name == "iops" and not metric.labels)
    return whole.note


def test_a_finding_goes_wherever_the_figure_goes() -> None:
    before = {"diskstats_before": {"253:3": [0] * 4}}
    few = {"diskstats_after": {"253:3": [30, 122880, 30, 122880]}}
    assert "not to be trusted: dynamo counted 1,044,914,176" in iops_note(before, few)
    all_of_them = {"diskstats_after": {"253:3": [127553, 1044914176, 127376, 1043464192]}}
    assert "trusted" not in iops_note(before, all_of_them)
    assert "not checked against the kernel's count" in iops_note()


def test_a_tenth_of_few_ios_that_failed_is_found() -> None:
    well = {"iops": 200.0, "lat.mean": 0.005, "read.ios": 2000.0, "read.bytes": 16384000.0}
    assert finding(well | {"kernel.read.bytes": 16384000.0}) == ""
    assert "I/Os failed" in finding(well | {"kernel.read.bytes": 14745600.0})


@pytest.mark.parametrize("missing", ["diskstats_before", "diskstats_after"])
def test_no_count_of_the_kernels_is_no_finding(missing: str) -> None:
    notes = {
        key: {"8:0": [0] * 4} for key in ("diskstats_before", "diskstats_after") if key != missing
    }
    found = values(written("full", notes))
    assert "kernel.read.ios" not in found
    assert finding(found) == ""

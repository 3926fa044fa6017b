# SPDX-License-Identifier: Apache-2.0
"""Accessors of a result, alike for all tools; media and links; the asker's command with a change made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.context.model import Fact, Facts
from agents.contracts import Metric, Series, Unit
from benchlab.diagnosis import media, pasted
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.wording import edit_command

ASYNC = {"ioengine": "libaio", "iodepth": 32, "numjobs": 4}


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("fio", {}, {"engine": "psync", "direct": False, "asked_in_flight": 1, "durable": False}),
        ("fio", ASYNC, {"blocking": False, "asked_in_flight": 128}),
        ("fio", {"iodepth": 32}, {"blocking": True, "depth": 32, "asked_in_flight": 1}),
        ("fio", {"direct": "1", "rw": "randrw"}, {"direct": True, "random": True, "writes": True}),
        ("fio", {"rw": "write:4k", "fdatasync": 1}, {"durable": True, "pattern": "write"}),
        ("fio", {"bs": 4096, "end_fsync": "1"}, {"block": 4096, "flushed_at_end": True}),
        ("dd", {"direction": "write", "oflag": ["direct"]}, {"direct": True, "durable": False}),
        ("dd", {"direction": "write", "conv": ["fdatasync"]}, {"flushed_at_end": True}),
        ("dd", {"direction": "write", "oflag": ["dsync"]}, {"durable": True, "random": False}),
        ("sysbench", {"mode": "rndrd", "extra_flags": "direct"}, {"direct": True, "reads": True}),
        ("sysbench", {"threads": 8, "fsync_all": True}, {"asked_in_flight": 8, "durable": True}),
    ],
)
def test_tools_answer_alike(kind: str, options: dict[str, Any], expected: dict[str, Any]) -> None:
    result = Result(kind, "", options=options, options_complete=True, command="x")
    assert {name: getattr(result, name) for name in expected} == expected


def test_what_is_not_known_is_none() -> None:
    result = Result("fio", "", options={"rw": "read"})
    assert (result.engine, result.direct, result.depth, result.durable) == ("", None, None, None)


def test_in_flight_is_iops_times_latency_over_both_directions() -> None:
    figures = {"read.iops": 100.0, "read.lat.mean": 0.01, "write.iops": 50.0, "write.lat.mean": 0.1}
    metrics = tuple(Metric(name, value, Unit.RATIO) for name, value in figures.items())
    assert Result("fio", "", metrics=metrics).in_flight == pytest.approx(6.0)


def test_tests_of_one_table_are_results_of_their_own() -> None:
    """Reads and writes that ran one after the other are never added up."""
    text = "IOPS (Read/Write)\n        Random:            200 / 100\n"
    evidence, _ = pasted.read_evidence(text)
    assert [(r.pattern, r.operations, r.block) for r in evidence.results] == [
        ("randread", 200.0, 4096.0),
        ("randwrite", 100.0, 4096.0),
    ]


def test_disks_are_found_below_arrays_and_partitions() -> None:
    facts = Facts(
        (
            Fact("sda", "disk.rotational", True, 2),
            Fact("sdb", "disk.rotational", True, 3),
            Fact("nvme0n1", "disk.rotational", False, 4),
            Fact("md0", "md.members", "sda1 sdb1", 6),
            Fact("/srv", "mount.source", "/dev/md0", 7),
        )
    )
    evidence = Evidence(facts=facts)
    on = {
        path: evidence.runs_on(Result("fio", "", options={"filename": path}))
        for path in ("/srv/t", "/dev/nvme0n1p2", "/home/t")
    }
    assert on == {"/srv/t": ("sda", "sdb"), "/dev/nvme0n1p2": ("nvme0n1",), "/home/t": ()}
    assert evidence.all_rotational(["sda", "nvme0n1"]) is None


@pytest.mark.parametrize(
    ("kind", "command", "changes", "edited"),
    [
        (
            "fio",
            "$ sudo fio --name=a --iodepth 32 --direct=0 | tee x",
            {"iodepth": 4, "direct": None, "ioengine": "io_uring"},
            "sudo fio --name=a --iodepth=4 --ioengine=io_uring",
        ),
        ("fio", "fio job.fio", {"direct": 1}, ""),
        (
            "dd",
            "dd if=/dev/zero of=/t oflag=direct",
            {"oflag": "dsync"},
            "dd if=/dev/zero of=/t oflag=dsync",
        ),
        ("sysbench", "sysbench fileio run", {"file_num": 1}, "sysbench fileio --file-num=1 run"),
        ("iostat", "iostat -x", {"y": 1}, ""),
    ],
)
def test_command_is_edited(kind: str, command: str, changes: dict[str, Any], edited: str) -> None:
    assert edit_command(Result(kind, "", command=command), **changes) == edited


def test_media_by_model_and_size() -> None:
    assert media.spinning_disk("WDC WD40EFRX-68N").rpm == 5400
    assert media.spinning_disk("unheard of") is media.ANY_SPINNING
    assert media.is_smr_model("ST8000DM004-2CX188") and not media.is_smr_model("ST8000NM000A")
    assert media.gp2_baseline(100 * media.GIB) == 300
    assert "gp3 (baseline)" in {volume.kind for volume in media.caps_at_bandwidth(131e6)}
    assert not media.caps_at_iops(2600)


def test_thousands_of_devices_are_looked_up_without_a_search() -> None:
    """A guest's paste of 10,000 devices took a minute when each look-up went through all series."""

    class CountedSeries(tuple[Series, ...]):
        passes = 0

        def __iter__(self) -> Iterator[Series]:
            type(self).passes += 1
            return super().__iter__()

    names = [f"sd{number}" for number in range(50)]
    series = CountedSeries(Series(name, "util", Unit.RATIO, (1.0,), (5.0,)) for name in names)
    result = Result("iostat", "", series=series)
    tracks = [result.track("util", name) for name in names]
    assert [track.device for track in tracks if track] == names
    assert result.track("util", "sdx") is None and CountedSeries.passes == 1

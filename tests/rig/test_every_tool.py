"""Each tool run by a campaign on a real layout: the numbers on the run's page are those of the artifact.

The test reads the artifacts itself, by other means than the parsers: a few numbers, picked by plain patterns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser

import pytest
from django.urls import reverse

from agents.drivers import registry
from benchlab.runs.models import Attempt
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import lab, make_campaign, mounted
from tests.runs import drive

__all__ = ["lab", "make_campaign"]  # fixtures
pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

MIB = 1 << 20
COMMAND = {
    "command": 'cd "${BENCHLAB_MOUNT:?}"\nLC_ALL=C dd if=/dev/zero of=f bs=65536 count=64 conv=fsync 2>&1\nrm f',
    "extract": ["runtime [s] = regex: copied, ([0-9.e-]+) s", "written [B] = regex: ^([0-9]+) bytes"],
}  # fmt: skip
TOOLS = [
    ("fio", {"rw": "randrw", "size": 32 * MIB, "runtime_s": 3, "iodepth": 4, "log_avg_msec": 500}),
    ("dd", {"block_size": 65536, "count": 64, "oflag": ["direct"]}),
    ("pg_test_fsync", {"seconds": 1}),
    ("bonnie", {"size": 64 * MIB, "ram": 32 * MIB, "files": 1, "fast": True}),
    ("sysbench", {"size": 16 * MIB, "files": 4, "threads": 2, "time_s": 3}),
    ("command", COMMAND),
]


def fio(text: str) -> dict[str, float]:
    job = json.loads(text)["jobs"][0]
    return {"read.iops": job["read"]["iops"], "write.iops": job["write"]["iops"]}


def dd(text: str) -> dict[str, float]:
    found = re.search(r"^(\d+) bytes .* copied, ([\d.e-]+) s", text, re.M)
    return {"bytes": float(found[1]), "runtime": float(found[2])}


def fsync(text: str) -> dict[str, float]:
    one = text.partition("one 8kB write")[2]
    return {"one.fdatasync.ops": float(re.search(r"fdatasync\s+([\d.]+) ops/sec", one)[1])}


def bonnie(text: str) -> dict[str, float | None]:
    """The CSV of 2.00: format, version, name, concurrency, seed, size, chunk, …; K/sec are KiB.

    What took less than half a second has +++++ in place of a rate, and there is none; a latency is always there.
    """
    csv = next(line for line in text.splitlines() if line.startswith("1.9"))
    row = csv.split(",")
    rate = None if set(row[11]) == {"+"} else float(row[11]) * 1024
    latency, unit = re.fullmatch(r"(\d+)(us|ms|s)", row[39]).groups()
    seconds = float(latency) / {"us": 1e6, "ms": 1e3, "s": 1}[unit]
    return {"write.block.bandwidth": rate, "write.block.latency": seconds}


def sysbench(text: str) -> dict[str, float]:
    report = text.partition("File operations:")[2].split()
    after = {word: report[at + 1] for at, word in enumerate(report[:-1])}
    return {
        "read.iops": float(after["reads/s:"]),
        "write.iops": float(after["writes/s:"]),
        "runtime": float(after["time:"].rstrip("s")),
    }


def command(text: str) -> dict[str, float]:
    return {"runtime": float(re.search(r"copied, ([\d.e-]+) s", text)[1]), "written": 64 * 65536.0}


READ: dict[str, tuple[str, Callable[[str], Mapping[str, float | None]]]] = {
    "fio": ("fio.json", fio),
    "dd": ("stderr", dd),
    "pg_test_fsync": ("stdout", fsync),
    "bonnie": ("stdout", bonnie),
    "sysbench": ("stdout", sysbench),
    "command": ("stdout", command),
}


class Cells(HTMLParser):
    """Rows of the table of measurements: name -> the number in base units."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag, attrs) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_data(self, data) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def on_the_page(web, attempt: Attempt) -> dict[str, float]:
    cells = Cells()
    cells.feed(web.get(reverse("run-detail", args=[attempt.run_id])).text)
    found = {}
    for row in cells.rows:
        text = re.sub(r"(?<=\d)\s+(?=\d)", "", row[2]) if len(row) > 3 else ""  # 4 194 304 B
        number = re.match(r"\s*(-?[\d.]+(?:e[+-]?\d+)?)", text)
        if number:
            found[row[0].split()[0]] = float(number[1])
    return found


def test_every_tool_on_a_real_layout(make_campaign, rig_host, web):
    # dynamo is not Debian's to install: tests/rig/test_dynamo.py
    assert {*READ, "dynamo"} == set(registry.all_tools())
    campaign = make_campaign(mounted("ext4"), TOOLS)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 600)
    attempts = {a.run.tool: a for a in Attempt.objects.select_related("run")}
    assert {t: a.outcome for t, a in attempts.items()} == dict.fromkeys(READ, "succeeded"), [
        a.reason_text for a in attempts.values()
    ]
    for tool, attempt in attempts.items():
        name, read = READ[tool]
        wanted = read(bytes(attempt.artifacts.get(name=name).content).decode())
        shown = on_the_page(web, attempt)
        for metric, value in wanted.items():
            stored = attempt.measurements.get(name=metric, labels={}).value
            if value is None:
                assert stored is None and metric not in shown, (tool, metric)
                continue
            assert stored == pytest.approx(value, rel=1e-12), (tool, metric)
            assert shown[metric] == pytest.approx(value, rel=1e-5), (tool, metric)
        assert attempt.tool_version or tool == "command", tool
    fios = attempts["fio"].series.filter(sampler="fio").values_list("metric", flat=True)
    assert {"read.iops", "write.iops"} <= set(fios)
    meanwhile = attempts["sysbench"].series.filter(sampler="sysbench")
    assert {"read.bandwidth", "write.bandwidth"} <= set(meanwhile.values_list("metric", flat=True))
    assert_blank(rig_host, "ubdb", "ubdc")

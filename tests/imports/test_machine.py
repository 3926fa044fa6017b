"""The machine that a text shows stands beside its results; its disks are offered, and nothing is stored unasked."""

from __future__ import annotations

import pytest

from agents.context.reading import read_facts
from benchlab.imports.machine import describe_machine, disk_names
from benchlab.runs.models import Attempt
from tests.imports.made import TEXT
from tests.imports.test_pages import handed_in, page, typed

MACHINE = """
$ lsblk -d -o NAME,SIZE,ROTA,TRAN,MODEL
NAME  SIZE ROTA TRAN MODEL
sda   3.6T    1 sata ST4000VN008
sdb   3.6T    1 sata ST4000VN008
$ cat /proc/mdstat
md0 : active raid1 sdb[1] sda[0]
      3906885440 blocks super 1.2 [2/2] [UU]

MemTotal:       65841152 kB
"""


def test_a_line_for_each_part() -> None:
    rows = describe_machine(read_facts(MACHINE))
    assert [(row["kind"], row["name"], row["line"]) for row in rows] == [
        ("host", "Memory", 10), ("disk", "sda", 4), ("disk", "sdb", 5), ("array", "md0", 7),
    ]  # fmt: skip
    assert rows[1]["text"].startswith("ST4000VN008, ") and rows[1]["text"].endswith("spins, sata")
    assert rows[3]["text"] == "raid1 of sda sdb, bitmap none"
    assert disk_names(rows) == "sda sdb"


@pytest.mark.parametrize(
    "text",
    [
        "Two Samsung PM893 960GB as md RAID 0",
        "32:0      1 Onln   0 558.375 GB SAS  HDD N   N  512B ST600MM0006      U  -",
    ],
)
def test_disks_without_a_name_are_not_offered(text: str) -> None:
    assert read_facts(text).with_name("disk.model")
    assert not describe_machine(read_facts(text))


@pytest.mark.usefixtures("readers", "nudges")
def test_disks_are_offered_and_not_stored(web) -> None:
    draft = handed_in(web, f"{TEXT}\n{MACHINE}")
    shown = page(web, draft)
    assert "The text shows: sda sdb" in shown
    assert "<strong>md0</strong>: raid1 of sda sdb" in shown
    assert web.post(f"/import/{draft.pk}/", typed(draft)).status_code == 302
    assert not any("disks" in meta for meta in Attempt.objects.values_list("meta", flat=True))

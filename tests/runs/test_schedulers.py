"""The scheduler that a run asks for, on a host whose kernel is on paper: set, looked at, recorded, put back."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.urls import reverse

from agents.contracts import AgentError, Ran, Reason
from agents.facts import reading
from agents.facts.health import Health
from agents.steps import scripts
from benchlab.engine import jobs
from benchlab.engine.checks import condition, planning, preflight
from benchlab.engine.checks.condition import Condition
from benchlab.engine.commands import copy_as_draft
from benchlab.engine.phases import provision, run_attempts
from benchlab.findings import stored_runs
from benchlab.hosts import discovery
from benchlab.runs import attempt_meta
from benchlab.runs.attempt_meta import QUEUES
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.states import Outcome
from benchlab.runs.verdict import Verdict
from benchlab.workers import messages
from tests.hosts.conftest import disk, facts
from tests.runs.paper_host import TOY, Paper, confirmed, paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = {
    "sdb": {"scheduler": "mq-deadline", "nr_requests": "96"},
    "sdc": {"scheduler": "none", "nr_requests": "256"},
    "sdd": {"scheduler": "none", "nr_requests": "256"},
}
BROUGHT = {"mq-deadline": "128", "none": "256", "kyber": "64"}  # its own number of requests
ASKED = ["none", "kyber", "mq-deadline"]


class Kernel:
    """The queues of three disks: what QUEUE_WRITE writes there is in force, unless it is `deaf`."""

    def __init__(self, paper: Paper) -> None:
        self.paper, self.deaf = paper, False
        self.queues = {name: dict(values) for name, values in BEFORE.items()}
        self.written: list[tuple[str, str]] = []
        self.tell()

    def tell(self) -> None:
        told = []
        for name, values in self.queues.items():
            others = " ".join(sorted(BROUGHT.keys() - {values["scheduler"]}))
            queue = {**values, "scheduler": f"[{values['scheduler']}] {others}"}
            told.append(disk(name, scheduler=values["scheduler"], queue=queue))
        self.paper.facts = facts(*told)

    def run(self, argv: Any, **given: Any) -> Ran:
        words = tuple(str(word) for word in argv)
        self.paper.ran.append(words)
        if words[0] == "grep":
            return Ran(words, 0, self._read(words).encode(), b"")
        if scripts.QUEUE_WRITE in words:
            _, _, _, _, value, *paths = words
            for path in paths:
                self._write(path, value)
        return Ran(words, 0, b"", b"")

    def _read(self, words: tuple[str, ...]) -> str:
        lines = []
        for path in words[3:]:
            _, _, _, name, _, attribute = path.split("/")
            value = self.queues[name][attribute]
            lines.append(f"{path}:{f'[{value}] x' if attribute == 'scheduler' else value}")
        return "\n".join(lines)

    def _write(self, path: str, value: str) -> None:
        _, _, _, name, _, attribute = path.split("/")
        self.written.append((path, value))
        if self.deaf:
            return
        if attribute == "scheduler" and value != self.queues[name]["scheduler"]:
            self.queues[name]["nr_requests"] = BROUGHT[value]
        self.queues[name][attribute] = value
        self.tell()


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def kernel(paper, monkeypatch) -> Kernel:
    made = Kernel(paper)
    monkeypatch.setattr(paper, "run", made.run, raising=False)
    return made


@pytest.fixture
def ready(kernel, make_layout, monkeypatch) -> Layout:
    """A toy array of sdb and sdc, and three runs of it."""
    layout = make_layout(phase="draft", runs=3, schedulers=ASKED)
    for attempt, scheduler in zip(layout.attempts.order_by("pk"), ASKED, strict=True):
        attempt.run.scheduler, attempt.run.point = scheduler, {"scheduler": scheduler}
        attempt.run.save()
    confirmed(layout, TOY)
    monkeypatch.setattr(preflight, "end_impossible_runs", lambda *given: None)
    provision.build_layout(layout)
    layout.refresh_from_db()
    assert layout.phase == "ready"
    assert kernel.queues == BEFORE and not kernel.written, "what builds it sets none"
    return layout


def attempt_of(layout: Layout, scheduler: str) -> Attempt:
    return layout.attempts.select_related("run").get(run__scheduler=scheduler)


def set_for(layout: Layout, scheduler: str, paper: Paper, **more: Any):
    return run_attempts.set_scheduler(layout, attempt_of(layout, scheduler), paper, **more)


def test_it_is_set_on_the_disks_below_and_on_no_others(ready, kernel, paper):
    found = set_for(ready, "kyber", paper)
    assert found == {name: {"scheduler": "kyber", "nr_requests": "64"} for name in ("sdb", "sdc")}
    assert kernel.written == [
        ("/sys/block/sdb/queue/scheduler", "kyber"),
        ("/sys/block/sdc/queue/scheduler", "kyber"),
    ]
    assert kernel.queues["sdd"] == BEFORE["sdd"]
    step = StepLog.objects.get(part=run_attempts.RUN_PART)
    assert (step.kind, step.exit_code) == ("apply", 0)
    assert step.says == "Set scheduler to kyber on sdb, sdc"


def test_where_it_is_in_force_already_nothing_is_written(ready, kernel, paper):
    """A worker died after it was set, or the run before asked for the same."""
    set_for(ready, "kyber", paper)
    ran = len(kernel.written)
    set_for(ready, "kyber", paper)
    assert len(kernel.written) == ran


def test_who_had_it_before_has_its_own_requests_again(ready, kernel, paper):
    set_for(ready, "none", paper)
    found = set_for(ready, "mq-deadline", paper)
    assert found["sdb"] == BEFORE["sdb"], "as a person had set it"
    assert found["sdc"] == {"scheduler": "mq-deadline", "nr_requests": "128"}


def test_a_kernel_that_refuses_fails_the_run_with_what_it_has(ready, kernel, paper):
    kernel.deaf = True
    with pytest.raises(AgentError) as raised:
        set_for(ready, "kyber", paper)
    assert raised.value.reason == Reason.COMMAND_FAILED
    assert "scheduler of sdb is mq-deadline, not kyber" in str(raised.value)


def test_a_write_that_fails_says_what_could_not_be_set(ready, kernel, paper, monkeypatch):
    def refused(argv: Any, **given: Any) -> Ran:
        if scripts.QUEUE_WRITE in argv:
            said = b"tee: /sys/block/sdb/queue/scheduler: Invalid argument"
            return Ran(tuple(argv), 1, b"", said)
        return kernel.run(argv, **given)

    monkeypatch.setattr(paper, "run", refused, raising=False)
    with pytest.raises(AgentError, match=r"kyber could not be set: .*Invalid argument"):
        set_for(ready, "kyber", paper)


def test_the_guard_looks_before_it_is_set(ready, kernel, paper, monkeypatch):
    """Somebody mounted the disk since: not even its scheduler is touched."""
    tell = kernel.tell

    def mounted() -> None:
        tell()
        found = paper.facts
        devices = tuple(
            replace(one, mounts=("/srv",)) if one.name == "sdc" else one for one in found.devices
        )
        paper.facts = replace(found, devices=devices)

    mounted()
    with pytest.raises(AgentError, match="is mounted at /srv") as raised:
        set_for(ready, "kyber", paper)
    assert raised.value.reason == Reason.GUARD_REFUSED
    assert kernel.written == []


def test_a_disk_that_is_gone_and_measured_without_is_left_out(ready, kernel, paper):
    del kernel.queues["sdc"]
    kernel.tell()
    assert set(set_for(ready, "kyber", paper, missing={"/dev/sdc"})) == {"sdb"}


def test_a_run_that_asks_for_none_reads_and_writes_nothing(ready, kernel, paper):
    attempt = attempt_of(ready, "kyber")
    attempt.run.scheduler = ""
    ran = len(paper.ran)
    assert run_attempts.set_scheduler(ready, attempt, paper) == {}
    assert len(paper.ran) == ran


def test_the_way_down_brings_back_what_each_disk_had(ready, kernel, paper):
    set_for(ready, "kyber", paper)
    provision.clear_disks(ready, paper)
    assert kernel.queues == BEFORE
    down = [row.says for row in StepLog.objects.filter(kind="teardown")]
    assert down[:3] == [
        "Set scheduler of sdb back to mq-deadline",
        "Set scheduler of sdc back to none",
        "Set nr_requests of sdb back to 96",
    ]
    # Down once more, as after a worker that died there: nothing is left to do.
    wrote = len(kernel.written)
    provision.clear_disks(ready, paper)
    assert len(kernel.written) == wrote


def test_what_cannot_be_put_back_is_said(ready, kernel, paper):
    set_for(ready, "kyber", paper)
    kernel.deaf = True
    with pytest.raises(AgentError, match="sdb: scheduler is kyber, it was mq-deadline"):
        provision.clear_disks(ready, paper)


def look(kernel: Kernel) -> Condition:
    """The look at a layout of sdb and sdc, which are in order."""
    names = {f"/dev/{name}": name for name in ("sdb", "sdc")}
    values = {
        name: {f"queue/{key}": value for key, value in kernel.queues[name].items()}
        for name in names.values()
    }
    return Condition(health=Health(names=names, values=values))


def test_what_somebody_changed_during_a_run_has_measured_two_states(ready, kernel, paper):
    attempt, fine = attempt_of(ready, "kyber"), Verdict(Outcome.SUCCEEDED)
    attempt.meta = {QUEUES: set_for(ready, "kyber", paper)}
    assert run_attempts.fail_if_changed(ready, attempt, fine, look(kernel)) == fine
    assert run_attempts.fail_if_changed(ready, attempt, fine, None) == fine, (
        "it is marked with that"
    )
    kernel.queues["sdc"]["scheduler"] = "none"
    judged = run_attempts.fail_if_changed(ready, attempt, fine, look(kernel))
    assert (judged.outcome, judged.reason) == (Outcome.FAILED, Reason.CHANGED_MEANWHILE)
    assert (
        "scheduler of /dev/sdc was kyber when the run began and is none after the run"
        in judged.text
    )
    failed = Verdict(Outcome.FAILED, Reason.TOOL_FAILED, "x")
    assert run_attempts.fail_if_changed(ready, attempt, failed, look(kernel)) == failed


def test_a_run_after_which_the_host_rebooted_says_that_nobody_looked(ready, kernel, paper):
    attempt, fine = attempt_of(ready, "kyber"), Verdict(Outcome.SUCCEEDED)
    rebooted = replace(look(kernel), rebooted=True)
    assert run_attempts.fail_if_changed(ready, attempt, fine, rebooted) == fine
    says = "the layout could not be checked after the run: the host was rebooted"
    assert attempt.degraded == [{"says": says, "seen": "during"}]


def test_what_no_run_asks_for_is_as_it_was_verified(ready, kernel, paper):
    """The scheduler is set right after that, so what it is before is no matter; nr_requests goes with it."""
    attempt = attempt_of(ready, "kyber")
    kernel.queues["sdb"] = {"scheduler": "none", "nr_requests": "7"}
    paper.condition = look(kernel)
    assert run_attempts.check_verified(ready, attempt, paper) == paper.condition
    attempt.run.scheduler = ""
    with pytest.raises(AgentError) as raised:
        run_attempts.check_verified(ready, attempt, paper)
    assert raised.value.reason == Reason.CHANGED_MEANWHILE
    assert (
        "scheduler of /dev/sdb was mq-deadline when the layout was verified and is none before the run"
        in str(raised.value)
    )
    assert "nr_requests of /dev/sdb was 96" in str(raised.value)


def test_a_run_that_is_refused_ends_alone_and_the_tool_never_starts(ready, kernel, paper):
    attempt = attempt_of(ready, "kyber")
    attempt.run.scheduler = ""
    attempt.run.save()
    kernel.queues["sdb"]["nr_requests"] = "7"
    paper.condition = look(kernel)
    run_attempts.start_attempt(ready, attempt)
    attempt.refresh_from_db()
    ready.refresh_from_db()
    assert (attempt.outcome, attempt.reason) == ("failed", "changed_meanwhile")
    assert attempt.reason_text.startswith("The run was not started, because settings on")
    assert ready.phase == "ready"
    assert not any("spool" in argv for argv in paper.ran)


def test_the_looks_between_runs_call_it_no_change(ready, kernel, paper):
    set_for(ready, "kyber", paper)
    preflight.verify_layout(ready, paper)


def test_a_fingerprint_has_what_was_in_force_and_one_without_is_what_it_was(ready, kernel, paper):
    plan, told = planning.stored_plan(ready), paper.facts
    attempt = attempt_of(ready, "kyber")
    plain = condition.fingerprint_parts(ready, plan, attempt, told)
    found = condition.fingerprint_parts(
        ready, plan, attempt, told, (), set_for(ready, "kyber", paper)
    )
    assert [one["scheduler"] for one in plain["devices"]] == ["mq-deadline", "none"]
    assert [one["scheduler"] for one in found["devices"]] == ["kyber", "kyber"]
    same = {key: value for key, value in found.items() if key != "devices"}
    assert same == {key: value for key, value in plain.items() if key != "devices"}


def test_a_run_is_started_with_what_it_asked_for_on_record(ready, kernel, paper, monkeypatch):
    begun = []
    console = SimpleNamespace(
        begin=lambda *given: begun.append(dict(kernel.queues["sdb"])), notes=lambda playing: {}
    )
    monkeypatch.setattr(jobs, "attempt_console", lambda attempt: console)
    monkeypatch.setattr(discovery, "missing_program", lambda *given: "")
    monkeypatch.setattr(reading, "read_state_hash", lambda *given: "g")
    monkeypatch.setattr(condition, "check_before_run", lambda *given: Condition())
    attempt = attempt_of(ready, "kyber")
    run_attempts.start_attempt(ready, attempt)
    attempt.refresh_from_db()
    assert attempt.phase == "running", attempt.reason_text
    assert begun == [{"scheduler": "kyber", "nr_requests": "64"}], "before the tool was started"
    assert attempt.meta[QUEUES] == {
        name: {"scheduler": "kyber", "nr_requests": "64"} for name in ("sdb", "sdc")
    }


def test_a_refusal_ends_that_run_alone(ready, kernel, monkeypatch):
    kernel.deaf = True
    monkeypatch.setattr(discovery, "missing_program", lambda *given: "")
    monkeypatch.setattr(reading, "read_state_hash", lambda *given: "g")
    attempt = attempt_of(ready, "kyber")
    run_attempts.start_attempt(ready, attempt)
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.reason) == ("failed", "command_failed")
    ready.refresh_from_db()
    assert ready.phase == "ready"


def test_a_retry_is_built_with_the_same_schedulers(ready):
    assert copy_as_draft(ready, position=1, visit=1).schedulers == ASKED


def test_findings_see_what_was_in_force_and_that_it_was_asked_for(ready):
    attempt = attempt_of(ready, "kyber")
    attempt.meta = {QUEUES: {"sdb": {"scheduler": "kyber", "nr_requests": "64"}}}
    attempt.save()
    (found,) = stored_runs.read_runs([attempt.pk])
    assert found.requested == ("scheduler",)
    assert {name: one.scheduler for name, one in found.devices.items()} == {
        "sdb": "kyber",
        "sdc": "none",
    }


def test_facts_are_overlaid_only_where_something_was_set():
    told = {"devices": [{"name": "sdb", "scheduler": "none"}, {"name": "sda"}]}
    assert attempt_meta.facts_during_attempt(told, {}) is told
    queues = {"sdb": {"scheduler": "kyber", "nr_requests": "64"}}
    assert attempt_meta.facts_during_attempt(told, {QUEUES: queues})["devices"] == [
        {"name": "sdb", "scheduler": "kyber"},
        {"name": "sda"},
    ]
    assert attempt_meta.describe_queues(queues) == "sdb kyber (nr_requests 64)"


def test_the_page_of_a_run_says_what_was_in_force(ready, web):
    attempt = attempt_of(ready, "kyber")
    Attempt.objects.filter(pk=attempt.pk).update(
        phase="done",
        outcome="succeeded",
        meta={QUEUES: {"sdb": {"scheduler": "kyber", "nr_requests": "64"}}},
    )
    text = web.get(reverse("run-detail", args=[attempt.run_id])).text
    assert "I/O schedulers in force" in text and "sdb kyber (nr_requests 64)" in text

# SPDX-License-Identifier: Apache-2.0
"""Outcome of an attempt, from the runner's record. *failed*: the tool said no. *interrupted*: it was cut off.

What a reason means and what to do, in a person's words, is here alone; pages and the API look it up.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agents.contracts import Job, Reason
from agents.jobs import job
from agents.jobs.spool import BASE
from benchlab.installation import command
from benchlab.runs.models import Artifact, Attempt
from benchlab.runs.states import Outcome

LAST_LINES = 5
# bytes in which the last lines are searched
TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    reason: Reason | str = ""
    text: str = ""


def judge_attempt(attempt: Attempt, work: Job) -> Verdict:
    """The verdict before anything is parsed; the figures may still turn success into failure."""
    state, code = job.State(attempt.meta["state"]), attempt.exit_code
    if attempt.meta.get("disk_full"):
        text = (
            f"{BASE} on the host was full when {work.argv[0]} ended, so its output and samples may be incomplete."
            f" What there is of them is stored, and removed from the host."
            f" It {_describe_exit(code)}: {_last_output(attempt)}"
        )
        return Verdict(Outcome.FAILED, Reason.NO_SPACE, text)
    if state == job.State.EXITED and code == 0 and attempt.meta.get("halted"):
        text = (
            f"{work.argv[0]} was stopped by a signal (SIGSTOP) for a part of the run and went on later: its figures"
            " would be wrong. Find out who or what stops it; then retry."
        )
        return Verdict(Outcome.FAILED, Reason.CHANGED_MEANWHILE, text)
    if state == job.State.EXITED and code == 0:
        return Verdict(Outcome.SUCCEEDED)
    if state == job.State.EXITED:
        text = f"{work.argv[0]} {_describe_exit(code)}: {_last_output(attempt)}"
        return Verdict(Outcome.FAILED, Reason.TOOL_FAILED, text)
    if state == job.State.TIMEOUT:
        text = f"{work.argv[0]} ran longer than its limit of {work.timeout_s:g} s and was stopped."
        return Verdict(Outcome.FAILED, Reason.JOB_TIMEOUT, text)
    if state == job.State.REBOOTED:
        return Verdict(
            Outcome.INTERRUPTED, Reason.HOST_REBOOTED, "The host was rebooted during the run."
        )
    text = f"The job is {state}: it was ended on the host before it was done."
    return Verdict(Outcome.INTERRUPTED, Reason.JOB_VANISHED, text)


def _describe_exit(code: int | None) -> str:
    """Words for how a tool ended: a shell reports the signal that killed it as 128 + its number."""
    try:
        name = signal.Signals((code or 0) - 128).name
    except ValueError:
        return f"ended with exit code {code}"
    memory = ", perhaps by the kernel for lack of memory" if name == "SIGKILL" else ""
    return f"was killed by {name}{memory} (exit code {code})"


def _last_bytes(row: Artifact) -> bytes:
    last = b""
    for piece in row.pieces():
        last = last[-TAIL_BYTES:] + piece
    return last[-TAIL_BYTES:]


def _last_output(attempt: Attempt) -> str:
    """The last lines that the tool printed, stderr before stdout."""
    for name in ("stderr", "stdout"):
        row = attempt.artifacts.filter(name=name).first()
        lines = (
            _last_bytes(row).decode("utf-8", "replace").replace("\0", "").split("\n") if row else []
        )
        if texts := [line for line in lines if line.strip()][-LAST_LINES:]:
            return " / ".join(texts)[:2000]
    return "no output"


@dataclass(frozen=True, slots=True)
class ReasonText:
    happened: str
    do: str


REASON_TEXTS: dict[str, ReasonText] = {
    Reason.CONNECTION_REFUSED: ReasonText(
        "The host answered, but nothing listens on its SSH port.",
        "Start the SSH server there, or correct the port on the host's page.",
    ),
    Reason.TIMED_OUT: ReasonText(
        "The host did not answer in time.",
        "Check that it is on and that no firewall drops packets to its SSH port; then retry.",
    ),
    Reason.AUTHENTICATION_FAILED: ReasonText(
        "The host rejected our key.",
        "Put the public key from the host's page into the user's authorized_keys.",
    ),
    Reason.NAME_NOT_FOUND: ReasonText(
        "The host's name could not be resolved.",
        "Correct the address on the host's page, or fix DNS.",
    ),
    Reason.FORBIDDEN_ADDRESS: ReasonText(
        "The host's address is in a network where no host is allowed.",
        "Correct the address on the host's page; whoever runs BenchLab decides by BENCHLAB_FORBID_NETS.",
    ),
    Reason.HOST_KEY_CHANGED: ReasonText(
        "The host offered another host key than the one pinned: it was reinstalled, or it is not the same machine.",
        "Compare the fingerprint on the host's page with the machine itself before you confirm the new key.",
    ),
    Reason.HOST_KEY_UNKNOWN: ReasonText(
        "Nobody has confirmed this host's key yet.",
        "Confirm its fingerprint on the host's page.",
    ),
    Reason.CONNECTION_LOST: ReasonText(
        "The SSH connection broke.",
        "Nothing is lost: the tool runs on by itself. BenchLab tries again.",
    ),
    Reason.NO_SUDO: ReasonText(
        "The user on the host may not run commands as root without a password.",
        "Allow passwordless sudo for it, or log in as root.",
    ),
    Reason.COMMAND_FAILED: ReasonText(
        "A command on the host failed.",
        "Read its output in the step log below, fix the cause, then retry.",
    ),
    Reason.GUARD_REFUSED: ReasonText(
        "The guard stopped a command that would have touched a device not provably spare.",
        "Look at the devices on the host's page; something uses this one, or it is not the one you confirmed.",
    ),
    Reason.PLAN_STALE: ReasonText(
        "The host's devices changed since the plan was confirmed, so it was not carried out.",
        "Plan again and confirm the new plan.",
    ),
    Reason.VERIFY_FAILED: ReasonText(
        "A layer was built, but verifying it showed something other than planned.",
        "Read the differences below; the layout was taken down again.",
    ),
    Reason.DEGRADED: ReasonText(
        "Something in the layout failed, so nothing more was measured on it.",
        "Check the named disk. Retry when it is healthy again, or let the topology be measured degraded.",
    ),
    Reason.NOT_BLANK: ReasonText(
        "The disks are not blank after teardown.",
        "Look at the host: the page names what is left. Then tear down again.",
    ),
    Reason.DISK_GONE: ReasonText(
        "A disk of the layout is not on the host any more, so it cannot be proven blank.",
        "Put the named disk back in, then tear down again; where that cannot be, an owner may release the"
        " host.",
    ),
    Reason.NEEDS_REBOOT: ReasonText(
        "A disk was removed while the layout used it, and the kernel still holds what was on it.",
        "Reboot the host, with the disk in it, then tear down again.",
    ),
    Reason.TOOL_MISSING: ReasonText(
        "A program that is needed is not on the host, or too old.",
        "Install it there (the plan's and the host's page say how), then plan again.",
    ),
    Reason.TOOL_FAILED: ReasonText(
        "The benchmark tool failed.", "Its message is in stderr, among the artifacts below."
    ),
    Reason.JOB_TIMEOUT: ReasonText(
        "The tool ran longer than allowed and was stopped.",
        "Make the workload smaller, or find out why the device is so slow; then retry.",
    ),
    Reason.PARSE_FAILED: ReasonText(
        "The tool's output could not be read. It is kept, byte for byte.",
        f"Look at the artifact and the line named; after a fix, `{command('reparse')}` reads it again.",
    ),
    Reason.HOST_REBOOTED: ReasonText(
        "The host was rebooted after the layout was built.", "Find out why, then retry."
    ),
    Reason.HOST_LOST: ReasonText(
        "The host was silent for too long.",
        "Bring it back; the layout is taken down as soon as it answers. Then retry.",
    ),
    Reason.RESTORED: ReasonText(
        "The database was restored from a backup that was made while this run was waiting or under way.",
        "Look at what stands on the host, take its layout down, then retry.",
    ),
    Reason.WORKER_LOST: ReasonText(
        "The worker of this run was unreachable for too long.",
        "Retry; if it happens again, read the worker's log.",
    ),
    Reason.JOB_VANISHED: ReasonText(
        "The job is gone from the host, with no record of how it ended.",
        "It was killed (perhaps by the OOM killer) or its directory was removed. Retry.",
    ),
    Reason.BAD_OPTIONS: ReasonText(
        "The options of a layer or tool do not fit together.",
        "Correct the topology or workload, and make a new campaign.",
    ),
    Reason.BAD_FACTS: ReasonText(
        "What the host told about itself could not be read.",
        "Read its facts again on the host's page; the message says which command failed.",
    ),
    Reason.NO_DEVICES: ReasonText(
        "The host does not have the spare devices that this topology needs.",
        "Mark devices spare and give them the role, on the host's page.",
    ),
    Reason.NO_SPACE: ReasonText(
        "There is not enough space.",
        "Make the test file smaller, or give the layout more or larger devices. Where the host's own disk is full (df,"
        " df -i), free space there.",
    ),
    Reason.READ_ONLY: ReasonText(
        "The host's own file system is read-only, so a run can be neither started there nor fetched.",
        "The host's kernel log (dmesg) says what made it so. Make it writable again; then retry, or tear down again.",
    ),
    Reason.TOO_LARGE: ReasonText(
        "What the tool wrote is more than BenchLab keeps of one run.",
        "Log less of it (fewer jobs, longer intervals, a shorter run) and retry; it is still on the host.",
    ),
    Reason.TOO_LATE: ReasonText(
        "What this run was to measure (a resync or reshape) was over too soon.",
        "Slow it down (md: /proc/sys/dev/raid/speed_limit_max), use larger disks or make the run shorter; then retry.",
    ),
    Reason.CHANGED_MEANWHILE: ReasonText(
        "Settings on the host, or its clock, are no longer those under which the run was to measure.",
        "Find what changes them there (a udev rule, tuned, multipathd, a time service, a person); then retry.",
    ),
    Reason.CANCELLED: ReasonText("It was cancelled.", "Retry if you still want its result."),
    Reason.INTERNAL: ReasonText(
        "BenchLab itself failed; the host is not at fault.",
        "The worker's log has the traceback. Retry is safe.",
    ),
}


def explain_reason(reason: str) -> ReasonText:
    """Words for a stored reason; one that this version does not know is shown as it is."""
    return REASON_TEXTS.get(reason, ReasonText(reason.replace("_", " "), ""))

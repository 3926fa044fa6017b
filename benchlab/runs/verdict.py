# SPDX-License-Identifier: Apache-2.0
"""Outcome of an attempt, from the runner's record. *failed*: the tool said no. *interrupted*: it was cut off."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agents.contracts import Job, Reason
from agents.jobs import job
from agents.jobs.spool import BASE
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

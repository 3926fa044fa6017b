# SPDX-License-Identifier: Apache-2.0
"""A job on the host: started detached, polled, fetched, stopped, removed. hostside/ has the other half.

Every function is one command over a Shell, and may be called again after any failure.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import copysign

from agents.contracts import AgentError, Frame, Job, ParseError, Ran, Reason, Shell, Watch, Window
from agents.jobs.spool import (
    BASE,
    GRACE_S,
    OWN_FILES,
    Spool,
    Waiting,
    archive,
    call,
    check_file_name,
    checked,
    script,
    told_of,
    unpack,
)
from agents.plaintext import visible

# characters of a name or value that the runner notes
WORD_MAX = 200
# bytes of samples in one answer, runner.sh's dd
POLL_CAP = 4 * 1024 * 1024
# Of /proc/stat, as it stands in a frame
BOOTED = re.compile(rb"^ btime ([0-9]{1,12})$", re.M)
NOTES = ("begun", "running", "ended", "halted", "fetched", "ran_as")


class State(StrEnum):
    """State of a job. After `vanished` call `stop`: the tool may have outlived its leader."""

    # no spool directory: never started, or removed
    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    # by `stop`
    KILLED = "killed"
    # by its own timeout
    TIMEOUT = "timeout"
    # the leader is gone and left no exit code
    VANISHED = "vanished"
    REBOOTED = "rebooted"

    @property
    def is_over(self) -> bool:
        return self not in (State.ABSENT, State.STARTING, State.RUNNING)


class Did(StrEnum):
    """Outcome of `stop`. `survived`: it sits in the kernel and KILL did not help."""

    NOTHING = "nothing"
    TERMINATED = "terminated"
    KILLED = "killed"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Started:
    # somebody else's start, or our own delivered twice
    already: bool


@dataclass(frozen=True, slots=True)
class Polled:
    state: State
    # 128 + n for signal n
    exit_code: int | None
    new_samples: bytes
    # for the next poll
    offset: int
    # the answer was cut at POLL_CAP: poll again at once
    more: bool
    # of a job that is over, when its outputs were asked for
    fetched: Fetched | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    did: Did
    state: State


@dataclass(frozen=True, slots=True)
class Meta:
    """Notes of the runner on a job. Clock times are seconds; None where the job did not get that far."""

    state: State
    exit_code: int | None
    boot_id: str
    # epoch
    started_at: float | None
    # epoch: start plus the monotonic time since
    ended_at: float | None
    started_mono: float | None
    ended_mono: float | None
    # By how much the wall clock jumped at least between start and fetch; what reading two clocks takes is no jump.
    clock_step: float | None
    # "yes" dropped, "no" not asked, "refused" by the kernel
    caches: str
    # bytes of page cache before and after dropping
    cached_before: int | None
    cached_after: int | None
    # what the sampler wrote during the run
    sample_bytes: int
    # user ID of the tool: "0" for root, "" for the login user
    user: str = ""
    # reason why it had to run as root
    why_root: str = ""
    # Samples at which the tool was stopped by a signal: what it timed then is no work of its
    halted: int = 0
    # that of the spool, when the tool ended: the outputs may be cut
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    # "stdout", "stderr" and each of Job.outputs that was there
    files: dict[str, bytes]
    samples: bytes
    # errors of the runner itself; normally empty
    log: bytes
    meta: Meta
    # files too large for one answer; `samples` is b"" then
    waiting: tuple[Waiting, ...] = ()


def start_job(
    shell: Shell,
    spool: Spool,
    job: Job,
    sampled: Sequence[str | Watch] = (),
    interval_s: float = 1.0,
) -> Started:
    """Start the job at most once, even if the command is delivered twice. Raises AgentError."""
    archived = archive(job, sampled, interval_s)
    answer = _parse_answer(call(shell, spool, "start", stdin=archived).stdout)
    return Started(already=answer.get("start") == "already")


def poll(
    shell: Shell,
    spool: Spool,
    wait_s: float = 0.0,
    offset: int = 0,
    outputs: Sequence[str] | None = None,
) -> Polled:
    """Wait on the host up to `wait_s` for the end, and read the samples from `offset` on.

    With `outputs`, the same command also fetches a finished job, to keep the time between two runs short.
    """
    argv, timeout_s = poll_command(spool, wait_s, offset, outputs)
    return polled(shell.run(argv, root=spool.root, timeout_s=timeout_s), spool, offset, outputs)


def poll_command(
    spool: Spool, wait_s: float, offset: int, outputs: Sequence[str] | None
) -> tuple[tuple[str, ...], float]:
    """The command of `poll` and its time limit, for callers that wait in their own way."""
    fetch = [] if outputs is None else ["fetch", *map(check_file_name, outputs)]
    argv = script(spool, "poll", f"{wait_s:g}", str(offset), *fetch)
    return argv, wait_s + (60.0 if outputs is None else 600.0)


def polled(ran: Ran, spool: Spool, offset: int, outputs: Sequence[str] | None) -> Polled:
    """State and output from the answer to a poll. Raises AgentError."""
    head, _, raw = checked(ran, spool, "poll").stdout.partition(b"\n\n")
    answer = _parse_answer(head)
    state, code = _job_state(answer), _note_number(answer, "exit")
    if state is State.ABSENT:
        return Polled(State.ABSENT, None, b"", offset, False)
    exit_code = _exit(code)
    if outputs is not None and state.is_over:
        return Polled(state, exit_code, b"", offset, False, _fetched(raw, outputs))
    # The host counts in blocks: it sends from the beginning of the one that `offset` is in.
    begins = min(int(_note_number(answer, "from") or 0), offset)
    new = raw[:POLL_CAP][offset - begins :]
    return Polled(state, exit_code, new, offset + len(new), len(raw) >= POLL_CAP)


def fetch(shell: Shell, spool: Spool, outputs: Sequence[str] = ()) -> Fetched:
    """Fetch everything that the job left; `outputs` as in Job. Raises AgentError if it arrives incomplete."""
    ran = call(shell, spool, "fetch", *map(check_file_name, outputs), timeout_s=600.0)
    if ran.stdout == b"state=absent\n":
        raise AgentError(f"{spool.name}: there is no such job on the host", Reason.HOST_LOST)
    return _fetched(ran.stdout, outputs)


def _fetched(raw: bytes, outputs: Sequence[str]) -> Fetched:
    names = {**{n: n for n in OWN_FILES}, **{f"work/{n}": n for n in outputs}}
    files = unpack(raw, names)
    own = {name: files.pop(name, b"") for name in OWN_FILES[2:]}
    notes = "".join(own[name].decode(errors="replace") for name in NOTES)
    waiting = told_of(own["waiting"], names)
    sampled = sum(file.size for file in waiting if file.name == "samples") or len(own["samples"])
    meta = _meta(_parse_pairs(notes), sampled)
    return Fetched(files, own["samples"], own["runner.log"], meta, waiting)


def stop_job(shell: Shell, spool: Spool) -> Stopped:
    """Send TERM, then KILL, to this job's processes only. Does nothing to a finished or absent job."""
    answer = _parse_answer(call(shell, spool, "stop", timeout_s=60.0 + 4 * GRACE_S).stdout)
    return Stopped(Did(answer.get("did", "nothing")), _job_state(answer))


def remove_spool(shell: Shell, spool: Spool) -> None:
    """Remove the spool directory. Raises AgentError if the job still runs."""
    state = _job_state(_parse_answer(call(shell, spool, "remove", timeout_s=300.0).stdout))
    if state is not State.ABSENT:
        raise AgentError(f"{spool.name} is {state}: stop it before removing it")


def run_short(shell: Shell, job: Job, base: str = BASE) -> Ran:
    """A quick run in the foreground (a Tool's precheck), in a directory of its own, then removed."""
    spool = Spool(f"short-{secrets.token_hex(8)}", job.root, base)
    archived = archive(job, (), 1.0)
    ran = shell.run(script(spool, "short"), stdin=archived, root=job.root, timeout_s=job.timeout_s)
    return Ran(job.argv, ran.exit_code, ran.stdout, ran.stderr, ran.seconds)


def frames(raw: bytes) -> list[Frame]:
    """The sampler's output. A torn last frame is dropped; anything else amiss is a ParseError."""
    whole = raw[: raw.rfind(b"\n.\n") + 3] if b"\n.\n" in raw else b""
    parsed: list[Frame] = []
    at: float | None = None
    texts: dict[str, list[str]] = {}
    name = ""
    for number, line in enumerate(whole.decode(errors="replace").split("\n")[:-1], start=1):
        kind, rest = line[:1], line[2:]
        if kind == "@" and at is None and rest.isdigit() and len(rest) <= 20:
            at, texts, name = int(rest) / 1e9, {}, ""
        elif kind == "#" and at is not None and rest:
            name = rest
            texts[name] = []
        elif kind == " " and name:
            texts[name].append(line[1:] + "\n")
        elif line == "." and at is not None:
            parsed.append(Frame(at, {file: "".join(lines) for file, lines in texts.items()}))
            at, name = None, ""
        else:
            raise ParseError("not a line of a sampler's frame", number, line)
    return parsed


def clock_set(samples: bytes) -> float:
    """Largest change of the wall clock since the first sample in seconds; 0.0: it was not set.

    It is read from the kernel's boot time, in whole seconds, which changes only when the wall clock is set.
    """
    booted = [int(seconds) for seconds in BOOTED.findall(samples)]
    return float(max((at - booted[0] for at in booted), key=abs, default=0))


def _parse_answer(printed: bytes) -> dict[str, str]:
    answer = _parse_pairs(printed.decode(errors="replace"))
    if not answer.keys() & {"start", "state"}:
        raise _unexpected(repr(printed[:200]))
    return answer


def _unexpected(printed: str) -> AgentError:
    """The error for an answer that is the host's own fault."""
    return AgentError(f"unexpected answer from the host: {printed}", Reason.COMMAND_FAILED)


def _job_state(answer: Mapping[str, str]) -> State:
    try:
        return State(answer.get("state", ""))
    except ValueError:
        raise _unexpected(str(dict(answer))) from None


def _parse_pairs(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name[:WORD_MAX]: visible(value[:WORD_MAX]) for name, value in pairs}


def _clock_reading(notes: Mapping[str, str], name: str) -> tuple[float | None, float]:
    """(monotonic seconds when the wall clock was read, by how much that may be wrong): it is read by a program, between
    two looks at the monotonic one. Spools from before had the second look only.
    """
    began, ended = _mono(notes, f"{name}_from_ns"), _mono(notes, f"{name}_ns")
    if began is None or ended is None or began > ended:
        return ended, 0.0
    return (began + ended) / 2, (ended - began) / 2


def _meta(notes: Mapping[str, str], sample_bytes: int) -> Meta:
    started, (noted, unsure) = _mono(notes, "started_ns"), _clock_reading(notes, "noted")
    # read a moment after the start
    started_at = _note_number(notes, "noted_at")
    if started_at is not None and started is not None and noted is not None:
        started_at -= noted - started
    ended, code = _mono(notes, "ended_ns"), _note_number(notes, "exit")
    fetched_at, (fetched, as_unsure) = (
        _note_number(notes, "fetched_at"),
        _clock_reading(notes, "fetched"),
    )
    ended_at = step = None
    if started_at is not None and started is not None:
        ended_at = started_at + ended - started if ended is not None else None
        if fetched_at is not None and fetched is not None:
            step = (fetched_at - started_at) - (fetched - started)
            step = copysign(max(0.0, abs(step) - unsure - as_unsure), step)
    return Meta(
        state=_job_state(notes),
        exit_code=_exit(code),
        boot_id=notes.get("boot", ""),
        started_at=started_at,
        ended_at=ended_at,
        started_mono=started,
        ended_mono=ended,
        clock_step=step if notes.get("state") != State.REBOOTED else None,
        caches=notes.get("dropped", "no"),
        cached_before=_kib(notes, "cached_before_kib"),
        cached_after=_kib(notes, "cached_after_kib"),
        sample_bytes=sample_bytes,
        user=notes.get("user", ""),
        why_root=notes.get("why_root", ""),
        halted=int(_note_number(notes, "halted") or 0),
        disk_full=notes.get("full") == "yes",
    )


def _note_number(notes: Mapping[str, str], name: str) -> float | None:
    # A date without %N prints the letter: whole seconds then.
    match = re.match(r"[0-9]{1,20}(\.[0-9]+)?", notes.get(name, ""))
    return float(match[0]) if match else None


def _exit(code: float | None) -> int | None:
    if code is not None and code > 255:
        raise _unexpected(f"exit code {code:.0f}")
    return None if code is None else int(code)


def _mono(notes: Mapping[str, str], name: str) -> float | None:
    nanoseconds = _note_number(notes, name)
    return None if nanoseconds is None else nanoseconds / 1e9


def _kib(notes: Mapping[str, str], name: str) -> int | None:
    kib = _note_number(notes, name)
    return None if kib is None else int(kib) * 1024


# s of a preparation that is worth a name
SHORTEST = 0.5


def after_ramp(start: float, end: float, ramp: float) -> list[Window]:
    """One measured window, and what came before it."""
    warm = max(0.0, start - ramp)
    before = [Window("file layout", 0.0, warm, False), Window("ramp", warm, start, False)]
    return [*(w for w in before if w.end - w.start >= SHORTEST), Window("measured", start, end)]

# SPDX-License-Identifier: Apache-2.0
"""The spool directory of a job on the host: what is sent to make it, and what comes back from it."""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agents.contracts import AgentError, Job, Ran, Reason, Shell, Watch
from agents.quote import command_line, exports

HOSTSIDE = files("agents.hostside")
# bytes of a file that is too large for one answer; outputs.sh
PIECE = 16 << 20
# between TERM and KILL
GRACE_S = 5
BASE = "/var/tmp"  # noqa: S108  # spool.sh refuses a directory in it that is not our own
# a block of 4 KiB for each note on the end of a job
RESERVE = b"reserve\n" * 4096
PLAIN = re.compile(r"[A-Za-z0-9_+=@%][A-Za-z0-9_.+=@%,-]{0,199}")
PROGRAMS = (b"\x7fELF", b"#!/")
OWN_FILES = (
    "stdout",
    "stderr",
    "samples",
    "runner.log",
    "begun",
    "running",
    "ended",
    "halted",
    "fetched",
    "ran_as",
    "waiting",
    "listed",
)


@dataclass(frozen=True, slots=True)
class Spool:
    """The directory of one attempt on the host: BASE/benchlab-UID/NAME, kept over reboots."""

    # "attempt-17"
    name: str
    # whose it is: the job's own `root`
    root: bool = True
    base: str = BASE

    def __post_init__(self) -> None:
        check_file_name(self.name)

    def __str__(self) -> str:
        """Path of the spool for a person; the ID of a user other than root is unknown."""
        return f"{self.base}/benchlab-{'0' if self.root else '*'}/{self.name}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that is still only on the host, to be read with large_files.read_piece."""

    name: str
    path: str
    size: int

    @property
    def piece_count(self) -> int:
        return math.ceil(self.size / PIECE)


def check_file_name(name: str) -> str:
    """The name, if it can only be a file or directory right here; otherwise raises AgentError."""
    if not PLAIN.fullmatch(name) or name in (*OWN_FILES, "benchlab"):
        raise AgentError(
            f"{name!r} is not allowed as the name of a file or job: plain names only, none reserved"
        )
    return name


def tell_stopped(directory: Path) -> None:
    """Note in a job's spool that somebody stops it, so that its end is no failure of its tool.

    `directory` is that of a process on this machine, which may be no job's. Raises OSError when the process is gone.
    """
    spool_path = directory.resolve(strict=True)
    # of a job's leader, of its tool
    for place in (spool_path, spool_path.parent):
        if (place / "benchlab").is_file() and (place / "begun").is_file():
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(place / "stopped", flags, 0o600))


def script(spool: Spool, verb: str, *arguments: str) -> tuple[str, ...]:
    """The one command of every call: spool.sh finds the directory and hands over to the runner there."""
    text = (HOSTSIDE / "spool.sh").read_text()
    # saves the host a fork; else it asks id
    uid = "0" if spool.root else ""
    return ("sh", "-c", text, "spool", spool.base, uid, verb, spool.name, *arguments)


def call(
    shell: Shell, spool: Spool, *verb: str, stdin: bytes = b"", timeout_s: float = 120.0
) -> Ran:
    """Call a verb of the runner. Raises AgentError if it fails on the host."""
    ran = shell.run(script(spool, *verb), stdin=stdin, root=spool.root, timeout_s=timeout_s)
    return checked(ran, spool, verb[0])


def checked(ran: Ran, spool: Spool, verb: str) -> Ran:
    """The answer of a verb of the runner, unchanged. Raises AgentError if the verb failed."""
    if ran.exit_code:
        output = ran.stderr.decode(errors="replace").strip() or "no output"
        message = f"{verb} of {spool.name} failed: {output} (exit {ran.exit_code})"
        raise AgentError(message, _reason(output))
    return ran


def _reason(output: str) -> Reason:
    if "Read-only file system" in output:
        return Reason.READ_ONLY
    full = "No space left" in output or "full" in output
    return Reason.NO_SPACE if full else Reason.COMMAND_FAILED


def archive(job: Job, sampled: Sequence[str | Watch], interval_s: float) -> bytes:
    """The tar that `spool.sh` unpacks; `complete` comes last and proves that everything arrived."""
    watches = {
        str(number): watch
        for number, watch in enumerate((w for w in sampled if isinstance(w, Watch)), start=1)
    }
    settings = {
        "timeout_s": str(math.ceil(job.timeout_s)),
        "grace_s": str(GRACE_S),
        "interval_ms": str(round(interval_s * 1000)),
        "drop_caches": "yes" if job.drop_caches else "no",
        "unprivileged": "yes" if job.unprivileged else "no",
        "why_root": job.why_root,
        "place": job.place,
        "program": job.program or job.argv[0],
        "room": str(job.room),
        "lays_out": "yes" if job.lays_out else "no",
        "keeps": "yes" if job.keeps else "no",
        "must_be_off": " ".join(job.must_be_off),
        "sampled": " ".join(name for name in sampled if isinstance(name, str)),
        "lasting": " ".join(number for number, watch in watches.items() if watch.lasting),
        "each": " ".join(number for number, watch in watches.items() if not watch.lasting),
        **{f"key_{number}": watch.file_key for number, watch in watches.items()},
        **{f"begins_{number}": watch.begins for number, watch in watches.items()},
        **{f"where_{number}": " ".join(watch.where) for number, watch in watches.items()},
    }
    content = {
        "benchlab": b"A spool directory of BenchLab. Remove it when no job runs in it.\n",
        "runner.sh": (HOSTSIDE / "runner.sh").read_bytes(),
        "sampler.sh": (HOSTSIDE / "sampler.sh").read_bytes(),
        "outputs.sh": (HOSTSIDE / "outputs.sh").read_bytes(),
        "as_user.sh": (HOSTSIDE / "as_user.sh").read_bytes(),
        "freebsd.sh": (HOSTSIDE / "freebsd.sh").read_bytes(),
        "settings": "".join(f"{k}={shlex.quote(v)}\n" for k, v in settings.items()).encode(),
        "command": f"{exports(job.env)}exec {command_line(job.argv)}\n".encode(),
        **{f"sampled-{number}": _watching(watch) for number, watch in watches.items()},
        **{f"work/{check_file_name(name)}": data for name, data in job.inputs.items()},
        "reserve": RESERVE,
    }
    for name in job.outputs:
        check_file_name(name)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        work = tarfile.TarInfo("work")
        work.type, work.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(work)
        for name, data in {**content, "complete": b""}.items():
            member = tarfile.TarInfo(name)
            # A program that is sent along is run by its path.
            member.size, member.mode = len(data), 0o700 if data.startswith(PROGRAMS) else 0o600
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _watching(watch: Watch) -> bytes:
    """A script that execs the command, or ends at once if there is no such program."""
    program = shlex.quote(watch.argv[0])
    return f"command -v {program} >/dev/null || exit 0\nexec {command_line(watch.argv)}\n".encode()


def unpack(raw: bytes, expected: Mapping[str, str]) -> dict[str, bytes]:
    """Files of the answer by name. Only expected names, only regular files, nothing cut."""
    files: dict[str, bytes] = {}
    last = ""
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as tar:
            for member in tar:
                last = member.name
                if last == "benchlab":
                    continue
                if last not in expected or not member.isreg():
                    raise AgentError(
                        f"the host sent {last!r}, which was not requested or is not a plain file",
                        Reason.COMMAND_FAILED,
                    )
                extracted = tar.extractfile(member)
                assert extracted is not None
                files[expected[last]] = extracted.read()
    except tarfile.TarError as error:
        raise _incomplete(str(error)) from None
    if last != "benchlab":
        raise _incomplete("the last file is missing")
    return files


def _incomplete(why: str) -> AgentError:
    return AgentError(f"the outputs arrived incomplete: {why}", Reason.COMMAND_FAILED)


def told_of(raw: bytes, expected: Mapping[str, str]) -> tuple[Waiting, ...]:
    """Outputs that did not fit into the answer, as outputs.sh lists them. Raises AgentError for one that is not
    expected.
    """
    files: list[Waiting] = []
    for line in raw.decode(errors="replace").splitlines():
        size, _, path = line.partition(" ")
        if path not in expected or not re.fullmatch(r"[0-9]{1,15}", size):
            raise AgentError(
                f"the host listed {line!r}, which was not requested", Reason.COMMAND_FAILED
            )
        files.append(Waiting(expected[path], path, int(size)))
    return tuple(files)

"""One made-up machine: it answers what a practice host was recorded to answer, with a boot id and disks of its own.

It knows the commands of a campaign on raw disks: facts, glance and health, the commands of the layer, and a job's spool
directory, where a run takes its time. What it was never asked it refuses, so that a changed script is noticed.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
import shlex
import tarfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agents.facts import health, reading
from agents.jobs.spool import HOSTSIDE
from agents.quote import command_line
from agents.safety import apply
from agents.ssh.shell import ENV_PROGRAM, ROOTS_PATH
from agents.steps import scripts
from agents.tools import fio

RECORDED = Path(__file__).with_name("recorded")  # by record_machine.py
BOOT_ID = b"6f1c1f4e-0000-4000-8000-000000000000"  # in the recording, as the serials and the name
SERIAL, NAME = b"RECORDED", b"recorded-machine"
RECORDED_MS = 10_000  # for which fio ran there
DISKS = 4
BLOCK, ANSWER_MAX = 4096, 4 << 20  # runner.sh's dd
RUNTIME = re.compile(rb"^runtime=(\d+)", re.M)
RATES = {"iops", "iops_mean", "iops_min", "iops_max", "bw", "bw_bytes", "bw_mean", "bw_min", "bw_max"}  # fmt: skip
TIMES = {"runtime", "job_runtime"}  # ms
LATER_MS = 50  # fio measures up to so much longer than it was asked to
MARK = re.compile(rb"^=[0-9a-f]+ (?=facts|begin|end|done|complete)", re.M)  # sections.sh
QUIET = ("wipefs", "blockdev", "udevadm")  # say nothing when they succeed


@dataclass(frozen=True, slots=True)
class Answer:
    stdout: bytes = b""
    exit_code: int = 0
    stderr: bytes = b""


@cache
def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


@cache
def result() -> Any:
    return json.loads(recorded("fio.json"))


def in_time(told: Any, factor: float) -> Any:
    """fio's result as if it had done the same so much faster."""

    def scaled(name: str, value: Any) -> Any:
        if name not in RATES | TIMES or isinstance(value, str):
            return in_time(value, factor)
        exact = value * factor if name in RATES else value / factor
        return round(exact) if isinstance(value, int) else exact

    if isinstance(told, dict):
        return {name: scaled(name, value) for name, value in told.items()}
    return [in_time(one, factor) for one in told] if isinstance(told, list) else told


@cache
def frames() -> list[bytes]:
    """Bodies of the sampler's frames, without the lines of their times."""
    whole = [one for one in recorded("samples").split(b"\n.\n") if one]
    return [one.split(b"\n", 1)[1] + b"\n.\n" for one in whole]


@dataclass
class Work:
    """A job that goes on, or is over."""

    begun_ns: int
    noted_at: float
    seconds: float
    result: bytes

    @property
    def ended_ns(self) -> int:
        return self.begun_ns + round(self.seconds * 1e9)

    @property
    def left_s(self) -> float:
        return max(0.0, (self.ended_ns - time.monotonic_ns()) / 1e9)

    @property
    def state(self) -> bytes:
        return b"running" if self.left_s else b"exited"

    def samples(self) -> bytes:
        """A frame at its start, one each second, and one at its end."""
        now = time.monotonic_ns()
        ticks = [self.begun_ns + n * 10**9 for n in range(int(self.seconds) + 1)]
        due = [tick for tick in [*ticks, self.ended_ns] if tick <= now]
        bodies = frames()
        return b"".join(
            b"@ %d\n%b" % (tick, bodies[min(n, len(bodies) - 1)]) for n, tick in enumerate(due)
        )


IN_FRONT = command_line((ENV_PROGRAM, ROOTS_PATH, "LC_ALL=C")) + " "
# A script that a lasting shell runs by itself: its words, the script.
INLINE = re.compile(r"\{ set --(.*?); eval (.*); \} ?", re.DOTALL)


@dataclass
class Machine:
    """`latency_s`: what each command takes at least, as sshd forks for each."""

    number: int
    latency_s: float = 0.0
    work: dict[str, Work] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.boot_id = str(uuid.UUID(int=random.Random(self.number).getrandbits(128), version=4))
        self.draw = random.Random(self.number)

    async def run(self, line: str, stdin: bytes = b"") -> Answer:
        """A command as `agents.ssh.shell` sends it."""
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        line = INLINE.sub(r"sh -c \2 sh\1", line.removeprefix(IN_FRONT))
        for script, answer in SCRIPTS.items():
            if line.startswith(script):
                return await answer(self, shlex.split(line[len(script) :]), stdin)
        if line.split(" ", 1)[0] in QUIET:
            return Answer()
        return Answer(b"", 127, f"machine {self.number} was never asked {line[:300]}".encode())

    def own(self, raw: bytes) -> bytes:
        """Recorded bytes, as of this machine."""
        told = raw.replace(BOOT_ID, self.boot_id.encode())
        return told.replace(SERIAL, b"M%07d" % self.number).replace(NAME, b"m%d" % self.number)

    async def facts(self, words: list[str], stdin: bytes) -> Answer:
        return Answer(_with_nonce(self.own(recorded("facts.out")), words[1]))

    async def health(self, words: list[str], stdin: bytes) -> Answer:
        return Answer(_with_nonce(self.own(recorded("health.out")), words[1]))

    async def glance(self, words: list[str], stdin: bytes) -> Answer:
        return Answer(self.own(recorded("glance.out")))

    async def nothing(self, words: list[str], stdin: bytes) -> Answer:
        return Answer()

    async def spool(self, words: list[str], stdin: bytes) -> Answer:
        _, _, _, verb, name, *rest = words
        if verb == "start":
            return self.start(name, stdin)
        if verb == "short":
            return Answer()
        work = self.work.get(name)
        if work is None:
            return Answer(b"state=absent\n")
        if verb == "poll":
            return await self.poll(work, float(rest[0]), int(rest[1]), rest[2:])
        if verb == "fetch" and not work.left_s:  # by a worker that lost the answer to its poll
            return Answer(self.packed(work))
        if verb == "remove" and not work.left_s:
            del self.work[name]
            return Answer(b"state=absent\n")
        if verb == "stop":
            did, state = (b"terminated", b"killed") if work.left_s else (b"nothing", b"exited")
            work.seconds -= work.left_s
            return Answer(b"did=%b\nstate=%b\n" % (did, state))
        return Answer(b"", 3, f"machine {self.number} was never told to {verb}".encode())

    def start(self, name: str, sent: bytes) -> Answer:
        if name in self.work:
            return Answer(b"start=already\n")
        runtime = RUNTIME.search(sent)
        if runtime is None:
            return Answer(b"", 3, b"only fio with a runtime was recorded")
        seconds = float(runtime[1])
        measured_ms = seconds * 1000 + self.draw.uniform(0, LATER_MS)
        told = json.dumps(in_time(result(), RECORDED_MS / measured_ms)).encode()
        self.work[name] = Work(time.monotonic_ns(), time.time(), seconds, told)
        return Answer(b"start=started\n")

    async def poll(self, work: Work, wait_s: float, offset: int, fetch: list[str]) -> Answer:
        await asyncio.sleep(min(wait_s, work.left_s))
        over = not work.left_s
        begins = offset // BLOCK * BLOCK
        head = b"state=%b\nexit=%b\nfrom=%d\n\n" % (work.state, b"0" if over else b"", begins)
        if over and fetch:
            return Answer(head + self.packed(work))
        return Answer(head + work.samples()[begins:][:ANSWER_MAX])

    def packed(self, work: Work) -> bytes:
        """As outputs.sh sends it."""
        now, ended = time.monotonic_ns(), work.ended_ns
        files = {
            "stdout": b"",
            "stderr": b"",
            "samples": work.samples(),
            "runner.log": b"",
            "begun": f'boot={self.boot_id}\nleader="77 1000"\nbegun=whole\n'.encode(),
            "running": f"noted_at={work.noted_at:.9f}\nnoted_ns={work.begun_ns}\nstarted_ns={work.begun_ns}\n"
            f'helpers=""\ndropped=yes\ncached_before_kib=50000\ncached_after_kib=20000\nrunning=whole\n'.encode(),
            "ended": f"exit=0\nended_ns={ended}\nhow=exited\nended=whole\n".encode(),
            "fetched": f"state=exited\nfetched_ns={now}\nfetched_at={time.time():.9f}\n".encode(),
            f"work/{fio.RESULT}": work.result,
            "waiting": b"",
            "benchlab": b"",
        }
        return _tar(files)


def _with_nonce(raw: bytes, nonce: str) -> bytes:
    return MARK.sub(b"=%b " % nonce.encode(), raw)


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _sent(script: str) -> str:
    return f"sh -c {shlex.quote(script)} "


SCRIPTS: Mapping[str, Callable[..., Any]] = {
    _sent(reading.FACTS_SCRIPT): Machine.facts,
    _sent(health.SCRIPT): Machine.health,
    _sent(reading.GLANCE_SCRIPT): Machine.glance,
    _sent((HOSTSIDE / "spool.sh").read_text()): Machine.spool,
    _sent(scripts.ZERO): Machine.nothing,
    _sent(apply.OPEN): Machine.nothing,
}

"""The real dynamo's ways with its memory, names, requests and AIO slots; the simulated one is no more lenient."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from agents.dynamo import wire
from agents.dynamo.messages import AccessSpec, Disk, Target
from agents.dynamo.wire import DATA_BYTES, DATA_HEADER, Message

PATH_BYTES = 79  # of a file's whole path; what is beyond is cut off
PREPARING_SLOTS = 16
XFS_SHARE = 16  # writes that are appended at once, and land on one place there
STALE = 0xA5
# What may be said when, with which selector.
WORKERS = ("SET_ACCESS", "SET_TARGETS", "START", "BEGIN_IO", "RECORD_ON", "RECORD_OFF", "STOP",
           "PREP_DISKS")  # fmt: skip
MANAGERS = ("REPORT_TARGETS", "REPORT_RESULTS", "REPORT_UPDATE", "EXIT", "RESET")
STATES = {
    "SET_ACCESS": ("idle",),
    "SET_TARGETS": ("idle",),
    "PREP_DISKS": ("idle",),
    "ADD_WORKERS": ("idle",),
    "REPORT_TARGETS": ("idle",),
    "START": ("idle",),
    "BEGIN_IO": ("started",),
    "RECORD_ON": ("running",),
    "RECORD_OFF": ("recording",),
    "STOP": ("running", "recording"),
    "REPORT_UPDATE": ("recording", "done"),
    "REPORT_RESULTS": ("recording", "done", "idle"),
    "RESET": ("idle",),
}


def options(argv: list[str]) -> dict[str, str]:
    """-i without -m, or what it does not know: usage, and 0."""
    found = dict(zip(argv[1::2], argv[2::2], strict=False))
    if len(argv) % 2 == 0 or not {"-i", "-m"} <= set(found) <= {"-i", "-m", "-n", "-p"}:
        print("Usage: dynamo -i HOST -m HOST [-n NAME] [-p PORT]")
        sys.exit(0)
    return found


def crash(how: signal.Signals) -> None:
    signal.signal(how, signal.SIG_DFL)
    os.kill(os.getpid(), how)


class Memory:
    """The one buffer for data messages, in and out: behind what was written last stands what was there before."""

    def __init__(self) -> None:
        # the size word is 0 until the console has sent one
        self._raw = bytearray(8) + bytearray([STALE]) * (DATA_BYTES - 8)

    def received(self, raw: bytes) -> None:
        if DATA_HEADER.unpack_from(raw, 0)[0] != DATA_BYTES:
            raise AssertionError("a data message of the console's without its size")
        self._raw[:] = raw

    def sent(self, whole: bytes, meaningful: int, count: int | None = None) -> bytes:
        """`whole` is a data message; of its payload only the first bytes (header included) are written."""
        self._raw[8:meaningful] = whole[8:meaningful]
        if count is not None:
            self._raw[4:8] = count.to_bytes(4, "little")
        return bytes(self._raw)


def wrong(request: Message, state: str, workers: int) -> str:
    """Reason why the real one would crash, hang or be out of step at this request; "" where it would not."""
    if state not in STATES.get(request.purpose_name, (state,)):
        return f"{request.purpose_name} while {state}"
    if request.purpose_name in MANAGERS and request.data != wire.MANAGER:
        return f"{request.purpose_name} to {request.data}"
    everyone = request.data == wire.ALL_WORKERS
    known = (
        everyone and (workers or request.purpose_name == "SET_ACCESS")
    ) or 0 <= request.data < workers
    if request.purpose_name in WORKERS and not known:
        return f"{request.purpose_name} to worker {request.data} of {workers}"
    return ""


def file_of(target: Target) -> Path:
    """File to which it really goes: a name without " [" has an empty path, and a long one is cut."""
    path = target.name.partition(" [")[0] if " [" in target.name else ""
    return Path(os.fsdecode(f"{path}/iobw.tst".encode("latin-1")[:PATH_BYTES]))


def bytes_of(target: Target) -> int:
    """Bytes of a file that are laid out: in sectors as dynamo itself counts them, whatever the console says."""
    disk = target.details
    assert isinstance(disk, Disk)
    sector = os.statvfs(file_of(target).parent).f_bsize
    return (disk.starting_sector + disk.maximum_size) * sector


def file_system(directory: Path) -> str:
    """As /proc/mounts names it."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    whole = str(directory.resolve())
    under = [(words[1].rstrip("/"), words[2]) for words in mounts]
    return max((place, kind) for place, kind in under if f"{whole}/".startswith(f"{place}/"))[1]


def laid_out(target: Target, kind: str) -> int:
    """Bytes that a preparation leaves in the file. It says that all are there."""
    wanted = bytes_of(target)
    return wanted // XFS_SHARE if kind == "xfs" else wanted


def hangs(spec: AccessSpec) -> bool:
    return any(line.delay for line in spec.lines)


def reads_past_its_table(spec: AccessSpec) -> bool:
    shares = sum(line.of_size for line in spec.lines)
    return bool(spec.lines) and (shares != 100 or any(line.burst < 1 for line in spec.lines))


class Slots:
    """Kernel AIO slots of this process: taken by SET_TARGETS and preparing, given back by nothing but its end."""

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, count: int) -> bool:
        if count > self.left:
            return False
        self.left -= count
        return True

# SPDX-License-Identifier: Apache-2.0
"""Facts of the machine on which dynamo runs, and checks of them. Runs on the host (Linux).

dynamo reports none of this: it fills file systems up, dies of missing files and never says how large a file is.
"""

import fcntl
import hashlib
import os
import shutil
import socket
import stat
import struct
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence

from agents.dynamo.wire import DynamoError

# ioctl: the logical block
BLKSSZGET = 0x1268
# bytes of the kernel's unit, whatever sectors the disk has
SECTOR = 512
NO_MHZ = "/proc/cpuinfo has no 'cpu MHz', without which dynamo does not start: it needs an x86 host"
LIBAIO = "libaio.so.1"
INSTALL_LIBAIO = "install libaio (package libaio1, libaio1t64 or libaio)"
# its name in Debian 13 and Ubuntu 24.04; on x86-64 nothing else changed in it
RENAMED_LIBAIO = tuple(f"{top}/x86_64-linux-gnu/{LIBAIO}t64" for top in ("/usr/lib", "/lib"))
X86_64 = b"\x7fELF\x02"
# bytes to leave free: a full file system performs differently
SPARE = 64 << 20


class Place(NamedTuple):
    """The place of the targets; `sector` is the unit in which dynamo counts, `block` the device's logical block."""

    sector: int
    block: int
    # bytes: free in a file system, or all of a device
    size: int
    # "253:3" as in /proc/diskstats; "" where there is none
    device: str


def directory_place(path: str) -> Place:
    try:
        statistics, number = os.statvfs(path), Path(path).stat().st_dev
    except OSError as error:
        raise DynamoError("host", f"{path}: {error.strerror}") from None
    device = f"{os.major(number)}:{os.minor(number)}"
    is_counted = device in read_diskstats([device])
    return Place(
        statistics.f_bsize,
        _block(device),
        statistics.f_bavail * statistics.f_frsize,
        device if is_counted else "",
    )


def device_place(path: str) -> Place:
    """A raw block device that nobody uses. Raises DynamoError."""
    try:
        status = Path(path).stat()
        if not stat.S_ISBLK(status.st_mode):
            raise DynamoError("host", f"{path} is not a block device")
        # Fails if the device is mounted or a member of something.
        handle = os.open(path, os.O_RDONLY | os.O_EXCL)
    except OSError as error:
        raise DynamoError(
            "host", f"{path} cannot be opened exclusively: {error.strerror}"
        ) from None
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        block = struct.unpack("i", fcntl.ioctl(handle, BLKSSZGET, b"\0" * 4))[0]
    finally:
        os.close(handle)
    return Place(block, block, size, f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")


def _block(number: str) -> int:
    """Logical block size of a device, for a partition that of its disk; 512 if unknown."""
    base = Path("/sys/dev/block") / number
    for path in (base / "queue", base / ".." / "queue"):
        try:
            return int((path.resolve() / "logical_block_size").read_text())
        except (OSError, ValueError):
            continue
    return SECTOR


def read_diskstats(devices: Sequence[str]) -> Dict[str, List[int]]:
    """The kernel's counts so far: [reads, bytes read, writes, bytes written] of each device."""
    return parse_diskstats(_read_lines("/proc/diskstats"), devices)


def parse_diskstats(lines: Sequence[str], devices: Sequence[str]) -> Dict[str, List[int]]:
    """Parse the counts of each device from the lines of any /proc/diskstats."""
    counts: Dict[str, List[int]] = {}
    for words in map(str.split, lines):
        number = ":".join(words[:2])
        if number in devices and len(words) >= 10:
            reads, read, writes, wrote = (int(words[at]) for at in (3, 5, 7, 9))
            counts[number] = [reads, read * SECTOR, writes, wrote * SECTOR]
    return counts


def cpus() -> int:
    """Logical CPUs, as dynamo counts them. Raises DynamoError where dynamo could not start."""
    lines = _read_lines("/proc/cpuinfo")
    if not any(line.startswith("cpu MHz") for line in lines):
        raise DynamoError("host", NO_MHZ)
    return sum(1 for line in lines if line.startswith("processor"))


def first_cpus(most: int) -> str:
    """/proc/cpuinfo with so many CPUs only."""
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    return "".join(block + "\n\n" for block in text.strip().split("\n\n")[:most])


def own_name_resolves() -> bool:
    """True if the host's own name resolves; otherwise dynamo ends at once, whatever its options."""
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return False
    return True


def aio_slots() -> int:
    """Kernel AIO slots that are still free."""
    try:
        most, used = (
            int(Path(f"/proc/sys/fs/{name}").read_text()) for name in ("aio-max-nr", "aio-nr")
        )
    except (OSError, ValueError):
        return 65536
    return most - used


def find_program(name: str) -> str:
    """dynamo's path. Raises DynamoError."""
    path = shutil.which(name)
    if not path:
        raise DynamoError("host", missing_program_message(name))
    return path


def missing_program_message(name: str) -> str:
    return (
        f"dynamo is not at {name!r}, or cannot be executed: put the Linux build of IOmeter "
        "1.1.0 there (chmod 755), or name its path in the workload"
    )


def missing_libraries_message(path: str, libraries: Sequence[str]) -> str:
    return f"{path} needs {', '.join(libraries)}: {INSTALL_LIBAIO}"


def missing_libraries(path: str) -> List[str]:
    """Shared libraries that the program needs and we cannot provide; none if that is unknown."""
    return [
        name for name in _unresolved_libraries(path) if name != LIBAIO or not _renamed_libaio(path)
    ]


def renamed_libaio(path: str) -> str:
    """Path of the libaio that the program needs under another name; "" if it finds its own."""
    return _renamed_libaio(path) if LIBAIO in _unresolved_libraries(path) else ""


def _renamed_libaio(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            plain = file.read(len(X86_64)) == X86_64
    except OSError:
        return ""
    libraries = [name for name in RENAMED_LIBAIO if Path(name).exists()]
    return libraries[0] if plain and libraries else ""


def _unresolved_libraries(path: str) -> List[str]:
    try:
        ran = subprocess.run(
            ["ldd", path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            env=dict(os.environ, LC_ALL="C"),
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = ran.stdout.decode("utf-8", "replace").splitlines()
    return sorted({line.split()[0] for line in lines if "=> not found" in line})


def sha256(path: str) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def _read_lines(path: str) -> List[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []

# SPDX-License-Identifier: Apache-2.0
"""Facts of a host without Python 3.6: the data of hostfacts and areas, read with a shell.

Each query is one POSIX sh script with separate arguments; answers are NAME=VALUE lines.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from agents.contracts import AgentError, Shell
from agents.dynamo import areas, hostfacts, specs
from agents.dynamo.areas import Area, TestSettings, Watch
from agents.dynamo.hostfacts import Place
from agents.dynamo.wire import DynamoError

OLDEST = (3, 6)
# bytes that one command lays out
FIRST_PIECE, MOST_PIECE = 16 << 20, 1 << 30
# s
QUICK, SLOWEST_PIECE = 2.0, 300.0
NUMBER = re.compile(r"(\d+)\.(\d+)")
UPTIME = re.compile(r"(\d+\.\d+) ")
ROOT_ONLY = files("agents.hostside").joinpath("root_only.sh").read_text()
PROBE_SCRIPT = (
    ROOT_ONLY
    + r"""
binary=$1 kind=$2 place=$3 count=$4
if [ "$binary" ]; then
  path=$(command -v -- "$binary") && [ -x "$path" ] && [ -f "$path" ] && {
    may_run "$path" || echo "doubt=root would run $path, but $doubt"
    [ "$doubt" ] || {
      echo "binary=$real"
      echo "sha256=$(sha256sum <"$real" | cut -d' ' -f1)"
      LC_ALL=C ldd "$real" 2>&1 | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/lacks=\1/p'
    }
  }
else
  for top in /lib* /lib/* /usr/lib* /usr/lib/*; do
    [ ! -e "$top/libaio.so.1" ] || libaio=yes # and not libaio.so.1t64, which dynamo does not know
  done
  [ "${libaio-}" ] || echo lacks=libaio.so.1
fi
echo "cpus=$(grep -c '^processor' /proc/cpuinfo)"
! grep -q '^cpu MHz' /proc/cpuinfo || echo mhz=yes
! getent ahostsv4 "$(uname -n)" >/dev/null || echo resolves=yes # dynamo knows IPv4 only
echo "aio=$(($(cat /proc/sys/fs/aio-max-nr) - $(cat /proc/sys/fs/aio-nr)))"
if [ "$kind" = mount ]; then
  stat -f -c 'sector=%s
unit=%S
free=%a' -- "$place"
  echo "device=$(stat -c %d -- "$place")"
  n=1
  while [ "$n" -le "$count" ]; do
    [ ! -d "$place/iometer$n" ] || echo "there_$n=yes"
    [ ! -f "$place/iometer$n/iobw.tst" ] || echo "held_$n=$(stat -c %s -- "$place/iometer$n/iobw.tst")"
    n=$((n + 1))
  done
else
  node=$(readlink -f -- "$place")
  [ ! -b "$node" ] || {
    echo "size=$(blockdev --getsize64 "$node")"
    echo "block=$(blockdev --getss "$node")"
    echo "major=$((0x$(stat -c %t -- "$node")))"
    echo "minor=$((0x$(stat -c %T -- "$node")))"
  }
fi
"""
)
BLOCK_SIZE_SCRIPT = r"""
for queue in "/sys/dev/block/$1/queue" "/sys/dev/block/$1/../queue"; do
  [ ! -r "$queue/logical_block_size" ] || { echo "block=$(cat "$queue/logical_block_size")"; break; }
done
! grep -q "^ *${1%:*} *${1#*:} " /proc/diskstats || echo known=yes
"""
NEW_FILE_SCRIPT = (
    'mkdir -p -m 700 -- "$1" && rm -f -- "$1/iobw.tst" && umask 077 && : >"$1/iobw.tst"'
)
# Arguments: a directory, the number of bytes to append to its file, and the value of each in octal ("": random). It
# does one write at a time, past the page cache if the file system can. fullblock completes the short pieces of a pipe.
APPEND_SCRIPT = r"""
file=$1/iobw.tst
bytes() { if [ "$2" ]; then head -c "$1" /dev/zero | tr '\000' "\\$2"; else head -c "$1" /dev/urandom; fi; }
before=$(stat -c %s -- "$file") || exit 1
bytes "$2" "$3" | dd of="$file" bs=1M iflag=fullblock oflag=append,direct conv=notrunc 2>/dev/null && exit 0
truncate -s "$before" -- "$file" &&
bytes "$2" "$3" | dd of="$file" bs=1M iflag=fullblock oflag=append conv=notrunc,fsync
"""
# Arguments: directories.
DELETE_DIRECTORIES_SCRIPT = """
for place in "$@"; do rm -f -- "$place/iobw.tst" || exit 1; rmdir -- "$place" 2>/dev/null || :; done
"""
DELETE_FILES_SCRIPT = 'for place in "$@"; do rm -f -- "$place/iobw.tst" || exit 1; done'


def has_python(tools: Mapping[str, str]) -> bool:
    """True if the console can run beside dynamo. `tools`: program -> its version line (HostFacts.tools)."""
    version = NUMBER.search(tools.get("python3", ""))
    return bool(version) and (int(version[1]), int(version[2])) >= OLDEST if version else False


class RemoteArea(Area):
    """An area whose file was inspected on the host."""

    sizes: Mapping[str, int] = {}

    def file_bytes(self) -> int:
        return self.sizes.get(self.path, 0)


@dataclass(frozen=True)
class RemoteHost:
    """A host, and the shell that runs commands there."""

    shell: Shell
    root: bool = True

    def query(self, text: str, *arguments: str) -> list[tuple[str, str]]:
        ran = self.shell.run(("sh", "-c", text, "dynamo", *arguments), root=self.root)
        lines = ran.stdout.decode("utf-8", "replace").splitlines()
        return [(line.partition("=")[0], line.partition("=")[2]) for line in lines if "=" in line]

    def run_script(self, text: str, *arguments: str, timeout_s: float = 60.0) -> None:
        if not arguments:
            return
        argv = ("sh", "-c", text, "dynamo", *arguments)
        ran = self.shell.run(argv, root=self.root, timeout_s=timeout_s)
        if ran.exit_code:
            errors = ran.stderr.decode("utf-8", "replace").strip().splitlines()
            raise DynamoError(
                "host",
                f"{arguments[0]}: {errors[0] if errors else 'the command failed on the host'}",
            )

    def read_file(self, path: str) -> str:
        return self.shell.run(("cat", path), root=self.root).stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class ProbeResult:
    """The result of probing a host, from which a test can be built."""

    binary: str
    sha256: str
    cpus: int
    resolves: bool
    aio: int
    place: Place
    areas: tuple[Area, ...]
    # directories that existed before
    existed: tuple[str, ...]

    @property
    def unready(self) -> list[Area]:
        return [area for area in self.areas if not area.is_ready()]


def probe_host(far: RemoteHost, settings: TestSettings) -> ProbeResult:
    """Read everything that the console beside dynamo would check. Raises DynamoError or AgentError."""
    count = settings.targets * (settings.workers if settings.own else 1)
    is_uploaded = settings.binary.startswith("./")
    where = ("mount", settings.mount.rstrip("/")) if settings.mount else ("volume", settings.volume)
    pairs = far.query(PROBE_SCRIPT, "" if is_uploaded else settings.binary, *where, str(count))
    reported = dict(pairs)
    binary = settings.binary if is_uploaded else reported.get("binary", "")
    if not binary:
        doubt = reported.get("doubt", "")
        raise DynamoError("host", doubt or hostfacts.missing_program_message(settings.binary))
    lacks = [value for name, value in pairs if name == "lacks"]
    if lacks:
        raise DynamoError("host", hostfacts.missing_libraries_message(binary, lacks))
    if "mhz" not in reported:
        raise DynamoError("host", hostfacts.NO_MHZ)
    place = (
        _directory_place(far, reported, settings)
        if settings.mount
        else _device_place(reported, settings)
    )
    base = settings.mount.rstrip("/")
    sizes = {
        f"{base}/{areas.DIRECTORY}{name[5:]}": int(size)
        for name, size in pairs
        if name.startswith("held_") and size.isdigit()
    }

    def make(path: str, size: int) -> Area:
        area = RemoteArea(path, size)
        area.sizes = sizes
        return area

    existed = tuple(f"{base}/{areas.DIRECTORY}{n[6:]}" for n, _ in pairs if n.startswith("there_"))
    targets = tuple(areas.target_areas(settings, place, make))
    return ProbeResult(
        binary,
        reported.get("sha256", ""),
        _reported_number(reported, "cpus"),
        "resolves" in reported,
        _reported_number(reported, "aio"),
        place,
        targets,
        existed,
    )


def _reported_number(reported: Mapping[str, str], name: str) -> int:
    value = reported.get(name, "")
    if not value.isdigit():
        raise DynamoError(
            "host", f"the host did not report {name}: stat, blockdev and /proc are required"
        )
    return int(value)


def _directory_place(far: RemoteHost, reported: Mapping[str, str], settings: TestSettings) -> Place:
    if "free" not in reported:
        raise DynamoError("host", f"{settings.mount}: no such directory on the host")
    number = _reported_number(reported, "device")
    device = f"{os.major(number)}:{os.minor(number)}"
    more = dict(far.query(BLOCK_SIZE_SCRIPT, device))
    block = int(more["block"]) if more.get("block", "").isdigit() else hostfacts.SECTOR
    free = _reported_number(reported, "free") * _reported_number(reported, "unit")
    return Place(
        _reported_number(reported, "sector"), block, free, device if "known" in more else ""
    )


def _device_place(reported: Mapping[str, str], settings: TestSettings) -> Place:
    """The place of a device. A shell cannot open it exclusively, but the guard has checked that nobody uses it."""
    if "size" not in reported:
        raise DynamoError("host", f"{settings.volume} is not a block device")
    block = _reported_number(reported, "block")
    device = f"{_reported_number(reported, 'major')}:{_reported_number(reported, 'minor')}"
    return Place(block, block, _reported_number(reported, "size"), device)


def lay_out(far: RemoteHost, looked: ProbeResult, pattern: int, watch: Watch) -> None:
    """Lay out the files as areas.py does beside dynamo. It can be stopped between commands of some seconds each."""
    total, written, piece = sum(area.size for area in looked.unready), 0, FIRST_PIECE
    for area in looked.unready:
        far.run_script(NEW_FILE_SCRIPT, area.path)
        remaining = area.size
        while remaining:
            watch(written, total)
            count, began = min(piece, remaining), time.monotonic()
            value = "" if pattern else f"{secrets.randbelow(256):03o}"
            far.run_script(APPEND_SCRIPT, area.path, str(count), value, timeout_s=SLOWEST_PIECE)
            remaining, written = remaining - count, written + count
            took = time.monotonic() - began
            piece = min(MOST_PIECE, piece * 2) if took < QUICK else max(FIRST_PIECE, piece // 2)
    watch(written, total)


def remove_files(far: RemoteHost, looked: ProbeResult, targets: Sequence[Area]) -> None:
    """Remove the files of the targets, and the directories that did not exist before."""
    paths = [area.path for area in targets if not area.raw]
    far.run_script(DELETE_FILES_SCRIPT, *(path for path in paths if path in looked.existed))
    far.run_script(
        DELETE_DIRECTORIES_SCRIPT, *(path for path in paths if path not in looked.existed)
    )


def layout_error(far: RemoteHost, settings: TestSettings) -> str:
    """A message about the first file that dynamo cannot use or a failed check; "" if all are right."""
    try:
        targets = current_areas(far, settings)
    except (AgentError, DynamoError) as error:
        return str(error)
    return areas.incomplete_file(targets)


def current_areas(far: RemoteHost, settings: TestSettings) -> list[Area]:
    """The present state of the areas, without a check for free space."""
    count = settings.targets * (settings.workers if settings.own else 1)
    if not settings.mount:
        return []
    base = settings.mount.rstrip("/")
    pairs = far.query(PROBE_SCRIPT, "", "mount", base, str(count))
    sizes = {
        name[5:]: int(size) for name, size in pairs if name.startswith("held_") and size.isdigit()
    }
    targets = []
    for number in range(1, count + 1):
        area = RemoteArea(f"{base}/{areas.DIRECTORY}{number}", settings.size)
        area.sizes = {area.path: sizes.get(str(number), 0)}
        targets.append(area)
    return list[Area](targets)


def read_disk_counts(far: RemoteHost, device: str) -> tuple[float | None, dict[str, list[int]]]:
    """Seconds of the host's clock (to 10 ms; None: unknown), and its kernel's counts of the device at that time."""
    ran = far.shell.run(("cat", "/proc/uptime", "/proc/diskstats"), root=far.root)
    lines = ran.stdout.decode("utf-8", "replace").splitlines()
    uptime = UPTIME.match(lines[0]) if lines else None
    return float(uptime[1]) if uptime else None, hostfacts.parse_diskstats(lines, [device])


def build_trial(settings: TestSettings, looked: ProbeResult) -> specs.Trial:
    """Build and check the test. Raises DynamoError."""
    return areas.build_trial(settings, looked.place, looked.areas, looked.aio)

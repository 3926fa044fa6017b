# SPDX-License-Identifier: Apache-2.0
"""Targets of a test on this host: directories or slices of a volume. Runs on the host.

We lay out dynamo's files: it finds them ready and never makes one itself. On xfs its own preparation fails silently: it
appends 16 direct writes at once, each gets its offset before the earlier ones have ended, and all 16 land on the same
place, so that only a sixteenth of the file exists. We write one after another, so that a file is never longer than
what was written to it.
"""

import contextlib
import errno
import fcntl
import mmap
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from agents.dynamo import hostfacts, specs
from agents.dynamo.hostfacts import Place
from agents.dynamo.messages import AccessSpec, Target
from agents.dynamo.specs import Trial
from agents.dynamo.wire import DynamoError

# our directories in a mounted layout: iometer1, iometer2, … with dynamo's file in each
DIRECTORY = "iometer"


class TestSettings(NamedTuple):
    """The settings, as agents/tools/dynamo.py writes them into its config file."""

    binary: str
    # lines as in an .icf file
    access: Tuple[str, ...]
    mount: str = ""
    volume: str = ""
    workers: int = 1
    # number of files or slices, for each worker if `own`
    targets: int = 1
    own: bool = False
    outstanding: int = 1
    # bytes of each target; 0: the whole volume
    size: int = 1 << 30
    pattern: int = 1
    ramp: float = 0.0
    duration: float = 60.0
    poll: float = 1.0
    seed: int = 1
    keep: bool = True
    name: str = "benchlab"


def parse_settings(config: Dict[str, Any]) -> TestSettings:
    """Parse the settings. Raises DynamoError for a missing or unknown one."""
    try:
        settings = TestSettings(**config)
    except TypeError as error:
        raise DynamoError(
            "options", f"the settings are not valid for this program: {error}"
        ) from None
    return settings._replace(access=tuple(settings.access))


class Area(NamedTuple):
    """One target: a directory, or a slice of a device from `start` on."""

    path: str
    size: int
    start: int = 0
    raw: bool = False

    @property
    def file(self) -> Path:
        return Path(self.path) / specs.FILE

    def is_ready(self) -> bool:
        """True if the target needs no preparation. A file that is too short does: dynamo would use it silently."""
        return self.raw or self.file_bytes() >= self.size

    def file_bytes(self) -> int:
        """Bytes of the file."""
        try:
            return self.file.stat().st_size
        except OSError:
            return 0


def find_place(settings: TestSettings) -> Place:
    if bool(settings.mount) == bool(settings.volume):
        raise DynamoError("options", "either a mount point or a volume is needed")
    return (
        hostfacts.directory_place(settings.mount)
        if settings.mount
        else hostfacts.device_place(settings.volume)
    )


def target_areas(
    settings: TestSettings, place: Place, make_area: Callable[[str, int], Area] = Area
) -> List[Area]:
    """All targets, each once. Raises DynamoError if they do not fit."""
    count = settings.targets * (settings.workers if settings.own else 1)
    if settings.mount:
        if settings.size <= 0:
            raise DynamoError("options", "a file needs a size: without one dynamo fills the disk")
        base = settings.mount.rstrip("/")
        targets = [make_area(f"{base}/{DIRECTORY}{n}", settings.size) for n in range(1, count + 1)]
        missing = sum(area.size for area in targets if not area.is_ready())
        held = sum(area.file_bytes() for area in targets if not area.is_ready())
        if missing - held + hostfacts.SPARE > place.size:
            raise DynamoError(
                "host",
                f"{settings.mount}: {place.size + held} bytes are free, the files need {missing} and "
                f"{hostfacts.SPARE} in reserve; a full file system performs differently",
            )
        return targets
    each = settings.size or place.size // count // place.block * place.block
    if each <= 0 or each * count > place.size:
        raise DynamoError(
            "options", f"{settings.volume}: {count} x {each} bytes do not fit in {place.size}"
        )
    return [Area(settings.volume, each, each * n, True) for n in range(count)]


def build_trial(
    settings: TestSettings, place: Place, targets: Sequence[Area], slots: Optional[int] = None
) -> Trial:
    """Build the whole test and check it. Its files must be ready.

    `slots`: free AIO slots of the machine, if that is not this one.
    """
    lines = tuple(specs.parse_access_line(line) for line in settings.access)
    name = f"{lines[0].size} B" if len(lines) == 1 else f"{len(lines)} lines"
    share = settings.targets if settings.own else 0
    workers: List[Tuple[Target, ...]] = []
    for number in range(settings.workers):
        own = targets[number * share : (number + 1) * share] if share else targets
        workers.append(
            tuple(
                _build_target(
                    settings, place, area, specs.target_seed(settings.seed, number, index)
                )
                for index, area in enumerate(own)
            )
        )
    trial = Trial(
        AccessSpec(name, lines), tuple(workers), (), settings.ramp, settings.duration, settings.poll
    )
    specs.check_trial(trial, place.block, hostfacts.aio_slots() if slots is None else slots)
    return trial


def _build_target(settings: TestSettings, place: Place, area: Area, seed: int) -> Target:
    return specs.disk_target(
        area.path,
        area.size,
        settings.outstanding,
        seed,
        area.raw,
        place.sector,
        area.start,
        settings.pattern,
    )


def incomplete_file(targets: Sequence[Area]) -> str:
    """A message about the first file that dynamo cannot use; "" if all are right."""
    for area in targets:
        if not area.is_ready():
            return (
                f"{area.file} has {area.file_bytes()} of {area.size} bytes after it was laid out: the disk "
                "is full or rejects writes"
            )
    return ""


def remove_files(targets: Sequence[Area], unready: Sequence[Area]) -> Optional[str]:
    """Remove what we made in `targets`, and the files in `unready` that were not laid out completely."""
    for area in (*targets, *unready):
        if area.raw:
            continue
        try:
            if area.file.exists():
                area.file.unlink()
            if area in targets and not list(Path(area.path).iterdir()):
                Path(area.path).rmdir()
        except OSError as error:
            return f"{area.file} could not be removed: {error.strerror}"
    return None


# bytes of a write: a second of a slow disk, so that a stop takes effect soon
PIECE = 4 << 20
# called with the bytes written and the total; raises DynamoError to stop
Watch = Callable[[int, int], None]


def lay_out(unready: Sequence[Area], pattern: int, watch: Watch) -> None:
    """Make directories and files. Raises DynamoError; the caller then removes what is incomplete."""
    total, finished = sum(area.size for area in unready), 0
    for area in unready:
        before = finished

        def report_written(written: int, before: int = before) -> None:
            watch(before + written, total)

        try:
            Path(area.path).mkdir(mode=0o700, exist_ok=True)
            if area.file.exists():
                area.file.unlink()
            _write_file(area, pattern, report_written)
        except OSError as error:
            raise DynamoError(
                "host",
                f"{area.file}: {error.strerror}, at {area.file_bytes()} of {area.size} bytes",
            ) from None
        finished += area.size


def _write_file(area: Area, pattern: int, report: Callable[[int], None]) -> None:
    handle = _create_file(area.file)
    # A page of its own has the alignment that direct I/O needs.
    with contextlib.closing(mmap.mmap(-1, PIECE)) as buffer:
        try:
            written = 0
            while written < area.size:
                report(written)
                count = min(PIECE, area.size - written)
                buffer[:count] = pattern_bytes(pattern, count)
                with memoryview(buffer) as whole, whole[:count] as piece:
                    written += _write_piece(handle, piece)
            os.fsync(handle)
            # in case the writes were not direct
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
    report(written)


def _create_file(path: Path) -> int:
    """Open the file past the page cache, if the file system supports that."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(str(path), flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # Some file systems refuse only once the file exists.
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return os.open(str(path), flags, 0o600)


def _write_piece(handle: int, piece: memoryview) -> int:
    """Write a piece; return the number of bytes written."""
    try:
        written = os.write(handle, piece)
    except OSError as error:
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        if error.errno != errno.EINVAL or not flags & os.O_DIRECT:
            raise
        # The end of a file is no whole block, or a short write came before.
        fcntl.fcntl(handle, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        written = os.write(handle, piece)
    if not fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
        # Otherwise memory fills, and a stop has to wait until it is written out.
        os.fdatasync(handle)
    return written


def pattern_bytes(pattern: int, count: int) -> bytes:
    """Bytes as in specs.PATTERNS, so that a layer that compresses or deduplicates treats them the same way."""
    return os.urandom(count) if pattern else os.urandom(1) * count

# SPDX-License-Identifier: Apache-2.0
"""Targets of a test on this host: directories or slices of a volume, ready or not. Runs on the host."""

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
    """Build the whole test and check it. Its files must be ready: see layout.py.

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

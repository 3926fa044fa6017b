# SPDX-License-Identifier: Apache-2.0
"""From a workload's settings to a test on this host: directories or slices, ready or not. On the host."""

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from agents.dynamo import hostfacts, specs
from agents.dynamo.hostfacts import Place
from agents.dynamo.messages import AccessSpec, Target
from agents.dynamo.specs import Trial
from agents.dynamo.wire import DynamoError

# ours in a mounted layout: iometer1, iometer2, … with dynamo's file in each
DIRECTORY = "iometer"


class TestSettings(NamedTuple):
    """The settings, as agents/tools/dynamo.py writes them into its config file."""

    binary: str
    # lines as in an .icf file
    access: Tuple[str, ...]
    mount: str = ""
    volume: str = ""
    workers: int = 1
    # files or slices; of each worker if `own`
    targets: int = 1
    own: bool = False
    outstanding: int = 1
    # bytes of each target; 0: what there is of a volume
    size: int = 1 << 30
    pattern: int = 1
    ramp: float = 0.0
    duration: float = 60.0
    poll: float = 1.0
    seed: int = 1
    keep: bool = True
    name: str = "benchlab"


def parse_settings(config: Dict[str, Any]) -> TestSettings:
    """Raises DynamoError for what is missing or unknown."""
    try:
        made = TestSettings(**config)
    except TypeError as error:
        raise DynamoError(
            "options", f"the settings are not valid for this program: {error}"
        ) from None
    return made._replace(access=tuple(made.access))


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
        """A shorter file is not: dynamo would use it as it is, and say nothing."""
        return self.raw or self.file_bytes() >= self.size

    def file_bytes(self) -> int:
        """Bytes of the file."""
        try:
            return self.file.stat().st_size
        except OSError:
            return 0


def find_place(wanted: TestSettings) -> Place:
    if bool(wanted.mount) == bool(wanted.volume):
        raise DynamoError("options", "either a mount point or a volume is needed")
    return (
        hostfacts.directory_place(wanted.mount)
        if wanted.mount
        else hostfacts.device_place(wanted.volume)
    )


def target_areas(
    wanted: TestSettings, here: Place, make: Callable[[str, int], Area] = Area
) -> List[Area]:
    """All targets, each once. Raises DynamoError where they do not fit."""
    count = wanted.targets * (wanted.workers if wanted.own else 1)
    if wanted.mount:
        if wanted.size <= 0:
            raise DynamoError("options", "a file needs a size: without one dynamo fills the disk")
        base = wanted.mount.rstrip("/")
        found = [make(f"{base}/{DIRECTORY}{n}", wanted.size) for n in range(1, count + 1)]
        missing = sum(area.size for area in found if not area.is_ready())
        held = sum(area.file_bytes() for area in found if not area.is_ready())
        if missing - held + hostfacts.SPARE > here.size:
            raise DynamoError(
                "host",
                f"{wanted.mount}: {here.size + held} bytes are free, the files need {missing} and "
                f"{hostfacts.SPARE} in reserve; a full file system performs differently",
            )
        return found
    each = wanted.size or here.size // count // here.block * here.block
    if each <= 0 or each * count > here.size:
        raise DynamoError(
            "options", f"{wanted.volume}: {count} x {each} bytes do not fit in {here.size}"
        )
    return [Area(wanted.volume, each, each * n, True) for n in range(count)]


def build_trial(
    wanted: TestSettings, here: Place, found: Sequence[Area], slots: Optional[int] = None
) -> Trial:
    """The whole test, checked. Its files are to be ready: see layout.py.

    `slots`: free AIO slots, where this is not the machine that has them.
    """
    lines = tuple(specs.parse_access_line(line) for line in wanted.access)
    name = f"{lines[0].size} B" if len(lines) == 1 else f"{len(lines)} lines"
    share = wanted.targets if wanted.own else 0
    workers: List[Tuple[Target, ...]] = []
    for number in range(wanted.workers):
        own = found[number * share : (number + 1) * share] if share else found
        workers.append(
            tuple(
                _build_target(wanted, here, area, specs.target_seed(wanted.seed, number, index))
                for index, area in enumerate(own)
            )
        )
    made = Trial(
        AccessSpec(name, lines), tuple(workers), (), wanted.ramp, wanted.duration, wanted.poll
    )
    specs.check_trial(made, here.block, hostfacts.aio_slots() if slots is None else slots)
    return made


def _build_target(wanted: TestSettings, here: Place, area: Area, seed: int) -> Target:
    return specs.disk_target(
        area.path,
        area.size,
        wanted.outstanding,
        seed,
        area.raw,
        here.sector,
        area.start,
        wanted.pattern,
    )


def incomplete_file(found: Sequence[Area]) -> str:
    """First file that is not as dynamo needs it, in words; "" is right."""
    for area in found:
        if not area.is_ready():
            return (
                f"{area.file} has {area.file_bytes()} of {area.size} bytes after it was laid out: the disk "
                "is full or rejects writes"
            )
    return ""


def remove_files(found: Sequence[Area], unready: Sequence[Area]) -> Optional[str]:
    """Removes what we made in `found`, and of `unready` the files that were not laid out whole."""
    for area in (*found, *unready):
        if area.raw:
            continue
        try:
            if area.file.exists():
                area.file.unlink()
            if area in found and not list(Path(area.path).iterdir()):
                Path(area.path).rmdir()
        except OSError as error:
            return f"{area.file} could not be removed: {error.strerror}"
    return None

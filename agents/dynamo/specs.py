# SPDX-License-Identifier: Apache-2.0
"""Specification of a test, and every rule that dynamo itself does not check. Runs on the host.

dynamo counts a refused or short I/O as a success and hangs or crashes over values it cannot use, so nothing is sent
that was not checked here. Sizes are bytes, times are seconds.
"""

from typing import List, NamedTuple, Sequence, Set, Tuple

from agents.dynamo.messages import (
    ACTIVE,
    LOGICAL,
    MAX_LINES,
    MAX_TARGETS,
    PHYSICAL,
    AccessLine,
    AccessSpec,
    Disk,
    Target,
)
from agents.dynamo.wire import DynamoError

# dynamo's own name for the file in a directory
FILE = "iobw.tst"
# dynamo cuts a directory's name at " ["; without it, it would test the root file system
SUFFIX = " [files]"
# bytes: dynamo appends /iobw.tst and cuts at 79
LONGEST_PATH = 70
MAX_WORKERS = 128
# AIO slots that each prepared target takes and never gives back
PREPARING_SLOTS = 16
# default of fs.aio-max-nr
AIO_SLOTS = 65536
PATTERNS = {
    0: "one random byte repeated in each write (a compressing layer reduces it to almost nothing)",
    1: "random data, the same for the whole test",
}
BROKEN_PATTERN = (
    "data pattern 2 is broken in dynamo on Linux: its writes fail but count as completed; use 1"
)

# File systems on which dynamo's own preparation was seen to write all of a file, and the one where it does not.
WHOLE_ON, SHORT_ON = ("ext2", "ext3", "ext4", "btrfs"), "xfs"
SHORT = (
    "on XFS dynamo lays out only a sixteenth of its file but reports the whole size: use another file system, "
    "or give BenchLab SSH access to the host, so that it lays out the file itself"
)


class Trial(NamedTuple):
    """A test; `prepare` holds the targets that each worker first lays out, () if all are ready."""

    access: AccessSpec
    workers: Tuple[Tuple[Target, ...], ...]
    prepare: Tuple[Tuple[Target, ...], ...] = ()
    ramp: float = 0.0
    duration: float = 60.0
    # between two updates while recording; 0: none
    poll: float = 1.0

    @property
    def active(self) -> Tuple[int, ...]:
        """Numbers of targets of the workers that take part: as many results come, in this order."""
        if not self.access.lines:
            return ()
        return tuple(len(targets) for targets in self.workers if targets)


def parse_access_line(text: str) -> AccessLine:
    """ "8192,100,50,50,0,1,8192,0": as in an .icf file: size, % of size, % reads, % random, delay, burst, align, reply.

    What is left out at the end: the whole, and as AccessLine has it; align then follows the size.
    """
    words = text.split(",")
    if not 1 <= len(words) <= 8:
        raise DynamoError("options", f"access line {text!r}: 1 to 8 numbers, not {len(words)}")
    numbers: List[int] = []
    for word in words:
        plain = word.strip()
        if not _digits(plain):
            raise DynamoError("options", f"access line {text!r}: {word!r} is not a whole number")
        numbers.append(int(plain))
    numbers += [0, 100, 0, 0, 0, 1, default_align(numbers[0]), 0][len(numbers) :]
    size, of_size, reads, random, delay, burst, align, reply = numbers
    return AccessLine(size, of_size, reads, random, delay, burst, align, reply)


def _digits(word: str) -> bool:
    return 0 < len(word) <= 10 and all("0" <= letter <= "9" for letter in word)


def default_align(size: int) -> int:
    """The size itself if it is a power of two, else 4096: an alignment that suits a disk, always explicit."""
    return size if size >= 512 and not size & (size - 1) else 4096


def format_access_line(line: AccessLine) -> str:
    """The opposite of access_line."""
    return (
        f"{line.size},{line.of_size},{line.reads},{line.random},{line.delay},{line.burst},"
        f"{line.align},{line.reply}"
    )


def check_access(spec: AccessSpec, block: int = 512, area: int = 0) -> None:
    """Raises DynamoError. `block`: the device's logical block; `area`: of the smallest target, 0 unknown."""
    if not 1 <= len(spec.lines) <= MAX_LINES:
        raise DynamoError("options", f"access: {len(spec.lines)} lines; 1 to {MAX_LINES}")
    for line in spec.lines:
        trouble = _line_fault(line, block, area)
        if trouble:
            raise DynamoError("options", f"access line {format_access_line(line)}: {trouble}")
    shares = sum(line.of_size for line in spec.lines)
    if shares != 100:
        raise DynamoError("options", f"access: the shares of the lines are {shares} %, not 100 %")


def _line_fault(line: AccessLine, block: int, area: int) -> str:
    unit = max(block, 512)
    checks = (
        (line.size < unit or line.size % unit, f"the size is not a multiple of {unit} bytes"),
        (area and line.size > area, f"the size is larger than the target, {area} bytes"),
        (line.align % unit, f"the alignment is not a multiple of {unit} bytes"),
        (not 1 <= line.of_size <= 100, "% of size is 1 to 100"),
        (not 0 <= line.reads <= 100, "% reads is 0 to 100"),
        (not 0 <= line.random <= 100, "% random is 0 to 100"),
        (line.delay, "a delay makes dynamo on Linux hang: it must be 0"),
        (line.reply, "a reply size is for network tests: it must be 0"),
        (not 1 <= line.burst < 1 << 31, "the burst is 1 or more"),
        (max(line.size, line.align) >= 1 << 31, "sizes end below 2 GiB"),
    )
    return next((message for bad, message in checks if bad), "")


def target_name(path: str, raw: bool) -> str:
    """The path as it goes over the wire. Raises DynamoError if dynamo would read it differently."""
    try:
        wire = path.encode("utf-8").decode("latin-1")
    except UnicodeEncodeError:
        raise DynamoError("options", f"target {path!r}: not a path") from None
    if not wire.startswith("/") or "\0" in wire:
        raise DynamoError("options", f"target {path!r}: an absolute path is needed")
    if " [" in wire:
        raise DynamoError("options", f"target {path!r}: dynamo cuts a path at ' ['; use another")
    if raw:
        if not wire.startswith("/dev/"):
            raise DynamoError("options", f"target {path!r}: a raw device is below /dev")
        return _check_path_length(wire, 79)
    return _check_path_length(wire, LONGEST_PATH) + SUFFIX


def file_system(name: str) -> str:
    """File system of a target that dynamo on Linux reports, "/data [ext4]"; "" for others and our directories."""
    if not name.startswith("/") or not name.endswith("]") or name.endswith(SUFFIX):
        return ""
    return name.rpartition(" [")[2][:-1]


def laid_out_short(name: str) -> bool:
    """True if a file that dynamo itself prepares there is smaller than dynamo reports."""
    return file_system(name) == SHORT_ON


def file_size_doubt(name: str) -> str:
    """Note on each figure of a file whose size only dynamo reports; "" if the size can be trusted."""
    kind = file_system(name)
    if kind == SHORT_ON:
        return f"not to be trusted: {name} is on XFS, where dynamo lays out only a sixteenth of its file"
    if kind and kind not in WHOLE_ON:
        return f"the size of dynamo's file on {name} could not be checked"
    return ""


def _check_path_length(wire: str, most: int) -> str:
    if len(wire) > most:
        raise DynamoError(
            "options", f"target {wire!r}: {len(wire)} bytes; dynamo cuts paths above {most}"
        )
    return wire


def disk_target(
    path: str,
    size: int,
    outstanding: int,
    seed: int,
    raw: bool = False,
    sector: int = 4096,
    start: int = 0,
    pattern: int = 1,
) -> Target:
    """The target; `sector` is dynamo's unit: f_bsize (statfs) for a directory, the logical block for a device."""
    if sector < 512 or size % sector or start % sector:
        raise DynamoError(
            "options", f"target {path}: size and start must be multiples of {sector} bytes"
        )
    disk = Disk(sector_size=sector, maximum_size=size // sector, starting_sector=start // sector)
    kind = (PHYSICAL if raw else LOGICAL) | ACTIVE
    return Target(target_name(path, raw), kind, disk, outstanding, pattern, 1, seed)


def target_seed(base: int, worker: int, target: int) -> int:
    """The random seed of each worker and target: equal seeds would visit the same offsets in lock-step."""
    return (base * 0x9E3779B97F4A7C15 + worker * 4099 + target + 1) % (1 << 64)


def check_trial(test: Trial, block: int = 512, aio_slots: int = AIO_SLOTS) -> None:
    """Check the whole test before anything is sent. Raises DynamoError("options", …)."""
    everything = [target for targets in test.workers for target in targets]
    if not 1 <= len(test.workers) <= MAX_WORKERS or not everything:
        raise DynamoError(
            "options",
            f"{len(test.workers)} workers with {len(everything)} targets: "
            f"1 to {MAX_WORKERS} workers, and at least one target",
        )
    if any(len(targets) > MAX_TARGETS for targets in test.workers):
        raise DynamoError("options", f"a worker has at most {MAX_TARGETS} targets")
    for target in everything:
        _check_target(target)
    if len({target.random for target in everything}) < len(everything):
        raise DynamoError("options", "two targets have the same random seed")
    check_access(test.access, block, min(map(target_bytes, everything)))
    _check_alignment(test.access, everything)
    _check_slots(test, aio_slots)
    if test.duration <= 0 or test.ramp < 0 or test.poll < 0:
        raise DynamoError("options", "a ramp is 0 s or more, a duration more than 0 s")


def target_bytes(target: Target) -> int:
    """Number of bytes used on a disk."""
    assert isinstance(target.details, Disk)
    return target.details.maximum_size * target.details.sector_size


def _check_target(target: Target) -> None:
    if not target.is_disk or not isinstance(target.details, Disk):
        raise DynamoError("options", f"target {target.name}: not a disk")
    # A target that dynamo on Windows reports (C: "label") has none, and is not cut there.
    if not target.is_raw and target.name.startswith("/") and " [" not in target.name:
        raise DynamoError("options", f"target {target.name}: no suffix, dynamo would test /")
    if target.details.maximum_size <= 0:
        raise DynamoError(
            "options", f"target {target.name}: without a size dynamo fills the file system"
        )
    if target.queue_depth < 1:
        raise DynamoError("options", f"target {target.name}: at least one outstanding I/O")
    if target.data_pattern == 2:
        raise DynamoError("options", BROKEN_PATTERN)
    if target.data_pattern not in PATTERNS:
        raise DynamoError("options", f"data pattern {target.data_pattern}: 0 or 1")
    if target.test_connection_rate:
        raise DynamoError("options", "a connection rate is for network tests")


def _check_alignment(spec: AccessSpec, targets: Sequence[Target]) -> None:
    sectors: Set[int] = {t.details.sector_size for t in targets if isinstance(t.details, Disk)}
    if max(sectors) > 4096 and any(line.align == 0 for line in spec.lines):
        raise DynamoError(
            "options",
            f"access: alignment 0 would mean {max(sectors)} bytes on this file system; set one",
        )


def aio_slot_count(test: Trial) -> int:
    """Kernel AIO slots that dynamo takes for this test, and gives back only when it ends."""
    deep = sum(target.queue_depth for targets in test.workers for target in targets)
    laid_out = sum(len(targets) for targets in test.prepare)
    preparing = sum(target.queue_depth for targets in test.prepare for target in targets)
    return deep + preparing + PREPARING_SLOTS * laid_out


def _check_slots(test: Trial, available: int) -> None:
    if aio_slot_count(test) > available:
        raise DynamoError(
            "options",
            f"{aio_slot_count(test)} AIO slots are needed, the host has {available}; "
            "raise the sysctl fs.aio-max-nr, or use fewer outstanding I/Os, targets or workers",
        )

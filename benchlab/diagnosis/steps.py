# SPDX-License-Identifier: Apache-2.0
"""Effect of a command that a diagnosis proposes: it looks, it measures, or it changes something. Pure.

People copy these commands to machines with data on them, and the paste that a command was made of may come from
anybody. So a command counts as harmless only if each of its parts is known to be; every other one names its risk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, NextStep
from benchlab.diagnosis.wording import shell_words


class Effect(StrEnum):
    LOOK = "look"
    # It writes, if at all, to what the asker's own commands write to, or into files of its own.
    MEASURE = "measure"
    CHANGE = "change"


OPERATORS = re.compile(r"^(?:;|&&|\|\|?|&)$")
REDIRECTION = re.compile(r"^(?:[<>&]+|\d?>.*)$")
# programs that read, whatever their arguments
READERS = re.compile(
    "arc_summary|arcstat|biolatency|biosnoop|column|filefrag|findmnt|free|getconf|grep|head|iostat|iotop|lsblk|lscpu"
    "|lspci|lsusb|lvs|mpstat|nproc|pidstat|pvs|sar|tail|turbostat|uname|vgs|vmstat|wc|xfs_info"
)
# programs of which only these forms read
READING_FORMS = {
    "cat": r"/(?:proc|sys)/\S+(?: /(?:proc|sys)/\S+)*",
    "blockdev": r"--(?:get\w+|report).*",
    "ceph": r"(?:-s|status|osd (?:df|tree|perf)|health).*",
    "cpupower": r"(?:idle-info|frequency-info|monitor).*",
    "cryptsetup": r"(?:benchmark|luksDump|status)\b.*",
    "df": r".*",
    "dmesg": r"(?:-[THx]+)?",
    "dmsetup": r"(?:status|table|info|ls)\b.*",
    "echo": r"[^>]*",
    "exportfs": r"-v",
    "ethtool": r"(?:-S |-i )?[\w.]+",
    "hdparm": r"-(?:W|I|i|t|T|tT) /dev/\S+",
    "ioping": r"(?!.*-\w*W).*",
    "journalctl": r"(?:-[kbefxn]+ ?\S*)*",
    "kubectl": r"(?:-n \S+ )?(?:get|describe|top)\b.*",
    "mdadm": r"(?:--detail|-D|--examine|-E|--wait|-W|--query)\b.*",
    "mount": r"",
    "nvme": r"(?:id-ctrl|id-ns|list|list-subsys|smart-log|error-log|get-feature|intel)\b.*",
    "parted": r"(?:-s )?\S+ (?:align-check \S+ \S+|print|unit \S+ print)",
    "perccli": r"\S+(?: \S+)* show.*",
    "pg_test_fsync": r"(?!.*/dev/).*",
    "ping": r"(?:-[cqn] ?\d* ?)*[\w.-]+",
    "qm": r"config \d+",
    "rbd": r"(?:info|status|perf)\b.*",
    "smartctl": r"(?!.*-[sto]\b)(?:-[aix]|--all|--info|--xall|-l \S+|-A|-H)(?: \S+)*",
    "storcli": r"\S+(?: \S+)* show.*",
    "systemd-detect-virt": r".*",
    "tune2fs": r"-l \S+",
    "zfs": r"(?:get|list)\b.*",
    "zpool": r"(?:iostat|status|list|get|wait|history)\b.*",
}
FIO_WRITES = frozenset(
    ("write", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim", "trimwrite")
)
# options of fio that run programs, and those that write files beside its target
FIO_RUNS = re.compile(r"exec_\w+|trigger[\w-]*")
FIO_FILES = re.compile(r"output|aux-path|write_\w+")
# files of /dev that nothing can be lost of
HARMLESS = frozenset(("/dev/null", "/dev/zero", "/dev/stdout", "/dev/full"))


@dataclass(frozen=True, slots=True)
class OwnPaths:
    """Devices and files that the asker's commands read and write; the data of the latter is gone already."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def may_be_written(self, path: str) -> bool:
        """True for a path that the asker's commands write to, and for a file that they do not read."""
        return path in self.written or not (path.startswith("/dev/") or path in self.read)


NO_PATHS = OwnPaths()


def effect_of(command: str, own: OwnPaths = NO_PATHS) -> Effect:
    """The strongest effect of the command's parts."""
    words = shell_words(command)
    if not words or any(sign in command for sign in ("$(", "`", "\n")):
        return Effect.CHANGE
    effects = {_effect_of_part(part, own) for part in _parts(words)}
    order = (Effect.CHANGE, Effect.MEASURE, Effect.LOOK)
    return next((effect for effect in order if effect in effects), Effect.LOOK)


def _parts(words: Iterable[str]) -> list[list[str]]:
    """The commands of a line, without what stands between them."""
    parts: list[list[str]] = [[]]
    for word in words:
        if OPERATORS.match(word):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _effect_of_part(words: Sequence[str], own: OwnPaths) -> Effect:
    if any(REDIRECTION.match(word) for word in words):
        return Effect.CHANGE
    program = words[0].rpartition("/")[2]
    if program in ("sudo", "watch", "time"):
        return _effect_of_part(words[1:], own) if words[1:] else Effect.LOOK
    if READERS.fullmatch(program):
        return Effect.LOOK
    if program in READING_FORMS:
        fits = re.fullmatch(READING_FORMS[program], " ".join(words[1:]))
        return Effect.LOOK if fits else Effect.CHANGE
    if program not in ("fio", "dd", "sysbench", "bonnie++"):
        return Effect.CHANGE
    paths = _paths(words)
    harmless = paths is not None and all(map(own.may_be_written, paths.written))
    return Effect.MEASURE if harmless else Effect.CHANGE


def _paths(words: Sequence[str]) -> OwnPaths | None:
    """Paths of a command of fio or dd; None where it does not name all of them, such as one with a job file."""
    program = words[0].rpartition("/")[2] if words else ""
    if program == "dd":
        paths = {key: {w[3:] for w in words if w.startswith(f"{key}=")} for key in ("if", "of")}
        return OwnPaths(frozenset(paths["if"]), frozenset(paths["of"] - HARMLESS))
    if program != "fio":
        return OwnPaths()
    options = [word.lstrip("-").partition("=") for word in _joined(words[1:])]
    outside = any(FIO_FILES.fullmatch(name) and "/" in value for name, _, value in options)
    runs = any(FIO_RUNS.fullmatch(name) for name, _, _ in options)
    if outside or runs or not any(name == "name" for name, _, _ in options):
        return None
    modes = {value.split(":")[0] for name, _, value in options if name in ("rw", "readwrite")}
    files = (value for name, _, value in options if name == "filename")
    named = frozenset(path for value in files for path in value.split(":")) - HARMLESS
    return OwnPaths(named, named if modes & FIO_WRITES else frozenset())


def _joined(words: Sequence[str]) -> list[str]:
    """Options of fio with their values, `--rw write` as `--rw=write`."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].startswith("-") and "=" not in joined[-1] and word[:1] != "-":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def own_paths(evidence: Evidence) -> OwnPaths:
    """Paths of all commands in the evidence, and of fio's results whose options name them."""
    found = [paths for result in evidence.results if (paths := _paths_of_result(result))]
    empty: frozenset[str] = frozenset()
    return OwnPaths(
        empty.union(*(paths.read for paths in found)),
        empty.union(*(paths.written for paths in found)),
    )


def _paths_of_result(result: Result) -> OwnPaths | None:
    words = shell_words(result.command)
    if not words and result.kind == "fio":
        words = ["fio", "--name", *(f"--{name}={value}" for name, value in result.options.items())]
    starts = (i for i, word in enumerate(words) if word.rpartition("/")[2] in ("fio", "dd"))
    at = next(starts, None)
    return None if at is None else _paths(words[at:])


def without_unnamed_risks(diagnosis: Diagnosis, own: OwnPaths) -> Diagnosis:
    """The diagnosis; the command of a step that may change something and names no risk is left out."""
    return replace(
        diagnosis, next_steps=tuple(_safe_step(step, own) for step in diagnosis.next_steps)
    )


def _safe_step(step: NextStep, own: OwnPaths) -> NextStep:
    if step.risk or not step.command:
        return step
    if effect_of(step.command, own) == Effect.CHANGE:
        return replace(step, command="")
    written = [_paths(part) for part in _parts(shell_words(step.command))]
    devices = {d for paths in written if paths for d in paths.written if d.startswith("/dev/")}
    if not devices:
        return step
    return replace(
        step, risk=f"It overwrites {' and '.join(sorted(devices))}, as the command in the text did."
    )

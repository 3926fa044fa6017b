# SPDX-License-Identifier: Apache-2.0
"""Words of a diagnosis: numbers as a sentence has them, and the asker's command with a change made. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from agents.plaintext import CONTROL
from benchlab.analysis.formats import rate as si
from benchlab.diagnosis.evidence import Result

# flags of fio that take no value and that an edit leaves alone
_WORD = re.compile(r"--?([A-Za-z_-]+)(?:[= ](.*))?$")
# what ends the tool's own command: a paste may hold anything behind it
_OPERATOR = re.compile(r"[;&|<>]+$")
_PROMPT = re.compile(r"^\s*(?:\S*[$#%>]\s+)?")
# words with which fio runs a program or loads code, and sysbench another script than its own
_RUNS_PROGRAMS = re.compile(
    r"--?exec_\w+(?:=.*)?|(?:--?ioengine=)?(?:external:.*|exec)|(?:--test=)?.*\.lua", re.DOTALL
)
_INSTALLED = re.compile(r"(?:/(?:usr|opt)/(?:[\w.-]+/)*|/s?bin/)?\w+")
# the reader cut it off at a character that no file name has without quotes
_CUT_VALUE = re.compile(r"--?[\w-]+=")


def ops(value: float) -> str:
    """ "3,000 IOPS", "118 IOPS", "516 k IOPS"."""
    if 0 < value < 100_000:
        return f"{value:,.0f} IOPS" if value >= 10 else f"{value:.3g} IOPS"
    return si(value, "op/s")


def count(value: float) -> str:
    """ "38,614", "0.84"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def count_of(number: int, noun: str) -> str:
    """ "1 job", "4 jobs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def per_second(value: float) -> str:
    """ "183/s", "41,877/s"."""
    return f"{count(value)}/s"


def seconds(value: float) -> str:
    """ "58.9 ms", "24.0 µs", "1,890 s"."""
    return f"{value:,.0f} s" if value >= 100 else si(value, "s")


def duration(value: float) -> str:
    """ "12 s", "25 min", "8.2 h"."""
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def percent(value: float) -> str:
    """ "99.9 %", "0.77 %", "100 %" of a share."""
    shown = f"{100 * value:.3g}" if 100 * value < 99.95 else f"{100 * value:.0f}"
    return f"{shown} %"


def rate(value: float) -> str:
    """ "1.95 GB/s", "474 kB/s"."""
    return si(value, "B/s")


def size(value: float) -> str:
    """ "4 KiB", "2 GiB", "512 B"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"


def edit_command(result: Result, **changes: object) -> str:
    """The asker's command with these options of the tool set, or removed where the value is None.

    Without a command that can be edited (JSON, a job file) fio's is made from the options that are known; "" where
    neither is there.
    """
    command = _PROMPT.sub("", result.command.split("  #")[0]).strip()
    if result.kind == "fio" and not re.search(r"\s--?name\b", command):
        command = _from_options(result)
    editors = {"fio": _edit_fio, "dd": _edit_dd, "sysbench": _edit_sysbench}
    if not command or result.kind not in editors:
        return ""
    words = shell_words(command)
    if not any(word.rpartition("/")[2] == result.kind for word in words):
        return ""
    if result.kind != "fio" and not all(_TOOL_OPTIONS[result.kind].match(name) for name in changes):
        return ""
    words = words[: next((i for i, word in enumerate(words) if _OPERATOR.match(word)), None)]
    if not _is_harmless(words, result.kind):
        return ""
    # a file of the asker's, where another machine has another
    edited = editors[result.kind](words, {"output": None, **changes})
    return " ".join(word if _is_plain(word) else shlex.quote(word) for word in edited)


def _is_harmless(words: Sequence[str], program: str) -> bool:
    """False if the words, maybe a stranger's, run another program, deceive who reads them or are not whole."""
    hides = any(CONTROL.search(word) or "\n" in word for word in words)
    runs_or_cut = any(_RUNS_PROGRAMS.fullmatch(w) or _CUT_VALUE.fullmatch(w) for w in words)
    paths = (word for word in words if word.rpartition("/")[2] == program)
    return not hides and not runs_or_cut and all(map(_INSTALLED.fullmatch, paths))


# options of the other tools; a change of one that a tool has not leaves no command
_TOOL_OPTIONS = {
    "dd": re.compile(r"(if|of|[io]?bs|count|[io]flag|conv|seek|skip)$"),
    "sysbench": re.compile(r"(file_\w+|threads|time|events)$"),
}
# names of our own fio options that fio calls otherwise
_FIO_NAMES = {"block_size": "bs", "runtime_s": "runtime", "ramp_s": "ramp_time", "compressible": ""}
_FIO_NAMES |= {
    "log_avg_msec": "",
    "log_hist_msec": "",
    "extra": "",
    "job_file": "",
    "override": "",
    "name": "",
}


def _from_options(result: Result) -> str:
    """A fio command with the options that are known; "" where not even the access pattern is."""
    if not result.pattern:
        return ""
    by_name = {_FIO_NAMES.get(name, name): value for name, value in result.options.items()}
    words = [f"--{k}={int(v) if isinstance(v, bool) else v}" for k, v in by_name.items() if k]
    if not {"filename", "directory"} & set(by_name):
        words.insert(0, "--filename=FILE")
    name = str(result.options.get("name") or "test")
    return shlex.join(["fio", f"--name={name}", *words])


def shell_words(command: str) -> list[str]:
    """Words of a command line, each operator (";", "&&", ">") a word of its own; empty where quotes do not match."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:
        return []


def _is_plain(word: str) -> bool:
    return bool(re.fullmatch(r"[\w@%+=:,./~-]+", word))


def _edit_fio(words: list[str], changes: Mapping[str, object]) -> list[str]:
    """Words of a fio command with the options set at their places, else behind its last option."""
    if not any(word.startswith(("--name", "-name")) for word in words):
        return []
    remaining: list[str] = []
    places: set[str] = set()
    skip = False
    for at, word in enumerate(words):
        option = _WORD.match(word)
        name = option[1] if option else ""
        if skip:
            skip = False
            continue
        if name not in changes:
            remaining.append(word)
            continue
        follows = words[at + 1] if at + 1 < len(words) else "-"
        skip = "=" not in word and not follows.startswith("-")
        if changes[name] is not None and name not in places:
            remaining.append(f"--{name}={changes[name]}")
        places.add(name)
    added = [f"--{k}={v}" for k, v in changes.items() if k not in places and v is not None]
    return [*remaining, *added]


def _edit_dd(words: list[str], changes: Mapping[str, object]) -> list[str]:
    """Words of a dd command with these operands."""
    remaining = [word for word in words if word.partition("=")[0] not in changes]
    return [*remaining, *(f"{k}={v}" for k, v in changes.items() if v is not None)]


def _edit_sysbench(words: list[str], changes: Mapping[str, object]) -> list[str]:
    """Words of a sysbench command with these options before its verb; `_` in a name stands for `-`."""
    by_name = {name.replace("_", "-"): value for name, value in changes.items()}
    remaining = [w for w in words if w.removeprefix("--").partition("=")[0] not in by_name]
    added = [f"--{k}={v}" for k, v in by_name.items() if v is not None]
    end = remaining.index("run") if "run" in remaining else len(remaining)
    return [*remaining[:end], *added, *remaining[end:]]

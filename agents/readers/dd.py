# SPDX-License-Identifier: Apache-2.0
"""dd's results in any text: blocks of three lines, with the command line before them where a terminal log has it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import ParseError
from agents.outputs import dd_output
from agents.texts.parsed_result import FRAGMENT, ParsedResult
from agents.tools.dd import CONVERSIONS
from agents.tools.dd import FLAGS as TOOL_FLAGS
from agents.tools.dd import SOURCES as ZERO_SOURCES

LABEL = "dd"
KEYWORDS = (dd_output.COPIED, "copied,", "bytes/sec", re.compile(r"\+\d"))
# lines that may stand between a command and its result: complaints, progress
REACH = 4
# how dd prints the time of its progress
WHOLE_SECONDS = re.compile(r"copied, \d+ s")
# characters of a line that is none of dd's
MANY = 60_000
# "1024+0 Datensätze ein", "记录了1024+0 的读入": dd in another language, twice, then a line with a rate
FOREIGN = re.compile(r"[^\d+]{0,20}\d{1,18}\+\d{1,18}[^\d+]{2,60}")
FOREIGN_RATE = re.compile(r"\d{1,19} ?[^\d\s][^/]{0,150} [kKMGTP]?i?[^\W\d]{1,8}/\w{1,4}")
CUT = (
    "the result is truncated: dd prints 'records in', 'records out', and then bytes, time and rate"
)
NOT_ENGLISH = "dd printed this in another language; run it again with LC_ALL=C"


def find_results(text: str, name: str) -> list[ParsedResult]:
    lines = dd_output.in_english([_clean_line(line) for line in text.split("\n")])
    return list(_find_blocks(lines))


def _clean_line(line: str) -> str:
    """White space as dd printed it: a web page has non-breaking and doubled spaces."""
    return " ".join(dd_output.last_shown(line).split()) if len(line) < MANY else ""


def _find_blocks(lines: Sequence[str]) -> Iterator[ParsedResult]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line or not ("+" in line or "/s" in line):
            at += 1
            continue
        if _way(line):
            end = _block_end(lines, at)
            yield _run_block(lines, at, end)
        elif _foreign(lines, at):
            end = at + 3
            yield _trouble(lines, at, end, NOT_ENGLISH)
        elif (after := _after_progress(lines, at)) > at:
            # Progress belongs to the result that follows it; without one, the rest was cut.
            end = after
            if after == len(lines) or _way(lines[after]) != "in":
                yield _last_line(lines, at, end)
        else:
            end = at + 1
        at = end


def _way(line: str) -> str:
    """ "in" or "out" for a line of records."""
    match = dd_output.RECORDS.fullmatch(line)
    return match[3] if match else ""


def _block_end(lines: Sequence[str], at: int) -> int:
    """Behind the last line of the block that begins at `at`: records in, records out, what BSD adds, the summary."""
    end = at + 1
    if _way(lines[at]) == "in":
        if end == len(lines) or _way(lines[end]) != "out":
            return end
        end += 1
    ahead = end
    while ahead < len(lines) and re.fullmatch(
        r"\d+ (?:odd length swab|truncated) .*", lines[ahead]
    ):
        ahead += 1
    return ahead + 1 if ahead < len(lines) and dd_output.summary(lines[ahead]) else end


def _after_progress(lines: Sequence[str], at: int) -> int:
    """Behind the run of summaries that begins at `at`; `at` itself when there is none."""
    while at < len(lines) and dd_output.summary(lines[at]):
        at += 1
    return at


def _foreign(lines: Sequence[str], at: int) -> bool:
    if at + 2 >= len(lines):
        return False
    first, second, third = lines[at : at + 3]
    return bool(
        FOREIGN.fullmatch(first) and FOREIGN.fullmatch(second) and FOREIGN_RATE.match(third)
    )


def _last_line(lines: Sequence[str], start: int, end: int) -> ParsedResult:
    """The end of a result, alone; whole seconds, or several such lines, are progress of a copy that went on."""
    if end - start > 1 or WHOLE_SECONDS.search(lines[start]):
        return _trouble(lines, start, end, CUT)
    try:
        metrics = dd_output.parse_last_line(lines[start])
    except ParseError as error:
        return _trouble(lines, start, end, str(error).partition(" (line ")[0])
    at, command = _nearest_command(
        lines, start, {metric.name: metric.value or 0.0 for metric in metrics}
    )
    whole = command is not None and metrics[0].value == _asked_bytes(command.sizes)
    if at < start and (command is None or ("status=progress" in lines[at] and not whole)):
        return _trouble(lines, start, end, CUT)
    return ParsedResult(
        kind="dd",
        first=at + 1,
        last=end,
        title=command.text if command else f"dd of {metrics[0].value:.0f} bytes",
        tool="dd",
        command=command.text if command else "",
        metrics=tuple(dataclasses.replace(metric, line=end) for metric in metrics),
        options=command.options if command else {},
        outstanding=1,
        notes=(FRAGMENT, *(command.notes if command else ())),
    )


def _run_block(lines: Sequence[str], start: int, end: int) -> ParsedResult:
    first = _block_start(lines, start)
    try:
        metrics = dd_output.parse_run(lines[first:end])
    except ParseError as error:
        # its line number counts from the block's beginning, and would mislead
        trouble = CUT if end - start < 3 else str(error).partition(" (line ")[0]
        return _trouble(lines, start, end, trouble)
    shifted = tuple(dataclasses.replace(metric, line=metric.line + first) for metric in metrics)
    figures = {metric.name: metric.value or 0.0 for metric in metrics}
    at, command = _nearest_command(lines, first, figures)
    plain = f"dd of {figures['bytes']:.0f} bytes"
    if command is None:
        return ParsedResult("dd", first + 1, end, plain, tool="dd", metrics=shifted, outstanding=1)
    return ParsedResult(
        kind="dd",
        first=at + 1,
        last=end,
        title=command.text,
        tool="dd",
        command=command.text,
        metrics=shifted,
        options=command.options,
        options_complete=True,
        outstanding=1,
        notes=(*command.notes, *_unfinished(command.sizes, figures)),
    )


def _trouble(lines: Sequence[str], start: int, end: int, message: str) -> ParsedResult:
    return ParsedResult("dd", start + 1, end, lines[start][:80], tool="dd", trouble=message)


def _block_start(lines: Sequence[str], start: int) -> int:
    """The block with its progress and complaints, which stand right before it."""
    first = start
    while first and (dd_output.summary(lines[first - 1]) or lines[first - 1].startswith("dd: ")):
        if first > 1 and _way(lines[first - 2]) == "out":
            # the end of another result
            break
        first -= 1
    return first


def _nearest_command(
    lines: Sequence[str], first: int, figures: dict[str, float]
) -> tuple[int, Command | None]:
    """The nearest command line before `first` and its index, if it can have given this result."""
    for at in range(first - 1, max(first - REACH, 0) - 1, -1):
        if dd_output.summary(lines[at]) or _way(lines[at]):
            # that is another run's
            break
        if dd_command := find_dd_command(lines[at]):
            return at, dd_command if _fits(dd_command.sizes, figures) else None
    return first, None


def _asked_bytes(sizes: Mapping[str, int]) -> int:
    """Bytes that the command copies if nothing ends it; 0 where it does not say."""
    return sizes.get("count", 0) * (sizes.get("block_size") or sizes.get("ibs") or 512)


def _unfinished(sizes: Mapping[str, int], figures: dict[str, float]) -> Iterator[str]:
    count = sizes.get("count", 0)
    if figures["records.in"] < count:
        yield f"{figures['records.in']:.0f} of {count} blocks: it ended early, or printed this while it ran"


def _fits(sizes: Mapping[str, int], figures: dict[str, float]) -> bool:
    """Blocks and bytes are what the command asked for, or fewer: an input may end early, a disk be full."""
    count = sizes.get("count")
    if "records.in" not in figures:
        block = sizes.get("block_size") or sizes.get("ibs") or 512
        return not count or figures["bytes"] <= count * block
    written = sizes.get("block_size") or sizes.get("obs") or 512
    read = sizes.get("block_size") or sizes.get("ibs") or 512
    if count and figures["records.in"] > count:
        return False
    return figures["bytes"] <= min(written * figures["records.out"], read * figures["records.in"])


# A prompt, sudo or time may stand before; what follows the operands (a redirection, &&) does not belong to it.
LINE = re.compile(r"""(?:^|[\s#$%>;&|(/`'"])dd((?: +[a-z]{2,6}=[^\s;&|<>()`'"]+)+)""")
# characters of a command line
LONGEST_COMMAND = 1000
SUFFIXES = {
    "": 1,
    "c": 1,
    "w": 2,
    "b": 512,
    "k": 1 << 10,
    "K": 1 << 10,
    "KiB": 1 << 10,
    "kB": 1000,
    "KB": 1000,
    "m": 1 << 20,
    "M": 1 << 20,
    "MiB": 1 << 20,
    "MB": 1000**2,
    "g": 1 << 30,
    "G": 1 << 30,
    "GiB": 1 << 30,
    "GB": 1000**3,
    "T": 1 << 40,
    "TiB": 1 << 40,
    "TB": 1000**4,
}
SIZE = re.compile(r"(\d{1,15})([a-zA-Z]{0,3})")
SIZES = {"bs": "block_size", "ibs": "ibs", "obs": "obs", "count": "count"}
FLAGS = {"iflag": TOOL_FLAGS, "oflag": TOOL_FLAGS, "conv": CONVERSIONS}
SOURCES = {path: name for name, path in ZERO_SOURCES.items()} | {"/dev/random": "random"}


@dataclass(frozen=True, slots=True)
class Command:
    """`options` are all operands: those of the tool dd, `sizes` among them, and the others verbatim. `notes` say what
    the tool has no option for.
    """

    text: str
    # B, or blocks
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_dd_command(line: str) -> Command | None:
    """The last dd command in a line; None when there is none."""
    matches = list(LINE.finditer(line)) if len(line) <= LONGEST_COMMAND else []
    if not matches:
        return None
    words = matches[-1][1].split()
    operands = dict(word.split("=", 1) for word in words)
    if not operands.keys() & {"if", "of", "bs", "obs", "ibs"}:
        return None
    sizes, unclear = _sizes(operands)
    flags, unknown = _flags(operands)
    options = {**_verbatim(operands, sizes), **sizes, **_direction(operands), **flags}
    return Command("dd " + " ".join(words), sizes, options, (*unclear, *unknown))


def parse_size(text: str) -> int | None:
    """Bytes or blocks of "4K", "1M", "2x512"; None when unknown, or when two dds would differ."""
    product = 1
    for part in text.split("x"):
        match = SIZE.fullmatch(part)
        if match is None or match[2] not in SUFFIXES or len(text) > 40:
            return None
        product *= int(match[1]) * SUFFIXES[match[2]]
    return product if 0 < product < 1 << 63 else None


def _sizes(operands: Mapping[str, str]) -> tuple[dict[str, int], list[str]]:
    """The sizes among our options, and notes on anything not understood."""
    sizes: dict[str, int] = {}
    notes: list[str] = []
    for key, name in SIZES.items():
        # bs wins
        if key in operands and not (key in ("ibs", "obs") and "bs" in operands):
            value = parse_size(operands[key])
            if value is None:
                notes.append(f"{key}={operands[key]} is not understood")
            else:
                sizes[name] = value
    if "bs" not in operands:
        sizes["block_size"] = 0
    return sizes, notes


def _verbatim(operands: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, str]:
    """Operands that are neither sizes nor flags, and sizes that are not understood. `status` is only about the output,
    and with bs dd ignores ibs and obs.
    """
    typed = {*FLAGS, "status"} | {key for key, name in SIZES.items() if name in sizes}
    typed |= {"ibs", "obs"} if "bs" in operands else set()
    return {key: value for key, value in operands.items() if key not in typed}


def _flags(operands: Mapping[str, str]) -> tuple[dict[str, list[str]], list[str]]:
    """All flags by option, and notes on those that we do not support."""
    options: dict[str, list[str]] = {}
    notes: list[str] = []
    for key, allowed_flags in FLAGS.items():
        flags = [flag for flag in operands.get(key, "").split(",") if flag]
        if flags:
            options[key] = flags
        notes += [f"{key}={flag} has no option here" for flag in flags if flag not in allowed_flags]
    return options, notes


def _direction(operands: Mapping[str, str]) -> dict[str, str]:
    if operands.get("of") == "/dev/null":
        return {"direction": "read"}
    if operands.get("if") in SOURCES:
        return {"direction": "write", "source": SOURCES[operands["if"]]}
    return {}

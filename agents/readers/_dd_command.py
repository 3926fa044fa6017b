# SPDX-License-Identifier: Apache-2.0
"""A dd command line, as a terminal log shows it: its words, and those of our own options that it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.tools import dd

# A prompt, sudo or time may stand before; what follows the operands (a redirection, &&) does not belong to it.
LINE = re.compile(r"""(?:^|[\s#$%>;&|(/`'"])dd((?: +[a-z]{2,6}=[^\s;&|<>()`'"]+)+)""")
# characters of a command line
LONGEST = 1000
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
FLAGS = {"iflag": dd.FLAGS, "oflag": dd.FLAGS, "conv": dd.CONVERSIONS}
SOURCES = {path: name for name, path in dd.SOURCES.items()} | {"/dev/random": "random"}


@dataclass(frozen=True, slots=True)
class Command:
    """`options` are those of the tool dd, `sizes` among them; `notes` say what it has no option for."""

    text: str
    # B, or blocks
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_dd_command(line: str) -> Command | None:
    """The last dd command in a line; None when there is none."""
    matches = list(LINE.finditer(line)) if len(line) <= LONGEST else []
    if not matches:
        return None
    words = matches[-1][1].split()
    operands = dict(word.split("=", 1) for word in words)
    if not operands.keys() & {"if", "of", "bs", "obs", "ibs"}:
        return None
    sizes, unclear = _sizes(operands)
    flags, unknown = _flags(operands)
    options = {**sizes, **_direction(operands), **flags}
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


def _flags(operands: Mapping[str, str]) -> tuple[dict[str, list[str]], list[str]]:
    """The flags that we support, by option, and notes on the others."""
    options: dict[str, list[str]] = {}
    notes: list[str] = []
    for key, allowed_flags in FLAGS.items():
        flags = [flag for flag in operands.get(key, "").split(",") if flag]
        if ours := [flag for flag in flags if flag in allowed_flags]:
            options[key] = ours
        notes += [f"{key}={flag} has no option here" for flag in flags if flag not in allowed_flags]
    return options, notes


def _direction(operands: Mapping[str, str]) -> dict[str, str]:
    if operands.get("of") == "/dev/null":
        return {"direction": "read"}
    if operands.get("if") in SOURCES:
        return {"direction": "write", "source": SOURCES[operands["if"]]}
    return {}

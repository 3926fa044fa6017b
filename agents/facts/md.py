# SPDX-License-Identifier: Apache-2.0
"""md arrays as /proc/mdstat shows them, on every kernel since 2.6. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agents.facts.model import BlockDevice, MdArray, MdMember
from agents.facts.sections import Section, decode_text

STATES = ("active", "inactive", "broken")
COPIES = {"near": "n", "far": "f", "offset": "o"}


def parse_mdstat(section: Section) -> tuple[MdArray, ...]:
    """Every array; a line that is none of mdstat's raises AgentError BAD_FACTS naming it."""
    arrays: list[MdArray] = []
    for number, line in section.numbered_lines():
        words = decode_text(line).split()
        if line[:1].isspace():
            if not arrays:
                raise section.error_at(number, line, "belongs to no array")
            arrays[-1] = _add_detail(arrays[-1], decode_text(line))
        elif len(words) > 2 and words[1] == ":" and words[2] in STATES:
            arrays.append(_parse_array(words))
        elif not words or words[0] not in ("Personalities", "unused", "read_ahead"):
            raise section.error_at(number, line, "not a line of /proc/mdstat")
    return tuple(arrays)


def _parse_array(words: list[str]) -> MdArray:
    """md127 : active (auto-read-only) raid5 ubde[4](S) ubdd[3] ubdc[1]"""
    matched = [re.fullmatch(r"(.+?)\[(\d+)\]((?:\([A-Z]\))*)", word) for word in words[3:]]
    members = tuple(
        MdMember(m[1], int(m[2]), "".join(re.findall(r"[A-Z]", m[3]))) for m in matched if m
    )
    level = next((w for w in words[3:] if re.fullmatch(r"raid\d+|linear|multipath|faulty", w)), "")
    return MdArray(words[0], words[2], level, members)


def _add_detail(array: MdArray, line: str) -> MdArray:
    """One of the indented lines: geometry, progress or bitmap."""
    if (chunk := re.search(r"(\d+)[kK] chunks?\b", line)) and "bitmap:" not in line:
        array = replace(array, chunk=int(chunk[1]) << 10)
    if copies := re.search(r"(\d+) (near|far|offset)-copies", line):
        array = replace(array, layout=COPIES[copies[2]] + copies[1])
    if slots := re.search(r"\[(\d+)/(\d+)\] \[[U_]+\]", line):
        array = replace(array, slots=int(slots[1]), up=int(slots[2]))
    if "bitmap:" in line:
        array = replace(array, bitmap=True)
    action = re.search(r"\b(resync|recovery|reshape|check|repair)\s*=\s*(\S+)", line)
    if action is None:
        return array
    percent, finish = re.fullmatch(r"([\d.]+)%", action[2]), re.search(r"finish=([\d.]+)min", line)
    return replace(
        array,
        action=action[1],
        done=min(round(float(percent[1]) / 100, 4), 1.0) if percent else 0.0,
        finish_s=float(finish[1]) * 60 if finish else None,
    )


def with_settings(
    arrays: Iterable[MdArray], attributes: Mapping[str, Mapping[str, str]]
) -> tuple[MdArray, ...]:
    """The arrays with what the kernel has in /sys/class/block/X/md. `attributes`: as of agents.facts.sysfs."""
    return tuple(
        replace(
            array,
            settings={
                path.removeprefix("md/"): value
                for path, value in attributes.get(array.name, {}).items()
                if path.startswith("md/")
            },
        )
        for array in arrays
    )


def array_members(
    arrays: Iterable[MdArray], devices: Mapping[str, BlockDevice], names: Mapping[str, str]
) -> dict[str, str]:
    """Member's kernel name -> "md NAME": the array's name in /dev/md, else what all its superblocks say.

    udev makes no link for an array that could not start, and takes that of a broken one away; its kernel name proves
    nothing. A member that is no device any more says nothing: it was unplugged.
    """
    owned: dict[str, str] = {}
    for array in arrays:
        links = [path for path, name in names.items() if name == array.name and "/dev/md/" in path]
        present = [devices[m.device] for m in array.members if m.device in devices]
        labels = {_array_label(device) for device in present}
        label = labels.pop() if len(labels) == 1 else ""
        owner = links[0].removeprefix("/dev/md/") if links else label or array.name
        owned |= {member.device: f"md {owner}" for member in array.members}
    return owned


def _array_label(device: BlockDevice) -> str:
    """bl17 of a superblock's "host:bl17"."""
    labels = (s.label for s in device.signatures if s.type == "linux_raid_member")
    return next(labels, "").rpartition(":")[2]

"""Programs that have a block device open for writing, and not for themselves alone: the kernel refuses nobody then."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agents.facts.sections import Section, text

NOT_RUN = 126  # and above: ls itself did not run; 1 and 2 are of programs that have gone


def read(sections: Mapping[str, Section]) -> dict[str, tuple[str, ...]]:
    """Number of a device ("8:16") -> its programs ("qemu-system-x86[4711]"). Raises AgentError BAD_FACTS."""
    if "openers" not in sections or "opened" not in sections:
        return {}
    names = _names(sections["openers"])
    found: dict[str, dict[str, None]] = {}
    for number, line in sections["opened"].lines():
        match = re.fullmatch(rb"b\S+ .* (\d+), *(\d+) .* (/proc/(\d+)/fd/\d+)", line.strip())
        if match is None:
            raise sections["opened"].bad(number, line, "not a block device of ls -lnL")
        device = f"{int(match[1])}:{int(match[2])}"
        program = f"{names.get(text(match[3]), '?')}[{text(match[4])}]"
        found.setdefault(device, {})[program] = None
    return {device: tuple(programs) for device, programs in found.items()}


def _names(section: Section) -> dict[str, str]:
    """The descriptor's path in /proc -> the program's name."""
    found = {}
    for number, line in section.lines():
        match = re.fullmatch(rb"(/proc/\d+/fd/\d+) ?(.*)", line, re.S)
        if match is None:
            raise section.bad(number, line, "not /proc/PID/fd/NUMBER NAME")
        found[text(match[1])] = text(match[2])
    return found


def failure(sections: Mapping[str, Section]) -> list[str]:
    """Set when there are such programs and nobody can say what they have open."""
    opened = sections.get("opened")
    return [opened.failure] if opened is not None and opened.exit_code >= NOT_RUN else []

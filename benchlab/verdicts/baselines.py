# SPDX-License-Identifier: Apache-2.0
"""The baseline that other lines are compared with, as an address names it: by the parts in which lines differ.

"t5": the layout of topology 5; "mafter-1": a moment; "c2.h3": a campaign on a host; "r" and eight hexadecimal digits:
what else a sweep varies, a scheduler for example. Several parts have dots between them. A number alone is a topology.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.charts.queries import Group
from benchlab.charts.request_params import BUILT

KEY = re.compile(r"(?:[cht][0-9]{1,18}|m[a-z]+(?:-[0-9]{1,9})?|r[0-9a-f]{8})", re.ASCII)
# letter -> remainder of the part
Parts = Mapping[str, str]


def line_parts(line: Group) -> Parts:
    """Everything that identifies a line, except for its workload."""
    return {
        "c": str(line.campaign),
        "h": str(line.host),
        "t": str(line.topology),
        "m": line.stage or BUILT,
        "r": sha256(line.rest.encode()).hexdigest()[:8],
    }


def line_keys(lines: Sequence[Group]) -> list[str]:
    """Key of each line, made of the parts that differ among them, so that it means the same in answers beside these."""
    parts_of_lines = [line_parts(line) for line in lines]
    unlike = [
        letter
        for letter in parts_of_lines[0]
        if len({parts[letter] for parts in parts_of_lines}) > 1
    ]
    return [".".join(letter + parts[letter] for letter in unlike) for parts in parts_of_lines]


def baseline_index(lines: Sequence[Group], key: str) -> int:
    """Index of the first line that has every part of the key; 0 if there is none, and for an empty key."""
    parts = {part[0]: part[1:] for part in key.split(".") if part}
    for at, line in enumerate(lines):
        own_parts = line_parts(line)
        if all(own_parts[letter] == value for letter, value in parts.items()):
            return at
    return 0


def requested_baseline(query: QueryDict) -> str:
    """?baseline=, "" for none. Raises BadRequest."""
    key = query.get("baseline", "")
    if key.isascii() and key.isdigit() and len(key) < 19:
        return f"t{key}"
    if key and not all(KEY.fullmatch(part) for part in key.split(".")):
        raise BadRequest(f"baseline: {key[:100]!r} is no line's key")
    return key

# SPDX-License-Identifier: Apache-2.0
"""UUIDs that a layout chooses before anything exists, so that what a power loss leaves is provably its own. Pure."""

from __future__ import annotations

import hashlib
import re

# hex digits of a UUID that say whose it is; the rest says what it names
HALF = 16


def uuid_of(layout: str, *what: str) -> str:
    """The UUID (version 8, RFC 9562) of one thing of a layout: always the same for the same words."""
    own, rest = _owner(layout), _digits(layout, *what)
    digits = f"{own}8{rest[1:HALF]}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def lvm_uuid_of(layout: str, *what: str) -> str:
    """The same as LVM writes it: 32 characters, 6-4-4-4-4-4-6."""
    digits = uuid_of(layout, *what).replace("-", "")
    ends = (6, 10, 14, 18, 22, 26, 32)
    return "-".join(digits[start:end] for start, end in zip((0, *ends), ends, strict=False))


def is_uuid_of(uuid: str, layout: str) -> bool:
    """True when `uuid_of` or `lvm_uuid_of` gave it to something of this layout; md's colons may stand in it."""
    digits = re.sub(r"[-:]", "", uuid.lower())
    return bool(layout) and len(digits) == 2 * HALF and digits.startswith(_owner(layout))


def _owner(layout: str) -> str:
    digits = _digits(layout)
    return f"{digits[:12]}8{digits[13:HALF]}"


def _digits(*words: str) -> str:
    return hashlib.sha256("\0".join(("benchlab", *words)).encode()).hexdigest()

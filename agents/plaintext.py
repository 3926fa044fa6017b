# SPDX-License-Identifier: Apache-2.0
"""Output of a host as text that is safe for a terminal, a log, a page and PostgreSQL."""

from __future__ import annotations

import hashlib
import re

# All that paints a terminal, forges a line, turns text around or that PostgreSQL refuses; tab and newline are text.
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# characters of a message; a page with a line of megabytes stands still
MOST = 8000
MOST_OF_FILE = 64 * 1024


def visible(text: str, most: int = MOST) -> str:
    r"""Control characters as \x1b or \u202e, and what is beyond `most` characters only counted."""
    cut = text[:most]
    escaped = CONTROL.sub(_escaped, cut)
    return escaped if len(text) <= most else f"{escaped}… ({len(text) - most} more characters)"


def of_file(content: bytes) -> str:
    """A file's text passed through `visible`; for a binary file its length and SHA-256."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f"binary, {len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"
    return visible(text, MOST_OF_FILE)


def one_line(text: str, most: int = MOST) -> str:
    """The text passed through `visible` and without newlines."""
    return visible(text, most).replace("\n", "\\n")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

# SPDX-License-Identifier: Apache-2.0
"""Plain text that people wrote, as HTML: escaped, with its line breaks, and links that are plainly links. Pure."""

from __future__ import annotations

import re

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

ADDRESS = re.compile(r"https?://[^\s<>\"'`\\]{1,500}", re.IGNORECASE)
# belongs to the sentence more often than to the address
ENDS = ".,;:!?)]}"


def html(text: str) -> SafeString:
    """Return `text` as HTML. Only line breaks and links become markup; search engines do not follow the links."""
    parts: list[str] = []
    at = 0
    for match in ADDRESS.finditer(text):
        address = match.group().rstrip(ENDS)
        parts += [escape(text[at : match.start()]), _link(address)]
        at = match.start() + len(address)
    parts.append(escape(text[at:]))
    lines = "".join(parts).replace("\r\n", "\n").replace("\r", "\n")
    return mark_safe(lines.replace("\n", "<br>\n"))  # noqa: S308  # escaped above, part by part


def _link(address: str) -> str:
    if len(address) <= len("https://"):
        return escape(address)
    safe = escape(address)
    return f'<a href="{safe}" rel="nofollow noopener noreferrer">{safe}</a>'

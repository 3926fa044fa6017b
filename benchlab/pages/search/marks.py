# SPDX-License-Identifier: Apache-2.0
"""Texts with what was looked for marked in them, safe to be shown."""

from __future__ import annotations

import re

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

# characters of a long text that are shown before the first match
AROUND = 60
LONGEST = 200


def marked(text: str, matched: re.Pattern[str]) -> SafeString:
    """Every match in <mark>, all else escaped."""
    ends = [0, *(match.end() for match in matched.finditer(text))]
    starts = [*(match.start() for match in matched.finditer(text)), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    matches = [format_html("<mark>{}</mark>", match.group()) for match in matched.finditer(text)]
    return format_html_join("", "{}{}", zip(between, [*matches, ""], strict=True))


def excerpt(text: str, matched: re.Pattern[str]) -> SafeString:
    """The part of a long text that has the first match, on one line, marked."""
    line = " ".join(text.split())
    match = matched.search(line)
    start = max(0, match.start() - AROUND) if match else 0
    part = line[start : start + LONGEST]
    before, after = "…" * bool(start), "…" * (start + LONGEST < len(line))
    return format_html("{}{}{}", before, marked(part, matched), after)

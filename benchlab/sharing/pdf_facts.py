# SPDX-License-Identifier: Apache-2.0
"""Metadata of a PDF: title, subject, who made it, when.

Added behind the file as it is (an incremental update, ISO 32000-1, 7.5.6), which leaves every byte of it in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

TRAILER = re.compile(rb"trailer\s*<<(.*?)>>\s*startxref\s+(\d+)\s+%%EOF\s*$", re.S)
SIZE = re.compile(rb"/Size\s+(\d+)")
ROOT = re.compile(rb"/Root\s+(\d+\s+\d+\s+R)")


def add_metadata(pdf: bytes, facts_by_name: Mapping[str, str], made: datetime) -> bytes:
    """With `told` (Title, Subject, Creator …) as its facts. Raises ValueError: it ends as no PDF of Chromium does."""
    end = TRAILER.search(pdf, max(0, len(pdf) - 2048))
    size, root = (SIZE.search(end[1]), ROOT.search(end[1])) if end else (None, None)
    if end is None or size is None or root is None:
        raise ValueError("a PDF without a trailer")
    number = int(size[1])
    facts = b"".join(
        b"/%s %s " % (key.encode(), _pdf_string(value)) for key, value in facts_by_name.items()
    )
    date = made.astimezone(UTC).strftime("D:%Y%m%d%H%M%SZ").encode()
    head = pdf if pdf.endswith(b"\n") else pdf + b"\n"
    row = b"%d 0 obj\n<<%s/CreationDate (%s)>>\nendobj\n" % (number, facts, date)
    table = b"xref\n%d 1\n%010d 00000 n \n" % (number, len(head))
    trailer = b"trailer\n<</Size %d /Root %s /Info %d 0 R /Prev %s>>\n" % (
        number + 1,
        root[1],
        number,
        end[2],
    )
    return head + row + table + trailer + b"startxref\n%d\n%%%%EOF\n" % (len(head) + len(row))


def _pdf_string(words: str) -> bytes:
    """A text string in hexadecimal UTF-16, which needs no escapes."""
    return b"<FEFF" + words.encode("utf-16-be", "replace").hex().upper().encode() + b">"

"""A file as it is shown: its text, or that it is none."""

from __future__ import annotations

import hashlib

import pytest

from agents.dynamo import bundle
from agents.plaintext import of_file


@pytest.mark.parametrize(
    "raw", [b"\x7fELF\x02\x01\x01\0", b"PK\x03\x04\xff\xfe", b"text\0text", bundle.build_bundle()]
)
def test_what_is_no_text_is_told_by_its_digest(raw: bytes) -> None:
    digest = hashlib.sha256(raw).hexdigest()
    assert of_file(raw) == f"binary, {len(raw)} bytes, SHA-256 {digest}"


def test_text_is_shown_without_what_paints_a_terminal() -> None:
    assert of_file("size=1\n\t# 8 µs\x1b[31m\n".encode()) == "size=1\n\t# 8 µs\\x1b[31m\n"
    assert of_file(b"") == ""
    assert of_file(b"x" * 70_000).endswith("(4464 more characters)")

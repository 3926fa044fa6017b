# SPDX-License-Identifier: Apache-2.0
"""Bytes to the text that readers get: lines end with \n, nothing is guessed without saying so, binary is refused."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from agents.texts import pasting
from benchlab.imports import html_text

BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_-]{2,20})""")
# Of web pages. Python knows more, some of which are no encodings of text.
CHARSETS = re.compile(
    r"(gb2312|gbk|gb18030|big5|shift_jis|euc-(jp|kr)|koi8-[ru]|iso-8859-\d+|windows-125\d)", re.I
)
# What no text has: tab, line feed, form feed, carriage return, backspace and escape are in terminal logs.
CONTROL = bytes({*range(32), 127} - {7, 8, 9, 10, 11, 12, 13, 27})
MOST_CONTROL = 0.02
HTML_MOST = 20_000_000
# Colours and titles of a terminal: "\x1b[0;32m".
# some terminals' logs have two carriage returns
LINE_ENDS = re.compile(r"\r*\n|\r")
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)?|[()][0-9A-B]|[=>])"
)


# lines: fewer may be so by chance
DOUBLE_LEAST = 7
# characters in which an empty line must be
MOST_DOUBLE = 10_000


class NotText(Exception):
    """Reason why it cannot be read; the text names the place."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """`notes` say what was done to it, where that is worth knowing."""

    text: str
    notes: tuple[str, ...] = ()


def decode_upload(name: str, raw: bytes) -> DecodedText:
    """Raises NoText."""
    if not raw.strip():
        raise NotText("it is empty" if not raw else "it has nothing but white space")
    page = html_text.is_page(name, raw[:2048])
    text, notes = _decode(raw, page)
    if page:
        if len(raw) > HTML_MOST:
            raise NotText(
                f"a web page of more than {HTML_MOST / 1e6:.0f} MB: save its text instead"
            )
        text = html_text.html_to_text(text)
        notes = (*notes, "A web page: its text was taken, and lines are those of this text.")
    if "\x1b" in text:
        text = ESCAPES.sub(_cursor_replacement, text)
        notes = (*notes, "Colours and other control sequences of a terminal were left out.")
    if "\r" in text:
        text = LINE_ENDS.sub("\n", text)
    if single := _single_spaced(text):
        text, notes = (
            single,
            (*notes, "Every second line was empty: those lines are left out, and not counted."),
        )
    stripped = pasting.strip_marks(text)
    return DecodedText(stripped.text, (*notes, *stripped.notes))


def _single_spaced(text: str) -> str:
    """Without the empty line that some programs put behind each; "" where not all have one."""
    if "\n\n" not in text[:MOST_DOUBLE]:
        return ""
    lines = text.strip("\n").split("\n")
    if len(lines) < DOUBLE_LEAST or any(line.strip() for line in lines[1::2]):
        return ""
    return "\n".join(lines[::2])


def _cursor_replacement(sequence: re.Match[str]) -> str:
    """Text in the place of a control sequence: where the cursor went to another place, the words there are others."""
    code = sequence[0]
    if code[1:2] != "[" or code[-1] not in "HfdEC":
        return ""
    if code[-1] != "C":
        return "\n"
    steps = code[2:-1] or "1"
    return " " * min(int(steps), 200) if steps.isdecimal() else ""


def _decode(raw: bytes, page: bool) -> tuple[str, tuple[str, ...]]:
    for bom, encoding in BOMS.items():
        if raw.startswith(bom):
            return _decode_with_bom(raw, encoding), ()
    _check_not_binary(raw)
    try:
        return raw.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        place = f"byte {error.start + 1}, line {line}"
    declared = CHARSET.search(raw[:4096]) if page else None
    if declared and CHARSETS.fullmatch(charset := declared[1].decode()):
        return raw.decode(charset, "replace"), (f"Read as {charset}, as the page says.",)
    note = f"It is not UTF-8 (at {place}); read as Latin-1, so letters other than English may be wrong."
    return raw.decode("latin-1"), (note,)


def _decode_with_bom(raw: bytes, encoding: str) -> str:
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise NotText(
            f"it begins like {encoding[:6].upper()}, but byte {error.start + 1} is not"
        ) from None
    if (at := text.find("\0")) >= 0:
        raise NotText(_nul_message(text.count("\n", 0, at) + 1))
    return text


def _check_not_binary(raw: bytes) -> None:
    if (at := raw.find(b"\0")) >= 0:
        raise NotText(_nul_message(raw.count(b"\n", 0, at) + 1) + f", byte {at + 1}")
    odd = len(raw) - len(raw.translate(None, CONTROL))
    if odd > len(raw) * MOST_CONTROL:
        at = min(position for byte in CONTROL if (position := raw.find(byte)) >= 0)
        line = raw.count(b"\n", 0, at) + 1
        raise NotText(f"it is binary, not text (a control character in line {line}, byte {at + 1})")


def _nul_message(line: int) -> str:
    return f"it is binary, not text (NUL) in line {line}"

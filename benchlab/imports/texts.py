# SPDX-License-Identifier: Apache-2.0
"""Decoding of uploads to the text that readers get, web pages included. Binary files are refused.

Lines end with a line feed, and every guess is noted. Of a web page only the text is taken, in the lines that a reader
of the page sees, so nothing in a page can harm. The standard library's html.parser takes quadratic time on tags that
nobody closed; here each step ends where it got to, so that the whole is linear.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from html import unescape

from agents.texts import pasting

HIDDEN = frozenset(
    {"script", "style", "noscript", "template", "head", "svg", "select", "iframe", "object"}
)
AS_IT_IS = frozenset({"pre", "textarea", "listing", "xmp", "code", "samp"})
BLOCKS = (
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hr li listing main nav ol p pre section summary table tbody textarea tfoot thead tr ul "
    "xmp html"
)
LINES = frozenset(BLOCKS.split())
CELLS = frozenset({"td", "th"})
SPACE = re.compile(r"[ \t\n\r\f]+")
# A tag to its end: a ">" within an attribute's quotes does not end it.
TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')|=)*+)>""")
RAW = {
    name: re.compile(f"</{name}(?=[\\s/>])", re.I)
    for name in ("script", "style", "textarea", "xmp")
}


def is_page(name: str, head: bytes) -> bool:
    begins = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begins.startswith((b"<!doctype html", b"<html")):
        return True
    return name.lower().endswith((".htm", ".html", ".xhtml")) and begins.startswith(b"<")


def html_to_text(page: str) -> str:
    lines = _Lines()
    at = 0
    while (start := page.find("<", at)) >= 0:
        lines.add_data(page[at:start])
        at = _take_markup(page, start, lines)
    lines.add_data(page[at:])
    return lines.joined_text()


def _take_markup(page: str, start: int, lines: _Lines) -> int:
    """Take in what begins with "<" there; returns where it ends."""
    if page.startswith("<!--", start):
        return _position_after(page, "-->", start + 4)
    if page.startswith(("<!", "<?"), start):
        return _position_after(page, ">", start)
    if not (page[start + 1 : start + 3].lstrip("/")[:1].isalpha()):
        lines.add_data("<")
        return start + 1
    tag = TAG.match(page, start)
    # nothing closes it, so nothing closes what is behind it
    if tag is None:
        lines.add_data(page[start:])
        return len(page)
    name = tag[2].lower()
    if tag[1]:
        lines.close_tag(name)
    elif not (tag[3].endswith("/") and name in HIDDEN):
        lines.open_tag(name)
        if name in RAW:
            return _take_raw_element(page, tag.end(), name, lines)
    return tag.end()


def _take_raw_element(page: str, start: int, name: str, lines: _Lines) -> int:
    """Take in the text up to the element's own end, for there are no tags inside; returns where it ends."""
    end = RAW[name].search(page, start)
    lines.add_data(page[start : end.start() if end else len(page)])
    return end.start() if end else len(page)


def _position_after(page: str, mark: str, start: int) -> int:
    at = page.find(mark, start)
    return at + len(mark) if at >= 0 else len(page)


class _Lines:
    """The text so far, and where in the page it is."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        # the element that hides what is in it
        self.hidden = ""
        # of elements of that name
        self.depth = 0
        # depth of elements whose white space counts
        self.kept = 0
        # at the beginning of a line
        self.fresh = True

    def joined_text(self) -> str:
        lines = "".join(self.parts).split("\n")
        return "\n".join(line.rstrip(" \t") for line in lines)

    def open_tag(self, tag: str) -> None:
        if tag == "body":
            # a head that nobody closed
            self.hidden = ""
        if self.hidden or tag in HIDDEN:
            # Only its own kind ends it: what is inside need not be well formed.
            self.depth = self.depth + (tag == self.hidden) if self.hidden else 1
            self.hidden = self.hidden or tag
            return
        if tag == "br":
            self._end_line(always=True)
        elif tag in LINES:
            self._end_line()
        elif tag in CELLS and not self.fresh:
            self._append("\t")
        self.kept += tag in AS_IT_IS

    def close_tag(self, tag: str) -> None:
        if self.hidden:
            self.depth -= tag == self.hidden
            self.hidden = self.hidden if self.depth else ""
            return
        if tag in LINES:
            self._end_line()
        self.kept = max(0, self.kept - (tag in AS_IT_IS))

    def add_data(self, data: str) -> None:
        if self.hidden or not data:
            return
        text = unescape(data)
        if self.kept:
            self._append(text.replace("\r\n", "\n"))
            return
        collapsed = SPACE.sub(" ", text)
        self._append(collapsed.lstrip(" ") if self.fresh else collapsed)

    def _end_line(self, always: bool = False) -> None:
        if always or not self.fresh:
            self._append("\n")

    def _append(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.fresh = text.endswith("\n")


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
    page = is_page(name, raw[:2048])
    text, notes = _decode(raw, page)
    if page:
        if len(raw) > HTML_MOST:
            raise NotText(
                f"a web page of more than {HTML_MOST / 1e6:.0f} MB: save its text instead"
            )
        text = html_to_text(text)
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

# SPDX-License-Identifier: Apache-2.0
"""The text of a saved web page, in the lines that a reader of the page sees; scripts and styles are no text.

The standard library's html.parser takes quadratic time on tags that nobody closed, so the tags are told apart here;
each step ends where it got to, so that the whole is linear. Only text comes out, so nothing in a page can harm.
"""

from __future__ import annotations

import re
from html import unescape

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

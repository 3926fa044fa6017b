"""The text of a saved web page, in the lines that a reader of the page sees; scripts and styles are no text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

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
DEEP = 2000  # open elements that are remembered


def is_page(name: str, head: bytes) -> bool:
    begins = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begins.startswith((b"<!doctype html", b"<html")):
        return True
    return name.lower().endswith((".htm", ".html", ".xhtml")) and begins.startswith(b"<")


def to_text(page: str) -> str:
    parser = _Lines()
    parser.feed(page)
    parser.close()
    return parser.text()


class _Lines(HTMLParser):
    """Raises nothing, whatever it is fed: HTMLParser takes what it does not understand for text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden: list[str] = []
        self.kept = 0  # depth of elements whose white space counts
        self.fresh = True  # at the beginning of a line

    def text(self) -> str:
        lines = "".join(self.parts).split("\n")
        return "\n".join(line.rstrip(" \t") for line in lines)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.hidden or tag in HIDDEN:
            # Only its own kind ends it: what is inside need not be well formed.
            if (not self.hidden or tag == self.hidden[0]) and len(self.hidden) < DEEP:
                self.hidden.append(tag)
            if tag == "body":
                self.hidden.clear()  # a head that nobody closed
            return
        if tag == "br":
            self._end_line(always=True)
        elif tag in LINES:
            self._end_line()
        elif tag in CELLS and not self.fresh:
            self._add("\t")
        self.kept += tag in AS_IT_IS

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in HIDDEN:
            self.handle_starttag(tag, attrs)
            self.kept -= tag in AS_IT_IS and not self.hidden

    def handle_endtag(self, tag: str) -> None:
        if self.hidden:
            if tag == self.hidden[-1]:
                self.hidden.pop()
            return
        if tag in LINES:
            self._end_line()
        self.kept = max(0, self.kept - (tag in AS_IT_IS))

    def handle_data(self, data: str) -> None:
        if self.hidden:
            return
        if self.kept:
            self._add(data.replace("\r\n", "\n"))
            return
        shown = SPACE.sub(" ", data)
        self._add(shown.lstrip(" ") if self.fresh else shown)

    def _end_line(self, always: bool = False) -> None:
        if always or not self.fresh:
            self._add("\n")

    def _add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.fresh = text.endswith("\n")

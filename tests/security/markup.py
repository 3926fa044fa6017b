"""Is what a page shows of somebody's words still words? As a browser's parser sees it."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.security.hostile import MARK

ADDRESSES = ("href", "src", "action", "formaction", "hx-get", "hx-post")
OURS = ("application/json",)  # data for our own scripts; a browser does not run it


class Page(HTMLParser):
    """`wrong`: markup that is made of hostile words."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.shown = 0  # how often the words came as text or inside an attribute's value
        self._data = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._data = tag == "script" and dict(attrs).get("type") in OURS
        if tag == "script" and not self._data and not dict(attrs).get("src"):
            self.wrong.append(f"inline script {attrs}")
        if MARK in tag:
            self.wrong.append(f"tag {tag[:80]}")
        for name, value in attrs:
            self._attribute(tag, name, value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def _attribute(self, tag: str, name: str, value: str) -> None:
        if MARK in name or name.startswith("on"):
            self.wrong.append(f"attribute {name[:80]} of {tag}")
        scheme = name in ADDRESSES and ":" in value.split("/")[0]
        if scheme and not value.startswith(("http:", "https:", "data:image/", "mailto:")):
            self.wrong.append(f"{name} of {tag}: {value[:80]}")
        self.shown += MARK in value

    def handle_data(self, data: str) -> None:
        self.shown += MARK in data

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            self.wrong.append("comment")

    def handle_decl(self, decl: str) -> None:
        if MARK in decl:
            self.wrong.append("declaration")

# SPDX-License-Identifier: Apache-2.0
"""A report's page as Markdown: the same words in the same order, its charts as pictures beside it. Pure.

It is converted from the report's HTML file, so that the two always agree. What people wrote stays text: no mark of
theirs becomes a heading, a link or HTML.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import quote, unquote

VOID = {"br", "meta", "link", "img", "input", "hr", "wbr", "col", "source"}
INLINE = {"a", "abbr", "b", "br", "code", "em", "i", "small", "span", "strong", "sub", "sup", "wbr"}
LEFT_OUT = {"button", "form", "head", "noscript", "script", "select", "style", "svg", "template"}
# classes
UNSEEN = {"no-print", "chart-tools"}
HEADS = {f"h{n}": "#" * n for n in range(1, 7)}
SPACES = re.compile(r"\s+")
# What may begin a mark of CommonMark or of GitHub's dialect; < and & are told as entities.
MARKS = re.compile(r"([\\`*_{}\[\]#|~$])")
FIRST = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])", re.M)
# in code, which a table would end at all the same
PIPE = re.compile(r"(?<!\\)\|")
LINKED = re.compile(r"https?://", re.I)
CSV = "data:text/csv;base64,"


@dataclass(slots=True)
class Node:
    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    parts: list[Node | str] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def all(self, *tags: str) -> Iterator[Node]:
        for part in self.parts:
            if isinstance(part, Node):
                if part.tag in tags:
                    yield part
                yield from part.all(*tags)


@dataclass(frozen=True, slots=True)
class MarkdownText:
    """`files`: those that were in the page itself, by name."""

    text: str
    files: dict[str, bytes]


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].parts.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        at = next((n for n in range(len(self._open) - 1, 0, -1) if self._open[n].tag == tag), 0)
        if at:
            del self._open[at:]

    def handle_data(self, data: str) -> None:
        self._open[-1].parts.append(data)


def parse_html(html: str) -> Node:
    reader = _Tree()
    reader.feed(html)
    reader.close()
    return reader.root


def convert_page(html: str, pictures: Mapping[str, str], csv: str) -> MarkdownText:
    """`pictures`: what stands for each chart, by its DOM id, as Markdown. `csv`: name of attached numbers."""
    return _Writer(pictures, csv).write_page(parse_html(html))


class _Writer:
    def __init__(self, pictures: Mapping[str, str], csv: str) -> None:
        self._pictures, self._csv = pictures, csv
        self._files: dict[str, bytes] = {}
        self._blocks: dict[str, Callable[[Node], list[str]]] = {
            "table": self._table_block,
            "ul": self._list_block,
            "ol": self._list_block,
            "dl": self._definition_block,
            "details": self._details,
            "pre": self._commands,
        }

    def write_page(self, root: Node) -> MarkdownText:
        body = next(root.all("body"), root)
        return MarkdownText("\n\n".join(self._children(body)) + "\n", self._files)

    def _children(self, node: Node) -> list[str]:
        """Convert the element's blocks; text between them becomes a paragraph."""
        blocks: list[str] = []
        loose: list[Node | str] = []

        def end_paragraph() -> None:
            if words := self._paragraph(loose):
                blocks.append(words)
            loose.clear()

        for part in node.parts:
            if isinstance(part, str) or part.tag in INLINE:
                loose.append(part)
                continue
            end_paragraph()
            blocks += self._block(part)
        end_paragraph()
        return blocks

    def _block(self, node: Node) -> list[str]:
        if node.tag in LEFT_OUT or node.classes & UNSEEN:
            return []
        if node.tag in HEADS:
            words = self._paragraph(node.parts)
            return [f"{HEADS[node.tag]} {words}"] if words else []
        if "chart" in node.classes:
            picture = self._pictures.get(node.attributes.get("id", ""))
            return [picture] if picture else []
        return self._blocks.get(node.tag, self._children)(node)

    def _list_block(self, node: Node) -> list[str]:
        rows = []
        for number, item in enumerate(_children_of(node, "li"), 1):
            mark = f"{number}." if node.tag == "ol" else "-"
            rows.append(_indented(mark, self._children(item)))
        if not rows:
            return []
        label = node.attributes.get("aria-label")
        return [*([f"*{escape_markdown(label)}:*"] if label else []), "\n".join(rows)]

    def _definition_block(self, node: Node) -> list[str]:
        rows: list[str] = []
        name = ""
        for part in node.parts:
            if isinstance(part, str):
                continue
            words = self._paragraph(part.parts)
            if part.tag == "dt":
                name = words
            else:
                rows.append(f"- **{name}**: {words}")
        return ["\n".join(rows)] if rows else []

    def _details(self, node: Node) -> list[str]:
        summary = next(iter(_children_of(node, "summary")), None)
        rest = Node("", {}, [part for part in node.parts if part is not summary])
        blocks = self._children(rest)
        head = self._paragraph(summary.parts) if summary and blocks else ""
        return [*([f"**{head}**"] if head else []), *blocks]

    def _commands(self, node: Node) -> list[str]:
        text = "".join(_texts(node)).strip("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return [f"{fence}\n{text}\n{fence}"] if text else []

    def _table_block(self, node: Node) -> list[str]:
        """Write the caption and the rows, those of the head first."""
        rows = [
            [self._cell_text(cell) for cell in _children_of(row, "th", "td")]
            for row in node.all("tr")
            if not row.classes & UNSEEN
        ]
        if not rows:
            return []
        wide = max(map(len, rows))
        lines = ["| " + " | ".join([*row, *[""] * (wide - len(row))]) + " |" for row in rows]
        first = next(node.all("tr"))
        right = ["num" in cell.classes for cell in _children_of(first, "th", "td")]
        right += [False] * (wide - len(right))
        lines.insert(
            1, "|" + "|".join(" ---: " if is_right else " --- " for is_right in right) + "|"
        )
        caption = next(iter(_children_of(node, "caption")), None)
        head = [f"*{words}*"] if caption and (words := self._paragraph(caption.parts)) else []
        return [*head, "\n".join(lines)]

    def _cell_text(self, cell: Node) -> str:
        words = " ".join(" ".join(self._children(cell)).split())
        return PIPE.sub(r"\\|", words)

    def _paragraph(self, parts: Iterable[Node | str]) -> str:
        """Write one paragraph, escaping lines that would begin a block mark."""
        lines = "".join(map(self._inline, parts)).split("\0")
        escaped = [_escape_line_start(SPACES.sub(" ", line).strip()) for line in lines]
        return "\\\n".join(line for line in escaped if line)

    def _inline(self, part: Node | str) -> str:
        if isinstance(part, str):
            return escape_markdown(part)
        if (
            part.tag in LEFT_OUT
            or part.classes & UNSEEN
            or part.attributes.get("aria-hidden") == "true"
        ):
            return ""
        if part.tag == "br":
            return "\0"
        if part.tag == "code":
            return _code_span("".join(_texts(part)))
        words = "".join(map(self._inline, part.parts))
        if part.tag == "a":
            return self._link(part.attributes.get("href", ""), words)
        if part.tag in ("strong", "b") and words.strip():
            return _around("**", words)
        return words if part.tag in INLINE else f" {words} "

    def _link(self, address: str, words: str) -> str:
        if address.startswith(CSV):
            self._files[self._csv] = base64.b64decode(unquote(address[len(CSV) :]))
            address = self._csv
        elif not LINKED.match(address):
            # to a part of the page
            return words
        return f"[{words.strip()}]({quote(address, safe=':/?#@!$&*+,;=%~')})"


def escape_markdown(text: str) -> str:
    """Escape text so that it stays text wherever in a line it stands."""
    plain = text.replace("\0", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKS.sub(r"\\\1", plain)


def _escape_line_start(line: str) -> str:
    return FIRST.sub(lambda match: f"{match[1]}{_masked(match[2])}", line)


def _masked(mark: str) -> str:
    return mark[:-1] + "\\" + mark[-1]


def _code_span(text: str) -> str:
    words = SPACES.sub(" ", text.replace("\0", " ")).strip()
    if not words:
        return ""
    fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    space = " " if words[0] == "`" or words[-1] == "`" else ""
    return f"{fence}{space}{words}{space}{fence}"


def _around(mark: str, words: str) -> str:
    """Put a mark around the words, not around the spaces beside them."""
    bare = words.strip()
    before, _, after = words.partition(bare)
    return f"{before}{mark}{bare}{mark}{after}"


def _indented(mark: str, blocks: list[str]) -> str:
    pad = " " * (len(mark) + 1)
    text = "\n\n".join(blocks)
    return f"{mark} " + text.replace("\n", f"\n{pad}").replace(f"\n{pad}\n", "\n\n")


def _children_of(node: Node, *tags: str) -> list[Node]:
    """Return its own parts of these kinds, without those nested in them."""
    return [part for part in node.parts if isinstance(part, Node) and part.tag in tags]


def _texts(node: Node) -> Iterator[str]:
    for part in node.parts:
        if isinstance(part, str):
            yield part
        else:
            yield from _texts(part)

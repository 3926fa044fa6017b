# SPDX-License-Identifier: Apache-2.0
"""A document of docs/ as HTML: raw HTML in it is text, and what its paragraphs are about can be linked to. Pure.

Ids: of a heading; of what a paragraph's bold words, or the code that a list's item begins with, name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

# Nobody's own text is rendered: documents come with the program. html=False all the same.
PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")


class Document(NamedTuple):
    title: str
    html: SafeString
    anchors: frozenset[str]


def render_document(text: str, served: Callable[[str], str]) -> Document:
    """`served`: the address of a file as it is written, "method.md" or "../static/a.png"; "": it has none, the link
    goes.
    """
    tokens = PARSER.parse(text)
    anchors: set[str] = set()
    _add_anchors(tokens, anchors)
    for token in _inline_tokens(tokens):
        _resolve_link(token, served)
    title = next(
        (tokens[at + 1].content for at, token in enumerate(tokens) if token.type == HEAD), ""
    )
    html = _make_scrollable(PARSER.renderer.render(tokens, PARSER.options, {}))
    return Document(title, mark_safe(html), frozenset(anchors))  # noqa: S308


def _make_scrollable(html: str) -> str:
    """HTML in which tables and code scroll by themselves, also by keys. In text there is no such tag: it is escaped."""
    frame = '<div class="wide" tabindex="0" role="group" aria-label="Table"><table>'
    html = html.replace("<table>", frame).replace("</table>", "</table></div>")
    return html.replace("<pre>", '<pre tabindex="0">')


HEAD = "heading_open"


def _add_anchors(tokens: Sequence[Token], anchors: set[str]) -> None:
    for at, token in enumerate(tokens):
        if token.type == HEAD:
            _add_anchor(token, tokens[at + 1].content, anchors)
        if token.type != "inline":
            continue
        children = token.children or []
        for place, child in enumerate(children):
            if child.type == "strong_open":
                _add_anchor(child, _bold_text(children[place:]), anchors)
        in_item = at > 1 and tokens[at - 2].type == "list_item_open"
        if in_item and children and children[0].type == "code_inline":
            _add_anchor(children[0], children[0].content, anchors)


def _bold_text(children: Sequence[Token]) -> str:
    end = next(at for at, token in enumerate(children) if token.type == "strong_close")
    return "".join(token.content for token in children[:end])


def _add_anchor(token: Token, words: str, anchors: set[str]) -> None:
    """The first that is called so has the id."""
    slug = slugify(words)
    if slug and slug not in anchors:
        anchors.add(slug)
        token.attrSet("id", slug)


def _inline_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield from token.children or ()


def _resolve_link(token: Token, served: Callable[[str], str]) -> None:
    """Links and pictures to where they are served."""
    name = {"link_open": "href", "image": "src"}.get(token.type)
    if name is None:
        return
    link = urlsplit(str(token.attrGet(name) or ""))
    if link.scheme or not link.path:
        return
    if address := served(link.path):
        token.attrSet(name, f"{address}#{link.fragment}" if link.fragment else address)
    else:
        del token.attrs[name]

# SPDX-License-Identifier: Apache-2.0
"""Documents of docs/ as pages: what each term, finding and verdict means, where it is read.

Raw HTML in a document is text, and what its paragraphs are about can be linked to. Ids: of a heading; of what a
paragraph's bold words, or the code that a list's item begins with, name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import path, reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET
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


FOLDER = settings.BASE_DIR / "docs"
STATIC, PICTURES = "../static/", "look/"


@cache
def document_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.md")))


@cache
def picture_names() -> frozenset[str]:
    return frozenset(path.name for path in (FOLDER / PICTURES).glob("*.webp"))


@cache
def load_document(name: str) -> Document:
    """Load one of `document_names`."""
    return render_document((FOLDER / f"{name}.md").read_text(encoding="utf-8"), _served_address)


def _served_address(path: str) -> str:
    """The address of a file that a document names: of another one, a picture of the program's, or one of the pages'."""
    if path.startswith(STATIC):
        # each by itself: its name has its hash
        return static(path.removeprefix(STATIC))
    if path.removesuffix(".md") in document_names():
        return reverse("document", args=[path.removesuffix(".md")])
    if path.removeprefix(PICTURES) in picture_names():
        return reverse("document-picture", args=[path.removeprefix(PICTURES)])
    return ""


@require_GET
def document_page(request: HttpRequest, name: str) -> HttpResponse:
    """404 for a document that there is not."""
    if name not in document_names():
        raise Http404("No such document.")
    others = [(other, load_document(other).title) for other in document_names()]
    return render(
        request,
        "documents/page.html",
        {"document": load_document(name), "name": name, "all": others},
    )


@require_GET
@cache_control(private=True, max_age=3600)
def document_picture(request: HttpRequest, name: str) -> HttpResponse:
    """One of `picture_names`; 404 for others."""
    if name not in picture_names():
        raise Http404("No such picture.")
    return HttpResponse((FOLDER / PICTURES / name).read_bytes(), content_type="image/webp")


urlpatterns = [
    path("docs/<slug:name>/", document_page, name="document"),
    path("docs/pictures/<str:name>", document_picture, name="document-picture"),
]

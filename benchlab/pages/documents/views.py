# SPDX-License-Identifier: Apache-2.0
"""docs/*.md as pages: what each term, finding and verdict means, where it is read."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET

from benchlab.pages.documents.rendering import Document, render_document

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

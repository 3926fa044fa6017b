"""docs/*.md as pages: what each term, finding and verdict means, where it is read."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.pages.documents.rendering import Document, document

FOLDER = settings.BASE_DIR / "docs"


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.md")))


@cache
def of(name: str) -> Document:
    """One of `names`."""
    served = {f"{one}.md": reverse("document", args=[one]) for one in names()}
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return document(text, served | {"../static/": static("")})


@require_GET
def page(request: HttpRequest, name: str) -> HttpResponse:
    """404 for a document that there is not."""
    if name not in names():
        raise Http404("No such document.")
    others = [(one, of(one).title) for one in names()]
    return render(
        request, "documents/page.html", {"document": of(name), "name": name, "all": others}
    )

"""Common part of every page under /s/: the link is looked up anew each time, and nothing of it is kept anywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchlab.runs.outputs import RawRemoved
from benchlab.sharing import links

Shown = Callable[..., HttpResponseBase]


def guest_page(view: Shown) -> Shown:
    """`view(request, link, …)`; Http404 from it is told as a link that is over, without saying of what."""

    @wraps(view)
    def answer(request: HttpRequest, token: str, **rest: Any) -> HttpResponseBase:
        try:
            return sealed(_answered(view, request, token, rest))
        except BadRequest as error:
            return sealed(HttpResponse(f"{error}\n", status=400, content_type="text/plain"))

    return login_not_required(require_safe(answer))


def _answered(
    view: Shown, request: HttpRequest, token: str, rest: dict[str, Any]
) -> HttpResponseBase:
    share = links.still_open(token)
    try:
        if share is not None:
            return view(request, links.opened(share, token), **rest)
    except Http404:
        pass
    except RawRemoved as error:
        return HttpResponse(f"{error}\n", status=410, content_type="text/plain")
    return render(request, "sharing/gone.html", status=404)


def sealed(answer: HttpResponseBase) -> HttpResponseBase:
    """The address is the key: no cache, no search engine and no other site may learn it."""
    answer["Cache-Control"] = "no-store"
    answer["Referrer-Policy"] = "no-referrer"
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return answer


def framed(answer: HttpResponse) -> HttpResponse:
    """Anybody's page may show this one inside; that is said here and nowhere else."""
    answer.xframe_options_exempt = True
    answer._csp_replace = {"frame-ancestors": ["*"], "form-action": ["'none'"]}  # type: ignore[attr-defined]
    return answer

"""The server's own failures: no connection to be had answers 503 and when to try again, anything else 500.

The API answers in its one error shape (RFC 9457), pages with a page that asks nobody: the database may be what failed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from django.core.exceptions import BadRequest
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.utils.log import log_response
from psycopg_pool import PoolTimeout

RETRY_S = 5
PAGES = ("/api/docs/", "/api/token/")  # for people, though the API's addresses begin so
SAYS = {
    500: ("Internal Server Error", "BenchLab itself failed. See the server's log."),
    503: (
        "Service Unavailable",
        f"The server has no free database connection. Try again in {RETRY_S} seconds.",
    ),
}


def failed(request: HttpRequest) -> HttpResponse:
    """Django's handler500: called while the exception is being handled."""
    error = sys.exc_info()[1]
    status = 503 if without_database(error) else 500
    if _of_the_api(request):
        title, detail = SAYS[status]
        said = {"title": title, "status": status, "detail": detail}
        answer: HttpResponse = JsonResponse(
            said, status=status, content_type="application/problem+json"
        )
    else:
        again = request.get_full_path() if request.method in ("GET", "HEAD") else ""
        answer = _page(request, status, again=again, retry_s=RETRY_S)
    if status == 503:
        answer["Retry-After"] = str(RETRY_S)
        # A full house, not a bug: one line, where Django would log an error with a traceback for each visitor.
        why = [str(cause) for cause in _causes(error)][-1]
        log_response(
            "no database connection for %s: %s",
            request.path,
            why,
            response=answer,
            request=request,
            level="warning",
        )
    return answer


def _of_the_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/") and not request.path.startswith(PAGES)


def _page(request: HttpRequest, status: int, **said: object) -> HttpResponse:
    """Made of the request alone: context processors would ask the session, hence the database."""
    said["theme"] = request.COOKIES.get("theme", "")
    return HttpResponse(loader.get_template(f"{status}.html").render(said), status=status)


def not_understood(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400. What a BadRequest of ours names is told; what else Django found suspicious is not."""
    said = str(exception) if isinstance(exception, BadRequest) else ""
    if _of_the_api(request):
        body = {"title": "Bad Request", "status": 400, "detail": said or "Not understood."}
        return JsonResponse(body, status=400, content_type="application/problem+json")
    return _page(request, 400, said=said)


def without_database(error: BaseException | None) -> bool:
    """True when no connection was to be had: all of the pool are taken, or PostgreSQL takes no more, or is away."""
    return any(
        isinstance(one, PoolTimeout)
        or (isinstance(one, OperationalError | InterfaceError) and _never_connected(one))
        for one in _causes(error)
    )


def _never_connected(error: BaseException) -> bool:
    """A connection that was refused has no SQLSTATE, or one of class 53 (too many) or 57P (shutting down)."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return not state or state.startswith(("53", "57P", "08"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

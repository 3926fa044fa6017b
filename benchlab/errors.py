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
from psycopg_pool import PoolTimeout

RETRY_S = 5
SAYS = {
    500: ("Internal Server Error", "BenchLab itself failed. The server's log says how."),
    503: (
        "Service Unavailable",
        f"The server has no connection to its database to spare. Try again in {RETRY_S} seconds.",
    ),
}


def failed(request: HttpRequest) -> HttpResponse:
    """Django's handler500: called while the exception is being handled."""
    status = 503 if without_database(sys.exc_info()[1]) else 500
    title, detail = SAYS[status]
    if request.path.startswith("/api/"):
        said = {"title": title, "status": status, "detail": detail}
        answer: HttpResponse = JsonResponse(
            said, status=status, content_type="application/problem+json"
        )
    else:
        answer = HttpResponse(loader.get_template(f"{status}.html").render(), status=status)
    if status == 503:
        answer["Retry-After"] = str(RETRY_S)
    return answer


def not_understood(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400. What a BadRequest of ours names is told; what else Django found suspicious is not."""
    said = str(exception) if isinstance(exception, BadRequest) else ""
    if request.path.startswith("/api/"):
        body = {"title": "Bad Request", "status": 400, "detail": said or "Not understood."}
        return JsonResponse(body, status=400, content_type="application/problem+json")
    return HttpResponse(loader.get_template("400.html").render({"said": said}), status=400)


def without_database(error: BaseException | None) -> bool:
    """Whether no connection was to be had: all of the pool are taken, or PostgreSQL takes no more, or is away."""
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

# SPDX-License-Identifier: Apache-2.0
"""Errors that are not the author's of a request: a service that is away (503), our own faults (500), conflicts (409).

The API answers in its one error shape (RFC 9457), pages with a page that asks nobody: the database may be what failed.
Forms and serializers check first, but only the database sees what is created between that check and the write. Code
that creates or changes rows need not care: pages (ConflictMiddleware) and the API (benchlab.web.api.problem_response)
call `conflict_message`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from django.apps import apps
from django.core.exceptions import BadRequest, DisallowedHost
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import REASON_BAD_ORIGIN, REASON_NO_CSRF_COOKIE
from django.shortcuts import render
from django.template import loader
from django.utils.deprecation import MiddlewareMixin
from django.utils.log import log_response
from psycopg_pool import PoolTimeout
from redis import exceptions as redis

RETRY_SECONDS = 5
# for people, though the API's addresses begin so
PAGES = ("/api/docs/", "/api/token/")
BROKEN = "BenchLab itself failed. See the server's log."
# What log-ins are counted in: without a count nobody's password may be tried.
NO_BROKER = (
    "The broker (Valkey or Redis) does not answer, so nobody can log in and some pages do not work."
)
# Of a proxy in front (docs/deploying.md); whoever reads them can tell whoever runs it.
WRONG_NAME = (
    "This server does not answer to the name %s. Whoever runs it puts the name that you typed into ALLOWED_HOSTS; a"
    " proxy in front must pass on the Host that the browser sent."
)
OTHER_ORIGIN = "Your browser says that this form is one of %s, but BenchLab takes itself for %s."
NO_TLS = (
    " TLS ends in a proxy in front: whoever runs BenchLab sets BENCHLAB_HTTPS, and the proxy sends"
    " X-Forwarded-Proto: https."
)
OTHER_NAME = (
    " If you typed the first of them, whoever runs BenchLab lets the proxy pass on the Host that the browser sent,"
    " or puts that origin into CSRF_TRUSTED_ORIGINS."
)
NO_COOKIE = "Your browser sent no cookie with this form. Allow cookies here, load the page again and send it again."
NOT_OURS = (
    "This form is too old, or not one of this server's: you may have logged in or out since, perhaps in another tab."
    " Load its page again and send it again."
)
NO_DATABASE = "The server has no free database connection."


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: called while the exception is being handled."""
    error = sys.exc_info()[1]
    missing = _unreachable_service(error)
    status = 503 if missing else 500
    if _is_api_request(request):
        title = "Service Unavailable" if missing else "Internal Server Error"
        detail = f"{missing} Try again in {RETRY_SECONDS} seconds." if missing else BROKEN
        body = {"title": title, "status": status, "detail": detail}
        answer: HttpResponse = JsonResponse(
            body, status=status, content_type="application/problem+json"
        )
    else:
        again = request.get_full_path() if request.method in ("GET", "HEAD") else ""
        answer = _error_page(request, status, again=again, retry_s=RETRY_SECONDS, missing=missing)
    if missing:
        answer["Retry-After"] = str(RETRY_SECONDS)
        # Not a bug: one line, where Django would log an error with a traceback for each visitor.
        why = [str(cause) for cause in _causes(error)][-1]
        log_response(
            "%s for %s: %s",
            "no database connection" if missing == NO_DATABASE else "no broker",
            request.path,
            why,
            response=answer,
            request=request,
            level="warning",
        )
    return answer


def _unreachable_service(error: BaseException | None) -> str:
    """Name the service that the server could not reach; "" if that is not why it failed."""
    if is_database_unavailable(error):
        return NO_DATABASE
    away = (redis.ConnectionError, redis.TimeoutError)
    return NO_BROKER if any(isinstance(cause, away) for cause in _causes(error)) else ""


def _is_api_request(request: HttpRequest) -> bool:
    return request.path.startswith("/api/") and not request.path.startswith(PAGES)


def _error_page(request: HttpRequest, status: int, **context: object) -> HttpResponse:
    """Made of the request alone: context processors would ask the session, hence the database."""
    context["theme"] = request.COOKIES.get("theme", "")
    return HttpResponse(loader.get_template(f"{status}.html").render(context), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400. What a BadRequest of ours names is told; what else Django found suspicious is not."""
    message = str(exception) if isinstance(exception, BadRequest) else ""
    if isinstance(exception, DisallowedHost):
        message = WRONG_NAME % request.META.get("HTTP_HOST", "")[:100]
    if _is_api_request(request):
        body = {"title": "Bad Request", "status": 400, "detail": message or "Not understood."}
        return JsonResponse(body, status=400, content_type="application/problem+json")
    return _error_page(request, 400, said=message)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW. Behind a proxy it is mostly the proxy that says another origin than the browser."""
    message = NOT_OURS
    if reason == REASON_NO_CSRF_COOKIE:
        message = NO_COOKIE
    elif reason.startswith(REASON_BAD_ORIGIN.partition("%")[0]):
        theirs = request.META.get("HTTP_ORIGIN", "")[:100]
        ours = f"{request.scheme}://{request.get_host()}"
        message = OTHER_ORIGIN % (theirs, ours)
        if theirs == f"https://{request.get_host()}":
            message += NO_TLS
        elif theirs != "null":
            message += OTHER_NAME
    answer = _error_page(request, 403, exception=message)
    log_response(
        "Forbidden (%s): %s",
        reason,
        request.path,
        response=answer,
        request=request,
        level="warning",
    )
    return answer


def is_database_unavailable(error: BaseException | None) -> bool:
    """True when no connection was to be had: all of the pool are taken, or PostgreSQL takes no more, or is away."""
    return any(
        isinstance(cause, PoolTimeout)
        or (isinstance(cause, OperationalError | InterfaceError) and _is_connection_refused(cause))
        for cause in _causes(error)
    )


def _is_connection_refused(error: BaseException) -> bool:
    """A connection that was refused has no SQLSTATE, or one of class 53 (too many) or 57P (shutting down)."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return not state or state.startswith(("53", "57P", "08"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


UNIQUE, REFERENCE = "23505", "23503"
# serialization failure, deadlock: the other one was let through
AGAIN = ("40001", "40P01")
KEY = re.compile(r"^Key \((?P<columns>.+?)\)=")
# whose it is, everybody knows
OWNERS = ("team_id", "user_id", "by_id")


class ConflictMiddleware(MiddlewareMixin):
    """Answers conflicts on pages. It is the innermost middleware, so that the audit log sees the response."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        message = conflict_message(error)
        return render(request, "409.html", {"message": message}, status=409) if message else None


def conflict_message(error: Exception) -> str:
    """Return the message for the slower of two people; "" for an error that is no conflict."""
    diagnosis = getattr(error.__cause__, "diag", None)
    state = getattr(diagnosis, "sqlstate", None)
    if isinstance(error, IntegrityError) and state == UNIQUE:
        return _duplicate_message(diagnosis)
    if isinstance(error, IntegrityError) and state == REFERENCE:
        return "Something that it refers to was removed at the same moment, or something refers to it now."
    if isinstance(error, OperationalError) and state in AGAIN:
        return "Another request changed the same things at the same moment. Nothing was done: try again."
    # Django's own, of save(update_fields=...): there is no other sign of it.
    if type(error) is DatabaseError and "did not affect any rows" in str(error):
        return "It was removed at the same moment."
    return ""


def _duplicate_message(diagnosis: object) -> str:
    table = getattr(diagnosis, "table_name", "")
    noun = next(
        (m._meta.verbose_name for m in apps.get_models() if m._meta.db_table == table), "row"
    )
    match = KEY.match(getattr(diagnosis, "message_detail", None) or "")
    columns = re.findall(r"\w+", match["columns"]) if match else []
    same = [column.removesuffix("_id") for column in columns if column not in OWNERS]
    with_same = f" with the same {' and '.join(same)}" if same else ""
    return f"There is a {noun}{with_same} already: another request made it at the same moment."

# SPDX-License-Identifier: Apache-2.0
"""HTTP responses with a table: the format, the parts, and whether 304 Not Modified is enough."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header
from rest_framework.exceptions import Throttled
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from benchlab.results.query_language import QueryError
from benchlab.results.reading import gather_parts
from benchlab.results.streaming import Busy, ThreadedStream
from benchlab.team import current_roles
from benchlab.web.texts import csv_cell

# bytes
PART_BYTES = 256 << 10
Make = Callable[[], Iterator[bytes]]


class TableRenderer(BaseRenderer):
    """Only names a format: the view writes the bytes itself."""

    ending = ""


class Csv(TableRenderer):
    media_type, format, ending = "text/csv", "csv", "csv"


class Parquet(TableRenderer):
    media_type, format, ending = "application/vnd.apache.parquet", "parquet", "parquet"


class Arrow(TableRenderer):
    media_type, format, ending = "application/vnd.apache.arrow.stream", "arrow", "arrows"


class Json(TableRenderer):
    media_type, format, ending = "application/json", "json", "json"


FORMATS = (Csv, Parquet, Arrow, Json)


class FormatNegotiation(DefaultContentNegotiation):
    """`format` decides, whatever Accept asks for; without it Accept does, and */* gets CSV."""

    def select_renderer(self, request: Request, renderers, format_suffix=None):  # type: ignore[no-untyped-def]
        wanted_format = request.query_params.get("format")
        if wanted_format is None:
            return super().select_renderer(request, renderers, format_suffix)
        for renderer in renderers:
            if renderer.format == wanted_format:
                return renderer, renderer.media_type
        formats = ", ".join(renderer.format for renderer in renderers)
        raise UnknownFormat(
            {"format": f"No such format as {wanted_format[:20]!r}; there are {formats}."}
        )


class UnknownFormat(QueryError):
    """Raised by the view once it has authenticated the client."""


def csv_header(names: Sequence[str]) -> bytes:
    """CSV's first line; a metric of a malicious tool may be called as a formula."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([csv_cell(name) for name in names])
    return buffer.getvalue().encode()


def table_response(request: HttpRequest, make: Make, kind: str, name: str) -> HttpResponseBase:
    """Respond with what `make()` yields: a short table whole, with an ETag; a long one in parts, as they are made."""
    try:
        response = _body_response(request, make, kind)
    except Busy:
        raise Throttled(
            wait=5, detail="Too many exports are under way; ask again in a moment."
        ) from None
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    # the next request's table may be another
    response["Accept-Ranges"] = "none"
    response["Cache-Control"] = "private, no-cache"
    return response


def _body_response(request: HttpRequest, make: Make, kind: str) -> HttpResponseBase:
    if isinstance(request, ASGIRequest):
        team = min(current_roles.user_roles(request.user).viewer, default=None)
        pump = ThreadedStream(lambda: _response_parts(make()), request.user.pk, team)
        if pump.single_part is None:
            return StreamingHttpResponse(pump, content_type=kind)
        return _short_response(request, pump.single_part, kind)
    parts = _response_parts(make())
    first, second = next(parts, b""), next(parts, None)
    if second is None:
        return _short_response(request, first, kind)
    return StreamingHttpResponse(chain((first, second), parts), content_type=kind)


def _short_response(request: HttpRequest, content: bytes, kind: str) -> HttpResponseBase:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    response = HttpResponse(content, content_type=kind, headers={"ETag": etag})
    return get_conditional_response(request, etag, response=response) or response


def _response_parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    return gather_parts(parts, PART_BYTES)

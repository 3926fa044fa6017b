# SPDX-License-Identifier: Apache-2.0
"""Pages and answers are compressed: the grid of five hundred runs is 2.6 MB of text that shrinks to a tenth."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

TEXTS = ("text/", "application/json", "application/problem+json", "image/svg+xml")


class CompressionMiddleware(GZipMiddleware):
    """Django's own, for texts that are whole. It must come after what serves static files: those are compressed once.

    What is streamed is left as it is: an event must leave at once, and an export must see that its asker hung up.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if response.streaming or not response.get("Content-Type", "").startswith(TEXTS):
            return response
        return super().process_response(request, response)

# SPDX-License-Identifier: Apache-2.0
"""Cache-Control: no shared cache keeps what one person saw, and no "back" shows it after log-out."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_cache_control
from django.utils.deprecation import MiddlewareMixin


class PrivateCacheMiddleware(MiddlewareMixin):
    """An answer that says nothing is stored nowhere; one that may be kept, to be asked about again, by its reader only.

    Static files do not come here: they are answered before, and may be kept by everybody.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        policy = response.get("Cache-Control", "")
        if not policy:
            patch_cache_control(response, private=True, no_store=True)
        elif "no-store" not in policy:
            patch_cache_control(response, private=True)
        return response

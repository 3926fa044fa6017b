# SPDX-License-Identifier: Apache-2.0
"""Files handed out are never a page of ours: each may be what a host printed or what somebody uploaded."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"


class AttachmentSandboxMiddleware(MiddlewareMixin):
    """It must come after the CSP middleware in the list: a policy that is there already is kept by that."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if response.get("Content-Disposition", "").startswith("attachment"):
            response["Content-Security-Policy"] = POLICY
            response["X-Content-Type-Options"] = "nosniff"
        return response

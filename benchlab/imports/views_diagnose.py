# SPDX-License-Identifier: Apache-2.0
"""The page /diagnose/: paste a text, read what it means. Nothing is stored unless a person saves it as an import.

Guests may use it where the lab lets them (BENCHLAB_OPEN_DIAGNOSIS).
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from benchlab.diagnosis.answer_json import AnswerJson
from benchlab.imports import diagnose_text
from benchlab.web import throttling
from benchlab.web.errors import RETRY_SECONDS

# what a form adds to its text
FORM_BYTES = 64 * 1024
# JSON has two bytes for the end of a line, and six for a letter of two: "\\u0436"
JSON_GROWTH = 3
# seconds, by the status of the refusal
RETRY_AFTER = {429: throttling.MINUTE_SECONDS, 503: RETRY_SECONDS}
TOO_OFTEN = "You sent too many texts within a minute. Try again in a minute."


@dataclass(frozen=True, slots=True)
class PastedText:
    """The text of a form, or its file. `name`: "" of a text."""

    name: str
    raw: bytes


def is_open_to(request: HttpRequest) -> bool:
    """True for whoever has an account, and for guests where the lab lets them."""
    return bool(request.user.is_authenticated or settings.BENCHLAB_OPEN_DIAGNOSIS)


def is_too_large(request: HttpRequest) -> bool:
    """True if the body is longer than any text that is taken. Nothing of it is read."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    growth = JSON_GROWTH if request.content_type == "application/json" else 1
    return length.isdigit() and int(length) > growth * diagnose_text.MAX_BYTES + FORM_BYTES


# only until the length is checked; _diagnose_page is protected
@csrf_exempt
@login_not_required
@require_http_methods(["GET", "POST"])
def diagnose_page(request: HttpRequest) -> HttpResponse:
    if not is_open_to(request):
        return render(request, "diagnosis/closed.html", status=401)
    if is_too_large(request):
        return _render_page(request, error=diagnose_text.TOO_LARGE, status=413)
    try:
        request.POST  # noqa: B018  # read here, so that a limit is a sentence and not a bare 400
    except (RequestDataTooBig, TooManyFilesSent, TooManyFieldsSent):
        return _render_page(request, error=diagnose_text.TOO_LARGE, status=413)
    return _diagnose_page(request)


@csrf_protect
def _diagnose_page(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _render_page(request)
    pasted = _pasted_text(request)
    if not pasted.raw.strip():
        return _render_page(request, pasted, error="Paste something, or choose a file.")
    if not throttling.allow_diagnosis(request):
        return _render_page(request, pasted, error=TOO_OFTEN, status=429)
    try:
        answer = diagnose_text.diagnose_confined(pasted.name, pasted.raw)
    except diagnose_text.Busy as error:
        return _render_page(request, pasted, error=str(error), status=503)
    except diagnose_text.Undiagnosed as error:
        return _render_page(request, pasted, error=str(error))
    return _render_page(request, pasted, answer=answer)


def _pasted_text(request: HttpRequest) -> PastedText:
    upload = request.FILES.get("files")
    if upload is not None:
        return PastedText(upload.name or "", upload.read(diagnose_text.MAX_BYTES + 1))
    return PastedText("", request.POST.get("text", "").encode("utf-8", "surrogatepass"))


def _render_page(
    request: HttpRequest,
    pasted: PastedText | None = None,
    *,
    answer: AnswerJson | None = None,
    error: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "answer": answer,
        "error": error,
        "text": pasted.raw.decode(errors="replace") if pasted else "",
    }
    htmx = request.htmx  # type: ignore[attr-defined]
    # htmx swaps nothing in for an answer that is an error.
    part, code = ("#diagnose-answer", 200) if htmx else ("", status)
    response = render(request, "diagnosis/diagnose.html" + part, context, status=code)
    if status in RETRY_AFTER:
        response["Retry-After"] = str(RETRY_AFTER[status])
    return response

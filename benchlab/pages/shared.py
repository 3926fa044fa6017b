# SPDX-License-Identifier: Apache-2.0
"""Shared by pages: actions that may be refused, and the phrase that a person types before disks are erased.

A mistyped phrase is kept for the field that asks for it again: in the session, because a link must not fill it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypedDict, TypeVar

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.campaigns.models import Campaign, Run
from benchlab.engine.commands import CommandError
from benchlab.hosts.models import HostsError
from benchlab.runs.models import Layout
from benchlab.runs.transitions import Moved
from benchlab.topologies import plan_view

P = ParamSpec("P")
Row = TypeVar("Row", Campaign, Run, Layout)
SESSION_KEY = "agreeing"
# characters that are kept
MAX_TYPED_LENGTH = 200
get_or_post = require_http_methods(["GET", "POST"])


@contextmanager
def refusals_shown(request: HttpRequest) -> Iterator[None]:
    """Show on the next page why something was refused, and mark the request as refused."""
    try:
        yield
    except Moved:
        request_notes.mark_refused(request, "Its state has changed in the meantime; check again.")
    except ValidationError as error:
        request_notes.mark_refused(request, " ".join(error.messages))
    except (CommandError, HostsError) as error:
        request_notes.mark_refused(request, str(error))


def refused_leads_to(
    page: str, *names: str
) -> Callable[
    [Callable[Concatenate[HttpRequest, P], HttpResponse]],
    Callable[Concatenate[HttpRequest, P], HttpResponse],
]:
    """Decorate a view whose action may be refused: it then redirects to this page, with these of its own arguments."""

    def decorate(
        view: Callable[Concatenate[HttpRequest, P], HttpResponse],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            with refusals_shown(request):
                return view(request, *args, **kwargs)
            return redirect(page, *(kwargs[name] for name in names))

        return guarded

    return decorate


def action_on(
    model: type[Row],
) -> Callable[[Callable[[HttpRequest, Row], str]], Callable[[HttpRequest, int], HttpResponse]]:
    """Decorate an action on a row of the person's teams: a POST that shows the returned message, if any, and goes back
    to the campaign."""

    def decorate(
        act: Callable[[HttpRequest, Row], str],
    ) -> Callable[[HttpRequest, int], HttpResponse]:
        @require_POST
        @wraps(act)
        def view(request: HttpRequest, pk: int) -> HttpResponse:
            row = get_object_or_404(model.objects.for_user(request.user), pk=pk)
            with refusals_shown(request):
                if message := act(request, row):
                    messages.success(request, message)
            return redirect("campaign-detail", getattr(row, "campaign_id", row.pk))

        return view

    return decorate


class MistypedPhrase(TypedDict):
    """`error`: what is to be put right, in words."""

    phrase: str
    typed: str
    error: str


def is_confirmed(request: HttpRequest, phrase: str) -> bool:
    """True when the form's `typed` is the phrase, or none is wanted. If not, the page that is shown next says why."""
    typed = request.POST.get("typed", "")
    if not phrase or plan_view.is_agreed(typed, phrase):
        return True
    request_notes.mark_refused(request)
    request.session[SESSION_KEY] = MistypedPhrase(
        phrase=phrase,
        typed=typed[:MAX_TYPED_LENGTH],
        error=plan_view.agreement_error(typed, phrase),
    )
    return False


def pop_mistyped(request: HttpRequest, phrase: str) -> MistypedPhrase | None:
    """Fault in what was typed, once: of that phrase, and no other."""
    mistyped: MistypedPhrase | None = request.session.get(SESSION_KEY)
    if mistyped is None or mistyped["phrase"] != phrase:
        return None
    del request.session[SESSION_KEY]
    return mistyped

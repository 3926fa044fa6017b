# SPDX-License-Identifier: Apache-2.0
"""Automatic audit entries: every page and API call that changes something, logins, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.account.adapter import get_adapter
from allauth.account.signals import password_reset
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponseBase
from django.urls import ResolverMatch
from django.utils.deprecation import MiddlewareMixin

from benchlab.audit import request_notes, subjects
from benchlab.audit.chain import add_entry
from benchlab.team.log_filter import without_links

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
REFUSED_STATUSES = (401, 403, 404, 409)
# Told by signals, also with the name that was tried, and of whom a link to a new password was.
RECORDED_BY_SIGNAL = {"login", "logout", "account_reset_password_from_key"}
# The password first; then what was asked is done
REAUTHENTICATION = {
    "account_reauthenticate",
    "mfa_reauthenticate",
}


class AuditMiddleware(MiddlewareMixin):
    """Record requests. It must come after the authentication middleware."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """Note the subject before the action: it may be gone afterwards."""
        if request.method not in SAFE_METHODS:
            request_notes.note_subject(
                request, *subjects.address_subject(request.resolver_match, view, kwargs)
            )

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        match = _intended_page(request)
        if request.method in SAFE_METHODS or match is None or match.url_name in RECORDED_BY_SIGNAL:
            return response
        if response.has_header("Idempotency-Replayed"):
            # A replay does nothing: the first request was recorded already.
            return response
        status = response.status_code
        if (status < 400 or status in REFUSED_STATUSES) and _is_recorded(request, match, response):
            _record_request(request, match, response)
        return response


def _intended_page(request: HttpRequest) -> ResolverMatch | None:
    """Page asked for before the password was: allauth makes the request that one once it has the password."""
    match = request.resolver_match
    if match is not None and match.url_name in REAUTHENTICATION:
        return subjects.resolve_page(request.path) or match
    return match


def _is_recorded(request: HttpRequest, match: ResolverMatch, response: HttpResponseBase) -> bool:
    """True if the request is recorded: not a stranger's, as the log only grows, nor a form that came back.

    A page's form comes back when it was wrong, when it only asked what something would do or cost, and when the
    password is asked for first.
    """
    if not request.user.is_authenticated:
        return False
    if hasattr(match.func, "cls") or response.status_code >= 400:
        return True
    if response.status_code == 200:
        return request_notes.is_done(request)
    target = subjects.redirect_page(response)
    return target is None or target.url_name not in REAUTHENTICATION


def _has_succeeded(request: HttpRequest, match: ResolverMatch, response: HttpResponseBase) -> bool:
    """True if the action succeeded. A page that refuses redirects as well, and records that.

    A redirect may also lead to the set-up of a second factor.
    """
    if response.status_code >= 400 or request_notes.is_refused(request):
        return False
    target = subjects.redirect_page(response)
    to_set_up = target is not None and target.url_name == "mfa_index"
    return not to_set_up or str(match.url_name).startswith("mfa_")


def _record_request(request: HttpRequest, match: ResolverMatch, response: HttpResponseBase) -> None:
    user, view = request.user, getattr(match.func, "cls", None)
    succeeded = _has_succeeded(request, match, response)
    team, subject = request_notes.noted_subject(request)
    if not subject and succeeded:
        team, subject = subjects.created_subject(user, match, response)
    # REST framework leaves the token there
    token = getattr(request, "auth", None)
    details = {"path": without_links(request.path), "status": response.status_code}
    add_entry(
        _action(match, view, request.method or ""),
        actor_id=user.pk,
        actor=user.get_username(),
        via=f"token {token}" if token else "api" if view else "page",
        address=_client_address(request),
        team_id=team,
        subject=subject,
        outcome="done" if succeeded else "refused",
        details=details,
    )


def _action(match: ResolverMatch, view: Any, method: str) -> str:
    """Name of the action: "host.mark_spare" of the API, the URL's name of a page."""
    actions = getattr(match.func, "actions", None)
    if view is None or not actions:
        return str(match.url_name or match.route)
    noun = getattr(view, "noun", view.queryset.model._meta.model_name)
    return f"{noun}.{actions.get(method.lower(), method.lower())}"


def _client_address(request: HttpRequest | None) -> str:
    """Client's address, as the limits on log-ins determine it: behind our proxies, the one that they report."""
    if request is None:
        return ""
    try:
        return str(get_adapter().get_client_ip(request))
    except (PermissionDenied, ImproperlyConfigured):
        # The action is recorded all the same.
        return str(request.META.get("REMOTE_ADDR", ""))


@receiver(user_logged_in)
def _logged_in(sender: Any, request: HttpRequest, user: AbstractBaseUser, **rest: Any) -> None:
    _record_login("login", request, user.pk, user.get_username())


@receiver(user_logged_out)
def _logged_out(
    sender: Any, request: HttpRequest, user: AbstractBaseUser | None, **rest: Any
) -> None:
    if user is not None:
        _record_login("logout", request, user.pk, user.get_username())


@receiver(user_login_failed)
def _not_logged_in(
    sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **rest: Any
) -> None:
    tried = str(credentials.get("username") or credentials.get("email") or "")
    _record_login("login", request, None, tried, outcome="refused")


@receiver(password_reset)
def _password_set(sender: Any, request: HttpRequest, user: AbstractBaseUser, **rest: Any) -> None:
    """Record that whoever had the reset link set a new password."""
    _record_login("account_reset_password_from_key", request, user.pk, user.get_username())


def _record_login(
    action: str, request: HttpRequest | None, pk: int | None, name: str, outcome: str = "done"
) -> None:
    add_entry(
        action,
        actor_id=pk,
        actor=name,
        via="page",
        address=_client_address(request),
        outcome=outcome,
    )

# SPDX-License-Identifier: Apache-2.0
"""Limits on wrong passwords of one account from everywhere, which strangers cannot use to lock its person out.

A browser in which somebody logged in to an account has a signed cookie for that account (OWASP: device cookies). Its
wrong passwords are counted by themselves, so those of strangers, or of a neighbour behind the same address, do not
count against it. The account's limit is for all others: many addresses share it.
"""

from __future__ import annotations

import secrets
from typing import Any

from allauth.core.internal import ratelimit
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponseBase
from django.utils.crypto import salted_hmac

SALT = "benchlab.team.login_limits"
COOKIE_SECONDS = 365 * 24 * 3600
APP = "benchlab.team"
ACCOUNT, DEVICE = "login_account", "login_device"


def cookie_name(login: str) -> str:
    """Name of an account's cookie: people who share a browser have one each. It does not tell the account's name."""
    return f"device-{salted_hmac(SALT, login.lower()).hexdigest()[:16]}"


def device(request: HttpRequest, login: str) -> str:
    """Identifier of a browser in which somebody logged in to that account; "" for any other browser."""
    try:
        known = signing.loads(
            request.COOKIES.get(cookie_name(login), ""), salt=SALT, max_age=COOKIE_SECONDS
        )
    except signing.BadSignature:
        return ""
    return str(known["device"]) if known["login"] == login.lower() else ""


def remember_device(request: HttpRequest, response: HttpResponseBase, login: str) -> None:
    """Set the cookie, keeping the browser's identifier: logging in again does not clear its count."""
    known = device(request, login) or secrets.token_urlsafe(16)
    response.set_cookie(
        cookie_name(login),
        signing.dumps({"login": login.lower(), "device": known}, salt=SALT),
        max_age=COOKIE_SECONDS,
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def count_device(request: HttpRequest, identifier: str) -> Any:
    """Count a try of such a browser. Returns None when it has had its share, else what takes the count back."""
    return _count(request, DEVICE, settings.LOGIN_FAILURES_PER_DEVICE, identifier)


def count_stranger(request: HttpRequest, login: str) -> Any:
    """Count a try of any other browser. Returns None when those had their share, else what takes the count back.

    Where a session of the account is open, its address is no stranger's.
    """
    if UserSession.objects.filter(
        user__username__iexact=login, ip=client_address(request)
    ).exists():
        return ratelimit.RateLimitUsage(usage=[])
    return _count(request, ACCOUNT, settings.LOGIN_FAILURES_PER_ACCOUNT, login.lower())


def forgive_account(request: HttpRequest, login: str) -> None:
    """Begin to count anew: the account has a new password."""
    config = {ACCOUNT: settings.LOGIN_FAILURES_PER_ACCOUNT}
    ratelimit.clear(request, app=APP, action=ACCOUNT, config=config, key=login.lower())


def client_address(request: HttpRequest) -> str:
    """The client's address, as sessions store it."""
    from allauth.account.adapter import get_adapter

    return str(get_adapter().get_client_ip(request))


def _count(request: HttpRequest, action: str, rate: str, key: str) -> Any:
    return ratelimit.consume(request, app=APP, action=action, config={action: rate}, key=key)

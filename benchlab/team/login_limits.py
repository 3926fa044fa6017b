# SPDX-License-Identifier: Apache-2.0
"""Limits on wrong passwords of one account from everywhere, which strangers cannot use to lock its person out.

A browser in which somebody logged in to an account has a signed cookie for that account (OWASP: device cookies). Its
wrong passwords are counted by themselves, so those of strangers, or of a neighbour behind the same address, do not
count against it. The account's limit is for all others: many addresses share it.

A limit counts from its first attempt until its period ends, in Django's cache.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from dataclasses import dataclass

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.core import signing
from django.core.cache import cache
from django.http import HttpRequest, HttpResponseBase
from django.utils.crypto import salted_hmac

SALT = "benchlab.team.login_limits"
COOKIE_SECONDS = 365 * 24 * 3600
ACCOUNT, DEVICE, ADDRESS = "login_account", "login_device", "login_address"
ACCOUNT_AND_ADDRESS = "login_account_address"
# Whoever has one address of an IPv6 network usually has all of them.
IPV6_PREFIX_BITS = 64


@dataclass(frozen=True, slots=True)
class Attempt:
    """A counted attempt to log in."""

    cache_key: str

    def forgive(self) -> None:
        """Take the count back: the password was right."""
        try:
            count = cache.decr(self.cache_key)
        except ValueError:
            # The period has ended.
            return
        if count < 0:
            # It ended between Django's two commands, and Redis made a counter that would never end.
            cache.delete(self.cache_key)


def cookie_name(login: str) -> str:
    """Name of an account's cookie: people who share a browser have one each. It does not reveal the account's name."""
    return f"device-{salted_hmac(SALT, login.lower()).hexdigest()[:16]}"


def known_device(request: HttpRequest, login: str) -> str:
    """Identifier of a browser in which somebody logged in to that account; "" for any other browser."""
    try:
        cookie = signing.loads(
            request.COOKIES.get(cookie_name(login), ""), salt=SALT, max_age=COOKIE_SECONDS
        )
    except signing.BadSignature:
        return ""
    return str(cookie["device"]) if cookie["login"] == login.lower() else ""


def remember_device(request: HttpRequest, response: HttpResponseBase, login: str) -> None:
    """Set the cookie, keeping the browser's identifier: logging in again does not clear its count."""
    identifier = known_device(request, login) or secrets.token_urlsafe(16)
    response.set_cookie(
        cookie_name(login),
        signing.dumps({"login": login.lower(), "device": identifier}, salt=SALT),
        max_age=COOKIE_SECONDS,
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def count_device(identifier: str) -> Attempt | None:
    """Count an attempt of such a browser. Returns None when it had as many as it may have."""
    return _consume_try(DEVICE, identifier, *settings.LOGIN_FAILURES_PER_DEVICE)


def count_address(request: HttpRequest) -> Attempt | None:
    """Count an attempt on any account from this address. Returns None when there were too many."""
    address = client_network(request)
    return _consume_try(ADDRESS, address, *settings.LOGIN_FAILURES_PER_ADDRESS)


def count_account_and_address(request: HttpRequest, login: str) -> Attempt | None:
    """Count an attempt on the account from this address. Returns None when there were too many.

    Counting by account and address together, nobody else can shut a person out of their account.
    """
    key = f"{login.lower()}:{client_network(request)}"
    return _consume_try(ACCOUNT_AND_ADDRESS, key, *settings.LOGIN_FAILURES_PER_ACCOUNT_AND_ADDRESS)


def count_stranger(login: str) -> Attempt | None:
    """Count an attempt on the account from any other browser. Returns None when there were too many."""
    return _consume_try(ACCOUNT, login.lower(), *settings.LOGIN_FAILURES_PER_ACCOUNT)


def has_session(request: HttpRequest, login: str) -> bool:
    """True if a session of the account is open at this address, which is then no stranger's."""
    address = client_address(request)
    return bool(UserSession.objects.filter(user__username__iexact=login, ip=address).exists())


def forgive_account(login: str) -> None:
    """Restart the count of an account that has a new password."""
    cache.delete(_cache_key(ACCOUNT, login.lower()))


def client_address(request: HttpRequest) -> str:
    """The client's address, as sessions store it."""
    from allauth.account.adapter import get_adapter

    return str(get_adapter().get_client_ip(request))


def client_network(request: HttpRequest) -> str:
    """The client's IPv4 address as it is, and the network of an IPv6 address."""
    address = client_address(request)
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    network = ipaddress.ip_network(f"{address}/{IPV6_PREFIX_BITS}", strict=False)
    return str(network.network_address)


def _consume_try(limit: str, key: str, attempts: int, seconds: int) -> Attempt | None:
    cache_key = _cache_key(limit, key)
    cache.add(cache_key, 0, timeout=seconds)
    try:
        count = cache.incr(cache_key)
    except ValueError:
        # The period ended between the two steps, so this attempt begins the next one.
        cache.set(cache_key, 1, timeout=seconds)
        return Attempt(cache_key)
    if count == 1:
        # If the period ended between Django's two commands, Redis made a counter that would never end.
        cache.touch(cache_key, seconds)
    attempt = Attempt(cache_key)
    if count > attempts:
        attempt.forgive()
        return None
    return attempt


def _cache_key(limit: str, key: str) -> str:
    return f"{limit}:{hashlib.sha256(key.encode()).hexdigest()}"

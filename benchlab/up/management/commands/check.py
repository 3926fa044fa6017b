# SPDX-License-Identifier: Apache-2.0
"""`manage.py check`: Django's own checks, and then every setting is tried for real.

That a value can be read is decided when the settings load (benchlab/env.py). Here each one is used as BenchLab will
use it: the database is asked for its version, the mail server is spoken to, Chromium makes a page. With options or
labels it is Django's command and nothing more.
"""

from __future__ import annotations

import smtplib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import redis
from allauth.socialaccount.adapter import get_adapter
from django.conf import settings
from django.core.mail import get_connection
from django.core.management.base import CommandError
from django.core.management.commands import check
from django.db import DatabaseError, connection

from benchlab import compatibility, env, terminal
from benchlab.dynamo import listening
from benchlab.hosts import registration
from benchlab.sharing import chromium
from benchlab.up import database as own_stores
from benchlab.up.ports import kept_port
from benchlab.up.state import state_from_environment

PATIENCE_S = 5
SAYS_OIDC = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")


class Wrong(Exception):
    """It does not work; the text says why, and what to do."""


class Off(Exception):
    """Nobody asked for it; the text says what BenchLab does without."""


class Command(terminal.Command, check.Command):
    any_database = True
    help = "Check the project, and try every setting for real: database, broker, keys, mail, single sign-on, ..."

    def handle(self, *labels: Any, **options: Any) -> None:
        super().handle(*labels, **options)
        # What Django's check takes: it was asked for a part, or for a list.
        if labels or any(options[name] for name in ("tags", "list_tags", "deploy", "databases")):
            return
        if wrong := [name for name, trial in TRIALS if not self._works(name, trial)]:
            raise CommandError(f"{len(wrong)} of {len(TRIALS)} do not work: {', '.join(wrong)}")

    def _works(self, name: str, trial: Callable[[], str]) -> bool:
        try:
            self.stdout.write(f"ok     {name}: {trial()}")
        except Off as off:
            self.stdout.write(f"off    {name}: {off}")
        except Wrong as wrong:
            self.stdout.write(f"WRONG  {name}: {wrong}", self.style.ERROR)
            return False
        return True


def database() -> str:
    """Its version. It takes what BenchLab stores: text in UTF-8, and tables."""
    parameters = {**connection.get_connection_params(), "connect_timeout": PATIENCE_S}
    try:
        with psycopg.connect(**parameters) as own:
            row = own.execute(
                "SELECT current_setting('server_version'), current_setting('server_version_num')::int,"
                " current_setting('server_encoding'), pg_is_in_recovery(),"
                " coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), current_user"
            ).fetchone()
    except psycopg.Error as error:
        raise Wrong(f"no connection: {str(error).strip()}") from None
    assert row is not None
    version, number, encoding, standby, may_create, user = row
    if refused := compatibility.of_server(number):
        raise Wrong(refused)
    if encoding != "UTF8":
        raise Wrong(f"its encoding is {encoding}: create the database with ENCODING 'UTF8'")
    if standby:
        raise Wrong("it is a standby, which takes no writes: name the primary")
    if not may_create:
        raise Wrong(f"user {user} may not create tables in it: make that user its owner")
    if refused := compatibility.unfit():
        raise Wrong(refused)
    tried = f", newer than {compatibility.NEWEST}, with which BenchLab was tried"
    return f"PostgreSQL {version}{tried if number // 10_000 > compatibility.NEWEST else ''}"


def broker() -> str:
    """Its version. It must not throw away what waits in it."""
    state = state_from_environment()
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S
        ) as client:
            client.ping()
            info: Any = client.info()
    except (redis.RedisError, ValueError) as error:
        if own_stores.redis_url(state, kept_port(state, "valkey")) == settings.REDIS_URL:
            raise Off("not given, so `up` starts its own Valkey") from None
        raise Wrong(f"no answer: {error}") from None
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory") and policy != "noeviction":
        raise Wrong(
            f"maxmemory-policy is {policy}: it would drop work that waits; set it to noeviction"
        )
    name, version = info.get("server_name", "redis"), info.get("valkey_version")
    return f"{name} {version or info.get('redis_version')}"


def keys() -> str:
    """Number of keys; they open what is stored."""
    try:
        wrong = registration.unreadable_credentials()
    except DatabaseError:
        raise Off("nothing is stored yet") from None
    if wrong:
        raise Wrong(f"no key opens the SSH keys {', '.join(wrong)}: put the old key behind the new")
    return f"{len(settings.BENCHLAB_KEYS)} in use"


def mail() -> str:
    """Its server, which takes us; nothing is sent."""
    if not settings.SENDS_MAIL:
        raise Off("not set, so links are shown to hand over")
    where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    server = get_connection(timeout=PATIENCE_S)
    try:
        server.open()
        server.close()
    except (OSError, smtplib.SMTPException) as error:
        raise Wrong(f"{where}: {error}") from None
    return where


def single_sign_on() -> str:
    """The provider, whose metadata are there, and its own."""
    issuer = env.text("BENCHLAB_OIDC_URL").rstrip("/")
    if not issuer:
        raise Off("not set, so people log in with a password")
    place = f"{issuer}/.well-known/openid-configuration"
    try:
        with get_adapter().get_requests_session() as session:
            answer = session.get(place, timeout=PATIENCE_S)
            answer.raise_for_status()
            configuration = answer.json()
    # Errors of requests are OSErrors, those of JSON ValueErrors
    except (OSError, ValueError) as error:
        raise Wrong(f"{place}: {error}") from None
    missing = [
        name
        for name in SAYS_OIDC
        if not isinstance(configuration, dict) or not configuration.get(name)
    ]
    if missing:
        raise Wrong(f"{place}: it has no {', '.join(missing)}")
    if configuration["issuer"].rstrip("/") != issuer:
        raise Wrong(f"{place} says that its issuer is {configuration['issuer']!r}: set that one")
    return issuer


def proxy() -> str:
    """Headers that it must send; the settings that go with it agree."""
    proxies, tls = settings.ALLAUTH_TRUSTED_PROXY_COUNT, settings.SECURE_SSL_REDIRECT
    if not proxies and not tls:
        raise Off("not set, so people reach BenchLab without a proxy and without TLS")
    if not proxies:
        raise Wrong(
            "TLS ends in a proxy, but BENCHLAB_PROXIES is 0: everybody would have the proxy's address in the audit log"
            " and in the limits on log-ins; leave it out, or set it to the number of proxies"
        )
    if tls and set(settings.ALLOWED_HOSTS) <= {"localhost", "127.0.0.1", "[::1]"}:
        raise Wrong("ALLOWED_HOSTS has only this machine's own names: add the one that people type")
    if tls and (
        plain := [origin for origin in settings.CSRF_TRUSTED_ORIGINS if origin.startswith("http:")]
    ):
        raise Wrong(
            f"CSRF_TRUSTED_ORIGINS: no form comes from {plain[0]}, for pages are had by TLS"
        )
    headers = "Host, X-Forwarded-For" + (", X-Forwarded-Proto" if tls else "")
    return f"{proxies} in front, sending {headers} (docs/deploying.md)"


def directories() -> str:
    """Places that BenchLab writes to; each was written to."""
    head = settings.BENCHLAB_AUDIT_HEAD
    state = env.text("BENCHLAB_STATE")
    paths = {
        "temporary files": Path(tempfile.gettempdir()),
        **({"BENCHLAB_STATE": Path(state)} if state else {}),
        **({"BENCHLAB_AUDIT_HEAD": Path(head).absolute().parent} if head else {}),
    }
    for name, place in paths.items():
        try:
            tempfile.TemporaryFile(dir=place).close()
        except OSError as error:
            raise Wrong(f"{name}: {place}: {error.strerror}") from None
    return ", ".join(sorted({str(place) for place in paths.values()}))


def static() -> str:
    """Their directory; they were collected."""
    place = settings.BENCHLAB_STATIC
    if not place:
        raise Off("not set, so they are served from where they lie")
    if not (Path(place) / "staticfiles.json").is_file():
        raise Wrong(f"{place} has no static files: run prepare --static, which collects them")
    return str(place)


def browser() -> str:
    """Its path; it makes a page of PDF."""
    if not settings.CHROMIUM:
        raise Off("there is none, so reports cannot become PDF")
    try:
        with chromium.open_page(b"<p>A page</p>") as page:
            page.pdf("")
    except chromium.ChromiumError as trouble:
        raise Wrong(f"{settings.CHROMIUM}: {trouble}") from None
    return str(settings.CHROMIUM)


def dynamo() -> str:
    """Address and team; they can be used, and so can the list."""
    listen = settings.BENCHLAB_DYNAMO_LISTEN
    if not listen:
        raise Off("not set, so no dynamo logs in by itself")
    try:
        listening.parse_listen_address(listen)
        listening.parse_networks(settings.BENCHLAB_DYNAMO_ALLOW)
        team = listening.find_team(settings.BENCHLAB_DYNAMO_TEAM)
    except listening.SettingsError as error:
        raise Wrong(str(error)) from None
    except DatabaseError:
        return f"{listen}, for a team that is not made yet"
    return f"{listen}, for team {team}"


TRIALS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("DATABASE_URL", database),
    ("REDIS_URL", broker),
    ("BENCHLAB_KEY", keys),
    ("BENCHLAB_MAIL_URL", mail),
    ("BENCHLAB_OIDC_URL", single_sign_on),
    ("BENCHLAB_PROXIES", proxy),
    ("directories", directories),
    ("BENCHLAB_STATIC", static),
    ("BENCHLAB_CHROMIUM", browser),
    ("BENCHLAB_DYNAMO_LISTEN", dynamo),
)

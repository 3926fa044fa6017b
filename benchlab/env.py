# SPDX-License-Identifier: Apache-2.0
"""Settings from the environment, typed. NAME_FILE names a file that holds NAME (Docker and systemd secrets).

A value that cannot be right is refused when the settings load: each function raises ImproperlyConfigured with the name,
the value unless it is a secret, and what is expected. Whether a right value works is tried by `manage.py check`.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

from agents.ssh import reach

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# Everything that BenchLab and its Compose file read; a test compares. Others with this prefix are refused.
NAMES = frozenset(
    f"BENCHLAB_{name}"
    for names in (
        "API_EXPORTS API_PER_TOKEN API_PER_USER AUDIT_HEAD BIND BODY_BYTES BODY_SECONDS CACHE CHROMIUM",
        "CHROMIUM_SANDBOX CONNECTIONS CONNECTIONS_PER_ADDRESS DEBUG DYNAMO DYNAMO_ALLOW DYNAMO_BIND DYNAMO_LISTEN",
        "DYNAMO_TEAM FORBID_NETS GRACE_DAYS HEADER_BYTES HEADER_SECONDS HOSTS HTTPS INSTALLATION KEY LOG_LEVEL",
        "LOST_AFTER_S MAIL_FROM MAIL_URL NO_BOOTSTRAP OIDC_CLIENT_ID OIDC_CLIENT_SECRET OIDC_NAME OIDC_URL PG_BIN POOL",
        "LOG_FORMAT METRICS_TOKEN OPEN_DIAGNOSIS DIAGNOSES",
        "POOL_WAIT PORT PROXIES REDIS_BIN RIG STATE STATIC TOKEN URL WITH_CHROMIUM WRITE_SECONDS",
        # Of docker-compose.yml alone
        "CPUS POSTGRES_MEMORY REDIS_MEMORY TLS_CERTIFICATE TLS_KEY WEB_MEMORY WORKER_MEMORY",
    )
    for name in names.split()
)
# What tests tell each other, and what Kubernetes and old links of Docker set for a service that is called benchlab.
NOT_OURS = (
    r"BENCHLAB_(TEST|TESTS|MUTANTS|SHOTS|LOOK)(_|$)|BENCHLAB_(\w+_)?(SERVICE_|PORT_\d|ENV_|NAME$)"
)


def text(name: str, default: str = "") -> str:
    """The variable, or the content of the file that NAME_FILE names; an empty variable is as good as none.

    Raises when that file cannot be read.
    """
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(
                f"{name}_FILE: cannot read {path}: {error.strerror}"
            ) from error
    return os.environ.get(name) or default


def required(name: str, why: str) -> str:
    if value := text(name):
        return value
    raise ImproperlyConfigured(f"{name} is not set: {why} (or name a file in {name}_FILE)")


def flag(name: str, default: bool = False) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in {"1", "0", "true", "false", "yes", "no", "on", "off"}:
        raise ImproperlyConfigured(f"{name}: expected true or false, got {value!r}")
    return value in {"1", "true", "yes", "on"}


def number(name: str, default: int, least: int = 0) -> int:
    """A whole number of at least `least`, and of at most nine digits."""
    value = text(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < least:
        raise ImproperlyConfigured(
            f"{name}: expected a whole number from {least} to 999999999, got {value!r}"
        )
    return int(value)


def level(name: str, default: str) -> str:
    """A level of Python's logging, in its own capitals."""
    value = text(name, default).upper()
    if value not in LEVELS:
        raise ImproperlyConfigured(f"{name}: expected one of {', '.join(LEVELS)}, got {value!r}")
    return value


def one_of(name: str, choices: Sequence[str]) -> str:
    """One of these words; the first is the default."""
    value = text(name, choices[0]).lower()
    if value not in choices:
        raise ImproperlyConfigured(f"{name}: expected {' or '.join(choices)}, got {value!r}")
    return value


def token(name: str, least: int = 24) -> str:
    """A secret that cannot be guessed and that a header can carry; "" for none."""
    value = text(name)
    if value and not re.fullmatch(rf"[\x21-\x7e]{{{least},}}", value):
        raise ImproperlyConfigured(
            f"{name}: expected at least {least} letters, digits or signs without a space; "
            "make one: openssl rand -hex 32"
        )
    return value


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def host_names(name: str, default: str) -> list[str]:
    """Names or addresses that a browser may ask for; no scheme and no port, which Django would never match."""
    names = words(name, default)
    for word in names:
        if not re.fullmatch(r"\*|\[[0-9A-Fa-f:.]+\]|\.?[^\s:/\[\]@*]+", word):
            raise ImproperlyConfigured(
                f"{name}: expected names without scheme and port, such as bench.example.org, got {word!r}"
            )
    return names


def origins(name: str) -> list[str]:
    """Origins as a browser sends them: a scheme, a name and perhaps a port; with more, Django would never match one."""
    values = words(name)
    for word in values:
        if not re.fullmatch(r"https?://(\*\.)?[^\s/*@?#]+", word):
            raise ImproperlyConfigured(
                f"{name}: expected origins without a path, such as https://bench.example.org, got {word!r}"
            )
    return values


def fernet_keys(text: str) -> list[str]:
    """BENCHLAB_KEY's keys, newest first, separated by commas. Their values are in no message."""
    keys = [key.strip() for key in text.split(",")]
    for place, key in enumerate(keys, 1):
        try:
            Fernet(key)
        except ValueError:
            raise ImproperlyConfigured(
                f"BENCHLAB_KEY: key {place} of {len(keys)} is no Fernet key, which has 32 bytes in URL-safe base64 "
                "(44 characters); make one: openssl rand -base64 32 | tr '+/' '-_'"
            ) from None
    return keys


def refuse_unknown(names: Iterable[str] = os.environ) -> None:
    """A name that begins with BENCHLAB_ and that nothing reads is a slip, and what it should set is not set."""
    known_names = {name for variable in NAMES for name in (variable, f"{variable}_FILE")}
    for name in sorted(names):
        if not name.startswith("BENCHLAB_") or name in known_names or re.match(NOT_OURS, name):
            continue
        # A service's address, which Kubernetes sets in NAME_PORT
        if name.endswith("_PORT") and re.match("(tcp|udp|sctp)://", os.environ.get(name, "")):
            continue
        near = difflib.get_close_matches(name, known_names, 1)
        raise ImproperlyConfigured(
            f"{name}: BenchLab has no such setting"
            + (f"; did you mean {near[0]}?" if near else " (docs/operating.md lists them)")
        )


def program(name: str, usual: Sequence[str]) -> str:
    """A program's path: the one that the variable names, or the first of `usual` on PATH; "" for none of them.

    "none" is none. Raises when what is named is not there.
    """
    program_text = text(name).strip()
    if program_text == "none":
        return ""
    program_path = next(
        filter(None, map(shutil.which, [program_text] if program_text else usual)), ""
    )
    if program_text and not program_path:
        raise ImproperlyConfigured(
            f"{name}: there is no program {program_text!r}; name one, or none"
        )
    return program_path


def networks(name: str, default: Sequence[str]) -> tuple[str, ...]:
    """Networks in CIDR form; the variable replaces the default, "none" empties it."""
    if (networks_text := text(name).strip()) == "none":
        return ()
    network_words = tuple(words(name)) if networks_text else tuple(default)
    try:
        reach.networks(network_words)
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name}: {error}; give 10.1.0.0/16,fe80::/10, or none"
        ) from None
    return network_words


def mail(url: str) -> dict[str, object]:
    """Django's EMAIL_ settings for smtp://user:password@host:587 (STARTTLS), smtps://… (TLS) or smtp://host?tls=no.

    "" sends nothing: links are then shown to whoever may hand them over.
    """
    if not url:
        return {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    expected = "smtp://user:password@host:587 or smtps://user:password@host:465"
    parts = _split("BENCHLAB_MAIL_URL", url, ("smtp", "smtps"), expected)
    if not parts.hostname:
        raise ImproperlyConfigured(f"BENCHLAB_MAIL_URL: expected {expected}; it names no server")
    tls = parts.scheme == "smtps"
    plain = parse_qs(parts.query).get("tls") == ["no"]
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if tls else 25 if plain else 587),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": tls,
        "EMAIL_USE_TLS": not tls and not plain,
        "EMAIL_TIMEOUT": 10,
    }


def oidc() -> list[dict[str, object]]:
    """The OpenID Connect provider for allauth's APPS; [] without BENCHLAB_OIDC_URL, its issuer."""
    issuer = text("BENCHLAB_OIDC_URL").rstrip("/")
    if not issuer:
        return []
    if urlsplit(issuer).scheme not in {"http", "https"}:
        raise ImproperlyConfigured(
            f"BENCHLAB_OIDC_URL: expected the issuer, https://…, got {issuer!r}"
        )
    app: dict[str, object] = {
        "provider_id": "oidc",
        "name": text("BENCHLAB_OIDC_NAME", "single sign-on"),
        "client_id": required("BENCHLAB_OIDC_CLIENT_ID", "BENCHLAB_OIDC_URL needs it"),
        "secret": required("BENCHLAB_OIDC_CLIENT_SECRET", "BENCHLAB_OIDC_URL needs it"),
        "settings": {"server_url": issuer, "oauth_pkce_enabled": True},
    }
    return [app]


def origin(url: str) -> str:
    """https://name:port of a URL: what a content security policy takes."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _split(name: str, url: str, schemes: Sequence[str], expected: str) -> SplitResult:
    """A URL's parts; it may hold a password, so no message has more of it than its scheme."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # a bracket that is not closed, or a port that is none
        raise ImproperlyConfigured(f"{name}: expected {expected}: {error}") from None
    if parts.scheme not in schemes or port == 0:
        got = f"{parts.scheme}://…" if "://" in url else "no URL"
        raise ImproperlyConfigured(f"{name}: expected {expected}, got {got}")
    return parts


def redis(url: str) -> str:
    """redis://:password@host:port/number, rediss://… or unix:///socket?db=number.

    A password that is not in it is REDIS_PASSWORD, if that is set.
    """
    expected = "redis://host:port/number"
    parts = _split("REDIS_URL", url, ("redis", "rediss", "unix"), expected)
    password = text("REDIS_PASSWORD")
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise ImproperlyConfigured(f"REDIS_URL: expected {expected}; it names no server")
    if parts.scheme != "unix" and not re.fullmatch(r"(/[0-9]*)?", parts.path):
        raise ImproperlyConfigured(
            f"REDIS_URL: expected {expected}; {parts.path[1:]!r} is no database's number"
        )
    if parts.password or not password:
        return url
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(
        netloc=f"{parts.username or ''}:{quote(password, safe='')}@{place}"
    ).geturl()


def broker(url: str) -> str:
    """REDIS_URL in Celery's form, whose syntax for a Unix socket differs."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    number = parse_qs(parts.query).get("db", ["0"])[-1]
    return parts._replace(scheme="redis+socket", query=f"virtual_host={number}").geturl()


def _pool(most: int) -> dict[str, float]:
    """psycopg_pool's settings. Whoever waits too long for a connection gets an error page (benchlab/web/errors.py)."""
    wait_s = float(number("BENCHLAB_POOL_WAIT", 10, 1))
    return {"min_size": 1, "max_size": most, "timeout": wait_s, "max_idle": 60.0}


def database(url: str, pool: int = 0) -> dict[str, object]:
    """Django's DATABASES entry for postgresql://user:password@host:port/name?host=/socket/dir.

    A password that is not in it is POSTGRES_PASSWORD, if that is set. `pool`: at most so many connections, shared by
    all threads of the process; 0: each thread keeps its own.
    """
    expected = "postgresql://user@host:port/name"
    parts = _split("DATABASE_URL", url, ("postgres", "postgresql"), expected)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "benchlab",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or "") or text("POSTGRES_PASSWORD"),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": {**query, **({"pool": _pool(pool)} if pool else {})},
        "CONN_MAX_AGE": 0 if pool else 60,
        "CONN_HEALTH_CHECKS": True,
    }

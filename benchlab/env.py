"""Settings from the environment, typed. NAME_FILE names a file that holds NAME (Docker and systemd secrets)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from agents.ssh import reach


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


def number(name: str, default: int) -> int:
    value = text(name, str(default))
    try:
        return int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}: expected a whole number, got {value!r}") from None


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def program(name: str, usual: Sequence[str]) -> str:
    """A program's path: the one that the variable names, or the first of `usual` on PATH; "" for none of them.

    "none" is none. Raises when what is named is not there.
    """
    given = text(name).strip()
    if given == "none":
        return ""
    found = next(filter(None, map(shutil.which, [given] if given else usual)), "")
    if given and not found:
        raise ImproperlyConfigured(f"{name}: there is no program {given!r}; name one, or none")
    return found


def networks(name: str, default: Sequence[str]) -> tuple[str, ...]:
    """Networks in CIDR form; the variable replaces the default, "none" empties it."""
    if (given := text(name).strip()) == "none":
        return ()
    found = tuple(words(name)) if given else tuple(default)
    try:
        reach.networks(found)
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name}: {error}; give 10.1.0.0/16,fe80::/10, or none"
        ) from None
    return found


def mail(url: str) -> dict[str, object]:
    """Django's EMAIL_ settings for smtp://user:password@host:587 (STARTTLS), smtps://… (TLS) or smtp://host?tls=no.

    "" sends nothing: links are then shown to whoever may hand them over.
    """
    if not url:
        return {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    parts = urlsplit(url)
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise ImproperlyConfigured(
            "BENCHLAB_MAIL_URL: expected smtp://user:password@host:587 or smtps://user:password@host:465"
        )
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
    """The one OpenID Connect provider, as allauth's APPS has it; [] without BENCHLAB_OIDC_URL, its issuer."""
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


def redis(url: str) -> str:
    """redis://:password@host:port/number; a password that is not in it is REDIS_PASSWORD, if that is set."""
    parts, password = urlsplit(url), text("REDIS_PASSWORD")
    if parts.password or not password or not parts.hostname:
        return url
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(
        netloc=f"{parts.username or ''}:{quote(password, safe='')}@{place}"
    ).geturl()


def _pool(most: int) -> dict[str, float]:
    """psycopg_pool's settings: who waits longer than that for a connection is told so (benchlab/web/errors.py)."""
    wait_s = float(number("BENCHLAB_POOL_WAIT", 10))
    return {"min_size": 1, "max_size": most, "timeout": wait_s, "max_idle": 60.0}


def database(url: str, pool: int = 0) -> dict[str, object]:
    """Django's DATABASES entry for postgresql://user:password@host:port/name?host=/socket/dir.

    A password that is not in it is POSTGRES_PASSWORD, if that is set. `pool`: at most so many connections, shared by
    all threads of the process; 0: each thread keeps its own.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(f"DATABASE_URL: expected postgresql://…, got {parts.scheme}://…")
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

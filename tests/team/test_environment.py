"""Settings as an installation's environment gives them; wrong ones are refused by name, and no secret is repeated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from benchlab import env


def env_settings(name: str, **more: str) -> str:
    """A setting's value in a process of its own, with that environment."""
    show = f"from django.conf import settings; print(settings.{name})"
    run = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", show],
        capture_output=True, text=True, env={**os.environ, "BENCHLAB_NO_BOOTSTRAP": "1", **more},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_single_sign_on_comes_from_the_environment():
    said = env_settings(
        "SOCIALACCOUNT_PROVIDERS, settings.CONTENT_SECURITY_POLICY['DIRECTIVES']['form-action']",
        BENCHLAB_OIDC_URL="https://sso.example.org/realms/lab/", BENCHLAB_OIDC_CLIENT_ID="bench",
        BENCHLAB_OIDC_CLIENT_SECRET="s3cret", BENCHLAB_OIDC_NAME="Lab SSO",
    )  # fmt: skip
    assert "https://sso.example.org/realms/lab'" in said and "Lab SSO" in said
    assert said.endswith("'https://sso.example.org']")


def test_mail_comes_from_the_environment():
    made = env.mail("smtp://lab%40example.org:p%2Fw@mail.example.org")
    assert (made["EMAIL_PORT"], made["EMAIL_USE_TLS"], made["EMAIL_USE_SSL"]) == (587, True, False)
    assert (made["EMAIL_HOST_USER"], made["EMAIL_HOST_PASSWORD"]) == ("lab@example.org", "p/w")
    assert env.mail("smtps://mail.example.org")["EMAIL_PORT"] == 465
    assert env.mail("smtp://mail.example.org?tls=no")["EMAIL_USE_TLS"] is False
    with pytest.raises(ImproperlyConfigured, match="BENCHLAB_MAIL_URL"):
        env.mail("mail.example.org")


def test_an_issuer_needs_a_client(monkeypatch):
    monkeypatch.setenv("BENCHLAB_OIDC_URL", "https://sso.example.org")
    with pytest.raises(ImproperlyConfigured, match="BENCHLAB_OIDC_CLIENT_ID"):
        env.oidc()


KEY = 43 * "0" + "="


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (lambda: env.number("N", 5), "-1", "N: expected a whole number from 0"),
        (lambda: env.number("N", 5), "1e3", "got '1e3'"),
        (lambda: env.number("N", 5), "\u0663", "whole number"),
        (lambda: env.number("N", 5), 10 * "9", "999999999"),
        (lambda: env.number("N", 5, 1), "0", "from 1"),
        (lambda: env.level("N", "INFO"), "loud", "N: expected one of DEBUG, INFO"),
        (lambda: env.host_names("N", ""), "https://lab.example.org", "without scheme and port"),
        (lambda: env.host_names("N", ""), "lab.example.org:8000", "without scheme and port"),
        (lambda: env.host_names("N", ""), "a.example.org,b c", "got 'b c'"),
        (lambda: env.fernet_keys(env.text("N")), "s3cret", "key 1 of 1 is no Fernet key"),
        (lambda: env.fernet_keys(env.text("N")), f"{KEY},s3cret", "key 2 of 2"),
        (lambda: env.redis(env.text("N")), "garbage", "REDIS_URL: expected redis://"),
        (lambda: env.redis(env.text("N")), "http://u:s3cret@host/0", "got http://…"),
        (lambda: env.redis(env.text("N")), "redis://:s3cret@host:99999/0", "out of range"),
        (lambda: env.redis(env.text("N")), "redis://host/jobs", "'jobs' is no database's number"),
        (lambda: env.redis(env.text("N")), "redis:///0", "names no server"),
        (lambda: env.database(env.text("N")), "mysql://u:s3cret@host/x", "got mysql://…"),
        (lambda: env.database(env.text("N")), "postgresql://u:s3cret@host:port/x", "DATABASE_URL"),
        (lambda: env.database(env.text("N")), "postgresql://u:s3cret@[::1/x", "DATABASE_URL"),
        (lambda: env.mail(env.text("N")), "smtp://u:s3cret@:25", "names no server"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_by_name(monkeypatch, read, value, said):
    monkeypatch.setenv("N", value)
    with pytest.raises(ImproperlyConfigured) as refused:
        read()
    assert said in str(refused.value) and "s3cret" not in str(refused.value)


def test_what_is_right_is_taken(monkeypatch):
    monkeypatch.setenv("N", "info")
    assert env.level("N", "INFO") == "INFO"
    monkeypatch.setenv("N", "lab.example.org,.example.org,10.0.0.1,[::1],*")
    assert len(env.host_names("N", "")) == 5
    for url in ("redis://h", "redis://:p@h:1/15", "rediss://h/0", "unix:///run/redis.sock?db=1"):
        assert env.redis(url) == url
    assert env.fernet_keys(f" {KEY} ,{KEY}") == [KEY, KEY]
    assert env.database("postgresql:///x?host=/run/pg")["HOST"] == "/run/pg"


def test_a_name_that_nothing_reads_is_refused():
    for name, near in (("BENCHLAB_GRACE_DAY", "BENCHLAB_GRACE_DAYS"), ("BENCHLAB_HTTP", "HTTPS")):
        with pytest.raises(ImproperlyConfigured, match=f"{name}: .* did you mean .*{near}"):
            env.refuse_unknown([name])
    # Kubernetes sets these for a service that is called benchlab.
    env.refuse_unknown(
        [
            "BENCHLAB_SERVICE_HOST",
            "BENCHLAB_PORT_8000_TCP_ADDR",
            "BENCHLAB_WEB_SERVICE_PORT",
            "HOME",
        ]
    )


def test_the_known_names_are_those_that_are_read():
    """In our sources and in what starts the containers; the rest are names inside hosts' scripts and of tests."""
    places = [*Path("benchlab").rglob("*.py"), Path("docker-compose.yml"), Path("Dockerfile")]
    read = {
        name.removesuffix("_FILE")
        for place in places
        for name in re.findall(r"\bBENCHLAB_[A-Z][A-Z_]*[A-Z]\b", place.read_text())
    }
    # Of tests, and of notebooks
    of_people = {"BENCHLAB_DYNAMO", "BENCHLAB_TOKEN", "BENCHLAB_URL"}
    assert env.NAMES - read <= of_people, "nobody reads them"
    # Names of Django's settings, which no environment has
    settings_own = {"BENCHLAB_KEYS", "BENCHLAB_API_RATES", "BENCHLAB_POLL_S"}
    for name in sorted(read - env.NAMES - settings_own):
        of_an_f_string = any(known.startswith(f"{name}_") for known in env.NAMES)
        assert name.endswith("_FILE") or of_an_f_string or re.match(env.NOT_OURS, name), name

"""Settings of accounts, as an installation's environment gives them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from benchlab import env


def env_settings(name: str, *argv: str, **more: str) -> str:
    """A setting's value in a process of its own, with that environment."""
    show = f"from django.conf import settings; print(settings.{name})"
    argv = argv or ("shell", "--no-imports", "-c", show)
    run = subprocess.run(
        [sys.executable, "manage.py", *argv],
        capture_output=True, text=True, env={**os.environ, "BENCHLAB_NO_BOOTSTRAP": "1", **more},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_check_deploy_is_clean_behind_tls():
    env_settings(
        "", "check", "--deploy", "--fail-level", "WARNING",
        BENCHLAB_HTTPS="1", SECRET_KEY="of-a-test-only-0123456789-abcdefghijklmnopqrstuvwxyz", BENCHLAB_DEBUG="0",
    )  # fmt: skip


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

"""As it is deployed: Django's own checks find nothing, cookies and headers are what they must be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOW = """
import json
from django.conf import settings
names = ("SESSION_COOKIE_SECURE CSRF_COOKIE_SECURE SESSION_COOKIE_HTTPONLY CSRF_COOKIE_HTTPONLY SESSION_COOKIE_SAMESITE"
         " CSRF_COOKIE_SAMESITE SECURE_HSTS_SECONDS SECURE_SSL_REDIRECT SECURE_CONTENT_TYPE_NOSNIFF"
         " X_FRAME_OPTIONS DEBUG")
print(json.dumps({name: getattr(settings, name) for name in names.split()}))
"""


def manage(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    key = "k" * 25 + "".join(map(str, range(30)))
    given = {**os.environ, "BENCHLAB_HTTPS": "1", "BENCHLAB_DEBUG": "0", "SECRET_KEY": key,
             "BENCHLAB_NO_BOOTSTRAP": "1", "DJANGO_SETTINGS_MODULE": "benchlab.settings", **env}  # fmt: skip
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=given, capture_output=True, text=True, timeout=300
    )


def test_check_deploy_is_clean():
    done = manage("-m", "django", "check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


def test_cookies_and_transport_under_https():
    import json

    done = manage("-c", SHOW)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "SESSION_COOKIE_SECURE": True, "CSRF_COOKIE_SECURE": True, "SESSION_COOKIE_HTTPONLY": True,
        "CSRF_COOKIE_HTTPONLY": True, "SESSION_COOKIE_SAMESITE": "Lax", "CSRF_COOKIE_SAMESITE": "Lax",
        "SECURE_HSTS_SECONDS": 31536000, "SECURE_SSL_REDIRECT": True, "SECURE_CONTENT_TYPE_NOSNIFF": True,
        "X_FRAME_OPTIONS": "DENY", "DEBUG": False,
    }  # fmt: skip


@pytest.mark.parametrize("address", ["/login/", "/", "/healthz", "/api/hosts/", "/no/such/page/"])
def test_every_answer_carries_the_policy(web, address):
    answer = web.get(address)
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe-eval" not in policy and "unsafe-inline" not in policy.replace(
        "style-src-attr 'unsafe-inline'", ""
    )
    assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"


def test_a_session_ends_with_its_password(user, web):
    """A stolen cookie is worth nothing once the person has set another password."""
    assert web.get("/").status_code == 200
    user.set_password("another-password-1")
    user.save()
    assert web.get("/").status_code == 302

"""`manage.py check` on real parts: what works is told, what does not is named with its reason, what is off says so."""

from __future__ import annotations

import io
import socketserver
import threading
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet
from django.conf import settings as current
from django.core.management import CommandError, call_command
from django.db import connection

from benchlab.hosts.models import Credential
from benchlab.up.management.commands import check
from tests.team.test_single_sign_on import provider

__all__ = ["provider"]
pytestmark = pytest.mark.django_db
NOBODY = 1  # a port where nobody listens


class Mail(socketserver.StreamRequestHandler):
    """The least that a client says hello to."""

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            self.wfile.write(b"221 bye\r\n" if line.lower().startswith(b"quit") else b"250 ok\r\n")


@pytest.fixture
def mail_server():
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def asked(settings, monkeypatch, tmp_path):
    """Off, what this machine may or may not have, and a directory of its own for the rest."""
    settings.CHROMIUM = settings.BENCHLAB_STATIC = settings.BENCHLAB_DYNAMO_LISTEN = ""
    settings.BENCHLAB_AUDIT_HEAD = str(tmp_path / "head.json")
    monkeypatch.setenv("BENCHLAB_STATE", str(tmp_path))
    return settings


def mail_by(settings: Any, port: int) -> None:
    settings.SENDS_MAIL = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", port, False


def test_all_that_is_set_works(asked, mail_server, provider, monkeypatch, team):
    mail_by(asked, mail_server)
    monkeypatch.setenv("BENCHLAB_OIDC_URL", provider.issuer)
    asked.BENCHLAB_DYNAMO_LISTEN, asked.BENCHLAB_DYNAMO_ALLOW = "127.0.0.1:0", ["10.0.0.0/8"]
    said = {}
    for name, trial in check.TRIALS:
        try:
            said[name] = trial()
        except check.Off:
            continue
    assert said.pop("DATABASE_URL").startswith("PostgreSQL 1")
    assert said.keys() == {
        "REDIS_URL", "BENCHLAB_KEY", "BENCHLAB_MAIL_URL", "BENCHLAB_OIDC_URL", "directories", "BENCHLAB_DYNAMO_LISTEN",
    }  # fmt: skip


def test_what_does_not_work_is_named(asked, monkeypatch, tmp_path, team):
    mail_by(asked, NOBODY)
    monkeypatch.setenv("BENCHLAB_OIDC_URL", f"http://127.0.0.1:{NOBODY}/realm")
    asked.REDIS_URL = f"redis://127.0.0.1:{NOBODY}/0"
    asked.BENCHLAB_AUDIT_HEAD = str(tmp_path / "missing" / "head.json")
    asked.BENCHLAB_STATIC = str(tmp_path)
    asked.BENCHLAB_DYNAMO_LISTEN = "nonsense"
    sealed = Fernet(Fernet.generate_key()).encrypt(b"k")
    Credential.objects.create(team=team, name="old", private_key=sealed)
    out = io.StringIO()
    with pytest.raises(CommandError, match="7 of 10 do not work"):
        call_command("check", stdout=out)
    said = out.getvalue()
    for words in (
        "REDIS_URL: no answer", "BENCHLAB_KEY: no key opens the SSH keys old", f"127.0.0.1:{NOBODY}: ",
        "openid-configuration: ", "BENCHLAB_AUDIT_HEAD: ", "run prepare --static", "is not address:port",
    ):  # fmt: skip
        assert words in said, words


def test_a_provider_with_another_issuer_is_named(asked, provider, monkeypatch):
    """allauth would take it, and every log-in fail."""
    monkeypatch.setenv("BENCHLAB_OIDC_URL", provider.issuer.replace("127.0.0.1", "localhost"))
    with pytest.raises(check.Wrong, match=f"its issuer is '{provider.issuer}'"):
        check.single_sign_on()


def test_no_database_is_told_by_postgresql_itself(monkeypatch):
    given = {**connection.get_connection_params(), "dbname": "there-is-none"}
    monkeypatch.setattr(connection, "get_connection_params", lambda: given)
    with pytest.raises(check.Wrong, match="there-is-none"):
        check.database()


def test_a_user_who_may_not_make_tables_is_named(monkeypatch):
    """A role of the real server, made and dropped here."""
    given = connection.get_connection_params()
    plain = {key: value for key, value in given.items() if key != "cursor_factory"}
    with psycopg.connect(**plain, autocommit=True) as own:
        own.execute("CREATE ROLE reader")
        try:
            as_reader = {**given, "options": "-c role=reader"}
            monkeypatch.setattr(connection, "get_connection_params", lambda: as_reader)
            with pytest.raises(check.Wrong, match="user reader may not create tables"):
                check.database()
        finally:
            own.execute("DROP ROLE reader")


@pytest.mark.skipif(not current.CHROMIUM, reason="no Chromium here")
@pytest.mark.slow
def test_chromium_makes_a_page():
    assert check.browser() == current.CHROMIUM


def test_asked_for_a_part_it_is_djangos():
    out = io.StringIO()
    call_command("check", "team", stdout=out)
    assert "DATABASE_URL" not in out.getvalue()

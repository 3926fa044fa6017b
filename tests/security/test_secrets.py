"""Nothing secret in pages, answers, logs, the audit log, error pages or the database in the clear."""

from __future__ import annotations

import base64
import logging
import re

import pytest
from allauth.mfa.models import Authenticator
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from rest_framework.test import APIClient

from agents.contracts import Secret, Step
from benchlab import vault
from benchlab.hosts import registration
from benchlab.hosts.models import Credential
from benchlab.logs import LineFormatter
from benchlab.team import tokens
from benchlab.team.models import Invitation
from benchlab.team.roles import Role
from tests.security.test_pages import NOT_HERE, SEEN, addresses, body_of
from tests.team.test_table import ACTIONS, row_of

PASSWORD = "correct-horse-battery-7319"
TOTP = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture
def secrets(rows, owner, team) -> dict[str, str]:
    """Secrets that must be seen nowhere, by what they are."""
    person = User.objects.get(username="root")
    person.set_password(PASSWORD)
    person.save()
    owner.force_login(person)
    Authenticator.objects.create(
        user=rows.person, type="totp", data={"secret": vault.encrypt(TOTP).decode()}
    )
    made = registration.make_credential(team, "secret one")
    private = vault.decrypt(made.private_key)
    _, token = tokens.create_token(person, "notebook", Role.OWNER)
    found = {
        "private key": private.split("\n")[2],
        "sealed key": bytes(Credential.objects.get(pk=made.pk).private_key)[20:60].decode(),
        "token": token,
        "digest of the token": tokens.key_digest(token),
        "password": PASSWORD,
        "hash of the password": User.objects.get(username="root").password,
        "secret key": django_settings.SECRET_KEY,
        "vault key": django_settings.BENCHLAB_KEYS[0],
        "second factor": TOTP,
        "invitation": Invitation.objects.filter(team=team).first().digest,
        "session": owner.session.session_key,
        "database": str(django_settings.DATABASES["default"]["PASSWORD"]) or "no-password-here",
    }
    return {what: text for what, text in found.items() if text}


def leaks(text: str, secrets: dict[str, str]) -> list[str]:
    coded = {
        what: base64.b64encode(text.encode()).decode().rstrip("=") for what, text in secrets.items()
    }
    return [what for what, secret in secrets.items() if secret in text or coded[what] in text]


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(LineFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def logged():
    """Everything that any logger says, from DEBUG on."""
    handler, root = Kept(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(level)


# What SQL is run is logged only under DEBUG, where nobody runs a lab.
QUIET = ("django.db.backends",)


def test_neither_pages_nor_answers_nor_logs_tell_a_secret(rows, owner, team, secrets, logged):
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.INFO)
    wrong = []
    for name in sorted(set(SEEN) - NOT_HERE - {"account_reauthenticate"}):
        for address in addresses(name, rows):
            answer = owner.get(address)
            body = body_of(answer)
            wrong += [
                f"{address}: {what}" for what in leaks(body.decode("utf-8", "replace"), secrets)
            ]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {secrets['token']}")
    for prefix, action, noun in sorted({(p, a, n) for p, a, m, n in ACTIONS if m == "get"}):
        path = f"/api/{prefix}/"
        if action != "list":
            path += f"{row_of(noun, rows)}/"
            path += "" if action == "retrieve" else f"{action.replace('_', '-')}/"
        answer = client.get(path)
        body = body_of(answer)
        wrong += [f"{path}: {what}" for what in leaks(body.decode("utf-8", "replace"), secrets)]
    wrong += [f"log: {what}" for what in leaks("\n".join(logged), secrets)]
    assert not wrong, "\n".join(wrong)


def test_what_people_type_in_secret_is_in_no_log_and_no_audit_entry(rows, owner, secrets, logged):
    Client().post("/login/", {"username": "root", "password": PASSWORD})
    Client().post("/login/", {"username": "root", "password": PASSWORD + "!"})
    private = vault.decrypt(Credential.objects.get(name="secret one").private_key)
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Token {secrets['token']}")
    api.post("/api/credentials/", {"name": "brought", "private_key": private})
    api.post("/api/credentials/", {"name": "broken", "private_key": private[:-200]})
    assert Credential.objects.filter(name="brought").exists()
    with connection.cursor() as cursor:
        cursor.execute("select string_agg(to_jsonb(t)::text, chr(10)) from audit_entry t")
        (audited,) = cursor.fetchone()
    assert "root" in audited
    assert leaks(audited, secrets) == [] and leaks("\n".join(logged), secrets) == []


def test_a_stolen_dump_of_the_database_opens_nothing(rows, owner, secrets):
    """All its text: no private key, token, password or second factor; digests and seals only."""
    in_the_clear = {what: secrets[what] for what in
                    ("private key", "token", "password", "second factor", "secret key", "vault key")}  # fmt: skip
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'select to_jsonb(t)::text from "{table}" t')
            for (row,) in cursor.fetchall():
                # bytea is written as hex
                raw = b"".join(
                    bytes.fromhex(one) for one in re.findall(r'"\\\\x((?:[0-9a-f]{2})+)"', row)
                )
                assert leaks(row + raw.decode("utf-8", "replace"), in_the_clear) == [], table


def test_a_secret_of_a_command_prints_as_stars():
    step = Step(("tool", Secret("hunter2-hunter2")), "says")
    assert "hunter2" not in f"{step} {step!r} {step.argv}"


SETTINGS_SHOWN = re.compile(
    r"Traceback \(|/site-packages/|settings\.py|DATABASE_URL|SECRET|django\."
)


@pytest.fixture
def broken(monkeypatch):
    """The home page raises, with something secret in the message and in a local variable."""
    from benchlab.pages.campaigns import home

    def breaks(*given, **more):
        password = PASSWORD  # noqa: F841  # a debug page would show it
        raise RuntimeError(f"broke with {PASSWORD}")

    monkeypatch.setattr(home, "render", breaks)


@override_settings(DEBUG=False)
@pytest.mark.parametrize(("address", "status"), [
    ("/no/such/page/", 404), ("/hosts/999999/", 404), ("/", 500), ("/runs/1/?attempt=x", None),
    ("/api/hosts/999999/", 404), ("/api/no/", 404),
])  # fmt: skip
def test_error_pages_reveal_nothing(rows, owner, broken, address, status):
    owner.raise_request_exception = False
    answer = owner.get(address.replace("/runs/1/", f"/runs/{rows.run.pk}/"))
    assert answer.status_code == (status or 400)
    text = answer.content.decode()
    assert not SETTINGS_SHOWN.search(text) and PASSWORD not in text
    assert "Content-Security-Policy" in answer


@override_settings(DEBUG=False)
def test_a_wrong_host_name_and_a_forged_form_reveal_nothing(rows):
    answer = Client(raise_request_exception=False).get("/login/", headers={"host": "evil.example"})
    assert answer.status_code == 400 and not SETTINGS_SHOWN.search(answer.content.decode())
    forged = Client(enforce_csrf_checks=True).post(
        "/login/", {"username": "x", "password": PASSWORD}
    )
    assert forged.status_code == 403
    text = forged.content.decode()
    assert PASSWORD not in text and not re.search("Traceback|site-packages|settings.py", text)

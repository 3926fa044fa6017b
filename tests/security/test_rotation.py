"""A new BENCHLAB_KEY: every secret goes under it, also after a cut, and the old key opens nothing more."""

from __future__ import annotations

import io
import json
import re

import pytest
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet, InvalidToken
from django.core.management import CommandError, call_command
from django.db import connection

from benchlab import vault
from benchlab.hosts import registration
from benchlab.hosts.models import Credential

FERNET = re.compile(rb"gAAAAA[A-Za-z0-9_=-]{40,}")
OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture
def secrets(team, user, settings) -> list[Credential]:
    settings.BENCHLAB_KEYS = [OLD]
    Authenticator.objects.create(
        user=user, type="totp", data={"secret": vault.encrypt("TOTPSECRET").decode()}
    )
    codes = [vault.encrypt(code).decode() for code in ("code-1", "code-2")]
    Authenticator.objects.create(
        user=user, type="recovery_codes",
        data={"seed": vault.encrypt("seed").decode(), "used_mask": 3, "migrated_codes": codes},
    )  # fmt: skip
    return [registration.make_credential(team, name) for name in ("one", "two", "three")]


def everything_sealed() -> list[bytes]:
    """Every Fernet token in the database, wherever it is: a new place that rotation forgets shows here."""
    found: list[bytes] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'select to_jsonb(t)::text from "{table}" t')
            for (row,) in cursor.fetchall():
                found += FERNET.findall(row.encode())
                # bytea comes as hex
                for value in json.loads(row).values():
                    if isinstance(value, str) and value.startswith("\\x"):
                        found += FERNET.findall(bytes.fromhex(value[2:]))
    return found


def rotate() -> str:
    said = io.StringIO()
    call_command("rotate_keys", stdout=said)
    return said.getvalue()


def test_every_secret_moves_to_the_newest_key(secrets, settings):
    private = vault.decrypt(secrets[0].private_key)
    settings.BENCHLAB_KEYS = [NEW, OLD]
    assert "5 secrets renewed" in rotate()
    assert len(everything_sealed()) == 3 + 1 + 3
    new = Fernet(NEW)
    for sealed in everything_sealed():
        new.decrypt(sealed)  # raises when another key is needed
    settings.BENCHLAB_KEYS = [NEW]
    secrets[0].refresh_from_db()
    assert vault.decrypt(secrets[0].private_key) == private
    data = Authenticator.objects.get(type="totp").data
    assert vault.decrypt(data["secret"].encode()) == "TOTPSECRET"
    codes = Authenticator.objects.get(type="recovery_codes").data
    assert codes["used_mask"] == 3
    assert [vault.decrypt(code.encode()) for code in codes["migrated_codes"]] == [
        "code-1",
        "code-2",
    ]


def test_cut_off_in_the_middle_nothing_is_lost_and_the_rest_follows(secrets, settings, monkeypatch):
    settings.BENCHLAB_KEYS = [NEW, OLD]
    real, calls = vault.reencrypt, []

    def dies(sealed):
        calls.append(sealed)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(sealed)

    monkeypatch.setattr(vault, "reencrypt", dies)
    with pytest.raises(KeyboardInterrupt):
        registration.rotate_secrets()
    for credential in Credential.objects.all():
        assert "PRIVATE KEY" in vault.decrypt(credential.private_key)
    monkeypatch.setattr(vault, "reencrypt", real)
    done = registration.rotate_secrets()
    assert (done.renewed, done.already, done.lost) == (4, 1, [])
    again = registration.rotate_secrets()
    assert (again.renewed, again.already) == (0, 5)


def test_what_no_key_opens_is_named_left_alone_and_stops_nothing(secrets, settings):
    strange = Fernet(Fernet.generate_key()).encrypt(b"x")
    Credential.objects.filter(pk=secrets[1].pk).update(private_key=strange)
    settings.BENCHLAB_KEYS = [NEW, OLD]
    with pytest.raises(CommandError, match=rf"credential {secrets[1].pk} \(two\)"):
        rotate()
    assert bytes(Credential.objects.get(pk=secrets[1].pk).private_key) == strange
    Fernet(NEW).decrypt(bytes(Credential.objects.get(pk=secrets[2].pk).private_key))


def test_the_old_key_opens_nothing_afterwards(secrets, settings):
    settings.BENCHLAB_KEYS = [NEW, OLD]
    assert "can be taken away" in rotate()
    for sealed in everything_sealed():
        with pytest.raises(InvalidToken):
            Fernet(OLD).decrypt(sealed)

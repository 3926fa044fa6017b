"""Secrets at rest."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet

from benchlab import vault


def test_what_was_closed_opens_again():
    sealed = vault.encrypt("top secret")
    assert b"top secret" not in sealed
    assert vault.decrypt(sealed) == "top secret"


def test_an_old_key_still_opens_behind_a_new_one(settings):
    sealed = vault.encrypt("kept")
    settings.BENCHLAB_KEYS = [Fernet.generate_key().decode(), *settings.BENCHLAB_KEYS]
    assert vault.decrypt(sealed) == "kept"


def test_a_lost_key_is_said_with_its_cure(settings):
    sealed = vault.encrypt("lost")
    settings.BENCHLAB_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(vault.VaultError, match="Add the old key"):
        vault.decrypt(sealed)

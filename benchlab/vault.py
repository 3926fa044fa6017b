# SPDX-License-Identifier: Apache-2.0
"""Secrets at rest: Fernet with the keys of BENCHLAB_KEY, newest first. Old keys still open what they closed."""

from __future__ import annotations

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class VaultError(Exception):
    """A stored secret cannot be read; the text says what to do."""


def encrypt(text: str) -> bytes:
    return _keys().encrypt(text.encode())


def decrypt(sealed: bytes | memoryview[int]) -> str:
    """The text that `encrypt` closed. Raises VaultError when none of the keys fits."""
    try:
        return _keys().decrypt(bytes(sealed)).decode()
    except InvalidToken:
        raise VaultError(
            "None of the keys in BENCHLAB_KEY opens this secret: it was stored under another key. "
            "Add the old key behind the new one (comma between them), or store the secret again."
        ) from None


def reencrypt(sealed: bytes) -> bytes:
    """The same secret under the newest key; what is under it already comes back as it is. Raises VaultError."""
    try:
        _fernets()[0].decrypt(sealed)
    except InvalidToken:
        return encrypt(decrypt(sealed))
    return sealed


def _keys() -> MultiFernet:
    # Built per call: it is cheap beside an SSH connection, and a changed setting counts at once.
    return MultiFernet(_fernets())


def _fernets() -> list[Fernet]:
    return [Fernet(key) for key in settings.BENCHLAB_KEYS]

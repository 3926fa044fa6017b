"""Secrets at rest: Fernet with the keys of BENCHLAB_KEY, newest first. Old keys still open what they closed."""

from __future__ import annotations

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


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


def _keys() -> MultiFernet:
    # Built per call: it is cheap beside an SSH connection, and a changed setting counts at once.
    try:
        return MultiFernet([Fernet(key.strip()) for key in settings.BENCHLAB_KEYS])
    except ValueError:
        raise ImproperlyConfigured(
            "BENCHLAB_KEY: each key must be 32 bytes in URL-safe base64 (44 characters), "
            "as cryptography's Fernet.generate_key() makes them"
        ) from None

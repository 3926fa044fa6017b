# SPDX-License-Identifier: Apache-2.0
"""Key pairs and fingerprints: text in, text out."""

from __future__ import annotations

from typing import Any

import asyncssh

from agents.contracts import AgentError, Reason


def generate_key_pair(comment: str) -> tuple[str, str]:
    """A new ed25519 pair: private key (OpenSSH PEM) and the line for authorized_keys."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return key.export_private_key().decode(), key.export_public_key().decode().strip()


def check_private_key(text: str) -> str:
    """The public line of a private key. Raises AgentError when it cannot be used here."""
    try:
        key = asyncssh.import_private_key(text)
    except asyncssh.KeyImportError as error:
        if "passphrase" in str(error).lower():
            what = "has a passphrase; upload one without (ssh-keygen -p removes it from a copy)"
        else:
            what = f"cannot be read ({error}); paste a whole OpenSSH or PEM private key"
        raise AgentError(f"the private key {what}", Reason.AUTHENTICATION_FAILED) from None
    return key.export_public_key().decode().strip()


def fingerprint(public_key: str) -> str:
    """ "SHA256:…" of a public key line, as ssh-keygen -l prints it."""
    return public(public_key).get_fingerprint()  # type: ignore[no-any-return]


def public(text: str) -> Any:
    """asyncssh's form of a public key line. Raises AgentError."""
    try:
        return asyncssh.import_public_key(text)
    except asyncssh.KeyImportError as error:
        raise AgentError(f"not a public key: {text[:60]!r} ({error})") from None

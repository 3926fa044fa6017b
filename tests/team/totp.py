"""The code that an authenticator app shows."""

from __future__ import annotations

import time

from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value

PERIOD_S = 30
ENOUGH_S = 5  # to type and send a code before it is no longer taken


def code(secret: str) -> str:
    """Now; as a person does, the next one where this one is about to go."""
    left = PERIOD_S - time.time() % PERIOD_S
    if left < ENOUGH_S:
        time.sleep(left)
    return format_hotp_value(hotp_value(secret, int(time.time()) // PERIOD_S))

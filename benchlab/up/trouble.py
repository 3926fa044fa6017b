# SPDX-License-Identifier: Apache-2.0
"""Trouble: what a person can put right. Printed as it stands, without a traceback, exit code 2."""

from __future__ import annotations

import errno

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Trouble(Exception):
    """Error that says what happened, to what, and what to do about it."""

    exit_code = 2


def remedy(error: OSError, otherwise: str) -> str:
    """Advice on a file that cannot be made: `otherwise`, unless there is no room for it."""
    if error.errno not in FULL:
        return otherwise
    return (
        "Free some space on that disk (files also run out by number: `df -i`) or raise the quota."
    )

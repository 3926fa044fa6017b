"""Trouble: what a person can put right. Printed as it stands, without a traceback, exit code 2."""

from __future__ import annotations


class Trouble(Exception):
    """What happened, to what, and what to do about it; the message says all three."""

    exit_code = 2

# SPDX-License-Identifier: Apache-2.0
"""Errors that carry a reason: what happened, to what, and what to do."""

from __future__ import annotations

from enum import StrEnum

from agents.plaintext import visible


class Reason(StrEnum):
    """The reason for a failure. Pages describe it; `RETRYABLE` lists those that may simply be tried again."""

    CONNECTION_REFUSED = "connection_refused"
    TIMED_OUT = "timed_out"
    AUTHENTICATION_FAILED = "authentication_failed"
    NAME_NOT_FOUND = "name_not_found"
    FORBIDDEN_ADDRESS = "forbidden_address"
    HOST_KEY_CHANGED = "host_key_changed"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    CONNECTION_LOST = "connection_lost"
    NO_SUDO = "no_sudo"
    COMMAND_FAILED = "command_failed"
    GUARD_REFUSED = "guard_refused"
    PLAN_STALE = "plan_stale"
    VERIFY_FAILED = "verify_failed"
    DEGRADED = "degraded"
    NOT_BLANK = "not_blank"
    DISK_GONE = "disk_gone"
    NEEDS_REBOOT = "needs_reboot"
    TOOL_MISSING = "tool_missing"
    TOOL_FAILED = "tool_failed"
    JOB_TIMEOUT = "job_timeout"
    PARSE_FAILED = "parse_failed"
    HOST_REBOOTED = "host_rebooted"
    HOST_LOST = "host_lost"
    WORKER_LOST = "worker_lost"
    JOB_VANISHED = "job_vanished"
    BAD_OPTIONS = "bad_options"
    BAD_FACTS = "bad_facts"
    NO_DEVICES = "no_devices"
    NO_SPACE = "no_space"
    READ_ONLY = "read_only"
    TOO_LARGE = "too_large"
    TOO_LATE = "too_late"
    CHANGED_MEANWHILE = "changed_meanwhile"
    CANCELLED = "cancelled"
    RESTORED = "restored"
    INTERNAL = "internal"


RETRYABLE = frozenset(
    {Reason.CONNECTION_REFUSED, Reason.TIMED_OUT, Reason.NAME_NOT_FOUND, Reason.CONNECTION_LOST}
)


class AgentError(Exception):
    """A failure. The text says what happened, to what, and what to do.

    It often holds output of a host, so control characters are escaped here for all who show or store it.
    """

    reason = Reason.INTERNAL

    def __init__(self, message: str, reason: Reason | None = None) -> None:
        super().__init__(visible(message))
        if reason is not None:
            self.reason = reason


class OptionsError(AgentError):
    """Invalid options of a layer or tool; the text names the option."""

    reason = Reason.BAD_OPTIONS


class PlanError(AgentError):
    """A topology that does not fit this host; the text says what is missing."""

    reason = Reason.NO_DEVICES


class GuardError(AgentError):
    """The guard refused a Step; the text names device and cause."""

    reason = Reason.GUARD_REFUSED


class ParseError(AgentError):
    """Output that cannot be read; carries the 1-based line number (0: the whole) and the offending text."""

    reason = Reason.PARSE_FAILED

    def __init__(self, message: str, line: int = 0, text: str = "") -> None:
        where = f" (line {line}: {text[:200]!r})" if line else ""
        super().__init__(message + where)
        self.line, self.text = line, text

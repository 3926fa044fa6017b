# SPDX-License-Identifier: Apache-2.0
"""Commands were begun, and nobody knows how far they came."""

from __future__ import annotations

from agents.contracts import AgentError, Reason


def interruption_error(trouble: str, during: str, then: str) -> AgentError:
    """By the last trouble, if there is one; or the worker ended in them."""
    if trouble:
        return AgentError(f"{trouble} That was while {during}. {then}", Reason.HOST_LOST)
    return AgentError(f"BenchLab's worker ended while {during}. {then}", Reason.WORKER_LOST)

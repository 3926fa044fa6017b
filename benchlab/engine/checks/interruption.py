# SPDX-License-Identifier: Apache-2.0
"""Errors of steps that were interrupted: commands were begun, and nobody knows how far they came."""

from __future__ import annotations

from agents.contracts import AgentError, Reason


def interruption_error(trouble: str, during: str, then: str) -> AgentError:
    """Error of an interrupted step: the host was lost if there is a last trouble, otherwise the worker ended."""
    if trouble:
        return AgentError(f"{trouble} That was while {during}. {then}", Reason.HOST_LOST)
    return AgentError(f"BenchLab's worker ended while {during}. {then}", Reason.WORKER_LOST)

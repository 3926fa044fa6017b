# SPDX-License-Identifier: Apache-2.0
"""The place of a request among those that a web server works on at once (asgi.py): who only waits gives it back."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

# Gives back the place of the request that is answered in this context; it may be called twice, from any thread.
_give_back: ContextVar[Callable[[], object]] = ContextVar("give_back", default=lambda: None)


def hold_slot(give_back: Callable[[], object]) -> None:
    _give_back.set(give_back)


def release_slot() -> None:
    """Release the slot before waiting seconds for a host or for another request."""
    _give_back.get()()

"""Complaints of a page's scripts and console, without those that the tests' own server cannot help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# pytest-django's server speaks WSGI, and streams no events; those of tests/stack.py do, and are at 127.0.0.1.
WITHOUT_EVENTS = "http://localhost:"
ENDED = "[object Event]"  # htmx's words for a stream that ended


def listen(page: Any, say: Callable[[str], object]) -> None:
    """Call `say` with each error from now on.

    On a server without events htmx says of each page that asks for them that they ended: at once, or a moment after
    the test has looked. On one that streams them it is an error.
    """

    def heard(message: Any) -> None:
        ended = message.text == ENDED and page.url.startswith(WITHOUT_EVENTS)
        if message.type == "error" and not ended:
            say(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: say(str(error)))

"""Requests that the tests' server is at work on: a test waits for the end of what its pages asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATIENCE_S = 60.0


class Answering:
    """A WSGI application that counts the requests under way in the one it stands before.

    A request is over when its answer is closed; that of an endless one (server-sent events) as soon as it has begun,
    for it ends only when it next has something to send.
    """

    def __init__(self, before: WSGIApplication) -> None:
        self._before = before
        self._changed = threading.Condition()
        self._under_way: dict[object, str] = {}

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        token = object()
        with self._changed:
            self._under_way[token] = environ.get("PATH_INFO", "")
        try:
            answer: Any = self._before(environ, start)
        except BaseException:
            self._over(token)
            raise
        if getattr(answer, "streaming", False):
            self._over(token)
            return answer
        return _Told(answer, lambda: self._over(token))

    def _over(self, token: object) -> None:
        with self._changed:
            self._under_way.pop(token, None)
            self._changed.notify_all()

    def end(self) -> None:
        """Wait until nothing is under way. Raises AssertionError with what is, after a minute."""
        with self._changed:
            over = self._changed.wait_for(lambda: not self._under_way, PATIENCE_S)
            assert over, (
                f"not answered after {PATIENCE_S:.0f} s: {sorted(self._under_way.values())}"
            )


class _Told:
    """An answer, and what is to be done when it is closed. All else of it is the answer's own."""

    def __init__(self, answer: Any, closed: Callable[[], None]) -> None:
        self._answer = answer
        self._closed = closed

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    def close(self) -> None:
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            self._closed()


def answering_of(httpd: Any) -> Answering:
    """The counter of a WSGI server's requests; put before its application at the first call."""
    app = httpd.get_app()
    if not isinstance(app, Answering):
        app = Answering(app)
        httpd.set_app(app)
    return app

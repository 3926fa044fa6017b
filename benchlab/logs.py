"""One event, one log line: what hosts and visitors say cannot begin another one, nor paint a terminal."""

from __future__ import annotations

import logging

from agents.plaintext import one_line, visible

INDENT = "    | "  # before each further line of a traceback: no event begins like that
TRACE_MAX = 20_000  # characters


class OneLine(logging.Formatter):
    """Control characters are escaped, newlines too; a traceback's lines are set in."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:
        return _set_in(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _set_in(super().formatStack(stack_info))


def _set_in(text: str) -> str:
    lines = visible(text[-TRACE_MAX:], TRACE_MAX).split("\n")
    return "\n".join(INDENT + line for line in lines)

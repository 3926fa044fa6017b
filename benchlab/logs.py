# SPDX-License-Identifier: Apache-2.0
"""One event, one log line: what hosts and visitors say cannot begin another one, nor paint a terminal.

BENCHLAB_LOG_FORMAT says how: `line` for people, `json` for what collects logs. Both name what the line is about
(benchlab/log_context.py).
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from agents.plaintext import one_line, visible
from benchlab import log_context
from benchlab.team.log_filter import without_links

# before each further line of a traceback: no event begins like that
INDENT = "    | "
# characters
TRACE_MAX_CHARS = 20_000
# characters: a longer list of ids is in JSON only
IDS_MAX_CHARS = 100


class LineFormatter(logging.Formatter):
    """Control characters are escaped, newlines too; a traceback's lines are set in."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record)) + _ids_suffix()

    def formatException(self, ei: object) -> str:
        return _indent_traceback(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _indent_traceback(super().formatStack(stack_info))


class JsonFormatter(logging.Formatter):
    """An object in a line of ASCII, its time in UTC as RFC 3339 has it. Warnings of Python's become events, too."""

    def __init__(self, *positional: object, **keywords: object) -> None:
        super().__init__()
        logging.captureWarnings(True)

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        event: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": visible(record.name),
            "message": visible(record.getMessage()),
            **log_context.ids(),
        }
        if isinstance(status := getattr(record, "status_code", None), int):
            event["status"] = status
        if record.exc_info:
            event["exception"] = _last_chars(self.formatException(record.exc_info))
        elif record.exc_text:
            event["exception"] = _last_chars(record.exc_text)
        if record.stack_info:
            event["stack"] = _last_chars(self.formatStack(record.stack_info))
        return json.dumps(event)


def _ids_suffix() -> str:
    """ " [layout 7, attempt 12]", or nothing."""
    ids = ", ".join(f"{name} {value}" for name, value in log_context.ids().items())
    return f" [{ids}]" if ids and len(ids) <= IDS_MAX_CHARS else ""


def _indent_traceback(text: str) -> str:
    return "\n".join(INDENT + line for line in _last_chars(text).split("\n"))


def _last_chars(text: str) -> str:
    """The last TRACE_MAX characters, where a traceback says what it is."""
    return visible(without_links(text)[-TRACE_MAX_CHARS:], TRACE_MAX_CHARS)

# SPDX-License-Identifier: Apache-2.0
"""Links that let somebody in are kept out of logs: Django tells the path of what it refused."""

from __future__ import annotations

import logging
import re

LINKS = re.compile(r"(/join/|/s/|/account/reset/[0-9A-Za-z]+-)[^/?\s]+")


def without_links(text: str) -> str:
    """With what opens something struck out; where it leads stays."""
    return LINKS.sub(r"\1***", text)


class LinkFilter(logging.Filter):
    """On handlers, so that it sees every logger's lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if LINKS.search(message):
            record.msg, record.args = without_links(message), ()
        return True

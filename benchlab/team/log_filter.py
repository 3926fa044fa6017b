# SPDX-License-Identifier: Apache-2.0
"""Keep links that let somebody in out of logs: Django logs the path of a request that it refused."""

from __future__ import annotations

import logging
import re

LINKS = re.compile(r"(/join/|/s/|/account/reset/[0-9A-Za-z]+-)[^/?\s]+")


def without_links(text: str) -> str:
    """Strike out the part of each link that grants access; the page that it leads to stays."""
    return LINKS.sub(r"\1***", text)


class LinkFilter(logging.Filter):
    """Filter to put on handlers, so that it sees every logger's lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if LINKS.search(message):
            record.msg, record.args = without_links(message), ()
        return True

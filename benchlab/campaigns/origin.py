# SPDX-License-Identifier: Apache-2.0
"""Origin of imported results, checked to be safe to show."""

from __future__ import annotations

from dataclasses import dataclass

from benchlab.campaigns.models import Campaign

# by which the reference library knows its own
LIBRARY_KEYS = ("library", "sha256")


@dataclass(frozen=True, slots=True)
class Origin:
    """All of it text; `url` is empty unless it is one that a browser may be sent to."""

    title: str
    author: str
    date: str
    url: str
    more: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def from_campaign(campaign: Campaign) -> Origin:
        fields = {str(name): str(value) for name, value in campaign.origin.items() if value}
        url = fields.pop("url", "")
        for name in LIBRARY_KEYS:
            fields.pop(name, None)
        safe = url if url.lower().startswith(("http://", "https://")) else ""
        return Origin(
            fields.pop("title", ""),
            fields.pop("author", ""),
            fields.pop("date", ""),
            safe,
            tuple((name.replace("_", " ").capitalize(), value) for name, value in fields.items()),
        )

    @property
    def is_known(self) -> bool:
        return bool(self.title or self.author or self.date or self.url or self.more)

"""So that logins are recorded from the start."""

from __future__ import annotations

from django.apps import AppConfig


class Audit(AppConfig):
    name = "benchlab.audit"

    def ready(self) -> None:
        from benchlab.audit import watching  # noqa: F401

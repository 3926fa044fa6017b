# SPDX-License-Identifier: Apache-2.0
"""Django app that records logins from the start."""

from __future__ import annotations

from django.apps import AppConfig


class Audit(AppConfig):
    name = "benchlab.audit"

    def ready(self) -> None:
        # Here, for it needs the models, which are loaded after the apps.
        from benchlab.audit import middleware  # noqa: F401

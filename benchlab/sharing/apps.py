# SPDX-License-Identifier: Apache-2.0
"""The app's configuration: deleting a row deletes the discussion about it."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_delete


class Sharing(AppConfig):
    name = "benchlab.sharing"

    def ready(self) -> None:
        # Here, for it needs the models, which are loaded after the apps.
        from benchlab.sharing import discussion

        for model in discussion.target_models():
            post_delete.connect(
                discussion.delete_discussion,
                sender=model,
                dispatch_uid=f"talk of {model._meta.label}",
            )

"""So that what was said about a row goes with it."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_delete


class Sharing(AppConfig):
    name = "benchlab.sharing"

    def ready(self) -> None:
        from benchlab.sharing import nouns

        for model in nouns.models():
            post_delete.connect(
                nouns.forget, sender=model, dispatch_uid=f"talk of {model._meta.label}"
            )

# SPDX-License-Identifier: Apache-2.0
"""`manage.py load_library`: put the articles' results where everybody can compare with them. Safe to repeat."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from benchlab import terminal
from benchlab.imports import reference_library
from benchlab.imports.reference_library import ArticleError, articles


class Command(terminal.Command):
    # they import every page, and `up` waits for us
    requires_system_checks = []
    help = "Load the reference library: articles' results, for all teams to read. Only what is new or changed."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            changes = reference_library.load_library(articles())
        except (ArticleError, ValidationError) as error:
            raise CommandError(f"The reference library was not loaded: {error}") from error
        if options["verbosity"] > 0 and changes:
            self.stdout.write(f"Reference library: {', '.join(changes)}")

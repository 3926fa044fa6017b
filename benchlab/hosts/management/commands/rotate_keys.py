# SPDX-License-Identifier: Apache-2.0
"""manage.py rotate_keys: put every stored secret under the newest key of BENCHLAB_KEY. Safe to repeat."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from benchlab import terminal
from benchlab.audit import chain
from benchlab.hosts.registration import rotate_secrets


class Command(terminal.Command):
    help = (
        "Re-encrypt SSH keys and second factors with the first key of BENCHLAB_KEY, and seal the audit log's head "
        "with it. Put the new key in front of the old one (comma between them), restart, run this, then take the "
        "old key away."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        result = rotate_secrets()
        chain.renew_seal()
        self.stdout.write(
            f"{result.renewed} secrets renewed, {result.already} were under the newest key already."
        )
        if result.lost:
            raise CommandError(
                "\n".join(result.lost)
                + f"\n{len(result.lost)} secrets could not be opened and stay as they are."
            )
        if len(settings.BENCHLAB_KEYS) > 1:
            self.stdout.write("Every key of BENCHLAB_KEY but the first can be taken away now.")

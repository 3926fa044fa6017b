# SPDX-License-Identifier: Apache-2.0
"""manage.py doctor: is what is stored still what was written? Artifacts against their hashes, the audit log's chain."""

from __future__ import annotations

import hashlib
from typing import Any

from django.core.management.base import CommandError, CommandParser

from benchlab import terminal
from benchlab.audit import chain, heads
from benchlab.hosts import registration
from benchlab.hosts.models import Credential
from benchlab.runs.models import Artifact


class Command(terminal.Command):
    help = "Check the audit log's chain, every artifact's SHA-256, and that every SSH key can be decrypted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--accept-audit-log",
            action="store_true",
            help="seal the audit log's end as it is, after an older state of the database was restored on purpose",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["accept_audit_log"]:
            chain.accept_end()
        wrong = [problem for problem in (self._audit(), self._artifacts(), self._keys()) if problem]
        if wrong:
            raise CommandError("\n".join(wrong))
        self.stdout.write("No damage found.")

    def _audit(self) -> str:
        checked = chain.check_log()
        self.stdout.write(
            f"Audit log: {checked.entries} entries, the last one's seal {checked.head or 'none'}"
        )
        if checked.broken:
            return f"The audit log is broken: {checked.broken}"
        place = heads.head_file()
        if place is None or not place.exists():
            where = place or "BENCHLAB_AUDIT_HEAD names none"
            self.stdout.write(
                f"Its head is in no file ({where}): restoring an older database would go unnoticed."
            )
        return ""

    def _artifacts(self) -> str:
        count, wrong = 0, []
        artifacts = Artifact.objects.filter(attempt__raw_removed_at=None)
        for row in artifacts.order_by("pk").iterator(chunk_size=20):
            count += 1
            digest = hashlib.sha256()
            for piece in row.pieces():
                digest.update(piece)
            if digest.hexdigest() != row.sha256:
                wrong.append(f"{row.name} of {row.attempt}")
        self.stdout.write(f"Artifacts: {count}")
        return f"Artifacts that were changed: {', '.join(wrong)}" if wrong else ""

    def _keys(self) -> str:
        wrong = registration.unreadable_credentials()
        self.stdout.write(f"SSH keys: {Credential.objects.count()}")
        return f"SSH keys that no BENCHLAB_KEY decrypts: {', '.join(wrong)}" if wrong else ""

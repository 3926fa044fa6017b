# SPDX-License-Identifier: Apache-2.0
"""manage.py restore DIRECTORY: a backup into an empty database, with every disk protected and campaigns paused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser

from benchlab import terminal
from benchlab.installation import command
from benchlab.up.restore import WITHOUT, Restored, restore
from benchlab.up.state import state_from_environment
from benchlab.up.trouble import Trouble

LOST = (
    "`python3 manage.py doctor --accept-audit-log` seals the audit log with the key of here, once you have looked. "
    "Store new SSH keys for their hosts. Second factors that were sealed with the lost key do not work: an "
    "administrator takes them off."
)


class Command(terminal.Command):
    # there are no tables yet
    requires_system_checks = []
    requires_migrations_checks = False
    help = "Put a backup back into an empty database. Afterwards no disk is spare, and campaigns are paused."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, help="what `backup` wrote")
        parser.add_argument(
            WITHOUT,
            action="store_true",
            help="also where stored SSH keys cannot be opened: hosts get new ones afterwards",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # Nobody has a page open: there is no broker that could be told.
        logging.getLogger("benchlab.runs.events").setLevel(logging.ERROR)
        try:
            restored = restore(
                options["directory"].absolute(),
                state_from_environment(),
                with_ssh_keys=not options["without_ssh_keys"],
            )
        except Trouble as trouble:
            raise CommandError(str(trouble)) from None
        self.stdout.write(describe_restored(restored))
        try:
            call_command("doctor", stdout=self.stdout)
        except CommandError as damage:
            if not options["without_ssh_keys"]:
                raise
            self.stdout.write(f"{damage}\n{LOST}")


def describe_restored(restored: Restored) -> str:
    """Words for what a person has to know, and what to do next."""
    rows = sum(restored.manifest.rows.values())
    lines = [f"Restored the backup of {restored.manifest.at}: all its {rows:,} rows are back."]
    if restored.spares:
        lines.append(
            f"No disk is spare now ({restored.spares} were): mark those spare again that still are."
        )
    if restored.stopped:
        lines.append(
            f"Layouts that were at work on a host, and wait for a person now: {restored.stopped}."
        )
    if restored.paused:
        lines.append(f"Campaigns that waited, and are paused now: {restored.paused}.")
    lines.append(
        "Who was removed from a team since, and what was revoked since, works again: look at Team."
    )
    lines.append(
        "Stop the installation that made it, if it still runs: two must not use the same hosts."
    )
    lines.append(f"Start this one: {command('up')}")
    return "\n".join(lines)

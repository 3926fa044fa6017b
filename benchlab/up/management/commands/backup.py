# SPDX-License-Identifier: Apache-2.0
"""manage.py backup DIRECTORY: the database as of now, and the keys that open it, while everything goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from benchlab import terminal
from benchlab.up import backup
from benchlab.up.state import state_from_environment
from benchlab.up.trouble import Trouble
from benchlab.workers.process_counters import note_time


class Command(terminal.Command):
    any_database = True
    help = "Write a backup into a new directory. Runs go on meanwhile; `restore` puts it back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, help="a directory that does not exist yet")
        parser.add_argument(
            "--without-keys",
            action="store_true",
            help="leave out the keys of stored SSH keys and sessions: whoever restores it brings them",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        place, state = options["directory"].absolute(), state_from_environment()
        try:
            manifest = backup.write(place, state, with_keys=not options["without_keys"])
        except Trouble as trouble:
            raise CommandError(str(trouble)) from None
        note_time("backup")
        self.stdout.write(
            f"Backup of {manifest.at} in {place}: {sum(manifest.rows.values()):,} rows,"
            f" {manifest.size / 2**20:,.1f} MiB."
        )
        if (place / backup.KEYS).exists():
            self.stdout.write(
                f"Keep it as you keep SSH keys: {backup.KEYS} in it opens those of your hosts."
            )
        else:
            self.stdout.write(
                "It has no keys: keep BENCHLAB_KEY and SECRET_KEY elsewhere, it cannot be used without."
            )

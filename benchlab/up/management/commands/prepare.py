# SPDX-License-Identifier: Apache-2.0
"""`manage.py prepare`: migrate, and make the administrator if there is none. `up` runs it at every start.

`up` loads the reference library later, once its page answers (first_run); containers do it here.
"""

from __future__ import annotations

import secrets
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from benchlab import terminal
from benchlab.installation import command
from benchlab.team.services import join_first_team
from benchlab.up import database
from benchlab.web import middleware

ADMIN = "admin"


class Command(terminal.Command):
    # they import every page, and `up` waits for us
    requires_system_checks = []
    help = "Bring the database up to date; make the first administrator and team."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--library", action="store_true", help="load the reference library too")
        parser.add_argument(
            "--static",
            action="store_true",
            help="put the static files to BENCHLAB_STATIC too; a container's image has them, and cannot be written to",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if database.is_unfinished():
            raise CommandError(database.SAYS)
        applied = MigrationRecorder(connection).applied_migrations()
        if refused := database.refusal("This database", applied):
            raise CommandError(refused)
        call_command("migrate", interactive=False, verbosity=0)
        if options["static"] and settings.BENCHLAB_STATIC:
            middleware.collect_static_files()
        if password := make_administrator():
            self.stdout.write(f"Log in as  {ADMIN}  with password  {password}")
            self.stdout.write(
                f"It is shown only this once. To set another: {command('changepassword admin')}"
            )
        if options["library"]:
            call_command("load_library", stdout=self.stdout)


@transaction.atomic
def make_administrator() -> str:
    """The password of the administrator that was made, "" when the installation has users already."""
    if User.objects.exists():
        return ""
    password = secrets.token_urlsafe(12)
    admin = User.objects.create_superuser(ADMIN, password=password)
    join_first_team(admin)
    return password

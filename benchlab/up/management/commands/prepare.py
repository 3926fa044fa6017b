"""`manage.py prepare`: migrate, put the static files where they are served from, and make the administrator if there is
none. `up` runs it at every start.

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
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from benchlab import terminal
from benchlab.team.services import join_first_team
from benchlab.web import static_files

ADMIN = "admin"
TOO_OLD = (
    "This database is older than 2026-11-22 ({apps}): its tables were made by steps that have become one since. "
    'Nothing was changed. Run `python3 manage.py up` once from the commit before "Squash migrations to one an app", '
    "then from this one; or begin anew with another --state."
)


class Command(terminal.Command):
    requires_system_checks = []  # they import every page, and `up` waits for us
    help = "Bring the database up to date; make the first administrator and team."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--library", action="store_true", help="load the reference library too")

    def handle(self, *args: Any, **options: Any) -> None:
        if between := half_applied(connection):
            raise CommandError(TOO_OLD.format(apps=", ".join(between)))
        call_command("migrate", interactive=False, verbosity=0)
        if settings.BENCHLAB_STATIC:
            static_files.collect()
        if password := make_administrator():
            self.stdout.write(f"Log in as  {ADMIN}  with password  {password}")
            self.stdout.write(
                "It is shown only this once. To set another: python3 manage.py changepassword admin"
            )
        if options["library"]:
            call_command("load_library", stdout=self.stdout)


def half_applied(database: BaseDatabaseWrapper) -> list[str]:
    """The apps of whose squashed steps this database has some, but not all: Django could only fail over them."""
    loader = MigrationLoader(None)
    applied = MigrationRecorder(database).applied_migrations()
    return [
        app
        for (app, name), one in sorted((loader.disk_migrations or {}).items())
        if (app, name) not in applied
        and any(step in applied for step in one.replaces)
        and not all(step in applied for step in one.replaces)
    ]


@transaction.atomic
def make_administrator() -> str:
    """The password of the administrator that was made, "" when the installation has users already."""
    if User.objects.exists():
        return ""
    password = secrets.token_urlsafe(12)
    admin = User.objects.create_superuser(ADMIN, password=password)
    join_first_team(admin)
    return password

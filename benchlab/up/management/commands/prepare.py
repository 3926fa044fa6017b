"""`manage.py prepare`: migrate, put the static files where they are served from, and make the administrator if there is
none. `up` runs it at every start.

`up` loads the reference library later, once its page answers (first_run); containers do it here.
"""

from __future__ import annotations

import secrets
from argparse import ArgumentParser
from collections.abc import Container, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from benchlab import terminal
from benchlab.team.services import join_first_team
from benchlab.up import unfinished
from benchlab.web import static_files

Step = tuple[str, str]  # app, name of a migration

ADMIN = "admin"
TOO_OLD = (
    "This database is from before {day} ({apps}): its tables were made by steps that have become one since. "
    "Nothing was changed. {way}"
)
FIRST_SQUASH, FIRST_DAY = "0001_squashed", "2026-11-22"
SECOND_DAY = "2026-11-24"
# Names of commits may change; a file that went with the steps finds the one that removed them.
LAST_STEP = "benchlab/runs/migrations/0005_strips.py"
FINISH = (
    f"Run `git checkout $(git log --all -1 --diff-filter=D --format=%h -- {LAST_STEP})^` and "
    "`python3 manage.py up` once there, then from this commit; or begin anew with another --state."
)
# Not all of the steps before the first squash are in the history: one of `hosts` was never committed.
BEGIN_ANEW = (
    "No commit has all of those steps, so begin anew with another --state; "
    "the commit that made this one still reads it."
)


class Command(terminal.Command):
    requires_system_checks = []  # they import every page, and `up` waits for us
    help = "Bring the database up to date; make the first administrator and team."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--library", action="store_true", help="load the reference library too")

    def handle(self, *args: Any, **options: Any) -> None:
        if unfinished.there():
            raise CommandError(unfinished.SAYS)
        if between := half_applied(connection):
            raise CommandError(too_old(connection, between))
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
    applied = MigrationRecorder(database).applied_migrations()
    return [
        one.app_label
        for one in squashed()
        if (one.app_label, one.name) not in applied and some_but_not_all(one.replaces, applied)
    ]


def too_old(database: BaseDatabaseWrapper, apps: Sequence[str]) -> str:
    """Text that is told of such a database, with the way out that there is."""
    applied = MigrationRecorder(database).applied_migrations()
    if any(some_but_not_all(first_steps(one), applied) for one in squashed()):
        return TOO_OLD.format(day=FIRST_DAY, apps=", ".join(apps), way=BEGIN_ANEW)
    return TOO_OLD.format(day=SECOND_DAY, apps=", ".join(apps), way=FINISH)


def squashed() -> list[Migration]:
    """The migrations that stand for others, by app."""
    found = sorted((MigrationLoader(None).disk_migrations or {}).items())
    return [one for _, one in found if one.replaces]


def first_steps(one: Migration) -> Sequence[Step]:
    """Those of its steps that an app's first squash made one; none of an app that had no part in it."""
    names = [name for _, name in one.replaces]
    if one.name == FIRST_SQUASH:
        return one.replaces
    return one.replaces[: names.index(FIRST_SQUASH)] if FIRST_SQUASH in names else []


def some_but_not_all(steps: Sequence[Step], applied: Container[Step]) -> bool:
    """Of (app, name) steps, against what a database has."""
    has = [step in applied for step in steps]
    return any(has) and not all(has)


@transaction.atomic
def make_administrator() -> str:
    """The password of the administrator that was made, "" when the installation has users already."""
    if User.objects.exists():
        return ""
    password = secrets.token_urlsafe(12)
    admin = User.objects.create_superuser(ADMIN, password=password)
    join_first_team(admin)
    return password

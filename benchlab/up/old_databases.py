# SPDX-License-Identifier: Apache-2.0
"""Databases and backups from before migrations were squashed: which ones cannot be upgraded, and the way out."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

# app, name of a migration
Step = tuple[str, str]

TOO_OLD = (
    "{what} is from before {day} ({apps}): its tables were made by steps that have become one since. "
    "Nothing was changed. {way}"
)
FIRST_SQUASH, FIRST_DAY = "0001_squashed", "2026-11-22"
LAST_DAY = "2026-11-27"
# Names of commits may change; a file that went with the steps finds the one that removed them. What lacks steps of an
# earlier squash, too, is told there how to go on: each squash knows the way to the one before it.
LAST_STEP = "benchlab/runs/migrations/0003_histograms.py"
CHECKOUT = f"git checkout $(git log --all -1 --diff-filter=D --format=%h -- {LAST_STEP})^"
FINISH = {
    "This database": f"Run `{CHECKOUT}` and `python3 manage.py up` once there, then from this commit; "
    "or begin anew with another BENCHLAB_STATE.",
    "The backup": f"Run `{CHECKOUT}`, restore it there and make a backup of that.",
}
# Not all of the steps before the first squash are in the history: one of `hosts` was never committed.
BEGIN_ANEW = {
    "This database": "No commit has all of those steps, so begin anew with another BENCHLAB_STATE; "
    "the commit that made this one still reads it.",
    "The backup": "No commit has all of those steps; the commit that made it still restores it.",
}


def refusal(what: str, applied: Collection[Step]) -> str:
    """The message for a database or backup with only some steps of a squash, on which Django would fail; else "".

    `what` is a key of FINISH; `applied` holds the steps that it has.
    """
    apps = half_applied(applied)
    if not apps:
        return ""
    values = {"what": what, "apps": ", ".join(apps)}
    if any(_some_but_not_all(_first_steps(migration), applied) for migration in squashed()):
        return TOO_OLD.format(**values, day=FIRST_DAY, way=BEGIN_ANEW[what])
    return TOO_OLD.format(**values, day=LAST_DAY, way=FINISH[what])


def half_applied(applied: Container[Step]) -> list[str]:
    """The apps that have some of their squashed steps, but not all."""
    return [
        migration.app_label
        for migration in squashed()
        if (migration.app_label, migration.name) not in applied
        and _some_but_not_all(migration.replaces, applied)
    ]


def squashed() -> list[Migration]:
    """The migrations that stand for others, by app."""
    migrations = sorted((MigrationLoader(None).disk_migrations or {}).items())
    return [migration for _, migration in migrations if migration.replaces]


def _first_steps(migration: Migration) -> Sequence[Step]:
    """The steps that an app's first squash replaced; none for an app without one."""
    names = [name for _, name in migration.replaces]
    if migration.name == FIRST_SQUASH:
        return migration.replaces
    return migration.replaces[: names.index(FIRST_SQUASH)] if FIRST_SQUASH in names else []


def _some_but_not_all(steps: Sequence[Step], applied: Container[Step]) -> bool:
    has = [step in applied for step in steps]
    return any(has) and not all(has)

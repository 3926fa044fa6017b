"""`pytest` typed by hand, without `manage.py test` around it: start PostgreSQL and Valkey for it, gone with it."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack

import django

from benchlab.testing import leftovers
from benchlab.testing.stores import TEMPLATE, stores

_open = ExitStack()


def begin() -> None:
    """Put into the environment what `manage.py test` would have, where it is not there; then Django may be used."""
    if not (os.environ.get("DATABASE_URL") or os.environ.get("DATABASE_URL_FILE")):
        os.environ[leftovers.RUN] = leftovers.this_run()
        os.environ.pop(TEMPLATE, None)  # of the run around it, in another PostgreSQL
        os.environ.update(_open.enter_context(stores()))
        atexit.register(end)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    django.setup()


def end() -> None:
    """Stop what `begin` started; twice is once."""
    _open.close()

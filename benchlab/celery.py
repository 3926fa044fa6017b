"""The Celery app. Tasks are one line each (an id, one step of the engine); the database is the queue."""

from __future__ import annotations

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import task_postrun, task_prerun, worker_ready
from django.db import close_old_connections

from benchlab import garbage

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
# Django's checks are for development. They load every page: a third of a worker's start, for which the hosts wait.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("benchlab")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery closes the connection to the database before and after each task, which is a login and a process of PostgreSQL
# a step. Ours stay as long as CONN_MAX_AGE says, and are looked at before they serve a task.
app.conf.update({"CELERY_DB_REUSE_MAX": sys.maxsize})
app.autodiscover_tasks()
app.autodiscover_tasks(["benchlab.engine"])  # which is no app of Django's: it has no models


@task_prerun.connect
@task_postrun.connect
def refresh_connections(**_: Any) -> None:
    """Close those that are broken or too old, as a web request does before and after it."""
    close_old_connections()


@worker_ready.connect
def settle(**_: Any) -> None:
    garbage.leave_what_is_loaded(garbage.OF_STEPS)

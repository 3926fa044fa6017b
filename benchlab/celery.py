# SPDX-License-Identifier: Apache-2.0
"""The Celery app. Tasks are one line each (an id, one step of the engine); the database is the queue."""

from __future__ import annotations

import os
from typing import Any

import django
from celery import Celery
from celery.signals import worker_init, worker_ready

from benchlab import compatibility, garbage

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
# Django's checks are for development. They load every page: a third of a worker's start, for which the hosts wait.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("benchlab")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery closes a thread's connection to the database after each task. That costs little: what there is much of, steps
# of layouts and files of uploads, has threads and connections of its own (workers/fair_queue.py).
app.autodiscover_tasks()
# which is no app of Django's: it has no models
app.autodiscover_tasks(["benchlab.engine"])


@worker_init.connect
def refuse_what_does_not_fit(**_: Any) -> None:
    """Before the first task. Celery logs what else a receiver raises, and goes on."""
    django.setup(set_prefix=False)
    if problem := compatibility.unfit():
        raise SystemExit(problem)


@worker_ready.connect
def settle(**_: Any) -> None:
    garbage.freeze_loaded_objects(garbage.WORKER_THRESHOLDS)

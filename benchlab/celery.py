"""The Celery app. Tasks are one line each (an id, one step of the engine); the database is the queue."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")

app = Celery("benchlab")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

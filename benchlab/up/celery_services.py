# SPDX-License-Identifier: Apache-2.0
"""`worker` and `beat`, with Celery's options. `up` and docker-compose.yml start them by these words.

Options that follow the word are added to those here; of one that comes twice, the last counts.
"""

from __future__ import annotations

import os

from django.conf import settings

from benchlab.celery import app
from benchlab.up.state import state_from_environment

# Threads, as a task spends most of its time waiting for a host, and all share one SSH connection per host.
THREADS = ("--pool", "threads", "--concurrency", "8")
WORKER = ("worker", *THREADS, "--loglevel", "INFO", "--without-gossip", "--without-mingle")
BEAT = ("beat", "--loglevel", "WARNING", "--pidfile=")


def worker(rest: list[str]) -> int:
    return celery(*WORKER, *rest)


def beat(rest: list[str]) -> int:
    schedule = state_from_environment().path / "beat-schedule"
    return celery(*BEAT, "--schedule", str(schedule), *rest)


def celery(*words: str) -> int:
    """Run Celery. Raises ImproperlyConfigured for a wrong setting before Celery would report it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    _ = settings.SECRET_KEY
    return int(app.start(list(words)) or 0)

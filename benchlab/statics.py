"""Static files in their place for serving: each compressed, and named by its content."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

STAMP = "benchlab-collected"


def collect() -> bool:
    """Put them to BENCHLAB_STATIC, unless the same lie there; whether that was needed. Old ones stay: a page that is
    open may still ask for them."""
    stamp = Path(settings.STATIC_ROOT) / STAMP
    now = _sources()
    if stamp.is_file() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(now)
    return True


def _sources() -> str:
    """A hash over names, sizes and times of all that would be collected."""
    found = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            at = Path(storage.path(name)).stat()
            found.update(f"{name} {at.st_size} {at.st_mtime_ns}\n".encode())
    return found.hexdigest()

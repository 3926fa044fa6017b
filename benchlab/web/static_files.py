# SPDX-License-Identifier: Apache-2.0
"""Static files in their place for serving: each compressed, and named by its content; and the middleware that does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.http import HttpRequest, HttpResponseBase
from servestatic.middleware import ServeStaticMiddleware

Answer = Callable[[HttpRequest], HttpResponseBase]
STAMP = "benchlab-collected"


def collect_static_files() -> bool:
    """Put them to BENCHLAB_STATIC, unless the same lie there; whether that was needed. Old ones stay: a page that is
    open may still ask for them."""
    stamp = Path(settings.STATIC_ROOT) / STAMP
    now = _sources_digest()
    if stamp.is_file() and stamp.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(now)
    return True


def _sources_digest() -> str:
    """A hash over names, sizes and times of all that would be collected."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            at = Path(storage.path(name)).stat()
            digest.update(f"{name} {at.st_size} {at.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def serve_static_files(get_response: Answer) -> Answer:
    """Middleware: servestatic's files. Its own is a coroutine, for which each page would change threads four times."""

    async def never(request: HttpRequest) -> HttpResponseBase:
        # it is not asked about pages
        raise NotImplementedError

    files = ServeStaticMiddleware(never)

    def serve_file(request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        file = files.find_file(path) if files.autorefresh else files.files.get(path)
        return get_response(request) if file is None else async_to_sync(files.aserve)(file, request)

    return serve_file

# SPDX-License-Identifier: Apache-2.0
"""Progress of storing a draft: told outside of its transaction, through the cache, and never worth a failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.core.cache import cache

log = logging.getLogger(__name__)

EVERY_S = 0.3
KEPT_S = 24 * 3600


def set_progress(pk: int, stored: int) -> None:
    try:
        cache.set(_cache_key(pk), stored, KEPT_S)
    except Exception as error:
        # whatever the cache's client raises
        log.warning("the cache does not answer, no progress of draft %s is shown: %s", pk, error)


def get_progress(pk: int) -> int:
    try:
        return int(cache.get(_cache_key(pk)) or 0)
    except Exception as error:
        log.warning("the cache does not answer, no progress of draft %s is shown: %s", pk, error)
        return 0


def throttled_reporter(pk: int) -> Callable[[int], None]:
    """Return a function that stores the progress, but only a few times a second."""
    last = time.monotonic()

    def tell(stored: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            set_progress(pk, stored)

    return tell


def _cache_key(pk: int) -> str:
    return f"import-{pk}-stored"

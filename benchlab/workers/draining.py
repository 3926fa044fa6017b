# SPDX-License-Identifier: Apache-2.0
"""The end of a worker on SIGTERM: Celery takes no new task and waits for those that run.

Our own threads (fair_queue.py, the sweeper) hand over their queues at once, so that another worker can continue.
A command on a host continues there. A step that does not end in time is left, as if the worker had been killed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from celery.signals import worker_shutting_down

log = logging.getLogger(__name__)

# docker-compose.yml and the service files wait a little longer before they kill us.
GRACE_S = 25.0

# Called once, in order.
hand_over: list[Callable[[], None]] = []


@worker_shutting_down.connect
def begin_draining(**_: Any) -> None:
    """Drain in a thread of its own.

    This is a signal handler, and the code that it interrupted may hold any lock.
    """
    threading.Thread(target=_drain, name="draining", daemon=True).start()


def _drain() -> None:
    for callback in hand_over:
        try:
            callback()
        except Exception:
            log.exception("nothing was handed over by %s", callback)
    time.sleep(GRACE_S)
    log.warning("what is under way takes longer than %.0f s and is left to another worker", GRACE_S)
    os._exit(0)

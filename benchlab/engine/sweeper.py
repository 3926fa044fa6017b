"""The worker's own thread that looks for what is due and sends it to the workers, the broker's queue or not.

It is no task: in the steps' queue a sweep would wait behind the very layouts that it must repair. Every worker has one;
of several each layout is claimed by one.
"""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error, close_old_connections, connection

from benchlab.engine import sweep, wishes
from benchlab.hosts import host_tasks, installing
from benchlab.workers import beats, messages

log = logging.getLogger(__name__)

PERIOD_S = 1.0
STEP_AGAIN_S = 10.0  # a message that was not taken by then is sent again
PLANS_EVERY = 10  # sweeps: their query has no index, and nobody waits for a lost one by the second


class Sweeper(threading.Thread):
    """Sweeps until `stop`. Nothing that goes wrong ends it: the database or the broker may come back."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        super().__init__(name="sweeper", daemon=True)
        self.period_s = period_s
        self._stopped = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            begun = time.monotonic()
            close_old_connections()  # as Celery does before each task
            try:
                sweep_once(plans=number % PLANS_EVERY == 0)
            except Error as error:
                log.warning("the sweep could not query the database: %s", error)
            except Exception:
                log.exception("the sweep broke")
            number += 1
            self._stopped.wait(max(0.0, self.period_s - (time.monotonic() - begun)))
        connection.close()

    def stop(self) -> None:
        self._stopped.set()


def sweep_once(*, plans: bool = True) -> list[int]:
    """Send each layout that is due to a worker; which those were.

    A broker that fails once is asked no more in this round: what is left is due again by itself.
    """
    beats.beat()
    sent = sweep.claim(sweep.due(), STEP_AGAIN_S)
    lost = (
        messages.send_each(wishes.STEP, sent)
        or messages.send_each(host_tasks.PERFORM, host_tasks.due())
        or messages.send_each(installing.ADVANCE, installing.due())
    )
    if plans and not lost:
        late = sweep.claim(sweep.unplanned(), wishes.PLAN_AGAIN_S)
        messages.send_each(wishes.PLAN, late)
        sent += late
    return sent

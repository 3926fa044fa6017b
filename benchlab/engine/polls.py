# SPDX-License-Identifier: Apache-2.0
"""Polls that are under way: coroutines on the process's SSH loop, so that a host that works holds no thread here.

A poll needs no database. Its end puts the answer down here and has the layout stepped, which takes the answer up. What
is lost with a process, the sweeper has asked anew. Where nobody serves (in a test, in a shell) it is asked in place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from agents.contracts import Ran, Shell
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.ssh.shell import SshShell
from benchlab.engine.commands import STEP
from benchlab.workers import messages
from benchlab.workers.fair_queue import Priority, WorkItem, host_queue
from benchlab.workers.lru_cache import LruCache

# An answer that nobody took by then is requested again.
STALE_S = 30.0
# Maximum polls a second of jobs that merely go on: the more jobs there are, the less often each is polled.
POLLS_PER_SECOND = 15


@dataclass(frozen=True, slots=True)
class PollRequest:
    """`offset`: bytes of samples that are here. `outputs`: files of a job that is over; None: none of them."""

    attempt_id: int
    spool: Spool
    wait_s: float
    offset: int
    outputs: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class PollAnswer:
    question: PollRequest
    ran: Ran | None = None
    error: BaseException | None = None
    came: float = field(default_factory=time.monotonic)

    @property
    def fresh(self) -> bool:
        return time.monotonic() - self.came < STALE_S

    def to_polled(self) -> job.Polled:
        """Convert the answer. Raises what went wrong, AgentError mostly."""
        if self.error is not None:
            raise self.error
        assert self.ran is not None
        request = self.question
        return job.polled(self.ran, request.spool, request.offset, request.outputs)


class Polls:
    """Polls of one process, by layout."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[int, PollRequest] = {}
        self._came: dict[int, PollAnswer] = {}
        # This process is about to end.
        self.drained = False
        self._step: Callable[[int], None] | None = None
        self._teams: LruCache[int | None] = LruCache(lambda layout_id: None)

    def serve_steps(self, step: Callable[[int], None], team: Callable[[int], int | None]) -> None:
        """Begin to step layouts, in a thread of ours, when their answers arrive. `team`: of a layout's id."""
        self._step, self._teams = step, LruCache(team)
        host_queue.begin()

    def drain(self) -> None:
        """Leave the steps that wait here, and the polls, to other workers."""
        self.drained = True
        host_queue.drain()
        with self._lock:
            layout_ids = sorted({*self._pending, *self._came})
        messages.send_each(STEP, layout_ids)

    def stop_serving(self) -> None:
        """Start no more steps, and wait for those that are under way."""
        self._step, self.drained = None, False
        host_queue.end()

    @property
    def serves(self) -> bool:
        return self._step is not None

    def defer_step(self, layout_id: int) -> None:
        """Step it once no answer waits. Lost with the process, as answers are."""
        self._put_step(layout_id, Priority.FOLLOW_UP)

    def has_backlog(self, team: int | None) -> bool:
        """True if results wait to be processed: all else that this team has to do can wait for them."""
        return host_queue.crowded(team)

    def queue_step(self, layout_id: int, at: float = 0.0) -> bool:
        """Queue a step in its team's turn, requested at `at` (0: now).

        False if nobody serves: the caller then does it.
        """
        if self.serves:
            self._put_step(layout_id, Priority.MESSAGE, at)
        return self.serves

    def _put_step(self, layout_id: int, kind: Priority, at: float = 0.0) -> None:
        step = self._step
        if step is not None:
            host_queue.enqueue(
                kind, WorkItem(step, self._teams, layout_id, STEP, at or time.time())
            )

    def patience_s(self, wished: float) -> float:
        """Seconds that a poll waits for the job to end. The end is reported at once, samples only after that time."""
        return max(wished, len(self._pending) / POLLS_PER_SECOND) if self.serves else wished

    def submit_poll(self, layout_id: int, request: PollRequest, shell: Shell) -> bool:
        """True when the answer is here. Otherwise its arrival has the layout stepped."""
        with self._lock:
            if layout_id in self._came:
                return True
            pending = self._pending.get(layout_id)
            if pending and pending.attempt_id == request.attempt_id:
                return False
            self._pending[layout_id] = request
        argv, limit_s = job.poll_command(
            request.spool, request.wait_s, request.offset, request.outputs
        )
        root = request.spool.root
        if isinstance(shell, SshShell) and self.serves:
            try:
                future = shell.submit(argv, root=root, timeout_s=limit_s)
            except BaseException:
                self._pending.pop(layout_id, None)
                raise
            future.add_done_callback(
                lambda future_done: self._on_poll_end(layout_id, request, future_done)
            )
            return False
        try:
            answer = PollAnswer(request, shell.run(argv, root=root, timeout_s=limit_s))
        except Exception as error:
            answer = PollAnswer(request, error=error)
        self._store_answer(layout_id, answer)
        return True

    def take_answer(self, layout_id: int, attempt_id: int) -> PollAnswer | None:
        """Answer of a poll of this attempt, once; None without a fresh one."""
        with self._lock:
            answer = self._came.pop(layout_id, None)
        ours = answer is not None and answer.question.attempt_id == attempt_id and answer.fresh
        return answer if ours else None

    def queue_if_answered(self, layout_id: int) -> None:
        """Queue the layout that was just stepped if an answer came meanwhile, and found it held."""
        if layout_id in self._came:
            self._put_step(layout_id, Priority.RESULT)

    def _store_answer(self, layout_id: int, answer: PollAnswer) -> None:
        with self._lock:
            if self._pending.get(layout_id) is answer.question:
                del self._pending[layout_id]
            self._came = {pk: stored for pk, stored in self._came.items() if stored.fresh}
            self._came[layout_id] = answer

    def _on_poll_end(self, layout_id: int, request: PollRequest, future: Future[Ran]) -> None:
        """Store the answer and queue the layout's step. This runs on the loop's thread and must not take long."""
        # the loop ends, and so does the process
        if future.cancelled():
            self._pending.pop(layout_id, None)
            return
        error = future.exception()
        self._store_answer(
            layout_id, PollAnswer(request, None if error else future.result(), error)
        )
        self.queue_if_answered(layout_id)


polls = Polls()

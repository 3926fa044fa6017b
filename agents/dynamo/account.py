# SPDX-License-Identifier: Apache-2.0
"""Tests reconstructed from a session's transcript, in dynamo's own units. Runs on the host.

dynamo's data messages carry no tag, so this follows the whole session: which workers have which targets and accesses
tells how many results come and of what.
"""

from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, TypeVar

from agents.dynamo import messages, results, wire
from agents.dynamo.calibrate import Poll, TickRate, calibrate_rate
from agents.dynamo.messages import AccessSpec, ManagerInfo, Target
from agents.dynamo.results import ManagerResults, WorkerResults
from agents.dynamo.transcript import COMPLETED, LOGIN, Record, Transcript
from agents.dynamo.wire import DynamoError, Message

MAX_WORKERS = 128
T = TypeVar("T")


class Exchange(NamedTuple):
    """A request of the console and the whole answer of dynamo."""

    request: Message
    payload: bytes
    sent_at: float
    replies: Tuple[Record, ...]


class Update(NamedTuple):
    """Results since the last update: the times of the question and of each worker's answer, and the figures."""

    sent_at: float
    received: Tuple[float, ...]
    manager: ManagerResults
    workers: Tuple[WorkerResults, ...]


class Active(NamedTuple):
    """A worker that took part."""

    # from 1
    number: int
    access: AccessSpec
    targets: Tuple[Target, ...]


class Measured(NamedTuple):
    """A complete test."""

    info: ManagerInfo
    workers: Tuple[Active, ...]
    manager: ManagerResults
    results: Tuple[WorkerResults, ...]
    updates: Tuple[Update, ...]
    # RECORD_ON went out
    began: float
    # the answer to RECORD_OFF was there
    ended: float
    rate: TickRate
    notes: Dict[str, object]

    @property
    def has_bins(self) -> bool:
        """False: this is 1.1.0-rc1, which measures the page cache."""
        return all(target.bins for worker in self.results for target in worker.targets)


def reconstruct_tests(transcript: Transcript) -> List[Measured]:
    """Every test of a session that was completed. Raises DynamoError."""
    if transcript.end.get("outcome") != COMPLETED:
        raise DynamoError("result", f"the session failed: {transcript.end.get('text', '')}")
    notes = {key: value for _, note in transcript.notes for key, value in note.items()}
    account = _Account(notes)
    for exchange in _exchanges(transcript, account):
        account.handle_exchange(exchange)
    return account.finished_tests


def _exchanges(transcript: Transcript, account: "_Account") -> Iterator[Exchange]:
    """Requests with their answers; the login goes to the account at once."""
    opened: Optional[Message] = None
    payload, sent_at = b"", 0.0
    replies: List[Record] = []
    for record in transcript.records:
        if record.channel == LOGIN:
            account.log_in(record)
        elif record.kind == "<":
            replies.append(record)
        elif record.wire != wire.MESSAGE.size:
            payload = record.message_bytes
        elif wire.decode_message(record.message_bytes).purpose != wire.STOP_PREPARE:
            if opened is not None:
                yield Exchange(opened, payload, sent_at, tuple(replies))
            opened, payload, sent_at, replies = (
                wire.decode_message(record.message_bytes),
                b"",
                record.at,
                [],
            )
    if opened is not None:
        yield Exchange(opened, payload, sent_at, tuple(replies))


class _Account:
    def __init__(self, notes: Dict[str, object]) -> None:
        self.finished_tests: List[Measured] = []
        self._notes = notes
        self._info: Optional[ManagerInfo] = None
        self._access: List[Optional[AccessSpec]] = []
        self._targets: List[Tuple[Target, ...]] = []
        self._updates: List[Update] = []
        self._began: Optional[float] = None
        # Its tick rate is not known yet.
        self._off: Optional[Poll] = None

    def log_in(self, record: Record) -> None:
        if record.kind == "<" and record.wire == wire.DATA_BYTES:
            self._info = messages.decode_manager_info(record.message_bytes)
            self._access, self._targets = [], []

    def handle_exchange(self, exchange: Exchange) -> None:
        purpose = exchange.request.purpose
        if purpose == wire.ADD_WORKERS:
            self._add_workers(_first_answer(exchange).data)
        elif purpose == wire.SET_ACCESS:
            self._set(exchange, self._access, messages.decode_access_spec)
        elif purpose == wire.SET_TARGETS:
            self._set(exchange, self._targets, messages.decode_targets)
        elif purpose == wire.EXIT and exchange.request.data >= 0 and self._targets:
            self._access.pop()
            self._targets.pop()
        elif purpose == wire.RECORD_ON:
            self._began, self._off, self._updates = exchange.sent_at, None, []
        elif purpose == wire.RECORD_OFF:
            self._off = Poll(exchange.sent_at, _last(exchange).at, 0)
        elif purpose == wire.REPORT_UPDATE and self._began is not None and self._off is None:
            times = tuple(reply.at for reply in exchange.replies[1:])
            self._updates.append(Update(exchange.sent_at, times, *self._decode_report(exchange)))
        elif purpose == wire.REPORT_RESULTS and self._off is not None:
            self._finish(exchange)

    def _add_workers(self, count: int) -> None:
        if not 0 <= count <= MAX_WORKERS - len(self._targets):
            raise DynamoError("result", f"{count} more workers: out of sync with dynamo")
        self._access += [None] * count
        self._targets += [()] * count

    def _set(self, exchange: Exchange, settings: List[T], decode: Callable[[bytes], T]) -> None:
        worker = exchange.request.data
        if _first_answer(exchange).data != 1:
            return
        if not (worker == wire.ALL_WORKERS or 0 <= worker < len(settings)):
            raise DynamoError(
                "result",
                f"{exchange.request.purpose_name} for worker {worker}, which does not exist",
            )
        value = decode(exchange.payload)
        for number in range(len(settings)) if worker == wire.ALL_WORKERS else (worker,):
            settings[number] = value

    def _active(self) -> Tuple[Active, ...]:
        return tuple(
            Active(number, access, targets)
            for number, (access, targets) in enumerate(zip(self._access, self._targets), start=1)
            if access is not None and access.lines and targets
        )

    def _decode_report(
        self, exchange: Exchange
    ) -> Tuple[ManagerResults, Tuple[WorkerResults, ...]]:
        active = self._active()
        if self._info is None:
            raise DynamoError("result", "the session has no login")
        if len(exchange.replies) != 1 + len(active):
            raise DynamoError(
                "result", f"{len(exchange.replies)} results for {len(active)} workers"
            )
        manager = results.decode_manager_results(exchange.replies[0].message_bytes)
        return manager, tuple(
            results.decode_worker_results(
                reply.message_bytes, len(worker.targets), self._info.ticks
            )
            for reply, worker in zip(exchange.replies[1:], active)
        )

    def _finish(self, exchange: Exchange) -> None:
        if self._info is None or self._off is None or self._began is None:
            raise DynamoError("result", "results of a test for which recording was never started")
        manager, worker_results = self._decode_report(exchange)
        polls = [self._polls(number, worker) for number, worker in enumerate(worker_results)]
        self.finished_tests.append(
            Measured(
                self._info,
                self._active(),
                manager,
                worker_results,
                tuple(self._updates),
                self._began,
                self._off.received,
                calibrate_rate(self._info.ticks, polls),
                self._notes,
            )
        )
        self._off = self._began = None

    def _polls(self, number: int, worker: WorkerResults) -> List[Poll]:
        """All times at which this worker's clock is known: at its updates, and when recording ended."""
        assert self._off is not None
        polls = [Poll(u.sent_at, u.received[number], u.workers[number].last) for u in self._updates]
        return [*polls, Poll(self._off.sent_at, self._off.received, worker.last)]


def _last(exchange: Exchange) -> Record:
    if not exchange.replies:
        raise DynamoError("result", f"{exchange.request.purpose_name} was not answered")
    return exchange.replies[-1]


def _first_answer(exchange: Exchange) -> Message:
    _last(exchange)
    return wire.decode_message(exchange.replies[0].message_bytes)

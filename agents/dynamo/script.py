# SPDX-License-Identifier: Apache-2.0
"""Steps of a console's session with one dynamo; console.py runs them. Runs on the host.

Each function is a piece of a session, to be used as `yield from`. EXIT is never sent while I/O runs (dynamo would
crash), and always after STOP was answered; if that is impossible, nothing is sent and the stream must be closed.
"""

import math
from typing import Generator, List, NamedTuple, Sequence, Tuple

from agents.dynamo import messages, wire
from agents.dynamo.console import Answer, Cancelled, Emit, Pause, Script, Send, Sleep, Step
from agents.dynamo.messages import AccessSpec, ManagerInfo, Target
from agents.dynamo.specs import Trial
from agents.dynamo.wire import ALL_WORKERS, MANAGER, DynamoError, Message

# s: settings and START, BEGIN_IO, STOP
SHORT, OPENING, STOPPING = 10.0, 30.0, 60.0
# Seconds: REPORT_TARGETS tries every mount point and disk, some of which must spin up first
LOOKING = 60.0
# share of the recorded time that updates may take
BUSY = 0.01
# additional s for each worker in a report
PER_WORKER = 0.1
# Pause: the owner checks that the files now exist and are complete
CHECK_PREPARED = "prepared"
# Pause: the owner reads the kernel's counters, however long it takes
BEFORE_RECORDING = "before recording"


class Phase(NamedTuple):
    """An event: "set up", "prepare", "start", "ramp", "record", "stop", "results", "exit" begins."""

    name: str


class TargetsReported(NamedTuple):
    """An event: the disks and network interfaces that dynamo reports."""

    disks: Tuple[Target, ...]
    networks: Tuple[Target, ...]


class ResultsReported(NamedTuple):
    """An event: results came. `answer.parts` are the manager's, then one of each worker in `active` (their targets)."""

    # REPORT_UPDATE: since the last one; REPORT_RESULTS: the whole test
    purpose: int
    active: Tuple[int, ...]
    answer: Answer


class Unclean(DynamoError):
    """EXIT must not be sent any more: only close the stream."""


def login(name: str = "", timeout: float = 0.0) -> Generator[Step, Answer, ManagerInfo]:
    """Run the login connection; return the ManagerInfo.

    Refuses another version and, if `name` is set, another dynamo.
    """
    answer = yield Send("waiting for dynamo to log in", (), "MD", timeout)
    greeting, info = (
        wire.decode_message(answer.parts[0]),
        messages.decode_manager_info(answer.parts[1]),
    )
    if greeting.purpose != wire.LOGIN:
        raise DynamoError(
            "protocol", f"a login begins with LOGIN, not with {greeting.purpose_name}"
        )
    is_supported = wire.is_supported_version(greeting.data, info.size)
    ours = not name or info.name == name
    reply = wire.LOGIN_OK if is_supported and ours else wire.WRONG_VERSION
    yield Send("answering the login", (Message(wire.LOGIN, reply).encode(),))
    if not is_supported:
        raise DynamoError(
            "version",
            f"this dynamo is {info.version!r} (0x{greeting.data & 0xFFFFFFFF:08x}, data messages "
            f"of {info.size} bytes); only 1.1.0 is supported (0x{wire.VERSION_1_1_0:08x}, "
            f"{wire.DATA_BYTES} bytes): use the 1.1.0 build",
        )
    if not ours:
        raise DynamoError(
            "stranger", f"another dynamo, {info.name!r}, logged in instead of {name!r}"
        )
    return info


def session(tests: Sequence[Trial], report: bool = False) -> Script:
    """Run the whole control connection: each test, then EXIT. With `report`, first a TargetsReported event.

    A report makes dynamo touch every mounted file system and open every unmounted disk of that machine.
    """
    try:
        if report:
            yield from report_targets()
        yield from run_tests(tests)
    except Unclean:
        raise
    except DynamoError:
        yield from exit_dynamo()
        raise
    yield from exit_dynamo()


def lent_session(test: Trial) -> Script:
    """Run one test of a dynamo that continues afterwards: it forgets its workers, and logs in again."""
    try:
        yield from run_tests([test])
    except Unclean:
        raise
    except DynamoError:
        yield from reset_dynamo()
        raise
    yield from reset_dynamo()


def run_tests(tests: Sequence[Trial]) -> Script:
    """Tests one after another; workers are added where one needs more, and have no targets where one needs fewer."""
    workers = 0
    for test in tests:
        if len(test.workers) > workers:
            yield from add_workers(len(test.workers) - workers)
            workers = len(test.workers)
        nobody: Tuple[Tuple[Target, ...], ...] = ((),) * (workers - len(test.workers))
        yield Emit(Phase("set up"))
        yield from set_up_test(test._replace(workers=test.workers + nobody))
        yield from run_test(test)


def set_up_test(test: Trial) -> Script:
    """Accesses, targets and (where some are not ready) files; then all again, as the original console does."""
    yield from _set_all_access(test)
    if any(test.prepare):
        for worker in range(len(test.workers)):
            targets = test.prepare[worker] if worker < len(test.prepare) else ()
            yield from set_targets(worker, targets)
        yield from prepare_files()
        yield Pause(CHECK_PREPARED)
        yield from _set_all_access(test)
    for worker, targets in enumerate(test.workers):
        yield from set_targets(worker, targets)


def _set_all_access(test: Trial) -> Script:
    for worker in range(len(test.workers)):
        yield from set_access(worker, test.access)


def run_test(test: Trial) -> Script:
    """Run a test from START to the results. Afterwards no I/O runs, or Unclean is raised."""
    yield Emit(Phase("start"))
    try:
        yield from start_workers()
    except Cancelled:
        raise Unclean("cancelled", "stopped on request") from None
    recording = [False]
    try:
        yield from begin_io(len(test.active))
        yield from record_test(test, recording)
    except Cancelled:
        yield from stop_io(recording[0])
        raise
    yield Emit(Phase("stop"))
    yield from stop_io(False)
    yield Emit(Phase("results"))
    yield from request_results(wire.REPORT_RESULTS, test.active)


def record_test(test: Trial, recording: List[bool]) -> Script:
    """Ramp, then recorded time with an update every `poll` seconds. recording[0]: RECORD_OFF is still to be sent.

    An update costs the machine that is measured 0.85 MiB for each worker and one more. Where that takes long (many
    workers, a busy CPU, a slow line) the next one is put off, so that no more than BUSY of the time goes into them.
    """
    now = yield Emit(Phase("ramp"))
    if test.ramp:
        yield Sleep(now + test.ramp)
    yield Emit(Phase("record"))
    yield Pause(BEFORE_RECORDING)
    recording[0] = True
    answer = yield Send("switching recording on", (Message(wire.RECORD_ON, ALL_WORKERS).encode(),))
    number = 1
    while test.poll and number * test.poll <= test.duration * (1 + 1e-9):
        yield Sleep(answer.sent_at + number * test.poll)
        came = yield from request_results(wire.REPORT_UPDATE, test.active)
        # After a late or long update, those that are overdue or due too soon are skipped.
        rested = came.sent_at + (came.times[-1] - came.sent_at) / BUSY - answer.sent_at
        number = max(number + 1, math.ceil(rested / test.poll - 1e-9))
    yield Sleep(answer.sent_at + test.duration)
    recording[0] = False
    yield from record_off()


def record_off() -> Script:
    yield from _request(wire.RECORD_OFF, ALL_WORKERS, "switching recording off", SHORT)


def stop_io(recording: bool) -> Script:
    """End all I/O; dynamo answers when the last one has completed."""
    if recording:
        yield from record_off()
    activity = "waiting for the outstanding I/Os to end (a disk or server may hang)"
    yield from _request(wire.STOP, ALL_WORKERS, activity, STOPPING)


def exit_dynamo() -> Script:
    """End dynamo. Only allowed while no I/O runs."""
    yield Emit(Phase("exit"))
    yield Send("sending EXIT", (Message(wire.EXIT, MANAGER).encode(),))


def reset_dynamo() -> Script:
    """Have dynamo forget its workers and log in again on the same port. Only allowed while no I/O runs."""
    yield Send("sending RESET", (Message(wire.RESET, MANAGER).encode(),))


def report_targets() -> Script:
    request = Message(wire.REPORT_TARGETS, MANAGER).encode()
    answer = yield Send("asking for the targets", (request,), "DDD", LOOKING)
    disks, networks, _ = map(messages.decode_targets, answer.parts)
    yield Emit(TargetsReported(disks, networks))


def add_workers(count: int) -> Script:
    reply = yield from _request(wire.ADD_WORKERS, count, f"adding {count} workers", SHORT)
    if reply.data != count:
        raise DynamoError("refused", f"dynamo made {reply.data} of {count} workers")


def set_access(worker: int, spec: AccessSpec) -> Script:
    activity = f"setting the access specification of worker {worker + 1}"
    reply = yield from _request(wire.SET_ACCESS, worker, activity, SHORT, spec.encode())
    if reply.data != 1:
        raise DynamoError("refused", f"{activity}: dynamo has no memory for its buffer")


def set_targets(worker: int, targets: Sequence[Target]) -> Script:
    parts = Message(wire.SET_TARGETS, worker).encode(), messages.encode_targets(targets)
    activity = f"setting the targets of worker {worker + 1}"
    answer = yield Send(activity, parts, "MD", SHORT)
    reply = _expect_reply(answer, (wire.SET_TARGETS,), activity)
    if reply.data != 1:
        names = ", ".join(target.name for target in targets)
        raise DynamoError(
            "refused",
            f"{activity} ({names}): dynamo refused. A directory is missing or not writable, a device "
            "cannot be opened, the file system has no O_DIRECT, or all AIO slots are taken (sysctl "
            "fs.aio-max-nr)",
        )


def prepare_files() -> Script:
    """Have dynamo lay out the files, without a time limit. It checks every 3 s and can be cancelled."""
    yield Emit(Phase("prepare"))
    activity = "preparing the files"
    request = Message(wire.PREP_DISKS, ALL_WORKERS).encode()
    cancel = Message(wire.STOP_PREPARE, ALL_WORKERS).encode()
    answer = yield Send(activity, (request,), "M", 0.0, cancel)
    reply = _expect_reply(answer, (wire.PREP_DISKS, wire.STOP_PREPARE), activity)
    if reply.data != 1:
        raise DynamoError(
            "refused", f"{activity}: dynamo could not start; is the directory writable?"
        )


def start_workers() -> Script:
    reply = yield from _request(wire.START, ALL_WORKERS, "starting the workers", SHORT)
    if reply.data != 1:
        raise Unclean("refused", "dynamo did not start its workers")


def begin_io(active: int) -> Script:
    """Start the I/O."""
    activity = "opening the targets"
    reply = yield from _request(wire.BEGIN_IO, ALL_WORKERS, activity, OPENING)
    if reply.data != 1:
        # With several workers, some may have begun; with one, EXIT was seen to be safe.
        kind = DynamoError if active <= 1 else Unclean
        raise kind(
            "refused", f"{activity}: dynamo could not open one; is its directory still there?"
        )


def request_results(purpose: int, active: Tuple[int, ...]) -> Generator[Step, Answer, Answer]:
    request = Message(purpose, MANAGER).encode()
    activity = "asking for results" if purpose == wire.REPORT_RESULTS else "asking for an update"
    timeout = SHORT + PER_WORKER * len(active)
    answer = yield Send(activity, (request,), "D" * (1 + len(active)), timeout)
    yield Emit(ResultsReported(purpose, active, answer))
    return answer


def _request(
    purpose: int, data: int, activity: str, timeout: float, payload: bytes = b""
) -> Generator[Step, Answer, Message]:
    request = Message(purpose, data).encode()
    answer = yield Send(activity, (request, payload) if payload else (request,), "M", timeout)
    return _expect_reply(answer, (purpose,), activity)


def _expect_reply(answer: Answer, purposes: Sequence[int], activity: str) -> Message:
    reply = wire.decode_message(answer.parts[0])
    if reply.purpose not in purposes:
        raise Unclean(
            "protocol",
            f"{activity}: dynamo answered {reply.purpose_name} {reply.data}: out of sync with it",
        )
    return reply

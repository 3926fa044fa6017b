# SPDX-License-Identifier: Apache-2.0
"""One dynamo that logged in by itself, from a login to its end or to its next login.

It logs in, says which disks there are, and then waits until the engine has an attempt for it. The attempt's session
begins with that login, so that its transcript is whole; after the test dynamo forgets everything and logs in again.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import time
from collections import Counter
from typing import Any, Protocol

from django.db import close_old_connections
from django.utils import timezone

from agents import options as driver_options
from agents.dynamo import script, specs, transcript
from agents.dynamo.console import Paused
from agents.dynamo.link import Transport, Updates, connect_back
from agents.dynamo.messages import ACTIVE, LOGICAL, PHYSICAL, AccessSpec, Disk, ManagerInfo, Target
from agents.dynamo.script import Phase, TargetsReported
from agents.dynamo.script import ResultsReported as Report
from agents.dynamo.specs import Trial
from agents.dynamo.tunnel import Halt
from agents.dynamo.wire import REPORT_UPDATE, DynamoError
from agents.tools import dynamo
from agents.tools.dynamo import SLOWEST_LAYOUT, Options, access_lines, poll_s
from benchlab.dynamo import dynamo_player, reported_hosts
from benchlab.dynamo.models import DynamoLogin, Reported
from benchlab.dynamo.reported_hosts import Claim, Claims, Entry, claim_of, register_dynamo
from benchlab.engine.commands import wake_layouts
from benchlab.hosts.models import Host
from benchlab.runs import transitions
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase
from benchlab.team.models import Team
from benchlab.workers.lease import Lock, lease

# s more
EXTRA_SECONDS = 120.0


def build_trial(options: Options, name: str, raw: bool, sector: int, prepare: bool) -> Trial:
    """Checked as far as anybody can who sees nothing of that machine. Raises DynamoError."""
    sector = sector if sector >= 512 else 512
    if not options.size:
        raise DynamoError("options", "size: required, because dynamo does not report one")
    many = options.targets * (options.workers if options.own_targets else 1)
    if not raw and many > 1:
        raise DynamoError(
            "options",
            f"{many} targets: {name} has one file, dynamo's own; use one target and more workers",
        )
    if options.size % sector:
        raise DynamoError("options", f"size: {options.size} is not a multiple of {sector}")
    share = options.targets
    workers = tuple(
        tuple(
            _build_target(
                options,
                name,
                raw,
                sector,
                worker,
                number,
                number + worker * share * options.own_targets,
            )
            for number in range(share)
        )
        for worker in range(options.workers)
    )
    first = (workers[0], *((),) * (options.workers - 1)) if prepare else ()
    lines = access_lines(options)
    label = f"{lines[0].size} B" if len(lines) == 1 else f"{len(lines)} lines"
    trial = Trial(
        AccessSpec(label, lines),
        workers,
        first,
        float(options.ramp_s),
        float(options.runtime_s),
        poll_s(options),
    )
    specs.check_trial(trial, sector if raw else 512)
    return trial


def longest_preparation(options: Options) -> float:
    """Seconds; dynamo never ends one on a full file system, and does not say how full it is."""
    return options.size / SLOWEST_LAYOUT + EXTRA_SECONDS


def _build_target(
    options: Options, name: str, raw: bool, sector: int, worker: int, number: int, slice_: int
) -> Target:
    sectors = options.size // sector
    disk = Disk(sector_size=sector, maximum_size=sectors, starting_sector=slice_ * sectors)
    seed = specs.target_seed(options.seed, worker, number)
    kind = (PHYSICAL if raw else LOGICAL) | ACTIVE
    return Target(name, kind, disk, options.outstanding_ios, options.data_pattern, 1, seed)


log = logging.getLogger(__name__)

# between two looks whether there is work
ASK_S = 1.0
ALIVE_S = 5.0
clock = time.monotonic
# A dynamo from its start to its end: where from, its name, its own port
Process = tuple[str, str, int]


class Door(Protocol):
    """Check that lets dynamos in. `slots`: outstanding I/Os that each was given so far."""

    halt: Halt
    slots: Counter[Process]
    claims: Claims

    def is_allowed(self, address: str) -> bool: ...

    def admit(self, stream: socket.socket) -> None: ...


class _ListenerTransport(Transport):
    """Streams are given; with the engine's word that this attempt is over, it comes to rest."""

    # Nobody ends a far dynamo but itself, and one that loses its connection while it prepares goes mad over it.
    ENDING = 8.0
    # 0.85 MiB, on whatever line that machine has; nobody waits behind it
    GREETING = 30.0

    @property
    def stream(self) -> socket.socket:
        assert self._stream is not None
        return self._stream


class DynamoSession:
    """One dynamo from a login to its end, or to the next login."""

    def __init__(self, door: Door, team: Team, peer: str) -> None:
        self._door, self._team, self._peer = door, team, peer
        self._kept: list[bytes] = []
        self._began = clock()
        self._writer = transcript.Writer(self._kept.append, self._began)
        self._seen: tuple[Target, ...] = ()
        self._attempt: Attempt | None = None
        self._options: Any = None
        self._phase, self._since, self._alive, self._asked = "", 0.0, 0.0, 0.0
        self._updates = Updates()
        self._process: Process = (peer, "", 0)
        self._claim: Claim | None = None
        self._entry = Entry.NEW
        self._host: Host | None = None
        self._row: Reported | None = None

    def run_session(self, stream: socket.socket) -> None:
        with _ListenerTransport(
            self._writer, self._door.halt, self._handle_event, self._idle
        ) as talk:
            info = talk.receive_login(stream)
            self._door.admit(stream)
            self._updates.ticks = info.ticks
            self._process = (self._peer, info.name, info.port)
            talk.switch_to_control(self._open_control(info))
            self._claim_place(talk, claim_of(info, self._peer))
            try:
                self._serve_dynamo(talk, info)
            finally:
                self._release_claim()

    def _claim_place(self, talk: _ListenerTransport, claim: Claim) -> None:
        """Take this dynamo's place, or end it if another one has it: raises DynamoError."""
        port = self._process[2]
        entry = self._door.claims.acquire_claim(claim, port)
        if entry is not None:
            self._claim, self._entry = claim, entry
            return
        message = reported_hosts.note_refusal(claim, port, self._team.pk)
        talk.run_script(script.exit_dynamo())
        raise DynamoError("stranger", message)

    def _release_claim(self, seconds: float = 0.0) -> None:
        if self._claim is not None:
            self._door.claims.release_claim(self._claim, seconds)
            self._claim = None

    def _serve_dynamo(self, talk: _ListenerTransport, info: ManagerInfo) -> None:
        talk.run_script(script.report_targets())
        self._host = register_dynamo(self._team, info, self._peer, self._seen, self._entry)
        log.info(
            "dynamo %s at %s logged in, with %d targets", info.name, self._peer, len(self._seen)
        )
        attempt = self._await_attempt(talk.stream)
        if attempt is not None:
            self._attempt = attempt
            self._run_attempt(talk)

    def _open_control(self, info: ManagerInfo) -> socket.socket:
        """Connect to the address that dynamo reports if that is allowed, else to the address it came from."""
        reported = info.address
        with contextlib.suppress(OSError):
            reported = socket.gethostbyname(info.address) if info.address else ""
        address = reported if self._door.is_allowed(reported) else self._peer
        halt = self._door.halt
        try:
            return connect_back((address, info.port), lambda: halt.stopped)
        except DynamoError:
            if address == self._peer:
                raise
            return connect_back((self._peer, info.port), lambda: halt.stopped)

    def _await_attempt(self, stream: socket.socket) -> Attempt | None:
        """Until the engine has an attempt for it; None when dynamo leaves, or we do."""
        assert self._host is not None
        while not self._door.halt.stopped:
            watched: list[Any] = [stream, self._door.halt]
            if stream in select.select(watched, [], [], ASK_S)[0]:
                # it says nothing unless asked: it is gone
                return None
            close_old_connections()
            self._say_alive()
            if not self._is_accepted():
                continue
            starting = Attempt.objects.filter(layout__host=self._host, phase=AttemptPhase.STARTING)
            if attempt := starting.select_related("run", "layout__campaign").first():
                return attempt
        return None

    def _is_accepted(self) -> bool:
        """True if a person accepted this very dynamo as the host."""
        port = self._process[2]
        rows = DynamoLogin.objects.filter(host=self._host, port=port, accepted_port=port)
        return rows.exists()

    def _say_alive(self) -> None:
        assert self._host is not None
        now = clock()
        if now - self._alive >= ALIVE_S:
            self._alive = now
            Host.objects.filter(pk=self._host.pk).update(
                seen_at=timezone.now(), trouble="", trouble_text=""
            )

    def _run_attempt(self, talk: _ListenerTransport) -> None:
        assert self._attempt is not None
        attempt = self._attempt
        with lease(attempt.pk, Lock.ATTEMPT) as held:
            if not held:
                return
            try:
                transitions.move_attempt(
                    attempt,
                    AttemptPhase.RUNNING,
                    f"{self._host} has it",
                    argv=["dynamo", self._target_name],
                    seen_at=timezone.now(),
                    meta={"console": "BenchLab's listener"},
                )
            except transitions.Moved:
                return
            try:
                self._play(talk)
            finally:
                # It logs in again at once, before all is stored.
                self._release_claim(reported_hosts.REJOIN_S)
                dynamo_player.store_transcript(
                    attempt, b"".join(self._kept), AttemptPhase.COLLECTING
                )
                wake_layouts(attempt.layout_id)

    def _play(self, talk: _ListenerTransport) -> None:
        """Writes the end of the transcript, whatever it is."""
        try:
            trial = self._trial()
        except DynamoError as error:
            # nothing was begun: it logs in again, for another try
            talk.run_script(script.reset_dynamo())
            self._writer.write_end(clock(), error.kind, str(error))
            return
        self._door.slots[self._process] += specs.aio_slot_count(trial)
        try:
            talk.run_script(script.lent_session(trial))
        except DynamoError as error:
            self._writer.write_end(clock(), error.kind, f"{error}{self._slots_hint(error)}")
            return
        self._writer.write_end(clock(), transcript.COMPLETED)

    def _slots_hint(self, error: DynamoError) -> str:
        """Hint that dynamo on Linux may have used up its slots of asynchronous I/O."""
        if error.kind != "refused":
            return ""
        slots = self._door.slots[self._process]
        return f"; since it started, this one was given {slots}, and only restarting it frees them"

    @property
    def _target_name(self) -> str:
        assert self._attempt is not None
        return str(self._attempt.layout.stack[0]["options"]["target"])

    def _trial(self) -> Trial:
        """Checked against what was reported a moment ago. Raises DynamoError."""
        assert self._attempt is not None and self._host is not None
        built = driver_options.build_options(dynamo.Options, self._attempt.run.options)
        name = self._target_name
        row = Reported.objects.filter(host=self._host, name=name).first()
        target = next((disk for disk in self._seen if disk.is_disk and disk.name == name), None)
        self._check_target(name, target, row)
        assert row is not None and target is not None
        self._options, self._row = built, row
        disk: Any = target.details
        raw, prepare = target.is_raw, not target.is_raw and not disk.ready
        size = disk.maximum_size * disk.sector_size
        if size and size < built.size:
            raise DynamoError(
                "host",
                f"{name} has {size} bytes as dynamo reports it, fewer than size: {built.size}",
            )
        if not raw and not prepare and row.prepared < built.size:
            raise DynamoError(
                "host",
                f"{name} has an iobw.tst of which BenchLab knows only {row.prepared} of {built.size} bytes: "
                "dynamo would use it as it is. Delete that file on the machine, so that it is laid out anew",
            )
        if prepare:
            Reported.objects.filter(pk=row.pk).update(prepared=0)
        return build_trial(built, name, raw, disk.sector_size, prepare)

    def _check_target(self, name: str, target: Target | None, row: Reported | None) -> None:
        """Raises DynamoError unless this very dynamo reported the target, and a person lets it be used."""
        if not self._is_accepted():
            raise DynamoError("host", f"this dynamo (id {self._process[2]}) is not accepted as it")
        if target is None or row is None or row.raw != target.is_raw:
            raise DynamoError("host", f"{name} is not reported by this dynamo any more")
        if row.is_laid_out_short:
            raise DynamoError("host", f"{name}: {specs.SHORT}")
        if not row.usable:
            raise DynamoError("host", f"{name} is not marked spare")

    def _handle_event(self, event: Any, now: float) -> str:
        if isinstance(event, TargetsReported):
            self._seen = event.disks
        if isinstance(event, Phase):
            self._phase, self._since = event.name, now
            self._updates.reset()
            self._publish_line(now, {})
        if isinstance(event, Report) and event.purpose == REPORT_UPDATE:
            self._publish_line(now, self._updates.update_figures(event))
        if (
            isinstance(event, Paused)
            and event.reason == script.CHECK_PREPARED
            and self._row is not None
        ):
            # As dynamo says; how long its file really is, nobody can see but that machine.
            Reported.objects.filter(pk=self._row.pk).update(prepared=self._options.size, ready=True)
        return ""

    def _publish_line(self, now: float, more: dict[str, Any]) -> None:
        if self._attempt is not None:
            dynamo_player.publish_line(
                self._attempt, {"t": now - self._began, "phase": self._phase, **more}
            )

    def _idle(self, now: float) -> str:
        """Reason why this test must not go on; "" while it may."""
        if self._host is not None:
            self._say_alive()
        if self._attempt is None or now < self._asked + ASK_S:
            return ""
        self._asked = now
        phase = Attempt.objects.values_list("phase", flat=True).get(pk=self._attempt.pk)
        if phase != AttemptPhase.RUNNING:
            return "the attempt was ended"
        limit = longest_preparation(self._options) if self._options else 0.0
        if self._phase == "prepare" and now - self._since > limit:
            return f"preparing took longer than {limit:.0f} s: that disk is full, or hangs"
        return ""

# SPDX-License-Identifier: Apache-2.0
"""The console played from afar, for a host without Python 3.6: dynamo runs there, its streams come through SSH.

dynamo and the samplers are a detached job like any other, so that they and their output survive our end; but the
session runs here, so if this process dies, the test is lost. A stored transcript is complete or marked incomplete.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

from agents.contracts import AgentError, Job, Shell
from agents.dynamo import areas, process, remote_probe, transcript
from agents.dynamo.areas import TestSettings
from agents.dynamo.console import Paused
from agents.dynamo.link import CONNECTING, LOGGING_IN, RETRY, StopSignal, Transport, Updates, clock
from agents.dynamo.messages import ManagerInfo
from agents.dynamo.remote_probe import RemoteHost
from agents.dynamo.script import BEFORE_RECORDING, Phase, ResultsReported, session
from agents.dynamo.specs import Trial
from agents.dynamo.wire import REPORT_UPDATE, DynamoError
from agents.ssh.shell import Tunnel

LOOPBACK = "127.0.0.1"
LOST, ENDED = "the SSH connection was lost", "dynamo ended before it logged in"


class Halt(StopSignal):
    """A stop signal that another thread sets, as this one receives no signals."""

    def request_stop(self) -> None:
        self.stopped = True
        with contextlib.suppress(OSError):
            self._there.send(b"!")


class _TunnelTransport(Transport):
    # over a slow line
    GREETING = 60.0

    def __init__(
        self,
        tunnel: Tunnel,
        writer: transcript.Writer,
        stopper: StopSignal,
        event: Callable[[object, float], str],
        idle: Callable[[float], str],
    ) -> None:
        super().__init__(writer, stopper, event, idle)
        self._tunnel = tunnel

    def _accept_login(self, until: float, ended: Callable[[], bool]) -> socket.socket:
        while clock() < until:
            stream = self._tunnel.accept_stream(0.5)
            if self._stopper.stopped:
                raise DynamoError("cancelled", "stopped on request")
            if stream is not None:
                return stream
            if self._tunnel.lost:
                raise DynamoError("host", LOST)
            if ended():
                raise DynamoError("host", ENDED)
        raise DynamoError("timeout", f"dynamo did not log in within {LOGGING_IN:.0f} s")

    def _connect_back(self, info: ManagerInfo, ended: Callable[[], bool]) -> socket.socket:
        """Connect to dynamo. It listens only a moment after it has read our answer, so the first tries may fail."""
        until = clock() + CONNECTING
        while True:
            try:
                return self._tunnel.connect_port(info.port)
            except OSError as error:
                if clock() > until or self._tunnel.lost or self._stopper.stopped:
                    raise DynamoError("host", f"cannot connect back to dynamo: {error}") from None
            self._stopper_wait()

    def _stopper_wait(self) -> None:
        stray = self._tunnel.accept_stream(RETRY)
        if stray is not None:
            stray.close()


def check_remote(shell: Shell, work: Job, config: bytes) -> None:
    """Check everything that can be checked before the start. Raises DynamoError or AgentError."""
    settings = areas.parse_settings(json.loads(config))
    looked = remote_probe.probe_host(RemoteHost(shell, work.root), settings)
    remote_probe.build_trial(settings, looked)


class Session:
    """One test on one host. Create it, start `job` there, then `play`; `close` in any case.

    `play` returns when the test ends, with the transcript (transcript.py), which shows whether it is complete.
    """

    def __init__(self, shell: Shell, tunnel: Tunnel, work: Job, config: bytes) -> None:
        """Take the tool's `work` for a console beside dynamo. Raises DynamoError or AgentError."""
        self._far, self._tunnel = RemoteHost(shell, work.root), tunnel
        self.settings: TestSettings = areas.parse_settings(json.loads(config))
        self._looked = remote_probe.probe_host(self._far, self.settings)
        self._trial: Trial = remote_probe.build_trial(self.settings, self._looked)
        self._name = f"{self.settings.name}-{secrets.token_hex(6)}"
        self._work = work
        self._laid_out = False

    @property
    def remote_job(self) -> Job:
        """The detached job that starts dynamo there. `play` makes its directories first."""
        looked = self._looked
        way = ("-i", LOOPBACK, "-m", LOOPBACK, "-p", str(self._tunnel.port), "-n", self._name)
        argv: tuple[str, ...] = (looked.binary, *way)
        many = looked.cpus > process.MAX_CPUS
        if many or not looked.resolves:
            if not self._work.root:
                raise DynamoError("host", process.root_required_message(many))
            argv = tuple(
                process.private_command(argv, "cpuinfo" if many else "", not looked.resolves)
            )
        paths = sorted({area.path for area in looked.areas if not area.raw})
        table = "".join(f"none {path} ext4 rw 0 0\n" for path in paths)
        inputs = {"mnttab": table.encode()}
        if many:
            blocks = self._far.read_file("/proc/cpuinfo").strip().split("\n\n")[: process.MAX_CPUS]
            inputs["cpuinfo"] = "".join(block + "\n\n" for block in blocks).encode()
        env = {"LC_ALL": "C", "MNTTAB": "mnttab"}
        return replace(self._work, argv=argv, outputs=(), inputs=inputs, env=env)

    def play(
        self, halt: Halt, ended: Callable[[], bool], publish: Callable[[Mapping[str, object]], None]
    ) -> bytes:
        """Run the test. `ended` is true once the job is over; `tell` gets live figures about once a second."""
        chunks: list[bytes] = []
        began = clock()
        writer = transcript.Writer(chunks.append, began)
        place = self._looked.place
        notes = {
            "cpus": self._looked.cpus,
            "sha256": self._looked.sha256,
            "size": self.settings.size,
        }
        writer.write_note(
            began, {**notes, "sector": place.sector, "block": place.block, "far": True}
        )
        live = _RemoteLive(began, publish)

        def event(console_event: object, now: float) -> str:
            live.handle_event(console_event, now)
            return self._handle_event(writer, console_event, now)

        try:
            self._lay_out(halt, ended, live)
            with _TunnelTransport(self._tunnel, writer, halt, event, self._idle) as talk:
                live.updates.ticks = talk.log_in(self._name, ended).ticks
                talk.run_script(session([self._trial]))
        except (DynamoError, AgentError, OSError) as error:
            kind = error.kind if isinstance(error, DynamoError) else "host"
            writer.write_end(clock(), kind, str(error))
            self._tidy(failed=True)
            return b"".join(chunks)
        writer.write_end(clock(), transcript.COMPLETED)
        self._tidy(failed=False)
        return b"".join(chunks)

    def _lay_out(self, halt: Halt, ended: Callable[[], bool], live: _RemoteLive) -> None:
        """Lay out the files while the started dynamo waits in its login; cancelling the run ends it."""

        def watch(written: int, total: int) -> None:
            if halt.stopped:
                raise DynamoError("cancelled", "stopped on request")
            if self._tunnel.lost:
                raise DynamoError("host", LOST)
            if ended():
                raise DynamoError("host", ENDED)
            live.laid_out(written, total, clock())

        if self._looked.unready:
            live.handle_event(Phase("prepare"), clock())
            remote_probe.lay_out(self._far, self._looked, self.settings.pattern, watch)
        trouble = remote_probe.layout_error(self._far, self.settings)
        if trouble:
            raise DynamoError("host", trouble)
        self._laid_out = True

    def _handle_event(self, writer: transcript.Writer, event: object, now: float) -> str:
        if isinstance(event, Phase) and event.name == "stop":
            self._note_disk_counts(writer, "after")
        if isinstance(event, Paused) and event.reason == BEFORE_RECORDING:
            self._note_disk_counts(writer, "before")
        return ""

    def _note_disk_counts(self, writer: transcript.Writer, when: str) -> None:
        """Note the kernel's counts so far with the host's time, as the query itself takes time."""
        device = self._looked.place.device
        if device:
            at, counted = remote_probe.read_disk_counts(self._far, device)
            writer.write_note(clock(), {f"diskstats_{when}": counted, f"counted_{when}": at})

    def _idle(self, now: float) -> str:
        """Reason why this cannot go on; "" while it can."""
        return LOST if self._tunnel.lost else ""

    def _tidy(self, failed: bool) -> None:
        """Remove incomplete files. If the host no longer answers, the layout's teardown removes them."""
        with contextlib.suppress(DynamoError, AgentError):
            if not self.settings.keep:
                remote_probe.remove_files(self._far, self._looked, self._looked.areas)
            elif failed and not self._laid_out:
                remote_probe.remove_files(self._far, self._looked, self._looked.unready)


class _RemoteLive:
    """Phases and each second's figures, as Live writes them beside dynamo."""

    def __init__(self, began: float, publish: Callable[[Mapping[str, object]], None]) -> None:
        self.updates = Updates()
        self._began, self._tell, self._phase = began, publish, ""

    def handle_event(self, event: object, now: float) -> None:
        if isinstance(event, Phase):
            self._phase = event.name
            self.updates.reset()
            self._tell({"t": now - self._began, "phase": self._phase})
        elif isinstance(event, ResultsReported) and event.purpose == REPORT_UPDATE:
            more = self.updates.update_figures(event)
            self._tell({"t": now - self._began, "phase": self._phase, **more})

    def laid_out(self, written: int, total: int, now: float) -> None:
        self._tell({"t": now - self._began, "phase": self._phase, "done": written / total})

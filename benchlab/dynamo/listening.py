"""IOmeter's console for dynamos that log in by themselves, as they would to IOmeter: `manage.py dynamo_listener`.

The protocol has no passwords and no encryption: whoever reaches the port is believed, and whoever reaches dynamo's own
port commands it. So only addresses that were allowed are spoken to, in both directions.

Each dynamo has a thread. It logs in, says which disks there are, and then waits until the engine has an attempt for it.
The attempt's session begins with that login, so that its transcript is whole; after the test dynamo forgets everything
and logs in again.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import select
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, close_old_connections, connection, transaction
from django.utils import timezone

from agents import options as driver_options
from agents.dynamo import reported, script, transcript
from agents.dynamo.console import Paused
from agents.dynamo.link import Talk, connected, tuned
from agents.dynamo.live import figures_of
from agents.dynamo.messages import ManagerInfo, Target
from agents.dynamo.script import Phase, Seen
from agents.dynamo.script import Reported as Report
from agents.dynamo.specs import Trial
from agents.dynamo.tunnel import Halt
from agents.dynamo.wire import REPORT_UPDATE, DynamoError
from agents.tools import dynamo
from benchlab.dynamo.models import Reported
from benchlab.hosts import reported as facts
from benchlab.hosts.models import Host
from benchlab.runs import byhand, moves
from benchlab.runs.commands import nudge
from benchlab.runs.lease import PLAYING, lease
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase
from benchlab.team.models import Team

log = logging.getLogger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ASK_S = 1.0  # between two looks whether there is work
ALIVE_S = 5.0
MOST_DYNAMOS = 64
clock = time.monotonic


class Settings(Exception):
    """The environment does not say where to listen, or whom to; the text says what is missing."""


def where(listen: str) -> tuple[str, int]:
    """Of "address:port". Raises Settings."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) < 65536:
        raise Settings(
            f"BENCHLAB_DYNAMO_LISTEN: {listen!r} is not address:port, such as 0.0.0.0:1066"
        )
    return host.strip("[]"), int(port)


def networks(allowed: Iterable[str]) -> tuple[Network, ...]:
    """Raises Settings: nobody at all may log in without a list."""
    try:
        found = tuple(ipaddress.ip_network(word) for word in allowed)
    except ValueError as error:
        raise Settings(f"BENCHLAB_DYNAMO_ALLOW: {error}") from None
    if not found:
        raise Settings(
            "BENCHLAB_DYNAMO_ALLOW is empty: name the addresses of the machines with dynamo"
        )
    if any(network.prefixlen == 0 for network in found):
        raise Settings(
            "BENCHLAB_DYNAMO_ALLOW: everybody is not a list; the protocol has no passwords"
        )
    return found


def team_for(name: str) -> Team:
    """Whose hosts the dynamos become. Raises Settings."""
    rows = Team.objects.filter(library=False).order_by("pk")
    found = rows.filter(name=name).first() if name else rows.first()
    if found is None:
        raise Settings(
            f"BENCHLAB_DYNAMO_TEAM: there is no team named {name!r}"
            if name
            else "there is no team yet"
        )
    return found


class Listener:
    """Accepts dynamos until `stop`. Raises Settings or OSError when made."""

    def __init__(self, listen: str, allowed: Iterable[str], team: str) -> None:
        self._allowed = networks(allowed)
        self._team = team_for(team)
        host, port = where(listen)
        self._socket = socket.create_server((host, port), backlog=16)
        self.port: int = self._socket.getsockname()[1]
        self.halt = Halt()
        self._threads: set[threading.Thread] = set()

    def allows(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self._allowed)

    def run(self) -> None:
        while not self.halt.stopped:
            watched: list[Any] = [self._socket, self.halt]
            ready = select.select(watched, [], [], 1.0)[0]
            if self._socket in ready:
                self._take(*self._socket.accept())
        self._socket.close()
        for thread in list(self._threads):
            thread.join(10.0)
        if not any(thread.is_alive() for thread in self._threads):
            self.halt.close()

    def stop(self) -> None:
        self.halt.stop()

    def _take(self, stream: socket.socket, peer: Any) -> None:
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        if not self.allows(peer[0]) or len(self._threads) >= MOST_DYNAMOS:
            log.warning(
                "a connection from %s is refused: BENCHLAB_DYNAMO_ALLOW does not have it", peer[0]
            )
            stream.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(stream, peer[0]), daemon=True, name=f"dynamo {peer[0]}"
        )
        self._threads.add(thread)
        thread.start()

    def _serve(self, stream: socket.socket, peer: str) -> None:
        try:
            Seat(self, self._team, peer).sit(tuned(stream))
        except DynamoError as error:
            log.warning("dynamo at %s: %s", peer, error)
        except Exception:
            log.exception("dynamo at %s", peer)
        finally:
            stream.close()
            connection.close()


class _Talk(Talk):
    """Streams are given; with the engine's word that this attempt is over, it comes to rest."""

    @property
    def stream(self) -> socket.socket:
        assert self._stream is not None
        return self._stream


class Seat:
    """One dynamo from a login to its end, or to the next login."""

    def __init__(self, listener: Listener, team: Team, peer: str) -> None:
        self._listener, self._team, self._peer = listener, team, peer
        self._kept: list[bytes] = []
        self._began = clock()
        self._writer = transcript.Writer(self._kept.append, self._began)
        self._seen: tuple[Target, ...] = ()
        self._attempt: Attempt | None = None
        self._options: Any = None
        self._phase, self._since, self._alive, self._asked = "", 0.0, 0.0, 0.0
        self._ticks = 0.0
        self._host: Host | None = None
        self._row: Reported | None = None

    def sit(self, stream: socket.socket) -> None:
        with _Talk(self._writer, self._listener.halt, self._event, self._idle) as talk:
            info = talk.greet(stream)
            self._ticks = info.ticks
            talk.turn_to(self._back(info))
            talk.talk(script.report_targets())
            self._host = register(self._team, info, self._peer, self._seen)
            log.info(
                "dynamo %s at %s logged in, with %d targets", info.name, self._peer, len(self._seen)
            )
            attempt = self._wait(talk.stream)
            if attempt is not None:
                self._attempt = attempt
                self._lend(talk)

    def _back(self, info: ManagerInfo) -> socket.socket:
        """To where it says that it listens, if that is allowed; else to where it came from."""
        said = info.address
        with contextlib.suppress(OSError):
            said = socket.gethostbyname(info.address) if info.address else ""
        address = said if self._listener.allows(said) else self._peer
        halt = self._listener.halt
        try:
            return connected((address, info.port), lambda: halt.stopped)
        except DynamoError:
            if address == self._peer:
                raise
            return connected((self._peer, info.port), lambda: halt.stopped)

    def _wait(self, stream: socket.socket) -> Attempt | None:
        """Until the engine has an attempt for it; None when dynamo leaves, or we do."""
        assert self._host is not None
        while not self._listener.halt.stopped:
            watched: list[Any] = [stream, self._listener.halt]
            if stream in select.select(watched, [], [], ASK_S)[0]:
                return None  # it says nothing unless asked: it is gone
            close_old_connections()
            self._say_alive()
            found = Attempt.objects.filter(layout__host=self._host, phase=AttemptPhase.STARTING)
            if attempt := found.select_related("run", "layout__campaign").first():
                return attempt
        return None

    def _say_alive(self) -> None:
        assert self._host is not None
        now = clock()
        if now - self._alive >= ALIVE_S:
            self._alive = now
            Host.objects.filter(pk=self._host.pk).update(
                seen_at=timezone.now(), trouble="", trouble_text=""
            )

    def _lend(self, talk: _Talk) -> None:
        assert self._attempt is not None
        attempt = self._attempt
        with lease(attempt.pk, PLAYING) as held:
            if not held:
                return
            try:
                moves.attempt(
                    attempt, AttemptPhase.RUNNING, f"{self._host} has it", argv=["dynamo", self._target],
                    seen_at=timezone.now(), meta={"console": "BenchLab's listener"},
                )  # fmt: skip
            except moves.Moved:
                return
            try:
                self._play(talk)
            finally:
                byhand.store(attempt, b"".join(self._kept), AttemptPhase.COLLECTING)
                nudge(attempt.layout_id)

    def _play(self, talk: _Talk) -> None:
        """Writes the end of the transcript, whatever it is."""
        try:
            trial = self._trial()
        except DynamoError as error:
            talk.talk(script.reset())  # nothing was begun: it logs in again, for another try
            self._writer.end(clock(), error.kind, str(error))
            return
        try:
            talk.talk(script.lent(trial))
        except DynamoError as error:
            self._writer.end(clock(), error.kind, str(error))
            return
        self._writer.end(clock(), transcript.DONE)

    @property
    def _target(self) -> str:
        assert self._attempt is not None
        return str(self._attempt.layout.stack[0]["options"]["target"])

    def _trial(self) -> Trial:
        """Checked against what was reported a moment ago. Raises DynamoError."""
        assert self._attempt is not None and self._host is not None
        built = driver_options.build(dynamo.Options, self._attempt.run.options)
        name = self._target
        row = Reported.objects.filter(host=self._host, name=name).first()
        if row is None or not row.usable:
            why = "is not marked spare" if row and row.present else "is not reported any more"
            raise DynamoError("host", f"{name} {why}")
        self._options, self._row = built, row
        prepare = not row.raw and not row.ready
        if not row.raw and row.ready and row.prepared < built.size:
            raise DynamoError(
                "host", f"{name} has an iobw.tst of which BenchLab knows only {row.prepared} of {built.size} bytes: "
                "dynamo would use it as it is. Delete that file on the machine, so that it is laid out anew",
            )  # fmt: skip
        if prepare:
            Reported.objects.filter(pk=row.pk).update(prepared=0)
        return reported.trial(built, name, row.raw, row.sector, prepare)

    def _event(self, event: Any, now: float) -> str:
        if isinstance(event, Seen):
            self._seen = event.disks
        if isinstance(event, Phase):
            self._phase, self._since = event.name, now
            self._tell(now, {})
        if isinstance(event, Report) and event.purpose == REPORT_UPDATE:
            self._tell(now, figures_of(event, self._ticks))
        if isinstance(event, Paused) and self._row is not None:
            # As dynamo says; how long its file really is, nobody can see but that machine.
            Reported.objects.filter(pk=self._row.pk).update(prepared=self._options.size, ready=True)
        return ""

    def _tell(self, now: float, more: dict[str, Any]) -> None:
        if self._attempt is not None:
            byhand.tell(self._attempt, {"t": now - self._began, "phase": self._phase, **more})

    def _idle(self, now: float) -> str:
        """Why this test must not go on."""
        if self._host is not None:
            self._say_alive()
        if self._attempt is None or now < self._asked + ASK_S:
            return ""
        self._asked = now
        phase = Attempt.objects.values_list("phase", flat=True).get(pk=self._attempt.pk)
        if phase != AttemptPhase.RUNNING:
            return "the attempt was ended"
        limit = reported.longest_preparation(self._options) if self._options else 0.0
        if self._phase == "prepare" and now - self._since > limit:
            return f"preparing took longer than {limit:.0f} s: that disk is full, or hangs"
        return ""


@transaction.atomic
def register(team: Team, info: ManagerInfo, peer: str, seen: Iterable[Target]) -> Host:
    """The host of this dynamo, with what it reports now."""
    host = _host(team, info.name or peer, peer)
    found = {target.name: target for target in seen if target.is_disk}
    host.reported.exclude(name__in=found).update(present=False)
    for name, target in found.items():
        disk: Any = target.details
        before = Reported.objects.filter(host=host, name=name).first()
        gone = {"prepared": 0} if before and not disk.ready else {}
        changed = {"spare_by": None, "spare_at": None} if before and not before.present else {}
        # A disk that went and came back may be another one: nobody has agreed to lose that.
        Reported.objects.update_or_create(
            host=host, name=name,
            defaults={"raw": target.is_raw, "ready": bool(disk.ready), "sector": max(disk.sector_size, 0),
                      "present": True, **gone, **changed},
        )  # fmt: skip
    facts.keep(host, info.processors)
    Host.objects.filter(pk=host.pk).update(seen_at=timezone.now(), trouble="", trouble_text="")
    return host


def _host(team: Team, name: str, peer: str) -> Host:
    """Known by its name and address; a name that another host has gets its address behind it."""
    known = Host.objects.filter(team=team, access=Host.Access.DYNAMO, address=peer)
    plain = "".join(letter for letter in name if letter.isprintable())[:70] or peer
    for wanted in (plain, f"{plain} ({peer})"):
        if found := known.filter(name=wanted).first():
            return found
    for wanted in (plain, f"{plain} ({peer})"):
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return Host.objects.create(
                team=team, name=wanted, access=Host.Access.DYNAMO, address=peer, user=""
            )
    raise DynamoError("host", f"there is a host named {plain} ({peer}) already, reached otherwise")

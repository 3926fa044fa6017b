# SPDX-License-Identifier: Apache-2.0
"""`manage.py up`: everything BenchLab consists of, started in order, kept alive, stopped in order.

Single-threaded: signals stay blocked and are taken one by one in `pause`, the only place that waits.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from benchlab.installation import command
from benchlab.up import database, postgres, supervised
from benchlab.up.leftovers import end_jobs, end_leftovers, wait_for_installers
from benchlab.up.logfiles import Logs
from benchlab.up.ports import require_port
from benchlab.up.procs import Identity, end, identify, spawn
from benchlab.up.state import State, changing, write_json
from benchlab.up.supervised import Recipe, Service, describe_end, since, size, tail
from benchlab.up.trouble import Trouble
from benchlab.web import listening

STOPPERS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
POLL_S = 0.05
START_PATIENCE_S = 120.0
STOP_PATIENCE_S = 10.0
# Stopped in this order: first those that give work, last what holds the data.
STOP_ORDER = (("beat", "web", "worker", "dynamo"), ("sshd",), ("valkey",), ("postgres",))
HELPERS = ("prepare", "first_run")


class Stop(Exception):
    """Raised when somebody asks us to stop."""


@dataclass(frozen=True)
class Wish:
    """The options of `up`."""

    host: str
    port: int
    campaign: bool

    @property
    def url(self) -> str:
        return supervised.page_url(self.host, self.port)


@dataclass
class Supervisor:
    state: State
    wish: Wish
    services: dict[str, Service] = field(default_factory=dict)
    helpers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    # offset at which each helper's part of the log begins
    begun: dict[str, int] = field(default_factory=dict)
    watched: set[signal.Signals] = field(default_factory=set)
    stopping: bool = False
    hurried: bool = False

    def __post_init__(self) -> None:
        self.logs = Logs(self.state.logs, (*chain(*STOP_ORDER), *HELPERS))

    def run(self) -> int:
        """Run until asked to stop. Raises Trouble if the start fails; leaves no process either way."""
        # Under nohup SIGHUP is ignored; a blocked signal would reach us all the same.
        ignored = {s for s in STOPPERS if signal.getsignal(s) is signal.SIG_IGN} & {signal.SIGHUP}
        self.watched = (STOPPERS - ignored) | {signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, self.watched)
        try:
            self.logs.revive()
            self.start()
            while True:
                self.pause(1.0)
                self.revive()
        except Stop:
            say("Stopping ...")
        finally:
            self.stop()
        say(f"Stopped. The data stays in {self.state.path}")
        return 0

    def start(self) -> None:
        begun = time.monotonic()
        # Held until the database has its tables; other commands wait for that.
        with changing(self.state, self.pause):
            if ended := end_leftovers(self.state):
                say(f"An earlier `up` crashed; stopped what it left running: {', '.join(ended)}")
            require_port(self.wish.host, self.wish.port)
            self.announce()
            env = self.start_stores()
            self.finish("prepare", supervised.prepare(), env)
        self.add(supervised.web(self.wish.host, self.wish.port, env))
        self.until(self.web_answers, "web")
        say(f"BenchLab answers at  {self.wish.url}  ({time.monotonic() - begun:.1f} s)")
        say(f"Stop it: Ctrl-C here, or `{command('down')}{self.state.option}` anywhere.")
        self.add(supervised.sshd(self.state, env))
        self.add(supervised.worker(env))
        self.add(supervised.beat(self.state, env))
        if listener := supervised.dynamo_listener(env):
            say(
                "Listening for dynamos; IOmeter's protocol has no passwords: only on a network you trust."
            )
            self.add(listener)
        self.until(lambda: self.services["sshd"].ready, "sshd")
        self.help("first_run", supervised.first_run(self.wish.campaign), env)
        notify_systemd("READY=1", f"STATUS=Answers at {self.wish.url}")

    def start_stores(self) -> Mapping[str, str]:
        """Start PostgreSQL and Valkey, unless the environment names others; return the environment of the children."""
        env = supervised.child_environment(self.state, self.wish.host)
        if not database.is_given("REDIS_URL"):
            recipe, env["REDIS_URL"] = supervised.valkey(self.state)
            self.add(recipe)
        if not database.is_given("DATABASE_URL"):
            cluster = postgres.plan(self.state)
            if message := postgres.make_cluster(cluster):
                say(message)
            env["DATABASE_URL"] = cluster.url
            if self.state.path not in cluster.data.parents:
                say(
                    f"The database is in {cluster.data}: the user who runs PostgreSQL may not enter {self.state.path}"
                )
            self.add(supervised.postgres(cluster))
        for name in list(self.services):
            self.until(lambda name=name: self.services[name].ready, name)  # type: ignore[misc]
        return env

    def web_answers(self) -> bool:
        """True if the web server answers. Raises Trouble if it answers with an error of its own."""
        status = http_status(self.wish)
        if status >= 500:
            raise Trouble(f"The page answers with error {status}. {self.last_words('web')}")
        return status > 0

    def add(self, recipe: Recipe) -> None:
        name = recipe.name
        service = Service(recipe, self.logs.path(name), self.logs.output(name))
        self.services[name] = service
        service.start()
        self.remember()

    def help(
        self, name: str, argv: supervised.Argv, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program that ends by itself; show its output and log its errors."""
        self.begun[name] = size(self.logs.path(name))
        process = spawn(argv, env, None, errors=self.logs.output(name), cwd="/")
        self.helpers[name] = process
        self.remember()
        return process

    def finish(self, name: str, argv: supervised.Argv, env: Mapping[str, str]) -> None:
        """Run a helper to its end. Raises Trouble with the end of its output."""
        process = self.help(name, argv, env)
        while process.poll() is None:
            self.pause(POLL_S)
        del self.helpers[name]
        if process.returncode:
            raise self.failure(f"`{name}` failed", name, process.returncode, self.begun[name])

    def until(self, ready: Callable[[], bool], name: str) -> None:
        """Wait for a service of the start. Raises Trouble if it dies or takes too long."""
        service = self.services[name]
        deadline = time.monotonic() + START_PATIENCE_S
        while not ready():
            if service.died():
                code, begins = service.last_code, service.log_begins
                raise self.failure(f"{name} did not start", name, code, begins)
            if time.monotonic() > deadline:
                raise Trouble(
                    f"{name} is not ready after {START_PATIENCE_S:.0f} s: see {service.log}"
                )
            self.pause(POLL_S)

    def failure(self, what: str, name: str, code: int | None, begins: int) -> Trouble:
        """The error of a failed program: its own message if that is a Trouble, else the end of its log."""
        log = self.logs.catch_up(name)
        log_text = since(log, begins) if code == Trouble.exit_code else ""
        return Trouble(log_text or f"{what} ({describe_end(code)}). {self.last_words(name)}")

    def last_words(self, name: str, lines: int = 8) -> str:
        """The end of a program's log, and the log's path."""
        log = self.logs.catch_up(name)
        return f"The end of {log}:\n{tail(log, lines)}"

    def pause(self, seconds: float) -> None:
        """Sleep until a child dies or the time is over. Raises Stop when somebody asks us to end."""
        came = signal.sigtimedwait(self.watched, seconds)
        if came is None or came.si_signo == signal.SIGCHLD:
            return
        if not self.stopping:
            raise Stop
        self.hurried = True

    def revive(self) -> None:
        """Report dead services, and restart those that are due."""
        self.logs.revive()
        for name in [name for name, helper in self.helpers.items() if helper.poll() is not None]:
            if code := self.helpers.pop(name).returncode:
                say(f"{name} failed ({describe_end(code)}). {self.last_words(name, 3)}")
        for name, service in self.services.items():
            if service.died() and service.due is not None:
                wait = max(0.0, service.due - time.monotonic())
                ended = describe_end(service.last_code)
                say(
                    f"{name} ended ({ended}); starting it again in {wait:.0f} s. Log: {service.log}"
                )
            if service.due is not None and time.monotonic() >= service.due:
                service.start()
                self.remember()

    def announce(self) -> None:
        """Write down pid and URL for other terminals."""
        if me := identify("up", os.getpid()):
            write_json(self.state.running, {**me.as_json(), "url": self.wish.url})

    def remember(self) -> None:
        """Write down every child, for the `up` or `down` that comes after a crash of ours."""
        write_json(self.state.children, {"children": [i.as_json() for i in self.identities()]})

    def identities(self) -> list[Identity]:
        helpers = [identify(name, helper.pid) for name, helper in self.helpers.items()]
        identities = [service.identity for service in self.services.values()]
        return [identity for identity in (*helpers, *identities) if identity]

    def stop(self) -> None:
        """Stop everything in order, also our SSH jobs; kill what does not end in time."""
        self.stopping = True
        notify_systemd("STOPPING=1")
        helpers = [identify(name, helper.pid) for name, helper in self.helpers.items()]
        end([h for h in helpers if h], pause=self.pause, patience_s=3.0)
        for names in STOP_ORDER:
            self.stop_services([self.services[name] for name in names if name in self.services])
            if "sshd" in names:
                wait_for_installers(self.state, self.pause, say)
                end_jobs(self.state, self.pause)
        self.logs.close()
        for path in (self.state.running, self.state.children):
            path.unlink(missing_ok=True)

    def stop_services(self, services: list[Service]) -> None:
        by_signal: dict[signal.Signals, list[Identity]] = {}
        for service in services:
            if service.identity:
                by_signal.setdefault(service.recipe.stop, []).append(service.identity)
        for number, signalled in by_signal.items():
            patience = 1.0 if self.hurried else STOP_PATIENCE_S
            for killed in end(signalled, number, patience, self.pause):
                say(f"{killed.name} did not stop by itself and was killed")


def http_status(wish: Wish) -> int:
    """Status of the web server's answer to a health check; 0 while nobody listens."""
    connection = http.client.HTTPConnection(supervised.reach(wish.host), wish.port, timeout=5)
    try:
        if path := listening.unix_path(wish.host):
            connection.host = "localhost"
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(5)
            connection.sock.connect(str(path))
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def say(text: str) -> None:
    print(text, flush=True)


def notify_systemd(*lines: str) -> None:
    """Send NAME=value to the systemd that started us, if one did (sd_notify(3))."""
    if place := os.environ.get("NOTIFY_SOCKET"):
        address = f"\0{place[1:]}" if place.startswith("@") else place
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
            speaker.sendto("\n".join(lines).encode(), address)

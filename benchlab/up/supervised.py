# SPDX-License-Identifier: Apache-2.0
"""Children of the supervisor: how each program is started, whether it is ready, starting it again when it dies."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchlab.installation import program
from benchlab.up import database, ports, store_programs
from benchlab.up import postgres as pg
from benchlab.up import valkey as vk
from benchlab.up.procs import Identity, Owner, identify, spawn
from benchlab.up.state import State
from benchlab.web import listening

LONGEST_PAUSE_S = 30.0
# A service alive for so long starts with a pause of 1 s again when it dies.
SETTLED_S = 60.0


@dataclass(frozen=True)
class Recipe:
    """Recipe to run one service."""

    name: str
    argv: tuple[str | Path, ...]
    env: Mapping[str, str]
    ready: Callable[[int], bool] = lambda pid: True
    owner: Owner | None = None
    cwd: Path | str | None = None
    stop: signal.Signals = signal.SIGTERM
    stdin: bytes | None = None


@dataclass
class Service:
    """A running service; `due` is when a dead one is started again (monotonic seconds)."""

    recipe: Recipe
    log: Path
    # file descriptor of the pipe into its log
    output: int
    process: subprocess.Popen[bytes] | None = None
    identity: Identity | None = None
    # bytes; the output of this process comes after them
    log_begins: int = 0
    born: float = 0.0
    deaths: int = 0
    due: float | None = None
    last_code: int | None = field(default=None)

    def start(self) -> None:
        recipe = self.recipe
        self.log_begins = size(self.log)
        self.process = spawn(
            recipe.argv,
            recipe.env,
            self.output,
            owner=recipe.owner,
            cwd=recipe.cwd,
            death=recipe.stop,
            stdin=recipe.stdin,
        )
        self.identity = identify(recipe.name, self.process.pid)
        self.born, self.due = time.monotonic(), None

    def died(self) -> bool:
        """True once per death; `due` is then the time of the restart."""
        if self.process is None or self.process.poll() is None:
            return False
        now = time.monotonic()
        self.last_code, self.process, self.identity = self.process.returncode, None, None
        self.deaths = 1 if now - self.born > SETTLED_S else self.deaths + 1
        self.due = now + pause_after(self.deaths)
        return True

    @property
    def ready(self) -> bool:
        return self.process is not None and self.recipe.ready(self.process.pid)


def pause_after(deaths: int) -> float:
    """Seconds before the next try: 1, 2, 4, ... at most LONGEST_PAUSE_S."""
    return min(LONGEST_PAUSE_S, 2.0 ** (deaths - 1))


def describe_end(code: int | None) -> str:
    if code is None:
        return "gone"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


def size(log: Path) -> int:
    """Size of the log in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def since(log: Path, begins: int) -> str:
    """The log after so many bytes, at most 8 KiB; "" if that is empty or a traceback, which is not for users."""
    try:
        with log.open("rb") as file:
            file.seek(begins)
            text = file.read(8192).decode(errors="replace").strip()
    except OSError:
        return ""
    return "" if "Traceback" in text else text


def tail(log: Path, lines: int = 8) -> str:
    """The log's last lines, indented; "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            all_lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in all_lines[-lines:])


Argv = tuple[str, ...]
# Less than the supervisor waits for it
WEB_GRACE_S = 8
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # what a person asks for by --host


def child_environment(state: State, host: str) -> dict[str, str]:
    """Environment of all our programs: the secrets, and the host names under which pages may be requested."""
    env = database.base_environment(state)
    if not database.is_given("ALLOWED_HOSTS"):
        env["ALLOWED_HOSTS"] = ",".join(names_of(host))
    env.setdefault("BENCHLAB_STATIC", str(state.path / "static"))
    if env.get("BENCHLAB_LOG_FORMAT", "").lower() == "json":
        # Suppress the banner at the start.
        env["CELERY_QUIET"] = "1"
    return env


def names_of(host: str) -> list[str]:
    """Host names that a browser may use: loopback, and the address on which we listen."""
    names = ["localhost", "127.0.0.1", "[::1]"]
    if host in EVERYWHERE:
        names += [socket.gethostname(), socket.getfqdn()]
        names += [
            in_brackets(address.address)
            for addresses in psutil.net_if_addrs().values()
            for address in addresses
            # A zone is local to one machine: no browser uses a name with another machine's zone.
            if address.family in (socket.AF_INET, socket.AF_INET6) and "%" not in address.address
        ]
    elif not listening.unix_path(host):
        names.append(in_brackets(host))
    return list(dict.fromkeys(names))


def in_brackets(address: str) -> str:
    """The address as it stands in a URL, where a bare colon would begin the port."""
    return f"[{address}]" if ":" in address else address


def reach(host: str) -> str:
    """The address under which we reach ourselves when we listen on `host`."""
    return {"0.0.0.0": ports.LOOPBACK, "::": "::1"}.get(host, host)  # noqa: S104  # the other way round


def page_url(host: str, port: int) -> str:
    if listening.unix_path(host):
        return host
    return f"http://{in_brackets(reach(host)).replace('%', '%25')}:{port}/"


def postgres(cluster: pg.Postgres) -> Recipe:
    return Recipe(
        "postgres",
        tuple(pg.server_argv(cluster)),
        pg.BASE_ENV,
        ready=lambda pid: pg.ready(cluster, pid),
        owner=cluster.owner,
        cwd="/",
        stop=pg.STOP_SIGNAL,
    )


def valkey(state: State) -> tuple[Recipe, str]:
    """The recipe of our Valkey, and its address."""
    port = ports.kept_port(state, "valkey")
    config = database.redis_config(state, port)
    argv = (store_programs.redis_program(), "-")
    recipe = Recipe("valkey", argv, pg.BASE_ENV, lambda pid: vk.ready(port), cwd="/", stdin=config)
    return recipe, database.redis_url(state, port)


def web(host: str, port: int, env: Mapping[str, str]) -> Recipe:
    argv = (*program(), "web", "--host", host, "--port", str(port), "--grace", str(WEB_GRACE_S))
    return Recipe("web", argv, env, cwd="/")


def worker(env: Mapping[str, str]) -> Recipe:
    return Recipe("worker", (*program(), "worker"), env, cwd="/")


def beat(state: State, env: Mapping[str, str]) -> Recipe:
    schedule = ("--schedule", str(state.path / "beat-schedule"))
    return Recipe("beat", (*program(), "beat", *schedule), env, cwd="/")


def dynamo_listener(env: Mapping[str, str]) -> Recipe | None:
    """The listener for dynamos, only if its address and its allowed clients are configured."""
    if not (env.get("BENCHLAB_DYNAMO_LISTEN") and env.get("BENCHLAB_DYNAMO_ALLOW")):
        return None
    return Recipe("dynamo", (*program(), "dynamo_listener"), env, cwd="/")


def sshd(state: State, env: Mapping[str, str]) -> Recipe:
    port = ports.kept_port(state, "ssh")
    argv = (sys.executable, "-P", "-m", "benchlab.up.sshd", str(state.path), str(port))
    busy = ports.why_not
    return Recipe("sshd", argv, env, lambda pid: bool(busy(ports.LOOPBACK, port)), cwd="/")


def prepare() -> Argv:
    return (*program(), "prepare", "--static")


def first_run(campaign: bool) -> Argv:
    return (*program(), "first_run", *(() if campaign else ("--no-campaign",)))

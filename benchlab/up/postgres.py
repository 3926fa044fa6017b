# SPDX-License-Identifier: Apache-2.0
"""Embedded PostgreSQL: one Unix socket, one operating-system user.

A cluster is made under another name and renamed when it is finished, so a directory under the final
name is whole, and is never deleted.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from benchlab.up.procs import Owner, spawn
from benchlab.up.state import (
    MARKER,
    State,
    load_secrets,
    read_json,
    require_space,
    user_name,
    write_json,
)
from benchlab.up.store_programs import postgres_directory
from benchlab.up.trouble import Trouble

DATABASE = ROLE = "benchlab"
# Root may not run PostgreSQL: the first of these that exists does.
USERS = ("benchlab", "postgres", "nobody")
# For a state directory that this user may not enter, such as one below /root.
ELSEWHERE = Path("/var/lib/benchlab")
BASE_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
# Throw-away only. Vacuum would cut a table to nothing whose rows were all rolled back, and the next test's queries were
# planned for none: a minute for a report.
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
}


@dataclass(frozen=True)
class Postgres:
    """Place of one cluster, and the user who runs it."""

    binaries: Path
    data: Path
    sockets: Path
    log: Path
    # None: the user we are
    owner: Owner | None

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.sockets), safe='/')}"

    @property
    def unfinished(self) -> Path:
        return self.data.with_name(self.data.name + ".unfinished")


def plan(state: State) -> Postgres:
    """Find binaries, user and places, making directories as needed. Raises Trouble."""
    binaries = postgres_directory()
    home = state.path / "postgres"
    owner = None
    if os.geteuid() == 0:
        if not reachable(state.path):
            # By installation, not by path: a state directory made anew gets a database made anew.
            home = ELSEWHERE / load_secrets(state)[MARKER][:12]
            if read_json(state.database).get("place") != str(home):
                write_json(state.database, {"place": str(home)})
        owner = unprivileged(home)
        own_directory(home, owner)
        if not reachable(binaries):
            binaries = copy_binaries(binaries, home / "dist", owner)
    own_directory(home, owner)
    sockets = state.socket_dir() if reachable(state.path) or not owner else home / "run"
    own_directory(sockets, owner)
    return Postgres(
        binaries, home / major_version(binaries), sockets, state.logs / "postgres.log", owner
    )


def major_version(binaries: Path, program: str = "postgres") -> str:
    """A cluster belongs to one major version, so its directory is named for it."""
    words = subprocess.run(
        [binaries / program, "--version"], capture_output=True, text=True, env=BASE_ENV, cwd="/"
    ).stdout
    if match := re.search(r"\) (\d+)", words):
        return match[1]
    raise Trouble(f"{binaries}/{program} does not run here (it says {words!r}). Set DATABASE_URL.")


def unprivileged(home: Path) -> Owner:
    """Owner of the cluster already, else the first of USERS: a user added later changes nothing. Raises Trouble."""
    if home.exists() and home.stat().st_uid:
        return Owner(home.stat().st_uid, home.stat().st_gid)
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(entry.pw_uid, entry.pw_gid)
    raise Trouble(
        "PostgreSQL refuses to run as root, and this machine has no user named"
        f" {', '.join(USERS)} to run it as. Add one: useradd --system benchlab"
    )


def reachable(path: Path) -> bool:
    """May every user read it? (Below /root nobody else may.)"""
    whole = path.resolve()
    return all(p.stat().st_mode & 0o001 for p in (whole, *whole.parents))


def own_directory(path: Path, owner: Owner | None) -> None:
    """The directory, 0700, of that user; never one that somebody else put there (a socket in /tmp)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    info = path.lstat()
    allowed = {os.geteuid(), owner.uid if owner else os.geteuid()}
    if path.is_symlink() or info.st_uid not in allowed:
        raise Trouble(
            f"{path} belongs to user {info.st_uid}, not to us: PostgreSQL would not be safe there."
            " Remove it, or run as that user."
        )
    if owner and info.st_uid != owner.uid:
        os.chown(path, owner.uid, owner.gid)
    path.chmod(0o700)


def copy_binaries(binaries: Path, target: Path, owner: Owner) -> Path:
    """A copy that the other user may read, made once per set of binaries (38 MB).

    The libraries lie beside the package (RPATH $ORIGIN/../../../PACKAGE.libs), so both are copied.
    """
    install = binaries.parent
    package = install.parent
    place = target / f"{int((binaries / 'postgres').stat().st_mtime)}"
    copied = place / package.name / install.name
    if not copied.exists():
        shutil.rmtree(target, ignore_errors=True)
        new = target / "new"
        shutil.copytree(install, new / package.name / install.name, symlinks=True)
        libs = package.with_name(f"{package.name}.libs")
        if libs.exists():
            shutil.copytree(libs, new / libs.name, symlinks=True)
        hand_over(target, owner)
        new.rename(place)
    return copied / "bin"


def hand_over(tree: Path, owner: Owner) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def make_cluster(postgres: Postgres) -> str:
    """Make the cluster unless it is there. Returns what a person should be told ("" for nothing)."""
    notice = ""
    if postgres.data.exists():
        require_whole(postgres)
    else:
        if postgres.unfinished.exists():
            notice = f"An unfinished database ({postgres.unfinished}) was found and is made again."
            shutil.rmtree(postgres.unfinished)
        initialise(postgres)
        postgres.unfinished.rename(postgres.data)
    allow_only_us(postgres)
    return notice


def require_whole(postgres: Postgres) -> None:
    """Raise Trouble for a directory that is not a finished cluster of this version; touch nothing."""
    data = postgres.data
    missing = [n for n in ("PG_VERSION", "global/pg_control", "base/1") if not (data / n).exists()]
    if missing:
        raise Trouble(
            f"{data} is not a whole PostgreSQL data directory: it has no {', no '.join(missing)}."
            " BenchLab did not touch it. Restore it from a backup; or, if nothing in it matters,"
            f" move it away and start again:\n  mv {data} {data}.damaged"
        )
    version = (data / "PG_VERSION").read_text().strip()
    if version != data.name:
        raise Trouble(f"{data} holds PostgreSQL {version}, but {postgres.binaries} is {data.name}.")


def initialise(postgres: Postgres) -> None:
    """initdb and the database, in the directory for the unfinished one."""
    target = postgres.unfinished
    how = ["-U", ROLE, "--auth-local=peer", "--auth-host=reject", "-E", "UTF8", "--locale=C.UTF-8"]
    tool(postgres, [postgres.binaries / "initdb", "-D", target, *how])
    server: list[str | Path] = [postgres.binaries / "postgres", "--single", "-D", target]
    tool(
        postgres,
        [*server, *settings(postgres), "postgres"],
        f"CREATE DATABASE {DATABASE};\n".encode(),
    )


def allow_only_us(postgres: Postgres) -> None:
    """Peer authentication: only the user who runs BenchLab may connect, whoever runs PostgreSQL."""
    (postgres.data / "pg_hba.conf").write_text("local all all peer map=benchlab\n")
    (postgres.data / "pg_ident.conf").write_text(f'benchlab "{user_name()}" {ROLE}\n')


def tool(postgres: Postgres, argv: list[str | Path], stdin: bytes | None = None) -> None:
    """Run one of PostgreSQL's tools; its output goes to the log, and into the message if it fails."""
    with postgres.log.open("ab") as log:
        start = log.tell()
        child = spawn(argv, BASE_ENV, log, owner=postgres.owner, cwd="/", stdin=stdin)
        code = child.wait(timeout=120)
    with postgres.log.open("rb") as log:
        log.seek(start)
        output = log.read().decode(errors="replace")
    # `postgres --single` exits with 0 also when its statement failed.
    if code or "ERROR:" in output or "FATAL:" in output or "PANIC:" in output:
        raise failure(postgres, f"{Path(argv[0]).name} failed (exit {code})", output)


def failure(postgres: Postgres, what: str, output: str) -> Trouble:
    """The error for a tool or server that failed: a full disk gets its own words."""
    place = postgres.data.parent
    if "No space left on device" in output:
        try:
            require_space(place)
        except Trouble as full:
            return full
        return Trouble(
            f"{what}: no space left on the disk that holds {place}. Free some, try again."
        )
    tail = "\n".join(f"  {line}" for line in output.strip().splitlines()[-6:])
    return Trouble(f"PostgreSQL: {what}. Its last words ({postgres.log}):\n{tail}")


def settings(postgres: Postgres, throw_away: bool = False) -> list[str]:
    """Server settings as `-c name=value` words."""
    chosen = {
        "listen_addresses": "",
        "unix_socket_directories": str(postgres.sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "60",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not os.access("/dev/shm", os.W_OK):  # noqa: S108  # a chroot may have none
        chosen["dynamic_shared_memory_type"] = "mmap"
    if throw_away:
        chosen |= FAST
    return [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]


def server_argv(postgres: Postgres, throw_away: bool = False) -> list[str | Path]:
    return [
        postgres.binaries / "postgres",
        "-D",
        postgres.data,
        *settings(postgres, throw_away),
    ]


def ready(postgres: Postgres, pid: int) -> bool:
    """Its pid file's first and eighth line, as pg_ctl looks at it: no client is needed."""
    try:
        lines = (postgres.data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


# Fast shutdown: sessions are ended, everything is flushed (SIGTERM would wait for clients).
STOP_SIGNAL = signal.SIGINT

"""Real PostgreSQL servers of versions 15 to 18 for tests: `python3 -m tests.up.servers` gets those that are missing.

15 is Debian 12's, 16 comes in a wheel, 17 is Debian 13's, in a tree of its own; 18 is what BenchLab brings. What is got
is kept in the cache. Each server is set up unlike ours: TLS is demanded, and its defaults are no one's habit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from benchlab.practice.machine import mirror
from benchlab.practice.paths import cache_root
from benchlab.up import postgres, store_programs
from benchlab.up.ports import free_port
from benchlab.up.procs import Owner

CACHE = cache_root() / "postgresql"
PASSWORD = "p@ss:w/ord %&'\"\\ #?"
DEBIAN_15, IN_TREE = Path("/usr/lib/postgresql/15/bin"), "/usr/lib/postgresql/17/bin"
WHEEL = "pgserver==0.1.4"
NOBODY = Owner(65534, 65534)
WITH_TLS = (15, 17)  # those in wheels are built without
UNUSUAL = {
    "timezone": "Asia/Tokyo",
    "bytea_output": "escape",
    "backslash_quote": "on",
    "search_path": '"$user", public',
}


@dataclass(frozen=True)
class Server:
    """One that runs, with a role that owns its databases and may nothing else."""

    version: int
    port: int
    programs: Path | None  # to back it up with; None: those that BenchLab brings

    def database(self, name: str, tls: bool = False) -> str:
        """Address of a new one, in UTF-8 whatever the server's own encoding is."""
        how = "CREATE DATABASE {} OWNER lab ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"
        with superuser(self.port) as own:
            own.execute(sql.SQL(how).format(sql.Identifier(name)))
        return self.address(name, tls)

    def address(self, name: str, tls: bool = False) -> str:
        password, place = quote(PASSWORD, safe=""), quote(name, safe="")
        asked = "?sslmode=require" if tls else ""
        return f"postgresql://lab:{password}@127.0.0.1:{self.port}/{place}{asked}"


def superuser(port: int) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host="127.0.0.1",
        port=port,
        user="postgres",
        password=PASSWORD,
        dbname="postgres",
        autocommit=True,
        connect_timeout=2,
    )


def missing(version: int) -> str:
    """Words for why it is not there; "" where it is."""
    if os.geteuid() != 0:
        return "a server of another version runs as another user: only root may start it"
    place = {15: DEBIAN_15, 16: CACHE / "16", 17: CACHE / "17"}.get(version)
    if place is None or place.exists():
        return ""
    return f"PostgreSQL {version} is not here: python3 -m tests.up.servers"


def get() -> None:
    """Every version that is missing."""
    if not DEBIAN_15.exists():
        subprocess.run(
            ["apt-get", "-q", "install", "-y", "--no-install-recommends", "postgresql-15"],
            check=True,
        )
    if not (target := CACHE / "16").exists():
        new = CACHE / "16.unfinished"
        shutil.rmtree(new, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", new, WHEEL],
            check=True,
        )
        new.rename(target)
    if not (target := CACHE / "17").exists():
        new = CACHE / "17.unfinished"
        shutil.rmtree(new, ignore_errors=True)
        argv = [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            "--mode=root",
            "--include=postgresql-17",
        ]
        subprocess.run([*argv, "trixie", new, mirror()], check=True)
        new.rename(target)


@contextmanager
def running(version: int, place: Path) -> Iterator[Server]:
    """It runs inside the block, with its data below `place`, which every user may enter."""
    # 17 is of another Debian, and sees its own tree only
    root = CACHE / "17" if version == 17 else Path("/")
    data = Path(tempfile.mkdtemp(dir=root / "tmp" if version == 17 else place))
    owner = NOBODY
    binaries = Path(IN_TREE) if version == 17 else _binaries(version, place, owner)
    cluster = Path("/") / data.relative_to(root) / "cluster"
    call: list[str | Path] = ["/usr/sbin/chroot", f"--userspec={owner.uid}:{owner.gid}", root]
    _certify(data)
    (data / "password").write_text(PASSWORD)
    postgres.hand_over(data, owner)
    how = ["--auth=scram-sha-256", "--encoding=SQL_ASCII", "--locale=C", "-U", "postgres"]
    argv: list[str | Path] = [
        binaries / "initdb",
        "-D",
        cluster,
        f"--pwfile={cluster.parent}/password",
        *how,
    ]
    subprocess.run([*call, *argv], check=True, env=postgres.BASE_ENV, stdout=subprocess.DEVNULL)
    port = free_port()
    settings = UNUSUAL | {"port": str(port), "listen_addresses": "127.0.0.1", "fsync": "off"}
    settings |= {"unix_socket_directories": "", "dynamic_shared_memory_type": "mmap"}
    if version in WITH_TLS:
        settings |= {"ssl": "on", "ssl_cert_file": "../cert.pem", "ssl_key_file": "../key.pem"}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (place / f"{version}.log").open("wb") as log:
        argv = [*call, binaries / "postgres", "-D", cluster, *words]
        server = subprocess.Popen(argv, env=postgres.BASE_ENV, stdout=log, stderr=log)
    try:
        _make_role(port)
        yield Server(version, port, binaries if version < 17 else None)
    finally:
        server.send_signal(postgres.STOP_SIGNAL)
        server.wait(30)
        shutil.rmtree(data, ignore_errors=True)


def _binaries(version: int, place: Path, owner: Owner) -> Path:
    """Where every user may run them."""
    if version == 15:
        return DEBIAN_15
    found = (
        CACHE / "16/pgserver/pginstall/bin"
        if version == 16
        else store_programs.postgres_directory()
    )
    return (
        found
        if postgres.reachable(found)
        else postgres.copy_binaries(found, place / f"programs {version}", owner)
    )


def _certify(place: Path) -> None:
    """One that nobody signed."""
    key, certificate = place / "key.pem", place / "cert.pem"
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=lab",
    ]
    subprocess.run([*argv, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    key.chmod(0o600)


def _make_role(port: int) -> None:
    """As soon as the server answers."""
    until = time.monotonic() + 60
    while True:
        try:
            with superuser(port) as own:
                made = sql.SQL("CREATE ROLE lab LOGIN NOCREATEDB PASSWORD {}")
                own.execute(made.format(sql.Literal(PASSWORD)))
                return
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    get()

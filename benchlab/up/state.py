# SPDX-License-Identifier: Apache-2.0
"""The state directory (benchlab/installation.py says where): data, secrets, logs, and what runs now."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import pwd
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchlab.installation import command, state_path, usual_state_path
from benchlab.up.trouble import Trouble, remedy

# bytes: a fresh cluster takes 40 MB, its WAL grows to some hundred
MIN_FREE = 500 * 2**20
# In the environment of all that runs for us on this machine over SSH, so that `down` finds it. Its value is
# random: the same path may be another installation's, in another container.
MARKER = "BENCHLAB_INSTALLATION"
LOCK_POLL_SECONDS = 0.1
# sockaddr_un holds 107 characters and a NUL; PostgreSQL appends "/.s.PGSQL.5432.lock".
MAX_SOCKET_DIR = 107 - len("/.s.PGSQL.5432.lock")


@dataclass(frozen=True)
class State:
    """Paths below the state directory; nothing is made before `create`."""

    path: Path

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def ssh(self) -> Path:
        return self.path / "ssh"

    @property
    def running(self) -> Path:
        """File with pid, start time and URL of the running `up`."""
        return self.path / "up.json"

    @property
    def children(self) -> Path:
        return self.path / "children.json"

    @property
    def apt(self) -> Path:
        """The apt that a helper of `up` started last."""
        return self.path / "apt.json"

    @property
    def database(self) -> Path:
        """File with the path of our database if that is outside the state directory."""
        return self.path / "database.json"

    @property
    def lock(self) -> Path:
        return self.path / "up.lock"

    @property
    def busy(self) -> Path:
        """Lock file for changing the directory or running its PostgreSQL; it names its holder."""
        return self.path / "busy.lock"

    @property
    def option(self) -> str:
        """Options that make a command use this state directory; "" for the usual one."""
        return "" if self.path == usual_state_path() else f" --state {shlex.quote(str(self.path))}"

    @property
    def tag(self) -> str:
        """A short tag, unique to this directory, for names outside it."""
        return hashlib.sha256(str(self.path).encode()).hexdigest()[:10]

    def create(self) -> None:
        """Make the directories. Raises Trouble if they cannot be made or the disk is full."""
        try:
            require_space(next(p for p in (self.path, *self.path.parents) if p.exists()))
            self.path.mkdir(parents=True, exist_ok=True)
            # Traversable: as root, PostgreSQL runs as another user below it.
            self.path.chmod(0o711)
            for place in (self.logs, self.ssh):
                place.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            todo = remedy(error, "Run as the user who owns it")
            raise Trouble(
                f"Cannot use the state directory {self.path}: {error.strerror}. {todo.rstrip('.')}, or"
                " name another one by --state, or in BENCHLAB_STATE."
            ) from None

    def socket_dir(self) -> Path:
        """Directory of PostgreSQL's socket: in the state directory unless that makes it too long."""
        inside = self.path / "run"
        if len(str(inside)) <= MAX_SOCKET_DIR:
            return inside
        return Path(tempfile.gettempdir()) / f"benchlab-{os.getuid()}-{self.tag}"


def state_from_environment() -> State:
    """The state directory from the environment. Raises Trouble for a user with neither that nor a home directory."""
    try:
        return State(state_path())
    except RuntimeError:
        raise Trouble(
            "This user has no home directory to keep the state in: name a directory by --state DIR, or"
            " in BENCHLAB_STATE."
        ) from None


@contextmanager
def changing(state: State, pause: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Hold the state directory's lock; wait for whoever holds it, and name them on stderr.

    The kernel frees the lock with its process, however that ends. `pause` waits so many seconds; it may raise.
    """
    with state.busy.open("a+") as lock:
        if not _lock(lock):
            lock.seek(0)
            holder = lock.read().strip() or "another command of BenchLab"
            message = f"Waiting for {holder}, which uses the state directory {state.path} ..."
            print(message, file=sys.stderr, flush=True)
            while not _lock(lock):
                pause(LOCK_POLL_SECONDS)
        lock.truncate(0)
        lock.write(f"`{command(' '.join(sys.argv[1:2]))}` (process {os.getpid()})")
        lock.flush()
        yield


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def require_space(path: Path) -> None:
    """Raise Trouble when the disk below `path` is too full to start a database on."""
    free = shutil.disk_usage(path).free
    if free < MIN_FREE:
        raise Trouble(
            f"The disk that holds {path} is nearly full: {free / 2**20:.0f} MiB free, BenchLab wants"
            f" {MIN_FREE / 2**20:.0f} MiB. Free some space, or put the state on another disk with"
            " BENCHLAB_STATE=/path."
        )


def load_secrets(state: State) -> dict[str, str]:
    """SECRET_KEY, BENCHLAB_KEY (a Fernet key), REDIS_PASSWORD, MARKER: made once, kept with mode 0600.

    Raises Trouble for a damaged file, and for a missing one if there is data that only its keys can open.
    """
    path = state.path / "secrets.json"
    stored = read_json(path)
    fresh = {
        "SECRET_KEY": secrets.token_urlsafe(50),
        "BENCHLAB_KEY": base64.urlsafe_b64encode(os.urandom(32)).decode(),
        "REDIS_PASSWORD": secrets.token_hex(24),
        MARKER: secrets.token_hex(16),
    }
    if path.exists() and not stored.get("BENCHLAB_KEY"):
        raise Trouble(
            f"{path} cannot be read. It holds the key of every stored SSH key: restore it from a"
            " backup, or move it away (stored SSH keys are then lost)."
        )
    if not stored:
        require_new(state)
    if set(fresh) - set(stored):
        write_json(path, fresh | stored)
    return {**fresh, **stored}


def require_new(state: State) -> None:
    """Raise Trouble if an earlier `up` ran here: new secrets could neither open nor find what it stored."""
    elsewhere = read_json(state.database).get("place")
    own_key = os.environ.get("BENCHLAB_KEY") or os.environ.get("BENCHLAB_KEY_FILE")
    if elsewhere:
        lost = f"the database in {elsewhere} cannot be found again, nor its stored SSH keys be read"
    elif own_key:
        # The other values in the file can be made anew.
        return
    elif (state.path / "postgres").exists():
        lost = f"the SSH keys stored in the database in {state.path / 'postgres'} cannot be read"
    elif (state.path / "ports.json").exists():
        lost = "the SSH keys stored in its database cannot be read"
    else:
        return
    raise Trouble(
        f"{state.path / 'secrets.json'} is gone, and this is no new state directory: without it {lost}. Nothing was"
        f" changed. Restore the file from a backup; or, to begin anew, move {state.path} away."
    )


def marker(state: State) -> str:
    """NAME=value as in an environment; "" if nothing was ever started or the value is lost."""
    value = read_json(state.path / "secrets.json").get(MARKER)
    return f"{MARKER}={value}" if value else ""


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file; {} if there is none or it is damaged."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replace the file at once, readable by its owner only: a crash leaves the old or the new one."""
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def user_name() -> str:
    """The name of the user who runs us. Raises Trouble for a uid that the system does not know."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise Trouble(
            f"User id {os.geteuid()} has no name in /etc/passwd; PostgreSQL needs one. Add the user,"
            " or set DATABASE_URL to a database that runs elsewhere."
        ) from None

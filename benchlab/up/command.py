# SPDX-License-Identifier: Apache-2.0
"""Words of `manage.py` and `benchlab`: our own, and every Django command with the right environment around it."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import IO

from benchlab import __version__
from benchlab.installation import INSTALLED, ROOT, command, program
from benchlab.up import database
from benchlab.up.bootstrap import take_option
from benchlab.up.leftovers import end_jobs, end_leftovers, finishing, wait_for_installers
from benchlab.up.procs import end, identity_from_json
from benchlab.up.state import State, state_from_environment
from benchlab.up.trouble import Trouble

DOWN_PATIENCE_S = 45.0
LISTEN = (
    "address to listen on (:: is every one, IPv6 and IPv4), or unix:/PATH for a proxy beside it"
)
# Loaded on demand: every other command starts without them.
LOADED = {
    "diagnose": "benchlab.imports.diagnose_text:run_command",
    "install-service": "benchlab.up.install_service:run",
    "wheelhouse": "benchlab.up.wheelhouse:wheelhouse",
}
SERVICES = {
    "web": "benchlab.web.server:main",
    "worker": "benchlab.up.celery_services:worker",
    "beat": "benchlab.up.celery_services:beat",
}
FOR_DEVELOPERS = {
    "test": "benchlab.testing.command:run_tests",
    "lint": "benchlab.up.linting:run_lint",
    "bench": "benchlab.testing.command:run_benchmarks",
}
HELP = {
    "up": "start everything, print the address (--port, --host, --detach, --no-campaign)",
    "down": "stop what `up` started",
    "diagnose": "say what the output of a benchmark means, and what to run next (FILE...; --json)",
    "check": "try every setting for real: database, broker, keys, mail, single sign-on, Chromium",
    "doctor": "check stored files and the audit log against their hashes",
    "backup": "write all there is, and its keys, into a new directory; runs go on",
    "restore": "put such a backup back into an empty state directory",
    "install-service": "print units of systemd; --help tells its options",
    "practice": "boot a practice host with disks to spare, and register it",
    "web": "one part of `up` alone, with stores that the settings name; likewise worker and beat",
    "wheelhouse": "download all wheels into a directory, for machines without a network",
    "help ...": "Django's commands: migrate, createsuperuser, changepassword, reparse, ...",
}
HELP_FOR_DEVELOPERS = {
    "test": "run the tests (--ci, --full: more of them; --install: get what they need by apt;"
    " --explore: new seeds; --seed; pytest's own arguments)",
    "lint": "ruff, mypy, import-linter, djade",
    "bench": "measure what BenchLab itself costs (words of names; one name and its options; --help)",
}


def main() -> int:
    """The installed command `benchlab`."""
    try:
        return run(sys.argv)
    except KeyboardInterrupt:
        return 130


def run(argv: Sequence[str]) -> int:
    """One command line; returns the exit code. Trouble is printed as it stands."""
    try:
        return perform(argv)
    except Trouble as trouble:
        print(trouble, file=sys.stderr, flush=True)
        return Trouble.exit_code


def perform(argv: Sequence[str]) -> int:
    """Perform the command. Raises Trouble, also for an invalid setting."""
    state_path, argv = take_option(argv, "--state")
    if state_path:
        os.environ["BENCHLAB_STATE"] = os.path.abspath(state_path)  # noqa: PTH100  # resolves no link
    word, rest = (argv[1], argv[2:]) if len(argv) > 1 else ("", [])
    if word in ("", "-h", "--help") or (word == "help" and not rest):
        print(help_text(), end="")
        return 0
    if word in ("version", "--version"):
        print(f"BenchLab {__version__}")
        return 0
    own: dict[str, Callable[[list[str]], int]] = {"up": up, "down": down}
    own |= {name: partial(loaded, where) for name, where in LOADED.items()}
    own |= {name: partial(service, name) for name in SERVICES}
    if word in FOR_DEVELOPERS:
        own[word] = partial(for_developers, word)
    from django.core.exceptions import ImproperlyConfigured

    try:
        return own[word](rest) if word in own else django(argv)
    except ImproperlyConfigured as wrong:
        # An invalid setting; the message names it and says what is expected.
        raise Trouble(str(wrong)) from None


def help_text() -> str:
    """List of the commands; in a checkout with those for developers."""
    commands = HELP | (HELP_FOR_DEVELOPERS if in_checkout() else {})
    width = max(len(command(word)) for word in commands)
    lines = [f"  {command(word):<{width}}  {does}" for word, does in commands.items()]
    return "\n".join(
        [
            "BenchLab: storage benchmark campaigns.\n",
            *lines,
            f"\nEach takes --state DIR, as BENCHLAB_STATE; now: {state_from_environment().path}\n",
        ]
    )


def in_checkout() -> bool:
    """True in a checkout: neither a package nor a container image holds the tests."""
    return (ROOT / "tests").is_dir() and not INSTALLED


def for_developers(word: str, rest: list[str]) -> int:
    if not in_checkout():
        raise Trouble(
            f"`{word}` is for developers: it needs a checkout of BenchLab's repository, where"
            f" `python3 manage.py {word}` runs it."
        )
    return loaded(FOR_DEVELOPERS[word], rest)


def up(rest: list[str]) -> int:
    parser = argparse.ArgumentParser(command("up"), description="Start everything.")
    parser.add_argument("--host", default="127.0.0.1", type=address, help=LISTEN)
    parser.add_argument("--port", type=port_number, default=8000)
    parser.add_argument("--no-campaign", action="store_true", help="no first campaign here")
    parser.add_argument("--detach", action="store_true", help="return as soon as it answers")
    # Both were handled earlier (`perform`, bootstrap.py); they stand here for the help text.
    parser.add_argument("--state", metavar="DIR", help="keep the data there, as with any command")
    if not INSTALLED:
        message = "set up from the wheels there, without a network"
        parser.add_argument("--wheelhouse", metavar="DIR", help=message)
    wish = parser.parse_args(rest)
    state = state_from_environment()
    state.create()
    if wish.detach:
        return detach(state, [word for word in rest if word != "--detach"])
    # Here, for every other command of manage.py starts without it.
    from benchlab.up.supervisor import Supervisor, Wish

    with sole(state) as got:
        if not got:
            print(f"BenchLab is already running: {where(state)}")
            return 0
        return Supervisor(state, Wish(wish.host, wish.port, not wish.no_campaign)).run()


def address(word: str) -> str:
    """An address as servers take it: without the brackets that it has in a URL."""
    if word.startswith("unix:") and not word.startswith("unix:/"):
        raise argparse.ArgumentTypeError(f"a Unix socket is unix:/PATH, not {word!r}")
    return word.removeprefix("[").removesuffix("]")


def port_number(word: str) -> int:
    if not word.isdigit() or not 0 < int(word) < 65536:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {word!r}")
    return int(word)


def where(state: State) -> str:
    """Address and process of the running `up`."""
    record = database.running(state)
    return (
        f"{record['url']} (process {record['pid']})" if "url" in record else "it is just starting"
    )


@contextmanager
def sole(state: State) -> Iterator[bool]:
    """One supervisor per state directory: the kernel frees the lock with the process, however it ends."""
    with state.lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def detach(state: State, rest: list[str]) -> int:
    """Start `up` in a session of its own and show its output until it responds."""
    log = state.logs / "up.log"
    # It may hold the reason why the last one ended.
    if log.exists():
        log.replace(log.with_name("up.log.1"))
    with log.open("w") as output:
        process = subprocess.Popen(
            [*program(), "up", *rest],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with log.open() as log_file:
        while process.poll() is None:
            if "Stop it: " in follow(log_file):
                return 0
            time.sleep(0.1)
        follow(log_file)
    return process.returncode


def follow(log_file: IO[str]) -> str:
    """Show what is new in the log; returns it."""
    new = log_file.read()
    sys.stdout.write(new)
    sys.stdout.flush()
    return new


def down(rest: list[str]) -> int:
    argparse.ArgumentParser(command("down"), description="Stop what `up` started.").parse_args(rest)
    state = state_from_environment()
    supervisor = identity_from_json(database.running(state))
    if supervisor:
        os.kill(supervisor.pid, signal.SIGTERM)
        deadline = time.monotonic() + DOWN_PATIENCE_S
        while supervisor.alive and (time.monotonic() < deadline or finishing(state)):
            time.sleep(0.05)
        end([supervisor], signal.SIGTERM, 1.0)
    ended = end_leftovers(state)
    wait_for_installers(state, say=print)
    jobs = end_jobs(state)
    if supervisor:
        print("BenchLab is stopped. The data stays in", state.path)
    elif ended or jobs:
        print(
            "BenchLab was not running; ended what it had left:", len(ended) + len(jobs), "processes"
        )
    else:
        print("BenchLab is not running.")
    return 0


def service(word: str, rest: list[str]) -> int:
    """Run one of the services of `up` on its own."""
    database.use_stores(word, state_from_environment())
    return loaded(SERVICES[word], rest)


def loaded(where: str, rest: list[str]) -> int:
    """A command that is loaded on demand; `where` is module:function."""
    module, _, name = where.partition(":")
    function: Callable[[list[str]], int] = getattr(import_module(module), name)
    return function(rest)


def django(argv: Sequence[str]) -> int:
    """Run a Django command against the database of `up`, or one that is started just for it."""
    # In a container or a child of `up`, the environment holds all addresses.
    if os.environ.get("BENCHLAB_NO_BOOTSTRAP"):
        execute(argv)
        return 0
    with database.for_command(state_from_environment()) as env:
        os.environ.update(env)
        execute(argv)
    return 0


def execute(argv: Sequence[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(list(argv))

"""`manage.py test` and `bench`: throw-away PostgreSQL and Valkey, then one pytest call for each group of tests.

First what needs no host and no browser; then what boots hosts, for hosts wait now and then; then what measures or
waits for a page. Which tests of a group a profile takes is said by marks, and by profiles.py for what is drawn.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchlab.practice.machine import missing_packages
from benchlab.testing import guardian, journal, leftovers, report
from benchlab.testing.profiles import CI, FULL, PROFILE, PROFILES, QUICK, SEED, WHOLE_GROUP
from benchlab.testing.report import Count, Result
from benchlab.testing.stores import stores
from benchlab.up.bootstrap import ROOT, apt_install
from benchlab.up.procs import before_exec
from benchlab.up.trouble import Trouble

NEVER_SKIPPED = {"rig", "alone", "browser", "hosts and pages"}  # where BENCHLAB_RIG=required
PACKAGES = (
    "chromium-headless-shell",
    "fonts-liberation",
    "busybox",
    "posh",
    "yash",
    "fio",
    "sysstat",
    "openssh-server",
    "bonnie++",
    "sysbench",
    "sudo",
)
NO_TESTS = 5  # pytest's exit code for an empty selection
REQUIRED = "BENCHLAB_RIG"
HOST_MEMORY = 3 << 30  # bytes: a host under QEMU, and the process that tests it
DRIVERS, RIG, BROWSER = "tests/agents", "tests/rig", "tests/browser"
QUICK_REST = "quick and (rig or browser)"
OF_HOSTS, OF_PAGES = "rig and not browser and not alone", "browser and not alone"
# A file's tests share a browser, and the number of a Valkey database; in the order of tests/browser/conftest.py.
FILE_BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
BENCH = """manage.py bench [NAME ...]        those whose names hold a word; all, without words
manage.py bench NAME [OPTION ...]  one, with options of its own; NAME --help tells them"""
PATIENCE_S = 60.0  # for an interrupted pytest to stop what it started


@dataclass(frozen=True)
class Group:
    """One pytest call."""

    title: str
    marks: str
    processes: int = 1
    # A process that has nothing left takes over from the others: long tests are told apart from short ones late.
    spread: tuple[str, ...] = ("--dist", "worksteal")
    # Where such tests stand: to collect all others too takes each process half a minute. () for everywhere.
    places: tuple[str, ...] = ()

    def arguments(self) -> tuple[str, ...]:
        several = ("-n", str(self.processes), *self.spread) if self.processes > 1 else ()
        return ("-m", self.marks, *several, *self.places)


@dataclass(frozen=True)
class Wish:
    """Options of the command line."""

    profile: str
    seed: int
    repeat: int
    install: bool
    anew: bool
    table: Path | None
    words: tuple[str, ...]


def groups(profile: str) -> tuple[Group, ...]:
    """Groups of tests that a profile runs, in this order."""
    cores = max(2, os.cpu_count() or 2)
    # One more than there are cores: a good part of these tests waits, for a job, a worker or a server.
    plain = Group(
        "without host or browser",
        _by_day("not rig and not browser and not alone", profile),
        cores + 1,
    )
    if profile == QUICK:
        part = replace(plain, marks=f"({plain.marks}) and not slow")
        return (part, Group("hosts and pages", QUICK_REST, cores, places=(RIG, BROWSER)))
    others = (
        Group("rig", _by_day(OF_HOSTS, profile), hosts_at_once(), places=(RIG,)),
        Group("browser", _by_day(OF_PAGES, profile), cores, FILE_BY_FILE, places=(BROWSER,)),
        Group("alone", _by_day("alone", profile), places=(RIG, DRIVERS)),
    )
    # A night begins with the longest
    return (*others, plain) if profile == FULL else (plain, *others)


def _by_day(marks: str, profile: str) -> str:
    return marks if profile == FULL else f"({marks}) and not night"


def hosts_at_once() -> int:
    """As many as the machine bears: a host waits now and then, so one more than there are cores."""
    return max(1, min((os.cpu_count() or 1) + 1, psutil.virtual_memory().available // HOST_MEMORY))


def run_tests(arguments: Sequence[str]) -> int:
    """A profile, or what pytest's own arguments choose; 0 when nothing failed and something ran."""
    wish = parse(arguments)
    required = os.environ.get(REQUIRED) == "required"
    if required or wish.install:
        install_tools()
    run = os.environ[leftovers.RUN] = leftovers.this_run()
    say_what_was_left()
    if any(word.startswith(DRIVERS) for word in wish.words) and all(
        word.startswith((DRIVERS, "-")) for word in wish.words
    ):
        return run_drivers(wish)
    try:
        rounds = [run_round(wish, number, required) for number in range(wish.repeat)]
    finally:
        for line in leftovers.clear(ended=run):
            print(f"Left by a test, and cleared away: {line}", flush=True)
    if wish.repeat > 1:
        print(f"\n{rounds.count(True)} of {wish.repeat} rounds are green", flush=True)
    return 0 if all(rounds) else 1


def parse(arguments: Sequence[str]) -> Wish:
    """The command line; what is not ours is pytest's."""
    parser = argparse.ArgumentParser(
        "manage.py test",
        description="Run the tests; pytest's own arguments follow.",
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    for profile, says in (
        (QUICK, "every kind of proof, large products sampled (this is what runs by itself)"),
        (CI, "quick, every page in a browser, each layer interrupted"),
        (FULL, "everything, for a night; goes on where it was interrupted"),
    ):
        which.add_argument(
            f"--{profile}", dest="profile", action="store_const", const=profile, help=says
        )
    parser.add_argument("--seed", type=int, help="draw what an earlier run drew")
    parser.add_argument("--repeat", type=int, default=1, help="so many rounds, each of a new seed")
    parser.add_argument("--install", action="store_true", help="get what is needed by apt first")
    parser.add_argument("--anew", action="store_true", help="--full from its beginning")
    parser.add_argument("--table", type=Path, help="write file, seconds and what it proves there")
    own, words = parser.parse_known_args(arguments)
    if own.repeat < 1:
        parser.error("--repeat takes 1 or more")
    profile = own.profile or os.environ.get(PROFILE) or QUICK
    if profile not in PROFILES:
        parser.error(f"{PROFILE}={profile}: there are {', '.join(PROFILES)}")
    seed = own.seed if own.seed is not None else first_seed(profile)
    return Wish(profile, seed, own.repeat, own.install, own.anew, own.table, tuple(words))


def first_seed(profile: str) -> int:
    """Drawn now, or the environment's; in CI the commit's, so that a run can be had again by its commit alone."""
    if kept := os.environ.get(SEED):
        return int(kept)
    if profile == CI and (commit := journal.commit()):
        return int(commit[:7], 16)
    return secrets.randbelow(2**31)


def say_what_was_left() -> None:
    """Clear away what killed runs left, and say what that was."""
    for line in (*guardian.take_said(), *leftovers.clear()):
        print(f"An earlier run was killed and had left: {line}. It is gone.", flush=True)


def run_drivers(wish: Wish) -> int:
    """tests/agents alone: no store is started for it, and its own pytest.toml holds."""
    env = {**os.environ, PROFILE: wish.profile, SEED: str(wish.seed)}
    argv = [sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={wish.seed}", *wish.words]
    return subprocess.run(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode


def run_round(wish: Wish, number: int, required: bool) -> bool:
    """Everything chosen, once; whether nothing failed and something ran."""
    seed = (wish.seed + number) % 2**31
    print(f"Profile {wish.profile}, seed {seed}", flush=True)
    begun = time.monotonic()
    results = []
    with stores() as stored, guardian.watching(dict(stored)):
        env = {**stored, PROFILE: wish.profile, SEED: str(seed)}
        if not wish.words:
            env[WHOLE_GROUP] = "1"
        with remembering(wish, env) as before:
            for title, arguments in calls(wish):
                results.append(run_group(title, arguments, env, seed))
            if before:
                results.append(report.earlier(before))
    total = sum((one.count for one in results), Count())
    report.tell(results)
    if wish.table:
        wish.table.write_text(report.table(results))
    print(f"\nAll tests: {time.monotonic() - begun:.0f} s, profile {wish.profile}, seed {seed}")
    report.tell_failed(results)
    print(total, flush=True)
    if required and any(one.count.skipped for one in results if one.title in NEVER_SKIPPED):
        print(f"{REQUIRED}=required, but browser or rig tests were skipped; the reasons are above")
        return False
    return bool(total.passed and not total.failed)


def calls(wish: Wish) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Title and pytest's arguments of each call."""
    if wish.words:
        yield "chosen", wish.words
        return
    for group in groups(wish.profile):
        yield group.title, group.arguments()


@contextmanager
def remembering(wish: Wish, env: dict[str, str]) -> Iterator[Mapping[str, float]]:
    """A night's run notes what has passed; the next one of the same sources goes on behind it.

    Yields what had passed: seconds by test.
    """
    if wish.profile != FULL or wish.words or wish.repeat > 1:
        yield {}
        return
    place = journal.open_for(ROOT, anew=wish.anew)
    if passed := journal.passed(place):
        print(
            f"Going on: {len(passed)} tests of these sources have passed before (--anew runs all)"
        )
    # All processes of pytest-xdist must leave out the same tests, also one that is started late: a copy that stays.
    before = Path(env["BENCHLAB_STATE"]) / "passed-before"
    before.write_text("".join(f"{line}\n" for line in sorted(passed)))
    env |= {journal.JOURNAL: str(place), journal.BEFORE: str(before)}
    yield passed


def run_group(title: str, arguments: Sequence[str], env: Mapping[str, str], seed: int) -> Result:
    """One pytest call. A crash that left no report counts as one failure."""
    print(f"\n=== {title}", flush=True)
    xml = Path(env["BENCHLAB_STATE"]) / "report.xml"
    xml.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={xml}", f"--hypothesis-seed={seed}"]
    begun = time.monotonic()
    code = run_pytest([*argv, *arguments], env)
    seconds = time.monotonic() - begun
    if code == NO_TESTS:
        return Result(title, seconds, Count(), ())
    count, cases = report.read(xml)
    broke = code != 0 and not count.failed
    return Result(title, seconds, count + Count(failed=1) if broke else count, cases)


def run_pytest(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Its exit code. It dies with us; where we are told to end it is told once, and stops its hosts before we go on."""
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a terminal's Ctrl-C would reach it beside our word
        preexec_fn=before_exec(signal.SIGTERM),
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def install_tools() -> None:
    """Install what the whole suite needs from apt. Raises Trouble where we may not install it."""
    wanted = [*PACKAGES, *missing_packages()]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Trouble(f"Only root may install, and only with apt. Needed: {' '.join(wanted)}")
    print(f"Installing with apt: {' '.join(wanted)}", flush=True)
    if not apt_install([], *wanted):
        raise Trouble(f"apt could not install them; try: apt-get install {' '.join(wanted)}")


def run_benchmarks(arguments: Sequence[str]) -> int:
    """Every tests/bench/bench_*.py whose name holds one of the words (all, without words); see BENCH."""
    scripts = sorted((ROOT / "tests" / "bench").glob("bench_*.py"))
    there = f"There are: {', '.join(script.stem for script in scripts)}"
    words, options = _words_and_options(arguments)
    if not words and options in (["-h"], ["--help"]):
        print(f"{BENCH}\n{there}")
        return 0
    chosen = [s for s in scripts if not words or any(word in s.stem for word in words)]
    if not chosen:
        raise Trouble(f"No benchmark is so named. {there}")
    if options and len(chosen) > 1:
        raise Trouble(f"Options go to one benchmark, which is named before them. {there}")
    failed = []
    with stores() as env:
        for script in chosen:
            print(f"\n=== {script.stem}", flush=True)
            argv = [sys.executable, "-m", f"tests.bench.{script.stem}", *options]
            if subprocess.run(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode:
                failed.append(script.stem)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


def _words_and_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words before the first option, and all from there on: its value is no name of a benchmark."""
    at = next((n for n, one in enumerate(arguments) if one.startswith("-")), len(arguments))
    return list(arguments[:at]), list(arguments[at:])

# SPDX-License-Identifier: Apache-2.0
"""`manage.py test` and `bench`: throw-away PostgreSQL and Valkey, then one pytest call for each group of tests.

Failed tests of hosts and pages run once more, alone. `--explore` runs rounds with new seeds until its time is over.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchlab.practice.machine import missing_packages
from benchlab.testing import guardian, journal, leftovers, report
from benchlab.testing.profiles import (
    CI,
    DRIVERS,
    FULL,
    NEVER_SKIPPED,
    PROFILE,
    PROFILES,
    QUICK,
    SEED,
    WHOLE_GROUP,
    Group,
    exploring,
    groups,
    new_seed,
    seed_of,
)
from benchlab.testing.report import Count, Result
from benchlab.testing.stores import migrated_template, stores
from benchlab.up.bootstrap import ROOT, apt_install
from benchlab.up.procs import before_exec
from benchlab.up.trouble import Trouble

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
    "shellcheck",
)
# pytest's exit code for an empty selection
NO_TESTS = 5
REQUIRED = "BENCHLAB_RIG"
BENCH = """manage.py bench [NAME ...]        those whose names hold a word; all, without words
manage.py bench NAME [OPTION ...]  one, with options of its own; NAME --help tells them"""
EXPLORE_MINUTES = 60.0
# for an interrupted pytest to stop what it started
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Options:
    """Options of the command line. `minutes`: of exploration, 0 for one run of the profile."""

    profile: str
    seed: int
    minutes: float
    install: bool
    anew: bool
    table: Path | None
    words: tuple[str, ...]


def run_tests(arguments: Sequence[str]) -> int:
    """Run a profile, or what pytest's own arguments choose; 0 if something ran and nothing failed."""
    options = parse(arguments)
    required = os.environ.get(REQUIRED) == "required"
    if required or options.install:
        install_tools()
    run = os.environ[leftovers.RUN] = leftovers.this_run()
    report_killed_runs()
    if not options.minutes and only_drivers(options.words):
        return run_drivers(options)
    try:
        green = explore(options) if options.minutes else run_profile(options, required)
    finally:
        for line in leftovers.clear(ended=run):
            print(f"Left by a test, and cleared away: {line}", flush=True)
    return 0 if green else 1


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line; unknown options are passed to pytest."""
    parser = argparse.ArgumentParser(
        "manage.py test",
        description="Run the tests; pytest's own arguments follow.",
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    for profile, text in (
        (QUICK, "every kind of proof, large products sampled (the default)"),
        (CI, "quick, every page in a browser, each layer interrupted"),
        (FULL, "everything, for a night; goes on where it was interrupted"),
    ):
        which.add_argument(
            f"--{profile}", dest="profile", action="store_const", const=profile, help=text
        )
    which.add_argument(
        "--explore", action="store_true", help="what ci draws, with new seeds until time is over"
    )
    parser.add_argument("--minutes", type=float, help=f"time to explore ({EXPLORE_MINUTES:g})")
    parser.add_argument("--seed", type=int, help="draw what the run that printed this seed drew")
    parser.add_argument("--install", action="store_true", help="get what is needed by apt first")
    parser.add_argument("--anew", action="store_true", help="--full from its beginning")
    parser.add_argument("--table", type=Path, help="write file, seconds and what it proves there")
    own, words = parser.parse_known_args(arguments)
    if own.minutes is not None and not (own.explore and own.minutes > 0):
        parser.error("--minutes takes a positive number, and belongs to --explore")
    if own.explore and own.seed is not None:
        parser.error("--explore draws its seeds; repeat a failure with the command that it prints")
    profile = CI if own.explore else own.profile or os.environ.get(PROFILE) or QUICK
    if profile not in PROFILES:
        parser.error(f"{PROFILE}={profile}: there are {', '.join(PROFILES)}")
    seed = own.seed if own.seed is not None else first_seed(profile)
    if not 0 <= seed < 2**31:
        parser.error(f"--seed takes a number from 0 to {2**31 - 1}")
    minutes = (own.minutes or EXPLORE_MINUTES) if own.explore else 0.0
    return Options(profile, seed, minutes, own.install, own.anew, own.table, tuple(words))


def first_seed(profile: str) -> int:
    """The first seed: from the environment, else from the profile."""
    return int(os.environ.get(SEED) or seed_of(profile))


def only_drivers(words: Sequence[str]) -> bool:
    """True if every named path lies in tests/agents, whose tests need no store.

    Words that are not paths are values of options.
    """
    places = [word for word in words if (ROOT / word.partition("::")[0]).exists()]
    return bool(places) and all(f"{place}/".startswith(f"{DRIVERS}/") for place in places)


def report_killed_runs() -> None:
    """Clear away the leftovers of killed runs, and print a list of them."""
    for line in (*guardian.take_said(), *leftovers.clear()):
        print(f"An earlier run was killed and had left: {line}. It is gone.", flush=True)


def run_drivers(options: Options) -> int:
    """Run tests/agents alone, without a store and with its own pytest.toml."""
    env = os.environ | seeded(options.profile, options.seed)
    argv = [sys.executable, "-m", "pytest", "-q", *options.words]
    return subprocess.run(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode


def seeded(profile: str, seed: int) -> dict[str, str]:
    """Environment of a run's processes. The order of Python's sets comes from the seed, too."""
    return {PROFILE: profile, SEED: str(seed), "PYTHONHASHSEED": str(seed)}


def run_profile(options: Options, required: bool) -> bool:
    """Run everything chosen once; True if something ran and nothing failed."""
    print(f"Profile {options.profile}, seed {options.seed}", flush=True)
    begun = time.monotonic()
    results = run_round(options, groups(options.profile))
    total = sum((result.count for result in results), Count())
    flaky = sum(case.flaky for result in results for case in result.cases)
    report.print_shares(results)
    if options.table:
        options.table.write_text(report.table(results))
    seconds = time.monotonic() - begun
    print(f"\nAll tests: {seconds:.0f} s, profile {options.profile}, seed {options.seed}")
    print_closing_lines(results, options)
    skipped = any(result.count.skipped for result in results if result.title in NEVER_SKIPPED)
    if required and skipped:
        print(f"{REQUIRED}=required, but browser or rig tests were skipped; the reasons are above")
    print(total, flush=True)
    green = bool(total.passed and not total.failed) and flaky <= report.MOST_FLAKY
    return green and not (required and skipped)


def print_closing_lines(results: Sequence[Result], options: Options) -> None:
    command = f"python3 manage.py test --{options.profile} --seed {options.seed}"
    for line in report.closing_lines(results, command):
        print(line)


def explore(options: Options) -> bool:
    """Run rounds with new seeds until the time is over, which cuts the last one short; True if nothing failed."""
    deadline = time.monotonic() + options.minutes * 60
    failed: list[tuple[Options, Result]] = []
    rounds = 0
    while time.monotonic() < deadline:
        drawn = replace(options, seed=new_seed())
        print(f"\nRound {rounds + 1}, profile {drawn.profile}, seed {drawn.seed}", flush=True)
        results = run_round(drawn, exploring(drawn.profile), deadline)
        print_closing_lines(results, drawn)
        failed += [(drawn, result) for result in results if result.count.failed]
        rounds += 1
    print(
        f"\n{rounds} seeds in {options.minutes:g} min; every failure, with the command that repeats it:"
    )
    for drawn, result in failed:
        print_closing_lines([result], drawn)
    print(f"{sum(result.count.failed for _, result in failed)} failures", flush=True)
    return not failed


def run_round(
    options: Options, chosen: Sequence[Group], deadline: float | None = None
) -> list[Result]:
    """The results of these groups, or of what pytest's own arguments choose, with second chances given."""
    results = []
    with stores() as stored, guardian.watching(dict(stored)):
        environment = {**stored, **seeded(options.profile, options.seed)}
        env = environment if options.words else {**migrated_template(environment), WHOLE_GROUP: "1"}
        with remembering(options, env) as before:
            for title, arguments in calls(options, chosen):
                if deadline is None or time.monotonic() < deadline:
                    results.append(run_group(title, arguments, env, deadline))
            if before:
                results.append(report.earlier(before))
        # Named explicitly, as the groups' random choice of tests must not leave these out.
        return report.excused(results, passing_again(results, environment, deadline))


def passing_again(
    results: Sequence[Result], env: Mapping[str, str], deadline: float | None
) -> set[str]:
    """Node ids of the failed tests of hosts and pages that pass when they run once more, alone.

    More of them than a green run may have are not tried again.
    """
    failed = [case for result in results for case in result.cases if case.failed]
    # A test whose tear-down failed as well counts as two cases.
    barred = {case.nodeid for case in failed if not case.second_chance}
    again = list(dict.fromkeys(case.nodeid for case in failed if case.nodeid not in barred))
    if not again:
        return set()
    if len(again) > report.MOST_FLAKY:
        print(f"\n{len(again)} tests of hosts and pages failed: too many for a second chance.")
        return set()
    second = run_group("second chance", again, env, deadline)
    bad = {case.nodeid for case in second.cases if case.failed}
    return {case.nodeid for case in second.cases if not case.skipped} - bad


def calls(options: Options, chosen: Sequence[Group]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Title and pytest's arguments of each call."""
    if options.words:
        yield "chosen", options.words
        return
    for group in chosen:
        yield group.title, group.arguments()


@contextmanager
def remembering(options: Options, env: dict[str, str]) -> Iterator[Mapping[str, float]]:
    """Record the tests that pass in a run of `full`; the next run of the same sources skips them.

    Yields the seconds of each test that had passed before.
    """
    if options.profile != FULL or options.words:
        yield {}
        return
    place = journal.open_for(ROOT, anew=options.anew)
    if seconds_by_test := journal.read_journal(place):
        print(
            f"Going on: {len(seconds_by_test)} tests of these sources have passed before (--anew runs all)"
        )
    # All processes of pytest-xdist must leave out the same tests, also one that is started late: a copy that stays.
    before = Path(env["BENCHLAB_STATE"]) / "passed-before"
    before.write_text("".join(f"{line}\n" for line in sorted(seconds_by_test)))
    env |= {journal.JOURNAL: str(place), journal.BEFORE: str(before)}
    yield seconds_by_test


def run_group(
    title: str, arguments: Sequence[str], env: Mapping[str, str], deadline: float | None = None
) -> Result:
    """Run one pytest call, stopped at the deadline. A crash outside of a test counts as one failure."""
    print(f"\n=== {title}", flush=True)
    xml = Path(env["BENCHLAB_STATE"]) / "report.xml"
    xml.unlink(missing_ok=True)
    begun = time.monotonic()
    argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={xml}", *arguments]
    code = run_pytest(argv, env, deadline)
    seconds = time.monotonic() - begun
    if code == NO_TESTS:
        return Result(title, seconds, Count(), ())
    count, cases = report.read(xml) if xml.exists() else (Count(), ())
    if code and not count.failed:
        crash = report.Case("", title, 0.0, f"pytest ended with exit code {code}, see above")
        return Result(title, seconds, count + Count(failed=1), (*cases, crash))
    return Result(title, seconds, count, cases)


def run_pytest(
    argv: Sequence[str], env: Mapping[str, str], deadline: float | None = None
) -> int | None:
    """Run pytest; return its exit code, or None if the deadline ended it. It dies with us.

    If we are interrupted, we interrupt it once and wait until it has stopped its hosts.
    """
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        # Otherwise the terminal's Ctrl-C would reach it in addition to our signal.
        start_new_session=True,
        preexec_fn=before_exec(signal.SIGTERM),
    )
    try:
        return process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        interrupt(process)
        return None
    except KeyboardInterrupt:
        interrupt(process)
        raise


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the process as Ctrl-C does; kill it if it does not end in time."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def install_tools() -> None:
    """Install what the whole suite needs from apt. Raises Trouble where we may not install it."""
    packages = [*PACKAGES, *missing_packages()]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Trouble(f"Only root may install, and only with apt. Needed: {' '.join(packages)}")
    print(f"Installing with apt: {' '.join(packages)}", flush=True)
    if not apt_install([], *packages):
        raise Trouble(f"apt could not install them; try: apt-get install {' '.join(packages)}")


def run_benchmarks(arguments: Sequence[str]) -> int:
    """Every tests/bench/bench_*.py whose name holds one of the words (all, without words); see BENCH."""
    scripts = sorted((ROOT / "tests" / "bench").glob("bench_*.py"))
    names = f"There are: {', '.join(script.stem for script in scripts)}"
    words, options = _words_and_options(arguments)
    if not words and options in (["-h"], ["--help"]):
        print(f"{BENCH}\n{names}")
        return 0
    chosen = [s for s in scripts if not words or any(word in s.stem for word in words)]
    if not chosen:
        raise Trouble(f"No benchmark is so named. {names}")
    if options and len(chosen) > 1:
        raise Trouble(f"Options go to one benchmark, which is named before them. {names}")
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
    """The words before the first option, and the rest: an option's value is no name of a benchmark."""
    at = next(
        (n for n, argument in enumerate(arguments) if argument.startswith("-")), len(arguments)
    )
    return list(arguments[:at]), list(arguments[at:])

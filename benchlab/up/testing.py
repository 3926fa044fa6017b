"""`manage.py test` and `bench`: throw-away PostgreSQL and Valkey, then pytest, in four calls.

First what needs no host and no browser, on two processes; then the rig, on three, each with a host of its own, for
hosts wait now and then; then what measures or waits for a page, one by one: it would be disturbed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET  # nosec B405  # pytest's own report
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchlab.up import database, postgres, recipes
from benchlab.up.bootstrap import ROOT, apt_install
from benchlab.up.procs import end, identify, spawn
from benchlab.up.state import State
from benchlab.up.trouble import Trouble

# (title, pytest arguments)
GROUPS = (
    ("without host or browser", ("-m", "not rig and not browser and not alone", "-n", "2")),
    ("rig", ("-m", "rig and not browser and not alone", "-n", "3", "--dist", "worksteal")),
    ("alone", ("-m", "alone and not browser")),
    ("browser", ("-m", "browser")),
)
NEVER_SKIPPED = {"browser", "rig", "alone"}  # where BENCHLAB_RIG=required
PACKAGES = (
    "chromium", "fonts-liberation", "busybox", "posh", "yash", "fio", "sysstat", "openssh-server",
    "bonnie++", "sudo",
)  # fmt: skip
NO_TESTS = 5  # pytest's exit code for an empty selection
REQUIRED = "BENCHLAB_RIG"
MEMORY = Path("/dev/shm")  # nosec B108  # only a directory with a name of our own goes there
LEAST_ROOM = 8 << 30  # bytes


@dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run_tests(arguments: Sequence[str]) -> int:
    """Everything, or what pytest's own arguments choose; 0 when nothing failed and something ran."""
    required = os.environ.get(REQUIRED) == "required"
    words = [word for word in arguments if word != "--install"]
    if required or "--install" in arguments:
        install_tools()
    groups = (("chosen", tuple(words)),) if words else GROUPS
    begun = time.monotonic()
    with stores() as env:
        counts = {title: run_group(title, chosen, env) for title, chosen in groups}
    total = sum(counts.values(), Count())
    print(f"\nAll tests: {time.monotonic() - begun:.0f} s")
    print(total, flush=True)
    if required and any(counts[title].skipped for title in NEVER_SKIPPED & counts.keys()):
        print(f"{REQUIRED}=required, but browser or rig tests were skipped; the reasons are above")
        return 1
    return 1 if total.failed or not total.passed else 0


def run_group(title: str, arguments: Sequence[str], env: Mapping[str, str]) -> Count:
    """One pytest call. A crash that left no report counts as one failure."""
    print(f"\n=== {title}", flush=True)
    report = Path(env["BENCHLAB_STATE"]) / "report.xml"
    report.unlink(missing_ok=True)
    slow = ("--durations=12", "--durations-min=10")
    argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *slow, *arguments]
    code = subprocess.run(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode
    if code == NO_TESTS:
        return Count()
    count = read_report(report)
    return count if code == 0 or count.failed else count + Count(failed=1)


def read_report(report: Path) -> Count:
    """Counts of a JUnit report; an error (a fixture that broke) is a failure."""
    try:
        suites = ET.parse(report).getroot().iter("testsuite")  # nosec B314  # pytest's own report
    except (OSError, ET.ParseError):
        return Count(failed=1)
    total = Count()
    for suite in suites:
        number = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        passed = number["tests"] - failed - number["skipped"]
        total += Count(passed, failed, number["skipped"])
    return total


def install_tools() -> None:
    """What the whole suite needs from apt. Raises Trouble where we may not install it."""
    from benchlab.practice.machine import missing_packages

    wanted = [*PACKAGES, *missing_packages()]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Trouble(f"Only root may install, and only with apt. Needed: {' '.join(wanted)}")
    print(f"Installing with apt: {' '.join(wanted)}", flush=True)
    if not apt_install([], *wanted):
        raise Trouble(f"apt could not install them; try: apt-get install {' '.join(wanted)}")


@contextmanager
def stores() -> Iterator[Mapping[str, str]]:
    """The environment of a test process: own PostgreSQL and Valkey, gone with the block."""
    signal.signal(signal.SIGTERM, interrupted)
    with tempfile.TemporaryDirectory(prefix="benchlab-test-", ignore_cleanup_errors=True) as place:
        state = State(Path(place))
        state.create()
        env = database.base_environment(state)
        env["ALLOWED_HOSTS"] = "localhost,127.0.0.1,[::1],testserver"
        env.update(hosts_in_memory())
        with redis(state, env), sql(state, env):
            yield env


def hosts_in_memory() -> dict[str, str]:
    """Where practice hosts keep their disks: in memory if there is room, for a guest's every fsync is one here.

    What a guest synced outlives its power loss there too. Always the same place, so that leftovers are found.
    """
    try:
        room = shutil.disk_usage(MEMORY).free
    except OSError:
        return {}
    if "BENCHLAB_HOSTS" in os.environ or room < LEAST_ROOM or not os.access(MEMORY, os.W_OK):
        return {}
    return {"BENCHLAB_HOSTS": str(MEMORY / f"benchlab-hosts-{os.geteuid()}")}


def interrupted(number: int, frame: object) -> None:
    """SIGTERM unwinds like Ctrl-C, so that the stores are stopped and the directory removed."""
    raise KeyboardInterrupt


@contextmanager
def sql(state: State, env: dict[str, str]) -> Iterator[None]:
    if database.given("DATABASE_URL"):
        yield
        return
    cluster = postgres.plan(state)
    env["DATABASE_URL"] = cluster.url
    try:
        with database.served(cluster, throw_away=True):
            yield
    finally:  # outside `state` when nobody else may read that place
        shutil.rmtree(cluster.data.parent, ignore_errors=True)


@contextmanager
def redis(state: State, env: dict[str, str]) -> Iterator[None]:
    if database.given("REDIS_URL"):
        yield
        return
    recipe, env["REDIS_URL"] = recipes.valkey(state)
    with (state.logs / "valkey.log").open("ab") as log:
        process = spawn(recipe.argv, recipe.env, log, cwd="/", stdin=recipe.stdin)
    try:
        deadline = time.monotonic() + 30
        while not recipe.ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Trouble((state.logs / "valkey.log").read_text(errors="replace"))
            time.sleep(0.02)
        yield
    finally:
        if found := identify("valkey", process.pid):
            end([found])
        process.wait()


def run_benchmarks(arguments: Sequence[str]) -> int:
    """Every tests/bench/bench_*.py whose name holds one of the words (all, without words)."""
    scripts = sorted((ROOT / "tests" / "bench").glob("bench_*.py"))
    chosen = [s for s in scripts if not arguments or any(word in s.stem for word in arguments)]
    if not chosen:
        raise Trouble(f"No benchmark is so named. There are: {', '.join(s.stem for s in scripts)}")
    failed = []
    with stores() as env:
        for script in chosen:
            print(f"\n=== {script.stem}", flush=True)
            argv = [sys.executable, "-m", f"tests.bench.{script.stem}"]
            if subprocess.run(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode:
                failed.append(script.stem)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0

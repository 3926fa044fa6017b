"""The cost of looking at 1,000 runs, as a reparse of a lab does: reading them, looking, and keeping what is found.

Each run has two minutes of samples of a host with a stripe of four disks (diskstats' seven metrics, CPU), its tool's
own series, windows and 45 figures, in PostgreSQL. Told apart by part, of three rounds: all is found for the first time;
nothing has changed; each row says something else. Target: any of them in less than 5 s of CPU, all parts together,
PostgreSQL's process for this connection with them: that is what it takes where nothing else works.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import django

from tests.bench import options

RUNS, TARGET_S = 1000, 5.0


def main() -> int:
    options.none(__doc__)
    django.setup()
    from django.core.management import call_command

    from benchlab.findings.models import Finding
    from tests.bench import lab_data, lab_findings

    call_command("migrate", verbosity=0)
    person = lab_data.person(f"bench {time.time()}")
    started = time.perf_counter()
    pks = lab_findings.attempts(person, RUNS)
    print(f"{len(pks)} runs made in {time.perf_counter() - started:.0f} s", flush=True)
    rows = Finding.objects.filter(attempt__in=pks)
    slowest = 0.0
    for what in ("found", "unchanged", "changed"):
        if what == "changed":
            rows.update(says="before")
        slowest = max(slowest, again(what, pks))
        print(f"  {rows.count()} findings kept", flush=True)
    kinds(pks)
    return int(slowest > TARGET_S)


def again(what: str, pks: list[int]) -> float:
    """Seconds of CPU for the whole; prints them by part."""
    from benchlab.findings import stored_runs, storing

    spent = dict.fromkeys(("reading", "looking", "keeping"), 0.0)
    with (
        timed(stored_runs, "read_runs", "reading", spent, list),
        timed(storing, "findings_of_run", "looking", spent, clock=time.process_time),
        timed(storing, "_store_sets", "keeping", spent),
    ):
        started, before = time.perf_counter(), cpu()
        storing.find_for_attempts(pks)
        wall, whole = time.perf_counter() - started, cpu() - before
    parts = [*spent.items(), ("else", whole - sum(spent.values()))]
    print(
        f"{what}: {whole:.2f} s of CPU, target {TARGET_S:g}"
        f" ({', '.join(f'{part} {seconds:.2f}' for part, seconds in parts)}); {wall:.2f} s passed"
    )
    return whole


def cpu() -> float:
    """Seconds of CPU of this process, and of the one that PostgreSQL keeps for its connection."""
    return time.process_time() + sum(_ticks()) / os.sysconf("SC_CLK_TCK")


def _ticks() -> list[int]:
    told = Path(f"/proc/{_server()}/stat").read_text().rpartition(")")[2].split()
    return [int(one) for one in told[11:13]]


@cache
def _server() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@contextmanager
def timed(
    module: Any,
    name: str,
    part: str,
    spent: dict[str, float],
    take: Callable[[Any], Any] = lambda one: one,
    clock: Callable[[], float] = cpu,
) -> Iterator[None]:
    """Adds up what a function of a module takes; `take`: all of what it gives bit by bit."""
    original = getattr(module, name)

    def measured(*given: Any, **named: Any) -> Any:
        before = clock()
        try:
            return take(original(*given, **named))
        finally:
            spent[part] += clock() - before

    with mock.patch.object(module, name, measured):
        yield


def kinds(pks: list[int]) -> None:
    """The dearest, by CPU."""
    from benchlab.analysis import finding
    from benchlab.findings import stored_runs

    spent, runs = dict.fromkeys(finding.run_findings(), 0.0), pks[:100]
    for run in stored_runs.read_runs(runs):
        for kind, module in finding.run_findings().items():
            begun = time.process_time()
            module.applies(run)
            spent[kind] += time.process_time() - begun
    for kind, seconds in sorted(spent.items(), key=lambda item: -item[1])[:5]:
        print(f"{kind}: {1e6 * seconds / len(runs):.0f} µs a run")


if __name__ == "__main__":
    sys.exit(main())

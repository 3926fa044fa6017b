"""CPU time of one scrape of /metrics, of the web server and of PostgreSQL together, at 1,000 runs and at 100,000.

Each run has two findings, each hundred runs a layout of a campaign. Four scrapes in a minute are what Prometheus makes;
the first of them counts all runs, so the mean of four is what counts. The dearest one is told beside it.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import django

from tests.bench import options

FEW, MANY, ROUNDS, A_MINUTE = 1_000, 100_000, 9, 4
TARGET_MS, RATIO = 50.0, 5.0  # at MANY runs; against FEW
TOKEN = "a-token-of-24-letters-or-more"
FINDINGS = """
INSERT INTO findings_finding (campaign_id, attempt_id, kind, about, says, severity, numbers, runs, found_at, note,
                              stands)
SELECT r.campaign_id, a.id, 'kind' || n, '', 'half of it came from a cache', (ARRAY['doubt', 'note'])[n], '{}',
       jsonb_build_array(r.id), now(), '', true
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id, generate_series(1, 2) n
WHERE r.campaign_id = ANY(%(campaigns)s)
"""


def main() -> int:
    options.none(__doc__)
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from tests.bench import lab_around, lab_data

    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    call_command("migrate", verbosity=0)
    person = lab_data.person(f"metrics {time.time()}")
    took = {}
    for number in (FEW, MANY - FEW):
        campaigns = lab_data.runs(person, number, 0)
        lab_data.run((FINDINGS,), {"campaigns": campaigns}, ("findings_finding",))
        if number == FEW:
            around = (lab_around.HOSTS, lab_around.DEVICES)
            lab_data.run(around, {"team": person.teams.get().pk}, ("hosts_device",))
        took[number] = scrapes_ms()
    few, (many, first) = took[FEW][0], took[MANY - FEW]
    good = many < TARGET_MS and many < RATIO * few
    print(
        f"{'ok    ' if good else 'MISSED'} a scrape: {few:.1f} ms of CPU at {FEW:,} runs, {many:.1f} ms at {MANY:,}"
        f" ({many / few:.1f} x), target {TARGET_MS:.0f} ms; the one of a minute that counts all runs: {first:.1f} ms",
        flush=True,
    )
    return int(not good)


def scrapes_ms() -> tuple[float, float]:
    """Mean of a minute's scrapes, and the first of them; medians of some minutes, after one that loads all code."""
    from benchlab.metrics import database

    minutes = []
    for _ in range(ROUNDS + 1):
        database._Counts.at = float("-inf")
        minutes.append([_scrape_ms() for _ in range(A_MINUTE)])
    del minutes[0]
    mean = statistics.median(statistics.mean(minute) for minute in minutes)
    return mean, statistics.median(minute[0] for minute in minutes)


def _scrape_ms() -> float:
    from django.db import connection
    from django.test import Client

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        server = int(cursor.fetchone()[0])
    begun, served = time.process_time(), _cpu_s(server)
    answer = Client(SERVER_NAME="localhost").get(
        "/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert (
        answer.status_code == 200 and b'benchlab_scrape_ok{part="database"} 1.0' in answer.content
    )
    return 1000 * (time.process_time() - begun + _cpu_s(server) - served)


def _cpu_s(pid: int) -> float:
    """CPU time of one process, in nanoseconds' steps (clock ticks are ten milliseconds)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    sys.exit(main())

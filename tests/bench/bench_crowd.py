"""A hundred people at once on one machine, while a campaign goes on there: what they wait, and what it costs the lab.

The web server, worker and beat are those of `manage.py up`. Half of the people keep the running campaign's live page
open, opened one after the other; the others read pages of a lab of 1,000 runs and of the API, each for ten seconds or
so; meanwhile somebody has a host read that never says a word. Only with `--charts` do live pages fetch their charts'
data, too. All on loopback, for `--seconds`. The campaign measures this machine in a directory.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import psutil
from django.conf import settings

from tests.bench import lab_services
from tests.bench.bench_api import p95_of, verdict

RUNS = 1_000  # in the lab, measured before
RUN_S = 4  # of each run that goes on meanwhile
ALONE_S, SETTLE_S = 20.0, 15.0
P95_S, MOST_CONNECTIONS, GROWTH_MB = 1.0, 40, 20  # targets
LATE_S, GAP_S = 10.0, 5.0  # a poll's age; from one run's end to the next one's start
STORED_S = 10.0  # moves.SEEN_AGAIN: a poll is not noted before the last note is so old
SUCCEEDED = "succeeded"


def main() -> int:
    wish = argparse.ArgumentParser()
    wish.add_argument("--people", type=int, default=100)
    wish.add_argument("--seconds", type=int, default=60)
    wish.add_argument("--charts", action="store_true", help="live pages fetch their charts, too")
    asked = wish.parse_args()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    directory = Path(tempfile.mkdtemp(prefix="bench-crowd-"))
    try:
        return lab(directory, asked.people, asked.seconds, asked.charts)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def lab(directory: Path, people: int, seconds: int, charts: bool) -> int:
    from benchlab.runs.models import Layout
    from tests.bench import lab_data
    from tests.runs import drive, local_host
    from tests.stack import wait_for

    owner = lab_data.person(f"crowd {time.time()}")
    finished = lab_data.runs(owner, RUNS)
    with (
        local_host.served(directory / "state") as (state, port),
        services(directory) as (url, server),
        silent_host(owner) as silent,
    ):
        host = local_host.register(owner.teams.get(), state, port)
        campaign = make_campaign(owner, host, directory, ALONE_S + SETTLE_S + seconds)
        drive.plan_and_start(campaign)
        running = Layout.objects.filter(campaign=campaign, phase="ready")
        wait_for(running.exists, directory / "worker.log", 60)
        with watched(campaign.pk, server) as alone:
            time.sleep(ALONE_S)
        paths = addresses(owner, finished)
        pages = Crowd(
            owner, people, url, f"/campaigns/{campaign.pk}/", paths, f"/hosts/{silent}/read/"
        )
        with watched(campaign.pk, server) as seen:
            asyncio.run(pages.come(seconds, draws=charts))
        return told(pages, alone, seen, campaign)


@contextmanager
def services(directory: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Web server, worker and beat as `up` starts them; the web server's address and process."""
    env = lab_services.environment(directory)
    with lab_services.workers(directory, env), lab_services.web(directory, env) as server:
        yield server


@contextmanager
def silent_host(owner: Any) -> Iterator[int]:
    """A host that takes connections and never says a word; its id."""
    from benchlab.hosts import registration

    team = owner.teams.get()
    key = registration.make_credential(team, "silent")
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        host = registration.add_host(team, "silent", "127.0.0.1", key, port=server.getsockname()[1])
        registration.change_host(host, host_key=" ".join(key.public_key.split()[:2]))
        yield host.pk


def make_campaign(owner: Any, host: Any, directory: Path, seconds: float) -> Any:
    """Of runs enough for so many seconds, and some more."""
    from benchlab.campaigns.models import Workload
    from benchlab.engine.new_runs import create_campaign
    from benchlab.topologies.models import Topology

    team, scratch = owner.teams.get(), directory / "scratch"
    scratch.mkdir()
    stack = [{"kind": "directory", "options": {"path": str(scratch)}, "devices": []}]
    # As slow as a tool can be: it is the machine's people that are measured, not its disk.
    work = {"rw": "read", "size": 1 << 20, "runtime_s": RUN_S, "ioengine": "psync", "direct": False,
            "extra": ["rate_iops=50"]}  # fmt: skip
    return create_campaign(
        team=team, user=owner, name="Meanwhile", question="", hosts=[host],
        topologies=[Topology.objects.create(team=team, name="scratch", stack=stack)],
        workloads=[Workload.objects.create(team=team, name="slow reads", tool="fio", options=work)],
        repeats=int(seconds / RUN_S) + 5, order="as_written", seed=1,
    )  # fmt: skip


def addresses(owner: Any, campaigns: list[int]) -> list[str]:
    """Addresses that people look at; those of the lab's results more often."""
    from benchlab.campaigns.models import Run
    from benchlab.hosts.models import Host

    runs = (
        Run.objects.filter(campaign__in=campaigns).order_by("?").values_list("pk", flat=True)[:40]
    )
    hosts = Host.objects.for_user(owner).values_list("pk", flat=True)
    return [
        "/", "/campaigns/", "/hosts/", "/topologies/", "/workloads/", "/library/", "/compare/", "/activity/", "/team/",
        *(f"/campaigns/{pk}/" for pk in campaigns), *(f"/runs/{pk}/" for pk in runs),
        *(f"/hosts/{pk}/" for pk in hosts),
        *(f"/api/runs/?campaign={pk}" for pk in campaigns[:3]), "/api/hosts/", "/api/campaigns/",
    ]  # fmt: skip


class Crowd:
    """Each with an account and a session of their own."""

    def __init__(
        self, owner: Any, people: int, url: str, live: str, paths: list[str], read: str
    ) -> None:
        from tests.bench.crowd_browser import Browser, Told

        self.told: list[Told] = []
        self.live, self.paths, self.read = live, paths, read
        self.browsers = [Browser(url, session(owner, n), self.told) for n in range(people)]
        self.begun = 0.0

    async def come(self, seconds: float, *, draws: bool) -> None:
        from tests.bench import crowd_browser as browsers

        half = len(self.browsers) // 2
        opened = [asyncio.Event() for _ in range(half)]
        self.begun = time.monotonic()
        until = self.begun + seconds
        await asyncio.gather(
            *(browsers.follow(one, self.live, (self.begun + SETTLE_S * n / half, until), seen, draws=draws)
              for n, (one, seen) in enumerate(zip(self.browsers[:half], opened, strict=True))),
            *(browsers.stroll(one, self.paths, until, random.Random(n))
              for n, one in enumerate(self.browsers[half:-1])),
            self._press(self.browsers[-1], until),
        )  # fmt: skip
        assert all(seen.is_set() for seen in opened), "a stream was never open"
        for one in self.browsers:
            await one.close()

    async def _press(self, browser: Any, until: float) -> None:
        while time.monotonic() < until:
            await browser.press(self.read)
            await asyncio.sleep(5)


def session(owner: Any, number: int) -> dict[str, str]:
    from django.contrib.auth.models import User
    from django.middleware.csrf import _get_new_csrf_string
    from django.test import Client

    from benchlab.team.models import Membership

    user = User.objects.create_user(f"{owner.username} {number}")
    Membership.objects.create(team=owner.teams.get(), user=user)
    client = Client()
    client.force_login(user)
    return {
        settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value,
        settings.CSRF_COOKIE_NAME: _get_new_csrf_string(),
    }


class Watch(threading.Thread):
    """Each half second: the web server's memory, connections to the database, how long ago the campaign was polled."""

    def __init__(self, campaign: int, server: psutil.Process) -> None:
        super().__init__(daemon=True)
        self.campaign, self.server = campaign, server
        self.over = threading.Event()
        self.memory: list[float] = []
        self.connections: list[int] = []
        self.late: list[float] = []
        self.swept: list[float] = []
        self.used_s = self.cpu = 0.0
        self.begun_at: Any = None
        self.ended_at: Any = None

    def run(self) -> None:
        from django.db import connection
        from django.utils import timezone

        began, used = time.monotonic(), sum(self.server.cpu_times()[:2])
        self.begun_at = timezone.now()
        while not self.over.wait(0.5):
            self.look()
        self.used_s = sum(self.server.cpu_times()[:2]) - used
        self.cpu = self.used_s / (time.monotonic() - began)
        self.ended_at = timezone.now()
        connection.close()

    def look(self) -> None:
        from django.db import connection
        from django.utils import timezone

        from benchlab.runs.models import Layout

        self.memory.append(self.server.memory_info().rss / 2**20)
        with connection.cursor() as cursor:
            cursor.execute(lab_services.CONNECTIONS)
            self.connections.append(cursor.fetchone()[0])
        seen = Layout.objects.get(campaign=self.campaign).seen_at
        self.late.append((timezone.now() - seen).total_seconds())
        self.swept.append(swept_ago())


def swept_ago() -> float:
    """By the sign of life of the worker's sweeper."""
    from benchlab.workers import beats

    age = beats.age_s()
    return 1e9 if age is None else age


@contextmanager
def watched(campaign: int, server: psutil.Process) -> Iterator[Watch]:
    watch = Watch(campaign, server)
    watch.start()
    try:
        yield watch
    finally:
        watch.over.set()
        watch.join()


def gaps(campaign: Any, watch: Watch) -> list[float]:
    """Seconds from each run's end to the next one's start, by the host's clock, of runs within that time."""
    from benchlab.runs.models import Attempt

    rows = Attempt.objects.filter(
        run__campaign=campaign, started_at__gte=watch.begun_at, ended_at__lte=watch.ended_at
    ).order_by("run__position")
    bad = [row.reason_text for row in rows if row.outcome != SUCCEEDED]
    assert not bad, bad
    return [
        after.meta["started_mono"] - before.meta["ended_mono"]
        for before, after in itertools.pairwise(rows)
    ]


def told(crowd: Crowd, alone: Watch, seen: Watch, campaign: Any) -> int:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{len(crowd.browsers)} people, {os.cpu_count()} CPUs, load now {load}", flush=True)
    bad = verdict(*answers(crowd))
    for what in ("page", "part", "figure", "api", "press"):
        if any(one.what == what for one in crowd.told):
            bad += verdict(*waited(crowd, what))
    by_path(crowd)
    start, end = seen.memory[int(SETTLE_S * 2)], statistics.mean(seen.memory[-6:])
    bad += verdict(
        f"the web server's memory: {start:.0f} MB after {SETTLE_S:.0f} s, {end:.0f} MB at the end, most "
        f"{max(seen.memory):.0f}; its CPU {seen.cpu:.0%} of one, {seen.used_s / len(crowd.browsers):.2f} s for a "
        f"person, {seen.used_s / len(crowd.told) * 1000:.0f} ms for an answer",
        end - start <= GROWTH_MB,
    )
    most = max(seen.connections)
    bad += verdict(f"connections to PostgreSQL: at most {most}", most <= MOST_CONNECTIONS)
    bad += verdict(
        f"the campaign was polled at most {max(seen.late):.1f} s ago (alone {max(alone.late):.1f}), the sweeper's last "
        f"sweep {max(seen.swept):.1f} s ago",
        max(seen.late) <= STORED_S + LATE_S / 2 and max(seen.swept) <= LATE_S / 2,
    )
    before, meanwhile = gaps(campaign, alone), gaps(campaign, seen)
    return bad + verdict(
        f"from run to run: median {statistics.median(meanwhile):.2f} s, worst {max(meanwhile):.2f} of {len(meanwhile)} "
        f"(alone {statistics.median(before):.2f} and {max(before):.2f})",
        max(meanwhile) <= GAP_S,
    )  # fmt: skip


def answers(crowd: Crowd) -> tuple[str, bool]:
    found: dict[int, int] = {}
    for one in crowd.told:
        found[one.status] = found.get(one.status, 0) + 1
    said = ", ".join(f"{status or 'none'}: {count}" for status, count in sorted(found.items()))
    return f"{len(crowd.told)} answers ({said})", set(found) <= {200, 204, 302}


def waited(crowd: Crowd, what: str) -> tuple[str, bool]:
    every = sorted(one.seconds for one in crowd.told if one.what == what)
    late = p95_of(every)
    said = f"{what}: {len(every)}, median {statistics.median(every) * 1000:.0f} ms, p95 {late * 1000:.0f} ms, "
    return f"{said}worst {every[-1] * 1000:.0f} ms", late < P95_S


def by_path(crowd: Crowd) -> None:
    """The kinds of pages that cost most, by the sum of what was waited."""
    kinds: dict[str, list[float]] = {}
    for one in crowd.told:
        kind = "/".join(
            "N" if part.isdigit() else part for part in one.path.partition("?")[0].split("/")
        )
        kinds.setdefault(f"{one.what} {kind}", []).append(one.seconds)
    for kind, every in sorted(kinds.items(), key=lambda pair: -sum(pair[1]))[:8]:
        print(
            f"       {kind}: {len(every)}, mean {statistics.mean(every) * 1000:.0f} ms", flush=True
        )


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    sys.exit(main())

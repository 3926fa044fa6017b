"""Many hosts at once: does each campaign take as long on one of N hosts as it would alone?

N made-up machines (machines.py) behind a real SSH server, whose runs take their time; PostgreSQL, Valkey, worker and
beat are real. First one host alone, then all others in one campaign, some runs of each on a raw disk. The ideal is the
time that the runs themselves take. What misses its target is told; it fails only when a campaign does.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
import psutil
from django.utils import timezone

from tests.bench import lab_services
from tests.bench.bench_api import p95_of, verdict

LATENCY_S = 0.02  # of each command there: sshd's and the shell's forks
# Targets. The first is of 60 hosts and 3 runs of 5 s: in other measures twice the ideal.
WALL, LAG_P95_S, LAG_P95_MANY_S, MANY = 2.0, 2.0, 3.0, 100
CPU_S, GAP_S, GROWTH_MB, CONNECTIONS = 0.22, 0.5, 30.0, 20
LOOK_S = 0.5


def main() -> int:
    wish = argparse.ArgumentParser()
    wish.add_argument("--hosts", type=int, default=60)
    wish.add_argument("--runs", type=int, default=3)
    wish.add_argument("--seconds", type=int, default=5, help="that each run takes")
    asked = wish.parse_args()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    directory = Path(tempfile.mkdtemp(prefix="bench-hosts-"))
    try:
        alone, many = measured(directory, asked.hosts, asked.runs, asked.seconds)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    tell(alone, many, asked.runs * asked.seconds)
    return int(bool(alone.failed or many.failed))


def measured(directory: Path, hosts: int, runs: int, seconds: int) -> tuple[Figures, Figures]:
    from tests.bench import machines

    env = lab_services.environment(directory)
    leave_others()
    lab = Lab()
    with machines.farm(directory, hosts + 1, lab.key.public_key, LATENCY_S) as farm:
        rows = [lab.host(number, farm) for number in range(hosts + 1)]
        with lab_services.workers(directory, env) as worker:
            first, others = (lab.campaign(some, runs, seconds) for some in (rows[:1], rows[1:]))
            for campaign in (first, others):
                lab.planned(campaign, directory / "worker.log")
            processes = worker, farm.process
            return campaign_figures(first, *processes), campaign_figures(others, *processes)


def leave_others() -> None:
    """Put off what a benchmark before this one left unfinished in its database: it is not for our worker."""
    from benchlab.runs.models import Layout

    Layout.objects.update(next_step_at=timezone.now() + timedelta(days=1))


class Lab:
    """A team with a key, and hosts that are machines of the farm."""

    def __init__(self) -> None:
        from benchlab.hosts import registration
        from tests.bench import lab_data

        self.user = lab_data.person(f"hosts {time.time()}")
        self.team = self.user.teams.get()
        self.key = registration.make_credential(self.team, "hosts")

    def host(self, number: int, farm: Any) -> Any:
        """Read, with its first spare disk."""
        from benchlab.hosts import discovery, registration, spare_disks
        from benchlab.hosts.models import Device

        row = registration.add_host(
            self.team, f"m{number}", "127.0.0.1", self.key, port=farm.ports[number]
        )
        registration.change_host(row, host_key=farm.host_key)
        discovery.read_facts(row)
        disk = Device.objects.get(host=row, serial__endswith="D0")
        spare_disks.mark_spare(disk, self.user, disk.confirmation, "ssd")
        return row

    def campaign(self, rows: Sequence[Any], runs: int, seconds: int) -> Any:
        from benchlab.campaigns.models import Workload
        from benchlab.engine.new_runs import create_campaign
        from benchlab.topologies.models import Topology

        name = f"{len(rows)} hosts, {time.time()}"
        stack = [
            {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]}
        ]
        work = {"rw": "randread", "iodepth": 8, "size": 256 << 20, "runtime_s": seconds}
        return create_campaign(
            team=self.team, user=self.user, name=name, question="", hosts=rows,
            topologies=[Topology.objects.create(team=self.team, name=name, stack=stack)],
            workloads=[Workload.objects.create(team=self.team, name=name, tool="fio", options=work)],
            repeats=runs, order="as_written", seed=1,
        )  # fmt: skip

    def planned(self, campaign: Any, log: Path) -> None:
        from tests.stack import wait_for

        layouts = campaign.layouts.all()
        wait_for(lambda: not layouts.filter(planned_at=None).exists(), log, 60 + layouts.count())
        bad = list(layouts.exclude(plan_error="").values_list("plan_error", flat=True))
        assert not bad, bad


@dataclass(frozen=True)
class Figures:
    """Figures of one campaign on so many hosts. The clock of the machines is ours."""

    hosts: int
    wall_s: float
    lags: list[float]  # from a run's end on its machine to its stored result
    gaps: list[float]  # from its end to the start of the next run on that layout
    failed: list[str]
    cpu_s: float  # the worker's, for a run
    stores_cpu_s: float  # PostgreSQL's, for a run
    transactions: float  # of PostgreSQL, for a run; a statement by itself is one
    machines_cpu: float  # of one CPU, what the machines themselves took
    connections: int  # to PostgreSQL, the most
    memory_mb: list[float]  # the worker's, from the start to the end


def campaign_figures(campaign: Any, worker: psutil.Process, machines: psutil.Process) -> Figures:
    """Start a planned campaign, and watch it to its end. AssertionError when it takes far too long."""
    from benchlab.engine import commands
    from tests.runs.drive import OVER

    layouts, runs = campaign.layouts.all(), campaign.runs.count()
    memory, connections = list[float](), list[int]()
    before, begun = used(worker, machines), time.monotonic()
    commands.start_campaign(campaign, dict(layouts.values_list("pk", "plan_fingerprint")))
    until = begun + 120 + 12 * layouts.count()
    while layouts.exclude(phase__in=OVER).exists():
        assert time.monotonic() < until, list(layouts.values_list("pk", "phase", "trouble"))
        memory.append(worker.memory_info().rss / 2**20)
        connections.append(asked(lab_services.CONNECTIONS))
        time.sleep(LOOK_S)
    seconds = time.monotonic() - begun
    worker_s, stores_s, machines_s, done = (
        now - then for now, then in zip(used(worker, machines), before, strict=True)
    )
    return Figures(
        layouts.count(), wall_s(campaign), lags(campaign), gaps(campaign), failed(campaign),
        worker_s / runs, stores_s / runs, done / runs, machines_s / seconds, max(connections), memory,
    )  # fmt: skip


def used(worker: psutil.Process, machines: psutil.Process) -> tuple[float, float, float, float]:
    """CPU seconds of the worker, of PostgreSQL and of the machines, and PostgreSQL's transactions, until now."""
    done = asked(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    )
    server = psutil.Process(asked("SELECT pg_backend_pid()")).parent()
    stores = sum(map(cpu_s, [server, *server.children()]))
    return sum(worker.cpu_times()[:2]), stores, sum(machines.cpu_times()[:2]), float(done)


def cpu_s(process: psutil.Process) -> float:
    """With that of children which have ended; a process that is about to has told its parent."""
    with suppress(psutil.NoSuchProcess):
        return sum(process.cpu_times()[:4])
    return 0.0


def asked(sql: str) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def rows(campaign: Any) -> Any:
    from benchlab.runs.models import Attempt

    return Attempt.objects.filter(run__campaign=campaign).order_by("layout", "run__position")


def wall_s(campaign: Any) -> float:
    from django.db.models import Max

    campaign.refresh_from_db()
    ended = campaign.layouts.aggregate(last=Max("ended_at"))["last"]
    return (ended - campaign.started_at).total_seconds()


def lags(campaign: Any) -> list[float]:
    ended = (row for row in rows(campaign) if "ended_at" in row.meta)
    return [row.ended_at.timestamp() - row.meta["ended_at"] for row in ended]


def gaps(campaign: Any) -> list[float]:
    measured = [row for row in rows(campaign) if "ended_mono" in row.meta]
    return [
        after.meta["started_mono"] - before.meta["ended_mono"]
        for before, after in itertools.pairwise(measured)
        if before.layout_id == after.layout_id
    ]


def failed(campaign: Any) -> list[str]:
    from benchlab.runs.states import LayoutPhase, Outcome

    runs = rows(campaign).exclude(outcome=Outcome.SUCCEEDED).values_list("reason_text", flat=True)
    bad = campaign.layouts.exclude(phase=LayoutPhase.DONE, outcome=Outcome.SUCCEEDED)
    return [*runs, *(f"{row}: {row.phase} {row.reason_text} {row.trouble}" for row in bad)]


def tell(alone: Figures, many: Figures, ideal_s: float) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(
        f"{os.cpu_count()} CPUs, load now {load}; the runs themselves take {ideal_s:g} s",
        flush=True,
    )
    for one in (alone, many):
        for text in dict.fromkeys(one.failed):
            print(f"FAILED {text[:500]}", flush=True)
        tell_one(one, ideal_s)
    growth = max(many.memory_mb) - many.memory_mb[0]
    verdict(
        f"the worker's memory: {many.memory_mb[0]:.0f} MB at the start, at most {max(many.memory_mb):.0f}, "
        f"{many.memory_mb[-1]:.0f} at the end",
        growth <= GROWTH_MB,
    )
    verdict(
        f"connections to PostgreSQL: at most {many.connections}, of one host {alone.connections}",
        many.connections <= CONNECTIONS,
    )


def tell_one(one: Figures, ideal_s: float) -> None:
    print(f"{one.hosts} host{'s' * (one.hosts > 1)}:", flush=True)
    ratio = one.wall_s / ideal_s
    verdict(f"wall {one.wall_s:.1f} s, {ratio:.2f} of the ideal", ratio <= WALL)
    if one.lags:
        late, most = p95_of(sorted(one.lags)), LAG_P95_MANY_S if one.hosts > MANY else LAG_P95_S
        said = f"from a run's end to its result: median {statistics.median(one.lags):.2f} s, p95 {late:.2f} s"
        verdict(said, late <= most)
    if one.gaps:
        middle = statistics.median(one.gaps)
        verdict(
            f"between two runs: median {middle:.2f} s, p95 {p95_of(sorted(one.gaps)):.2f} s",
            middle <= GAP_S,
        )
    verdict(
        f"CPU of the worker: {one.cpu_s:.2f} s for a run; PostgreSQL's {one.stores_cpu_s:.2f} s in "
        f"{one.transactions:.0f} transactions; the machines themselves took {one.machines_cpu:.0%} of a CPU",
        one.cpu_s <= CPU_S,
    )


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    sys.exit(main())

"""Cost of one team's silent hosts to another team: how long its plan, its reading of facts and its build take.

First alone, then beside hosts of another team whose facts and plans are asked for and whose layouts are to be built,
and which take a connection and go no further than --how. Worker, stores and sockets are real; the team's own host is a
made-up machine. Both times are of the same run, so that their ratio says the same on a slow machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

from tests import silent_hosts
from tests.bench import lab_services
from tests.bench.bench_api import verdict

# Twice the time alone, and a second for what chance adds to a short time on two CPUs
MOST, SLACK_S = 2.0, 1.0
ROUNDS = 2
SETTLE_S = 8.0  # until the silent hosts have what they can get


def main() -> int:
    wish = argparse.ArgumentParser()
    wish.add_argument("--hosts", type=int, nargs="*", default=[12, 40, 100], help="that are silent")
    wish.add_argument("--how", choices=silent_hosts.HOW, nargs="*", default=silent_hosts.HOW)
    asked = wish.parse_args()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    for how, count in itertools.product(asked.how, asked.hosts):
        directory = Path(tempfile.mkdtemp(prefix="bench-shares-"))
        try:
            measure(directory, count, how)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


def measure(directory: Path, count: int, how: str) -> None:
    from tests.bench import bench_hosts, machines

    bench_hosts.leave_others()
    lab, others, log = bench_hosts.Lab(), bench_hosts.Lab(), directory / "worker.log"
    env = lab_services.environment(directory)
    with (
        machines.farm(directory, 1, lab.key.public_key, 0.02) as farm,
        silent_hosts.silent_hosts(count, how) as silent,
    ):
        host = lab.host(0, farm)
        campaign = lab.campaign([host], 1, 1)
        with lab_services.workers(directory, env):
            lab.planned(campaign, log)
            alone = [times(lab, host, log) for _ in range(ROUNDS)]
            busy = Busy(others, silent)
            beside = []
            for _ in range(ROUNDS):
                busy.begin()
                time.sleep(SETTLE_S)
                beside.append(times(lab, host, log))
    tell(count, how, alone, beside)


class Busy:
    """Half of the silent hosts are to be planned, on the others a layout is to be built, and each is to be read."""

    def __init__(self, lab: Any, silent: Any) -> None:
        from benchlab.hosts import registration

        self.lab = lab
        self.rows = [
            registration.change_host(
                registration.add_host(lab.team, f"s{number}", "127.0.0.1", lab.key, port=port),
                host_key=silent.host_key,
            )
            for number, port in enumerate(silent.ports)
        ]
        half = len(self.rows) // 2
        self.planned = lab.campaign(self.rows[:half], 1, 1)
        self.built = lab.campaign(self.rows[half:], 1, 1)

    def begin(self) -> None:
        """All that is not under way is asked for anew."""
        from benchlab.engine import commands
        from benchlab.hosts import host_tasks

        commands.request_plans(self.planned)
        layouts = self.built.layouts
        layouts.update(phase="provisioning", next_step_at=None)
        commands.wake_layouts(*layouts.values_list("pk", flat=True))
        for row in self.rows:
            host_tasks.request_task(row, "read_facts", self.lab.user)


def times(lab: Any, host: Any, log: Path) -> dict[str, float]:
    """Seconds of each."""
    from benchlab.engine import commands
    from benchlab.hosts import host_tasks
    from tests.runs.drive import OVER

    begun = time.monotonic()
    campaign = lab.campaign([host], 1, 1)
    lab.planned(campaign, log)
    plan_s = time.monotonic() - begun
    task = host_tasks.request_task(host, "read_facts", lab.user)

    def read() -> bool:
        task.refresh_from_db()
        return task.ended_at is not None

    facts_s = seconds(read, log)
    layouts = campaign.layouts.all()
    commands.start_campaign(campaign, dict(layouts.values_list("pk", "plan_fingerprint")))
    built_s = seconds(lambda: layouts.filter(ready_at__isnull=False).exists(), log)
    commands.cancel_campaign(campaign)
    seconds(lambda: not layouts.exclude(phase__in=OVER).exists(), log)
    return {"plan": plan_s, "facts": facts_s, "build": built_s}


def seconds(over: Callable[[], bool], log: Path) -> float:
    from tests.stack import wait_for

    begun = time.monotonic()
    wait_for(over, log, 600)
    return time.monotonic() - begun


def tell(
    count: int, how: str, alone: list[dict[str, float]], beside: list[dict[str, float]]
) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{count} hosts, {how}; load {load}", flush=True)
    whole = [[sum(one.values()) for one in some] for some in (alone, beside)]
    said_of("all three", *whole)
    for name in alone[0]:
        said_of(name, *([one[name] for one in some] for some in (alone, beside)))


def said_of(what: str, before: list[float], after: list[float]) -> None:
    ratio = max(after) / max(before)
    told = [", ".join(f"{one:.1f}" for one in some) for some in (before, after)]
    verdict(
        f"{what}: alone {told[0]} s, beside them {told[1]} s, {ratio:.1f} times",
        max(after) <= MOST * max(before) + SLACK_S,
    )


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    sys.exit(main())

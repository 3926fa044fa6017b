"""The cost of the engine per run: from one tool's end to the next one's start on one layout, by the host's own clock.

On the practice host, ten short runs on a raw disk. Everything a real campaign does lies in between: poll, collect,
store, parse, guard, caches dropped, next start. Target: at most 0.5 s (median). Most of it are the host's own forks,
whose cost is told beside it.
"""

from __future__ import annotations

import itertools
import statistics
import sys

import django

from benchlab.practice import DiskSpec, UmlHost
from tests.bench import options

TARGET_S = 0.5
FORKS = 50
RUNS = 10
DD = {"block_size": 1 << 20, "count": 64, "oflag": ["direct"]}


def main() -> int:
    options.none(__doc__)
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    host = UmlHost("bench-engine")
    host.start([DiskSpec(512, serial="BENCH1")], memory_mb=768)
    try:
        fork = fork_ms(host)
        gaps = measure(host)
    finally:
        host.stop()
    middle = statistics.median(gaps)
    print(
        f"engine overhead per run: median {middle:.2f} s, worst {max(gaps):.2f} s, target {TARGET_S:g} s;"
        f" a program that does nothing takes {fork:.0f} ms there"
    )
    return int(middle > TARGET_S)


def fork_ms(rig: UmlHost) -> float:
    """Cost of starting a program on the host, in ms."""
    loop = f"TIMEFORMAT=%R; time for n in $(seq {FORKS}); do /bin/true; done"
    return float(rig.ssh("bash", "-c", loop).stderr.split()[-1]) / FORKS * 1000


def measure(rig: UmlHost) -> list[float]:
    """Seconds between the end of each run's tool and the start of the next one's."""
    from benchlab.runs.models import Attempt
    from tests.runs import drive

    campaign = make_campaign(rig)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 600)
    rows = list(Attempt.objects.filter(run__campaign=campaign).order_by("run__position"))
    bad = [row.reason_text for row in rows if row.outcome != "succeeded"]
    assert not bad, bad
    return [
        after.meta["started_mono"] - before.meta["ended_mono"]
        for before, after in itertools.pairwise(rows)
    ]


def make_campaign(rig: UmlHost):
    from django.contrib.auth.models import User

    from benchlab.campaigns.models import Workload
    from benchlab.engine.new_runs import create_campaign
    from benchlab.hosts import discovery, registration, spare_disks, ssh_access
    from benchlab.hosts.models import Device
    from benchlab.team.services import join_first_team
    from benchlab.topologies.models import Topology

    user = User.objects.create_user(f"bench-{rig.port}")
    team = join_first_team(user)
    key = registration.upload_credential(team, f"bench {rig.port}", rig.key_path.read_text())
    host = registration.add_host(team, f"bench {rig.port}", "127.0.0.1", key, port=rig.port)
    ssh_access.offer_key(host)
    ssh_access.confirm_key(host, ssh_access.fingerprints(host)[1])
    discovery.read_facts(host)
    disk = Device.objects.get(host=host, name="ubdb")
    spare_disks.mark_spare(disk, user, disk.confirmation, "ssd")
    stack = [
        {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]}
    ]
    return create_campaign(
        team=team, user=user, name="bench", question="", hosts=[host],
        topologies=[Topology.objects.create(team=team, name=f"raw {rig.port}", stack=stack)],
        workloads=[Workload.objects.create(team=team, name=f"dd {rig.port}", tool="dd", options=DD)],
        repeats=RUNS, order="as_written", seed=1,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

"""A finished campaign of sweeps of any shape, made by the database itself; rates saturate as those of disks do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product

from django.contrib.auth.models import User

from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Credential, Host
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from tests.bench import lab_data


@dataclass(frozen=True)
class Shape:
    """Numbers of each; depths are powers of two from 1. A layout is a topology built on a host."""

    hosts: int = 1
    topologies: int = 1
    workloads: int = 1
    depths: int = 6
    repeats: int = 3

    @property
    def runs(self) -> int:
        return self.hosts * self.topologies * self.workloads * self.depths * self.repeats

    def __str__(self) -> str:
        return ", ".join(f"{number} {noun}" for noun, number in asdict(self).items() if number > 1)


RUNS = """
INSERT INTO campaigns_run (campaign_id, host_id, topology_id, workload_id, tool, options, point, scheduler, stage,
                           outstanding, repeat, visit, position, expected_s)
SELECT l.campaign_id, l.host_id, l.topology_id, w, 'fio',
       jsonb_build_object('rw', 'randread', 'bs', '4k', 'iodepth', 1 << d), jsonb_build_object('iodepth', 1 << d),
       '', '', 1 << d, r, 1, row_number() OVER (ORDER BY l.position, w, r, d), 60
FROM runs_layout l, unnest(%(workloads)s) AS w, generate_series(0, %(depths)s - 1) AS d,
     generate_series(1, %(repeats)s) AS r
WHERE l.campaign_id = %(campaign)s
"""
ATTEMPTS = """
INSERT INTO runs_attempt (run_id, layout_id, number, phase, outcome, reason, reason_text, argv, tool_version, boot_id,
                          fingerprint, meta, windows, degraded, course, timeout_s, created_at, started_at, ended_at)
SELECT r.id, l.id, 1, 'done', 'succeeded', '', '', '["fio", "job.ini"]', 'fio-3.33', 'boot',
       md5(concat(l.id, r.outstanding, r.workload_id)), '{}', '[]', '[]', '{"state": "steady"}', 60, now(),
       now() - r.position * interval '1 minute', now()
FROM campaigns_run r JOIN runs_layout l USING (campaign_id, host_id, topology_id)
WHERE r.campaign_id = %(campaign)s
"""
# Layouts are up to three times apart; of single runs 3 % are noise. Latencies follow by Little's law.
MEASUREMENTS = """
INSERT INTO runs_measurement (attempt_id, name, value, unit, labels, note, line, output)
SELECT a.id, f.name, f.value, f.unit, '{}', '', 0, ''
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id,
     LATERAL (SELECT (20000 + 40000 * ((r.topology_id * 7 + r.host_id * 3) %% 11) / 10.0)
                     * (1 - exp(-r.outstanding / (4.0 + r.topology_id %% 5))) * (0.97 + 0.06 * random()) AS iops) AS i,
     LATERAL (VALUES ('iops', i.iops, 'op/s'), ('bandwidth', i.iops * 4096, 'B/s'),
                     ('lat.mean', r.outstanding / i.iops, 's'), ('clat.mean', 0.98 * r.outstanding / i.iops, 's'),
                     ('clat.p50', 0.9 * r.outstanding / i.iops, 's'), ('clat.p99', 3.1 * r.outstanding / i.iops, 's'),
                     ('clat.p99.9', 7.9 * r.outstanding / i.iops, 's')) AS f (name, value, unit)
WHERE r.campaign_id = %(campaign)s
"""
HISTOGRAMS = """
INSERT INTO runs_histogram (attempt_id, name, labels, lows, highs, counts)
SELECT a.id, 'read.clat', '{}', array_agg(1e-4 * 1.1 ^ n ORDER BY n), array_agg(1e-4 * 1.1 ^ (n + 1) ORDER BY n),
       array_agg(round(1000 * exp(-(((n - 20.0 - r.topology_id %% 5) / 8) ^ 2))) + 1 ORDER BY n)
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id, generate_series(0, 59) AS n
WHERE r.campaign_id = %(campaign)s GROUP BY a.id, r.topology_id
"""


def sweeps(user: User, shape: Shape) -> int:
    """A campaign of this shape with figures and histograms, finished; its id."""
    team = user.teams.get()
    key, _ = Credential.objects.get_or_create(
        team=team, name="key", defaults={"public_key": "x", "private_key": b"x"}
    )
    mark = Campaign.objects.count()
    hosts = Host.objects.bulk_create(
        Host(team=team, name=f"vm-{mark}-{n}", address=f"192.0.2.{n % 250}", credential=key)
        for n in range(shape.hosts)
    )
    topologies = Topology.objects.bulk_create(
        Topology(team=team, name=f"stripe of {n} disks, {mark}", stack=[])
        for n in range(1, shape.topologies + 1)
    )
    loads = Workload.objects.bulk_create(
        Workload(team=team, name=f"randread {4 << n} KiB, {mark}", tool="fio")
        for n in range(shape.workloads)
    )
    campaign = Campaign.objects.create(
        team=team, name=f"Sweeps {shape}", seed=1, repeats=shape.repeats
    )
    Layout.objects.bulk_create(
        Layout(campaign=campaign, host=host, topology=topology, stack=[], phase="done",
               outcome="succeeded", tag="aaa", position=position)
        for position, (topology, host) in enumerate(product(topologies, hosts))
    )  # fmt: skip
    wanted = {
        **asdict(shape),
        "campaign": campaign.pk,
        "workloads": [row.pk for row in loads],
    }
    statements = (RUNS, ATTEMPTS, MEASUREMENTS, HISTOGRAMS)
    lab_data.run(statements, wanted, (*lab_data.TABLES, "runs_histogram"))
    return campaign.pk

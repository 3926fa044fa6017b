"""Runs to be looked at: two minutes of a host's samples each, on a stripe with a real plan and real facts."""

from __future__ import annotations

from django.contrib.auth.models import User

from agents.plans import applied_part
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Layout
from tests.bench import lab_data
from tests.topologies import plans

SECONDS = 120
STACK = [
    plans.layer("lvm", {"type": "striped"}, data=("hdd", 4)),
    plans.layer("filesystem", {"type": "xfs"}),
]
OPTIONS = """
UPDATE campaigns_run SET options = jsonb_build_object('rw', 'randread', 'size', 1 << 30, 'iodepth', outstanding,
                                                      'ramp_s', 10, 'runtime_s', 88)
WHERE campaign_id = ANY(%(campaigns)s)
"""
WINDOWS = """
UPDATE runs_attempt a SET meta = '{"clock_step": 0.001, "started_mono": 5.0, "ended_mono": 125.0}',
  windows = '[{"name": "file layout", "start": 0, "end": 20, "measured": false},
              {"name": "ramp", "start": 20, "end": 30, "measured": false},
              {"name": "measured", "start": 30, "end": 118, "measured": true}]'
FROM campaigns_run r WHERE r.id = a.run_id AND r.campaign_id = ANY(%(campaigns)s)
"""
# Figures that fit each other, among those that a lab has; 5,000 to 50,000 IOPS. A fifth of the runs reads from a cache.
FIGURES = """
DELETE FROM runs_measurement m USING runs_attempt a, campaigns_run r
WHERE m.attempt_id = a.id AND r.id = a.run_id AND r.campaign_id = ANY(%(campaigns)s)
  AND m.name IN ('iops', 'bandwidth', 'lat.mean')
"""
MORE_FIGURES = """
INSERT INTO runs_measurement (attempt_id, name, value, unit, labels, note, line, output)
SELECT a.id, f.name, CASE f.name WHEN 'lat.mean' THEN r.outstanding / i.iops ELSE f.each * i.iops END, f.unit, '{}', '',
       f.line, 'fio.json'
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id
CROSS JOIN LATERAL (SELECT 5000 + 45000 * (a.id * 7919 %% 1000) / 1000.0 AS iops) i
CROSS JOIN LATERAL (VALUES ('iops', 1, 'op/s', 1), ('read.iops', 1, 'op/s', 2), ('bandwidth', 4096, 'B/s', 3),
                   ('read.bandwidth', 4096 * CASE a.id %% 5 WHEN 0 THEN 3 ELSE 1 END, 'B/s', 4),
                   ('lat.mean', 0, 's', 5)) f(name, each, unit, line)
WHERE r.campaign_id = ANY(%(campaigns)s)
"""
# Four members, their volume, the system's disk, the host and the tool: `share` of the run's IOPS, `level` where none.
SERIES = """
INSERT INTO runs_series (attempt_id, sampler, device, metric, unit, times, values)
SELECT a.id, s.sampler, s.device, s.metric, s.unit, t.times,
       (SELECT array_agg(round(((s.share * m.value + s.level) * (0.95 + 0.1 * random()) + 0 * n)::numeric, 6)::float8)
        FROM generate_series(1, %(seconds)s) n)
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id
JOIN runs_measurement m ON m.attempt_id = a.id AND m.name = 'iops' AND m.labels = '{}'
CROSS JOIN (SELECT array_agg(n::float8 ORDER BY n) AS times FROM generate_series(1, %(seconds)s) n) t
CROSS JOIN (
  SELECT 'diskstats' AS sampler, d.device, k.metric, k.unit, d.share * k.share AS share, d.share * k.level AS level
  FROM (VALUES ('sdb', 0.25), ('sdc', 0.25), ('sdd', 0.25), ('sde', 0.25), ('dm-0', 1), ('sda', 0)) d(device, share)
  CROSS JOIN (VALUES ('read.iops', 'op/s', 1, 0), ('write.iops', 'op/s', 0.02, 0), ('read.bandwidth', 'B/s', 4096, 0),
                     ('write.bandwidth', 'B/s', 82, 0), ('await', 's', 0, 0.0003), ('queue', '1', 0, 4),
                     ('util', '1', 0, 0.9)) k(metric, unit, share, level)
  UNION ALL
  SELECT 'cpu', '', c.metric, '1', 0, c.level
  FROM (VALUES ('cpu.user', 0.1), ('cpu.system', 0.2), ('cpu.iowait', 0.3), ('cpu.idle', 0.4), ('cpu.steal', 0))
       c(metric, level)
  UNION ALL
  SELECT 'fio', '', f.metric, f.unit, f.share, f.level
  FROM (VALUES ('read.iops', 'op/s', 1, 0), ('read.bandwidth', 'B/s', 4096, 0), ('read.lat.mean', 's', 0, 0.0008))
       f(metric, unit, share, level)
) s
WHERE r.campaign_id = ANY(%(campaigns)s)
"""  # fmt: skip


def attempts(user: User, number: int) -> list[int]:
    """So many, oldest first; figures of FIGURES names each and 50 series."""
    campaigns = lab_data.runs(user, number)
    facts = plans.many_disks()
    plan = applied_part.to_json(plans.made(STACK, facts))
    told = applied_part._converter.unstructure(facts)
    for layout in Layout.objects.filter(campaign__in=campaigns):
        snapshot = FactSnapshot.objects.create(host_id=layout.host_id, facts=told)
        layout.stack, layout.plan, layout.facts_ready = STACK, plan, snapshot
        layout.save()
    wanted = {"campaigns": campaigns, "seconds": SECONDS}
    lab_data.run((OPTIONS, WINDOWS, FIGURES, MORE_FIGURES, SERIES), wanted)
    found = Attempt.objects.filter(run__campaign__in=campaigns).order_by("pk")
    return list(found.values_list("pk", flat=True))

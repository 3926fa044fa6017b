"""A lab of any size, made by the database itself: campaigns of 100 runs, 40 figures each; series of 16 devices."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Credential, Host
from benchlab.runs.models import Attempt, Layout
from benchlab.team.models import Membership, Team
from benchlab.topologies.models import Topology

RUNS_EACH = 100  # runs of one campaign, and of its one layout
FIGURES = 40  # of one attempt
DEVICES, METRICS = 16, 10

# Six lines of six depths in three repeats.
RUNS = """
INSERT INTO campaigns_run (campaign_id, host_id, topology_id, workload_id, tool, options, point, scheduler, stage,
                           outstanding, repeat, visit, position, expected_s)
SELECT c.id, %(host)s, %(topology)s, %(workload)s, 'fio',
       jsonb_build_object('rw', 'randread', 'bs', '4k', 'iodepth', 1 << (n %% 6)),
       jsonb_build_object('iodepth', 1 << (n %% 6), 'n', n / 18), '', '', 1 << (n %% 6), 1 + n / 6 %% 3, 1, n, 60
FROM unnest(%(campaigns)s) AS c(id), generate_series(0, %(each)s - 1) AS n
"""
ATTEMPTS = """
INSERT INTO runs_attempt (run_id, layout_id, number, phase, outcome, reason, reason_text, argv, tool_version, boot_id,
                          fingerprint, meta, windows, degraded, course, timeout_s, created_at, started_at, ended_at)
SELECT r.id, l.id, 1, 'done', 'succeeded', '', '', '["fio", "job.ini"]', 'fio-3.33', 'boot', md5(l.id::text), '{}',
       '[]', '[]', '{}', 60, now(), now() - r.position * interval '1 minute', now()
FROM campaigns_run r JOIN runs_layout l ON l.campaign_id = r.campaign_id
WHERE r.campaign_id = ANY(%(campaigns)s)
"""
MEASUREMENTS = """
INSERT INTO runs_measurement (attempt_id, name, value, unit, labels, note, line, output)
SELECT a.id, CASE n WHEN 0 THEN 'iops' WHEN 1 THEN 'bandwidth' WHEN 2 THEN 'lat.mean'
                    ELSE (ARRAY['read', 'write'])[1 + n %% 2] || '.clat.p' || n END,
       random() * 1e5, (ARRAY['op/s', 'B/s', 's'])[1 + n %% 3],
       CASE WHEN n < 30 THEN '{}'::jsonb ELSE jsonb_build_object('job', n %% 4) END, '', n, ''
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id, generate_series(0, %(figures)s - 1) AS n
WHERE r.campaign_id = ANY(%(campaigns)s)
"""
# The values of one attempt, each a walk of its own; the others have the same ones, so that making them takes minutes
# and not an hour. They are stored and compressed for each.
SERIES = """
INSERT INTO runs_series (attempt_id, sampler, device, metric, unit, times, values)
SELECT %(attempt)s, 'diskstats', 'sd' || chr(97 + d), 'metric' || m, 'op/s',
       (SELECT array_agg(n::float8 ORDER BY n) FROM generate_series(1, %(seconds)s) n),
       (SELECT array_agg(round((100 * random() + n * d + m)::numeric, 2)::float8)
        FROM generate_series(1, %(seconds)s) n)
FROM generate_series(0, %(devices)s - 1) d, generate_series(0, %(metrics)s - 1) m
"""
MORE_SERIES = """
INSERT INTO runs_series (attempt_id, sampler, device, metric, unit, times, values)
SELECT a, s.sampler, s.device, s.metric, s.unit, s.times, s.values
FROM unnest(%(others)s) AS a, runs_series s WHERE s.attempt_id = %(attempt)s
"""
TABLES = (
    "campaigns_campaign", "campaigns_run", "runs_layout", "runs_attempt", "runs_measurement", "runs_series",
    "team_team", "team_membership",
)  # fmt: skip


def person(name: str) -> User:
    """Of a team of their own, which owns what is made."""
    user = User.objects.create_user(name)
    Membership.objects.create(team=Team.objects.create(name=f"team of {name}"), user=user)
    return user


def runs(user: User, number: int, figures: int = FIGURES) -> list[int]:
    """That many runs in campaigns of RUNS_EACH, all of them the user's; the campaigns' ids."""
    team = user.teams.get()
    key, _ = Credential.objects.get_or_create(
        team=team, name="key", defaults={"public_key": "x", "private_key": b"x"}
    )
    host, _ = Host.objects.get_or_create(
        team=team, name="vm-09", defaults={"address": "192.0.2.9", "credential": key}
    )
    topology, _ = Topology.objects.get_or_create(
        team=team, name="lvm_cache", defaults={"stack": []}
    )
    load, _ = Workload.objects.get_or_create(team=team, name="randread 4 KiB", tool="fio")
    made = Campaign.objects.bulk_create(
        Campaign(team=team, name=f"Campaign {n}", seed=n) for n in range(number // RUNS_EACH)
    )
    Layout.objects.bulk_create(
        Layout(campaign=one, host=host, topology=topology, stack=[], phase="done",
               outcome="succeeded", tag="aaa") for one in made
    )  # fmt: skip
    campaigns = [one.pk for one in made]
    wanted = {"campaigns": campaigns, "each": RUNS_EACH, "figures": figures, "host": host.pk,
              "topology": topology.pk, "workload": load.pk}  # fmt: skip
    run((RUNS, ATTEMPTS, *([MEASUREMENTS] if figures else [])), wanted)
    return campaigns


def series(campaigns: list[int], attempts: int, seconds: int) -> int:
    """DEVICES x METRICS series of so many seconds for the first attempts; the number of values."""
    found = Attempt.objects.filter(run__campaign__in=campaigns).order_by("pk")
    first, *others = found.values_list("pk", flat=True)[:attempts]
    wanted = {
        "attempt": first,
        "others": others,
        "seconds": seconds,
        "devices": DEVICES,
        "metrics": METRICS,
    }
    run((SERIES, *([MORE_SERIES] if others else [])), wanted)
    return (1 + len(others)) * seconds * DEVICES * METRICS


def hour(user: User) -> int:
    """An attempt with an hour of each series."""
    campaigns = runs(user, RUNS_EACH, 0)
    series(campaigns, 1, 3600)
    return Attempt.objects.filter(run__campaign__in=campaigns).earliest("pk").pk


def run(
    statements: tuple[str, ...], wanted: dict[str, Any], tables: tuple[str, ...] = TABLES
) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, wanted)
        for table in tables:  # what autovacuum does in its own time
            cursor.execute(f"VACUUM ANALYZE {table}")

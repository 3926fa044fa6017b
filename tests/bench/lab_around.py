"""The rest of a lab of many runs: steps, transitions, raw output, hosts' facts, comments, the audit log."""

from __future__ import annotations

from django.contrib.auth.models import User

from tests.bench import lab_data

HOSTS = """
INSERT INTO hosts_host (team_id, name, access, address, port, "user", credential_id, host_key, offered_key, is_local,
                        notes, trouble, trouble_text, created_at)
SELECT %(team)s, 'vm-1' || n, 'dynamo', '192.0.2.9', 22, 'root', NULL, '', '', false, '', '', '', now()
FROM generate_series(100, 149) n
"""
DEVICES = """
INSERT INTO hosts_device (host_id, identity, name, model, serial, wwn, size, rotational, present, in_use, role, spare,
                          spare_model, spare_boot)
SELECT h.id, 'serial:' || n, 'sd' || n, 'FastDisk', n::text, '', 1e12::bigint, true, true, '', '', false, '', ''
FROM hosts_host h, generate_series(1, 16) n WHERE h.team_id = %(team)s
"""
SNAPSHOTS = """
INSERT INTO hosts_factsnapshot (host_id, taken_at, boot_id, digest, facts)
SELECT h.id, now() - n * interval '1 day', 'boot', '',
       jsonb_build_object('os_name', 'Debian', 'devices', (SELECT jsonb_agg(md5((i * n)::text))
                                                           FROM generate_series(1, 400) i))
FROM hosts_host h, generate_series(1, 40) n WHERE h.team_id = %(team)s
"""
STEPS = """
INSERT INTO runs_steplog (layout_id, kind, part, argv, says, destroys, exit_code, stdout, stderr, started_at, ended_at)
SELECT l.id, 'apply', '', '["lvcreate", "-L", "100g"]', 'Make a volume', '[]', 0, repeat('x', 200), '', now(), now()
FROM runs_layout l JOIN campaigns_campaign c ON c.id = l.campaign_id, generate_series(1, 30)
WHERE c.team_id = %(team)s
"""
# Of every attempt.
TRANSITIONS = """
INSERT INTO runs_transition (layout_id, attempt_id, old, new, at, reason)
SELECT a.layout_id, a.id, 'queued', 'done', a.started_at, ''
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id JOIN campaigns_campaign c ON c.id = r.campaign_id,
     generate_series(1, 4) WHERE c.team_id = %(team)s
"""
ARTIFACTS = """
INSERT INTO runs_artifact (attempt_id, name, content, size, sha256, created_at)
SELECT a.id, 'output-' || n, '\\x00', 1 + (a.id * n %% 9973), md5(a.id::text), now()
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id JOIN campaigns_campaign c ON c.id = r.campaign_id,
     generate_series(1, 3) n WHERE c.team_id = %(team)s
"""
SERIES = """
INSERT INTO runs_series (attempt_id, sampler, device, metric, unit, times, values)
SELECT a.id, 'cpu', 'cpu' || a.id %% 16, 'busy', '1', '{1,2,3}', '{0.1,0.2,0.3}'
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id JOIN campaigns_campaign c ON c.id = r.campaign_id
WHERE c.team_id = %(team)s
"""
SOURCES = """
INSERT INTO imports_source (campaign_id, name, content, size, sha256, created_at)
SELECT c.id, 'a.txt', '\\x00', c.id, md5(c.id::text), now() FROM campaigns_campaign c WHERE c.team_id = %(team)s
"""
COMMENTS = """
INSERT INTO sharing_comment (kind, object_id, team_id, text, by_id, created_at)
SELECT 'run', r.id, %(team)s, 'Look at this.', %(user)s, now() - r.id * interval '1 second'
FROM campaigns_run r JOIN campaigns_campaign c ON c.id = r.campaign_id WHERE c.team_id = %(team)s AND r.id %% 5 = 0
"""
NOTES = """
INSERT INTO sharing_note (kind, object_id, team_id, text, by_id, changed_at)
SELECT 'run', r.id, %(team)s, 'Odd disks.', %(user)s, now()
FROM campaigns_run r JOIN campaigns_campaign c ON c.id = r.campaign_id WHERE c.team_id = %(team)s AND r.id %% 5 = 0
"""
STARS = """
INSERT INTO sharing_star (kind, object_id, user_id, created_at)
SELECT 'run', r.id, %(user)s, now()
FROM campaigns_run r JOIN campaigns_campaign c ON c.id = r.campaign_id WHERE c.team_id = %(team)s AND r.id %% 50 = 0
"""
TAGS = """
WITH made AS (INSERT INTO sharing_tag (team_id, name, colour)
              SELECT %(team)s, 'tag' || n, n %% 7 FROM generate_series(1, 20) n RETURNING id)
INSERT INTO sharing_tagging (kind, object_id, tag_id)
SELECT 'campaign', c.id, made.id FROM campaigns_campaign c, made WHERE c.team_id = %(team)s
"""
SHARES = """
INSERT INTO sharing_share (team_id, kind, object_id, query, name, hide_hosts, digest, by_id, created_at, expires_at,
                           views)
SELECT %(team)s, 'campaign', c.id, '', 'a campaign', true, c.id || ' ' || %(team)s, %(user)s, now(), now(), c.id
FROM campaigns_campaign c WHERE c.team_id = %(team)s
"""
AUDIT = """
INSERT INTO audit_entry (at, actor_id, actor, via, address, team_id, action, subject, outcome, details, previous,
                         digest)
SELECT now() - n * interval '1 minute', %(user)s, 'somebody', 'page', '', %(team)s,
       (ARRAY['campaign-start', 'destroy', 'login', 'host.create', 'talk-note'])[1 + n %% 5],
       'campaign ' || n || ' (x)', 'done', '{}', '', '' FROM generate_series(1, %(entries)s) n
"""
STATEMENTS = (HOSTS, DEVICES, SNAPSHOTS, STEPS, TRANSITIONS, ARTIFACTS, SERIES, SOURCES, COMMENTS, NOTES, STARS, TAGS,
              SHARES, AUDIT)  # fmt: skip
TABLES = (
    "hosts_host", "hosts_device", "hosts_factsnapshot", "runs_steplog", "runs_transition", "runs_artifact",
    "runs_series", "imports_source", "sharing_comment", "sharing_note", "sharing_star", "sharing_tag",
    "sharing_tagging", "sharing_share", "audit_entry",
)  # fmt: skip


def fill(user: User, entries: int = 100_000) -> None:
    """For all runs that the user's team has now; `entries` of the audit log."""
    wanted = {"team": user.teams.get().pk, "user": user.pk, "entries": entries}
    lab_data.run(STATEMENTS, wanted, TABLES)

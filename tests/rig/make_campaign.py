"""A campaign of the container's only team, in a directory of one host; started. Prints its number.

Run inside a container of ours, with arguments: how many runs, the host's address, its public key, the private key that
opens it.
"""

from __future__ import annotations

import sys
import time

import django
from django.contrib.auth import get_user_model

django.setup()

from benchlab.campaigns.models import Workload  # noqa: E402
from benchlab.engine import commands  # noqa: E402
from benchlab.engine.new_runs import create_campaign  # noqa: E402
from benchlab.hosts.registration import (  # noqa: E402
    add_host,
    change_host,
    upload_credential,
)
from benchlab.team.models import Team  # noqa: E402
from benchlab.topologies.models import Topology  # noqa: E402

repeats, address, public, private = sys.argv[1:]
user = get_user_model().objects.get(username="admin")
team = Team.objects.get(members=user)
host = add_host(team, "measured", address, upload_credential(team, "key", private))
change_host(host, host_key=public)
stack = [{"kind": "directory", "options": {"path": "/srv"}, "devices": []}]
work = {"rw": "write", "size": 1 << 20, "runtime_s": 5, "ioengine": "psync", "direct": False}
campaign = create_campaign(
    team=team, user=user, name="in containers", question="", hosts=[host],
    topologies=[Topology.objects.create(team=team, name="directory", stack=stack)],
    workloads=[Workload.objects.create(team=team, name="fio", tool="fio", options=work)],
    repeats=int(repeats), order="as_written", seed=1,
)  # fmt: skip
commands.request_plans(campaign)
until = time.monotonic() + 120
while campaign.layouts.filter(planned_at=None).exists():
    assert time.monotonic() < until, "no worker planned it"
    time.sleep(0.2)
commands.start_campaign(campaign, dict(campaign.layouts.values_list("pk", "plan_fingerprint")))
print(campaign.pk)

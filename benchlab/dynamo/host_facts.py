# SPDX-License-Identifier: Apache-2.0
"""Facts of a host that only dynamo reaches: what dynamo reported, in the form of any other host's facts."""

from __future__ import annotations

import cattrs

from agents.facts.model import HostFacts, Mount
from agents.layers.reported import FAMILY, RAW
from benchlab.hosts.models import FactSnapshot, Host

ACCESS = Host.Access.DYNAMO.value


def store_snapshot(host: Host, processors: int | None = None) -> FactSnapshot:
    """Store a snapshot of the host as reported. `processors`: as in the last login; None: as before."""
    latest = host.snapshots.first()
    if processors is None:
        processors = int(latest.facts["cpus"]) if latest else 0
    facts = HostFacts(
        hostname=host.name,
        os_family=FAMILY,
        os_name="known to dynamo only",
        kernel="",
        arch="",
        boot_id="",
        cpu_model="",
        cpus=processors,
        memory=0,
        root=False,
        sudo=False,
        mounts=tuple(
            Mount(row.name, row.name, RAW if row.raw else "file", "spare" if row.spare_at else "")
            for row in host.reported.filter(present=True)
        ),
    )
    plain = cattrs.unstructure(facts)
    if latest is not None and latest.facts == plain:
        return latest
    return FactSnapshot.objects.create(host=host, facts=plain)

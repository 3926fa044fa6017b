# SPDX-License-Identifier: Apache-2.0
"""Layouts of a host: the one that holds it, and the names by which a volume's owner is recognised."""

from __future__ import annotations

from django.db.models import Q

from benchlab.hosts.blocks import LayoutNames
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs.models import Layout, installation_tag
from benchlab.runs.states import HOLDING


def holding_layout(host: Host) -> Layout | None:
    """The layout that holds the host now."""
    layouts = host.layouts.holding().select_related("campaign", "topology")
    return layouts.first()


def layout_names(host: Host, snapshot: FactSnapshot) -> LayoutNames:
    """Names of our layouts on the host, with those that may have stood there when it was read as `holding`."""
    holds = Q(phase__in=HOLDING) | Q(ended_at__gte=snapshot.read_at)
    now = host.layouts.filter(holds, created_at__lte=snapshot.read_at)
    held = frozenset(row.name for row in now.only("pk", "tag"))
    every = frozenset(row.name for row in host.layouts.only("pk", "tag"))
    return LayoutNames(held, every - held, installation_tag())

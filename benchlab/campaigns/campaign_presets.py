# SPDX-License-Identifier: Apache-2.0
"""Whole campaigns that are ready to use: a question, topologies and workloads by their presets. Hosts are chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CampaignPreset:
    slug: str
    name: str
    question: str
    says: str
    # slugs in benchlab/topologies/presets.py
    topologies: tuple[str, ...]
    # slugs in presets.py
    workloads: tuple[str, ...]
    repeats: int = 1
    # what a person sets by hand is not set back and forth
    order: str = "as_written"


ALL_PRESETS = (
    CampaignPreset(
        "article-002",
        "Article 002: host cache of cloud disks, by IOmeter",
        "What do the host cache's settings do to 8 KiB I/O, half random and half writes, on a cloud's HDD and SSD, "
        "over 1 to 16 outstanding I/Os?",
        "IOmeter's dynamo on an HDD and an SSD, each with the host cache off, read-only and read/write: a person sets "
        "it, the campaign waits. Six layouts with five points of 10 min after a 30 s ramp: about 5 h 20 min.",
        tuple(
            f"cloud-{role}-{cache}"
            for role in ("hdd", "ssd")
            for cache in ("none", "read", "read-write")
        ),
        ("article-002-iometer",),
    ),
)
PRESETS = {preset.slug: preset for preset in ALL_PRESETS}

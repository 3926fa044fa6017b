"""Samples beside a run: every sampler's files, and the commands that are meant for that family of hosts."""

from __future__ import annotations

from agents.contracts import Watch
from agents.drivers import registry


def test_a_command_runs_on_its_own_family_of_hosts_only():
    (iostat,) = registry.all_samplers()["freebsd_iostat"].WATCHES
    assert isinstance(iostat, Watch) and iostat.lasting
    assert iostat in registry.sampled_sources("freebsd")
    assert iostat not in registry.sampled_sources("debian")
    for family in ("debian", "freebsd"):
        assert {"/proc/diskstats", "/proc/stat"} <= set(registry.sampled_sources(family))

"""A host with FreeBSD: its layouts are planned and checked by its own programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.contracts import AgentError, Reason
from agents.facts.model import HostFacts
from benchlab.engine.checks import planning
from benchlab.hosts import discovery, spare_disks
from benchlab.topologies import host_shapes
from tests.agents.freebsd_host import DISK, MadeMesh, article_001, read
from tests.topologies.plans import layer

pytestmark = pytest.mark.django_db
GIB = 1 << 30


def able(made: MadeMesh, *programs: str) -> HostFacts:
    tools = dict.fromkeys(programs, "1")
    return replace(read(made), tools=tools, zfs_module="2.2")


@pytest.fixture
def plan(make_layout, user):
    """Plans a stack on a host whose disks, but the system's, are spare: SSDs those that say so."""

    def make(stack, facts: HostFacts):
        layout = make_layout()
        layout.stack = stack
        discovery.store_facts(layout.host, facts)
        for device in layout.host.devices.filter(in_use=""):
            role = "ssd" if device.rotational is False else "hdd"
            spare_disks.mark_spare(device, user, device.confirmation, role)
        return planning.plan_layout(layout, facts)

    return make


def twelve_and_an_ssd() -> MadeMesh:
    made = article_001(0).disk("ada0", 64 * GIB, ident="FAST-1", rotationrate="0")
    for number in range(1, 13):
        made.disk(f"da{number}", DISK, ident=f"SLOW-{number:02}", rotationrate="7200")
    return made


def test_partitions_are_cut_by_gpart(plan):
    facts = able(twelve_and_an_ssd(), "gpart")
    made = plan([layer("partition", data=("ssd", 1)), layer("raw")], facts)
    assert ("gpart", "create", "-s", "gpt", "/dev/ada0") in [step.argv for step in made.steps]


def test_the_pool_of_twelve_with_its_log_on_an_ssd_is_planned(plan):
    facts = able(twelve_and_an_ssd(), "gpart", "zpool", "zfs")
    made = plan(host_shapes.PRESETS["zpool-12-slog"].stack, facts)
    create = next(step.argv for step in made.steps if step.argv[:2] == ("zpool", "create"))
    assert f"/dev/gpt/{made.layers[0].gives.name}-log-1" in create


def test_without_gpart_it_is_gpart_that_is_missing(plan):
    with pytest.raises(AgentError, match=r"lab1 has no gpart; no package is known") as raised:
        plan([layer("partition", data=("ssd", 1)), layer("raw")], able(twelve_and_an_ssd()))
    assert raised.value.reason is Reason.TOOL_MISSING

# SPDX-License-Identifier: Apache-2.0
"""Copy this file to agents/layers/<kind>.py, add tests/cases/layers/<kind>/<case>.json, run the tests.

One sentence on what the layer is, then the manual or article that its commands come from. A layer only describes: it
never runs anything, reads no clock, file or setting. `agents.plans.stack` gives it a Target, `agents.safety.apply` runs
the Steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.contracts import Need, OptionsError, Plan, Step, Target, Use
from agents.facts.model import HostFacts
from agents.options import option
from agents.steps.common import is_claimed, settle, single_disk, wipe

# name shown to users
LABEL = "Read-ahead"
# programs on the host
NEEDS = (Need("blockdev", {"debian": "util-linux"}),)
# purposes of its disks; {} without any
USES = {"data": Use("the disk", most=1)}
# kind of target below it: see agents/drivers/protocols.py
REQUIRES = "devices"
# kind of target for the layer above
PROVIDES = "volume"


@dataclass(frozen=True, slots=True)
class Options:
    """The form and the JSON schema. What depends on several fields is checked in __post_init__."""

    sectors: int = option(256, "Read ahead, in sectors of 512 bytes", minimum=0)

    def __post_init__(self) -> None:
        if self.sectors % 8:
            raise OptionsError("sectors: must be a multiple of 8 (4 KiB)")


def required_programs(options: Options) -> tuple[Need, ...]:
    """The programs in NEEDS that these options require."""
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Steps in order. What a Step writes to it claims (`destroys`), or the guard refuses it.

    Choose every name yourself, beginning with `target.name` ("bl17-…"), and every UUID by `uuids.uuid_of`: no Step
    may need the output of another. A program or script that no other layer has: see COMMANDS and SCRIPTS in
    agents/drivers/protocols.py, and dm_crypt.py for both.
    A Step's `undo` is run when a later Step fails.
    """
    disk = single_disk(target, "data")
    argv = ("blockdev", "--setra", str(options.sectors), disk.node)
    steps = (
        wipe(disk.node, (disk,)),
        settle(),
        Step(argv, f"Read ahead {options.sectors} sectors", destroys=(disk,)),
    )
    return Plan(steps, replace(target, volume=disk.node, size=disk.size))


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Steps from the top down that remove what exists by the facts, and erase its signatures. Safe to run twice."""
    disk = single_disk(target, "data")
    return [wipe(disk.node, (disk,))] if is_claimed(disk, facts) else []


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Differences between plan and host; [] if there are none. An exit code alone proves nothing."""
    disk = single_disk(target, "data")
    return [] if is_claimed(disk, facts) else [f"{disk.node} is not {disk.identity} any more"]

# SPDX-License-Identifier: Apache-2.0
"""A disk or file as dynamo itself reports it, on a host that only dynamo reaches. Nothing is built."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agents.contracts import Need, OptionsError, Plan, PlanError, Step, Target, Use
from agents.dynamo import specs
from agents.facts.model import HostFacts

LABEL = "As dynamo reports it"
NEEDS: tuple[Need, ...] = ()
USES: dict[str, Use] = {}
REQUIRES = "nothing"
PROVIDES = "mount"
# HostFacts.os_family of a machine of which only dynamo tells
FAMILY = "dynamo"
# among Target.notes: only dynamo knows that name
NOTE = "as dynamo reports it"
# Mount.fstype of a whole disk
RAW = "raw"


@dataclass(frozen=True, slots=True)
class Options:
    target: str = field(
        metadata={"help": "its name exactly as on the host's page: /data [ext4], C:"}
    )

    def __post_init__(self) -> None:
        if not self.target.strip() or not self.target.isprintable():
            raise OptionsError("target: set one that dynamo reports")
        if len(self.target.encode("utf-8")) > 79:
            raise OptionsError("target: names of dynamo have at most 79 bytes")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Only where the host said that there is such a thing, and a person agreed to lose what is on a whole disk."""
    if facts.os_family != FAMILY:
        raise PlanError("this is for hosts that only dynamo reaches: on others, build on disks")
    target_mount = next((mount for mount in facts.mounts if mount.target == options.target), None)
    if target_mount is None:
        raise PlanError(f"dynamo on {facts.hostname} does not report {options.target}")
    if target_mount.fstype == RAW and target_mount.options != "spare":
        raise PlanError(
            f"{options.target} is a whole disk: an owner marks it spare on the host's page first"
        )
    raw = target_mount.fstype == RAW
    if not raw and specs.laid_out_short(options.target):
        raise PlanError(f"{options.target}: {specs.SHORT}")
    what = "a whole disk" if raw else "dynamo's own file on it"
    return Plan((), replace(target, mount=options.target, notes=(*target.notes, NOTE, what)))


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """No steps: only dynamo reaches that machine, and it deletes no file."""
    return []


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    if any(mount.target == options.target for mount in facts.mounts):
        return []
    return [f"dynamo does not report {options.target} any more"]

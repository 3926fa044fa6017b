# SPDX-License-Identifier: Apache-2.0
"""Kernel settings for as long as the layout stands: of its disks' queues, and of the whole host.

Sources: Documentation/ABI/stable/sysfs-block, Documentation/admin-guide/sysctl/{vm,fs}.rst, md(4),
Documentation/admin-guide/pm/cpufreq.rst. What was there before is kept with the plan and brought back at teardown.
After a reboot the kernel has its own defaults again; then only what differs from before is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.contracts import Need, OptionsError, Plan, PlanError, Step, Target, Use
from agents.facts.model import HostFacts
from agents.layers import _host_settings as host
from agents.options import option
from agents.steps import queues

LABEL = "Tuning"
NEEDS = (
    Need(
        "blockdev",
        {
            "debian": "util-linux",
            "rhel": "util-linux",
            "suse": "util-linux",
            "arch": "util-linux",
            "alpine": "blockdev",
        },
    ),
)
USES: dict[str, Use] = {}
REQUIRES = "any"
PROVIDES = "same"
LEAVE = -1
MOST = {"nomerges": 2, "rq_affinity": 2}


@dataclass(frozen=True, slots=True)
class Options:
    """A number that is LEAVE, and an empty word, leave the setting as it is."""

    scheduler: str = option(
        "",
        "I/O scheduler of every disk below: mq-deadline, kyber, bfq, none; before 5.0 also cfq, noop",
    )
    nr_requests: int = option(LEAVE, "Requests queued per disk; -1 leaves it", minimum=LEAVE)
    read_ahead_kb: int = option(
        LEAVE, "Read-ahead of every disk below, in KiB; -1 leaves it", minimum=LEAVE
    )
    volume_read_ahead_kb: int = option(
        LEAVE, "Read-ahead of the volume below (LV, array), in KiB; -1 leaves it", minimum=LEAVE
    )
    nomerges: int = option(
        LEAVE, "0 merges requests, 1 only simple ones, 2 none; -1 leaves it", minimum=LEAVE
    )
    rq_affinity: int = option(
        LEAVE,
        "Completion on the CPU group (1) or the CPU (2) that submitted; -1 leaves it",
        minimum=LEAVE,
    )
    sysctls: tuple[str, ...] = option((), "For the whole host: vm.dirty_ratio=5")
    governor: str = option("", "CPU governor for the whole host: performance, powersave, …")

    def __post_init__(self) -> None:
        host.parse_sysctls(self.sysctls)
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise OptionsError(f"{name}: {getattr(self, name)} is above {most}")
        for name in ("scheduler", "governor"):
            if not re.fullmatch(r"[a-z_-]*", getattr(self, name)):
                raise OptionsError(f"{name}: {getattr(self, name)!r} is not a valid name")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS if options.volume_read_ahead_kb != LEAVE else ()


def _wishes(options: Options) -> dict[str, str]:
    """Attribute -> value, for every disk below."""
    requested = {name: getattr(options, name) for name in queues.ATTRIBUTES}
    return {name: str(value) for name, value in requested.items() if value not in (LEAVE, "")}


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Set and keep what was. Raises PlanError for what this host has not."""
    wishes, sysctls = _wishes(options), host.parse_sysctls(options.sysctls)
    volume = options.volume_read_ahead_kb != LEAVE
    if not (wishes or sysctls or options.governor or volume):
        raise PlanError("nothing to set: set an option, or remove the layer")
    steps, original_values = queues.plan_queue_settings(wishes, target, facts)
    if volume:
        if not target.volume:
            raise PlanError("volume_read_ahead_kb: there is no volume below")
        steps.append(queues.follow(target.volume, str(options.volume_read_ahead_kb), target))
    more, more_kept = host.plan_settings(sysctls, options.governor, facts)
    return Plan(
        (*steps, *more),
        replace(target, notes=(*target.notes, *_tuning_notes(options, wishes, sysctls))),
        # What was kept before a growth is what was there first.
        {**original_values, **more_kept, **target.kept},
    )


# when what is below has grown: also on the new disks
plan_expansion = plan


def _tuning_notes(
    options: Options, wishes: Mapping[str, str], sysctls: Mapping[str, str]
) -> tuple[str, ...]:
    notes = [f"{name} {value} on every disk" for name, value in wishes.items()]
    if options.volume_read_ahead_kb != LEAVE:
        notes.append(f"read_ahead_kb {options.volume_read_ahead_kb} on the volume")
    notes += [f"{name} = {value} on the whole host" for name, value in sysctls.items()]
    if options.governor:
        notes.append(f"CPU governor {options.governor}")
    return tuple(notes)


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Bring back what was, where it differs now."""
    back = queues.restore_queues(queues.claimed_disks(target, facts), target.kept)
    return [*back, *host.restore_settings(target.kept, facts)]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Read back: the kernel rounds and clamps, and says no to nobody."""
    disks = queues.claimed_disks(target, facts)
    wrong = queues.queue_differences(_wishes(options), disks)
    if options.volume_read_ahead_kb != LEAVE:
        wish = str(options.volume_read_ahead_kb)
        wrong += queues.volume_differences(target.volume, wish, facts)
    return wrong + host.setting_differences(
        host.parse_sysctls(options.sysctls), options.governor, facts
    )


def unrestored_settings(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Settings that are not as they were before the plan, after teardown. [] is right."""
    disks = queues.claimed_disks(target, facts)
    return queues.not_restored(disks, target.kept) + host.not_restored(target.kept, facts)

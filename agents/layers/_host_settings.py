# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole host for the tuning layer: sysctls and the CPU governor. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agents.contracts import OptionsError, PlanError, Step
from agents.facts.model import HostFacts
from agents.steps import scripts

# Those that bear on storage and that facts.sh reads; none of them opens or locks the host.
ALLOWED = re.compile(
    r"vm\.(dirty_(background_)?(ratio|bytes)|dirty_(expire|writeback)_centisecs"
    r"|dirtytime_expire_seconds|swappiness|vfs_cache_pressure|min_free_kbytes|page-cluster"
    r"|zone_reclaim_mode|laptop_mode|watermark_(scale|boost)_factor|nr_hugepages)"
    r"|dev\.raid\.speed_limit_(min|max)|fs\.(aio-max-nr|file-max)|fs\.xfs\.\w+_centisecs"
)
ALLOWED_SYSCTLS = (
    "vm.dirty_*, vm.swappiness, vm.vfs_cache_pressure, dev.raid.speed_limit_*, fs.aio-max-nr"
)
# One of the two counts; setting it zeroes the other, and zero cannot be written.
PAIRS = {
    "vm.dirty_ratio": "vm.dirty_bytes",
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_background_ratio": "vm.dirty_background_bytes",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
}
# There only once the module is loaded, with these values (md(4)).
RAID = {"dev.raid.speed_limit_min": "1000", "dev.raid.speed_limit_max": "200000"}
WHOLE = "of the WHOLE HOST, until teardown"


def parse_sysctls(words: Iterable[str]) -> dict[str, str]:
    """{"vm.dirty_ratio": "5"} of "vm.dirty_ratio=5". Raises OptionsError naming the word."""
    values: dict[str, str] = {}
    for word in words:
        match = re.fullmatch(r"\s*([a-z0-9_.-]+)\s*=\s*(\d+)\s*", word)
        if match is None:
            raise OptionsError(f"sysctls: {word!r} is not NAME=NUMBER, such as vm.dirty_ratio=5")
        if not ALLOWED.fullmatch(match[1]):
            raise OptionsError(
                f"sysctls: {match[1]} cannot be set by a layout; allowed are {ALLOWED_SYSCTLS}"
            )
        if match[1] in values:
            raise OptionsError(f"sysctls: {match[1]} is set twice")
        if PAIRS.get(match[1]) in values:
            raise OptionsError(f"sysctls: {match[1]} resets {PAIRS[match[1]]}: set one of them")
        if match[1] in PAIRS and int(match[2]) == 0:
            raise OptionsError(f"sysctls: {match[1]} cannot be set to 0: set {PAIRS[match[1]]}")
        values[match[1]] = match[2]
    return values


def plan_settings(
    sysctls: Mapping[str, str], governor: str, facts: HostFacts
) -> tuple[list[Step], dict[str, str]]:
    """Steps, and what was there. Raises PlanError for what this kernel has not."""
    original_values = {}
    steps = []
    for name, value in sysctls.items():
        before = _original_value(name, facts)
        original_values[f"sysctl {before[0]}"] = before[1]
        purpose = f"Set {name} {WHOLE}, to {value}"
        argv = ("sh", "-c", scripts.SYSCTL_SET, "set", value, _sysctl_path(name))
        steps.append(Step(argv, purpose, undo=(_back(*before),)))
    if governor:
        _check_governor(governor, facts)
        original_values |= {f"governor {policy}": now for policy, now in facts.governors.items()}
        purpose = f"Set the CPU governor {WHOLE}, to {governor}"
        steps.append(
            _govern(
                governor, facts.governors, purpose, _ungovern(original_values, facts, always=True)
            )
        )
    return steps, original_values


def _original_value(name: str, facts: HostFacts) -> tuple[str, str]:
    """Name and value to write to have the setting as it was: of a pair the one that counts."""
    now = facts.sysctls.get(name, RAID.get(name, ""))
    if not now:
        raise PlanError(f"kernel {facts.kernel} of this host has no sysctl {name}")
    other = PAIRS.get(name, "")
    if now == "0" and (counts := facts.sysctls.get(other, "0")) != "0":
        return other, counts
    return name, now


def _check_governor(governor: str, facts: HostFacts) -> None:
    if not facts.governors:
        raise PlanError("governor: this host has no cpufreq (a virtual machine?): leave it out")
    if governor not in facts.governor_choices:
        available = ", ".join(facts.governor_choices)
        raise PlanError(f"governor: this host has no {governor!r}; it has {available}")


def restore_settings(original_values: Mapping[str, str], facts: HostFacts) -> list[Step]:
    steps = [
        _back(name, before)
        for name, before in _saved_values(original_values, "sysctl")
        if facts.sysctls.get(name, before) != before
    ]
    return [*steps, *_ungovern(original_values, facts)]


def _back(name: str, before: str) -> Step:
    argv = ("sh", "-c", scripts.SYSCTL_BACK, "set", before, _sysctl_path(name))
    return Step(argv, f"Set {name} back to {before}")


def _ungovern(
    original_values: Mapping[str, str], facts: HostFacts, always: bool = False
) -> tuple[Step, ...]:
    groups: dict[str, list[str]] = {}
    for policy, before in _saved_values(original_values, "governor"):
        if always or facts.governors.get(policy, before) != before:
            groups.setdefault(before, []).append(policy)
    return tuple(
        _govern(before, those, f"Set the CPU governor back to {before}")
        for before, those in groups.items()
    )


def _govern(value: str, policies: Iterable[str], purpose: str, undo: tuple[Step, ...] = ()) -> Step:
    paths = (f"/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor" for policy in policies)
    return Step(("sh", "-c", scripts.GOVERN, "set", value, *paths), purpose, undo=undo)


def setting_differences(sysctls: Mapping[str, str], governor: str, facts: HostFacts) -> list[str]:
    wrong = [
        f"{name} is {facts.sysctls.get(name, 'not there')}, not {value}"
        for name, value in sysctls.items()
        if facts.sysctls.get(name) != value
    ]
    return wrong + [
        f"CPU governor of {policy} is {now}, not {governor}"
        for policy, now in facts.governors.items()
        if governor and now != governor
    ]


def not_restored(original_values: Mapping[str, str], facts: HostFacts) -> list[str]:
    now = {f"sysctl {name}": value for name, value in facts.sysctls.items()}
    now |= {f"governor {policy}": value for policy, value in facts.governors.items()}
    return [
        f"{key} is {now[key]}, it was {before}"
        for key, before in original_values.items()
        if key in now and now[key] != before
    ]


def _saved_values(original_values: Mapping[str, str], what: str) -> list[tuple[str, str]]:
    start = f"{what} "
    return [(k.removeprefix(start), v) for k, v in original_values.items() if k.startswith(start)]


def _sysctl_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")

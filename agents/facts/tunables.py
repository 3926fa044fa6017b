# SPDX-License-Identifier: Apache-2.0
"""Tunables of a Linux host as they are now: sysctls, CPU governors, I/O schedulers to load. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

from agents.facts import sysfs
from agents.facts.sections import Section, decode_text

SYSCTL = re.compile(r"/proc/sys/((?:vm|fs|dev/raid)/.+)")
POLICY = re.compile(r"/sys/devices/system/cpu/cpufreq/(policy\d+)/scaling_(\w+)")
SCHEDULERS = {"noop", "deadline", "cfq", "mq-deadline", "kyber", "bfq"}


class Tunables(TypedDict):
    """Tunables, as fields of HostFacts."""

    sysctls: dict[str, str]
    governors: dict[str, str]
    governor_choices: tuple[str, ...]
    scheduler_modules: tuple[str, ...]


def parse_tunables(sections: Mapping[str, Section]) -> Tunables:
    contents = sysfs.parse_attributes(sections["files"]).get("", {})
    choices = dict(_cpufreq_values(contents, "available_governors")).values()
    return {
        "sysctls": sysctl_values(contents),
        "governors": cpu_governors(contents),
        "governor_choices": tuple(sorted({word for value in choices for word in value.split()})),
        "scheduler_modules": _scheduler_modules(sections.get("schedulers")),
    }


def sysctl_values(contents: Mapping[str, str]) -> dict[str, str]:
    """ "vm.dirty_ratio" -> "20". `contents`: by path, of files below /proc."""
    return {
        match[1].replace("/", "."): value
        for path, value in contents.items()
        if (match := SYSCTL.fullmatch(path))
    }


def cpu_governors(contents: Mapping[str, str]) -> dict[str, str]:
    """cpufreq policy -> governor. `contents`: by path, of files below /sys/devices/system/cpu."""
    return dict(_cpufreq_values(contents, "governor"))


def _cpufreq_values(contents: Mapping[str, str], name: str) -> Iterator[tuple[str, str]]:
    for path, value in contents.items():
        match = POLICY.fullmatch(path)
        if match and match[2] == name:
            yield match[1], value


def _scheduler_modules(section: Section | None) -> tuple[str, ...]:
    """bfq.ko.xz is bfq, kyber-iosched.ko is kyber; other files of that directory are no schedulers."""
    paths = decode_text(section.stdout).split() if section else []
    names = {path.rpartition("/")[2].partition(".ko")[0].removesuffix("-iosched") for path in paths}
    return tuple(sorted(names & SCHEDULERS))

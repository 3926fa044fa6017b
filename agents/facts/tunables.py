"""Tunables of a Linux host as they are now: sysctls, CPU governors, I/O schedulers to load. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypedDict

from agents.facts import sysfs
from agents.facts.sections import Section, text

SYSCTL = re.compile(r"/proc/sys/((?:vm|fs|dev/raid)/.+)")
POLICY = re.compile(r"/sys/devices/system/cpu/cpufreq/(policy\d+)/scaling_(\w+)")
SCHEDULERS = {"noop", "deadline", "cfq", "mq-deadline", "kyber", "bfq"}


class Tunables(TypedDict):
    """Fields of HostFacts."""

    sysctls: dict[str, str]
    governors: dict[str, str]
    governor_choices: tuple[str, ...]
    scheduler_modules: tuple[str, ...]


def read(sections: Mapping[str, Section]) -> Tunables:
    kept = sysfs.attributes(sections["files"]).get("", {})
    governors, choices = dict[str, str](), set[str]()
    for path, value in kept.items():
        match = POLICY.fullmatch(path)
        if match and match[2] == "governor":
            governors[match[1]] = value
        elif match:
            choices |= set(value.split())
    return {
        "sysctls": {
            m[1].replace("/", "."): value
            for path, value in kept.items()
            if (m := SYSCTL.fullmatch(path))
        },
        "governors": governors,
        "governor_choices": tuple(sorted(choices)),
        "scheduler_modules": _modules(sections.get("schedulers")),
    }


def _modules(section: Section | None) -> tuple[str, ...]:
    """bfq.ko.xz is bfq, kyber-iosched.ko is kyber; other files of that directory are no schedulers."""
    paths = text(section.stdout).split() if section else []
    names = {path.rpartition("/")[2].partition(".ko")[0].removesuffix("-iosched") for path in paths}
    return tuple(sorted(names & SCHEDULERS))

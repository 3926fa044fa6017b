# SPDX-License-Identifier: Apache-2.0
"""Packages for programs that a host lacks, and the one command that installs them there. Pure; installs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agents.contracts import Need
from agents.facts.model import HostFacts

# OS family -> how packages are installed without a question. On RHEL 7 dnf is not there: see `_installer`.
INSTALLERS: dict[str, tuple[str, ...]] = {
    "debian": ("apt-get", "install", "-y", "--no-install-recommends"),
    "rhel": ("dnf", "install", "-y"),
    "suse": ("zypper", "--non-interactive", "install"),
    "arch": ("pacman", "-S", "--noconfirm", "--needed"),
    "alpine": ("apk", "add"),
    "freebsd": ("pkg", "install", "-y"),
}
# Packages that drivers need not declare, as they have the same name nearly everywhere.
ELSEWHERE: dict[str, dict[str, str]] = {
    "mkfs.xfs": dict.fromkeys(("suse", "arch", "alpine"), "xfsprogs"),
    "mkfs.ext4": dict.fromkeys(("suse", "arch", "alpine"), "e2fsprogs"),
    "mkfs.btrfs": {"suse": "btrfsprogs", "arch": "btrfs-progs", "alpine": "btrfs-progs"},
    "mdadm": dict.fromkeys(("suse", "arch", "alpine"), "mdadm"),
    "lvm": dict.fromkeys(("suse", "arch", "alpine"), "lvm2"),
    "fio": dict.fromkeys(("suse", "arch", "alpine"), "fio"),
    "sgdisk": {"suse": "gptfdisk", "arch": "gptfdisk", "alpine": "sgdisk"},
    "wipefs": {"suse": "util-linux", "arch": "util-linux", "alpine": "wipefs"},
    "dd": dict.fromkeys(("suse", "arch", "alpine"), "coreutils"),
}
# Marks an installer's environment: whoever ends our processes on this machine waits for it instead.
FINISHES = {"BENCHLAB_FINISHES": "yes"}
OLD_RHEL = re.compile(r"(?:CentOS|Red Hat|Oracle|Scientific)\D*[67]\b")
# never an option
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._@-]*")
TROUBLES = (
    (
        r"Could not get lock|is another process using it|Another app is currently holding|"
        r"database is locked|Unable to lock|zypper is .*locked|unable to lock database",
        "Another package manager is running on the host. Wait until it has finished, then try again.",
    ),
    (
        r"Temporary failure resolving|Could not resolve|Network is unreachable|Failed to fetch|"
        r"Failed to download|Connection timed out|Couldn't connect|temporary error|Connection refused",
        "The host cannot reach its package servers: check its network, DNS and proxy.",
    ),
    (
        r"Unable to locate package|No match for argument|target not found|not found in package names|"
        r"unable to select packages|No packages available|has no installation candidate|No package .* available",
        "It is not in the host's package lists: refresh them (apt-get update), or add its repository.",
    ),
    (
        r"No space left|not enough free (?:disk )?space|You don't have enough free space",
        "There is not enough space on the host.",
    ),
    (
        r"are you root|must be root|need to be root|superuser|Permission denied|requires root",
        "It needs root: allow passwordless sudo for the user.",
    ),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """A program that a host lacks; `package` is "" if its package is unknown."""

    program: str
    package: str
    minimum: str = ""


@dataclass(frozen=True, slots=True)
class MissingPrograms:
    """The programs that a host lacks, each once, and the command that installs all known packages; () for none."""

    programs: tuple[Missing, ...]
    command: tuple[str, ...]

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                missing_program.package
                for missing_program in self.programs
                if missing_program.package
            )
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """The programs that no command here can install."""
        return tuple(
            missing_program.program
            for missing_program in self.programs
            if not missing_program.package
        )

    @property
    def command_line(self) -> str:
        """The command as a person types it."""
        return " ".join(self.command)

    def sentence(self, host: str) -> str:
        """One sentence with the programs that `host` lacks, and the cure; "" when nothing is missing."""
        if not self.programs:
            return ""
        program_names = [
            f"{m.program} (package {m.package})" if m.package else m.program for m in self.programs
        ]
        cures = [f"install with: {self.command_line}"] if self.command else []
        if self.unknown:
            unknown = ", ".join(self.unknown)
            cures.append(f"no package is known for {unknown} there: install it by hand")
        return f"{host} has no {', '.join(program_names)}; {'; '.join(cures)}"


def missing_programs(needs: Iterable[Need], facts: HostFacts) -> MissingPrograms:
    """The programs in `needs`, or their substitutes on this OS family, that the facts do not list."""
    needs_by_program = {need.instead.get(facts.os_family, need.program): need for need in needs}
    missing_programs = tuple(
        Missing(program, package_of(need, facts), need.minimum)
        for program, need in needs_by_program.items()
        if program and program not in facts.tools
    )
    return MissingPrograms(
        missing_programs,
        install_command([missing_program.package for missing_program in missing_programs], facts),
    )


def package_of(need: Need, facts: HostFacts) -> str:
    """The package on this OS family, "" if unknown."""
    family = facts.os_family
    return need.packages.get(family) or ELSEWHERE.get(need.program, {}).get(family, "")


def install_command(packages: Iterable[str], facts: HostFacts) -> tuple[str, ...]:
    """The argv that installs them as root without questions; () for no package or an unknown installer."""
    names = tuple(dict.fromkeys(name for name in packages if NAME.fullmatch(name)))
    installer = _installer(facts)
    return (*installer, *names) if names and installer else ()


def environment(facts: HostFacts) -> dict[str, str]:
    """Environment in which the installer asks no questions, and may run to its end."""
    quiet = {"DEBIAN_FRONTEND": "noninteractive"} if facts.os_family == "debian" else {}
    return FINISHES | quiet


def _installer(facts: HostFacts) -> tuple[str, ...]:
    installers = INSTALLERS.get(facts.os_family, ())
    if facts.os_family == "rhel" and OLD_RHEL.search(facts.os_name):
        return ("yum", *installers[1:])
    return installers


def why(output: str) -> str:
    """The cause of a failed installation, by its output, and the remedy; "" if the output shows no known problem."""
    return next((words for pattern, words in TROUBLES if re.search(pattern, output, re.I)), "")

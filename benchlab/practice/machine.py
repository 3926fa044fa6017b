# SPDX-License-Identifier: Apache-2.0
"""Requirements on the machine itself: Linux as root, Debian's kernels or QEMU, and a few tools.

Also the record of a practice host between two commands: one JSON file in its directory.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchlab.practice.disks import DiskSpec, SlowDisk
from benchlab.practice.errors import PracticeError, run_command
from benchlab.practice.process import ProcessId

KERNEL = "linux.uml"
"""User Mode Linux as Debian installs it; plain `linux` may be another program."""

QEMU = "qemu-system-x86_64"

COMPILER = "gcc"

_SHARED_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mkfs.ext4": "e2fsprogs",
}


def wide_registers(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True when the CPU has AMX, which User Mode Linux needs help with: see uml.py."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return False
    return any("amx_tile" in line.split() for line in lines if line.startswith("flags"))


def cpu_mhz(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The first CPU's clock rate as the kernel says it; "" where it does not."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    frequencies = (line.partition(":")[2].strip() for line in lines if line.startswith("cpu MHz"))
    return next(frequencies, "")


UML_TOOLS = {
    **_SHARED_TOOLS,
    KERNEL: "user-mode-linux",
    **({COMPILER: "gcc"} if wide_registers() else {}),
}
QEMU_TOOLS = {**_SHARED_TOOLS, QEMU: "qemu-system-x86", "qemu-img": "qemu-utils"}
"""Each kind of host needs these programs, which are in these Debian packages."""

ALL_TOOLS = {**UML_TOOLS, **QEMU_TOOLS}

Tools = Mapping[str, str]
Progress = Callable[[str], object]


def available(tools: Tools = UML_TOOLS) -> str | None:
    """Reason why no such host can run on this machine, or None when one can (tools may be missing)."""
    if platform.system() != "Linux":
        return f"practice hosts need Linux, this is {platform.system()}"
    if platform.machine() != "x86_64":
        return f"practice hosts are built for x86_64 only, this is {platform.machine()}"
    if os.geteuid() != 0:
        return "practice hosts need root (network namespaces, an image build): run it with sudo"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is missing: load it with `modprobe tun`, or allow it in the container"
    if (missing := missing_packages(tools)) and not _debian():
        return f"only Debian packages these as we need them; missing here: {' '.join(missing)}"
    return None


def missing_packages(tools: Tools = ALL_TOOLS) -> list[str]:
    """Debian packages whose tool is not on this machine."""
    return sorted({package for tool, package in tools.items() if not _which(tool)})


def require_tools(progress: Progress, tools: Tools = UML_TOOLS) -> None:
    """Install what is missing by apt; PracticeError when the machine cannot run a host."""
    if reason := available(tools):
        raise PracticeError(reason)
    packages = missing_packages(tools)
    if not packages:
        return
    progress(f"installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another apt may be at work on this machine: wait for its lock instead of failing.
    apt = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
    install = (*apt, "install", "--no-install-recommends", *packages)
    try:
        run_command(install, timeout=600, env=environment)
    except PracticeError:
        run_command((*apt, "update"), timeout=300, env=environment)
        run_command(install, timeout=600, env=environment)
    if still := missing_packages(tools):
        raise PracticeError(f"apt installed, but these are still missing: {' '.join(still)}")


def mirror() -> str:
    """The Debian mirror that this machine's own apt uses."""
    lines = run_command(
        ("apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)")
    )
    for line in lines.splitlines():
        words = line.split()
        # Security and debug archives hold no whole release.
        if words[:2] == ["Debian", "main"] and len(words) > 2 and _is_complete_uri(words[2]):
            return words[2]
    raise PracticeError("apt knows no Debian mirror here: run `apt-get update`, then try again")


def kernel_version() -> str:
    """The User Mode Linux kernel's release, which is also the name of its modules' directory."""
    return run_command((KERNEL, "--version")).strip()


def _is_complete_uri(uri: str) -> bool:
    return "debian-security" not in uri and "debian-debug" not in uri


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")


def _debian() -> bool:
    release = Path("/etc/os-release")
    return release.exists() and "ID=debian" in release.read_text().splitlines()


_FILE = "host.json"


@dataclass(frozen=True)
class HostRecord:
    """One host. `kind` names its class; without an `owner`, whose end makes it a leftover, it stays."""

    kind: str
    port: int
    memory_mb: int
    image: str
    machine_id: str
    disks: tuple[DiskSpec, ...]
    slow_disks: tuple[SlowDisk, ...]
    owner: ProcessId | None
    forward: ProcessId | None = None
    kernel: ProcessId | None = None

    def save(self, directory: Path) -> None:
        """Write it whole or not at all."""
        draft = directory / f"{_FILE}.new"
        draft.write_text(json.dumps(asdict(self), indent=1))
        draft.replace(directory / _FILE)

    @classmethod
    def load(cls, directory: Path) -> HostRecord | None:
        """The record in `directory`, or None when there is none that can be read."""
        try:
            raw: dict[str, Any] = json.loads((directory / _FILE).read_text())
        except (OSError, ValueError):
            return None
        # hosts made before there was another
        raw.setdefault("kind", "uml")
        raw["disks"] = tuple(DiskSpec(**disk) for disk in raw["disks"])
        raw["slow_disks"] = tuple(SlowDisk(**disk) for disk in raw["slow_disks"])
        for role in ("owner", "forward", "kernel"):
            raw[role] = ProcessId(**raw[role]) if raw[role] else None
        return cls(**raw)

    def with_kernel(self, kernel: ProcessId | None) -> HostRecord:
        """The same host under another kernel process, or powered off."""
        return replace(self, kernel=kernel)

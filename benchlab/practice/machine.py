"""What the machine itself must offer: Linux as root, Debian's User Mode Linux, and a few tools."""

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from benchlab.practice.errors import PracticeError, run

KERNEL = "linux.uml"
"""User Mode Linux as Debian installs it; plain `linux` may be another program."""

_PACKAGE_OF = {
    KERNEL: "user-mode-linux",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mkfs.ext4": "e2fsprogs",
}

Progress = Callable[[str], object]


def available() -> str | None:
    """Why no practice host can run on this machine, or None when one can (tools may be missing)."""
    if platform.system() != "Linux":
        return f"practice hosts need Linux, this is {platform.system()}"
    if platform.machine() != "x86_64":
        return f"Debian's User Mode Linux is built for x86_64 only, this is {platform.machine()}"
    if os.geteuid() != 0:
        return "practice hosts need root (network namespaces, an image build): run it with sudo"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is missing: load it with `modprobe tun`, or allow it in the container"
    if missing_packages() and not _debian():
        wanted = " ".join(missing_packages())
        return f"only Debian packages User Mode Linux as we need it; missing here: {wanted}"
    return None


def missing_packages() -> list[str]:
    """Debian packages whose tool is not on this machine."""
    return sorted({package for tool, package in _PACKAGE_OF.items() if not _which(tool)})


def require_tools(progress: Progress) -> None:
    """Install what is missing by apt; PracticeError when the machine cannot run a host."""
    if reason := available():
        raise PracticeError(reason)
    packages = missing_packages()
    if not packages:
        return
    progress(f"installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another apt may be at work on this machine: wait for its lock instead of failing.
    apt = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
    install = (*apt, "install", "--no-install-recommends", *packages)
    try:
        run(install, timeout=600, env=environment)
    except PracticeError:
        run((*apt, "update"), timeout=300, env=environment)
        run(install, timeout=600, env=environment)
    if still := missing_packages():
        raise PracticeError(f"apt installed, but these are still missing: {' '.join(still)}")


def mirror() -> str:
    """The Debian mirror that this machine's own apt uses."""
    lines = run(("apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)"))
    for line in lines.splitlines():
        origin, component, *uri = line.split()
        # Security and debug archives hold no whole release.
        if origin == "Debian" and component == "main" and uri and _whole(uri[0]):
            return uri[0]
    raise PracticeError("apt knows no Debian mirror here: run `apt-get update`, then try again")


def kernel_version() -> str:
    """The User Mode Linux kernel's release, which is also the name of its modules' directory."""
    return run((KERNEL, "--version")).strip()


def _whole(uri: str) -> bool:
    return "debian-security" not in uri and "debian-debug" not in uri


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")


def _debian() -> bool:
    release = Path("/etc/os-release")
    return release.exists() and "ID=debian" in release.read_text().splitlines()

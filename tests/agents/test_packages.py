"""Packages that a host lacks, the command that installs it, and what a failed one meant."""

from __future__ import annotations

import pytest

from agents.contracts import Need
from agents.drivers import packages
from tests.agents.local_shell import LocalShell
from tests.agents.made_up import host

FIO = Need("fio", {"debian": "fio", "rhel": "fio", "freebsd": "fio"}, minimum="3.0")
XFS = Need("mkfs.xfs", {"debian": "xfsprogs", "rhel": "xfsprogs"})
OWN = Need("flashcache", version_argv=("modinfo", "flashcache"))


@pytest.mark.parametrize(
    ("family", "name", "said"),
    [
        ("debian", "Debian GNU/Linux 12", "apt-get install -y --no-install-recommends fio xfsprogs"),
        ("rhel", "AlmaLinux 9.4", "dnf install -y fio xfsprogs"),
        ("rhel", "CentOS Linux 7 (Core)", "yum install -y fio xfsprogs"),
        ("rhel", "Red Hat Enterprise Linux Server 6.10", "yum install -y fio xfsprogs"),
        ("suse", "openSUSE Leap 15.6", "zypper --non-interactive install fio xfsprogs"),
        ("arch", "Arch Linux", "pacman -S --noconfirm --needed fio xfsprogs"),
        ("alpine", "Alpine Linux v3.20", "apk add fio xfsprogs"),
    ],
)  # fmt: skip
def test_the_command_of_each_system(family, name, said):
    found = packages.missing_programs([FIO, XFS], host(os_family=family, os_name=name))
    assert found.command_line == said


def test_what_is_there_is_not_missing():
    found = packages.missing_programs([FIO, XFS, FIO], host(tools={"fio": "fio-3.33"}))
    assert [one.program for one in found.programs] == ["mkfs.xfs"]
    assert packages.missing_programs([FIO], host(tools={"fio": ""})).sentence("lab1") == ""


def test_what_nobody_packages_is_named_and_not_commanded():
    found = packages.missing_programs([OWN, XFS], host())
    assert found.packages == ("xfsprogs",) and found.unknown == ("flashcache",)
    assert found.sentence("lab1") == (
        "lab1 has no flashcache, mkfs.xfs (package xfsprogs); install with:"
        " apt-get install -y --no-install-recommends xfsprogs;"
        " no package is known for flashcache there: install it by hand"
    )


def test_a_system_that_nobody_knows_gets_no_command():
    found = packages.missing_programs([XFS], host(os_family="plan9"))
    assert found.command == () and found.unknown == ("mkfs.xfs",)


@pytest.mark.parametrize("name", ["--force", "-y", "a b", "a;reboot", "$(id)", ""])
def test_what_is_no_package_name_is_never_commanded(name):
    assert packages.install_command([name], host()) == ()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7", "Another package manager"),
        ("error: failed to synchronize, unable to lock database", "Another package manager"),
        ("Temporary failure resolving 'mirror.example'", "cannot reach"),
        ("E: Unable to locate package fio", "package lists"),
        ("Error: Unable to find a match\nNo match for argument: fio", "package lists"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "not enough space"),
        ("E: Could not open lock file - open (13: Permission denied), are you root?", "needs root"),
        ("Segmentation fault", ""),
    ],
)  # fmt: skip
def test_what_a_failed_installer_meant(said, meant):
    assert packages.why(said).startswith(meant) if not meant else meant in packages.why(said)


def test_the_debian_command_is_taken_by_apt_itself():
    """Simulated, on this machine if it is a Debian: the options are ones that apt knows."""
    shell = LocalShell()
    if shell.run(("sh", "-c", "command -v apt-get")).exit_code:
        pytest.skip("no apt here")
    argv = packages.install_command(["no-such-package-of-benchlab"], host())
    ran = shell.run((*argv[:2], "--simulate", *argv[2:]))
    assert ran.exit_code == 100
    assert "package lists" in packages.why(ran.stderr.decode())

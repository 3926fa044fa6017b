"""A host with facts that no SSH was needed for."""

from __future__ import annotations

from typing import Any

import pytest

from agents.facts.model import BlockDevice, HostFacts, Mount, Signature
from benchlab.hosts import discovery, registration
from benchlab.hosts.models import Credential, Host


def disk(name: str, **fields: Any) -> BlockDevice:
    given: dict[str, Any] = {
        "path": f"/dev/{name}",
        "type": "disk",
        "size": 2**30,
        "majmin": f"8:{16 * (ord(name[-1]) - ord('a'))}",
        "model": "WDC WD40",
        "serial": f"S-{name}",
        "rotational": True,
        "scheduler": "mq-deadline",
        "signatures_known": True,
    }
    return BlockDevice(name=name, **(given | fields))


def facts(*devices: BlockDevice, **fields: Any) -> HostFacts:
    """A Debian host that lives on sda1, and these disks."""
    system = (
        disk("sda", holders=("sda1",)),
        disk(
            "sda1",
            type="part",
            majmin="8:1",
            serial="",
            model="",
            parents=("sda",),
            mounts=("/",),
            signatures=(Signature("ext4"),),
        ),
    )
    given: dict[str, Any] = {
        "hostname": "lab1",
        "os_family": "debian",
        "os_name": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0",
        "arch": "x86_64",
        "boot_id": "b" * 36,
        "cpu_model": "Xeon",
        "cpus": 4,
        "memory": 8 * 2**30,
        "root": True,
        "sudo": True,
        "devices": (*system, *devices),
        "mounts": (Mount("/dev/sda1", "/", "ext4", "rw", "8:1"),),
        "tools": {"fio": "fio-3.33"},
    }
    return HostFacts(**(given | fields))


@pytest.fixture
def credential(team) -> Credential:
    return registration.make_credential(team, "lab")


@pytest.fixture
def host(team, credential) -> Host:
    return registration.add_host(team, "lab1", "192.0.2.1", credential)


@pytest.fixture
def read_host(host: Host) -> Host:
    """A host with a confirmed key that was read a moment ago: sda is its system, sdb and sdc are free."""
    host.host_key = credential_key(host)
    host.save()
    discovery.store_facts(host, facts(disk("sdb"), disk("sdc", serial="", model="QEMU HARDDISK")))
    return host


def credential_key(host: Host) -> str:
    """Any well-formed public key will do as a host key."""
    return " ".join(host.credential.public_key.split()[:2])

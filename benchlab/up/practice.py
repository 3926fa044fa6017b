# SPDX-License-Identifier: Apache-2.0
"""The practice host among the hosts: the machine is booted by benchlab.practice, here it becomes one of the team's.

Its disks are files of ours that hold nobody's data, so they are marked spare, by the same checks as any other.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import User

from agents.ssh.keys import check_private_key
from benchlab.hosts import discovery, models, registration, spare_disks
from benchlab.hosts.models import Credential, Device, Host
from benchlab.installation import command
from benchlab.practice import UmlHost, boot_practice_host
from benchlab.practice.machine import HostRecord
from benchlab.practice.paths import common_dir
from benchlab.runs.states import HOLDING
from benchlab.team.models import Team
from benchlab.up.firstrun import owner
from benchlab.up.ports import LOOPBACK

Say = Callable[[str], object]
# prefix of its disks' serial numbers
FAST, SLOW = "PRACTICE-FAST", "PRACTICE-SLOW"
ROLES = {FAST: "ssd", SLOW: "hdd"}
NOTES = "A practice host: User Mode Linux on the machine that BenchLab runs on. Its disks are made to be thrown away."


def start(name: str, say: Say) -> Host:
    """Boot the host unless it runs, register it and mark its disks spare. Safe to repeat.

    Raises PracticeError, AgentError, HostsError or NotStarted, each of which says what to do.
    """
    team, user = owner()
    machine = boot_practice_host(name, say)
    host = register(machine, team)
    discovery.read_facts(host)
    say(f"{name} runs: ssh root@{LOOPBACK}, port {machine.port}. It is among the hosts now.")
    for device in mark_disks(host, user):
        say(f"  {device.name}: {device.serial}, marked spare as {device.role}; it holds nothing")
    say(f"Choose {name} in a campaign. End it with: {command('practice --stop')}")
    return host


def stop(machine: UmlHost) -> str:
    """End the machine. Its host stays registered: results refer to it, and it may be started again.

    Raises HostsError while a campaign is at work on it.
    """
    held = Host.objects.filter(name=machine.name, notes=NOTES, layouts__phase__in=HOLDING)
    if host := held.first():
        raise models.HostsError(
            f"A campaign is at work on {host.name}: cancel it or let it end, then stop the host."
        )
    if not machine.exists:
        return f"There is no practice host {machine.name}.{_shared(machine)}"
    machine.stop()
    return f"{machine.name} is stopped and its disks are gone; what was measured stays."


def status(machine: UmlHost) -> str:
    """One line that says whether the host exists, runs and is registered."""
    if not machine.exists:
        makes = command("practice")
        return f"There is no practice host {machine.name}: {makes} makes one.{_shared(machine)}"
    registered = Host.objects.filter(name=machine.name, notes=NOTES, port=machine.port).exists()
    if not machine.running:
        return f"{machine.name} is off: {command('practice')} boots it again."
    listed = "registered" if registered else "not registered"
    return f"{machine.name} runs on {LOOPBACK}, port {machine.port}, {listed}."


def _shared(machine: UmlHost) -> str:
    """Advice on a host from the time when installations shared one: its owner is unknown."""
    place = common_dir()
    if HostRecord.load(place / machine.name) is None:
        return ""
    ends = f"BENCHLAB_HOSTS={place} python3 -m benchlab.practice stop {machine.name}"
    return f" There is one that all installations shared once; if it is nobody's any more: {ends}"


def register(machine: UmlHost, team: Team) -> Host:
    """The host with the machine's present port, key and pinned host key."""
    key = credential(machine, team)
    host = team.hosts.filter(name=machine.name).first()
    if host is None:
        host = registration.add_host(
            team, machine.name, LOOPBACK, key, port=machine.port, user="root", notes=NOTES
        )
    elif host.notes != NOTES:
        raise models.HostsError(
            f"{machine.name} is another host of yours; name this one with --name."
        )
    # The machine is our own child and its key is read over its own network, so nobody need confirm it.
    now = {"port": machine.port, "credential": key, "host_key": host_key(machine)}
    if any(getattr(host, field) != value for field, value in now.items()):
        registration.change_host(host, **now)
    return host


def credential(machine: UmlHost, team: Team) -> Credential:
    """The key that the machine's image accepts; a rebuilt image accepts another one."""
    private = machine.key_path.read_text()
    public = check_private_key(private).split()[:2]
    for row in team.credentials.filter(uploaded=True):
        if row.public_key.split()[:2] == public:
            return row
    return registration.upload_credential(
        team, registration.free_key_name(team, "practice"), private
    )


def host_key(machine: UmlHost) -> str:
    """Type and key, as `change_host` pins them."""
    public_key = machine.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").stdout
    return " ".join(public_key.split()[:2])


def mark_disks(host: Host, user: User) -> list[Device]:
    """Mark its other disks spare and return them.

    Nobody need type their serials, as these disks are our own files.
    """
    marked = []
    for device in host.devices.filter(present=True, spare=False).order_by("name"):
        role = next(
            (role for begins, role in ROLES.items() if device.serial.startswith(begins)), ""
        )
        if role:
            marked.append(spare_disks.mark_spare(device, user, device.confirmation, role))
    return marked

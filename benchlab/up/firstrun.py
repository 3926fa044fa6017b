# SPDX-License-Identifier: Apache-2.0
"""The first steps that `up` takes for a newcomer: this machine as a host, and a campaign on it.

No device is touched: the campaign works in a scratch directory below the state directory.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from django.contrib.auth.models import User

from benchlab.campaigns import services as campaigns
from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import commands
from benchlab.engine.checks import previews
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import registration
from benchlab.hosts.models import Credential, Host
from benchlab.installation import command
from benchlab.team.models import Team
from benchlab.team.services import owning_team
from benchlab.topologies.models import Topology
from benchlab.topologies.services import create_topology
from benchlab.up import sshd, store_programs
from benchlab.up.bootstrap import apt_install
from benchlab.up.ports import LOOPBACK
from benchlab.up.procs import identify
from benchlab.up.state import State, read_json, write_json
from benchlab.up.trouble import Trouble

OUTSTANDING = [1, 4, 16]
# writes until the next fsync; 0: never
FSYNC_AFTER = [0, 1]
# bytes; laid out anew for each run, so small
FILE_SIZE = 128 * 2**20
# About two minutes in all: to show how it works, not to measure well.
RUNTIME_S, RAMP_S, REPEATS = 3, 1, 3
Say = Callable[[str], object]


class NotStarted(Exception):
    """The first campaign could not be started; the text says why."""


def owner() -> tuple[Team, User]:
    """The team and user that will own the host and campaign: the first administrator's. Raises NotStarted."""
    user = User.objects.filter(is_superuser=True).order_by("pk").first()
    if user is None:
        raise NotStarted(f"There is no administrator: run `{command('createsuperuser')}`.")
    return owning_team(user), user


def register_this_machine(state: State, team: Team) -> Host:
    """Register this machine over our own SSH server, with its key pinned; update address and key later."""
    host = Host.objects.filter(is_local=True).select_related("credential").first()
    port, user = read_json(state.path / "ports.json")["ssh"], pwd.getpwuid(os.geteuid()).pw_name
    if host is None:
        name = socket.gethostname()
        host = registration.add_host(
            team, name, LOOPBACK, credential(team), port=port, user=user, is_local=True
        )
    # The server's key is read from our own disk, so there is nothing for a person to confirm.
    now = {"port": port, "user": user, "host_key": sshd.host_public_key(state)}
    if any(getattr(host, field) != value for field, value in now.items()):
        registration.change_host(host, **now)
    assert host.credential is not None, "a host reached by SSH has a key"
    sshd.authorize(state, host.credential.public_key)
    return host


def credential(team: Team) -> Credential:
    name = "this machine"
    return team.credentials.filter(name=name).first() or registration.make_credential(team, name)


def nothing_was_done_yet(team: Team) -> bool:
    return not Campaign.objects.filter(team=team).exists()


def install_fio(state: State, say: Say) -> None:
    """Install fio if we may use apt. Without it the campaign uses dd only, and its page says how to get fio."""
    if shutil.which("fio") or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    say("Installing fio with apt, for the first campaign ...")

    def begun(pid: int) -> None:
        if apt := identify("apt", pid):
            write_json(state.apt, apt.as_json())

    if not apt_install([], "fio", begun=begun):
        say("fio could not be installed; the first campaign uses dd only.")


def start_campaign(state: State, host: Host, team: Team, user: User) -> Campaign:
    """Create, plan and start the campaign. Raises NotStarted with the plan's reason if it cannot run here."""
    scratch = state.path / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    campaign = create_campaign(
        team=team,
        user=user,
        name="First campaign, on this machine",
        question="What does it cost here to make each write durable?",
        hosts=[host],
        topologies=[scratch_topology(scratch, team, user)],
        workloads=workloads(scratch, team, user),
        repeats=REPEATS,
        order=Campaign.Order.RANDOM_BLOCKS,
    )
    fingerprints: dict[int, str] = {}
    for layout in campaign.layouts.all():
        previews.plan_draft(layout.pk)
        layout.refresh_from_db()
        if layout.plan_error:
            raise NotStarted(f"The first campaign cannot run here: {layout.plan_error}")
        fingerprints[layout.pk] = layout.plan_fingerprint
    commands.start_campaign(campaign, fingerprints, by=user.get_username())
    return campaign


def scratch_topology(scratch: Path, team: Team, user: User) -> Topology:
    name = "Scratch directory"
    return Topology.objects.filter(team=team, name=name).first() or create_topology(
        team=team,
        user=user,
        name=name,
        description="A directory below BenchLab's own data; no disk is touched.",
        stack=[{"kind": "directory", "options": {"path": str(scratch)}}],
    )


def workloads(scratch: Path, team: Team, user: User) -> list[Workload]:
    """The workloads: fio if it is installed, with and without fsync, which the page then compares; dd always;
    pg_test_fsync if PostgreSQL is embedded.
    """
    rows = []
    if shutil.which("fio"):
        options: dict[str, object] = {
            "rw": "randwrite",
            "size": FILE_SIZE,
            "runtime_s": RUNTIME_S,
            "ramp_s": RAMP_S,
            "direct": takes_direct(scratch),
        }
        sweep = {"iodepth": OUTSTANDING, "fsync": FSYNC_AFTER}
        name = "Random write 4 KiB, with and without fsync (fio)"
        rows.append(workload(team, user, name, "fio", options, sweep))
    blocks = {"block_size": 2**20, "count": FILE_SIZE // 2**20, "conv": ["fdatasync"]}
    rows.append(workload(team, user, "Sequential write (dd)", "dd", blocks, {}))
    if program := pg_test_fsync():
        options = {"seconds": 1, "program": program}
        rows.append(
            workload(team, user, "Synced writes (pg_test_fsync)", "pg_test_fsync", options, {})
        )
    return rows


def pg_test_fsync() -> str:
    """Path of pg_test_fsync in the PostgreSQL that `up` starts; "" without one.

    The reference library has figures of this program.
    """
    try:
        program = store_programs.postgres_directory() / "pg_test_fsync"
    except Trouble:
        return ""
    return str(program) if os.access(program, os.X_OK) else ""


def workload(
    team: Team,
    user: User,
    name: str,
    tool: str,
    options: dict[str, object],
    sweep: dict[str, list[int]],
) -> Workload:
    return Workload.objects.filter(team=team, name=name).first() or campaigns.create_workload(
        team=team, user=user, name=name, tool=tool, options=options, sweep=sweep
    )


def takes_direct(directory: Path) -> bool:
    """True if files there may bypass the page cache; an older tmpfs refuses it."""
    probe = directory / ".direct"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True

"""The first steps that `up` takes for a newcomer: this machine as a host, and a campaign on it.

No device is touched: the campaign works in a scratch directory below the state directory.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import time
from collections.abc import Callable

from django.contrib.auth.models import User

from benchlab.campaigns import services as campaigns
from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts import services as hosts
from benchlab.hosts.models import Credential, Host
from benchlab.runs import commands
from benchlab.team.models import Team
from benchlab.team.services import team_of
from benchlab.topologies.models import Topology
from benchlab.up import sshd
from benchlab.up.bootstrap import apt_install
from benchlab.up.ports import LOOPBACK
from benchlab.up.state import State, read_json

OUTSTANDING = [1, 2, 4, 8, 16]
PLANNED_WITHIN_S = 120.0
Say = Callable[[str], object]


class NotStarted(Exception):
    """The first campaign could not be started; the text says why."""


def owner() -> tuple[Team, User]:
    """Whose host and campaign it will be: the first administrator's."""
    user = User.objects.filter(is_superuser=True).order_by("pk").first()
    if user is None:
        raise NotStarted("There is no administrator: run `python3 manage.py createsuperuser`.")
    return team_of(user), user


def register_this_machine(state: State, team: Team) -> Host:
    """This machine over our own SSH server, its key pinned. Made once; address and key kept right."""
    host = Host.objects.filter(is_local=True).select_related("credential").first()
    port, user = read_json(state.path / "ports.json")["ssh"], pwd.getpwuid(os.geteuid()).pw_name
    if host is None:
        name = socket.gethostname()
        host = hosts.add_host(
            team, name, LOOPBACK, credential(team), port=port, user=user, is_local=True
        )
    # The server's key is read from our own disk, so there is nothing for a person to confirm.
    now = {"port": port, "user": user, "host_key": sshd.host_public_key(state)}
    if any(getattr(host, field) != value for field, value in now.items()):
        hosts.change_host(host, **now)
    sshd.authorize(state, host.credential.public_key)
    return host


def credential(team: Team) -> Credential:
    name = "this machine"
    return team.credentials.filter(name=name).first() or hosts.make_credential(team, name)


def nothing_was_done_yet(team: Team) -> bool:
    return not Campaign.objects.filter(team=team).exists()


def install_fio(say: Say) -> None:
    """Where apt is ours to use. Without fio the campaign is dd's alone, and its page says how to get it."""
    if shutil.which("fio") or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    say("Installing fio with apt, for the first campaign ...")
    if not apt_install([], "fio"):
        say("fio could not be installed; the first campaign uses dd only.")

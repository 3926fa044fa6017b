# SPDX-License-Identifier: Apache-2.0
"""`manage.py first_run`: what `up` does once its page answers. Safe to run at every start."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError as NotDone

from agents.contracts import AgentError
from benchlab import terminal
from benchlab.engine.commands import CommandError
from benchlab.hosts import discovery
from benchlab.hosts.models import HostsError
from benchlab.up import firstrun
from benchlab.up.state import State, state_from_environment


class Command(terminal.Command):
    # they import every page, and `up` waits for us
    requires_system_checks = []
    help = (
        "Load the reference library; register this machine as a host over our own SSH server; start the"
        " first campaign on it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-campaign", action="store_true", help="only register the host")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            call_command("load_library", verbosity=0)
        except NotDone as error:
            self.stdout.write(str(error))
        try:
            self.take(state_from_environment(), campaign=not options["no_campaign"])
        except (firstrun.NotStarted, AgentError, HostsError, CommandError) as error:
            self.stdout.write(f"This machine, as a first host: {error}")

    def take(self, state: State, campaign: bool) -> None:
        team, user = firstrun.owner()
        host = firstrun.register_this_machine(state, team)
        discovery.read_facts(host)
        if not campaign or not firstrun.nothing_was_done_yet(team):
            return
        firstrun.install_fio(state, self.stdout.write)
        started = firstrun.start_campaign(state, host, team, user)
        self.stdout.write(f"Started on this machine, no disk touched: {started}")

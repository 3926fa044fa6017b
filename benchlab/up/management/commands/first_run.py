"""`manage.py first_run`: what `up` does once its page answers. Safe to run at every start."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from benchlab.up import firstrun
from benchlab.up.state import state_from_environment


class Command(BaseCommand):
    help = "Register this machine as a host over our own SSH server; start the first campaign on it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-campaign", action="store_true", help="only register the host")

    def handle(self, *args: Any, **options: Any) -> None:
        team, user = firstrun.owner()
        host = firstrun.register_this_machine(state_from_environment(), team)
        if not options["no_campaign"] and firstrun.nothing_was_done_yet(team):
            firstrun.install_fio(self.stdout.write)
            campaign = firstrun.start_campaign(host, team, user)
            self.stdout.write(f"The first campaign was started: {campaign}")

# SPDX-License-Identifier: Apache-2.0
"""`manage.py practice`: a real Linux host with disks to throw away, booted and registered, to try layouts on."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError

from agents.contracts import AgentError
from benchlab import terminal
from benchlab.hosts.models import HostsError
from benchlab.practice import PracticeError, UmlHost, available
from benchlab.up import practice
from benchlab.up.firstrun import NotStarted


class Command(terminal.Command):
    # they import every page
    requires_system_checks = []
    help = (
        "Boot a practice host with one fast and four slow disks, and register it. Safe to repeat."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--stop", action="store_true", help="end it; its disks are gone then")
        what.add_argument("--status", action="store_true", help="say whether it runs")
        parser.add_argument("--name", default="practice", help="another name makes another host")

    def handle(self, *args: Any, **options: Any) -> None:
        # `up` may never have run here
        call_command("prepare", stdout=self.stdout)
        try:
            machine = UmlHost(options["name"])
            if options["status"]:
                self.stdout.write(practice.status(machine))
            elif reason := available():
                raise CommandError(f"No practice host here: {reason}")
            elif options["stop"]:
                self.stdout.write(practice.stop(machine))
            else:
                practice.start(machine.name, self.stdout.write)
        except PracticeError as error:
            notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
            raise CommandError(f"{error}{notes}") from None
        except (AgentError, HostsError, NotStarted) as error:
            raise CommandError(str(error)) from None

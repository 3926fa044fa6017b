# SPDX-License-Identifier: Apache-2.0
"""Listen for dynamos that log in by themselves, where the environment says so."""

from __future__ import annotations

import signal
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from benchlab import terminal
from benchlab.dynamo.listening import Listener, SettingsError
from benchlab.workers.process_counters import counters


class Command(terminal.Command):
    help = (
        "IOmeter's console on BENCHLAB_DYNAMO_LISTEN, for the addresses of BENCHLAB_DYNAMO_ALLOW."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        listen = settings.BENCHLAB_DYNAMO_LISTEN
        if not listen:
            raise CommandError("BENCHLAB_DYNAMO_LISTEN is not set: the listener is off")
        try:
            listener = Listener(
                listen, settings.BENCHLAB_DYNAMO_ALLOW, settings.BENCHLAB_DYNAMO_TEAM
            )
        except (SettingsError, OSError) as error:
            raise CommandError(str(error)) from None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: listener.request_stop())
        self.stdout.write(
            f"Listening for dynamos on {listen}. IOmeter's protocol has no passwords: keep this on a network you trust."
        )
        counters.begin("dynamo")
        listener.serve_dynamos()

# SPDX-License-Identifier: Apache-2.0
"""Our own manage.py commands: what they print of hosts and of files is plain text, whatever is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, OutputWrapper

from agents.plaintext import visible
from benchlab import compatibility

# characters at once
MOST = 100_000


class Plain(OutputWrapper):
    """Cleans before it colours, so that only our own colours reach a terminal."""

    def write(  # type: ignore[override]  # as Django's own
        self,
        msg: str = "",
        style_func: Callable[[str], str] | None = None,
        ending: str | None = None,
    ) -> None:
        super().write(visible(msg, MOST), style_func, ending)


class Command(BaseCommand):
    """The base of every command of ours. `any_database`: also of a newer BenchLab, which it does not write to."""

    any_database = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stdout, self.stderr = Plain(self.stdout), Plain(self.stderr)  # type: ignore[arg-type]
        self.stderr.style_func = self.style.ERROR

    def execute(self, *args: Any, **options: Any) -> str | None:
        # Django would put its own wrappers in their place.
        if (out := options.pop("stdout", None)) is not None:
            self.stdout = Plain(out)
        if (err := options.pop("stderr", None)) is not None:
            self.stderr = Plain(err)
        if not self.any_database and (problem := compatibility.unfit()):
            raise CommandError(problem)
        return super().execute(*args, **options)

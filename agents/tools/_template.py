# SPDX-License-Identifier: Apache-2.0
"""A tool driver to copy: `sync`, which writes back the page cache, timed by the shell.

Copy to `agents/tools/<kind>.py`; the file name is the kind, nothing is registered. Then add
`tests/cases/tools/<kind>/`: outputs of real runs, with `.expected.json`, among them an empty and a truncated
one and one of a failed run. All functions are pure: no clock, no file, no host.

A tool that lays out files, warms up, or does one test after the other should have `windows`, too
(agents.drivers.protocols.MeasuredWindows): means of devices are over what was measured. `_scripts` has the shell
functions for a script of its own; dd is short.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agents.command_forms import PATH
from agents.contracts import Job, Metric, Need, OptionsError, ParseError, Target, Unit
from agents.options import option

LABEL = "sync"
NEEDS = (Need("sync", {"debian": "coreutils", "rhel": "coreutils"}),)
# sh sync.sh REPEATS DIRECTORY
SCRIPT = b'set -e\nn=$1\nwhile [ "$n" -gt 0 ]; do sync -f "$2"; n=$((n - 1)); done\ntimes\n'
# What its arguments are that are no names: of a script that is not told every word could be a stranger's disk.
SCRIPTS = {SCRIPT: (r"\d+", PATH)}


@dataclass(frozen=True, slots=True)
class Options:
    # choices and minimum are checked by agents/options.py; with the unit they are shown in the form. A field that
    # makes the outstanding I/Os has depth=True: a sweep over it is a curve.
    repeats: int = option(1, "how often to sync", minimum=1)

    def __post_init__(self) -> None:
        # only what depends on several fields, or on a value's form, belongs here
        if self.repeats > 1000:
            raise OptionsError(f"repeats: {self.repeats} is above 1000")


def build_job(options: Options, target: Target) -> Job:
    """One argv, quoted elsewhere. What needs a shell comes as a script in `inputs`, its arguments in argv."""
    if not target.mount:
        raise OptionsError(f"target {target.name!r} has no mount point to sync")
    return Job(
        argv=("sh", "sync.sh", str(options.repeats), target.mount),
        inputs={"sync.sh": SCRIPT},
        env={"LC_ALL": "C"},
        expected_s=float(options.repeats),
        writes=0,
    )


def build_precheck(options: Options, target: Target) -> Job | None:
    """A quick run that touches no data and fails when the options are wrong; None where the tool has no such."""
    return None


def outstanding_ios(options: Options) -> int | None:
    """Outstanding I/Os; None where the tool does not say."""
    return None


def parse(outputs: Mapping[str, bytes], options: Options) -> list[Metric]:
    """Read strictly; whatever is not understood is a ParseError with its line, never a number."""
    text = outputs.get("stdout", b"").decode("utf-8", "replace")
    match = re.search(r"^(\d+)m(\d+(?:\.\d+)?)s (\d+)m(\d+(?:\.\d+)?)s\s*\Z", text, re.MULTILINE)
    if match is None:
        line = text.count("\n") + 1
        raise ParseError("the times of the children are missing", line, text[-80:])
    seconds = float(match[3]) * 60 + float(match[4])
    return [Metric("cpu.seconds", seconds, Unit.SECONDS)]

# SPDX-License-Identifier: Apache-2.0
"""Places in a tool's job where the name of a mapping can be: agents/safety/name_places.py's sister for jobs. Pure.

A mapping that people named `data`, `1` or `sync` is a word of every job file and of our own scripts, too. Known are
the whole forms of what the drivers in agents/tools give: their scripts word for word with the arguments that these take
(each driver's own `SCRIPTS`); and here fio's job file line by line, the strings of dynamo's configuration. In whatever
else a job holds, a person's own script above all, every word can be a name. Kernel names, numbers and paths of devices
are looked for in every word in any case (agents/safety/mentions.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from agents.contracts import OptionsError
from agents.drivers import registry
from agents.dynamo import bundle
from agents.outputs import fio_jobfile as jobfile
from agents.tools import fio

# Commands that take nothing but files of the job's own directory.
PLAIN = {
    ("fio", "--output-format=json+", f"--output={fio.RESULT}", "--eta=never", "job.fio"),
    ("sh", "command.sh"),
    ("sh", "-n", "command.sh"),
    ("python3", bundle.NAME, "run", "config.json"),
    ("python3", bundle.NAME, "check", "config.json"),
}
# What the driver itself adds to a job file. Of `directory` and `filename` the value can be a name.
ADDED = re.compile(
    r"(?:unlink|allow_file_create|per_job_logs|invalidate)=[01]|log_(?:avg|hist)_msec=\d+"
    r"|write_(?:bw|iops|lat|hist)_log=fio"
)
# the program in PATH, and how IOmeter writes an access
ACCESS = re.compile(r"dynamo|\d+(?:,\d+)*")
SECTION = re.compile(r"\[[A-Za-z0-9_][A-Za-z0-9_. -]*\]")


def names_in(argv: Sequence[str], files: Mapping[str, bytes]) -> list[str | None]:
    """The part of each word, then of each file, that can be a name; None: all of it."""
    return [
        *_job_words(argv, files),
        *(_decode_content(name, content) for name, content in files.items()),
    ]


def _job_words(argv: Sequence[str], files: Mapping[str, bytes]) -> list[str | None]:
    if tuple(argv) in PLAIN:
        return [""] * len(argv)
    script = files.get(argv[1], b"") if len(argv) > 1 and argv[0] == "sh" else b""
    scripts = registry.tool_scripts()
    if script not in scripts:
        return [None] * len(argv)
    kinds, arguments = scripts[script], argv[2:]
    argument_kinds = [kinds[min(at, len(kinds) - 1)] for at in range(len(arguments))]
    plain = (re.fullmatch(kind, word) for kind, word in zip(argument_kinds, arguments, strict=True))
    return ["", "", *("" if is_plain else None for is_plain in plain)]


def _decode_content(name: str, content: bytes) -> str | None:
    if content in registry.tool_scripts() or (
        name == bundle.NAME and content == bundle.build_bundle()
    ):
        return ""
    try:
        text = content.decode()
        if name == "job.fio":
            return "\n".join(map(_setting, text.split("\n")))
        if name == "config.json":
            strings = _strings(json.loads(text))
            return "\n".join(string for string in strings if not ACCESS.fullmatch(string))
        return None
    except (ValueError, RecursionError):
        return None


def _setting(line: str) -> str:
    """The part of a line that can name a file: nothing of a section or of a setting of fio itself."""
    if SECTION.fullmatch(line) or ADDED.fullmatch(line):
        return ""
    key, equals, value = line.partition("=")
    try:
        jobfile.check_setting(key, value if equals else None, "")
    except OptionsError:
        return value if key in ("directory", "filename") else line
    return ""


def _strings(value: object) -> list[str]:
    """Every string that is a value, however deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [string for member in value for string in _strings(member)]
    return []

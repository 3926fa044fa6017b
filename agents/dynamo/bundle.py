# SPDX-License-Identifier: Apache-2.0
"""The console as one file that any Python 3.6 or later on a host can run: a zip of the modules named here."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib.resources import files

NAME = "console.pyz"
HOSTSIDE = (
    "account",
    "areas",
    "calibrate",
    "console",
    "driver",
    "figures",
    "hostfacts",
    "link",
    "messages",
    "process",
    "results",
    "script",
    "specs",
    "summary",
    "transcript",
    "wire",
)
MAIN = "from agents.dynamo.driver import entry\n\nentry()\n"


@cache
def sources() -> dict[str, str]:
    """Every file of the bundle by its path in it."""
    package = files("agents.dynamo")
    modules = {
        f"agents/dynamo/{name}.py": (package / f"{name}.py").read_text() for name in HOSTSIDE
    }
    return {
        "agents/__init__.py": "",
        "agents/dynamo/__init__.py": "",
        "__main__.py": MAIN,
        **modules,
    }


@cache
def build_bundle() -> bytes:
    """Build the bundle, with the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as whole:
        for name, text in sorted(sources().items()):
            # The guard reads a job's files as text: ours name /dev in general, but no disk.
            whole.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
